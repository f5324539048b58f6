// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "vectors.hpp"

#include "osd_system.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace dapl::verbs::vrb {

namespace {

/// The number or list in a file of sysfs; empty when there is none.
struct line {
    explicit line(const char *path)
    {
        std::size_t size = 0;
        read = osd::read_file(path, 65536, &size);
    }
    line(const line &) = delete;
    line &operator=(const line &) = delete;
    ~line() { std::free(read); }
    const char *text() const { return read != nullptr ? read : ""; }

private:
    char *read;
};

/// How many of these processors come before one.
std::uint32_t rank_of(const processors &among, unsigned processor)
{
    const std::size_t above = among.size() - std::min<std::size_t>(processor, among.size());
    return above == 0 ? 0 : static_cast<std::uint32_t>((among << above).count());
}

} // namespace

processors read_processors(const char *list)
{
    processors found;
    char *end = nullptr;
    for (const char *at = list; *at >= '0' && *at <= '9'; at = *end == ',' ? end + 1 : end) {
        const unsigned long first = std::strtoul(at, &end, 10);
        const unsigned long last = *end == '-' ? std::strtoul(end + 1, &end, 10) : first;
        for (unsigned long each = first; each <= last && each < found.size(); ++each)
            found[each] = true; // set() needs the C++ library's exceptions
    }
    return found;
}

bool completion_vectors::open(std::uint32_t count, std::uint32_t fixed)
{
    count_ = std::max<std::uint32_t>(count, 1);
    fixed_ = fixed;
    users_.reset(new (std::nothrow) std::atomic<std::uint32_t>[count_]());
    return users_ != nullptr;
}

void completion_vectors::place(const processors &online, const processors &near_device)
{
    near_ = online & near_device;
    far_ = online & ~near_device;
}

void completion_vectors::look_up(const char *device)
{
    const processors online = read_processors(line("/sys/devices/system/cpu/online").text());
    char path[160];
    std::snprintf(path, sizeof path, "/sys/class/infiniband/%s/device/numa_node", device);
    const line node(path);
    processors local = online; // a machine of one node, or a device without one
    if (*node.text() >= '0' && *node.text() <= '9') {
        std::snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist",
                      std::atoi(node.text()));
        local = read_processors(line(path).text());
    }
    place(online, local);
}

completion_vectors::range completion_vectors::around(unsigned processor) const
{
    const auto near_end = std::min(count_, static_cast<std::uint32_t>(near_.count()));
    const auto all_end = std::min(count_, near_end + static_cast<std::uint32_t>(far_.count()));
    const bool is_far = processor < far_.size() && far_[processor];
    if (is_far && near_end < all_end)
        return {near_end, all_end, rank_of(far_, processor) % (all_end - near_end)};
    if (near_end == 0)
        return {0, count_, processor % count_};
    return {0, near_end, rank_of(is_far ? far_ : near_, processor) % near_end};
}

std::uint32_t completion_vectors::take(unsigned processor)
{
    if (fixed_ != spread) {
        ++users_[fixed_];
        return fixed_;
    }
    const range in = around(processor);
    const std::uint32_t size = in.end - in.first;
    std::uint32_t best = in.first + in.own;
    for (std::uint32_t step = 1; step < size; ++step) {
        const std::uint32_t each = in.first + (in.own + step) % size;
        if (users_[each].load() < users_[best].load())
            best = each;
    }
    ++users_[best];
    return best;
}

} // namespace dapl::verbs::vrb
