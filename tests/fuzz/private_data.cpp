// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The frame of private data in port_support: parsed data lie inside the message, and framed again
// they give its bytes.
#include "cm_frame.hpp"

#include <cstdlib>
#include <cstring>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *input, std::size_t size)
{
    using namespace dapl::DAPL_TRANSPORT;
    const std::vector<std::uint8_t> exact(input, input + size); // a copy without slack
    private_data data;
    const cm_frame_header *header = parse_frame(exact.data(), exact.size(), data);
    if (header == nullptr) {
        if (data.size != 0)
            std::abort();
        return 0;
    }
    const auto *begin = static_cast<const std::uint8_t *>(data.bytes);
    if (data.size != 0 && (begin < exact.data() || begin + data.size > exact.data() + size))
        std::abort();
    if (data.size > cm_frame::max_data)
        return 0; // comes from a peer that has more room; the common layer cuts it
    const cm_frame again(static_cast<cm_frame_header::kind_t>(header->kind), data,
                         qualifier_of(*header));
    if (again.size > size || std::memcmp(again.bytes, exact.data(), again.size) != 0)
        std::abort();
    return 0;
}
