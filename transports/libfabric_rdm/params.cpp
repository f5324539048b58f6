// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "params.hpp"

#include "ia_params.hpp"

#include <cstring>

namespace dapl::libfabric_rdm::ofi {

namespace {

constexpr param_option<adapter_params> options[] = {
    {"connect_retry_ms", &adapter_params::connect_retry_ms},
    {"linger_ms", &adapter_params::linger_ms},
    {"stall_ms", &adapter_params::stall_ms, 100},
    {"spin_us", &adapter_params::spin_us, 0, 1'000'000},
    {"family", &adapter_params::family, 4, 6},
    {"accesses", &adapter_params::accesses, 0, 1},
    {"safe_copies", &adapter_params::safe_copies, 0, 1},
};

} // namespace

status read_params(const char *text, adapter_params &params, unconnected::fabric_setup &out)
{
    ia_params words(text, "<provider> <interface or address> [key=value ...]");
    if (!words.next(params.provider))
        return words.refuse_word("no provider of libfabric is named");
    if (!words.next(out.interface))
        return words.refuse_word("no interface is named");
    const auto is_type = [](const char *word) { return std::strcmp(word, "ep=rdm") == 0; };
    const status read = words.read_options(options, params, is_type, "ep");
    if (!read.ok())
        return read;
    if (params.family == 5)
        return words.refuse("family is 4 or 6");
    out.family = params.family;
    out.connect_retry_ms = params.connect_retry_ms;
    out.linger_ms = params.linger_ms;
    out.stall_ms = params.stall_ms;
    out.spin_us = params.spin_us;
    out.safe_copies = params.safe_copies;
    return success;
}

} // namespace dapl::libfabric_rdm::ofi
