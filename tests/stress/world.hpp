// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// One adapter and all objects that the threads create on it, with the ledger of each.
//
// A handle is not used by one thread while another frees it: that is the consumer's promise to DAT,
// and kept by shared_mutexes named `use`. Everything else happens at any time from any thread.
//
// Locks are taken in this order: dispatcher::use, side::use, zone::m, receive_pool::use, life::m,
// encounter::m, dispatcher::m, receive_pool::m, world::lists_lock_. A second lock of the first two
// kinds is only tried.
#pragma once

#include "locks.hpp"
#include "run.hpp"

#include <unordered_map>

namespace stress {

inline constexpr std::uint32_t slot_size = 32 * 1024;
inline constexpr unsigned depth = 16; ///< operations of each direction, and slots for them
inline constexpr unsigned target_slots = 8;

/// An EVD.
struct dispatcher {
    dispatcher(unsigned index, unsigned takes) : number(index), streams(takes) {}

    /// Room for events that may come; false if there is none.
    bool reserve(DAT_COUNT room);
    void release(DAT_COUNT room);
    /// After an endpoint is freed, its queued events may still be taken until a later call has
    /// found the EVD empty.
    void leave(DAT_EP_HANDLE ep, DAT_COUNT room);
    void left(DAT_EP_HANDLE ep, instant when);
    bool holds_remains_of(DAT_EP_HANDLE ep);
    void found_empty(instant began);

    const unsigned number;
    const unsigned streams;
    bool common = false; ///< serves many endpoints; never freed
    bool by_cno = false; ///< events are taken after a trigger of its CNO, or by a waiter
    DAT_EVD_HANDLE handle = DAT_HANDLE_NULL;

    shared_mutex use;
    bool freed = false; ///< guarded by use

    std::atomic<unsigned> taking{0};  ///< threads that may hold one of its events
    std::atomic<unsigned> waiting{0}; ///< threads among them in dat_evd_wait
    /// Total number of waits. A waiter increments `waiting`, then this, then waits: a thread that
    /// reads this first, and finds it unchanged at the end and `waiting` 0, was alone.
    std::atomic<unsigned> waits{0};
    std::atomic<unsigned> departures{0}; ///< endpoints that were or are being freed
    std::atomic<unsigned> leaving{0};    ///< endpoints that are being freed
    std::atomic<unsigned> forbidding{0}; ///< changes of being waitable

    mutex configuring; ///< held while it is resized or moved to another CNO
    std::atomic<int> cno{-1};
    std::atomic<bool> moving{false};

    mutex m; // guards the members below
    DAT_COUNT capacity = 0;
    DAT_COUNT reserved = 0;
    struct remains {
        DAT_EP_HANDLE ep;
        DAT_COUNT room;
        instant since;
    };
    std::vector<remains> left_behind;
    ledger software;
    std::uint32_t next_software = 0;
};
using dispatcher_ptr = std::shared_ptr<dispatcher>;

/// An SRQ, with memory for its receives. Those that are waiting for a message are at most `depth`;
/// senders do not wait for them, so that it runs dry.
struct receive_pool {
    static constexpr unsigned slot_bits = 6;
    static constexpr unsigned slots = 1u << slot_bits;
    static constexpr DAT_COUNT depth = 16;

    /// -1: none is free.
    int take_slot();
    void give_back(unsigned slot);
    bool is_posted(unsigned slot, std::uint32_t post);
    bool is_worn();
    bool is_exhausted();
    std::uint8_t *slot(int which)
    {
        return memory.data() + std::size_t{slot_size} * unsigned(which);
    }

    std::uint32_t number = 0;
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT context = 0;
    dispatcher_ptr evd; ///< EVD of all its endpoints
    std::vector<std::uint8_t> memory;
    std::atomic<unsigned> users{0}; ///< endpoints, and the zone that gives it out

    shared_mutex use;
    bool freed = false; ///< guarded by use

    mutex m; // guards the members below
    std::uint64_t in_use = 0;
    std::uint32_t posts[slots] = {};
};

/// A protection zone of some sides.
struct zone {
    DAT_PZ_HANDLE handle = DAT_HANDLE_NULL;
    mutex m;
    std::shared_ptr<receive_pool> pool; ///< pool for new endpoints; null without SRQs
};

/// A PSP, or an RSP.
struct listener {
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
    DAT_CONN_QUAL qualifier = 0;
    std::atomic<bool> closing{false}; ///< an RSP takes no second request, either
};

/// An attempt to connect two sides, and its result. Direction 0 is the active side's.
struct encounter {
    bool excused(instant when) const
    {
        return may_fail || ending.load(std::memory_order_relaxed) || at->closing.load() ||
               when - began >= timeout.load(std::memory_order_relaxed);
    }
    void begin_to_end()
    {
        instant none = never;
        ending_since.compare_exchange_strong(none, now(), std::memory_order_relaxed);
        ending.store(true, std::memory_order_relaxed);
    }

    std::uint64_t number = 0;
    unsigned link = 0;
    bool may_fail = false; ///< at any time, for no reason
    instant began = 0;
    std::atomic<instant> timeout{never}; ///< timeout of the attempt
    std::shared_ptr<listener> at;
    std::atomic<bool> ending{false}; ///< one side has begun to end it
    std::atomic<instant> ending_since{never};
    std::atomic<bool> accepted{false};
    std::atomic<bool> rejected{false};
    std::atomic<bool> blamed{false};   ///< a flushed request was reported: others say no more
    std::atomic<unsigned> requests{0}; ///< that arrived

    mutex m; // guards the members below, by direction
    ledger messages[2];
    unsigned empty_sent[2] = {0, 0};
    unsigned empty_come[2] = {0, 0};
    int credits[2] = {0, 0};         ///< receives that wait for a message
    bool pooled[2] = {false, false}; ///< the receiver has an SRQ, and there are no credits
    unsigned targets[2] = {0, 0};
    DAT_RMR_CONTEXT windows[2] = {0, 0}; ///< windows on the memory of each side
};

enum class phase { gone, idle, reserved, connecting, accepting, connected, ended, dying };
const char *phase_name(phase which);

struct side;

/// An endpoint from when it is made or reset until it is freed or reset. Slots are never given
/// back, so that what still names an old life finds something to look at.
struct life {
    mutex m; // guards all members below
    std::uint32_t id = 0;
    side *owner = nullptr;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    phase now_in = phase::gone;
    instant born = 0;
    instant since = 0; ///< that phase
    dispatcher_ptr recv, request, conn;
    std::shared_ptr<receive_pool> pool; ///< null: it has receives of its own
    ledger requests, receives;
    std::uint32_t next_number = 0;
    unsigned out_slots = 0, in_slots = 0, sink_slots = 0; ///< slots in use
    int early_receives = 0;                               ///< receives posted before there was an
                                                          ///< encounter
    std::shared_ptr<encounter> meets;
    std::shared_ptr<listener> reservation;
    bool bound = false;         ///< a bind of the window was posted
    bool opened = false;        ///< that is done
    DAT_RMR_CONTEXT window = 0; ///< what the call gave, once it has returned
    bool begun = false;         ///< the call that connects or accepts has returned
    bool leaves_itself = false; ///< its own dat_ep_disconnect was called
    bool was_established = false;
    DAT_COUNT conn_room = 0;
    unsigned posts_at_end = 0;
    span ended_by{};
    DAT_EVENT_NUMBER ended_as{};
    span death{never, never};
    bool was_reset = false;        ///< reset, and not freed
    instant first_success = never; ///< taken, where streams are merged
};

/// A place for an endpoint, with its memory.
struct side {
    unsigned number = 0;
    unsigned link = 0;
    int role = 0; ///< 0 connects, 1 accepts
    shared_mutex use;
    std::atomic<DAT_EP_HANDLE> ep{DAT_HANDLE_NULL};
    std::atomic<life *> current{nullptr};
    zone *home = nullptr;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    std::atomic<DAT_LMR_CONTEXT> lmr_context{0};
    std::atomic<DAT_RMR_CONTEXT> rmr_context{0};
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL; ///< null if the adapter has no windows
    std::vector<std::uint8_t> memory;
    unsigned watched_in = 0, watched_sinks = 0; ///< slots that must not be written any more

    std::uint8_t *out(int slot) { return at(slot); }
    std::uint8_t *in(int slot) { return at(static_cast<int>(depth) + slot); }
    std::uint8_t *sink(int slot) { return at(2 * static_cast<int>(depth) + slot); }
    std::uint8_t *target(int slot) { return at(3 * static_cast<int>(depth) + slot); }
    std::uint8_t *source() { return at(3 * static_cast<int>(depth) + int{target_slots}); }
    static constexpr std::size_t size()
    {
        return (3 * std::size_t{depth} + target_slots + 1) * slot_size + page;
    }

private:
    static constexpr std::size_t page = 4096;

    /// A slot begins at a page: siw fails with short reads across the end of a page, which is
    /// DTO-50 of the conformance suite.
    std::uint8_t *at(int slot)
    {
        const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
        return memory.data() + (page - begin % page) + std::size_t{slot_size} * unsigned(slot);
    }
};

struct link {
    mutex m;
    std::shared_ptr<encounter> latest;
    std::uint32_t encounters = 0;
    std::shared_ptr<listener> reserved; ///< listener for the next attempt
};

class world {
public:
    explicit world(run &of);

    /// The main loop of a thread.
    void work(worker &who);
    /// Lets all operations be completed and objects freed from now on.
    void stop() { stopping_.store(true, std::memory_order_relaxed); }
    bool stopping() const { return stopping_.load(std::memory_order_relaxed); }
    /// From now on no thread starts a new operation, and all objects stay as they are.
    void abandon() { abandoned_.store(true); }
    bool abandoned() const { return abandoned_.load(); }
    bool deserted() const { return living_.load() == 0; }
    /// Reports events that are overdue.
    void look_for_stalls();
    /// Closes down after the threads have ended: everything has completed and can be freed.
    void close_down(worker &who);
    /// After abandon(), when the threads have ended or sleep: closes the adapter abruptly.
    void close_abruptly(worker &who);
    /// After that, and the threads have ended.
    void expect_memory_left_alone();

private:
    struct own_evds {
        dispatcher_ptr recv, request, conn;
        std::shared_ptr<receive_pool> pool;
    };

    // pools.cpp
    std::shared_ptr<receive_pool> make_pool(worker &who, DAT_PZ_HANDLE zone);
    std::shared_ptr<receive_pool> pick_pool(worker &who, zone &of);
    void leave_pool(worker &who, receive_pool &left);
    void leave_current_pools(worker &who);
    std::shared_ptr<receive_pool> pool_numbered(std::uint32_t number);
    bool post_to_pool(worker &who, receive_pool &to);
    void serve_pool(worker &who);
    void reconfigure_pool(worker &who, receive_pool &which);
    life *taker_of(DAT_EP_HANDLE ep);
    void judge_pooled(worker &who, dispatcher &from, const DAT_DTO_COMPLETION_EVENT_DATA &told,
                      const span &taken);
    void judge_pooled_for(worker &who, life &l, receive_pool &pool, unsigned slot,
                          const DAT_DTO_COMPLETION_EVENT_DATA &told, const span &taken);

    // evds.cpp
    bool merges(unsigned one, unsigned other) const;
    dispatcher_ptr make_dispatcher(worker &who, unsigned streams, DAT_COUNT qlen);
    void make_common_evds(worker &who);
    dispatcher_ptr pick_evd(worker &who);
    dispatcher_ptr pick_common(worker &who);
    void serve_cno(worker &who);
    void drain(worker &who, dispatcher &from);
    void move_to_cno(worker &who, dispatcher &which);
    void disable_for_a_moment(worker &who, dispatcher &which);
    void forbid_waits_for_a_moment(worker &who, dispatcher &which);
    void resize(worker &who, dispatcher &which);
    void use_new_cno(worker &who, dispatcher &which);
    void query(worker &who, dispatcher &which);
    void reconfigure(worker &who);
    void post_software(worker &who, dispatcher &to);
    void bury_evds(worker &who);
    void sleep_until_kicked(worker &who);
    void sleep_until_sent_home(worker &who);
    void kick(worker &who);

    // sides.cpp
    void prepare(worker &who, side &s, unsigned number);
    void register_memory(worker &who, side &s);
    void unregister_memory(worker &who, side &s);
    void prepare_memory(worker &who, side &s);
    void act(worker &who);
    void act_on(worker &who, side &s);
    void make(worker &who, side &s);
    life &new_life(side &s, DAT_EP_HANDLE ep, const own_evds &evds);
    own_evds evds_for(worker &who);
    own_evds pooled_evds_for(worker &who, const std::shared_ptr<receive_pool> &pool);
    void retire_evds(const own_evds &evds);
    void connect(worker &who, side &s, life &l);
    bool connect_like(worker &who, const side &s, life &l);
    std::shared_ptr<encounter> begin_encounter(worker &who, life &l, std::shared_ptr<listener> at);
    void reserve(worker &who, side &s, life &l);
    void end_reservation(worker &who, life &l);
    void adopt(worker &who, side &s, DAT_EP_HANDLE ep, const own_evds &evds);
    void meet(life &l, const std::shared_ptr<encounter> &e, phase next);
    void disconnect(worker &who, side &s, life &l);
    void transfer(worker &who, side &s, life &l);
    bool post_receive(worker &who, side &s, life &l);
    bool post_send(worker &who, side &s, life &l, int target, std::uint32_t target_length,
                   std::uint32_t write_number);
    void post_write_and_send(worker &who, side &s, life &l);
    bool post_read(worker &who, side &s, life &l);
    void post_bind(worker &who, side &s, life &l);
    void tell_of_window(life &l);
    void spoil(worker &who, side &s, life &l);
    template <class Post>
    bool post_request(worker &who, life &l, const entry &wanted, Post &&post);
    void retire(worker &who, side &s, life &l);
    void reset(worker &who, side &s, life &l);
    void free_ep(worker &who, side &s, life &l);
    void begin_death(worker &who, life &l);
    void finish_death(life &l);
    void replace_listener(worker &who);
    std::shared_ptr<listener> make_listener(worker &who);
    side &peer_of(const side &s) { return *sides_[s.number ^ 1u]; }

    // events.cpp
    bool dequeue(worker &who, dispatcher &from);
    void wait(worker &who, dispatcher &on, DAT_TIMEOUT timeout, DAT_COUNT threshold);
    DAT_COUNT wait_once(worker &who, dispatcher &on, DAT_TIMEOUT timeout, DAT_COUNT threshold);
    void judge(worker &who, dispatcher &from, const DAT_EVENT &event, const span &taken);
    void judge_transfer(worker &who, dispatcher &from, const DAT_DTO_COMPLETION_EVENT_DATA &told,
                        const span &taken);
    void judge_bind(worker &who, dispatcher &from, const DAT_EVENT &event, const span &taken);
    void judge_success(worker &who, life &l, dispatcher &from, const entry &done,
                       std::uint32_t length, const span &taken);
    void judge_message(worker &who, life &l, const entry &done, const std::uint8_t *bytes,
                       std::uint32_t length, const span &taken);
    void judge_connection(worker &who, dispatcher &from, const DAT_EVENT &event, const span &taken);
    void established(worker &who, life &l, const DAT_CONNECTION_EVENT_DATA &data,
                     const span &taken);
    void ended(worker &who, life &l, DAT_EVENT_NUMBER number, const span &taken);
    void answer(worker &who, dispatcher &from, const DAT_EVENT &event);
    bool hand_on(worker &who, DAT_CR_HANDLE request, encounter &e);
    bool accept_with_own(worker &who, DAT_CR_HANDLE request, side &passive, DAT_EP_HANDLE reserved,
                         const std::shared_ptr<encounter> &e);
    bool accept_with_made(worker &who, DAT_CR_HANDLE request, side &passive, DAT_EP_HANDLE made,
                          const std::shared_ptr<encounter> &e);
    void accept(worker &who, DAT_CR_HANDLE request, DAT_EP_HANDLE with, life &l, encounter &e);
    void judge_software(dispatcher &from, const DAT_EVENT &event, const span &taken);
    void look_at_async(worker &who);
    void give_back(life &l, const entry &done);
    std::string describe(const life &l) const;
    std::string describe(const life &l, const entry &e) const;
    void look_at(life &l);

    run &run_;
    DAT_IA_HANDLE ia_ = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE async_ = DAT_HANDLE_NULL;
    DAT_IA_ATTR attr_{};
    DAT_PROVIDER_ATTR provider_{};
    std::atomic<bool> stopping_{false};
    std::atomic<bool> abandoned_{false};
    std::atomic<bool> closed_{false};
    std::atomic<int> living_{0};
    std::atomic<bool> can_resize_{true}; ///< EVDs of completions
    bool has_pools_ = false;             ///< the adapter has SRQs

    std::vector<DAT_CNO_HANDLE> cnos_;
    std::vector<dispatcher_ptr> common_; ///< never changes
    std::vector<dispatcher_ptr> transfers_, connections_, requests_;
    std::atomic<unsigned> next_evd_{0};
    std::atomic<unsigned> next_qualifier_{0};

    mutex listeners_lock_;
    std::vector<std::shared_ptr<listener>> listeners_;
    std::vector<std::unique_ptr<zone>> zones_;
    std::vector<std::unique_ptr<side>> sides_;
    std::vector<std::unique_ptr<link>> links_;
    std::vector<life> lives_;
    std::atomic<std::uint32_t> next_life_{1};

    mutex lists_lock_;
    std::vector<std::shared_ptr<receive_pool>> pools_; ///< all that were ever made
    std::vector<dispatcher_ptr> retired_;
    std::vector<dispatcher_ptr> sleepers_;
    std::atomic<unsigned> sleeping_{0};
};

/// Bytes that follow from a seed.
void fill(std::uint8_t *bytes, std::uint32_t length, std::uint64_t seed);
/// The offset of the first difference; -1 if there is none.
std::int64_t difference(const std::uint8_t *bytes, std::uint32_t length, std::uint64_t seed);

/// What connection requests and their answers carry.
struct card {
    std::uint64_t magic;
    std::uint64_t encounter;
    std::uint32_t role;
    std::uint32_t link;
    std::int64_t process; ///< other stress programs may run on this host
};
inline constexpr std::uint64_t card_magic = 0x68616d6d65726564;

/// The header in front of each message.
struct header {
    std::uint64_t encounter;
    std::uint32_t number;
    std::uint32_t length; ///< length of the whole message
    std::int32_t target;  ///< slot that a write before it has filled, or -1
    std::uint32_t target_length;
    std::uint32_t write_number;
    std::uint32_t direction;
};

inline std::uint64_t seed_of(std::uint64_t encounter, int direction, std::uint32_t number)
{
    return encounter * 0x9e3779b97f4a7c15 + number * 2 + static_cast<unsigned>(direction);
}

// Cookies: the life, and the number of the operation in it. Receives have a bit set. A receive of
// an SRQ has the SRQ's number with a bit set, and the number of the post and its slot.
inline constexpr std::uint32_t receive_bit = 0x80000000;
inline constexpr std::uint32_t pool_bit = 0x80000000;

inline bool is(DAT_RETURN code, unsigned type)
{
    return DAT_GET_TYPE(code) == type;
}

} // namespace stress
