// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "suggest.hpp"

#include "adapter.hpp"
#include "devices.hpp"
#include "program/json.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <regex>
#include <sstream>

namespace dat_info {
namespace {

using words = std::vector<std::string>;

words words_of(const std::string &text)
{
    std::istringstream in(text);
    words found;
    for (std::string word; in >> word;)
        found.push_back(word);
    return found;
}

std::string text_of(const words &all)
{
    std::string text;
    for (const std::string &each : all)
        text += (text.empty() ? "" : " ") + each;
    return text;
}

/// A line to go by, cut in parts.
struct example {
    const line *from;
    std::string prefix; ///< its name without the device
    std::size_t place;  ///< index of the device among its parameters
    bool is_rdma;
};

/// Tells by the form of the name where this machine lacks the device.
bool names_rdma_device(const std::string &name)
{
    static const std::regex interface("(lo|(eth|en|ib|wl|ww|br|bond|team|veth|vlan|dummy|tun).*)");
    if (interface_names().count(name) != 0)
        return false;
    return rdma_device_names().count(name) != 0 || !std::regex_match(name, interface);
}

std::optional<example> example_of(const line &each)
{
    const words parameters = words_of(each.parameters);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        const std::string ending = "-" + parameters[i];
        if (each.name.size() > ending.size() && each.name.ends_with(ending))
            return example{&each, each.name.substr(0, each.name.size() - ending.size() + 1), i,
                           names_rdma_device(parameters[i])};
    }
    return std::nullopt;
}

bool is_number(const std::string &word)
{
    return !word.empty() && word.find_first_not_of("0123456789") == std::string::npos;
}

/// Puts another device into the parameters; the number of a port may follow the name.
words parameters_for(const example &like, const device &at)
{
    words parameters = words_of(like.from->parameters);
    parameters[like.place] = at.name;
    if (at.is_rdma() && like.place + 1 < parameters.size() && is_number(parameters[like.place + 1]))
        parameters[like.place + 1] = at.port;
    return parameters;
}

std::string name_for(const example &like, const device &at)
{
    return like.prefix + at.name + (at.port.empty() || at.port == "1" ? "" : "-" + at.port);
}

std::string quoted(const std::string &text)
{
    std::string out = "\"";
    for (const char c : text)
        out += (c == '"' || c == '\\' ? "\\" : "") + std::string(1, c);
    return out + "\"";
}

std::string line_for(const example &like, const device &at)
{
    const line &from = *like.from;
    return name_for(like, at) + " u" + std::to_string(from.api_major) + "." +
           std::to_string(from.api_minor) + " " + safety_of(from.thread_safe) + " default " +
           from.library + " " + from.provider_version + " " +
           quoted(text_of(parameters_for(like, at))) + " " + quoted(from.platform_parameters);
}

/// Whether the file has an adapter of this library at the device, or one with its name.
bool has_line(const registry_file &file, const example &like, const device &at)
{
    const words wanted = parameters_for(like, at);
    return std::ranges::any_of(file.lines, [&](const line &each) {
        if (!each.is_usable() || each.thread_safe != like.from->thread_safe)
            return false;
        const words has = words_of(each.parameters);
        const bool is_there = each.library == like.from->library &&
                              std::ranges::find(has, at.name) != has.end() &&
                              (!at.is_rdma() || has == wanted);
        return is_there || each.name == name_for(like, at);
    });
}

bool is_new(const suggestions &found, const std::string &line)
{
    return std::ranges::none_of(found.lines,
                                [&](const suggestion &each) { return each.line == line; });
}

} // namespace

suggestions suggest(const registry_file &file)
{
    const std::vector<device> devices = find_devices();
    suggestions found;
    for (const device &each : devices)
        if (!each.trouble.empty())
            found.left_out.push_back(each.name + (each.is_rdma() ? " port " + each.port : "") +
                                     " " + each.trouble);
    for (const line &each : file.lines) {
        const std::optional<example> like = each.is_usable() ? example_of(each) : std::nullopt;
        if (!like)
            continue;
        found.has_examples = true;
        for (const device &at : devices) {
            if (!at.trouble.empty() || at.is_rdma() != like->is_rdma || has_line(file, *like, at))
                continue;
            if (const std::string line = line_for(*like, at); is_new(found, line))
                found.lines.push_back({line, at.name, each.name});
        }
    }
    return found;
}

void print_suggestions(const suggestions &found, const registry_file &file)
{
    const char *path = file.path.c_str();
    if (!found.lines.empty())
        std::printf("# Made after the lines of %s.\n"
                    "# Append them there, or try them first with DAT_OVERRIDE=<file> dat-info.\n",
                    path);
    else if (found.has_examples)
        std::printf("# %s has a line for each device of this machine where an adapter may be.\n",
                    path);
    else
        std::printf("# %s has no line to go by: a name like soft-eth0, with eth0 among its\n"
                    "# parameters. See dat.conf(5).\n",
                    path);
    for (const suggestion &each : found.lines)
        std::printf("%s\n", each.line.c_str());
    for (const std::string &each : found.left_out)
        std::printf("# %s\n", each.c_str());
}

void print_suggestions_json(const suggestions &found, const registry_file &file)
{
    using program::json;
    json lines = json::array();
    for (const suggestion &each : found.lines)
        lines.push_back({{"line", each.line}, {"device", each.device}, {"like", each.like}});
    program::write_json(
        "-", {{"registry", file.path}, {"suggestions", lines}, {"left_out", found.left_out}});
}

} // namespace dat_info
