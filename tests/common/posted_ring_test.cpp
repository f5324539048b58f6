// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The ring of posted events: by one thread, by many at once, and in each order of the steps of a
// few threads.
#include "core/posted_ring.hpp"
#include "fixture.hpp"

#include <algorithm>
#include <semaphore>

using namespace test;

namespace {

/// Runs a few threads again and again, a different order of their steps each time. A step is an
/// atomic operation, or the copy of an element. A thread is left while it could go on at most
/// `most_interruptions` times in a run.
class all_orders {
public:
    static constexpr int most_interruptions = 2;

    /// Makes what the threads of a run share, and returns their bodies.
    using scenario = std::function<std::vector<std::function<void()>>()>;

    /// `judge` is called after each run.
    void run(const scenario &begin, const std::function<void()> &judge)
    {
        active = this;
        do {
            ++runs;
            run_once(begin());
            judge();
        } while (stuck == 0 && next_order());
        active = nullptr;
    }

    static void step()
    {
        if (active != nullptr && me != none)
            active->turn_over(false);
    }
    /// Returns when another thread has made a step. False when all threads wait.
    static bool wait()
    {
        active->turn_over(true);
        return active->stuck == 0;
    }

    int runs = 0;
    int stuck = 0; ///< runs in which all threads waited

private:
    static constexpr std::size_t none = SIZE_MAX;
    static inline all_orders *active = nullptr;
    static inline thread_local std::size_t me = none;

    struct one {
        explicit one(std::function<void()> what) : body(std::move(what)) {}
        std::function<void()> body;
        std::binary_semaphore go{0};
        bool ended = false;
        bool waits = false;
    };
    /// Where there was more than one way to go on.
    struct fork {
        std::size_t taken, ways;
    };

    void run_once(std::vector<std::function<void()>> bodies)
    {
        threads_.clear();
        for (std::function<void()> &body : bodies)
            threads_.push_back(std::make_unique<one>(std::move(body)));
        depth_ = 0;
        interruptions_ = 0;
        std::vector<std::thread> running;
        for (std::size_t i = 0; i < threads_.size(); ++i)
            running.emplace_back([this, i] {
                me = i;
                threads_[i]->go.acquire();
                threads_[i]->body();
                threads_[i]->ended = true;
                wake_others();
                go_on_with(choose(false));
            });
        go_on_with(choose(false));
        for (std::thread &thread : running)
            thread.join();
    }
    void go_on_with(std::size_t next)
    {
        if (next != none)
            threads_[next]->go.release();
    }
    void wake_others()
    {
        for (std::size_t i = 0; i < threads_.size(); ++i)
            if (i != me)
                threads_[i]->waits = false;
    }
    void turn_over(bool waits)
    {
        one &self = *threads_[me];
        self.waits = waits;
        if (!waits)
            wake_others();
        const std::size_t next = choose(!waits);
        if (next == me)
            return;
        if (next == none) { // nobody can go on: waits end, and with them the run
            ++stuck;
            return;
        }
        go_on_with(next);
        self.go.acquire();
    }
    std::size_t choose(bool could_go_on)
    {
        std::vector<std::size_t> ways;
        if (could_go_on)
            ways.push_back(me);
        if (!could_go_on || interruptions_ < most_interruptions)
            for (std::size_t i = 0; i < threads_.size(); ++i)
                if (!(could_go_on && i == me) && !threads_[i]->ended && !threads_[i]->waits)
                    ways.push_back(i);
        if (ways.empty())
            return none;
        if (depth_ == order_.size())
            order_.push_back({0, ways.size()});
        const std::size_t taken = ways[order_[depth_++].taken];
        interruptions_ += could_go_on && taken != me ? 1 : 0;
        return taken;
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

    std::vector<std::unique_ptr<one>> threads_;
    std::vector<fork> order_;
    std::size_t depth_ = 0;
    int interruptions_ = 0;
};

struct stepped_threads {
    template <class V>
    class atomic {
    public:
        atomic() = default;
        explicit atomic(V value) : value_(value) {}
        V load(std::memory_order = std::memory_order_seq_cst) const
        {
            all_orders::step();
            return value_;
        }
        void store(V value, std::memory_order = std::memory_order_seq_cst)
        {
            all_orders::step();
            value_ = value;
        }
        V fetch_add(V number)
        {
            all_orders::step();
            return std::exchange(value_, value_ + number);
        }
        V fetch_sub(V number)
        {
            all_orders::step();
            return std::exchange(value_, value_ - number);
        }
        V fetch_or(V bits)
        {
            all_orders::step();
            return std::exchange(value_, value_ | bits);
        }
        V fetch_and(V bits)
        {
            all_orders::step();
            return std::exchange(value_, value_ & bits);
        }
        bool compare_exchange_weak(V &seen, V wanted)
        {
            all_orders::step();
            if (value_ != seen)
                return seen = value_, false;
            value_ = wanted;
            return true;
        }

    private:
        V value_{};
    };
    template <class Condition>
    static void wait_while(Condition &&condition)
    {
        while (condition() && all_orders::wait()) {
        }
    }
};

/// Its copy is a step, so that a ring which tells of an element before it is there is found out.
struct stepped_element {
    stepped_element() = default;
    explicit stepped_element(int value) : number(value) {}
    stepped_element(const stepped_element &) = default;
    stepped_element &operator=(const stepped_element &other)
    {
        all_orders::step();
        number = other.number;
        return *this;
    }
    int number = -1;
};

/// A ring as an EVD uses it: the owner's bits count what is there.
template <class T, class Threads>
struct counted_ring {
    using storage = typename posted_ring<T, Threads>::storage;

    explicit counted_ring(std::uint32_t length) { resize(length); }

    bool resize(std::uint32_t length)
    {
        storage other;
        REQUIRE(other.allocate(length));
        return ring.exchange_storage(other);
    }
    bool take(T &element)
    {
        if (word.load() == 0)
            return false;
        element = ring.front();
        ring.drop_front();
        word.fetch_sub(1);
        return true;
    }

    event_word<Threads> word{0};
    posted_ring<T, Threads> ring{word};
};
using plain_ring = counted_ring<int, osd::real_threads>;
using stepped_ring = counted_ring<stepped_element, stepped_threads>;

/// Post the numbers in this order, and take them in this order.
void fill(plain_ring &r, int from, int to)
{
    for (int i = from; i < to; ++i)
        REQUIRE(r.ring.post(i));
}
void check_next(plain_ring &r, int from, int to)
{
    for (int i = from; i < to; ++i) {
        int got = -1;
        REQUIRE(r.take(got));
        REQUIRE_EQ(got, i);
    }
}

/// What the threads of a run did.
struct record {
    void take_one(stepped_ring &r)
    {
        if (stepped_element got; r.take(got))
            taken.push_back(got.number);
    }
    void take_all(stepped_ring &r)
    {
        for (stepped_element got; r.take(got);)
            taken.push_back(got.number);
    }
    std::ptrdiff_t place_of(int number) const
    {
        return std::find(taken.begin(), taken.end(), number) - taken.begin();
    }

    std::vector<int> taken;
    std::vector<bool> posted = std::vector<bool>(10);
};

} // namespace

TEST_SUITE_BEGIN("posted_ring");

TEST_CASE("elements come out in the order in which they were posted, and a full ring takes none")
{
    for (const std::uint32_t length : {1U, 3U, 4U, 9U}) {
        CAPTURE(length);
        plain_ring r(length);
        const int all = static_cast<int>(length);
        for (int turn = 0; turn < 20; ++turn) {
            fill(r, 0, all);
            CHECK(!r.ring.post(0));
            CHECK_EQ(r.word.load(), length);
            check_next(r, 0, 1);
            fill(r, all, all + 1);
            CHECK(!r.ring.post(0));
            check_next(r, 1, all + 1);
            CHECK_EQ(r.word.load(), 0);
        }
    }
}

TEST_CASE("a ring without storage takes nothing, and becomes one that does")
{
    event_word<> word(0);
    posted_ring<int> ring(word);
    CHECK(!ring.post(1));
    posted_ring<int>::storage more;
    REQUIRE(more.allocate(1));
    CHECK(ring.exchange_storage(more));
    CHECK(ring.post(1));
    CHECK_EQ(ring.front(), 1);
}

TEST_CASE("a resize keeps elements and marks, and is refused where more is there than fits")
{
    plain_ring r(4);
    for (int turn = 0; turn < 10; ++turn) { // the ring begins at another place each time
        fill(r, 0, 2);
        CHECK(r.ring.post(2, true));
        CHECK(!r.resize(2));
        CHECK(r.resize(3));
        CHECK(!r.ring.post(3));
        CHECK(r.resize(9));
        fill(r, 3, 9);
        CHECK(!r.ring.post(9));
        check_next(r, 0, 2);
        CHECK(r.ring.is_front_marked());
        check_next(r, 2, 3);
        CHECK(!r.ring.is_front_marked());
        check_next(r, 3, 9);
        CHECK(r.resize(4));
    }
}

TEST_CASE("a storage that was given up can come back with other elements in it")
{
    plain_ring r(8);
    fill(r, 0, 6);
    check_next(r, 0, 3);
    plain_ring::storage shorter;
    REQUIRE(shorter.allocate(4));
    REQUIRE(r.ring.exchange_storage(shorter));
    fill(r, 6, 7);
    REQUIRE(r.ring.exchange_storage(shorter));
    fill(r, 7, 11);
    CHECK(!r.ring.post(11));
    check_next(r, 3, 11);
}

TEST_CASE("only marked elements that are there can be changed, the latest first")
{
    plain_ring r(4);
    const auto change = [&r](int from, int to) {
        return r.ring.change_marked(
            [&](int &element) { return element == from && (element = to, true); });
    };
    CHECK(r.ring.post(1, true));
    CHECK(r.ring.post(2));
    CHECK(r.ring.post(1, true));
    CHECK(!change(2, 5));
    CHECK(change(1, 6));
    int got = 0;
    CHECK(r.take(got));
    CHECK_EQ(got, 1);
    CHECK(!change(1, 7)); // that was taken
    CHECK(r.take(got));
    CHECK(r.take(got));
    CHECK_EQ(got, 6);
}

TEST_CASE("what is known is so until the next is posted")
{
    plain_ring r(4);
    CHECK(!r.word.are_all_known());
    r.word.set_all_known();
    CHECK(r.word.are_all_known());
    fill(r, 0, 1);
    CHECK(!r.word.are_all_known());
    r.word.set_all_known();
    check_next(r, 0, 1);
    CHECK(r.resize(5));
    CHECK(r.word.are_all_known());
    CHECK_EQ(r.word.load(), 0);
}

TEST_CASE("the owner's bits do not disturb places")
{
    plain_ring r(2);
    r.word.fetch_or(0x80000000);
    for (int i = 0; i < 100; ++i) {
        fill(r, i, i + 1);
        r.word.fetch_and(~1U); // 1 less
        CHECK_EQ(r.word.load(), 0x80000000);
        r.word.fetch_add(1);
        check_next(r, i, i + 1);
    }
}

TEST_CASE("threads post beside resizes: each element once, those of a thread in their order")
{
    constexpr int posters = 4;
    const int each = rounds(20'000);
    counted_ring<std::pair<int, int>, osd::real_threads> r(7);
    std::vector<std::thread> threads;
    std::atomic<int> ended{0};
    for (int me = 0; me < posters; ++me)
        threads.emplace_back([&, me] {
            for (int i = 0; i < each;)
                if (r.ring.post({me, i}, i % 3 == 0))
                    ++i;
                else
                    osd::yield();
            ++ended;
        });
    std::vector<int> next(posters);
    int taken = 0;
    int wrong = 0;
    for (int turn = 0; taken != posters * each; ++turn) {
        std::pair<int, int> got;
        if (turn % 64 == 0)
            (void)r.resize(static_cast<std::uint32_t>(1 + turn / 64 % 13));
        if (!r.take(got)) {
            osd::yield();
            continue;
        }
        wrong += next[static_cast<std::size_t>(got.first)]++ == got.second ? 0 : 1;
        ++taken;
    }
    for (std::thread &thread : threads)
        thread.join();
    CHECK_EQ(wrong, 0);
    CHECK_EQ(r.word.load(), 0);
}

TEST_CASE("all orders: who has posted finds its element, also behind one that is being filled")
{
    all_orders orders;
    std::unique_ptr<stepped_ring> r;
    record seen;
    int missed = 0;
    orders.run(
        [&] {
            r = std::make_unique<stepped_ring>(2);
            seen = {};
            return std::vector<std::function<void()>>{
                [&] { (void)r->ring.post(stepped_element(1)); },
                [&] {
                    (void)r->ring.post(stepped_element(2));
                    seen.take_all(*r);
                    missed += seen.place_of(2) == std::ssize(seen.taken) ? 1 : 0;
                }};
        },
        [&] {
            seen.take_all(*r);
            missed += seen.taken.size() == 2 && seen.place_of(1) != 2 ? 0 : 1;
        });
    CHECK_EQ(orders.stuck, 0);
    CHECK_EQ(missed, 0);
    CHECK(orders.runs > 50);
}

TEST_CASE("all orders: two threads post beside one that takes, and a full ring is full")
{
    all_orders orders;
    std::unique_ptr<stepped_ring> r;
    record seen;
    int wrong = 0;
    orders.run(
        [&] {
            r = std::make_unique<stepped_ring>(2);
            (void)r->ring.post(stepped_element(0));
            seen = {};
            return std::vector<std::function<void()>>{
                [&] {
                    seen.posted[1] = r->ring.post(stepped_element(1));
                    seen.posted[2] = r->ring.post(stepped_element(2));
                },
                [&] { seen.posted[3] = r->ring.post(stepped_element(3)); },
                [&] { seen.take_one(*r); }};
        },
        [&] {
            seen.take_all(*r);
            const int posted = seen.posted[1] + seen.posted[2] + seen.posted[3];
            wrong += std::ssize(seen.taken) == posted + 1 && seen.taken[0] == 0 ? 0 : 1;
            wrong += posted >= 1 && posted <= 2 && (seen.posted[1] || seen.posted[3]) ? 0 : 1;
            wrong += !seen.posted[1] || seen.place_of(1) <= seen.place_of(2) ? 0 : 1;
        });
    CHECK_EQ(orders.stuck, 0);
    CHECK_EQ(wrong, 0);
    CHECK(orders.runs > 1000);
}

TEST_CASE("all orders: a post before a resize or after it, so that never more is there than fits")
{
    all_orders orders;
    std::unique_ptr<stepped_ring> r;
    record seen;
    bool longer = false;
    bool shorter = false;
    int wrong = 0;
    orders.run(
        [&] {
            r = std::make_unique<stepped_ring>(3);
            (void)r->ring.post(stepped_element(0));
            (void)r->ring.post(stepped_element(1));
            seen = {};
            return std::vector<std::function<void()>>{
                [&] { seen.posted[2] = r->ring.post(stepped_element(2)); },
                [&] {
                    longer = r->resize(4);
                    shorter = r->resize(2);
                }};
        },
        [&] {
            wrong += longer && shorter != seen.posted[2] ? 0 : 1;
            seen.take_all(*r);
            wrong += std::ssize(seen.taken) == 2 + seen.posted[2] ? 0 : 1;
            wrong += std::is_sorted(seen.taken.begin(), seen.taken.end()) ? 0 : 1;
        });
    CHECK_EQ(orders.stuck, 0);
    CHECK_EQ(wrong, 0);
    CHECK(orders.runs > 100);
}

TEST_CASE("all orders: a resize that is refused lets no post find the ring full")
{
    all_orders orders;
    std::unique_ptr<stepped_ring> r;
    record seen;
    int wrong = 0;
    orders.run(
        [&] {
            r = std::make_unique<stepped_ring>(4);
            for (int i = 0; i < 3; ++i)
                (void)r->ring.post(stepped_element(i));
            seen = {};
            return std::vector<std::function<void()>>{
                [&] { seen.posted[3] = r->ring.post(stepped_element(3)); },
                [&] {
                    wrong += r->resize(5) ? 0 : 1;
                    wrong += r->resize(1) ? 1 : 0;
                }};
        },
        [&] {
            seen.take_all(*r);
            wrong += seen.posted[3] && seen.taken == std::vector{0, 1, 2, 3} ? 0 : 1;
        });
    CHECK_EQ(orders.stuck, 0);
    CHECK_EQ(wrong, 0);
    CHECK(orders.runs > 100);
}

TEST_CASE("all orders: two threads post beside resizes that leave room for all")
{
    all_orders orders;
    std::unique_ptr<stepped_ring> r;
    record seen;
    int wrong = 0;
    orders.run(
        [&] {
            r = std::make_unique<stepped_ring>(3);
            (void)r->ring.post(stepped_element(0), true);
            seen = {};
            return std::vector<std::function<void()>>{
                [&] { seen.posted[1] = r->ring.post(stepped_element(1), true); },
                [&] { seen.posted[2] = r->ring.post(stepped_element(2)); },
                [&] {
                    seen.posted[3] = r->resize(4);
                    seen.take_one(*r);
                }};
        },
        [&] {
            seen.take_all(*r);
            wrong += seen.posted[1] && seen.posted[2] && seen.posted[3] ? 0 : 1;
            wrong += seen.taken.size() == 3 && seen.taken[0] == 0 ? 0 : 1;
            wrong += seen.place_of(1) < 3 && seen.place_of(2) < 3 ? 0 : 1;
        });
    CHECK_EQ(orders.stuck, 0);
    CHECK_EQ(wrong, 0);
    CHECK(orders.runs > 1000);
}

TEST_CASE("all orders: a marked element is changed before it is taken, or not at all")
{
    all_orders orders;
    std::unique_ptr<stepped_ring> r;
    std::unique_ptr<stepped_threads::atomic<std::uint32_t>> lock;
    const auto with_lock = [&](auto what) {
        stepped_threads::wait_while([&] { return lock->fetch_or(1) != 0; });
        what();
        lock->store(0);
    };
    bool changed = false;
    record seen;
    int wrong = 0;
    orders.run(
        [&] {
            r = std::make_unique<stepped_ring>(1);
            lock = std::make_unique<stepped_threads::atomic<std::uint32_t>>(0);
            seen = {};
            changed = false;
            (void)r->ring.post(stepped_element(1), true);
            return std::vector<std::function<void()>>{
                [&] { seen.posted[2] = r->ring.post(stepped_element(2), true); },
                [&] {
                    with_lock([&] {
                        changed = r->ring.change_marked([](stepped_element &element) {
                            return element.number == 1 && (element.number = 5, true);
                        });
                    });
                },
                [&] {
                    if (r->ring.is_front_marked())
                        with_lock([&] { seen.take_one(*r); });
                }};
        },
        [&] {
            seen.take_all(*r);
            wrong += seen.taken[0] == (changed ? 5 : 1) ? 0 : 1;
            wrong += std::ssize(seen.taken) == 1 + seen.posted[2] ? 0 : 1;
        });
    CHECK_EQ(orders.stuck, 0);
    CHECK_EQ(wrong, 0);
    CHECK(orders.runs > 100);
}

TEST_SUITE_END();
