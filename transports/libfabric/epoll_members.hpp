// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The descriptors that are in an epoll set of libfabric's.
#pragma once

#include <cstdio>
#include <memory>
#include <sys/types.h>

namespace dapl::libfabric::ofi {

/// Reads what /proc shows of an epoll set: a line for each descriptor in it.
class epoll_members {
public:
    struct member {
        int fd;
        ino_t inode; ///< inode of the file that was put in: fd may be another file now
    };

    epoll_members() = default;
    /// Begins to read. The file is kept open: the process may lack descriptors the next time.
    void open(int set);
    void close() { info_.reset(); }
    /// Begins anew.
    void restart();
    /// False after the last one, and where /proc is not mounted.
    bool next(member &);

private:
    std::unique_ptr<std::FILE, int (*)(std::FILE *)> info_{nullptr, &std::fclose};
};

/// Returns an epoll set that is in this one, other than `but`; -1 if there is none.
int set_within(int set, int but = -1);

} // namespace dapl::libfabric::ofi
