// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "barrier.hpp"

#include "dapl_am.h"
#include "links.hpp"
#include "messenger.hpp"
#include "remote_memory.hpp"

#include <cstring>

namespace am {

namespace {

enum class agreement : std::uint64_t { named = 1, anonymous = 2, mismatch = 3 };

/// Packs the knowledge about the names with the number of the barrier: number (24 bits), 6 bits,
/// state (2 bits), id (32 bits). A word is never 0.
std::uint64_t pack(std::uint32_t number, agreement state, std::uint32_t id)
{
    return std::uint64_t{number & 0xffffff} << 40 | static_cast<std::uint64_t>(state) << 32 |
           (state == agreement::named ? id : 0);
}

agreement state_of(std::uint64_t word)
{
    return static_cast<agreement>(word >> 32 & 3);
}

std::uint64_t combine(std::uint64_t a, std::uint64_t b)
{
    if (state_of(a) == agreement::anonymous)
        return b;
    if (state_of(b) == agreement::anonymous || a == b)
        return a;
    return pack(static_cast<std::uint32_t>(a >> 40), agreement::mismatch, 0);
}

std::uint64_t word_of(std::uint32_t number, int id, unsigned flags)
{
    const agreement state = (flags & DAPL_AM_MISMATCH) != 0    ? agreement::mismatch
                            : (flags & DAPL_AM_ANONYMOUS) != 0 ? agreement::anonymous
                                                               : agreement::named;
    return pack(number, state, static_cast<std::uint32_t>(id));
}

} // namespace

int barrier::slot_index(std::uint64_t word, int round)
{
    return static_cast<int>(word >> 40 & 1) * (barrier_words::max_rounds + 1) + round;
}

/// Reads what the peer's adapter writes without the process's knowledge; 0 if it is not whole.
__attribute__((no_sanitize("thread"))) std::uint64_t barrier::read_slot(const put_slot &slot)
{
    const std::uint64_t word = *static_cast<const volatile std::uint64_t *>(&slot.word);
    const std::uint64_t complement = *static_cast<const volatile std::uint64_t *>(&slot.complement);
    return word == ~complement ? word : 0;
}

std::uint64_t barrier::heard_in(int round) const
{
    const std::uint64_t word = job_.set.put_barrier ? read_slot(area_[slot_index(own_, round)])
                                                    : words_.heard(number_, round);
    return word >> 40 == own_ >> 40 ? word : 0;
}

bool barrier::tell_by_put(peer &p)
{
    if (!links_.ensure(p))
        return false;
    const put_slot slot{known_, ~known_};
    const std::uint64_t address = p.memory.base + p.memory.size +
                                  sizeof slot * static_cast<unsigned>(slot_index(known_, round_));
    memory_.write(p, address, &slot, sizeof slot, writes_, local_memory::reusable);
    return true;
}

bool barrier::tell_by_message(peer &p)
{
    std::int32_t args[3] = {round_};
    std::memcpy(args + 1, &known_, sizeof known_);
    message m{category::barrier};
    m.count = 3;
    m.args = args;
    return messages_.try_request(p, m);
}

bool barrier::tell(int rank)
{
    peer &p = job_.peer_of_rank(rank);
    return job_.set.put_barrier ? tell_by_put(p) : tell_by_message(p);
}

void barrier::advance()
{
    const int size = job_.size();
    while (std::int64_t{1} << round_ < size) {
        const std::int64_t distance = std::int64_t{1} << round_;
        if (!sent_)
            sent_ = tell(static_cast<int>((job_.rank() + distance) % size));
        const std::uint64_t word = heard_in(round_);
        if (!sent_ || word == 0)
            return;
        known_ = combine(known_, word);
        ++round_;
        sent_ = false;
    }
    phase_ = phase::complete;
}

int barrier::notify(int id, unsigned flags)
{
    {
        const osd::lock_guard guard(lock_);
        if (phase_ != phase::idle)
            return DAPL_AM_ERR_STATE;
        phase_ = phase::notified;
        ++number_;
        own_ = known_ = word_of(number_, id, flags);
        round_ = 0;
        sent_ = false;
    }
    progress();
    return DAPL_AM_OK;
}

int barrier::finish(int id, unsigned flags)
{
    const osd::lock_guard guard(lock_);
    if (phase_ == phase::idle)
        return DAPL_AM_ERR_STATE;
    if (phase_ != phase::complete)
        return DAPL_AM_NOT_READY;
    phase_ = phase::idle;
    const bool same = word_of(number_, id, flags) == own_;
    return same && state_of(known_) != agreement::mismatch ? DAPL_AM_OK : DAPL_AM_BARRIER_MISMATCH;
}

void barrier::progress()
{
    if (!lock_.try_lock())
        return;
    if (phase_ == phase::notified)
        advance();
    lock_.unlock();
}

} // namespace am
