// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Why there is no such adapter, in the words the user of a program needs.
#include "debug.hpp"
#include "registry.hpp"

#include <cstdio>
#include <cstring>

namespace dat {
namespace {

const char *safety(DAT_BOOLEAN is_thread_safe)
{
    return is_thread_safe != DAT_FALSE ? "threadsafe" : "nonthreadsafe";
}

/// Names separated by commas, as many as fit.
class name_list {
public:
    void add(const char *name)
    {
        const std::size_t room = sizeof text_ - used_;
        if (full_ || std::strlen(name) + sizeof ", ..." > room) {
            full_ = true;
            return;
        }
        used_ += static_cast<std::size_t>(
            std::snprintf(text_ + used_, room, "%s%s", used_ != 0 ? ", " : "", name));
    }
    const char *text() const { return used_ != 0 ? text_ : "none"; }
    const char *more() const { return full_ ? ", ..." : ""; }

private:
    char text_[600] = "";
    std::size_t used_ = 0;
    bool full_ = false;
};

} // namespace

void registry::explain_not_found(const DAT_PROVIDER_INFO &key)
{
    osd::lock_guard guard(data_);
    if (!explain_near_miss(key))
        explain_unknown(key);
}

/// A line with the right name that is not for this program.
bool registry::explain_near_miss(const DAT_PROVIDER_INFO &key)
{
    for (const config_entry *entry = config_.first; entry != nullptr; entry = entry->next) {
        const DAT_PROVIDER_INFO &have = entry->key;
        if (std::strcmp(have.ia_name, key.ia_name) != 0)
            continue;
        log(topic::error,
            "adapter '%s' is not there for this program: %s:%u offers %c%u.%u %s %s, asked for "
            "is u%u.%u %s default",
            key.ia_name, config_.path, entry->line,
            entry->use == verdict::for_the_kernel ? 'k' : 'u', have.dapl_version_major,
            have.dapl_version_minor, safety(have.is_thread_safe),
            entry->use == verdict::not_default ? "nondefault" : "default", key.dapl_version_major,
            key.dapl_version_minor, safety(key.is_thread_safe));
        return true;
    }
    return false;
}

void registry::explain_unknown(const DAT_PROVIDER_INFO &key)
{
    name_list known;
    const char *last = "";
    each_mapping([&](const DAT_PROVIDER_INFO &mapping) {
        if (std::strcmp(mapping.ia_name, last) != 0) // an adapter has two lines
            known.add(mapping.ia_name);
        last = mapping.ia_name;
        return true;
    });
    log(topic::error, "adapter '%s' is unknown (%s); known adapters: %s%s", key.ia_name,
        config_.path[0] != '\0' ? config_.path : "no dat.conf read", known.text(), known.more());
}

} // namespace dat
