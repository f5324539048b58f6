// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "memory_windows.hpp"

#include <new>
#include <utility>

namespace soft_hca {

memory_region *memory_windows::make(const protection_domain &domain)
{
    auto *window = new (std::nothrow) memory_region;
    if (window != nullptr) {
        window->domain = &domain;
        window->is_window = true;
    }
    return window;
}

void memory_windows::retire(memory_region &window)
{
    osd::lock_guard hold(lock_);
    window.freed = true;
    unbind(window);
}

void memory_windows::release(memory_region &window)
{
    if (window.holders.fetch_sub(1, std::memory_order_acq_rel) == 1)
        delete &window;
}

bool memory_windows::withdraw(memory_region &region, bool &had_key)
{
    osd::lock_guard hold(lock_); // a concurrent bind has counted its window, or does not find it
    if (region.windows.load() != 0)
        return false;
    had_key = keys_.remove(region);
    return true;
}

void memory_windows::unbind(memory_region &window)
{
    if (!keys_.remove(window))
        return;
    window.window_of->windows.fetch_sub(1);
    window.window_of = nullptr;
}

bool memory_windows::prepare(request &bind)
{
    bind.remote.key = bind.remote.length == 0 ? 0 : keys_.reserve();
    if (bind.remote.length != 0 && bind.remote.key == 0)
        return false;
    bind.binding.window->holders.fetch_add(1, std::memory_order_relaxed);
    return true;
}

void memory_windows::cancel(request &bind)
{
    if (bind.remote.key != 0)
        keys_.give_back(bind.remote.key);
    release(*bind.binding.window);
}

bool memory_windows::may_bind(const request &bind) const
{
    if (bind.binding.window->freed)
        return false;
    // Remote write access needs local write access, as with regions.
    const std::uint32_t needed =
        (bind.window_rights & (remote_write | remote_atomic)) != 0 ? local_write : local_read;
    return bind.remote.length == 0 ||
           keys_.check_access(bind.binding.target->key.load(), bind.binding.window->domain, needed,
                              bind.remote.address, bind.remote.length);
}

void memory_windows::attach(const request &bind, std::uint64_t connection)
{
    memory_region &window = *bind.binding.window;
    window.address = bind.remote.address;
    window.length = bind.remote.length;
    window.rights = bind.window_rights;
    window.window_of = bind.binding.target;
    window.connection = (bind.flags & request_narrow) != 0 ? connection : 0;
    bind.binding.target->windows.fetch_add(1);
    keys_.use(bind.remote.key, window);
}

bool memory_windows::execute(request &bind, std::uint64_t connection)
{
    bool done = false;
    {
        osd::lock_guard hold(lock_);
        done = may_bind(bind);
        if (done)
            unbind(*bind.binding.window);
        if (done && bind.remote.length != 0)
            attach(bind, connection);
    }
    if (!done && bind.remote.key != 0)
        keys_.give_back(std::exchange(bind.remote.key, 0));
    release(*bind.binding.window);
    return done;
}

bool memory_windows::invalidate(std::uint32_t key, const protection_domain &domain,
                                std::uint64_t connection)
{
    osd::lock_guard hold(lock_);
    memory_region *found = keys_.by_key(key);
    if (found == nullptr || found->domain != &domain || !found->is_window ||
        !memory_table::is_open_to(*found, connection))
        return false;
    unbind(*found);
    return true;
}

} // namespace soft_hca
