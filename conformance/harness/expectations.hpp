// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What several cases expect of two connected endpoints.
#pragma once

#include "harness/endpoint.hpp"

#include <cstdint>

namespace conformance {

/// One message there, completions included.
void move_data(test_endpoint &from, test_endpoint &to, unsigned seed = 1);

/// After one side has ended the connection: one event on each side, and no second.
void expect_disconnected(test_endpoint &one, test_endpoint &other);
/// A transport may complete a request before its peer has looked at it. Then a refusal comes too
/// late for the request, and shows as the end of the connection only.
bool acknowledged();
/// Both sides learn once that the connection was broken. `failing` is the side whose operation
/// failed.
void expect_broken(test_endpoint &failing, test_endpoint &other, bool for_sure);
/// An RDMA request that the peer has to refuse.
void expect_refused(test_endpoint &by, test_endpoint &there, bool reading, std::uint64_t cookie);

} // namespace conformance
