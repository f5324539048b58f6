// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Checks the cells of a completion queue in all orders of the steps of a few threads: producers
// that add alone, beside others, and with a lease, and a consumer that replaces the cells.
#include "../all_orders.hpp"
#include "queue/completion_cells.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <new>
#include <vector>

namespace cells_suite {

using orders::all_orders;
using orders::weak_threads;

namespace {

/// A completion: ten times the producer, and its number.
using record = orders::plain<int>;
using cells = soft_hca::completion_cells<record, weak_threads>;
using cells::reservation::lease;
using cells::reservation::one;

struct deleter {
    void operator()(cells *unused) const
    {
        for (std::uint32_t i = 0; i < unused->size(); ++i)
            unused->at(i).~cell();
        unused->~cells();
        ::operator delete (unused, std::align_val_t{alignof(cells)});
    }
};
using owner = std::unique_ptr<cells, deleter>;

owner make_cells(std::uint32_t size, std::uint32_t first = 0)
{
    void *memory = ::operator new (sizeof(cells) + size * sizeof(cells::cell),
                                   std::align_val_t{alignof(cells)});
    auto *made = new (memory) cells(size, first);
    for (std::uint32_t at = first; at != first + size; ++at)
        new (&made->at(at)) cells::cell{cells::place(at), record{}};
    return owner(made);
}

/// The lock of a queue pair: who takes it knows what its last holder did.
class pair_lock {
public:
    void lock()
    {
        weak_threads::wait_while([this] { return held_.exchange(1) != 0; });
    }
    void unlock() { held_.store(0, std::memory_order_release); }

private:
    weak_threads::atomic<int> held_{0};
};

/// A queue as completion_ring has it.
struct queue {
    queue() { shown.store(current.get()); }

    cells &now() { return *shown.load(std::memory_order_acquire); }
    bool add(int number) { return now().put(record(number), by, head, one); }
    /// Adds it behind a lease, as a producer that may wait.
    void add_patiently(int number)
    {
        if (!add(number))
            by.wait_for_lease([&] { return !add(number); });
    }
    void take_all()
    {
        while (now().pop_to(head, [this](const record &oldest) {
            taken.push_back(oldest.get());
            return true;
        })) {
        }
    }
    /// Replaces the cells, and frees the former cells when no holder of a lock can use them.
    void resize(std::uint32_t size)
    {
        owner next = make_cells(size, head.load(std::memory_order_relaxed));
        current->copy_to(*next, head, current->close(by, head));
        shown.store(next.get());
        std::swap(current, next);
        cycle_locks();
    }
    void cycle_locks()
    {
        for (std::size_t i = 0; i < pairs; ++i) {
            locks[i].lock();
            locks[i].unlock();
        }
    }
    /// Whether all numbers up to `last` of each producer came once, in their order.
    bool has_all(std::array<int, 2> last)
    {
        std::array<int, 2> next{};
        for (const int number : taken)
            if (next[static_cast<std::size_t>(number / 10)]++ != number % 10)
                return false;
        return next == last;
    }

    soft_hca::completion_producers<weak_threads> by;
    cells::place head{0};
    owner current = make_cells(4);
    weak_threads::atomic<cells *> shown{nullptr};
    std::size_t pairs = 2;
    std::array<pair_lock, 2> locks;
    std::vector<int> taken;
};

struct checked {
    /// Runs the threads in all orders, and empties the queue after each.
    void run(const std::function<std::vector<std::function<void()>>(queue &)> &bodies,
             std::array<int, 2> last)
    {
        all.run(
            [&] {
                q = std::make_unique<queue>();
                return bodies(*q);
            },
            [&] {
                q->take_all();
                wrong += q->has_all(last) ? 0 : 1;
            });
        CHECK(all.stuck == 0);
        CHECK(all.races == 0);
        CHECK(wrong == 0);
        CHECK(all.runs > 100);
    }

    all_orders all;
    std::unique_ptr<queue> q;
    int wrong = 0;
};

} // namespace

TEST_SUITE_BEGIN("cells");

TEST_CASE("producers that add at once, beside the consumer")
{
    checked c;
    c.run(
        [](queue &q) {
            return std::vector<std::function<void()>>{[&q] {
                                                          q.add(0);
                                                          q.add(1);
                                                      },
                                                      [&q] { q.add(10); }, [&q] { q.take_all(); }};
        },
        {2, 1});
}

TEST_CASE("cells that are used again, by producers that find room as the consumer takes")
{
    checked c;
    c.run(
        [](queue &q) {
            q.current = make_cells(2);
            q.shown.store(q.current.get());
            return std::vector<std::function<void()>>{
                [&q] {
                    for (const int number : {0, 1, 2})
                        weak_threads::wait_while([&] { return !q.add(number); });
                },
                [&q] { weak_threads::wait_while([&q] { return !q.add(10); }); },
                [&q] {
                    weak_threads::wait_while([&q] {
                        q.take_all();
                        return q.taken.size() < 4;
                    });
                }};
        },
        {3, 1});
}

TEST_CASE("who is told after a settle can take the completion, though another one stands before it")
{
    checked c;
    std::unique_ptr<weak_threads::atomic<int>> told;
    int missed = 0;
    c.run(
        [&](queue &q) {
            told = std::make_unique<weak_threads::atomic<int>>(0);
            return std::vector<std::function<void()>>{
                [&q] { q.add(0); },
                [&] {
                    q.add(10);
                    q.now().settle(q.head);
                    told->store(1, std::memory_order_release);
                },
                [&] {
                    q.take_all();
                    weak_threads::wait_while(
                        [&] { return told->load(std::memory_order_acquire) == 0; });
                    q.take_all();
                    missed += std::ranges::count(q.taken, 10) == 1 ? 0 : 1;
                }};
        },
        {1, 1});
    CHECK(missed == 0);
}

TEST_CASE("a producer with a lease, one that waits for its end, and the consumer")
{
    checked c;
    c.run(
        [](queue &q) {
            return std::vector<std::function<void()>>{
                [&q] {
                    if (!q.now().put(record(0), q.by, q.head, lease)) {
                        q.add_patiently(0);
                        q.add_patiently(1);
                        return;
                    }
                    (void)q.now().put_leased(record(1), q.head);
                    q.now().end_lease();
                },
                [&q] { q.add_patiently(10); }, [&q] { q.take_all(); }};
        },
        {2, 1});
}

TEST_CASE("a queue pair adds alone, by a lease that ends after its lock, beside another thread")
{
    checked c;
    c.run(
        [](queue &q) {
            (void)q.by.attach();
            return std::vector<std::function<void()>>{[&q] {
                                                          q.locks[0].lock();
                                                          const bool leased = q.now().put(
                                                              record(0), q.by, q.head, lease);
                                                          if (!leased)
                                                              q.add_patiently(0);
                                                          q.locks[0].unlock();
                                                          if (leased)
                                                              q.now().end_lease();
                                                      },
                                                      [&q] {
                                                          q.locks[0].lock();
                                                          q.add_patiently(10);
                                                          q.locks[0].unlock();
                                                      }};
        },
        {1, 1});
}

TEST_CASE("a queue pair joins one that added alone, whose lock is cycled before")
{
    checked c;
    c.run(
        [](queue &q) {
            (void)q.by.attach();
            return std::vector<std::function<void()>>{[&q] {
                                                          for (const int number : {0, 1}) {
                                                              q.locks[0].lock();
                                                              q.add_patiently(number);
                                                              q.locks[0].unlock();
                                                          }
                                                      },
                                                      [&q] {
                                                          if (q.by.attach()) {
                                                              q.locks[0].lock();
                                                              q.locks[0].unlock();
                                                          }
                                                          q.add_patiently(10);
                                                      }};
        },
        {2, 1});
}

TEST_CASE("the cells are replaced, and freed, beside a producer with a lease and another one")
{
    checked c;
    c.run(
        [](queue &q) {
            return std::vector<std::function<void()>>{
                [&q] {
                    q.locks[0].lock();
                    const bool leased = q.now().put(record(0), q.by, q.head, lease);
                    if (!leased)
                        weak_threads::wait_while([&q] { return !q.add(0); });
                    q.locks[0].unlock();
                    if (leased)
                        q.now().end_lease();
                },
                [&q] {
                    q.locks[1].lock();
                    weak_threads::wait_while([&q] { return !q.add(10); });
                    q.locks[1].unlock();
                },
                [&q] {
                    q.resize(8);
                    q.take_all();
                }};
        },
        {1, 1});
}

TEST_CASE("the cells of a queue pair that adds alone are replaced, and freed, after its lease")
{
    checked c;
    c.run(
        [](queue &q) {
            (void)q.by.attach();
            q.pairs = 1;
            return std::vector<std::function<void()>>{
                [&q] {
                    q.locks[0].lock();
                    weak_threads::wait_while(
                        [&] { return !q.now().put(record(0), q.by, q.head, lease); });
                    q.locks[0].unlock();
                    q.now().end_lease();
                },
                [&q] {
                    q.locks[0].lock();
                    weak_threads::wait_while([&q] { return !q.add(10); });
                    q.locks[0].unlock();
                },
                [&q] {
                    (void)q.by.end_alone();
                    q.cycle_locks();
                    q.resize(8);
                }};
        },
        {1, 1});
}

TEST_CASE("a lease passes from one producer to the other before the cells are freed")
{
    checked c;
    c.run(
        [](queue &q) {
            const auto lease_two = [&q](std::size_t number) {
                const int first = static_cast<int>(number) * 10;
                q.locks[number].lock();
                weak_threads::wait_while(
                    [&] { return !q.now().put(record(first), q.by, q.head, lease); });
                (void)q.now().put_leased(record(first + 1), q.head);
                q.locks[number].unlock();
                q.now().end_lease();
            };
            return std::vector<std::function<void()>>{[lease_two] { lease_two(0); },
                                                      [lease_two] { lease_two(1); },
                                                      [&q] { q.resize(8); }};
        },
        {2, 2});
}

TEST_SUITE_END();

} // namespace cells_suite
