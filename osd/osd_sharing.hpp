// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory that the processes of a user have in common, and which of them are alive.
#pragma once

#include <cstddef>
#include <cstdint>

namespace osd {

/// Whether this system implements shared_pages and process_identity. If not, open() fails, and
/// is_gone() is false for every process.
bool can_share();

/// Pages of zeros at first, which all processes of a user see that open them by the same name and
/// size, and can tell by their process_identity whether they are alive. They last until the system
/// restarts. Other users can neither read nor change them.
/// Nothing closes them at the end of the process, when its other threads may still run.
class shared_pages {
public:
    shared_pages() = default;
    shared_pages(const shared_pages &) = delete;
    shared_pages &operator=(const shared_pages &) = delete;

    /// `name` is a file name. Null, or why not. Other users may have taken it, and some more.
    [[nodiscard]] const char *open(const char *name, std::size_t size);
    void close();
    void *address() const { return address_; }
    /// False when a process of the user has cut them off: who touches them then is ended by the
    /// system. One that does so in this moment cannot be kept from that.
    bool is_whole() const;

private:
    void *address_ = nullptr;
    std::size_t size_ = 0;
    std::uint64_t inode_ = 0;
    char file_[192] = {};
};

/// A process, told from a later one of the same number, and from another program that it has
/// become (exec).
struct process_identity {
    std::uint32_t number = 0; ///< 24 bits
    std::uint32_t start = 0;  ///< when it began, 24 bits; 0: unknown
    std::uint64_t image = 0;  ///< of its program; 0: unknown

    bool operator==(const process_identity &) const = default;
};

process_identity this_process();

/// Whether the process has ended, or become another program. False where that is not known.
bool is_gone(const process_identity &process);

} // namespace osd
