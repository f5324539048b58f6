// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "port.hpp"

namespace dapl::soft {

/// What the device calls: each hands the event on to the common layer. In cm.cpp.
extern const soft_hca::upcalls upcall_table;

} // namespace dapl::soft
