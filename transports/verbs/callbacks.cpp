// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Callbacks for CQs: made by the service thread, or by a consumer that sleeps in its place.
#include "internal.hpp"

#include "dapl_debug.hpp"
#include "descriptor_wait.hpp"
#include "osd_cancellation.hpp"

#include <cerrno>
#include <cstring>

namespace dapl::verbs::vrb {

using port_support::epoll_set;

namespace {

bool listed(hca &device, const void *maybe) OSD_REQUIRES(device.lock)
{
    for (cq *c = device.cqs.front(); c != nullptr; c = device.cqs.after(*c))
        if (c == maybe)
            return true;
    return false;
}

void call_owner(hca &device, cq &c) OSD_REQUIRES(device.lock)
{
    if (!c.notify.exchange(false) || c.owner == nullptr)
        return;
    device.run_upcall(&c, [&] { dapl_evd_dto_callback(*c.owner); });
}

void channel_readable(hca &device, cq &c) OSD_REQUIRES(device.lock)
{
    (void)take_cq_event(c);
    if (c.waiting.load()) // the event may have been meant for the waiter
        wake_cq(c);
    call_owner(device, c); // c may be gone
}

/// Whether the service thread serves the channels.
void leave_channels_to_service(hca &device, bool leave)
{
    (void)device.events.modify(device.notifying.get(), leave ? std::uint32_t{EPOLLIN} : 0,
                               &device.notifying);
}

} // namespace

void serve_callbacks(hca &device)
{
    void *ready[epoll_set::batch];
    const std::size_t count = device.notifying.collect(ready);
    for (std::size_t i = 0; i < count; ++i)
        if (listed(device, ready[i]))
            channel_readable(device, *static_cast<cq *>(ready[i]));
}

void call_owners_of_deferred(hca &device)
{
    while (device.announcing.exchange(false)) {
        for (cq *c = device.cqs.front(); c != nullptr; c = device.cqs.after(*c)) {
            if (!c->announced.exchange(false))
                continue;
            device.announcing.store(true); // the list may have changed: from the start
            call_owner(device, *c);
            break;
        }
    }
}

osd::wait_result wait_for_any_cq(hca &device, osd::deadline until)
{
    leave_channels_to_service(device, false);
    bool readable = false;
    osd::wait_result result{};
    osd::undo_if_cancelled(
        [&] {
            result = port_support::wait_readable(device.notifying.get(), device.wake.get(), until,
                                                 readable);
        },
        [&device] { leave_channels_to_service(device, true); });
    if (readable) {
        device.awake.store(true);
        osd::lock_guard hold(device.lock);
        serve_callbacks(device);
        device.awake.store(false);
    }
    leave_channels_to_service(device, true);
    return result;
}

void wake_waiter(hca &device)
{
    if (!device.awake.load())
        device.wake.raise();
}

/// Added to epoll at the first call: a disarmed EPOLLONESHOT entry still reports EPOLLERR, and one
/// that was never armed would wake this thread for every event that is meant for cq_wait.
void arm_service(cq &c)
{
    epoll_set &watched = c.device->notifying;
    const int fd = c.channel->fd;
    if (watched.modify(fd, epoll_set::once, &c) || watched.add(fd, epoll_set::once, &c) ||
        errno == EEXIST)
        return;
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: epoll_ctl for a CQ failed: %s", c.device->name,
             std::strerror(errno));
}

void watch(cq &c)
{
    osd::lock_guard hold(c.device->lock);
    c.device->cqs.push(c);
}

void unwatch(cq &c)
{
    hca &device = *c.device;
    device.notifying.remove(c.channel->fd);
    osd::lock_guard hold(device.lock);
    static_cast<all_link &>(c).unlink();
    device.wait_quiet(&c);
}

} // namespace dapl::verbs::vrb
