// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Maps adapters to libraries: the lines of dat.conf (the static registry) and the providers that
// have registered (the dynamic registry). docs/man/dat.conf.5.md has the rules for users.
#pragma once

#include "config.hpp"
#include "key.hpp"
#include "osd_annotations.hpp"
#include "osd_sync.hpp"
#include "transition_lock.hpp"

#include <atomic>
#include <dat2/dat_registry.h>
#include <dat2/udat.h>

namespace dat {

/// What a provider said about one adapter name when it registered.
struct registration {
    registration *next;
    const DAT_PROVIDER *vector;
    DAT_PROVIDER_INFO key;
    DAT_IA_OPEN_FUNC open;
    DAT_HANDLE_EXTENDEDOP_FUNC extensions;
    config_entry *owner; ///< the line whose library did it; null for one the program brought along
    unsigned open_count;
};

/// What keeps the provider of an open adapter registered and in memory.
struct binding {
    registration *provider;

    const DAT_PROVIDER_INFO &key() const { return provider->key; }
};

class registry {
public:
    /// Registers a provider. Providers call it also from static constructors that run before this
    /// library's.
    DAT_RETURN add(const DAT_PROVIDER &vector, const DAT_PROVIDER_INFO &key) OSD_EXCLUDES(data_);
    DAT_RETURN remove(const DAT_PROVIDER &vector, const DAT_PROVIDER_INFO &key) OSD_EXCLUDES(data_);

    /// Finds the provider of exactly this key, loading libraries in the order of dat.conf until one
    /// registers it, and keeps it there until release().
    [[nodiscard]] DAT_RETURN acquire(const DAT_PROVIDER_INFO &key, binding &bound)
        OSD_EXCLUDES(transition_, data_);
    void release(const binding &bound) OSD_EXCLUDES(transition_, data_);

    DAT_RETURN list(DAT_COUNT max, DAT_COUNT &count, DAT_PROVIDER_INFO **list) OSD_EXCLUDES(data_);
    /// Whether any line or registration has this name, under whatever version.
    bool knows(const char *name) OSD_EXCLUDES(data_);

    /// The process exits or unloads the library. Open adapters are left alone: their providers'
    /// threads may be running, and the process takes everything with it.
    void tear_down() OSD_EXCLUDES(transition_, data_);
    bool torn_down() const { return torn_down_.load(std::memory_order_relaxed); }

private:
    /// The line whose library is being started, and by which thread.
    struct loading {
        config_entry *entry;
        long thread;
    };

    void read_config() OSD_REQUIRES(data_);
    registration **find(const DAT_PROVIDER_INFO &key) OSD_REQUIRES(data_);
    registration *lookup(const DAT_PROVIDER_INFO &key) OSD_EXCLUDES(data_);
    registration *find_or_load(const DAT_PROVIDER_INFO &key) OSD_REQUIRES(transition_)
        OSD_EXCLUDES(data_);
    bool hold(registration &found) OSD_REQUIRES(transition_) OSD_EXCLUDES(data_);
    template <typename Visit>
    void each_mapping(Visit visit) OSD_REQUIRES(data_);

    config_entry *next_usable(config_entry *from, const DAT_PROVIDER_INFO &key) OSD_REQUIRES(data_);
    config_entry *first_candidate(const DAT_PROVIDER_INFO &key) OSD_EXCLUDES(data_);
    config_entry *candidate_after(const config_entry &entry) OSD_EXCLUDES(data_);

    loading mark_loading(loading now) OSD_EXCLUDES(data_);
    bool load_library(config_entry &entry) OSD_REQUIRES(transition_) OSD_EXCLUDES(data_);
    bool start_provider(config_entry &entry) OSD_REQUIRES(transition_) OSD_EXCLUDES(data_);
    void stop_provider(config_entry &entry) OSD_REQUIRES(transition_) OSD_EXCLUDES(data_);
    void close_library(config_entry &entry) OSD_REQUIRES(transition_) OSD_EXCLUDES(data_);
    void drop_leftovers(const config_entry &entry) OSD_EXCLUDES(data_);
    bool refuse(const config_entry &entry, const char *reason, const char *advice)
        OSD_EXCLUDES(data_);

    void explain_not_found(const DAT_PROVIDER_INFO &key) OSD_EXCLUDES(data_);
    bool explain_near_miss(const DAT_PROVIDER_INFO &key) OSD_REQUIRES(data_);
    void explain_unknown(const DAT_PROVIDER_INFO &key) OSD_REQUIRES(data_);

    // Never held across a call of the loader or of a provider, and taken after transition_.
    osd::mutex data_;
    config config_ OSD_GUARDED_BY(data_);
    bool config_read_ OSD_GUARDED_BY(data_) = false;
    registration *registrations_ OSD_GUARDED_BY(data_) = nullptr;
    loading loading_ OSD_GUARDED_BY(data_) = {};
    std::atomic<bool> torn_down_{false};

    transition_lock transition_;
};

/// Visits each key once: the lines of dat.conf in their order, then what only is registered. Stops
/// when `visit` returns false.
template <typename Visit>
void registry::each_mapping(Visit visit)
{
    for (config_entry *entry = config_.first; entry != nullptr; entry = entry->next) {
        if (entry == next_usable(config_.first, entry->key) && !visit(entry->key))
            return;
    }
    for (registration *at = registrations_; at != nullptr; at = at->next) {
        if (next_usable(config_.first, at->key) == nullptr && !visit(at->key))
            return;
    }
}

registry &the_registry();

} // namespace dat
