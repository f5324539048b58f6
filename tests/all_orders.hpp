// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Checks algorithms without locks, on their own code: runs a few threads in each order of their
// steps, and with each value that a load may return under the memory model of C++.
//
// An algorithm gets its atomic types from a template argument: osd::real_threads, or weak_threads
// here, whose operations are the steps. The checker keeps all values that were stored to an atomic,
// in their order. Each thread has a view: the oldest value of each atomic that it may still load.
// A store by release publishes the view of its thread, and a load by acquire adds it to the view of
// the loading thread. A sequentially consistent load returns nothing older than the last
// sequentially consistent store.
//
// A thread may use a plain object, or end the life of an atomic, only if its view has all uses that
// conflict with this one: `races` counts the others.
//
// The checker leaves out loads of values that are stored later, and stores that take effect before
// an earlier one by another thread to that atomic. It bounds how often in a run a thread is left
// while it could go on, or a load returns another value than the newest.
#pragma once

#include "fiber.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace orders {

/// The newest operation of each thread, and value of each atomic, that is known.
class view {
public:
    std::uint32_t of(std::size_t what) const { return what < newest_.size() ? newest_[what] : 0; }
    void add(std::size_t what, std::uint32_t number)
    {
        if (newest_.size() <= what)
            newest_.resize(what + 1);
        newest_[what] = std::max(newest_[what], number);
    }
    void add(const view &other)
    {
        for (std::size_t i = 0; i < other.newest_.size(); ++i)
            add(i, other.newest_[i]);
    }

private:
    std::vector<std::uint32_t> newest_;
};

constexpr std::size_t most_threads = 4; ///< their operations are the first numbers of a view

class all_orders {
public:
    /// How often in a run a thread is left while it could go on, or a load returns an old value.
    int most_choices = 2;

    /// Makes what the threads of a run share, and returns their bodies.
    using scenario = std::function<std::vector<std::function<void()>>()>;

    /// `judge` is called after each run.
    void run(const scenario &begin, const std::function<void()> &judge)
    {
        active = this;
        do {
            ++runs;
            next_name_ = most_threads;
            consistent_ = {};
            all_ = {};
            run_once(begin());
            judge();
        } while (stuck == 0 && next_order());
        active = nullptr;
    }

    static void step()
    {
        if (!in_run())
            return;
        active->turn_over(false);
        one &self = *active->threads_[me];
        self.seen.add(me, ++self.operations);
    }
    /// Looks at a condition until it holds no longer. Between looks the thread waits until another
    /// one has changed a value. Returns, too, when all threads wait.
    template <class Condition>
    static void wait_while(Condition &&condition)
    {
        if (!in_run())
            return;
        one &self = *active->threads_[me];
        do {
            self.may_look = false;
            if (!condition())
                return;
            active->turn_over(!std::exchange(self.may_look, false));
        } while (active->stuck == 0);
    }
    /// An atomic has another value now: waiting threads may look.
    static void change()
    {
        if (!in_run())
            return;
        for (std::size_t i = 0; i < active->threads_.size(); ++i)
            if (i != me) {
                active->threads_[i]->waits = false;
                active->threads_[i]->may_look = true;
            }
    }

    int runs = 0;
    int stuck = 0; ///< runs in which all threads waited
    int races = 0;

    // --- weak_threads

    static bool in_run() { return active != nullptr && me != none; }
    static std::uintptr_t number_of_thread() { return me + 1; } ///< 0 outside of a run
    static std::size_t new_name() { return active != nullptr ? active->next_name_++ : 0; }
    /// The view of the calling thread; outside of a run, of all that will begin.
    static view &seen() { return me != none ? active->threads_[me]->seen : active->all_; }
    static view &consistent() { return active->consistent_; }
    /// Chooses one of so many older values; 0 is the newest.
    static std::uint32_t choose_value(std::uint32_t older)
    {
        if (older == 0 || active->choices_ == active->most_choices)
            return 0;
        const std::size_t taken = active->fork(older + 1);
        if (taken != 0) {
            ++active->choices_;
            active->threads_[me]->may_look = true;
        }
        return static_cast<std::uint32_t>(taken);
    }
    /// Each thread executes a full fence.
    static void fence_all()
    {
        step();
        for (const auto &each : active->threads_)
            active->consistent_.add(each->seen);
        for (const auto &each : active->threads_)
            each->seen.add(active->consistent_);
    }

    /// Notes the uses of a piece of memory, and counts a use that races with an earlier use.
    class uses {
    public:
        void read_in_step() { use(written_, &read_, 0); }
        void read() { use(written_, &read_, 1); }
        void write()
        {
            use(read_, nullptr, 0);
            use(written_, &written_, 1);
        }
        ~uses() { write(); }

    private:
        struct marks {
            std::uint32_t of[most_threads] = {};
        };
        /// A use between two steps belongs to the next step, which may publish it.
        static void use(const marks &conflicting, marks *noted, std::uint32_t next)
        {
            if (!in_run())
                return;
            for (std::size_t i = 0; i < most_threads; ++i)
                if (i != me && seen().of(i) < conflicting.of[i])
                    ++active->races;
            if (noted != nullptr)
                noted->of[me] = active->threads_[me]->operations + next;
        }
        marks read_, written_;
    };

private:
    static constexpr std::size_t none = SIZE_MAX;
    static inline all_orders *active = nullptr;
    static inline std::size_t me = none; ///< the thread that runs

    struct one {
        view seen;
        std::uint32_t operations = 0;
        bool ended = false;
        bool waits = false;    ///< it goes on when a value has changed
        bool may_look = false; ///< a value has changed since its last look, or that saw an old one
    };
    /// A choice between several ways to go on.
    struct way {
        std::size_t taken, ways;
    };

    void run_once(std::vector<std::function<void()>> bodies)
    {
        threads_.clear();
        depth_ = 0;
        choices_ = 0;
        for (std::size_t i = 0; i < bodies.size(); ++i) {
            threads_.push_back(std::make_unique<one>());
            threads_[i]->seen = all_;
            fibers_[i].start([this, i, body = bodies[i]] {
                body();
                threads_[i]->ended = true;
                go_on_with(after_end());
            });
        }
        go_on_with(choose(false));
    }
    /// Switches to a thread; with `none`, to the end of the run.
    void go_on_with(std::size_t next)
    {
        fiber &from = me == none ? main_ : fibers_[me];
        me = next;
        from.switch_to(next == none ? main_ : fibers_[next]);
    }
    /// The thread to go on with when one has ended.
    std::size_t after_end()
    {
        const std::size_t next = choose(false);
        const auto left = std::find_if(threads_.begin(), threads_.end(),
                                       [](const auto &each) { return !each->ended; });
        if (next != none || left == threads_.end())
            return next;
        ++stuck; // the others wait: each returns from that
        return static_cast<std::size_t>(left - threads_.begin());
    }
    void turn_over(bool waits)
    {
        threads_[me]->waits = waits;
        const std::size_t next = choose(!waits);
        if (next == none)
            ++stuck; // all wait: each returns from that
        else if (next != me)
            go_on_with(next);
    }
    std::size_t choose(bool could_go_on)
    {
        std::vector<std::size_t> ways;
        if (could_go_on)
            ways.push_back(me);
        if (!could_go_on || choices_ < most_choices)
            for (std::size_t i = 0; i < threads_.size(); ++i)
                if (!(could_go_on && i == me) && !threads_[i]->ended && !threads_[i]->waits)
                    ways.push_back(i);
        if (ways.empty())
            return none;
        const std::size_t taken = ways[fork(ways.size())];
        choices_ += could_go_on && taken != me ? 1 : 0;
        return taken;
    }
    std::size_t fork(std::size_t ways)
    {
        if (depth_ == order_.size())
            order_.push_back({0, ways});
        return order_[depth_++].taken;
    }
    bool next_order()
    {
        while (!order_.empty() && order_.back().taken + 1 == order_.back().ways)
            order_.pop_back();
        if (order_.empty())
            return false;
        ++order_.back().taken;
        return true;
    }

    fiber main_;
    fiber fibers_[most_threads];
    std::vector<std::unique_ptr<one>> threads_;
    std::vector<way> order_;
    std::size_t depth_ = 0;
    std::size_t next_name_ = most_threads;
    view consistent_; ///< the sequentially consistent stores
    view all_;        ///< the setup of a run, which all threads know
    int choices_ = 0;
};

/// Replaces osd::real_threads.
struct weak_threads {
    template <class V>
    class atomic {
    public:
        atomic() : atomic(V{}) {}
        explicit atomic(V value) : name_(all_orders::new_name()) { values_.push_back({value, {}}); }
        atomic(const atomic &) = delete;
        atomic &operator=(const atomic &) = delete;

        V load(std::memory_order order = std::memory_order_seq_cst) const
        {
            all_orders::step();
            memory_.read_in_step();
            if (!all_orders::in_run())
                return values_.back().value;
            view &mine = all_orders::seen();
            std::uint32_t oldest = mine.of(name_);
            if (order == std::memory_order_seq_cst)
                oldest = std::max(oldest, all_orders::consistent().of(name_));
            const std::uint32_t at = newest() - all_orders::choose_value(newest() - oldest);
            mine.add(name_, at);
            if (acquires(order))
                mine.add(values_[at].seen);
            return values_[at].value;
        }
        void store(V value, std::memory_order order = std::memory_order_seq_cst)
        {
            all_orders::step();
            append(value, order, {});
        }
        V exchange(V value, std::memory_order order = std::memory_order_seq_cst)
        {
            return modify([value](V) { return value; }, order);
        }
        V fetch_add(V number, std::memory_order order = std::memory_order_seq_cst)
        {
            return modify([number](V was) { return static_cast<V>(was + number); }, order);
        }
        V fetch_sub(V number, std::memory_order order = std::memory_order_seq_cst)
        {
            return modify([number](V was) { return static_cast<V>(was - number); }, order);
        }
        V fetch_or(V bits, std::memory_order order = std::memory_order_seq_cst)
        {
            return modify([bits](V was) { return static_cast<V>(was | bits); }, order);
        }
        V fetch_and(V bits, std::memory_order order = std::memory_order_seq_cst)
        {
            return modify([bits](V was) { return static_cast<V>(was & bits); }, order);
        }
        bool compare_exchange_weak(V &expected, V wanted,
                                   std::memory_order order = std::memory_order_seq_cst)
        {
            all_orders::step();
            memory_.read_in_step();
            if (values_.back().value != expected) {
                expected = values_.back().value;
                look(order);
                return false;
            }
            look(order);
            append(wanted, order, values_.back().seen);
            return true;
        }
        bool compare_exchange_strong(V &expected, V wanted,
                                     std::memory_order order = std::memory_order_seq_cst)
        {
            return compare_exchange_weak(expected, wanted, order);
        }

    private:
        struct stored {
            V value;
            view seen; ///< added to the view of a thread that loads it by acquire
        };
        static bool acquires(std::memory_order order)
        {
            return order != std::memory_order_relaxed && order != std::memory_order_release;
        }
        static bool releases(std::memory_order order)
        {
            return order != std::memory_order_relaxed && order != std::memory_order_acquire;
        }
        std::uint32_t newest() const { return static_cast<std::uint32_t>(values_.size() - 1); }
        /// Loads the newest value.
        void look(std::memory_order order) const
        {
            if (!all_orders::in_run())
                return;
            all_orders::seen().add(name_, newest());
            if (acquires(order))
                all_orders::seen().add(values_.back().seen);
        }
        /// `passed`: the view that came with the value which a read-modify-write replaces.
        void append(V value, std::memory_order order, view passed)
        {
            memory_.read_in_step(); // races with the end of the memory only
            if (value != values_.back().value)
                all_orders::change();
            values_.push_back({value, std::move(passed)});
            if (name_ == 0)
                return; // made outside of runs
            view &mine = all_orders::seen();
            mine.add(name_, newest());
            values_.back().seen.add(name_, newest());
            if (releases(order))
                values_.back().seen.add(mine);
            if (order == std::memory_order_seq_cst)
                all_orders::consistent().add(name_, newest());
        }
        template <class Change>
        V modify(Change change, std::memory_order order)
        {
            all_orders::step();
            look(order);
            const V was = values_.back().value;
            append(change(was), order, values_.back().seen);
            return was;
        }

        const std::size_t name_;
        std::vector<stored> values_;
        mutable all_orders::uses memory_;
    };

    template <class Condition>
    static void wait_while(Condition &&condition)
    {
        all_orders::wait_while(condition);
    }
    template <class Condition>
    static void yield_while(Condition &&condition)
    {
        all_orders::wait_while(condition);
    }
    static std::uintptr_t self() { return all_orders::number_of_thread(); }
    static void compiler_fence() {}
    static void fence_all_threads() { all_orders::fence_all(); }
};

/// An object without protection of its own.
template <class V>
class plain {
public:
    plain() = default;
    explicit plain(V value) : value_(value) {}
    plain(const plain &other) : value_(other.get()) {}
    plain &operator=(const plain &other)
    {
        set(other.get());
        return *this;
    }
    V get() const
    {
        memory_.read();
        return value_;
    }
    void set(V value)
    {
        memory_.write();
        value_ = value;
    }

private:
    V value_{};
    mutable all_orders::uses memory_;
};

} // namespace orders
