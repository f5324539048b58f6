// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "shared.hpp"

#include "child.hpp"
#include "mrdb.hpp"
#include "program/json.hpp"
#include "query.hpp"
#include "registry_file.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace dat_info {
namespace {

using dapl::viewer::core::mrdb;
using dapl::viewer::core::shared_name;

/// Each byte as two digits, since a record of a child has texts only.
std::string hex_of(const void *bytes, std::size_t size)
{
    std::string text;
    for (std::size_t i = 0; i < size; ++i) {
        char two[3];
        std::snprintf(two, sizeof two, "%02x", static_cast<const unsigned char *>(bytes)[i]);
        text += two;
    }
    return text;
}

std::string bytes_of(const std::string &hex)
{
    std::string bytes;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
        bytes += static_cast<char>(std::strtoul(hex.substr(i, 2).c_str(), nullptr, 16));
    return bytes;
}

/// Work of the child: a record for each region, and one that says that all were read.
void tell_all_regions(const teller &parent)
{
    static mrdb database{mrdb::file_of_all, mrdb::places_of_all};
    if (const char *wrong = database.view(); wrong != nullptr) {
        parent.tell("wrong", wrong);
        return;
    }
    for (std::uint32_t place = 0; place < database.places(); ++place) {
        mrdb::region each;
        if (database.look(place, each))
            parent.tell("region", hex_of(each.name.word, sizeof each.name.word),
                        std::to_string(each.length), std::to_string(each.process),
                        std::string(each.is_owner_gone ? "gone" : "lives") +
                            (each.is_registered ? " registered" : ""));
    }
    if (database.is_whole())
        parent.tell("all");
    else
        parent.tell("wrong", "a process of the user has cut off its file in /dev/shm");
}

void tell_regions(const std::string &)
{
    tell_all_regions(teller());
    end_child();
}
const program::job regions_job("regions", tell_regions);

/// The name of the adapter that a number is of, among the lines of dat.conf: the database has the
/// number only.
std::string adapter_of(std::uint64_t number, const registry_file &file)
{
    static constexpr char any_cookie[DAT_LMR_COOKIE_SIZE] = {};
    const auto is_it = [&](const line &each) {
        return shared_name(any_cookie, each.name.c_str()).word[shared_name::words - 1] == number;
    };
    const auto found = std::ranges::find_if(file.lines, is_it);
    return found != file.lines.end() ? found->name : "";
}

void add_region(shared_memory &found, const record &told, const registry_file &file)
{
    shared_name_entry one;
    one.cookie = bytes_of(told[1]);
    one.cookie.resize(DAT_LMR_COOKIE_SIZE + sizeof one.adapter_number);
    std::memcpy(&one.adapter_number, one.cookie.data() + DAT_LMR_COOKIE_SIZE,
                sizeof one.adapter_number);
    one.cookie.resize(DAT_LMR_COOKIE_SIZE);
    one.length = std::strtoull(told[2].c_str(), nullptr, 10);
    const auto is_of_it = [&](const shared_name_entry &each) {
        return each.cookie == one.cookie && each.adapter_number == one.adapter_number &&
               each.length == one.length;
    };
    auto name = std::ranges::find_if(found.names, is_of_it);
    if (name == found.names.end()) {
        one.adapter = adapter_of(one.adapter_number, file);
        name = found.names.insert(name, std::move(one));
    }
    name->regions.push_back({static_cast<std::uint32_t>(std::strtoul(told[3].c_str(), nullptr, 10)),
                             told[4].starts_with("gone"), told[4].ends_with("registered")});
}

/// The cookie as text, if it is printable up to the zeros at its end; empty otherwise.
std::string text_of(const std::string &cookie)
{
    const std::string text = cookie.substr(0, cookie.find('\0'));
    const bool is_text = cookie.find_first_not_of('\0', text.size()) == std::string::npos &&
                         std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
    return is_text ? text : "";
}

std::string shown(const std::string &cookie)
{
    const std::string text = text_of(cookie);
    return text.empty() ? hex_of(cookie.data(), cookie.size()) : '"' + text + '"';
}

std::string number_text(std::uint64_t number)
{
    char text[32];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
    return text;
}

const char *state_of(const shared_region &each)
{
    if (each.is_owner_gone)
        return "has ended; its record goes when it is in the way of another";
    return each.is_registered ? "lives" : "lives, and is registering it";
}

} // namespace

std::size_t shared_name_entry::users() const
{
    return static_cast<std::size_t>(std::ranges::count_if(regions, [](const shared_region &each) {
        return each.is_registered && !each.is_owner_gone;
    }));
}

shared_memory look_at_shared_memory(double seconds)
{
    const registry_file file = find_registry_file(libdat2_is_ours());
    shared_memory found;
    found.places = mrdb::places_of_all;
    std::string wrong = "a process of the user keeps its file from being read";
    run_children({{&regions_job, "",
                   [&](child_end end) {
                       for (const record &told : end.told) {
                           if (told[0] == "region")
                               add_region(found, told, file);
                           else
                               wrong = told[1];
                       }
                   }}},
                 seconds);
    if (!wrong.empty())
        throw std::runtime_error("the database of shared memory cannot be read: " + wrong);
    return found;
}

void print_shared(const shared_memory &found)
{
    std::size_t regions = 0;
    for (const shared_name_entry &name : found.names)
        regions += name.regions.size();
    if (regions == 0)
        std::printf("no process of this user has registered shared memory\n");
    else
        std::printf("shared memory: %zu regions of %u, under %zu names\n", regions, found.places,
                    found.names.size());
    for (const shared_name_entry &name : found.names) {
        std::printf("\n%s\n    adapter  %s\n    bytes    %llu\n    users    %zu\n",
                    shown(name.cookie).c_str(),
                    name.adapter.empty()
                        ? (number_text(name.adapter_number) + ", in no line of dat.conf").c_str()
                        : name.adapter.c_str(),
                    static_cast<unsigned long long>(name.length), name.users());
        for (const shared_region &each : name.regions)
            std::printf("    process  %u %s\n", each.process, state_of(each));
    }
}

void print_shared_json(const shared_memory &found)
{
    using program::json;
    json names = json::array();
    for (const shared_name_entry &name : found.names) {
        json regions = json::array();
        for (const shared_region &each : name.regions)
            regions.push_back({{"process", each.process},
                               {"lives", !each.is_owner_gone},
                               {"registered", each.is_registered}});
        const std::string text = text_of(name.cookie);
        names.push_back({{"cookie", hex_of(name.cookie.data(), name.cookie.size())},
                         {"text", text.empty() ? json() : json(text)},
                         {"adapter", name.adapter.empty() ? json() : json(name.adapter)},
                         {"adapter_number", number_text(name.adapter_number)},
                         {"length", name.length},
                         {"users", name.users()},
                         {"regions", regions}});
    }
    program::write_json("-", {{"places", found.places}, {"names", names}});
}

} // namespace dat_info
