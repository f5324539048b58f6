// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "waivers/waivers.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <regex>
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

} // namespace

waivers read_waivers(const std::string &path, const std::string &today)
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
        waiver made{word(entry, "reason", where), word(entry, "link", where),
                    word(entry, "until", where)};
        check_date(made.until, where);
        made.expired = made.until < today;
        made.flaky = flag(entry, "flaky", where);
        if (!read.emplace(id, made).second)
            throw std::runtime_error(where + ": duplicate waiver for " + id);
    }
    return read;
}

} // namespace conformance
