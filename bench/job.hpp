// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The job that a launcher (mpirun, srun) has started this process in, by PMIx.
#pragma once

#include <string>

namespace bench {

/// One at a time. Functions throw a failure when the launcher does.
class job {
public:
    job();
    job(const job &) = delete;
    job &operator=(const job &) = delete;
    ~job();

    int rank() const { return rank_; }
    int size() const { return size_; }

    /// Known to the others after the next meet(). A key is used once.
    void tell(const std::string &key, const std::string &value);
    /// Waits for all ranks.
    void meet();
    std::string told_by(int rank, const std::string &key);

private:
    int rank_ = 0;
    int size_ = 0;
};

} // namespace bench
