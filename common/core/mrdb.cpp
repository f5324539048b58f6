// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "mrdb.hpp"

#include "osd_thread.hpp"

#include <cstring>

namespace dapl::DAPL_TRANSPORT::core {

namespace {

// A state: the number of the process (24 bits, 0 in a record that is free), when it began (24), how
// often the record was taken (13), and a phase (3).
using state_word = std::uint64_t;
constexpr unsigned start_at = 16, number_at = 40;
constexpr state_word one_use = 8, uses_and_phase = 0xffff;

enum phase : state_word {
    writing = 1, ///< nothing in it counts yet
    contending,  ///< the record counts, and its process looks for records that contradict it
    inserted,
    registered,
    phases = 7,
};

std::uint32_t number_of(state_word state)
{
    return static_cast<std::uint32_t>(state >> number_at);
}

state_word phase_of(state_word state)
{
    return state & phases;
}

/// Keeps the uses, so that a record is never in a state twice.
state_word freed(state_word state)
{
    return state & uses_and_phase & ~state_word{phases};
}

state_word taken(state_word free, const osd::process_identity &by)
{
    return state_word{by.number} << number_at | state_word{by.start & 0xffffff} << start_at |
           ((free + one_use) & uses_and_phase) | writing;
}

} // namespace

shared_name::shared_name(const char (&cookie)[DAT_LMR_COOKIE_SIZE], const char *adapter)
{
    std::memcpy(word, cookie, sizeof cookie);
    std::uint64_t hash = 0xcbf29ce484222325;
    for (; *adapter != '\0'; ++adapter)
        hash = (hash ^ static_cast<unsigned char>(*adapter)) * 0x100000001b3;
    word[words - 1] = hash;
}

std::atomic<state_word> *mrdb::states() const
{
    return static_cast<std::atomic<state_word> *>(pages_.address());
}

/// The records lie behind all states, since searches for a free record or a name go through the
/// states.
mrdb::record *mrdb::records() const
{
    return reinterpret_cast<record *>(states() + places_);
}

std::size_t mrdb::size() const
{
    static_assert(std::atomic<state_word>::is_always_lock_free, "as between processes");
    return places_ * (sizeof(std::atomic<state_word>) + sizeof(record));
}

const char *mrdb::view()
{
    return pages_.view(file_, size());
}

const char *mrdb::init()
{
    osd::lock_guard hold(lock_);
    if (users_ == 0) {
        if (const char *wrong = pages_.open(file_, size()); wrong != nullptr)
            return wrong;
        sweep_if_due();
    }
    ++users_;
    return nullptr;
}

void mrdb::exit()
{
    osd::lock_guard hold(lock_);
    if (--users_ == 0)
        pages_.close();
}

constexpr status no_record = status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION);

status mrdb::insert(const shared_name &name, DAT_VLEN length, ticket &out)
{
    const osd::process_identity self = osd::this_process();
    ticket mine;
    if (!is_whole())
        return no_record;
    if (!claim(self, mine)) {
        sweep_if_due();
        if (!claim(self, mine))
            return no_record;
    }
    record &fill = records()[mine.place];
    for (unsigned i = 0; i < shared_name::words; ++i)
        fill.name[i].store(name.word[i], std::memory_order_release);
    fill.length.store(length, std::memory_order_release);
    fill.image.store(self.image, std::memory_order_release);
    advance(mine, contending);
    if (is_contradicted(mine, name, length)) {
        dec(mine);
        return status::error(DAT_LENGTH_ERROR);
    }
    advance(mine, inserted);
    out = mine;
    return success;
}

bool mrdb::claim(const osd::process_identity &self, ticket &out)
{
    for (std::uint32_t place = 0; place < places_; ++place) {
        state_word state = states()[place].load(std::memory_order_relaxed);
        const state_word mine = taken(state, self);
        if (number_of(state) == 0 && states()[place].compare_exchange_strong(state, mine)) {
            out = {place, mine};
            return true;
        }
    }
    return false;
}

/// Sweeps at most once a second, however often there is no room: it looks processes up in /proc,
/// one by one.
void mrdb::sweep_if_due()
{
    constexpr std::int64_t second = 1'000'000'000;
    const std::int64_t now = osd::now_ns();
    std::int64_t due = sweep_due_ns_.load(std::memory_order_relaxed);
    if (now >= due && sweep_due_ns_.compare_exchange_strong(due, now + second))
        (void)sweep();
}

void mrdb::advance(ticket &mine, state_word phase)
{
    const state_word next = (mine.state & ~state_word{phases}) | phase;
    (void)states()[mine.place].compare_exchange_strong(mine.state, next);
    mine.state = next;
}

/// The state of a record and the length in it, if it counts and is of that name.
bool mrdb::reads(std::uint32_t place, const shared_name &name, state_word &state,
                 DAT_VLEN &length) const
{
    const record &other = records()[place];
    bool found = false;
    do {
        state = states()[place].load();
        found = phase_of(state) >= contending;
        for (unsigned i = 0; found && i < shared_name::words; ++i)
            found = other.name[i].load(std::memory_order_acquire) == name.word[i];
        length = other.length.load(std::memory_order_acquire);
    } while (states()[place].load() != state); // it went on, or is another's now
    return found;
}

osd::process_identity mrdb::owner_of(std::uint32_t place, state_word state) const
{
    osd::process_identity owner;
    owner.number = number_of(state);
    owner.start = static_cast<std::uint32_t>(state >> start_at) & 0xffffff;
    if (phase_of(state) >= contending)
        owner.image = records()[place].image.load(std::memory_order_acquire);
    return owner;
}

/// Whether a record is still in this state, and its process alive. Removes it if that is dead.
bool mrdb::stands(std::uint32_t place, state_word state)
{
    const osd::process_identity owner = owner_of(place, state);
    if (states()[place].load() != state)
        return false;
    if (!osd::is_gone(owner))
        return true;
    (void)states()[place].compare_exchange_strong(state, freed(state));
    return false;
}

/// Whether a record contradicts ours. Of two records that contend, the lower place waits for the
/// higher, which gives way to it, or has looked before. A process that is stopped meanwhile is not
/// waited for any longer.
bool mrdb::is_contradicted(const ticket &mine, const shared_name &name, DAT_VLEN length)
{
    const osd::deadline patience = osd::deadline::after_us(200'000);
    osd::backoff pauses;
    for (std::uint32_t place = 0; place < places_; ++place) {
        state_word state = 0;
        DAT_VLEN there = 0;
        while (place != mine.place && reads(place, name, state, there) && there != length) {
            if (!stands(place, state))
                continue;
            if (phase_of(state) != contending || place < mine.place || patience.has_passed())
                return true;
            pauses.pause();
        }
    }
    return false;
}

/// Does not trust the processes that write: a state that never comes to rest is given up.
bool mrdb::look(std::uint32_t place, region &out) const
{
    constexpr unsigned attempts = 100;
    if (pages_.address() == nullptr || place >= places_)
        return false;
    for (unsigned attempt = 0; attempt < attempts && is_whole(); ++attempt) {
        const state_word state = states()[place].load();
        if (number_of(state) == 0 || phase_of(state) < contending)
            return false;
        const record &there = records()[place];
        for (unsigned i = 0; i < shared_name::words; ++i)
            out.name.word[i] = there.name[i].load(std::memory_order_acquire);
        out.length = there.length.load(std::memory_order_acquire);
        const osd::process_identity owner = owner_of(place, state);
        if (states()[place].load() != state)
            continue;
        out.process = owner.number;
        out.is_owner_gone = osd::is_gone(owner);
        out.is_registered = phase_of(state) == registered;
        return true;
    }
    return false;
}

void mrdb::update(ticket &mine)
{
    if (is_whole())
        advance(mine, registered);
}

mrdb::sharing mrdb::query(const shared_name &name)
{
    sharing found;
    const std::uint32_t places = is_whole() ? places_ : 0;
    for (std::uint32_t place = 0; place < places; ++place) {
        state_word state = 0;
        DAT_VLEN length = 0;
        bool counts = false;
        while (!counts && reads(place, name, state, length))
            counts = stands(place, state);
        if (counts && phase_of(state) >= inserted)
            found.length = length;
        found.owners += counts && phase_of(state) == registered;
    }
    return found;
}

/// A forked child has copies of its parent's tickets, which are not its own.
void mrdb::dec(const ticket &mine)
{
    state_word state = mine.state;
    if (static_cast<long>(number_of(state)) == osd::process_id() && is_whole())
        (void)states()[mine.place].compare_exchange_strong(state, freed(state));
}

unsigned mrdb::sweep()
{
    unsigned left = 0;
    osd::process_identity alive; // the last one seen: most have many records in a row
    const std::uint32_t places = is_whole() ? places_ : 0;
    for (std::uint32_t place = 0; place < places; ++place) {
        const state_word state = states()[place].load();
        if (number_of(state) == 0)
            continue;
        const osd::process_identity owner = owner_of(place, state);
        const bool is_seen = owner == alive && states()[place].load() == state;
        if (!is_seen && !stands(place, state))
            continue;
        alive = owner;
        ++left;
    }
    return left;
}

} // namespace dapl::DAPL_TRANSPORT::core
