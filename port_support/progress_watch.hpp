// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Progress for a device that only moves data while it is called: by its consumers where they poll
// or wait, by the service thread where they do not.
//
// The descriptor of a target is armed in at most one set: that on which the service thread sleeps,
// or, once a callback was asked for, the notifying set, on which a consumer in cno_wait can sleep
// in the thread's place.
//
//   what happens                      the target then
//   --------------------------------  ----------------------------------------------------------
//   the descriptor is ready           disarmed; a visit by the thread, or by who is in cno_wait
//   a visit finds nothing to do       armed
//   a visit leaves something to do    disarmed; the next visit follows at once if data have moved,
//                                       or else after such a pause: a message may be waiting for
//                                       which no receive is posted
//   a visit finds that its consumer   disarmed; the next visit follows after a pause that grows up
//     polls or waits                  to 10 ms, or else when the wait has ended
//   its consumer begins to wait       disarmed, if it was armed
//   and ends that wait                lingering, if no visit is due: one follows in 5 to 10 ms
//   a callback is made in cno_wait    lingering
//   a callback is asked for           armed, by who asks
//   completions have waited for       put aside: a failure that follows from one of them is seen
//     their consumer for 20 ms          then, whether or not the consumer ever comes
//
// Where all targets of a device move data through one shared descriptor, each set holds that, armed
// as long as targets of the set are armed. When it is ready, one of them is visited, which moves
// the data of all. The service thread's set holds it armed while connections are being made, too.
//
// A consumer that waits again ends the lingering before that. It sets a timer, at most, and wakes
// no thread. Were the descriptor armed instead, each completion that the consumer takes itself
// between two waits would wake the service thread.
#pragma once

#include "connection_service.hpp"
#include "dapl_chain.hpp"
#include "osd_descriptor.hpp"

#include <atomic>
#include <cstdint>

namespace dapl::DAPL_TRANSPORT {

// Tell a ring which of a target's links is its own.
struct progress_all_link : list_link {};
struct progress_ready_link : list_link {};

/// Measures for how long visits find completions and no consumer. Any thread.
class unattended_time {
public:
    void end() { since_ns_.store(0, std::memory_order_relaxed); }
    /// Returns whether it has lasted long enough to put them aside, and ends it then.
    bool go_on(std::int64_t now)
    {
        const std::int64_t since = since_ns_.load(std::memory_order_relaxed);
        const bool over = since != 0 && now - since >= longest_ns;
        if (since == 0 || over)
            since_ns_.store(over ? 0 : now, std::memory_order_relaxed);
        return over;
    }
    std::int64_t over_at_ns() const
    {
        const std::int64_t since = since_ns_.load(std::memory_order_relaxed);
        return since == 0 ? INT64_MAX : since + longest_ns;
    }

private:
    static constexpr std::int64_t longest_ns = 20'000'000;
    std::atomic<std::int64_t> since_ns_{0}; ///< 0: is not running
};

/// A descriptor that is readable when there are data to move for any target. A set, of two, holds
/// it armed while targets of the set are armed.
class shared_descriptor {
public:
    void open(int fd) { fd_ = fd; }
    int get() const { return fd_; }

    /// Counts a target of the set that is armed now.
    void count_in(port_support::epoll_set &set, bool notifying) OSD_EXCLUDES(lock_);
    void count_out(bool notifying) OSD_EXCLUDES(lock_);
    /// Disarms the descriptor in a set without armed targets.
    void rest(port_support::epoll_set &set, bool notifying) OSD_EXCLUDES(lock_);
    /// Arms the descriptor again after fired(), for targets that have stayed armed.
    void resume(port_support::epoll_set &set, bool notifying) OSD_EXCLUDES(lock_);
    /// Whether a set has reported this descriptor by the tag, and disarmed it. Says which set.
    bool fired(const void *tag, bool &notifying) OSD_EXCLUDES(lock_);

private:
    struct place {
        std::uint32_t targets = 0; ///< number of armed targets in the set, and of attempts
        bool listed = false;
        bool armed = false;
    };
    void arm(port_support::epoll_set &set, place &at) OSD_REQUIRES(lock_);

    int fd_ = -1;
    osd::mutex lock_; ///< the last lock
    place places_[2] OSD_GUARDED_BY(lock_);
};

/// A CQ through which connections are kept going. A port's cq derives from it.
class progress_target : public progress_all_link, public progress_ready_link {
public:
    /// Readable when there is something to do, as far as reset_signal() left it to that. Where
    /// targets share a descriptor for data to move, this one tells of completions only.
    int wait_fd = -1;
    int shared_fd = -1;      ///< the shared descriptor, if any; set by progress_watch::add()
    bool puts_aside = false; ///< put_aside() is there

    enum : std::uint32_t {
        waiting = 1, ///< the consumer is inside cq_wait
        notify = 2,  ///< it wants a dapl_evd_dto_callback
        report = 4,  ///< flag beside waiting: the service thread is to be called when it ends
        left = 8,    ///< flag beside waiting: the target lingers when it ends
        resting = 16 ///< the service thread may sleep until wait_fd becomes readable
    };
    /// When it is not 0, the port makes progress() after it posted a receive: the device may have
    /// taken the message for it from a socket, and data behind that message, and nothing else would
    /// move them.
    std::atomic<std::uint32_t> sleepers{0};
    std::atomic<std::uint32_t> posting{0}; ///< set by posts of queue pairs that receive here

    bool is_waiting() const { return (sleepers.load() & waiting) != 0; }
    bool wants_callback() const { return (sleepers.load() & notify) != 0; }

protected:
    ~progress_target() = default;

private:
    friend class progress_watch;

    bool has_polled();
    bool disarm(shared_descriptor &shared) OSD_REQUIRES(arming_);

    // The device, called without a lock.
    /// Makes progress on the device; true when the CQ holds a completion.
    virtual bool progress() = 0;
    /// Makes progress; true when there is a completion in the CQ, or deferred by the port.
    virtual bool has_completion_now() = 0;
    /// Clears the present signal of wait_fd; false when completions caused it.
    virtual bool reset_signal() = 0;
    virtual void signal() = 0;
    /// Whether the consumer polled since the last call.
    virtual bool take_polled() = 0;
    virtual void call_back() = 0;
    /// Takes the completions out of the device, so that progress() finds none. The consumer, which
    /// gets them from the port now, may come meanwhile.
    virtual void put_aside() {}
    /// Called with connection_service::lock: another number whenever data have moved since the last
    /// call.
    virtual std::uint64_t moved_so_far() = 0;

    osd::mutex arming_;              ///< for the next four, and the kernel's sets
    std::atomic<bool> armed_{false}; ///< a visit follows when wait_fd becomes readable
    bool listed_ = false;            ///< in one of the sets, armed or not
    bool notifies_ = false;          ///< that is the notifying one
    bool lingering_ = false;
    std::int64_t wait_began_ns_ = 0; ///< the waiter's
    unattended_time unattended_;

    // Guarded by connection_service::lock.
    std::int64_t due_ns_ = INT64_MAX;   ///< when to visit it, if nothing happens
    std::int64_t aside_ns_ = INT64_MAX; ///< when to put completions aside, if nobody took them
    std::uint32_t period_us_ = 0;       ///< the last back-off
    std::uint64_t moved_before_ = 0;    ///< moved_so_far() at the last look
    std::int64_t looked_ns_ = 0;        ///< time of that look
    bool seen_idle_ = false;            ///< its consumer, at the last visit
    bool called_back_ = false;          ///< the last visit made a callback
    bool visited_ = false;              ///< just now
    bool again_ = false;                ///< another visit is to follow
    std::uint32_t receivers_ = 0; ///< queue pairs that receive here: their sockets are watched
    /// The target at which all queue pairs that receive here send: a consumer that polls there
    /// serves the same sockets. Null when there are several.
    progress_target *mate_ = nullptr;
};

/// The part of the service thread that visits the targets of an adapter. It visits a target whose
/// consumer polls less and less often, up to 10 ms apart; when nothing happens anywhere, it sleeps.
class progress_watch {
public:
    /// Opens the descriptors, before the thread starts; close() after it ended. `notifying`:
    /// consumers may wait for callbacks. `shared_fd`: a descriptor that tells of data to move for
    /// any target, or -1. False and errno when there are no descriptors left.
    [[nodiscard]] bool open(connection_service &service, bool notifying, int shared_fd = -1);
    void close();

    /// False and errno when the kernel refuses to watch the target.
    [[nodiscard]] bool add(connection_service &service, progress_target &target)
        OSD_REQUIRES(service.lock);
    /// Removes a target. Fence: no visit is running afterwards.
    void remove(connection_service &service, progress_target &target) OSD_REQUIRES(service.lock);

    /// Notes a queue pair that receives on a target, and sends on that or another target.
    void add_receiver(connection_service &service, progress_target &target,
                      progress_target &sends_at) OSD_REQUIRES(service.lock);
    void remove_receiver(connection_service &service, progress_target &target)
        OSD_REQUIRES(service.lock);

    /// Counts a connection that begins to be made, or no longer is: while there is one, whatever
    /// comes through the shared descriptor wakes the service thread. No consumer moves it.
    void count_attempt(connection_service &service, bool begins)
    {
        if (begins)
            shared_.count_in(service.events, false);
        else
            shared_.count_out(false);
    }

    // The consumer's side; no lock.
    void request_callback(connection_service &service, progress_target &target);
    void begin_wait(connection_service &service, progress_target &target);
    void end_wait(connection_service &service, progress_target &target);
    /// Has the service thread look at all targets and connections.
    void call(connection_service &service);
    /// cno_wait and cno_wakeup.
    osd::wait_result wait_for_callback(connection_service &service, osd::deadline until);
    void wake_waiter();

    // The loop of the service thread.
    /// Notes that the thread's descriptors reported this tag.
    void set_ready(connection_service &service, void *tag) OSD_REQUIRES(service.lock);
    /// Takes what consumers asked for since the last call; true when there was something.
    bool answer_calls(connection_service &service) OSD_REQUIRES(service.lock);
    /// Visits all targets that are due; returns when to come back.
    std::int64_t visit_due(connection_service &service) OSD_REQUIRES(service.lock);

private:
    enum class next_step { arm, back_off, revisit };
    enum class consumer { absent, idle, busy };

    static bool in_use(progress_target &target, progress_target *mate);
    static consumer observe_consumer(progress_target &target, progress_target *mate);
    static next_step attend(progress_target &target, progress_target *mate, bool called,
                            int rounds);
    static next_step serve(progress_target &target, int rounds);
    static void look_after_completions(progress_target &target);
    static void answer_notify(progress_target &target);
    static bool is_stuck(progress_target &target);

    port_support::epoll_set &set_of(connection_service &service, const progress_target &target)
        OSD_REQUIRES(target.arming_);
    void stop_watching(connection_service &service, progress_target &target)
        OSD_REQUIRES(target.arming_);
    void watch(connection_service &service, progress_target &target) OSD_REQUIRES(target.arming_);
    void linger(progress_target &target) OSD_REQUIRES(target.arming_);
    bool stop_lingering(progress_target &target) OSD_REQUIRES(target.arming_);
    void set_alarm(std::int64_t at_ns) OSD_REQUIRES(alarm_lock_);

    void make_ready(progress_target &target);
    void make_one_ready(bool notifying);
    void collect(connection_service &service) OSD_REQUIRES(service.lock);
    void end_lingering(connection_service &service) OSD_REQUIRES(service.lock);
    void arm(connection_service &service, progress_target &target, bool called_back)
        OSD_REQUIRES(service.lock);
    void back_off(connection_service &service, progress_target &target) OSD_REQUIRES(service.lock);
    void visit(connection_service &service, progress_target &target) OSD_REQUIRES(service.lock);
    void visit_ready(connection_service &service) OSD_REQUIRES(service.lock);

    void leave_notifying_to_service(connection_service &service, bool leave);
    osd::wait_result sleep_for_callback(connection_service &service, osd::deadline until);
    bool serve_notifying(connection_service &service);

    osd::mutex alarm_lock_;                                         ///< the last lock
    std::uint32_t lingering_ OSD_GUARDED_BY(alarm_lock_) = 0;       ///< number of targets that
                                                                    ///< linger
    std::int64_t alarm_ns_ OSD_GUARDED_BY(alarm_lock_) = INT64_MAX; ///< set to this time
    int alarm_ = -1; ///< a timer: readable when they have lingered long enough
    std::atomic<std::int64_t> last_wait_ns_{0}; ///< how long it took

    shared_descriptor shared_;
    port_support::epoll_set notifying_;
    osd::event_descriptor wake_;     ///< ends wait_for_callback
    std::atomic<bool> awake_{false}; ///< the thread in wait_for_callback is awake
    std::atomic<bool> woken_{false};
    std::atomic<bool> called_{false}; ///< some target's `sleepers` changed
    // Guarded by service.lock.
    list<progress_target, progress_all_link> all_;
    list<progress_target, progress_ready_link> ready_;
    std::uint32_t callbacks_ = 0; ///< made so far
};

} // namespace dapl::DAPL_TRANSPORT
