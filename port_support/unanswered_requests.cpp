// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "unanswered_requests.hpp"

#include "dapl_debug.hpp"
#include "osd_address.hpp"
#include "osd_time.hpp"

#include <algorithm>
#include <cstring>
#include <netinet/in.h>
#include <sys/resource.h>

namespace dapl::DAPL_TRANSPORT {

namespace {

constexpr std::int64_t say_again_after_ns = 10'000'000'000;

const sockaddr *generic(const sockaddr_storage &address)
{
    return reinterpret_cast<const sockaddr *>(&address);
}

} // namespace

std::uint64_t owner_of(const sockaddr_storage &address)
{
    std::uint64_t network = 0;
    if (address.ss_family == AF_INET6)
        std::memcpy(&network, &reinterpret_cast<const sockaddr_in6 &>(address).sin6_addr,
                    sizeof network);
    else
        network = reinterpret_cast<const sockaddr_in &>(address).sin_addr.s_addr;
    return network;
}

std::uint32_t within_descriptors(std::uint32_t most)
{
    rlimit open{};
    if (::getrlimit(RLIMIT_NOFILE, &open) != 0)
        return most;
    return std::max(static_cast<std::uint32_t>(std::min<rlim_t>(most, open.rlim_cur / 4)), 2u);
}

bool unanswered_requests::has_share(const sockaddr_storage &source, const char *otherwise)
{
    const std::uint32_t share = most() / 2;
    const std::uint64_t owner = owner_of(source);
    std::uint32_t same = 0;
    for (unanswered_request *at = all_.front(); at != nullptr && same < share; at = all_.after(*at))
        same += owner_of(at->source) == owner ? 1 : 0;
    if (same == share)
        say_crowded(source, otherwise);
    return same < share;
}

void unanswered_requests::add(unanswered_request &request)
{
    all_.push(request);
    ++count_;
}

void unanswered_requests::remove(unanswered_request &request)
{
    request.unlink();
    --count_;
}

void unanswered_requests::say_crowded(const sockaddr_storage &source, const char *what)
{
    const std::int64_t now = osd::now_ns();
    if (now < say_again_ns_)
        return;
    say_again_ns_ = now + say_again_after_ns;
    dapl_log(DAPL_DBG_TYPE_WARN,
             "%s: %u connection requests wait for this program's answer, as from %s; %s until it "
             "accepts or rejects some",
             adapter_, count_, osd::address_text(generic(source)).get(), what);
}

} // namespace dapl::DAPL_TRANSPORT
