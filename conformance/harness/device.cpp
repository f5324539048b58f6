// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/device.hpp"

#include "harness/runner.hpp"
#include "harness/support.hpp"
#include "program/system.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

namespace conformance {
namespace {

using nlohmann::json;

std::string safety(bool is_thread_safe)
{
    return is_thread_safe ? "threadsafe" : "nonthreadsafe";
}

// ------------------------------------------------------------------------------------------ errors

std::vector<DAT_PROVIDER_INFO> registered()
{
    std::vector<DAT_PROVIDER_INFO> entries;
    (void)list_registry(entries);
    return entries;
}

/// The search order of the registry, except for the system folder, which differs by registry.
std::string registry_file()
{
    for (const char *variable : {"DAT_OVERRIDE", "DAT_CONF"})
        if (const char *path = std::getenv(variable); path != nullptr && *path != '\0')
            return path;
    for (const char *path : {"/etc/dat.conf", "/etc/rdma/dat.conf"})
        if (std::ifstream(path).good())
            return path;
    return "/etc/dat.conf";
}

/// The library that the line of this adapter names; the fifth word of the line.
std::string library_of(const settings &wanted)
{
    std::ifstream file(registry_file());
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string name, version, threads, is_default, library;
        words >> name >> version >> threads >> is_default >> library;
        if (name == wanted.ia && threads == safety(wanted.thread_safe))
            return library;
    }
    return "";
}

std::string not_registered(const std::vector<DAT_PROVIDER_INFO> &known, const settings &wanted)
{
    if (known.empty() && !std::ifstream(registry_file()).good())
        return "no adapters are registered: cannot read " + registry_file();
    std::set<std::string> names;
    for (const DAT_PROVIDER_INFO &each : known)
        names.insert(each.ia_name);
    std::string text = "no adapter " + wanted.ia + " is registered (" + registry_file() + "); ";
    if (names.count(wanted.ia) != 0)
        return text + "it is registered as " + safety(!wanted.thread_safe) +
               (wanted.thread_safe ? ": omit --threadsafe" : ": use --threadsafe");
    if (names.empty())
        return text + "no adapters are registered";
    text += "registered adapters: ";
    for (const std::string &name : names)
        text += (name == *names.begin() ? "" : ", ") + name;
    return text;
}

/// Why a registered adapter cannot be opened.
std::string explain(DAT_RETURN code)
{
    const settings &wanted = the_settings();
    const auto known = registered();
    const bool listed = std::any_of(known.begin(), known.end(), [&](const DAT_PROVIDER_INFO &each) {
        return wanted.ia == each.ia_name &&
               (each.is_thread_safe != DAT_FALSE) == wanted.thread_safe;
    });
    if (!listed)
        return not_registered(known, wanted);
    const std::string library = library_of(wanted);
    std::string why;
    if (!library.empty() && program::load_library(library, why) == nullptr)
        return "cannot load library " + library + " of adapter " + wanted.ia + ": " + why;
    return "adapter " + wanted.ia + " is registered" +
           (library.empty() ? "" : " and its library " + library + " loads") +
           ", but dat_ia_open returns " + code_name(code) + ": is the device present and up?";
}

// -------------------------------------------------------------------------------------- attributes

json attributes_of(const DAT_IA_ATTR &ia, const DAT_PROVIDER_ATTR &provider)
{
    json all = json::array();
    const auto text = [&](const char *name, const std::string &value) {
        all.push_back({name, "text", value});
    };
    const auto bounded = [&](const char *name, const char *value, std::size_t room) {
        text(name, std::string(value, ::strnlen(value, room)));
    };
    const auto yes = [&](const char *name, bool value) {
        all.push_back({name, "yes/no", value ? "yes" : "no"});
    };
    const auto number = [&](const char *name, auto value, const char *kind = "number") {
        all.push_back({name, kind, std::to_string(value)});
    };
    bounded("adapter", ia.adapter_name, sizeof ia.adapter_name);
    bounded("vendor", ia.vendor_name, sizeof ia.vendor_name);
    bounded("provider", provider.provider_name, sizeof provider.provider_name);
    text("DAPL version", std::to_string(provider.dapl_version_major) + "." +
                             std::to_string(provider.dapl_version_minor));
    yes("thread-safe", provider.is_thread_safe != DAT_FALSE);
    yes("shared receive queues", provider.srq_supported != DAT_FALSE);
    yes("zero-based addressing", ia.zb_supported != DAT_FALSE);
    yes("extensions", ia.extension_supported != DAT_EXTENSION_NONE);
    number("endpoints", ia.max_eps);
    number("requests per endpoint", ia.max_dto_per_ep);
    number("segments per request", ia.max_iov_segments_per_dto);
    number("EVDs", ia.max_evds);
    number("events per EVD", ia.max_evd_qlen);
    number("regions", ia.max_lmrs);
    number("private data", provider.max_private_data_size, "bytes");
    return all;
}

/// Runs in the child.
void open_and_tell()
{
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_RETURN code = open_adapter(the_settings().ia, &async, &ia);
    if (code != DAT_SUCCESS) {
        tell_json({{"absent", explain(code)}});
        std::_Exit(0);
    }
    DAT_IA_ATTR attr{};
    DAT_PROVIDER_ATTR provider{};
    code = dat_ia_query(ia, nullptr, DAT_IA_FIELD_ALL, &attr, DAT_PROVIDER_FIELD_ALL, &provider);
    if (code == DAT_SUCCESS)
        tell_json({{"attributes", attributes_of(attr, provider)}});
    (void)dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
}

std::size_t over(std::size_t value, std::size_t base)
{
    return value > base ? value - base : 0;
}

/// Resources left by the first opening only, not by the second, are caches and not leaks.
void open_twice(const std::string &)
{
    const belongings before = what_is_held();
    open_and_tell();
    const belongings once = what_is_held();
    open_and_tell();
    const belongings twice = what_is_held();
    const auto kept = [](std::size_t a, std::size_t b, std::size_t c) {
        return over(over(b, a), over(c, b));
    };
    tell_json(
        {{"descriptors",
          kept(before.descriptors.size(), once.descriptors.size(), twice.descriptors.size())},
         {"threads", kept(before.threads.size(), once.threads.size(), twice.threads.size())}});
}
const program::job open_job("open", open_twice);

void take(device &found, const json &what)
{
    if (what.contains("absent")) {
        found.is = device::state::absent;
        found.reason = what["absent"];
    } else if (what.contains("attributes")) {
        for (const json &each : what["attributes"])
            found.attributes.push_back({each[0], each[1], each[2]});
    } else if (what.contains("threads")) {
        found.is = device::state::open;
        found.keeps = {what["descriptors"], what["threads"]};
    }
}

device judge_probe(const child_end &end)
{
    device found;
    found.output = end.output;
    for (const std::string &line : end.lines)
        if (const json what = json::parse(line, nullptr, false); !what.is_discarded())
            take(found, what);
    if (!end.trouble.empty()) {
        found.reason = end.trouble;
    } else if (end.late) {
        std::ostringstream text;
        text << "opening adapter " << the_settings().ia << " did not complete within "
             << end.allowed << " seconds";
        found.is = device::state::absent;
        found.reason = text.str();
    } else if (found.is == device::state::unknown || !end.how.death.empty()) {
        found.is = device::state::broken;
        found.reason = "the process that opens and closes adapter " + the_settings().ia +
                       " exits early: " + (end.how.death.empty() ? "exit status 0" : end.how.death);
    }
    return found;
}

} // namespace

device probe_device(double seconds)
{
    device found;
    child_task task;
    task.work = &open_job;
    task.done = [&](const child_end &end) { found = judge_probe(end); };
    task.seconds = seconds;
    std::vector<child_task> tasks;
    tasks.push_back(std::move(task));
    found.signal = run_children(std::move(tasks), 1, [](unsigned) {});
    return found;
}

} // namespace conformance
