// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// A port that wraps another port and lets it fail: WRAPPED_PORT is the other's port.hpp, which is
// compiled unchanged, in its own namespace and with its own features. README.md says how faults are
// switched on.
//
// The common layer calls the operations of this `transport`, made from the contract's table; they
// call the operations of the wrapped transport, which has another name here. Its upcalls come here
// as well.
#pragma once

#include "dapls_ib.hpp" // comes before the names change: the common layer's side of the wrapper
#include "wrapped_upcalls.hpp"

#include "wrapped_names.hpp"
#include WRAPPED_PORT
#include "own_names.hpp"

#include "fault_operations.hpp"
