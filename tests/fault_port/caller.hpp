// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The caller's side of the contract, held at each operation: its objects live, one thread at a time
// is where the contract says so, and nothing that may block is called from inside an upcall.
// A caller that breaks a rule aborts the process, with a line that names operation, object and
// rule.
//
// All atomics are relaxed: anything stronger would order the threads for ThreadSanitizer, which
// then sees no races between them.
#pragma once

#include "dapls_ib.hpp"
#include "fault_subjects.hpp"

#include "osd_cancellation.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

namespace dapl::DAPL_TRANSPORT::faults {

/// What one thread at a time may do with an object, each beside the others: "lane" in the
/// contract's table.
enum class lane : std::uint8_t { control, requests, receives, polling, number, none };

/// Whether an operation may run beside a fence. Any thread may call these, so an upcall may that is
/// running when a fence for its object begins. disconnect_clean is not called beside a fence.
constexpr bool may_run_beside_fence(subject what)
{
    return what == subject::completion_notify || what == subject::cq_wakeup ||
           what == subject::evd_events || what == subject::cno_wakeup;
}

/// An operation on an object, for messages.
struct place {
    subject what;
    const char *kind;
    const void *object;
};

/// How an object of the wrapper is used.
class usage {
public:
    bool concurrent_posts = false;

    bool is_used() const { return inside_.load(std::memory_order_relaxed) > 0; }
    /// Notes the begin and the end of an operation that has the object among its arguments.
    void enter(const place &);
    /// Notes the begin of an operation beside which a fence may have begun.
    void enter_beside_fence(const place &);
    void leave(subject what)
    {
        inside_.fetch_sub(1, std::memory_order_relaxed);
        operations_.fetch_and(~bit(what), std::memory_order_relaxed);
    }

    void begin_making(const place &);
    /// Notes that the object was made; called after enter().
    void end_making(bool ok)
    {
        life_.store(ok ? life::made : life::unmade, std::memory_order_relaxed);
    }
    /// Notes that the object is being freed; called after enter().
    void begin_freeing(const place &);
    void end_freeing() { life_.store(life::freed, std::memory_order_relaxed); }

    void take(lane, bool shared, const place &);
    void give(lane, bool shared);

private:
    enum class life : std::uint8_t { unmade, being_made, made, being_freed, freed };
    static constexpr auto lanes = static_cast<std::size_t>(lane::number);
    static constexpr int alone = -1;

    std::atomic<life> life_{life::unmade};
    static constexpr std::uint64_t bit(subject what)
    {
        return std::uint64_t{1} << (static_cast<unsigned>(what) % 64);
    }
    const char *another_than(subject what) const;

    std::atomic<int> inside_{0};
    std::atomic<std::uint64_t> operations_{0}; ///< that threads are in, for messages
    std::atomic<int> threads_[lanes] = {};     ///< in a lane, or `alone`
    std::atomic<subject> latest_[lanes] = {};
};

/// Upcalls that the calling thread is inside of.
inline constinit thread_local int upcall_depth = 0;

struct inside_upcall {
    inside_upcall() { ++upcall_depth; }
    inside_upcall(const inside_upcall &) = delete;
    inside_upcall &operator=(const inside_upcall &) = delete;
    ~inside_upcall() { --upcall_depth; }
};

[[noreturn]] void breaks_contract(const place &, const char *rule, const char *also = "");

/// Says which types are the wrapper's objects. They are named, not looked at: operations also take
/// objects of the common layer, whose types are not complete everywhere.
template <class T>
inline constexpr bool is_wrapped = false;

/// The object of the wrapper that an argument is or points to; otherwise null.
template <class T>
auto *object_in(T &argument)
{
    if constexpr (is_wrapped<std::remove_cv_t<T>>)
        return const_cast<std::remove_cv_t<T> *>(&argument);
    else if constexpr (std::is_pointer_v<T>) {
        if constexpr (is_wrapped<std::remove_pointer_t<T>>)
            return argument;
        else
            return static_cast<std::nullptr_t *>(nullptr);
    } else
        return static_cast<std::nullptr_t *>(nullptr);
}

/// Exists while the caller is in an operation. Several threads may be in it if it is `shared` and
/// the object has concurrent posts. `made` is the place of the argument that it brings to life, or
/// -1.
template <subject what, lane on, bool shared, bool may_block, int made, class... Args>
class entered {
public:
    explicit entered(Args &...args) : args_(args...)
    {
        if constexpr (may_block)
            if (upcall_depth > 0)
                breaks_contract({what, "", nullptr},
                                "it may block, and is called inside an upcall");
        each([](auto &object, int at) {
            const place here{what, object.kind, &object};
            if (at == made)
                object.callers.begin_making(here);
            if (beside_fence())
                object.callers.enter_beside_fence(here);
            else
                object.callers.enter(here);
        });
        with_subject([](auto &object) {
            const place here{what, object.kind, &object};
            if constexpr (on != lane::none)
                object.callers.take(on, shares(object), here);
            if constexpr (facts.ends_object)
                object.callers.begin_freeing(here);
        });
    }
    entered(const entered &) = delete;
    entered &operator=(const entered &) = delete;
    ~entered() { leave(); }

    /// Ends an operation in place of the destructor, if a thread is cancelled.
    void leave() const
    {
        with_subject([](auto &object) {
            if constexpr (on != lane::none)
                object.callers.give(on, shares(object));
            if constexpr (facts.ends_object)
                object.callers.end_freeing();
        });
        if (beside_fence())
            return;
        each([](auto &object, int) { object.callers.leave(what); });
    }

    /// Notes what the operation that makes the object answers.
    status came_to_life(status answer) const
    {
        with_subject([&](auto &object) {
            object.callers.concurrent_posts = concurrent_posts();
            object.callers.end_making(answer.ok());
        });
        return answer;
    }

private:
    static constexpr subject_facts facts = facts_of_subjects[static_cast<int>(what)];

    static bool beside_fence() { return may_run_beside_fence(what) && upcall_depth > 0; }

    bool concurrent_posts() const
    {
        if constexpr ((std::is_same_v<Args, const qp_params> || ...))
            return std::get<const qp_params &>(args_).concurrent_posts;
        return false;
    }

    template <class Object>
    static bool shares(const Object &object)
    {
        return shared && object.callers.concurrent_posts;
    }

    template <class Do>
    void each(Do what_to_do) const
    {
        [&]<std::size_t... at>(std::index_sequence<at...>)
        {
            (one<static_cast<int>(at)>(what_to_do), ...);
        }
        (std::index_sequence_for<Args...>{});
    }
    template <int at, class Do>
    void one(Do &what_to_do) const
    {
        auto *const object = object_in(std::get<at>(args_));
        if constexpr (!std::is_same_v<decltype(object), std::nullptr_t *const>)
            if (object != nullptr)
                what_to_do(*object, at);
    }
    /// The object that the operation is about: the object it makes, or its first argument.
    template <class Do>
    void with_subject(Do what_to_do) const
    {
        bool found = false;
        each([&](auto &object, int at) {
            if (made >= 0 ? at == made : !std::exchange(found, true))
                what_to_do(object);
        });
    }

    std::tuple<Args &...> args_;
};

template <subject what, lane on, bool shared, bool may_block, int made, class... Args>
entered<what, on, shared, may_block, made, Args...> enter(Args &...args)
{
    return entered<what, on, shared, may_block, made, Args...>(args...);
}

/// A thread that is cancelled leaves, and no destructor runs.
template <class Caller, class Wait>
osd::wait_result wait_in(const Caller &caller, Wait &&wait)
{
    osd::wait_result answer{};
    osd::undo_if_cancelled([&] { answer = wait(); }, [&] { caller.leave(); });
    return answer;
}

} // namespace dapl::DAPL_TRANSPORT::faults
