// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Connections on which no request has come. libfabric accepts whatever connects, and does not show
// it. But it has the sockets in an epoll set of its own, where no socket of the program can be:
// they are found there, and shut down, whereupon libfabric closes them. It closes none meanwhile,
// since it looks at that set in fi_eq_read only, which is called under the lock of the adapter.
#include "internal.hpp"

#include "dapl_line_limit.hpp"
#include "epoll_members.hpp"
#include "osd_address.hpp"
#include "socket_search.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <sys/stat.h>
#include <tuple>
#include <utility>

namespace dapl::libfabric::ofi {

namespace {

/// A request follows its connection at once, but its sender may be busy.
constexpr std::int64_t ms = 1'000'000;
constexpr std::int64_t patience_ns = 5'000 * ms;

/// More places than for unanswered requests: an honest peer may begin a thousand connections before
/// it sends the first request, and shutting one down fails it. libfabric walks through all of them
/// to close one.
constexpr std::uint32_t most_places = 3072;

bool is_at_listener(hca &device, const sockaddr_storage &address) OSD_REQUIRES(device.lock)
{
    for (passive *p = device.passives.front(); p != nullptr; p = device.passives.after(*p))
        if (std::memcmp(&p->address, &address, sizeof address) == 0)
            return true;
    return false;
}

/// Whether a queue pair has this socket: only an accepting one may have a socket in the set.
bool is_accepting(hca &device, int fd) OSD_REQUIRES(device.lock)
{
    for (qp *q = device.qps.front(); q != nullptr; q = device.qps.after(*q)) {
        if (q->phase() != phase::accepting)
            continue;
        osd::lock_guard hold(q->lock);
        if (q->socket == fd || q->socket < 0)
            return true;
    }
    return false;
}

/// Asks the kernel about a socket that the last look did not see.
bool is_silent(hca &device, const epoll_members::member &m, silent_socket &found)
    OSD_REQUIRES(device.lock)
{
    struct stat file {};
    sockaddr_storage own{}, peer{};
    socklen_t own_size = sizeof own, peer_size = sizeof peer;
    if (fstat(m.fd, &file) != 0 || !S_ISSOCK(file.st_mode) || file.st_ino != m.inode ||
        getsockname(m.fd, reinterpret_cast<sockaddr *>(&own), &own_size) != 0 ||
        getpeername(m.fd, reinterpret_cast<sockaddr *>(&peer), &peer_size) != 0 ||
        !is_at_listener(device, own))
        return false;
    const std::optional<std::uint32_t> unused_ms = port_support::unused_ms(m.fd);
    found = {m.inode, owner_of(peer), osd::now_ns() - unused_ms.value_or(0) * ms, m.fd};
    return unused_ms.has_value();
}

bool has_lower_inode(const silent_socket &a, const silent_socket &b)
{
    return a.inode < b.inode;
}

const silent_socket *seen_before(const silent_sockets *known, const epoll_members::member &m)
{
    if (known == nullptr)
        return nullptr;
    const silent_socket *const end = known->all + known->count;
    const silent_socket *const at =
        std::lower_bound(known->all, end, silent_socket{m.inode, 0, 0, 0}, has_lower_inode);
    return at != end && at->inode == m.inode && at->fd == m.fd ? at : nullptr;
}

void find_silent(hca &device, silent_sockets &found) OSD_REQUIRES(device.lock)
{
    device.silent.sockets.restart();
    epoll_members::member each{};
    while (found.count < found.most && device.silent.sockets.next(each)) {
        silent_socket &next = found.all[found.count];
        const silent_socket *const before = seen_before(device.silent.known.get(), each);
        if (before != nullptr)
            next = *before;
        if (before != nullptr || is_silent(device, each, next))
            ++found.count;
    }
}

line_limit ended_connections(1, 10'000'000'000);

void end(hca &device, const silent_socket &s) OSD_REQUIRES(device.lock)
{
    if (is_accepting(device, s.fd) || !port_support::unused_ms(s.fd)) // a request has come now
        return;
    std::uint32_t left_out = 0;
    if (shows(DAPL_DBG_TYPE_WARN) && ended_connections.allows(osd::now_ns(), left_out)) {
        sockaddr_storage peer{};
        socklen_t size = sizeof peer;
        (void)getpeername(s.fd, reinterpret_cast<sockaddr *>(&peer), &size);
        debug_line("%s: ended a connection from %s on which no request came%s", device.name,
                   osd::address_text(reinterpret_cast<const sockaddr *>(&peer)).get(),
                   left_out_text(left_out).bytes);
    }
    (void)shutdown(s.fd, SHUT_RDWR);
}

/// Ends connections that are too old, and the oldest of too many. A half of the places is for
/// others than one address; an eighth is for whatever comes before the next look. Leaves in `found`
/// what goes on, the youngest first.
void end_some(hca &device, silent_sockets &found, std::uint32_t places, std::int64_t now)
    OSD_REQUIRES(device.lock)
{
    const std::uint32_t most = places - places / 8;
    const std::uint32_t share = std::max(places / 2 - places / 8, 1u);
    silent_socket *const all = found.all;
    const std::size_t count = std::exchange(found.count, 0);
    std::sort(all, all + count, [](const silent_socket &a, const silent_socket &b) {
        return std::tie(a.owner, b.since_ns) < std::tie(b.owner, a.since_ns);
    });
    std::uint64_t owner = 0;
    std::uint32_t same = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const silent_socket s = all[i];
        same = std::exchange(owner, s.owner) == s.owner ? same + 1 : 1;
        if (now - s.since_ns < patience_ns && same <= share)
            all[found.count++] = s;
        else
            end(device, s);
    }
    std::sort(all, all + found.count, [](const silent_socket &a, const silent_socket &b) {
        return a.since_ns > b.since_ns;
    });
    while (found.count > most)
        end(device, all[--found.count]);
}

} // namespace

void find_silent_set(hca &device, int event_queue)
{
    const int within = set_within(event_queue, device.shared_fd); // as in libfabric 2.x
    osd::lock_guard hold(device.lock);
    device.silent.sockets.open(within >= 0 ? within : event_queue);
}

void note_calls(hca &device, std::uint32_t calls)
{
    silent_watch &watch = device.silent;
    watch.perhaps += calls * watch.listeners;
    if (watch.perhaps != 0 && watch.due_ns == INT64_MAX)
        watch.due_ns = osd::now_ns() + patience_ns;
}

void bound_silent(hca &device)
{
    silent_watch &watch = device.silent;
    const std::int64_t now = watch.perhaps != 0 || watch.due_ns != INT64_MAX ? osd::now_ns() : 0;
    if (watch.perhaps <= watch.enough && now < watch.due_ns)
        return;
    watch.due_ns = now + patience_ns;
    std::unique_ptr<silent_sockets> found(new (std::nothrow) silent_sockets);
    if (!found)
        return;
    find_silent(device, *found);
    const std::uint32_t places = within_descriptors(most_places);
    end_some(device, *found, places, now);
    watch.perhaps = 0;
    watch.enough = places / 8;
    silent_socket *const end = found->all + found->count;
    watch.due_ns = found->count == 0 ? INT64_MAX : end[-1].since_ns + patience_ns;
    std::sort(found->all, end, has_lower_inode);
    watch.known = found->count == 0 ? nullptr : std::move(found);
}

void end_all_silent(hca &device)
{
    const std::unique_ptr<silent_sockets> found(new (std::nothrow) silent_sockets);
    if (!found || device.eq == nullptr)
        return;
    bool starved = false;
    do {
        found->count = 0;
        find_silent(device, *found);
        for (std::size_t i = 0; i < found->count; ++i) {
            end(device, found->all[i]);
            (void)drain_events(device, starved);
        }
    } while (found->count == found->most);
    device.silent.sockets.close();
}

} // namespace dapl::libfabric::ofi
