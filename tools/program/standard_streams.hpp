// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

namespace program {

/// Opens closed standard streams, before the program opens anything. A standard stream that is
/// closed would lend its number to the next open, a connection perhaps, and messages would go
/// there: it becomes the null device. The program fails at its end if not all of its output could
/// be written.
void guard_standard_streams();

} // namespace program
