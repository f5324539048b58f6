// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Pages of memory as the system gives them: read-only, shared, with holes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace conformance {

std::size_t page_size();

/// Rights of a process to its memory, and sharers of that memory.
enum class page_kind {
    writable,
    read_only,
    shared,     ///< other processes can have it
    part_shared ///< its third page is this process's own
};

/// Whole pages, some of which can be unmapped. Later mappings of the process do not reuse these.
class pages {
public:
    explicit pages(std::size_t count, page_kind kind = page_kind::writable);
    pages(const pages &) = delete;
    pages &operator=(const pages &) = delete;
    ~pages();
    /// Removes a range; called once.
    void remove(std::size_t first, std::size_t count);

    const std::size_t page;
    const std::size_t length;
    std::uint8_t *at = nullptr;

private:
    std::uint8_t *hole_ = nullptr;
    std::uint8_t *hole_end_ = nullptr;
};

/// Three pages of addresses that are taken, at least two of them without memory: behind the end of
/// a file, or reserved where no file is mapped that far.
std::uint8_t *map_without_memory(std::size_t &length);

/// Memory that other processes can map by its name.
class shared_pages {
public:
    static constexpr std::size_t bytes = 16384;

    shared_pages();
    /// Maps the memory of another process, and takes the name away: both have it.
    explicit shared_pages(const char *other);
    shared_pages(const shared_pages &) = delete;
    shared_pages &operator=(const shared_pages &) = delete;
    ~shared_pages();

    char name[40];
    std::uint8_t *at = nullptr;

private:
    void map(std::intptr_t file);

    /// Keeps the name alive on systems that forget it with the last user.
    [[maybe_unused]] std::intptr_t file_ = -1;
};

} // namespace conformance
