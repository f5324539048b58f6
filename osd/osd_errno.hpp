// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Includes <cerrno>, has the error numbers of networks and keys that a system's own lacks, and the
// texts of all.
#pragma once

#include "native_errno.hpp"

namespace osd {

/// The text of an errno, or of what a call to the network of Windows failed with.
struct error_text {
    explicit error_text(int error);
    char text[160] = "";
};

} // namespace osd
