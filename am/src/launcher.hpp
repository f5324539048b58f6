// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The launcher, through PMIx. Without one the job has one rank, and nothing here calls PMIx.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace am {

/// The thread that sets the job up and the one that ends it take turns in PMIx; the latter keeps
/// its turn. Else both might begin the same exchange, and launchers may hang when a rank leaves an
/// exchange that the others are not in.
class launcher {
public:
    /// @return a status
    int start();

    int rank() const { return rank_; }
    int size() const { return size_; }
    /// Ranks on this host.
    int local_size() const { return local_size_; }
    /// Its PMIx server, mpirun's or slurmstepd's, has closed the connection. PMIx is not called any
    /// more.
    bool is_lost() const { return lost_; }

    /// Makes a value known to the other ranks at the next exchange(). @return a status
    int publish(const char *key, const void *data, std::size_t size);
    /// Waits until all ranks have come here with what they publish under the key, or names those
    /// that have not come in time. Calls `idle` while it waits. @return a status
    int exchange(const char *key, unsigned milliseconds, void (*idle)());
    /// What a rank has published: exactly `size` bytes. @return a status
    int lookup(int rank, const char *key, void *data, std::size_t size);

    /// This rank leaves in order. Of the thread that ends the job.
    void leave();
    /// The launcher is to end all ranks with this code.
    void abort(int code, const char *message);

private:
    /// Of locations and of segments.
    static constexpr int set_up_exchanges = 2;

    enum class turn { free, set_up, ending };

    bool watch_server();
    void name_missing(const char *key, unsigned milliseconds);
    void enter();
    void exit();
    void take_over();
    bool begin_exchange();

    bool present_ = false;
    std::atomic<turn> turn_{turn::free};
    int rank_ = 0;
    int size_ = 1;
    std::atomic<int> exchanges_{0};
    int local_size_ = 1;
    std::atomic<bool> lost_{false};
};

} // namespace am
