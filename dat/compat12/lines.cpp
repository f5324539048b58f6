// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lines.hpp"

#include "debug.hpp"
#include "immortal.hpp"
#include "key.hpp"
#include "status.hpp"

#include <algorithm>
#include <cstring>

namespace dat12 {
namespace {

using dat::same_key;
using dat::same_name;
using dat::same_safety;

constinit dat::immortal<lines> instance;

const char *file_name(const char *path)
{
    const char *slash = std::strrchr(path, '/');
    return slash != nullptr ? slash + 1 : path;
}

/// Whether the line names this library: libdat.so, libdat.so.1 or libdat.so.1.*, in any folder.
bool names_us(const dat::config_entry &line)
{
    const char *name = file_name(line.library_path);
    constexpr char ours[] = "libdat.so.1";
    constexpr std::size_t length = sizeof ours - 1;
    return std::strcmp(name, "libdat.so") == 0 ||
           (std::strncmp(name, ours, length) == 0 && (name[length] == '\0' || name[length] == '.'));
}

bool is_served(const dat::config_entry &line)
{
    return line.use == dat::verdict::usable && line.key.dapl_version_major == 1 &&
           line.key.dapl_version_minor == 2 && names_us(line);
}

} // namespace

lines &the_lines()
{
    return instance.value;
}

const char *two_name(const dat::config_entry &line)
{
    return *line.ia_params != '\0' ? line.ia_params : line.key.ia_name;
}

void lines::read()
{
    if (!is_read_)
        is_read_ = dat::load(config_);
}

const dat::config_entry *lines::next(const dat::config_entry *from, const DAT_PROVIDER_INFO &key)
{
    while (from != nullptr && (!is_served(*from) || !same_key(from->key, key)))
        from = from->next;
    return from;
}

const dat::config_entry *lines::find(const DAT_PROVIDER_INFO &key,
                                     const dat::config_entry *previous)
{
    osd::lock_guard guard(lock_);
    read();
    return next(previous != nullptr ? previous->next : config_.first, key);
}

/// How near a line comes to the request: name, then major, then minor version, then thread safety.
/// If a line names the library of a DAT 1.2 provider, all four are right.
struct nearness {
    const dat::config_entry *line = nullptr;
    int steps = 0;

    void look_at(const dat::config_entry &at, const DAT_PROVIDER_INFO &key)
    {
        if (at.use != dat::verdict::usable || !same_name(at.key, key))
            return;
        const bool major = at.key.dapl_version_major == key.dapl_version_major;
        const bool minor = major && at.key.dapl_version_minor == key.dapl_version_minor;
        const bool safety = minor && same_safety(at.key, key);
        const int here = 1 + major + minor + safety;
        if (here > steps) {
            line = &at;
            steps = here;
        }
    }
};

DAT_RETURN lines::explain(const DAT_PROVIDER_INFO &key)
{
    osd::lock_guard guard(lock_);
    nearness best;
    for (const dat::config_entry *at = config_.first; at != nullptr; at = at->next)
        best.look_at(*at, key);
    const char *path = config_.path[0] != '\0' ? config_.path : "no dat.conf read";
    const char *safety = key.is_thread_safe != DAT_FALSE ? "threadsafe" : "nonthreadsafe";
    if (best.line == nullptr) {
        dat::log(dat::topic::error, "adapter '%s' is unknown to DAT 1.2 (%s)", key.ia_name, path);
        return fail(v1::DAT_PROVIDER_NOT_FOUND, v1::DAT_NAME_NOT_REGISTERED);
    }
    if (best.steps == 4 && key.dapl_version_major != 1) {
        dat::log(dat::topic::error,
                 "%s:%u: adapter '%s' is one of u%u.%u, which libdat.so.1 does not open: ask it "
                 "for u1.2, or link the program with libdat2",
                 path, best.line->line, key.ia_name, key.dapl_version_major,
                 key.dapl_version_minor);
        return fail(v1::DAT_PROVIDER_NOT_FOUND, v1::DAT_MAJOR_NOT_FOUND);
    }
    if (best.steps == 4) {
        dat::log(dat::topic::error,
                 "%s:%u: adapter '%s' belongs to %s, which is no longer loaded: write libdat.so.1 "
                 "in its place, and the name of a u2.0 adapter as the ia_params",
                 path, best.line->line, key.ia_name, best.line->library_path);
        return fail(v1::DAT_PROVIDER_NOT_FOUND, v1::DAT_NAME_NOT_REGISTERED);
    }
    dat::log(dat::topic::error,
             "adapter '%s' is not there for this program: none of its lines in %s is 'u%u.%u %s "
             "default', the nearest is line %u",
             key.ia_name, path, key.dapl_version_major, key.dapl_version_minor, safety,
             best.line->line);
    constexpr v1::DAT_RETURN_SUBTYPE missing[] = {v1::DAT_NAME_NOT_REGISTERED,
                                                  v1::DAT_MAJOR_NOT_FOUND, v1::DAT_MINOR_NOT_FOUND,
                                                  v1::DAT_THREAD_SAFETY_NOT_FOUND};
    return fail(v1::DAT_PROVIDER_NOT_FOUND, missing[best.steps]);
}

/// Visits each key once.
template <typename Visit>
void lines::each_adapter(Visit visit)
{
    for (const dat::config_entry *at = config_.first; at != nullptr; at = at->next) {
        if (is_served(*at) && at == next(config_.first, at->key))
            visit(at->key);
    }
}

DAT_RETURN lines::list(DAT_COUNT max, DAT_COUNT &count, DAT_PROVIDER_INFO **list)
{
    osd::lock_guard guard(lock_);
    read();
    DAT_COUNT total = 0;
    each_adapter([&](const DAT_PROVIDER_INFO &) { ++total; });
    if (max <= 0) {
        count = total; // tells the caller how much room to make
        return fail(v1::DAT_INVALID_PARAMETER, v1::DAT_INVALID_ARG1);
    }
    const DAT_COUNT stored = std::min(max, total);
    if (std::find(list, list + stored, nullptr) != list + stored)
        return fail(v1::DAT_INVALID_PARAMETER, v1::DAT_INVALID_ARG3);
    count = 0;
    each_adapter([&](const DAT_PROVIDER_INFO &key) {
        if (count < stored)
            *list[count++] = key;
    });
    return DAT_SUCCESS;
}

} // namespace dat12
