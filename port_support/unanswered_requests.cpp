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

/// Whether they may be of one owner: he has a whole network of IPv6 to himself.
bool is_same_source(const sockaddr_storage &a, const sockaddr_storage &b)
{
    if (a.ss_family != AF_INET6 || b.ss_family != AF_INET6)
        return osd::address::is_host(generic(a), generic(b));
    constexpr std::size_t network = 8;
    return std::memcmp(&reinterpret_cast<const sockaddr_in6 &>(a).sin6_addr,
                       &reinterpret_cast<const sockaddr_in6 &>(b).sin6_addr, network) == 0;
}

} // namespace

std::uint32_t unanswered_requests::most() const
{
    rlimit open{};
    if (::getrlimit(RLIMIT_NOFILE, &open) != 0)
        return most_;
    const rlim_t most = std::min<rlim_t>(most_, open.rlim_cur / 4);
    return std::max(static_cast<std::uint32_t>(most), 2u);
}

bool unanswered_requests::has_share(const sockaddr_storage &source, const char *otherwise)
{
    const std::uint32_t share = most() / 2;
    std::uint32_t same = 0;
    for (unanswered_request *at = all_.front(); at != nullptr && same < share; at = all_.after(*at))
        same += is_same_source(at->source, source) ? 1 : 0;
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
