// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// IA: an open interface adapter, owner of everything made on it.
#pragma once

#include "cno.hpp"
#include "cr.hpp"
#include "endpoint.hpp"
#include "evd.hpp"
#include "lmr.hpp"
#include "pool.hpp"
#include "pz.hpp"
#include "rmr.hpp"
#include "service_point.hpp"
#include "shared_recv_queue.hpp"
#include "timer.hpp"

namespace dapl::DAPL_TRANSPORT::core {

/// One line of dat.conf that named this library: what the registry told us, and the vector that
/// answers for it. The registry finds the line again by the device name in the vector.
struct provider_line {
    DAT_PROVIDER vector;
    DAT_PROVIDER_INFO info;
    char *params; ///< ia_params, owned
    provider_line *next;
};

class adapter : public object {
public:
    static bool is_kind(mark kind) { return kind == mark::ia; }

    explicit adapter(const provider_line &opened_by)
        : object(&opened_by.vector, mark::ia, *this), line(opened_by)
    {}
    ~adapter();

    status open(DAT_COUNT async_qlen, DAT_EVD_HANDLE *async_evd);
    /// Only an abrupt close takes the consumer's objects down.
    status close(DAT_CLOSE_FLAGS how);

    /// A new object in one of the pools, or null.
    template <class T, class... Arguments>
    T *make(pool<T> &from, Arguments &&...arguments)
    {
        osd::lock_guard hold(lock_);
        return from.make(provider, *this, std::forward<Arguments>(arguments)...);
    }
    template <class T>
    void destroy(pool<T> &from, T &victim)
    {
        osd::lock_guard hold(lock_);
        from.destroy(&victim);
    }
    template <class T>
    std::size_t live(const pool<T> &of)
    {
        osd::lock_guard hold(lock_);
        return of.live();
    }
    /// Whether some live object of a pool is as wanted.
    template <class T, class Test>
    bool any(pool<T> &of, Test &&test)
    {
        osd::lock_guard hold(lock_);
        bool found = false;
        of.for_each([&](T &each) { found = found || test(each); });
        return found;
    }
    /// A live object of a pool that is as wanted, held as one that is in use; or none.
    template <class T, class Test>
    user_of<T> find(pool<T> &of, Test &&test)
    {
        osd::lock_guard hold(lock_);
        T *found = nullptr;
        of.for_each([&](T &each) {
            if (found == nullptr && test(each))
                found = &each;
        });
        return user_of<T>(found);
    }
    /// Of a condemned object: on return nobody who found it before uses it any more.
    void await_unused(const object &condemned) OSD_EXCLUDES(lock_);
    status make_evd(DAT_COUNT qlen, DAT_EVD_FLAGS streams, evd *&out);

    /// What the consumer calls this adapter: an index of the registry's.
    DAT_IA_HANDLE consumer_handle() const;
    /// See queue_owner.hpp.
    void trace_outstanding(const evd &there) OSD_EXCLUDES(lock_);
    void async_error(DAT_EVENT_NUMBER number, DAT_HANDLE affiliated, DAT_COUNT reason);
    evd *async_evd() const;

    void fill(DAT_IA_ATTR &out) const;
    void fill(DAT_PROVIDER_ATTR &out) const;

    const provider_line &line;
    transport::hca hca;
    hca_attr attr;
    std::atomic<bool> cno_sleeper{false}; ///< some waiter of a CNO sleeps in the port
    timer_queue timers;

    adapter_counters counters;

    pool<pz> pzs;
    pool<lmr> lmrs;
    pool<rmr> rmrs;
    pool<cno> cnos;
    pool<evd> evds;
    pool<shared_recv_queue> srqs;
    pool<endpoint> eps;
    pool<service_point> sps;
    pool<cr> crs;

private:
    status attach_async_evd(DAT_COUNT qlen, DAT_EVD_HANDLE *handle);
    void detach_async_evd();
    void recall_evds();
    void forget_evds_of(const adapter &closing) OSD_EXCLUDES(lock_);
    void close_hca();
    bool consumer_objects_left();
    departure dismiss_waiters(osd::deadline until);
    bool tear_down();
    void abandon();

    osd::mutex lock_; ///< of the pools
    bool hca_open_ = false;
    bool owns_async_evd_ = false;
    evd *async_evd_ = nullptr; ///< guarded by the lock of the list of open adapters
    adapter *next_open_ = nullptr;
};

/// Threads that were sent home may still execute their last instructions here when the registry
/// unloads the library. Keeps it in memory until it is loaded once more.
void outlive_leaving_threads();
/// Keeps the library in memory for good: threads are inside that nothing can wait for.
void stay_loaded();

status open_adapter(const provider_line &line, DAT_COUNT async_qlen, DAT_EVD_HANDLE *async_evd,
                    DAT_IA_HANDLE *out);

} // namespace dapl::DAPL_TRANSPORT::core
