// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What several cases expect of two connected endpoints.
#pragma once

#include "harness/endpoint.hpp"

#include <cstdint>

namespace conformance {

/// Sends one message and takes both completions.
void move_data(test_endpoint &from, test_endpoint &to, unsigned seed = 1,
               const place &where = place::current());

/// Expects exactly one event on each side after one side has disconnected.
void expect_disconnected(test_endpoint &one, test_endpoint &other);
/// Whether requests complete only after the peer has processed them. Otherwise a refusal arrives
/// after the completion, and shows only as the end of the connection.
bool acknowledged();
/// Each side gets one event for the broken connection. `failing` is the side whose operation
/// failed.
void expect_broken(test_endpoint &failing, test_endpoint &other, bool for_sure);
/// Expects the end of an RDMA request that the peer must refuse.
void expect_refused(test_endpoint &by, test_endpoint &there, bool reading, std::uint64_t cookie);
/// Expects that no thread of the provider runs while nothing happens.
void expect_rest();

} // namespace conformance
