// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "params.hpp"

#include "dapl_debug.hpp"
#include "dapl_params.hpp"

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

status wrong(const char *text, const char *why)
{
    dapl_log(DAPL_DBG_TYPE_ERR,
             "ia_params \"%s\": %s; wanted: <RDMA device, interface or address> [port] "
             "[key=value ...]",
             text, why);
    return status::error(DAT_INVALID_PARAMETER);
}

} // namespace

status read_params(const char *text, adapter_params &params)
{
    param_words rest(text);
    if (!rest.next(params.device, sizeof(params.device)))
        return wrong(text, rest.at_end() ? "no device is named" : "a word is too long");
    char word[64];
    bool port_may_come = true;
    while (rest.next(word, sizeof(word))) {
        const bool port = port_may_come && read_number(word, params.port);
        if (!port && !read_option(word, options, params))
            return wrong(text, "an option is not understood");
        port_may_come = false;
    }
    if (!rest.at_end())
        return wrong(text, "a word is too long");
    if (params.family != 4 && params.family != 6)
        return wrong(text, "family is 4 or 6");
    return success;
}

} // namespace dapl::verbs::vrb
