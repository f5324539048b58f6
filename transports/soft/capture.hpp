// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The packets of an adapter, written to a file for Wireshark; by the traced library only.
#pragma once

#include "net/observed_io.hpp"

#include <memory>

namespace dapl::soft {

/// Opens the file that DAPL_TRACE_PCAP names. Null without one, if it cannot be written, and in a
/// library that is not traced.
std::unique_ptr<soft_hca::packet_observer> open_capture();

} // namespace dapl::soft
