// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "params.hpp"

#include "ia_params.hpp"

#include <utility>

namespace dapl::verbs::vrb {

namespace {

constexpr param_option<adapter_params> options[] = {
    {"connect_retry_ms", &adapter_params::connect_retry_ms},
    {"linger_ms", &adapter_params::linger_ms},
    {"settle_ms", &adapter_params::settle_ms},
    {"family", &adapter_params::family},
    {"spin_us", &adapter_params::spin_us},
    {"cq_room", &adapter_params::cq_room},
};

} // namespace

status read_params(const char *text, adapter_params &params)
{
    ia_params words(text, "<RDMA device, interface or address> [port] [key=value ...]");
    if (!words.next(params.device))
        return words.refuse_word("no device is named");
    bool port_may_come = true;
    const auto is_port = [&](const char *word) {
        return std::exchange(port_may_come, false) && read_number(word, params.port);
    };
    const status read = words.read_options(options, params, is_port);
    if (read.ok() && params.family != 4 && params.family != 6)
        return words.refuse("family is 4 or 6");
    return read;
}

} // namespace dapl::verbs::vrb
