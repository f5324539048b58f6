// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The memory of the toys: a fabric inside one process, in which devices of several adapters meet.
// Each toy is one source file, so that what is here is its own.
#pragma once

#include "osd_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <map>
#include <mutex>
#include <numeric>
#include <sys/uio.h>
#include <unistd.h>
#include <vector>

namespace {

std::mutex fabric; // guards everything

/// The toy's object behind a handle.
template <class Toy, class Object>
Toy &toy(const Object &o)
{
    return *static_cast<Toy *>(o.handle);
}

/// How one toy names a pair to the other side.
struct peer_name {
    pid_t process;
    std::uint32_t number;
};

// ------------------------------------------------------------------------------------ descriptors

[[maybe_unused]] void raise_signal(int fd)
{
    const std::uint64_t one = 1;
    (void)!::write(fd, &one, sizeof one);
}

[[maybe_unused]] void lower_signal(int fd)
{
    std::uint64_t count;
    (void)!::read(fd, &count, sizeof count);
}

// ---------------------------------------------------------------------------------------- regions

struct toy_region {
    const void *domain;
    std::uint64_t address;
    std::uint64_t length;
    unsigned rights;
};

std::map<std::uint32_t, toy_region> regions; // regions by key

/// Registers memory; `made` is what deregister_region takes.
int register_region(void *&made, const toy_region &wanted, bool writes, std::uint32_t &key)
{
    void *const address = reinterpret_cast<void *>(wanted.address);
    if (osd::look_at_memory(address, wanted.length, writes) != osd::memory_use::possible)
        return EFAULT;
    static std::uint32_t last_key = 0;
    const std::lock_guard<std::mutex> hold(fabric);
    key = ++last_key;
    made = &*regions.insert({key, wanted}).first;
    return 0;
}

void deregister_region(void *made)
{
    const std::lock_guard<std::mutex> hold(fabric);
    regions.erase(static_cast<decltype(regions)::value_type *>(made)->first);
}

// ------------------------------------------------------------------------------------ moving data

struct toy_segment {
    std::uint64_t address;
    std::uint64_t length;
    std::uint32_t key;
};
using toy_segments = std::vector<toy_segment>;

template <class Operation>
toy_segments local_of(const Operation &op)
{
    toy_segments out(op.segments);
    std::transform(op.local, op.local + op.segments, out.begin(), [](const auto &s) {
        return toy_segment{s.address, s.length, s.key};
    });
    return out;
}

std::uint64_t length_of(const toy_segments &segments)
{
    return std::accumulate(segments.begin(), segments.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const toy_segment &s) { return sum + s.length; });
}

bool allows(const toy_segment &s, const void *domain, unsigned right)
{
    const auto found = regions.find(s.key);
    if (found == regions.end())
        return false;
    const toy_region &r = found->second;
    return r.domain == domain && (r.rights & right) == right && s.address >= r.address &&
           s.length <= r.length && s.address - r.address <= r.length - s.length;
}

bool is_local(const toy_segments &segments, const void *domain, unsigned right)
{
    return std::all_of(segments.begin(), segments.end(), [&](const toy_segment &s) {
        return s.length == 0 || allows(s, domain, right);
    });
}

std::vector<iovec> vector_of(const toy_segments &segments)
{
    std::vector<iovec> out(segments.size());
    std::transform(segments.begin(), segments.end(), out.begin(), [](const toy_segment &s) {
        return iovec{reinterpret_cast<void *>(s.address), s.length};
    });
    return out;
}

/// Copies by the system: memory that is not there any more is an error, not the end of the process.
bool copy(const toy_segments &to, const toy_segments &from, std::uint64_t length)
{
    const std::vector<iovec> into = vector_of(to), out_of = vector_of(from);
    return length == 0 || ::process_vm_readv(::getpid(), into.data(), into.size(), out_of.data(),
                                             out_of.size(), 0) == static_cast<ssize_t>(length);
}

/// Reads or writes memory of a peer; false: its domain does not allow that.
bool access_memory(bool read, const toy_segments &local, const toy_segment &remote,
                   const void *domain, unsigned right)
{
    return allows(remote, domain, right) &&
           (read ? copy(local, {remote}, remote.length) : copy({remote}, local, remote.length));
}

enum class fit { received, too_long, forbidden };

/// Receives a message.
fit deliver(const toy_segments &into, const toy_segments &from, const void *domain, unsigned right)
{
    const std::uint64_t length = length_of(from);
    if (length_of(into) < length)
        return fit::too_long;
    return is_local(into, domain, right) && copy(into, from, length) ? fit::received
                                                                     : fit::forbidden;
}

} // namespace
