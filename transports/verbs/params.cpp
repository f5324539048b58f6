// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "params.hpp"

#include "dapl_debug.hpp"
#include "ia_params.hpp"
#include "osd_system.hpp"

#include <cstdlib>
#include <cstring>
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
    {"threads", &adapter_params::threads, 1, 16},
    {"vector", &adapter_params::vector},
    {"inline", &adapter_params::max_inline, 0, 4096},
    {"odp", &adapter_params::odp, 0, 1},
    {"tos_high_throughput", &adapter_params::high_throughput, 0, 255},
    {"tos_low_latency", &adapter_params::low_latency, 0, 255},
    {"tos_economy", &adapter_params::economy, 0, 255},
    {"tos_premium", &adapter_params::premium, 0, 255},
    {"relaxed_ordering", &adapter_params::relaxed_ordering, 0, 1},
    {"gid_index", &adapter_params::gid_index, 0, 65535},
    {"sl", &adapter_params::service_level, 0, 15},
};

// Ranges are taken from the fields of InfiniBand's messages, or make sense.
constexpr param_option<adapter_params> variables[] = {
    {"DAPL_MAX_INLINE", &adapter_params::max_inline, 0, 4096},
    {"DAPL_ACK_TIMER", &adapter_params::ack_timer, 0, 31},
    {"DAPL_ACK_RETRY", &adapter_params::ack_retry, 0, 7},
    {"DAPL_RNR_TIMER", &adapter_params::rnr_timer, 0, 31},
    {"DAPL_RNR_RETRY", &adapter_params::rnr_retry, 0, 7},
    {"DAPL_CM_ARP_TIMEOUT_MS", &adapter_params::arp_timeout_ms, 1, 600'000},
    {"DAPL_CM_ARP_RETRY_COUNT", &adapter_params::arp_retry, 0, 100},
    {"DAPL_CM_ROUTE_TIMEOUT_MS", &adapter_params::route_timeout_ms, 1, 600'000},
    {"DAPL_CM_ROUTE_RETRY_COUNT", &adapter_params::route_retry, 0, 100},
    {"DAPL_CM_TOS", &adapter_params::type_of_service, 0, 255},
};

void read_variable(const param_option<adapter_params> &v, adapter_params &into)
{
    char *text = osd::environment(v.key);
    if (text == nullptr)
        return;
    std::uint64_t value = 0;
    if (osd::read_number(text, value) && value >= v.least && value <= v.most)
        into.*v.value = static_cast<std::uint32_t>(value);
    else
        dapl_log(DAPL_DBG_TYPE_WARN, "%s=%s is ignored: wanted is a number from %u to %u; using %u",
                 v.key, text, v.least, v.most, into.*v.value);
    std::free(text);
}

constexpr char tcp_interface_is[] = "tcp_interface=";
constexpr std::size_t longest_word =
    sizeof tcp_interface_is + sizeof(adapter_params::tcp_interface);

/// Reads a word of the connection manager; false if it is none.
bool read_connection_manager(const char *word, adapter_params &params)
{
    if (std::strcmp(word, "cm=rdma") == 0 || std::strcmp(word, "cm=tcp") == 0) {
        params.by_tcp = word[3] == 't';
        return true;
    }
    const std::size_t before = sizeof tcp_interface_is - 1;
    const std::size_t length = std::strlen(word);
    if (std::strncmp(word, tcp_interface_is, before) != 0 || length == before ||
        length - before >= sizeof params.tcp_interface)
        return false;
    std::memcpy(params.tcp_interface, word + before, length - before + 1);
    return true;
}

} // namespace

void read_environment(adapter_params &params)
{
    for (const param_option<adapter_params> &v : variables)
        read_variable(v, params);
}

status read_params(const char *text, adapter_params &params)
{
    ia_params words(text, "<RDMA device, interface or address> [port] [key=value ...]");
    if (!words.next(params.device))
        return words.refuse_word("no device is named");
    bool port_may_come = true;
    const auto is_other = [&](const char *word) {
        return (std::exchange(port_may_come, false) && read_number(word, params.port)) ||
               read_connection_manager(word, params);
    };
    const status read = words.read_options<longest_word>(options, params, is_other,
                                                         "cm (tcp or rdma), tcp_interface");
    if (read.ok() && params.family != 4 && params.family != 6)
        return words.refuse("family is 4 or 6");
    if (read.ok() && !params.by_tcp && params.tcp_interface[0] != '\0')
        return words.refuse("tcp_interface goes with cm=tcp");
    return read;
}

} // namespace dapl::verbs::vrb
