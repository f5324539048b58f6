// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "barrier.hpp"

#include "ending.hpp"
#include "lasting.hpp"
#include "links.hpp"
#include "messages.hpp"
#include "transfers.hpp"

#include <cstring>

namespace am::barrier {

namespace {

constexpr int max_rounds = 31;

/// What is known of the names, in one word with the number of the barrier:
/// number (24 bits), 6 bits, state (2 bits), id (32 bits). A word is never 0.
enum class agreement : std::uint64_t { named = 1, anonymous = 2, mismatch = 3 };

std::uint64_t pack(std::uint32_t number, agreement state, std::uint32_t id)
{
    return std::uint64_t(number & 0xffffff) << 40 | std::uint64_t(state) << 32 |
           (state == agreement::named ? id : 0);
}

agreement state_of(std::uint64_t word)
{
    return agreement(word >> 32 & 3);
}

std::uint64_t combine(std::uint64_t a, std::uint64_t b)
{
    if (state_of(a) == agreement::anonymous)
        return b;
    if (state_of(b) == agreement::anonymous || a == b)
        return a;
    return pack(std::uint32_t(a >> 40), agreement::mismatch, 0);
}

/// Written by a put: the word and its complement, so that a part of it is not taken for the whole.
struct put_slot {
    std::uint64_t word;
    std::uint64_t complement;
};

enum class phase { idle, notified, complete };

struct state {
    mutex lock;
    phase where = phase::idle;
    std::uint32_t number = 0;
    std::uint64_t own = 0;   // what this rank said
    std::uint64_t known = 0; // what it has heard so far, too
    int round = 0;
    bool sent = false; // in this round
    bool posted = false;
    dapl_am_op writes;
    put_slot *area = nullptr;
    // A rank may be one barrier ahead of another one.
    std::atomic<std::uint64_t> heard[2][max_rounds + 1]{};
};

state &barriers = lasting<state>();

static_assert(sizeof(put_slot) * 2 * (max_rounds + 1) <= area_size);

int slot_index(std::uint64_t word, int round)
{
    return int(word >> 40 & 1) * (max_rounds + 1) + round;
}

/// The peer's adapter writes it without the process's knowledge.
__attribute__((no_sanitize("thread"))) std::uint64_t read_slot(const put_slot &slot)
{
    const std::uint64_t word = *static_cast<const volatile std::uint64_t *>(&slot.word);
    const std::uint64_t complement = *static_cast<const volatile std::uint64_t *>(&slot.complement);
    return word == ~complement ? word : 0;
}

std::uint64_t heard_in(int round)
{
    const std::uint64_t word =
        the_job.set.put_barrier
            ? read_slot(barriers.area[slot_index(barriers.own, round)])
            : barriers.heard[barriers.number & 1][round].load(std::memory_order_acquire);
    return word >> 40 == barriers.own >> 40 ? word : 0;
}

bool tell_by_put(peer &p)
{
    if (!links::ensure(p))
        return false;
    const put_slot slot{barriers.known, ~barriers.known};
    const std::uint64_t at = p.memory.base + p.memory.size +
                             sizeof slot * unsigned(slot_index(barriers.known, barriers.round));
    write_remote(p, at, &slot, sizeof slot, barriers.writes, local_memory::reusable);
    return true;
}

bool tell_by_message(peer &p)
{
    std::int32_t args[3] = {barriers.round};
    std::memcpy(args + 1, &barriers.known, sizeof barriers.known);
    message m{category::barrier};
    m.count = 3;
    m.args = args;
    return try_request(p, m);
}

bool tell(int rank)
{
    peer &p = the_job.at(rank);
    return the_job.set.put_barrier ? tell_by_put(p) : tell_by_message(p);
}

/// The lock is held.
void advance()
{
    const int size = the_job.size();
    while (std::int64_t{1} << barriers.round < size) {
        const int distance = 1 << barriers.round;
        if (!barriers.sent)
            barriers.sent = tell(int((std::int64_t{the_job.rank()} + distance) % size));
        const std::uint64_t word = heard_in(barriers.round);
        if (!barriers.sent || word == 0)
            return;
        barriers.known = combine(barriers.known, word);
        ++barriers.round;
        barriers.sent = false;
    }
    barriers.where = phase::complete;
}

std::uint64_t word_of(std::uint32_t number, int id, unsigned flags)
{
    const agreement state = flags & DAPL_AM_MISMATCH    ? agreement::mismatch
                            : flags & DAPL_AM_ANONYMOUS ? agreement::anonymous
                                                        : agreement::named;
    return pack(number, state, std::uint32_t(id));
}

int check_call(unsigned flags)
{
    if (the_job.stage < 2)
        return DAPL_AM_ERR_STATE;
    if (in_handler)
        return DAPL_AM_ERR_CONTEXT;
    return flags & ~unsigned(DAPL_AM_ANONYMOUS | DAPL_AM_MISMATCH) ? DAPL_AM_ERR_ARGUMENT
                                                                   : DAPL_AM_OK;
}

int finish(int id, unsigned flags)
{
    const std::lock_guard guard(barriers.lock);
    if (barriers.where == phase::idle)
        return DAPL_AM_ERR_STATE;
    if (barriers.where != phase::complete)
        return DAPL_AM_NOT_READY;
    barriers.where = phase::idle;
    const bool same = word_of(barriers.number, id, flags) == barriers.own;
    return same && state_of(barriers.known) != agreement::mismatch ? DAPL_AM_OK
                                                                   : DAPL_AM_BARRIER_MISMATCH;
}

} // namespace

void set_area(void *area)
{
    barriers.area = static_cast<put_slot *>(area);
}

void progress()
{
    const held guard(barriers.lock, std::try_to_lock);
    if (guard.owns_lock() && barriers.where == phase::notified)
        advance();
}

bool told(int round, std::uint64_t word)
{
    if (round < 0 || round > max_rounds)
        return false;
    barriers.heard[word >> 40 & 1][round].store(word, std::memory_order_release);
    return true;
}

} // namespace am::barrier

using namespace am;

int dapl_am_barrier_notify(int id, unsigned flags)
{
    using namespace am::barrier;
    if (const int status = check_call(flags); status != DAPL_AM_OK)
        return status;
    {
        const std::lock_guard guard(barriers.lock);
        if (barriers.where != phase::idle)
            return DAPL_AM_ERR_STATE;
        barriers.where = phase::notified;
        ++barriers.number;
        barriers.own = barriers.known = word_of(barriers.number, id, flags);
        barriers.round = 0;
        barriers.sent = false;
    }
    am::barrier::progress();
    return DAPL_AM_OK;
}

int dapl_am_barrier_try(int id, unsigned flags)
{
    using namespace am::barrier;
    if (const int status = check_call(flags); status != DAPL_AM_OK)
        return status;
    (void)dapl_am_poll();
    return finish(id, flags);
}

int dapl_am_barrier_wait(int id, unsigned flags)
{
    using namespace am::barrier;
    if (const int status = check_call(flags); status != DAPL_AM_OK)
        return status;
    int status = finish(id, flags);
    for (idle_wait wait; status == DAPL_AM_NOT_READY; status = finish(id, flags))
        wait.pause(dapl_am_poll() == DAPL_AM_OK);
    return status;
}

int dapl_am_barrier(int id, unsigned flags)
{
    const int status = dapl_am_barrier_notify(id, flags);
    return status == DAPL_AM_OK ? dapl_am_barrier_wait(id, flags) : status;
}
