// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a program does with the descriptor of a CNO.
#pragma once

#include "harness/settings.hpp"

namespace conformance {

/// Asks poll() about a descriptor.
bool is_readable(int fd, milliseconds time = milliseconds(0));
/// Whether poll() knows no such descriptor.
bool is_closed(int fd);

/// Waits for descriptors as servers do, by epoll.
class descriptor_set {
public:
    descriptor_set();
    descriptor_set(const descriptor_set &) = delete;
    descriptor_set &operator=(const descriptor_set &) = delete;
    ~descriptor_set();
    bool add(int fd);
    /// The number of descriptors that are readable.
    int wait(milliseconds time) const;

private:
    int fd_;
};

} // namespace conformance
