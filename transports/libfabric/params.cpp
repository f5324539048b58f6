// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "params.hpp"

#include "ia_params.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

namespace dapl::libfabric::ofi {

namespace {

constexpr param_option<adapter_params> options[] = {
    {"connect_retry_ms", &adapter_params::connect_retry_ms},
    {"linger_ms", &adapter_params::linger_ms},
    {"spin_us", &adapter_params::spin_us},
    {"family", &adapter_params::family},
};

bool is_provider(const char *word)
{
    return std::strcmp(word, "tcp") == 0 || std::strcmp(word, "net") == 0;
}

struct other_provider {
    const char *name;
    const char *refusal;
};

constexpr other_provider others[] = {
    {"sockets", "libfabric's provider sockets drops posted receives, instead of completing them, "
                "when a connection ends: write tcp"},
    {"verbs", "devices of rdma-core belong to the verbs port, libdapl-verbs.so.2: write a line for "
              "that port"},
};
constexpr const char *without_connections[] = {"udp",  "shm", "sm2", "efa", "psm2",
                                               "psm3", "opx", "cxi", "ucx", "lnx"};

/// Says why this word, which names a provider, cannot stand here; null for other words.
const char *refusal_of(const char *word)
{
    for (const other_provider &other : others)
        if (std::strcmp(word, other.name) == 0)
            return other.refusal;
    return nullptr;
}

bool has_no_connections(const char *word)
{
    if (std::strchr(word, ';') != nullptr) // providers on top of each other
        return true;
    return std::any_of(std::begin(without_connections), std::end(without_connections),
                       [&](const char *each) { return std::strcmp(word, each) == 0; });
}

/// Names the line of the other port, with the parameters of this one.
status refuse_without_connections(const ia_params &words, const char *text)
{
    char why[512];
    std::snprintf(why, sizeof why,
                  "this provider of libfabric has no message endpoints (FI_EP_MSG). The port that "
                  "does without them takes it: NAME u2.0 nonthreadsafe default "
                  "libdapl-libfabric_rdm.so.2 dapl.2.0 \"%s\" \"\"; or write tcp here",
                  text);
    return words.refuse(why);
}

} // namespace

status read_params(const char *text, adapter_params &params)
{
    ia_params words(text, "[tcp|net] <interface or address> [key=value ...]");
    bool found = words.next(params.interface);
    if (const char *why = refusal_of(params.interface); why != nullptr)
        return words.refuse(why);
    if (has_no_connections(params.interface))
        return refuse_without_connections(words, text);
    if (found && is_provider(params.interface)) {
        std::strcpy(params.provider, params.interface);
        found = words.next(params.interface);
    }
    if (!found)
        return words.refuse_word("no interface is named");
    const auto is_number = [](const char *word) { // the old form has a port number
        std::uint32_t ignored;
        return read_number(word, ignored);
    };
    const status read = words.read_options(options, params, is_number);
    if (read.ok() && params.family != 4 && params.family != 6)
        return words.refuse("family is 4 or 6");
    return read;
}

} // namespace dapl::libfabric::ofi
