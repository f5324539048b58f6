// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The port this library is made for, held against the contract.
#pragma once

#include "dapls_ib_check.hpp"
#include "port.hpp"

namespace dapl::DAPL_TRANSPORT {

template struct check_transport<transport>;

namespace core {

inline constexpr features claims = transport::claims;

} // namespace core

} // namespace dapl::DAPL_TRANSPORT
