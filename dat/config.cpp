// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "config.hpp"

#include "debug.hpp"
#include "osd_system.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>

namespace dat {
namespace {

constexpr std::size_t largest_file = 16u << 20;
/// A file that is no dat.conf at all must not fill the consumer's terminal.
constexpr unsigned most_reports = 50;

/// Reads the file into `loaded`. errno says why not.
bool read(config &loaded, const char *path, std::size_t &size)
{
    loaded.text = osd::read_file(path, largest_file, &size);
    if (loaded.text == nullptr)
        return false;
    std::snprintf(loaded.path, sizeof loaded.path, "%s", path);
    log(topic::config, "reading %s", path);
    return true;
}

void report_unreadable(const char *path, const char *chosen_by, const char *advice)
{
    const char *const why =
        errno == EPERM && osd::is_privileged()
            ? "others can write it, and the program has more rights than its user"
            : std::strerror(errno);
    log(topic::error, "%s, %s: cannot read it: %s; %s", path, chosen_by, why, advice);
}

/// A file named through the environment is that one or none: falling back would open adapters the
/// user did not mean.
bool read_chosen(config &loaded, const char *path, const char *variable, std::size_t &size)
{
    if (read(loaded, path, size))
        return true;
    char chosen_by[64];
    std::snprintf(chosen_by, sizeof chosen_by, "named by %s", variable);
    report_unreadable(path, chosen_by, "no other dat.conf is tried, no adapter is known");
    return false;
}

bool read_installed(config &loaded, const char *path, std::size_t &size)
{
    if (read(loaded, path, size))
        return true;
    if (errno != ENOENT)
        report_unreadable(path, "the installed one", "it is passed over");
    return false;
}

struct freed {
    void operator()(char *text) const { std::free(text); }
};

bool read_first(config &loaded, std::size_t &size)
{
    for (const char *variable : {"DAT_OVERRIDE", "DAT_CONF"}) {
        const std::unique_ptr<char, freed> path(osd::environment(variable));
        if (path != nullptr && *path != '\0')
            return read_chosen(loaded, path.get(), variable, size);
    }
    char path[sizeof loaded.path];
    for (unsigned choice = 0; osd::config_path(choice, "dat.conf", path, sizeof path); ++choice) {
        if (read_installed(loaded, path, size))
            return true;
    }
    return false;
}

verdict judge(const config_line &line)
{
    if (line.kernel)
        return verdict::for_the_kernel;
    return line.is_default ? verdict::usable : verdict::not_default;
}

config_entry *make_entry(const config_line &line)
{
    auto *entry = static_cast<config_entry *>(std::calloc(1, sizeof(config_entry)));
    if (entry == nullptr)
        return nullptr;
    std::strcpy(entry->key.ia_name, line.name); // the reader has checked the length
    entry->key.dapl_version_major = line.api_major;
    entry->key.dapl_version_minor = line.api_minor;
    entry->key.is_thread_safe = line.is_thread_safe ? DAT_TRUE : DAT_FALSE;
    entry->library_path = line.library;
    entry->ia_params = line.ia_params;
    entry->line = line.number;
    entry->use = judge(line);
    return entry;
}

void log_entry(const config &loaded, const config_entry &entry)
{
    static constexpr const char *fate[] = {"kept", "ignored, because it is for the kernel",
                                           "ignored, because it says nondefault"};
    log(topic::config, "%s:%u: adapter '%s', library %s: %s", loaded.path, entry.line,
        entry.key.ia_name, entry.library_path, fate[static_cast<int>(entry.use)]);
}

void report(const config &loaded, const config_problem &problem, unsigned count)
{
    if (count <= most_reports)
        log(topic::error, "%s:%u: %s; the line is ignored", loaded.path, problem.number,
            problem.reason);
}

void read_lines(config &loaded, std::size_t size)
{
    config_reader reader(loaded.text, size);
    config_line line;
    config_problem problem;
    config_entry **last = &loaded.first;
    unsigned problems = 0;
    for (;;) {
        const config_reader::result result = reader.next(line, problem);
        if (result == config_reader::result::end)
            break;
        if (result == config_reader::result::problem) {
            report(loaded, problem, ++problems);
        } else if (config_entry *entry = make_entry(line)) {
            *last = entry;
            last = &entry->next;
            log_entry(loaded, *entry);
        }
    }
    if (problems > most_reports)
        log(topic::error, "%s: %u more malformed lines are ignored; is this a dat.conf?",
            loaded.path, problems - most_reports);
}

} // namespace

bool load(config &loaded)
{
    std::size_t size = 0;
    if (!read_first(loaded, size))
        return false;
    read_lines(loaded, size);
    return true;
}

void unload(config &loaded)
{
    while (config_entry *entry = loaded.first) {
        loaded.first = entry->next;
        std::free(entry);
    }
    std::free(loaded.text);
    loaded.text = nullptr;
}

} // namespace dat
