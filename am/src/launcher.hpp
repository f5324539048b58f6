// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The launcher of a job, as the job uses it. Programs have the one in pmix_launcher.hpp.
#pragma once

#include <atomic>
#include <cstddef>

namespace am {

class launcher {
public:
    launcher() = default;
    launcher(const launcher &) = delete;
    launcher &operator=(const launcher &) = delete;

    int rank() const { return rank_; }
    int size() const { return size_; }
    /// The number of ranks on this host.
    int local_size() const { return local_size_; }
    /// Whether the launcher has gone. It is not called any more.
    bool is_lost() const { return lost_; }

    /// Learns rank and size. Returns a status, as the next three do.
    virtual int start() = 0;
    /// Makes a value known to the other ranks at the next exchange().
    virtual int publish(const char *key, const void *data, std::size_t size) = 0;
    /// Waits until all ranks have published the key and have come here, and names the ranks that
    /// have not come in time.
    virtual int exchange(const char *key, unsigned milliseconds) = 0;
    /// Copies what a rank has published: exactly `size` bytes. Waits for a rank that has left
    /// without publishing anything to end the job.
    virtual int lookup(int rank, const char *key, void *data, std::size_t size,
                       unsigned milliseconds) = 0;

    /// Leaves in order. The thread that ends the job calls it, and the next.
    virtual void leave() = 0;
    /// Has the launcher end all ranks with this code.
    virtual void abort(int code, const char *message) = 0;

protected:
    ~launcher() = default;

    int rank_ = 0;
    int size_ = 1;
    int local_size_ = 1;
    std::atomic<bool> lost_{false};
};

} // namespace am
