// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// IA: an open interface adapter, as its objects know it: the device, the pools that the objects
// live in, the timers. How it is opened and closed is in adapter_life.hpp, which knows all objects.
#pragma once

#include "counters.hpp"
#include "dapl_line_limit.hpp"
#include "lmr_index.hpp"
#include "osd_sharing.hpp"
#include "osd_thread.hpp"
#include "pool.hpp"
#include "timer.hpp"
#include "transport.hpp"

namespace dapl::DAPL_TRANSPORT::core {

/// One line of dat.conf that named this library: what the registry passed for it, and its vector.
/// The registry finds the line again by the device name in the vector.
struct provider_line {
    DAT_PROVIDER vector; ///< first: objects name their line by it
    DAT_PROVIDER_INFO info;
    char *params; ///< ia_params, owned
    provider_line *next;
    bool is_guarded; ///< set in a forked child, where the vector calls `unguarded` by in_child
    DAT_PROVIDER unguarded;
    DAT_PROVIDER unlogged; ///< what `vector` calls where calls are logged
};

class adapter : public object {
public:
    static bool is_kind(mark kind) { return kind == mark::ia; }

    explicit adapter(const provider_line &opened_by)
        : object(&opened_by.vector, mark::ia, *this), line(opened_by), process_(osd::process_id())
    {}

    /// Whether this process is a forked child of the process that opened the adapter.
    bool is_inherited() const { return process_ != osd::process_id(); }
    /// Like is_inherited(), but without a system call, and blind to children made by the bare clone
    /// system call.
    bool is_from_before_fork() const { return forks_ != forks; }
    /// How often fork() has made a child on the way to this process.
    static inline std::uint32_t forks = 0;

    status open_hca();
    void close_hca();

    /// Offers the sums of all counters to dat-info --watch, before there are any objects.
    void offer_counters();
    /// Counts these in the sums, too, where they are offered.
    void count_in_sum(endpoint_counters &);
    void count_in_sum(evd_counters &);
    /// Whether calls are counted, and devices asked for what they count. Written for each line of
    /// dat.conf.
    static inline std::atomic<bool> counts{false};
    /// Whether adapters that are opened offer their counters.
    static inline std::atomic<bool> offers_counters{false};

    // --- objects ---

    /// A new object, or null.
    template <class T, class... Arguments>
    T *make(Arguments &&...arguments) OSD_EXCLUDES(lock_)
    {
        osd::lock_guard hold(lock_);
        return pool_of<T>().template make<T>(provider, *this,
                                             std::forward<Arguments>(arguments)...);
    }
    template <class T>
    void destroy(T &victim) OSD_EXCLUDES(lock_)
    {
        osd::lock_guard hold(lock_);
        pool_of<T>().destroy(victim);
    }
    /// How many there are.
    template <class T>
    std::size_t live() OSD_EXCLUDES(lock_)
    {
        osd::lock_guard hold(lock_);
        return pool_of<T>().live();
    }
    /// Whether there are `most` of a type. 0: the port names no limit.
    template <class T>
    bool has_most(DAT_COUNT most) OSD_EXCLUDES(lock_)
    {
        return most > 0 && live<T>() >= static_cast<std::size_t>(most);
    }
    /// The number of live objects of all types.
    std::size_t live_objects() OSD_EXCLUDES(lock_);
    /// Calls `visitor` for each object of a type, with the lock held.
    template <class T, class Visitor>
    void visit(Visitor &&visitor) OSD_EXCLUDES(lock_)
    {
        osd::lock_guard hold(lock_);
        pool_of<T>().template for_each<T>(visitor);
    }
    /// Visits every object while the adapter closes, without the lock. The visitor may destroy the
    /// object that it gets.
    template <class T, class Visitor>
    void for_each(Visitor &&visitor) OSD_UNCHECKED
    {
        pool_of<T>().template for_each<T>(visitor);
    }
    /// Whether some live object passes the test.
    template <class T, class Test>
    bool any(Test &&test) OSD_EXCLUDES(lock_)
    {
        bool found = false;
        visit<T>([&](T &each) { found = found || test(each); });
        return found;
    }
    /// A reference to a live object that passes the test, or to none.
    template <class T, class Test>
    user_of<T> find(Test &&test) OSD_EXCLUDES(lock_)
    {
        osd::lock_guard hold(lock_);
        T *found = nullptr;
        pool_of<T>().template for_each<T>([&](T &each) {
            if (found == nullptr && test(each))
                found = &each;
        });
        return user_of<T>(found);
    }
    /// Returns when the last reference to a condemned object is gone.
    void await_unused(const object &condemned) OSD_EXCLUDES(lock_);

    /// What the consumer calls this adapter: an index of the registry's.
    DAT_IA_HANDLE consumer_handle() const;

    const provider_line &line;
    transport::hca hca;
    hca_attr attr;
    std::atomic<bool> cno_sleeper{false}; ///< some waiter of a CNO sleeps in the port
    timer_queue timers;
    /// Programs connect again and again until their peer is there.
    line_limit unconnected_lines{3, 10'000'000'000};
    lmr_index regions;
    adapter_counters counters;

    /// Guarded by the lock in async_events.cpp.
    struct {
        evd *target = nullptr; ///< the EVD of async events, perhaps of another adapter
        bool owned = false;    ///< it is ours
        bool loses = false;    ///< it had no room for the latest event, or is gone
        adapter *next_open = nullptr;
    } async;

private:
    template <class T>
    object_pool &pool_of() OSD_REQUIRES(lock_)
    {
        return pools_[static_cast<std::size_t>(T::pool)];
    }

    offered_counters *offered() const
    {
        return static_cast<offered_counters *>(offered_.address());
    }

    osd::offered_pages offered_; // before the pools, whose objects count in it
    osd::mutex lock_;
    object_pool pools_[static_cast<std::size_t>(object_type::count)] OSD_GUARDED_BY(lock_);
    bool hca_open_ = false;
    const long process_;
    const std::uint32_t forks_ = forks;
};

} // namespace dapl::DAPL_TRANSPORT::core
