// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "registry_file.hpp"

#include "config_reader.hpp"
#include "osd_system.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace dat_info {
namespace {

struct freed {
    void operator()(char *text) const { std::free(text); }
};
using owned_text = std::unique_ptr<char, freed>;

constexpr std::size_t largest_file = 16u << 20;

line kept(const dat::config_line &read)
{
    return {read.number,           read.name,           read.kernel,         read.api_major,
            read.api_minor,        read.is_thread_safe, read.is_default,     read.library,
            read.provider_version, read.ia_params,      read.platform_params};
}

/// What a malformed line would have been about: its first word.
std::string first_word_of(const char *text, unsigned number)
{
    for (; number > 1 && text != nullptr; --number)
        if ((text = std::strchr(text, '\n')) != nullptr)
            ++text;
    if (text == nullptr)
        return "";
    text += std::strspn(text, " \t\"");
    return {text, std::strcspn(text, " \t\"\r\n")};
}

/// Reads the file at `path`; false where there is none to be read, with errno.
bool read(registry_file &file, const std::string &path)
{
    std::size_t size = 0;
    const owned_text text(osd::read_file(path.c_str(), largest_file, &size));
    if (text == nullptr)
        return false;
    const std::string untouched(text.get(), size); // a copy, since the reader cuts the text up
    dat::config_reader reader(text.get(), size);
    dat::config_line good;
    dat::config_problem bad;
    for (;;) {
        const auto result = reader.next(good, bad);
        if (result == dat::config_reader::result::end)
            return true;
        if (result == dat::config_reader::result::line)
            file.lines.push_back(kept(good));
        else
            file.problems.push_back(
                {bad.number, bad.reason, first_word_of(untouched.c_str(), bad.number)});
    }
}

bool read_chosen(registry_file &file, const char *variable)
{
    const owned_text path(osd::environment(variable));
    if (path == nullptr || *path == '\0')
        return false;
    file.chosen_by = variable;
    file.path = path.get();
    if (!read(file, file.path))
        file.error = std::strerror(errno);
    return true;
}

std::vector<std::string> places_of_the_system(bool is_ours)
{
    if (!is_ours)
        return {"/etc/dat.conf"};
    std::vector<std::string> places;
    char path[512];
    for (unsigned choice = 0; osd::config_path(choice, "dat.conf", path, sizeof path); ++choice)
        places.emplace_back(path);
    return places;
}

} // namespace

registry_file find_registry_file(bool is_ours)
{
    registry_file file;
    if (read_chosen(file, "DAT_OVERRIDE") || (is_ours && read_chosen(file, "DAT_CONF")))
        return file;
    for (const std::string &place : places_of_the_system(is_ours)) {
        if (read(file, place)) {
            file.path = place;
            break;
        }
        file.looked_at.push_back(place + ": " + std::strerror(errno));
    }
    return file;
}

} // namespace dat_info
