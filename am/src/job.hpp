// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The part that a process has in a job: all objects of the library.
#pragma once

#include "barrier.hpp"
#include "end_of_job.hpp"
#include "fill_table.hpp"
#include "links.hpp"
#include "messenger.hpp"
#include "progress_engine.hpp"
#include "registration_cache.hpp"
#include "remote_memory.hpp"
#include "request_sender.hpp"
#include "transfer_engine.hpp"

namespace am {

class job {
public:
    job(ending &end, launcher &starter) : context_(end, starter) {}

    /// Joins the job: opens an adapter, and meets the other ranks. Returns a status, as the next
    /// two do.
    int open(const DAPL_AM_OPTIONS *options);
    /// Has the end of the process end the job, and the other way round; once in a process.
    int end_with_process() { return end_.open(); }
    /// Lets other ranks connect, and ask this one to end.
    int serve();
    /// Makes the segment, and tells the other ranks its address.
    int attach(DAPL_AM_HANDLER *handlers, int count, std::size_t segment_size);

    job_context &context() { return context_; }
    messenger &messages() { return messages_; }
    barrier &barriers() { return barrier_; }
    progress_engine &progress() { return progress_; }
    request_sender &requests() { return requests_; }
    transfer_engine &transfers() { return transfers_; }
    void fill(DAPL_AM_COUNTERS &out) const;

private:
    int open_adapter();
    int open_first(bool reaches_others);
    int open_named(const char *name);
    int open_same();
    bool is_loopback();
    int try_adapter(const char *name);
    int query_adapter();
    int introduce();
    int make_segment(std::size_t size);
    int exchange_segments();
    void connect_all();

    job_context context_;
    char network_[16] = ""; ///< what the adapter connects by, where it tells
    registration_cache cache_{context_};
    links links_{context_};
    remote_memory memory_{context_, cache_};
    barrier_words words_;
    fill_table fills_;
    messenger messages_{context_, links_, memory_, words_, fills_};
    barrier barrier_{context_, links_, memory_, messages_, words_};
    progress_engine progress_{context_, links_, messages_, barrier_, memory_};
    request_sender requests_{context_, links_, messages_, progress_, memory_};
    transfer_engine transfers_{context_, memory_, progress_, fills_};
    end_of_job end_{context_, links_};
};

} // namespace am
