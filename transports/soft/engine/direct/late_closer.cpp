// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "late_closer.hpp"

#include "net/net_local.hpp"

#include "osd_sync.hpp"
#include "osd_system.hpp"
#include "osd_thread.hpp"

#include <new>

namespace soft_hca {

/// What the thread uses. It belongs to the thread once that has been left behind.
class late_closer::worker {
public:
    bool start() { return thread_.start("soft-closer", run, this); }
    std::uint32_t waiting() const
    {
        osd::lock_guard hold(lock_);
        return count_;
    }
    bool add(waitable descriptor)
    {
        osd::lock_guard hold(lock_);
        if (count_ == most)
            return false;
        waiting_[(first_ + count_++) % most] = descriptor;
        changed_.signal();
        return true;
    }
    /// Returns false if the thread goes on; this object is not ours any more then.
    bool end()
    {
        constexpr std::uint64_t patience_us = 500'000;
        {
            osd::lock_guard hold(lock_);
            ending_ = true;
            changed_.signal();
            const osd::deadline until = osd::deadline::after_us(patience_us);
            while (!ended_ && changed_.wait(lock_, until) != osd::wait_result::timed_out) {
            }
            left_behind_ = !ended_;
            if (left_behind_) {
                (void)osd::library_hold(reinterpret_cast<const void *>(&run)); // it executes that
                thread_.leave();
                return false;
            }
        }
        thread_.join();
        return true;
    }

private:
    static constexpr std::uint32_t most = 512; ///< more than a device has local sockets

    static void run(void *self) { static_cast<worker *>(self)->work(); }
    void work();

    mutable osd::mutex lock_;
    osd::condition changed_;
    waitable waiting_[most] OSD_GUARDED_BY(lock_) = {};
    std::uint32_t first_ OSD_GUARDED_BY(lock_) = 0;
    std::uint32_t count_ OSD_GUARDED_BY(lock_) = 0;
    bool ending_ OSD_GUARDED_BY(lock_) = false;
    bool ended_ OSD_GUARDED_BY(lock_) = false;
    bool left_behind_ OSD_GUARDED_BY(lock_) = false;
    osd::thread thread_;
};

void late_closer::worker::work()
{
    bool is_ours = false;
    {
        osd::lock_guard hold(lock_);
        while (count_ != 0 || !ending_) {
            if (count_ == 0) {
                (void)changed_.wait(lock_, osd::deadline::never());
                continue;
            }
            waitable next = waiting_[first_];
            lock_.unlock();
            local_socket::close(next);
            lock_.lock();
            first_ = (first_ + 1) % most;
            --count_;
        }
        ended_ = true;
        is_ours = left_behind_;
        changed_.broadcast();
    }
    if (is_ours)
        delete this;
}

bool late_closer::has_room() const
{
    return worker_ == nullptr || worker_->waiting() < most_strangers;
}

bool late_closer::begin()
{
    worker_ = new (std::nothrow) worker;
    if (worker_ != nullptr && !worker_->start()) {
        delete worker_;
        worker_ = nullptr;
    }
    return worker_ != nullptr;
}

void late_closer::take(waitable descriptor)
{
    if (descriptor < 0)
        return;
    if (trusts_ || (worker_ == nullptr && !begin()) || !worker_->add(descriptor))
        local_socket::close(descriptor);
}

void late_closer::take_listener(waitable listener)
{
    local_socket::shut(listener);
    waitable caller = listener;
    while (caller >= 0 && has_room())
        take(caller = local_socket::accept(listener));
    if (caller == local_socket::none)
        local_socket::close(listener); // the backlog is empty now
    else
        take(listener);
}

void late_closer::end()
{
    if (worker_ != nullptr && worker_->end())
        delete worker_;
    worker_ = nullptr;
}

} // namespace soft_hca
