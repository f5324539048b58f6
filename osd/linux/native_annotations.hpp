// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

/// Visible outside the shared library.
#define OSD_EXPORT __attribute__((visibility("default")))
/// Takes arguments as printf does.
#define OSD_PRINTF(format_index, first_argument)                                                   \
    __attribute__((format(printf, format_index, first_argument)))
