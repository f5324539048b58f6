// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report.hpp"

#include "program/json.hpp"

#include <cstdlib>

namespace dat_info {
namespace {

using program::json_object;

void set_text_or_null(json_object &into, const char *key, const std::string &value)
{
    if (value.empty())
        into.set_null(key);
    else
        into.set(key, value);
}

json_object attributes_json(const adapter &each, const std::string &section)
{
    json_object object;
    for (const attribute &one : each.attributes) {
        if (one.section != section)
            continue;
        if (one.kind == "yes/no")
            object.set(one.name, one.value == "yes");
        else if (one.kind == "text")
            object.set(one.name, one.value);
        else if (one.value.front() == '-')
            object.set(one.name, std::int64_t{std::strtoll(one.value.c_str(), nullptr, 10)});
        else
            object.set(one.name, std::uint64_t{std::strtoull(one.value.c_str(), nullptr, 10)});
    }
    return object;
}

std::vector<std::string> sections_of(const adapter &each)
{
    std::vector<std::string> sections;
    for (const attribute &one : each.attributes)
        if (sections.empty() || sections.back() != one.section)
            sections.push_back(one.section);
    return sections;
}

json_object line_json(const line &each)
{
    return json_object()
        .set("line", each.number)
        .set("library", each.library)
        .set("parameters", each.parameters);
}

json_object adapter_json(const adapter &each)
{
    std::vector<json_object> lines;
    for (const line *one : each.lines)
        lines.push_back(line_json(*one));
    json_object attributes;
    for (const std::string &section : sections_of(each))
        attributes.set(section, attributes_json(each, section));
    json_object object;
    object.set("name", each.name)
        .set("api", std::to_string(each.api_major) + "." + std::to_string(each.api_minor))
        .set("thread_safe", each.thread_safe)
        .set("state", name_of(each.is))
        .set("opens", each.is == state::opens);
    set_text_or_null(object, "reason", each.reason);
    set_text_or_null(object, "advice", each.advice);
    set_text_or_null(object, "remark", each.remark);
    return object.set("lines", lines).set("attributes", attributes).set("output", each.output);
}

json_object file_json(const registry_file &file)
{
    json_object object;
    set_text_or_null(object, "path", file.path);
    set_text_or_null(object, "named_by", file.chosen_by);
    set_text_or_null(object, "error", file.error);
    std::vector<json_object> problems, ignored;
    for (const problem &each : file.problems)
        problems.push_back(json_object().set("line", each.number).set("reason", each.reason));
    for (const line &each : file.lines)
        if (!each.is_usable())
            ignored.push_back(
                json_object()
                    .set("line", each.number)
                    .set("name", each.name)
                    .set("reason", each.for_the_kernel ? "for the kernel" : "nondefault"));
    return object.set("malformed", problems).set("ignored", ignored);
}

} // namespace

void print_json(const findings &found)
{
    std::vector<json_object> adapters;
    for (const adapter &each : found.adapters)
        adapters.push_back(adapter_json(each));
    program::write_json("-", json_object()
                                 .set("libdat2", found.libdat2)
                                 .set("registry", file_json(found.file))
                                 .set("trouble", found.trouble)
                                 .set("adapters", adapters));
}

} // namespace dat_info
