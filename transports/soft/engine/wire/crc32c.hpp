// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// CRC-32C (Castagnoli), as RFC 3720 and SCTP have it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace soft_hca {

/// Computes a CRC-32C, also of bytes that come in pieces: crc32c(b, n, crc32c(a, m)) is the
/// checksum of a and then b.
std::uint32_t crc32c(const void *bytes, std::size_t size, std::uint32_t before = 0);

// The two ways in which that is computed, for tests.

std::uint32_t crc32c_by_table(const void *bytes, std::size_t size, std::uint32_t before = 0);
/// Needs has_crc32c_instruction().
std::uint32_t crc32c_by_instruction(const void *bytes, std::size_t size, std::uint32_t before = 0);
bool has_crc32c_instruction();

} // namespace soft_hca
