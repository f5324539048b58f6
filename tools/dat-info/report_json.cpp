// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report.hpp"

#include "machine.hpp"
#include "program/failure.hpp"
#include "program/json.hpp"

#include <cstdlib>
#include <fstream>

namespace dat_info {
namespace {

using program::json;

json text_or_null(const std::string &value)
{
    return value.empty() ? json() : json(value);
}

json json_value(const attribute &one)
{
    if (one.kind == "yes/no")
        return one.value == "yes";
    if (one.kind == "text")
        return one.value;
    if (one.value.front() == '-')
        return std::strtoll(one.value.c_str(), nullptr, 10);
    return std::strtoull(one.value.c_str(), nullptr, 10);
}

json attributes_json(const adapter &each)
{
    json sections = json::object();
    for (const attribute &one : each.attributes)
        sections[one.section][one.name] = json_value(one);
    return sections;
}

json adapter_json(const adapter &each)
{
    json lines = json::array();
    for (const line *one : each.lines)
        lines.push_back(
            {{"line", one->number}, {"library", one->library}, {"parameters", one->parameters}});
    return {
        {"name", each.name},
        {"api", std::to_string(each.api_major) + "." + std::to_string(each.api_minor)},
        {"thread_safe", each.thread_safe},
        {"state", name_of(each.is)},
        {"opens", each.is == state::opens},
        {"reason", text_or_null(each.reason)},
        {"advice", text_or_null(each.advice)},
        {"remark", text_or_null(each.remark)},
        {"lines", lines},
        {"attributes", attributes_json(each)},
        {"output", each.output},
    };
}

json file_json(const registry_file &file)
{
    json malformed = json::array(), ignored = json::array();
    for (const problem &each : file.problems)
        malformed.push_back({{"line", each.number}, {"reason", each.reason}});
    for (const line &each : file.lines)
        if (!each.is_usable())
            ignored.push_back({{"line", each.number},
                               {"name", each.name},
                               {"reason", each.for_the_kernel ? "for the kernel" : "nondefault"}});
    return {
        {"path", text_or_null(file.path)},
        {"named_by", text_or_null(file.chosen_by)},
        {"error", text_or_null(file.error)},
        {"malformed", malformed},
        {"ignored", ignored},
    };
}

json findings_json(const findings &found)
{
    json adapters = json::array();
    for (const adapter &each : found.adapters)
        adapters.push_back(adapter_json(each));
    return {{"libdat2", found.libdat2},
            {"registry", file_json(found.file)},
            {"trouble", found.trouble},
            {"adapters", adapters}};
}

json scorecard_json(const std::string &path)
{
    std::ifstream in(path);
    json card = json::parse(in, nullptr, false);
    if (!card.is_object() || !card.contains("results"))
        throw program::failure(path + " is no scorecard, which dapl-conformance --json writes");
    return card;
}

} // namespace

void print_json(const findings &found)
{
    program::write_json("-", findings_json(found));
}

void write_report(const std::string &path, const findings &found,
                  const std::vector<std::string> &scorecards)
{
    json report = {{"made", program::origin_json()}, {"machine", machine_json()}};
    report.update(findings_json(found));
    report["scorecards"] = json::array();
    for (const std::string &each : scorecards)
        report["scorecards"].push_back(scorecard_json(each));
    program::write_json(path, report);
}

} // namespace dat_info
