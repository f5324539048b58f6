// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <unistd.h>
#include <utility>

namespace dat_info {

/// Owns an open file, if it is one.
class descriptor {
public:
    descriptor() = default;
    explicit descriptor(int fd) : fd_(fd) {}
    descriptor(descriptor &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    descriptor &operator=(descriptor &&other) noexcept
    {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~descriptor()
    {
        if (fd_ >= 0)
            ::close(fd_);
    }
    int get() const { return fd_; }

private:
    int fd_ = -1;
};

} // namespace dat_info
