// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "offers.hpp"

#include "counters.hpp"
#include "dat_names.hpp"
#include "descriptor.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

namespace dat_info {
namespace {

using dapl::viewer::core::offered_counters;

/// The names in a folder that are numbers, in order. None if it cannot be read.
std::vector<long> numbers_in(const std::string &folder)
{
    const std::unique_ptr<DIR, int (*)(DIR *)> open(::opendir(folder.c_str()), ::closedir);
    std::vector<long> found;
    while (const dirent *entry = open != nullptr ? ::readdir(open.get()) : nullptr) {
        const char *const end = entry->d_name + std::strlen(entry->d_name);
        long number = 0;
        if (const auto read = std::from_chars(entry->d_name, end, number);
            read.ec == std::errc() && read.ptr == end)
            found.push_back(number);
    }
    std::ranges::sort(found);
    return found;
}

/// Another program has written it, and it goes to a terminal.
std::string printable(const char *text, std::size_t most)
{
    std::string shown(text, ::strnlen(text, most));
    std::ranges::replace_if(
        shown, [](char c) { return c < 0x20 || c > 0x7e; }, '?');
    return shown;
}

std::string program_of(const std::string &process)
{
    char name[64] = {};
    const descriptor file(::open((process + "/comm").c_str(), O_RDONLY | O_CLOEXEC));
    const ssize_t length = ::read(file.get(), name, sizeof name - 1);
    return printable(name, length > 0 ? static_cast<std::size_t>(length) - 1 : 0);
}

bool is_called_so(const std::string &link)
{
    char target[64];
    const std::string wanted = std::string("/memfd:") + offered_counters::name + " (deleted)";
    const ssize_t length = ::readlink(link.c_str(), target, sizeof target);
    return length > 0 && std::string_view(target, static_cast<std::size_t>(length)) == wanted;
}

/// Copies the pages behind an open file of another process. What the file is becomes known before
/// it is opened to be read, as the other process may have replaced it meanwhile.
bool copy_pages(const std::string &link, offered_counters &pages, std::uint64_t &inode)
{
    const descriptor found(::open(link.c_str(), O_PATH | O_CLOEXEC));
    struct stat info {};
    if (::fstat(found.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != ::geteuid() ||
        info.st_size != static_cast<off_t>(sizeof pages))
        return false;
    inode = info.st_ino;
    const std::string same = "/proc/self/fd/" + std::to_string(found.get());
    const descriptor file(::open(same.c_str(), O_RDONLY | O_CLOEXEC));
    return ::pread(file.get(), &pages, sizeof pages, 0) == static_cast<ssize_t>(sizeof pages);
}

template <std::size_t N>
void add(offer &to, const dapl::viewer::core::counter_values<N> &values,
         const char *(*name_of)(int))
{
    for (std::size_t i = 0; i < N; ++i)
        if (const char *name = name_of(static_cast<int>(i)); name != nullptr)
            to.counters.emplace_back(name, values[i].load(std::memory_order_relaxed));
}

bool read_offer(const std::string &link, offer &out)
{
    const auto pages = std::make_unique<offered_counters>();
    if (!is_called_so(link) || !copy_pages(link, *pages, out.inode))
        return false;
    out.adapter = printable(pages->adapter, sizeof pages->adapter);
    add(out, pages->of_adapter, [](int i) { return dat::adapter_counter_name(i); });
    add(out, pages->of_endpoints, [](int i) { return dat::endpoint_counter_name(i); });
    add(out, pages->of_evds, [](int i) { return dat::evd_counter_name(i); });
    return true;
}

bool is_ours(const std::string &process)
{
    struct stat info {};
    return ::stat(process.c_str(), &info) == 0 && info.st_uid == ::geteuid();
}

} // namespace

std::vector<offer> find_offers()
{
    std::vector<offer> all;
    for (const long number : numbers_in("/proc")) {
        const std::string process = "/proc/" + std::to_string(number);
        if (!is_ours(process))
            continue;
        for (const long file : numbers_in(process + "/fd")) {
            offer one;
            const bool is_offer = read_offer(process + "/fd/" + std::to_string(file), one);
            // A forked child has the files of its parent.
            if (!is_offer || std::ranges::any_of(
                                 all, [&](const offer &other) { return other.inode == one.inode; }))
                continue;
            one.process = number;
            one.program = program_of(process);
            all.push_back(std::move(one));
        }
    }
    return all;
}

} // namespace dat_info
