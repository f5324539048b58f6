// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Barriers by dissemination: in round r each rank tells the rank 2^r above it whether
// all names that it knows agree.
#pragma once

#include "barrier_words.hpp"
#include "job_context.hpp"

namespace am {

class links;
class messenger;
class remote_memory;

class barrier {
public:
    /// Bytes after the end of the segment into which other ranks put their barrier messages.
    static constexpr std::size_t area_size = 4096;

    barrier(job_context &job, links &connections, remote_memory &memory, messenger &messages,
            const barrier_words &words)
        : job_(job), links_(connections), memory_(memory), messages_(messages), words_(words)
    {}

    void set_area(void *area) { area_ = static_cast<const put_slot *>(area); }

    /// Begins a barrier. Returns a status, as finish().
    int notify(int id, unsigned flags) OSD_EXCLUDES(lock_);
    /// Ends a barrier that is complete; otherwise it is not ready.
    int finish(int id, unsigned flags) OSD_EXCLUDES(lock_);
    /// Sends the next message of a barrier if it can. Not from handlers.
    void progress() OSD_EXCLUDES(lock_);

private:
    /// A put of another rank writes this: the word and its complement, so that a part is not taken
    /// for the whole.
    struct put_slot {
        std::uint64_t word;
        std::uint64_t complement;
    };
    static_assert(sizeof(put_slot) * 2 * (barrier_words::max_rounds + 1) <= area_size);

    enum class phase { idle, notified, complete };

    static int slot_index(std::uint64_t word, int round);
    static std::uint64_t read_slot(const put_slot &slot);
    std::uint64_t heard_in(int round) const OSD_REQUIRES(lock_);
    bool tell_by_put(peer &p) OSD_REQUIRES(lock_);
    bool tell_by_message(peer &p) OSD_REQUIRES(lock_);
    bool tell(int rank) OSD_REQUIRES(lock_);
    void advance() OSD_REQUIRES(lock_);

    job_context &job_;
    links &links_;
    remote_memory &memory_;
    messenger &messages_;
    const barrier_words &words_;
    osd::mutex lock_;
    phase phase_ OSD_GUARDED_BY(lock_) = phase::idle;
    std::uint32_t number_ OSD_GUARDED_BY(lock_) = 0;
    std::uint64_t own_ OSD_GUARDED_BY(lock_) = 0; ///< what this rank has said
    std::uint64_t
        known_ OSD_GUARDED_BY(lock_) = 0; ///< its own word combined with the words heard so far
    int round_ OSD_GUARDED_BY(lock_) = 0;
    bool sent_ OSD_GUARDED_BY(lock_) = false; ///< this round's message is on its way
    dapl_am_op writes_;
    const put_slot *area_ = nullptr;
};

} // namespace am
