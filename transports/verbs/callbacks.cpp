// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Callbacks for CQs: made by the threads of their domains, or in place of these by a consumer that
// sleeps.
#include "internal.hpp"

#include "dapl_debug.hpp"
#include "descriptor_wait.hpp"
#include "osd_cancellation.hpp"

#include <cerrno>
#include <cstring>
#include <new>
#include <span>

namespace dapl::verbs::vrb {

using port_support::epoll_set;
using port_support::event_thread;

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

std::span<callback_domain> all_domains(const hca &device)
{
    return {device.domains.get(), device.domain_count};
}

/// Whether the threads serve the channels.
void leave_channels_to_threads(hca &device, bool leave)
{
    for (callback_domain &domain : all_domains(device))
        (void)domain.thread->modify(domain.channels.get(), leave ? std::uint32_t{EPOLLIN} : 0,
                                    &domain);
}

void serve_domain(void *argument)
{
    callback_domain &domain = *static_cast<callback_domain *>(argument);
    hca &device = *domain.device;
    osd::lock_guard hold(device.lock);
    while (!domain.own.is_stopping(device.lock)) {
        if (!domain.own.wait(device.lock, event_thread::never).empty())
            serve_callbacks(device, domain);
        call_owners_of_deferred(device, domain);
    }
}

bool start_domain(hca &device, callback_domain &domain)
{
    const bool first = &domain == device.domains.get();
    domain.device = &device;
    domain.thread = first ? &device.events : &domain.own;
    return (first || domain.own.open()) && domain.channels.open() &&
           domain.thread->add(domain.channels.get(), EPOLLIN, &domain) &&
           device.notifying.add(domain.channels.get(), EPOLLIN, &domain) &&
           (first || domain.own.start("dapl-verbs-cq", serve_domain, &domain));
}

} // namespace

bool start_domains(hca &device)
{
    const std::uint32_t count = own_features.cqeh_domains ? device.params.threads : 1;
    device.domains.reset(new (std::nothrow) callback_domain[count]);
    if (device.domains == nullptr)
        return false;
    device.domain_count = count;
    if (!device.notifying.open() || !device.wake.open())
        return false;
    for (callback_domain &domain : all_domains(device))
        if (!start_domain(device, domain))
            return false;
    return true;
}

void stop_domains(hca &device)
{
    for (callback_domain &domain : all_domains(device)) {
        domain.own.stop(device.lock);
        domain.channels.close();
    }
    device.notifying.close();
    device.wake.close();
}

callback_domain &domain_of(cq &c)
{
    callback_domain *mine = c.domain.load();
    if (mine != nullptr)
        return *mine;
    hca &device = *c.device;
    callback_domain &next = device.domains[device.next_domain.fetch_add(1) % device.domain_count];
    return c.domain.compare_exchange_strong(mine, &next) ? next : *mine;
}

void serve_callbacks(hca &device, callback_domain &domain)
{
    void *ready[epoll_set::batch];
    const std::size_t count = domain.channels.collect(ready);
    for (std::size_t i = 0; i < count; ++i)
        if (listed(device, ready[i]))
            channel_readable(device, *static_cast<cq *>(ready[i]));
}

void call_owners_of_deferred(hca &device, callback_domain &domain)
{
    while (domain.announcing.exchange(false)) {
        for (cq *c = device.cqs.front(); c != nullptr; c = device.cqs.after(*c)) {
            if (c->domain.load() != &domain || !c->announced.exchange(false))
                continue;
            domain.announcing.store(true); // the list may have changed: from the start
            call_owner(device, *c);
            break;
        }
    }
}

osd::wait_result wait_for_any_cq(hca &device, osd::deadline until)
{
    leave_channels_to_threads(device, false);
    bool readable = false;
    osd::wait_result result{};
    osd::undo_if_cancelled(
        [&] {
            result = port_support::wait_readable(device.notifying.get(), device.wake.get(), until,
                                                 readable);
        },
        [&device] { leave_channels_to_threads(device, true); });
    if (readable) {
        device.awake.store(true);
        osd::lock_guard hold(device.lock);
        for (callback_domain &domain : all_domains(device))
            serve_callbacks(device, domain);
        device.awake.store(false);
    }
    leave_channels_to_threads(device, true);
    return result;
}

void wake_waiter(hca &device)
{
    if (!device.awake.load())
        device.wake.raise();
}

/// Arms a CQ's channel for the service thread. The channel joins epoll at the first call: a
/// disarmed EPOLLONESHOT entry still reports EPOLLERR, and an entry that was never armed would wake
/// this thread for every event that is meant for cq_wait.
void arm_service(cq &c)
{
    epoll_set &watched = domain_of(c).channels;
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
    if (callback_domain *mine = c.domain.load())
        mine->channels.remove(c.channel->fd);
    osd::lock_guard hold(device.lock);
    static_cast<all_link &>(c).unlink();
    device.wait_quiet(&c);
}

} // namespace dapl::verbs::vrb
