// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/catalogue.hpp"
#include "harness/silent_reporter.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string_view>
#include <utility>

namespace conformance {
namespace {

struct group {
    const char *name;
    const char *title;
};

/// The groups, in the order in which a port is developed.
constexpr group groups[] = {
    {"REG", "registry, codes, optional calls"},
    {"IA", "adapters: open, query, close"},
    {"HANDLE", "handles and contexts"},
    {"MEM", "zones and regions"},
    {"EVD", "event dispatchers"},
    {"CNO", "notification objects"},
    {"EP", "endpoints and their states"},
    {"SP", "service points"},
    {"CR", "connection requests"},
    {"CONN", "connecting and disconnecting"},
    {"DTO", "data transfers"},
    {"RMR", "memory windows"},
    {"SRQ", "shared receive queues"},
    {"EXT", "immediate data, atomics"},
    {"UD", "unreliable datagrams"},
    {"LIFE", "teardown, reopening, processes"},
};

std::size_t place_of(const std::string &name)
{
    const auto *known = std::find_if(std::begin(groups), std::end(groups),
                                     [&](const group &each) { return name == each.name; });
    return static_cast<std::size_t>(known - std::begin(groups));
}

rule rule_of(const doctest::TestCaseData &data)
{
    rule made;
    const std::string name = data.m_name;
    const auto colon = name.find(": ");
    made.id = name.substr(0, colon);
    made.text = colon == std::string::npos ? "" : name.substr(colon + 2);
    made.hint = data.m_description != nullptr ? data.m_description : "";
    std::istringstream words(data.m_test_suite != nullptr ? data.m_test_suite : "");
    for (std::string word; words >> word;) {
        if (word == "alone")
            made.alone = true;
        else
            made.needs += (made.needs.empty() ? "" : " ") + word;
    }
    return made;
}

std::vector<rule> *listing = nullptr;

/// doctest lists its cases to reporters only.
struct lister : silent_reporter {
    explicit lister(const doctest::ContextOptions &) {}

    void report_query(const doctest::QueryData &query) override
    {
        for (unsigned i = 0; listing != nullptr && i < query.num_data; ++i)
            listing->push_back(rule_of(*query.data[i]));
    }
};
DOCTEST_REGISTER_REPORTER("lister", 1, lister);

/// Whether a pattern, with * and ?, stands for the text; small letters stand for capitals, too.
bool fits(std::string_view pattern, std::string_view text)
{
    if (pattern.empty())
        return text.empty();
    if (pattern.front() == '*')
        return fits(pattern.substr(1), text) || (!text.empty() && fits(pattern, text.substr(1)));
    const auto small = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
    return !text.empty() &&
           (pattern.front() == '?' || small(pattern.front()) == small(text.front())) &&
           fits(pattern.substr(1), text.substr(1));
}

bool matches(const rule &each, const std::string &pattern)
{
    const std::string name = each.id + ": " + each.text;
    return fits(pattern, each.id) || fits(pattern, name);
}

} // namespace

std::vector<rule> all_rules()
{
    std::vector<rule> rules;
    listing = &rules;
    const char *const arguments[] = {"", "--reporters=lister", "--list-test-cases"};
    doctest::Context context(static_cast<int>(std::size(arguments)), arguments);
    context.run();
    listing = nullptr;
    std::stable_sort(rules.begin(), rules.end(), [](const rule &one, const rule &other) {
        return std::make_pair(place_of(one.group()), one.id) <
               std::make_pair(place_of(other.group()), other.id);
    });
    return rules;
}

std::vector<rule> select(const std::vector<rule> &rules, const std::vector<std::string> &patterns)
{
    std::vector<rule> chosen;
    std::copy_if(rules.begin(), rules.end(), std::back_inserter(chosen), [&](const rule &each) {
        return patterns.empty() ||
               std::any_of(patterns.begin(), patterns.end(),
                           [&](const std::string &pattern) { return matches(each, pattern); });
    });
    return chosen;
}

std::string group_title(const std::string &group)
{
    const std::size_t place = place_of(group);
    return place < std::size(groups) ? groups[place].title : "";
}

} // namespace conformance
