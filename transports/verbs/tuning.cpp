// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tuning.hpp"

#include "dapl_debug.hpp"
#include "dapl_params.hpp"
#include "osd_system.hpp"

#include <cerrno>
#include <cstdlib>

namespace dapl::verbs::vrb {

namespace {

// Ranges are those of the fields in InfiniBand's messages, or what makes sense.
constexpr param_option<tuning> variables[] = {
    {"DAPL_MAX_INLINE", &tuning::max_inline, 0, 4096},
    {"DAPL_ACK_TIMER", &tuning::ack_timer, 0, 31},
    {"DAPL_ACK_RETRY", &tuning::ack_retry, 0, 7},
    {"DAPL_RNR_TIMER", &tuning::rnr_timer, 0, 31},
    {"DAPL_RNR_RETRY", &tuning::rnr_retry, 0, 7},
    {"DAPL_CM_ARP_TIMEOUT_MS", &tuning::arp_timeout_ms, 1, 600'000},
    {"DAPL_CM_ARP_RETRY_COUNT", &tuning::arp_retry, 0, 100},
    {"DAPL_CM_ROUTE_TIMEOUT_MS", &tuning::route_timeout_ms, 1, 600'000},
    {"DAPL_CM_ROUTE_RETRY_COUNT", &tuning::route_retry, 0, 100},
    {"DAPL_CM_TOS", &tuning::type_of_service, 0, 255},
};

void read_variable(const param_option<tuning> &v, tuning &into)
{
    char *text = osd::environment(v.key);
    if (text == nullptr)
        return;
    char *end = nullptr;
    errno = 0;
    const unsigned long long value = std::strtoull(text, &end, 0);
    if (*text >= '0' && *text <= '9' && *end == '\0' && errno == 0 && value >= v.least &&
        value <= v.most)
        into.*v.value = static_cast<std::uint32_t>(value);
    else
        dapl_log(DAPL_DBG_TYPE_WARN, "%s=%s is ignored: wanted is a number from %u to %u; using %u",
                 v.key, text, v.least, v.most, into.*v.value);
    std::free(text);
}

} // namespace

tuning read_tuning()
{
    tuning read;
    for (const param_option<tuning> &v : variables)
        read_variable(v, read);
    return read;
}

} // namespace dapl::verbs::vrb
