// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// A port around another one, TRACED_PORT, that can show what crosses the transport contract; see
// README.md. The traced port is compiled unchanged: its `transport` and the upcalls that it makes
// have other names here.
#pragma once

#include "dapls_ib.hpp" // included before the names change
#include "wrapped_upcalls.hpp"

#include "wrapped_names.hpp"
#include TRACED_PORT
#include "own_names.hpp"

#include "trace_operations.hpp"
