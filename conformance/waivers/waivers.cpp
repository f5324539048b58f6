// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "waivers/waivers.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>
#include <stdexcept>

namespace conformance {
namespace {

using nlohmann::json;

std::string word(const json &entry, const char *name, const std::string &where)
{
    if (!entry.contains(name) || !entry[name].is_string() || entry[name].get<std::string>().empty())
        throw std::runtime_error(where + ": \"" + name + "\" is missing or not a string");
    return entry[name];
}

/// Reads one word, or an array of words.
std::vector<std::string> words(const json &entry, const char *name, const std::string &where)
{
    if (!entry.contains(name) || !entry[name].is_array() || entry[name].empty())
        return {word(entry, name, where)};
    std::vector<std::string> made;
    for (const json &each : entry[name])
        made.push_back(word({{name, each}}, name, where));
    return made;
}

bool flag(const json &entry, const char *name, const std::string &where)
{
    if (entry.contains(name) && !entry[name].is_boolean())
        throw std::runtime_error(where + ": \"" + name + "\" is not true or false");
    return entry.value(name, false);
}

/// Dates of this form compare as text.
void check_date(const std::string &date, const std::string &where)
{
    static const std::regex form("[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])");
    if (!std::regex_match(date, form))
        throw std::runtime_error(where +
                                 ": \"until\" is not a date of the form 2027-01-31: " + date);
}

/// The numbers that a release or a version begins with; those left out are 0.
std::array<unsigned long, 4> numbers_of(const std::string &version)
{
    std::array<unsigned long, 4> numbers{};
    const char *at = version.c_str();
    for (unsigned long &number : numbers) {
        char *end = nullptr;
        number = std::strtoul(at, &end, 10);
        if (*end != '.')
            break;
        at = end + 1;
    }
    return numbers;
}

/// Whether a kernel of this release is among `kernels`, such as ">=6.1 <7".
bool is_among(const std::string &kernels, const std::string &release, const std::string &where)
{
    static const std::regex form("(<|>=)([0-9]{1,6}(\\.[0-9]{1,6}){0,3})");
    std::istringstream bounds(kernels);
    bool among = true;
    for (std::string bound; bounds >> bound;) {
        std::smatch parts;
        if (!std::regex_match(bound, parts, form))
            throw std::runtime_error(where +
                                     ": \"kernel\" is not of the form >=6.1 <7: " + kernels);
        const bool before = numbers_of(release) < numbers_of(parts[2]);
        among &= before == (parts[1] == "<");
    }
    return among;
}

json parsed(const std::string &path)
{
    std::ifstream file(path);
    if (!file)
        throw std::runtime_error(path + ": cannot read file");
    try {
        return json::parse(file);
    } catch (const json::exception &e) {
        throw std::runtime_error(path + ": " + e.what());
    }
}

/// Whether a text contains a pattern. fnmatch(3) would not do: brackets and question marks are
/// common in reasons.
bool contains(const std::string &text, const std::string &pattern)
{
    std::istringstream pieces(pattern);
    std::size_t at = 0;
    for (std::string piece; std::getline(pieces, piece, '*'); at += piece.size())
        if (at = text.find(piece, at); at == std::string::npos)
            return false;
    return true;
}

} // namespace

bool waiver::expects(const std::string &failed) const
{
    return failures.empty() ||
           std::any_of(failures.begin(), failures.end(),
                       [&](const std::string &each) { return contains(failed, each); });
}

waivers read_waivers(const std::string &path, const std::string &today, const std::string &kernel)
{
    const json all = parsed(path);
    if (!all.is_array())
        throw std::runtime_error(path + ": not an array of waivers");
    waivers read;
    for (const json &entry : all) {
        const std::string where = path + ": waiver " + std::to_string(read.size() + 1);
        if (!entry.is_object())
            throw std::runtime_error(where + " is not an object");
        const std::string id = word(entry, "case", where);
        waiver made;
        made.reason = word(entry, "reason", where);
        made.link = word(entry, "link", where);
        made.until = word(entry, "until", where);
        check_date(made.until, where);
        made.expired = made.until < today;
        if (entry.contains("kernel"))
            made.kernels = word(entry, "kernel", where);
        made.other_kernel = !is_among(made.kernels, kernel, where);
        made.flaky = flag(entry, "flaky", where);
        if (!made.flaky || entry.contains("failure"))
            made.failures = words(entry, "failure", where);
        if (!read.emplace(id, made).second)
            throw std::runtime_error(where + ": duplicate waiver for " + id);
    }
    return read;
}

} // namespace conformance
