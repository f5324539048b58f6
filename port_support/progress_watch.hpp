// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Progress for a device that only moves data while it is called: by its consumers where they poll,
// by the service thread where they do not.
#pragma once

#include "connection_service.hpp"
#include "dapl_chain.hpp"

#include <atomic>
#include <cstdint>

namespace dapl::DAPL_TRANSPORT {

// Tell a ring which of a target's links is its own.
struct progress_all_link : list_link {};
struct progress_ready_link : list_link {};

/// A CQ through which connections are kept going. A port's cq derives from it.
class progress_target : public progress_all_link, public progress_ready_link {
public:
    /// Readable when there is something to do, as far as reset_signal() left it to that.
    int wait_fd = -1;

    enum : std::uint32_t {
        waiting = 1, ///< the consumer is inside cq_wait
        notify = 2,  ///< it wants a dapl_evd_dto_callback
        report = 4,  ///< with waiting: the service thread is to be called when it ends
    };
    std::atomic<std::uint32_t> sleepers{0};
    std::atomic<std::uint32_t> posting{0}; ///< set by posts of queue pairs that receive here

    bool is_waiting() const { return (sleepers.load() & waiting) != 0; }
    bool wants_callback() const { return (sleepers.load() & notify) != 0; }

protected:
    ~progress_target() = default;

private:
    friend class progress_watch;

    // The device, called without a lock.
    /// Moves what waits to be moved; true when the CQ holds a completion.
    virtual bool progress() = 0;
    /// The same, and completions that the port has deferred count.
    virtual bool has_completion_now() = 0;
    /// Clears wait_fd of what is already there; false when that are completions.
    virtual bool reset_signal() = 0;
    virtual void signal() = 0;
    /// Whether the consumer polled since the last call.
    virtual bool take_polled() = 0;
    virtual void call_back() = 0;

    std::atomic<bool> armed_{false}; ///< the service thread wakes when wait_fd becomes readable

    // Guarded by connection_service::lock.
    std::int64_t due_ns_ = INT64_MAX; ///< when to visit it, if nothing happens
    std::uint32_t period_us_ = 0;     ///< the last back-off
    bool seen_idle_ = false;          ///< its consumer, at the last visit
    bool listed_ = false;             ///< among the thread's descriptors, armed or not
    std::uint32_t receivers_ = 0;     ///< queue pairs that receive here: their sockets are watched
    /// Where all of them send: a consumer that polls there serves the same sockets. Null when there
    /// are several.
    progress_target *mate_ = nullptr;
};

/// What the service thread does for the targets of an adapter. From those whose consumer polls it
/// backs off, up to 10 ms; where nothing happens it sleeps.
class progress_watch {
public:
    void add(connection_service &service, progress_target &target) OSD_REQUIRES(service.lock);
    /// Fence: no visit is running afterwards.
    void remove(connection_service &service, progress_target &target) OSD_REQUIRES(service.lock);

    /// A queue pair receives on a target, and sends on another or the same.
    void add_receiver(connection_service &service, progress_target &target,
                      progress_target &sends_at) OSD_REQUIRES(service.lock);
    void remove_receiver(connection_service &service, progress_target &target)
        OSD_REQUIRES(service.lock);

    // The consumer's side; no lock.
    void request_callback(connection_service &service, progress_target &target);
    void begin_wait(progress_target &target) { target.sleepers.fetch_or(progress_target::waiting); }
    void end_wait(connection_service &service, progress_target &target);
    /// Has the service thread look at all targets and connections.
    void call(connection_service &service);

    // The loop of the service thread.
    /// The thread's descriptors reported it.
    void set_ready(connection_service &service, progress_target &target) OSD_REQUIRES(service.lock);
    /// Takes what consumers asked for since the last call; true when there was something.
    bool answer_calls(connection_service &service) OSD_REQUIRES(service.lock);
    /// Visits what is due; says when to come back.
    std::int64_t visit_due(connection_service &service) OSD_REQUIRES(service.lock);

private:
    enum class next_step { arm, back_off, revisit };
    enum class consumer { absent, idle, busy };

    static bool in_use(progress_target &target, progress_target *mate);
    static consumer observe_consumer(progress_target &target, progress_target *mate);
    static next_step attend(progress_target &target, progress_target *mate, bool called);
    static next_step serve(progress_target &target);
    static void answer_notify(progress_target &target);
    static bool leave_until_report(progress_target &target);

    // With service.lock held.
    static void stop_watching(connection_service &service, progress_target &target);
    static void arm(connection_service &service, progress_target &target);
    static void back_off(connection_service &service, progress_target &target);
    static void visit(connection_service &service, progress_target &target)
        OSD_REQUIRES(service.lock);

    std::atomic<bool> called_{false}; ///< some target's `sleepers` changed
    // Guarded by service.lock.
    list<progress_target, progress_all_link> all_;
    list<progress_target, progress_ready_link> ready_;
};

} // namespace dapl::DAPL_TRANSPORT
