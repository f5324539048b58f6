// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

/// Visible outside the shared library; nothing else is once one symbol is marked.
#define OSD_EXPORT __attribute__((dllexport))
/// Takes arguments as printf does. The C++ library's printf is the standard one, not Microsoft's.
#define OSD_PRINTF(format_index, first_argument)                                                   \
    __attribute__((format(gnu_printf, format_index, first_argument)))
