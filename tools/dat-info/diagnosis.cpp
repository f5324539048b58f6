// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "diagnosis.hpp"

#include "devices.hpp"
#include "osd_system.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <sstream>

namespace dat_info {
namespace {

/// "a, b", or "none".
std::string joined(const std::set<std::string> &words)
{
    std::string text;
    for (const std::string &each : words)
        text += (text.empty() ? "" : ", ") + each;
    return text.empty() ? "none" : text;
}

bool contains(const std::string &text, const char *part)
{
    return text.find(part) != std::string::npos;
}

std::string seconds_text(double seconds)
{
    std::ostringstream text;
    text << seconds << (seconds == 1 ? " second" : " seconds");
    return text.str();
}

// ----------------------------------------------------------------------------------------- devices

/// The words of the parameters that may name a device; none if a line is without.
std::set<std::string> words_of(const adapter &found)
{
    std::set<std::string> all;
    for (const line *each : found.lines) {
        std::istringstream words(each->parameters);
        bool any = false;
        for (std::string word; words >> word; any = true)
            all.insert(word.substr(0, word.find(':')));
        if (!any)
            return {};
    }
    return all;
}

bool have_one_in_common(const std::set<std::string> &one, const std::set<std::string> &other)
{
    return std::ranges::any_of(one,
                               [&](const std::string &each) { return other.count(each) != 0; });
}

bool is_on_rdma_device(const adapter &which)
{
    return have_one_in_common(words_of(which), rdma_device_names());
}

/// The device is there, and no program of this user gets to it.
bool explain_nodes(adapter &found)
{
    const obstacle in_the_way = obstacle_to_rdma();
    if (in_the_way.what.empty())
        return false;
    found.reason += "; " + in_the_way.what;
    found.advice = in_the_way.advice;
    return true;
}

/// The parameters of most adapters contain the name of a device or network interface. If none of
/// the words is one of this machine, the device is missing.
bool explain_device(adapter &found)
{
    const std::set<std::string> devices = rdma_device_names();
    const std::set<std::string> interfaces = interface_names();
    const std::set<std::string> words = words_of(found);
    if (have_one_in_common(words, devices))
        return explain_nodes(found);
    if (words.empty() || have_one_in_common(words, interfaces))
        return false;
    found.reason += "; its parameters do not name a device of this machine";
    found.advice = "bring the device up (RDMA devices: " + joined(devices) +
                   "; network interfaces: " + joined(interfaces) +
                   "), or correct the seventh field of the line; `dat-info --suggest` writes lines "
                   "for the devices that are there";
    if (rdma_is_by_namespace())
        found.advice += "; RDMA devices of other network namespaces are not seen here "
                        "(`rdma system show`)";
    return true;
}

// --------------------------------------------------------------------------------------- libraries

/// The loader reports a missing file as "NAME: cannot open shared object file: ..."
bool is_missing(const std::string &message)
{
    return contains(message, "cannot open shared object file");
}

std::string missing_name(const std::string &message)
{
    return message.substr(0, message.find(':'));
}

void explain_library(adapter &found, const line &at, const std::string &message)
{
    found.reason = "cannot load its library: " + message;
    std::erase_if(found.output, // remove the duplicate
                  [&](const std::string &said) { return contains(said, message.c_str()); });
    if (is_missing(message) && missing_name(message) != at.library) {
        found.advice = "install " + missing_name(message) + ", which " + at.library +
                       " depends on; `ldd " + at.library + "` lists all missing dependencies";
    } else if (is_missing(message) && contains(at.library, "/")) {
        found.advice = "install the library there, or correct the fifth field of the line";
    } else if (is_missing(message)) {
        found.advice =
            "install the package of that library, or make it visible to the dynamic loader "
            "(ldconfig, LD_LIBRARY_PATH), or write its full path in the fifth field of the line";
    } else if (contains(message, "undefined symbol")) {
        found.advice =
            "the library was built against other versions of its dependencies: reinstall it; "
            "`ldd -r " +
            at.library + "` lists the missing symbols";
    } else if (contains(message, "has no symbol dat_provider_")) {
        found.advice = "the library is not a DAT 2.0 provider: correct the fifth field of the line";
    } else {
        found.advice =
            osd::library_advice() + std::string("; or correct the fifth field of the line");
    }
}

bool explain_loading(adapter &found, const std::vector<record> &told)
{
    for (const record &each : told) {
        if (each[0] != "loading" || each[2].empty())
            continue;
        for (const line *at : found.lines)
            if (std::to_string(at->number) == each[1]) {
                explain_library(found, *at, each[2]);
                return true;
            }
    }
    return false;
}

// ---------------------------------------------------------------------------------------- verdicts

void explain_refusal(adapter &found, const std::vector<record> &told)
{
    found.is = state::refused;
    if (found.code_why == "not found" && explain_loading(found, told))
        return;
    found.reason = found.step + " returns " + found.code;
    if (found.code_why == "not found")
        found.reason += ": its library loads but does not register this adapter";
    if (explain_device(found))
        return;
    if (found.output.empty())
        found.advice = "`dat-info --verbose " + found.name +
                       "` shows the provider's debug messages; is the device present and up?";
    else
        found.advice = "see the provider's messages; is the device present and up?";
}

void explain_death(adapter &found, const child_end &end, double seconds)
{
    const std::string during = found.step.empty() ? "start-up" : found.step;
    if (end.late) {
        found.is = state::hangs;
        found.reason = "hangs in " + during + " for more than " + seconds_text(seconds);
        found.advice =
            "increase --timeout; if it never returns, the device or the provider is faulty";
    } else if (end.how.signal != 0) {
        found.is = state::crashed;
        found.reason = end.how.name + " in " + during;
        found.advice = "bug in the provider: report it to the vendor";
    } else {
        found.is = state::ended;
        found.reason = "the provider calls exit with status " +
                       std::to_string(end.how.exit_status) + " in " + during;
        found.advice =
            "bug in the provider, which must not exit its host process: report it to the "
            "vendor";
    }
    if (found.output.empty())
        found.advice += "; --verbose shows the provider's debug messages";
}

/// Returns true if the child ran to its end.
bool take(adapter &found, const std::vector<record> &told)
{
    bool done = false;
    for (const record &each : told) {
        if (each[0] == "step") {
            found.step = each[1];
        } else if (each[0] == "refused") {
            found.code = each[2];
            found.code_why = each[3];
        } else if (each[0] == "attribute") {
            found.attributes.push_back({each[1], each[2], each[3], each[4]});
        } else if (each[0] == "remark") {
            found.remark = each[1];
        } else if (each[0] == "done") {
            done = true;
        }
    }
    return done;
}

/// The first call that failed.
std::string refused_call(const std::vector<record> &told)
{
    for (const record &each : told)
        if (each[0] == "refused")
            return each[1];
    return "";
}

} // namespace

void judge(adapter &found, child_end end, const std::vector<std::string> &common_output,
           double seconds)
{
    for (std::string &each : end.output)
        if (std::find(common_output.begin(), common_output.end(), each) == common_output.end())
            found.output.push_back(std::move(each));
    if (!take(found, end.told)) {
        explain_death(found, end, seconds);
    } else if (!found.code.empty()) {
        found.step = refused_call(end.told);
        explain_refusal(found, end.told);
    } else if (end.how.signal != 0) { // the signal came after its report: in a thread or destructor
                                      // of the provider
        explain_death(found, end, seconds);
    } else {
        found.is = state::opens;
    }
}

// -------------------------------------------------------------------------------- unknown adapters

namespace {

std::string offer_of(const line &each)
{
    return std::string(each.for_the_kernel ? "k" : "u") + std::to_string(each.api_major) + "." +
           std::to_string(each.api_minor) + " " + safety_of(each.thread_safe) + " " +
           (each.is_default ? "default" : "nondefault");
}

} // namespace

void remark_on_safety(std::vector<adapter> &all)
{
    for (adapter &one : all) {
        const bool has_other = std::ranges::any_of(all, [&](const adapter &other) {
            return other.name == one.name && other.api_major == one.api_major && !other.thread_safe;
        });
        if (one.is == state::opens && one.thread_safe && !has_other)
            one.remark = "only programs that ask for a thread-safe adapter find it, as dat.conf "
                         "has no nonthreadsafe line of this name" +
                         (one.remark.empty() ? "" : "; " + one.remark);
    }
}

void remark_on_memory(std::vector<adapter> &all)
{
    const std::optional<std::uint64_t> most = lockable_memory();
    for (adapter &one : all) {
        if (one.is != state::opens || !most.has_value() || !is_on_rdma_device(one))
            continue;
        one.remark +=
            (one.remark.empty() ? "" : "; ") + std::to_string(*most / 1024) +
            " KiB of memory may be locked (ulimit -l), and nobody but root registers more";
    }
}

std::vector<std::string> explain_unknown(const std::string &name, const registry_file &file,
                                         const std::vector<adapter> &known)
{
    std::vector<std::string> text = {"no adapter " + name};
    for (const problem &each : file.problems)
        if (each.first_word == name)
            text.push_back(file.where(each.number) +
                           " defines it, but is malformed and ignored: " + each.reason);
    for (const line &each : file.lines)
        if (each.name == name)
            text.push_back(file.where(each.number) +
                           " defines it, but not for DAT 2.0 programs: " + offer_of(each));
    if (text.size() > 1)
        return text;
    std::set<std::string> names;
    for (const adapter &each : known)
        names.insert(each.name);
    text.push_back((file.path.empty() ? "no dat.conf was read" : file.path + " has") +
                   (file.path.empty() ? "" : ": " + joined(names)));
    return text;
}

std::vector<std::string> explain_empty(const registry_file &file, bool is_ours)
{
    const char *another = is_ours ? "; set DAT_OVERRIDE to another file" : "";
    if (!file.error.empty())
        return {file.path + ", named by " + file.chosen_by + ", cannot be read: " + file.error,
                "correct or unset " + file.chosen_by +
                    ": while it is set, no other dat.conf is searched for"};
    if (file.path.empty()) {
        std::vector<std::string> text = {"no dat.conf was found, so there are no adapters"};
        text.push_back(is_ours ? "neither DAT_OVERRIDE nor DAT_CONF is set"
                               : "DAT_OVERRIDE is not set");
        text.insert(text.end(), file.looked_at.begin(), file.looked_at.end());
        text.push_back("install one, or set DAT_OVERRIDE to its path; see dat.conf(5)");
        return text;
    }
    if (file.lines.empty())
        return {file.path + " defines no adapters" + another,
                "see dat.conf(5) for the format of a line"};
    return {file.path +
                " defines no adapters for DAT 2.0 programs, or this libdat2 does not read it",
            "its first line defines " + offer_of(file.lines.front())};
}

} // namespace dat_info
