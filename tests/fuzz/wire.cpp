// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Packets of the software HCA, as rings have them, too: parsing stays inside the packet, and
// written again it gives its bytes.
#include "written_again.hpp"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *input, std::size_t size)
{
    using namespace soft_hca;
    constexpr std::size_t most = 65535;
    if (size > most)
        return 0;
    const bytes exact(input, input + size); // a buffer without slack, for the sanitizer
    packet p;
    if (!parse_local(exact.data(), exact.size(), p) || p.base.kind == packet_kind::retry)
        return 0;
    const std::size_t checksum = p.base.version == checked_version ? checksum_size : 0;
    const bytes again = written_again(p, size + 1024);
    if (again.size() + checksum != size || std::memcmp(again.data(), input, again.size()) != 0)
        std::abort();
    return 0;
}
