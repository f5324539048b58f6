// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Memory shared by the processes of a user, pages that one of them offers to the others,
// and a test which of them are alive.
#pragma once

#include <cstddef>
#include <cstdint>

namespace osd {

/// Whether this system implements shared_pages and process_identity. If not, open() fails, and
/// is_gone() is false for every process.
bool can_share();

/// Pages, zero at first, that all processes of a user see which open them by one name and size;
/// process_identity tells whether those processes are alive. The pages last until the system
/// restarts. Other users can neither read nor change them.
/// Nothing closes them at the end of the process, when its other threads may still run.
class shared_pages {
public:
    shared_pages() = default;
    shared_pages(const shared_pages &) = delete;
    shared_pages &operator=(const shared_pages &) = delete;

    /// `name` is a file name. Null, or why not. Other users may have taken it, and some more.
    [[nodiscard]] const char *open(const char *name, std::size_t size);
    /// Opens for reading alone, and makes nothing: without such pages the address is null.
    [[nodiscard]] const char *view(const char *name, std::size_t size);
    void close();
    void *address() const { return address_; }
    /// Returns false when a process of the user has cut the pages off: the system ends a process
    /// that touches them then. A touch in that very moment cannot be prevented.
    bool is_whole() const;

private:
    const char *map(int file, std::size_t size, int rights);

    void *address_ = nullptr;
    std::size_t size_ = 0;
    std::uint64_t inode_ = 0;
    char file_[192] = {};
};

/// Pages, zero at first, that this process writes. They are a file without a name in any folder,
/// which other programs of the user find among the open files of this process, by the name that
/// they are opened with, and which ends with the process. Nobody can change its size.
class offered_pages {
public:
    offered_pages() = default;
    offered_pages(const offered_pages &) = delete;
    offered_pages &operator=(const offered_pages &) = delete;
    ~offered_pages() { close(); }

    /// Null, or why not.
    [[nodiscard]] const char *open(const char *name, std::size_t size);
    void close();
    void *address() const { return address_; }

private:
    void *address_ = nullptr;
    std::size_t size_ = 0;
    int file_ = -1;
};

/// Identifies a process: it differs from a later process with this number, and from another program
/// that the process becomes (exec).
struct process_identity {
    std::uint32_t number = 0; ///< 24 bits
    std::uint32_t start = 0;  ///< when it began, 24 bits; 0: unknown
    std::uint64_t image = 0;  ///< tells the programs of a process apart; 0: unknown

    bool operator==(const process_identity &) const = default;
};

process_identity this_process();

/// Whether the process has ended, or become another program. False where that is not known.
bool is_gone(const process_identity &process);

} // namespace osd
