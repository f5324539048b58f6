// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "watch.hpp"

#include "offers.hpp"
#include "program/json.hpp"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <thread>

namespace dat_info {
namespace {

/// What there was at a time.
struct look {
    std::chrono::steady_clock::time_point time;
    std::vector<offer> offers;
};

look look_now(const std::vector<std::string> &adapters)
{
    look now{std::chrono::steady_clock::now(), find_offers()};
    if (!adapters.empty())
        std::erase_if(now.offers, [&](const offer &each) {
            return std::ranges::find(adapters, each.adapter) == adapters.end();
        });
    return now;
}

const offer *same_as(const offer &one, const look &in)
{
    const auto found = std::ranges::find(in.offers, one.inode, &offer::inode);
    return found != in.offers.end() ? &*found : nullptr;
}

std::string title_of(const offer &one)
{
    return "process " + std::to_string(one.process) + " (" + one.program + "), " + one.adapter;
}

/// The growth in a second. A call that failed is taken back, so that a sum may shrink.
std::uint64_t rate_of(std::uint64_t now, std::uint64_t before, double seconds)
{
    return now > before ? static_cast<std::uint64_t>(static_cast<double>(now - before) / seconds)
                        : 0;
}

void print_offer(const offer &one, const offer *before, double seconds)
{
    std::printf("\n%s\n    %-30s %20s%s\n", title_of(one).c_str(), "counter", "total",
                before != nullptr ? "     per second" : "");
    for (std::size_t i = 0; i < one.counters.size(); ++i) {
        const auto &[name, value] = one.counters[i];
        if (value == 0)
            continue;
        std::printf("    %-30s %20" PRIu64, name, value);
        if (before != nullptr)
            std::printf(" %14" PRIu64, rate_of(value, before->counters[i].second, seconds));
        std::printf("\n");
    }
}

void print_look(const look &now, const look &before)
{
    const std::chrono::duration<double> between = now.time - before.time;
    for (const offer &each : before.offers)
        if (same_as(each, now) == nullptr)
            std::printf("\n%s: the program has ended, or closed the adapter\n",
                        title_of(each).c_str());
    for (const offer &each : now.offers)
        print_offer(each, same_as(each, before), between.count());
}

/// A line for each look.
void print_look_json(const look &now)
{
    using program::json;
    json offers = json::array();
    for (const offer &each : now.offers) {
        json counters = json::object();
        for (const auto &[name, value] : each.counters)
            counters[name] = value;
        offers.push_back({{"process", each.process},
                          {"program", each.program},
                          {"adapter", each.adapter},
                          {"counters", counters}});
    }
    std::printf("%s\n", json({{"offers", offers}}).dump().c_str());
}

} // namespace

bool watch(const watching &wanted)
{
    look before;
    for (std::uint32_t looks = 1;; ++looks) {
        look now = look_now(wanted.adapters);
        if (looks == 1 && now.offers.empty())
            return false;
        if (wanted.json)
            print_look_json(now);
        else
            print_look(now, before);
        std::fflush(stdout);
        if (now.offers.empty() || looks == wanted.looks)
            return true;
        before = std::move(now);
        std::this_thread::sleep_for(std::chrono::duration<double>(wanted.interval));
    }
}

} // namespace dat_info
