// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The connections of a measurement, each with a thread that uses it.
#pragma once

#include "dat_link.hpp"
#include "traffic.hpp"

#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace bench::perf {

using links = std::vector<std::unique_ptr<dat_link>>;

constexpr std::uint32_t most_threads = 64;

inline links make_links(dat_adapter &adapter, std::uint32_t count, std::uint32_t max_size)
{
    links all;
    for (std::uint32_t i = 0; i < count; ++i)
        all.push_back(std::make_unique<dat_link>(adapter, max_size));
    return all;
}

/// Patterns that all connections have part in; the others are measured with the first one.
inline bool is_stream(pattern what)
{
    switch (what) {
    case pattern::write_stream:
    case pattern::read_stream:
    case pattern::message_stream:
    case pattern::write_both:
    case pattern::read_both:
    case pattern::message_both:
        return true;
    default:
        return false;
    }
}

inline bool goes_both_ways(pattern what)
{
    return what == pattern::write_both || what == pattern::read_both ||
           what == pattern::message_both;
}

/// Calls work(link, patience) for all links at once, each in a thread of its own, and returns how
/// long that took. Throws the first failure when all have ended.
template <class Work>
seconds for_all(const links &all, const channel &peer, seconds limit, Work work)
{
    std::mutex lock;
    std::exception_ptr failed;
    const auto run = [&](dat_link &link) {
        try {
            patience p(peer, limit);
            work(link, p);
        } catch (...) {
            const std::lock_guard held(lock);
            if (!failed)
                failed = std::current_exception();
        }
    };
    const auto start = clock::now();
    std::vector<std::thread> others;
    for (std::size_t i = 1; i < all.size(); ++i)
        others.emplace_back([&run, &link = *all[i]] { run(link); });
    run(*all.front());
    for (std::thread &each : others)
        each.join();
    const seconds took = clock::now() - start;
    if (failed)
        std::rethrow_exception(failed);
    return took;
}

} // namespace bench::perf
