// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "registry.hpp"

#include "debug.hpp"
#include "immortal.hpp"
#include "osd_thread.hpp"
#include "status.hpp"

#include <cstdlib>
#include <cstring>

namespace dat {
namespace {

constinit immortal<registry> instance;

[[gnu::destructor]] void leave()
{
    instance.value.tear_down();
}

} // namespace

registry &the_registry()
{
    return instance.value;
}

// --- Registering ---------------------------------------------------------------------------------

registration **registry::find(const DAT_PROVIDER_INFO &key)
{
    registration **at = &registrations_;
    while (*at != nullptr && !same_key((*at)->key, key))
        at = &(*at)->next;
    return at;
}

registration *registry::lookup(const DAT_PROVIDER_INFO &key)
{
    osd::lock_guard guard(data_);
    return *find(key);
}

DAT_RETURN registry::add(const DAT_PROVIDER &vector, const DAT_PROVIDER_INFO &key)
{
    if (torn_down())
        return error(DAT_INVALID_STATE);
    osd::lock_guard guard(data_);
    registration **end = find(key);
    if (*end != nullptr) {
        log(topic::error, "adapter '%s' is registered already; the second provider is turned away",
            key.ia_name);
        return error(DAT_PROVIDER_ALREADY_REGISTERED);
    }
    auto *added = static_cast<registration *>(std::calloc(1, sizeof(registration)));
    if (added == nullptr)
        return error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    added->vector = &vector;
    added->key = key;
    added->open = vector.ia_open_func;
    added->extensions = vector.handle_extendedop_func;
    added->owner = loading_.thread == osd::thread_id() ? loading_.entry : nullptr;
    *end = added;
    log(topic::providers, "adapter '%s' registered%s", key.ia_name,
        added->owner != nullptr ? "" : " by the program itself");
    return DAT_SUCCESS;
}

/// Removes a registration. The vector may be a copy of the registered vector, but not another
/// library's: a library whose registration was refused must not remove its rival's when it is
/// unloaded.
DAT_RETURN registry::remove(const DAT_PROVIDER &vector, const DAT_PROVIDER_INFO &key)
{
    osd::lock_guard guard(data_);
    registration **at = find(key);
    registration *found = *at;
    if (found == nullptr || (found->vector != &vector && found->open != vector.ia_open_func))
        return error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
    if (found->open_count != 0)
        return error(DAT_PROVIDER_IN_USE);
    *at = found->next;
    std::free(found);
    log(topic::providers, "adapter '%s' unregistered", key.ia_name);
    return DAT_SUCCESS;
}

// --- Finding -------------------------------------------------------------------------------------

/// What cannot be read now, for want of descriptors or memory, may be there the next time.
void registry::read_config()
{
    if (DAT_STATIC_REGISTRY && !config_read_)
        config_read_ = load(config_);
}

config_entry *registry::next_usable(config_entry *from, const DAT_PROVIDER_INFO &key)
{
    while (from != nullptr && (from->use != verdict::usable || !same_key(from->key, key)))
        from = from->next;
    return from;
}

config_entry *registry::first_candidate(const DAT_PROVIDER_INFO &key)
{
    osd::lock_guard guard(data_);
    read_config();
    return next_usable(config_.first, key);
}

config_entry *registry::candidate_after(const config_entry &entry)
{
    osd::lock_guard guard(data_);
    return next_usable(entry.next, entry.key);
}

/// Finds a registration, or loads the library of a line. An existing registration is used as it is:
/// the program's own provider takes precedence over dat.conf, and of several lines the loaded line
/// stays in use.
registration *registry::find_or_load(const DAT_PROVIDER_INFO &key)
{
    if (registration *found = lookup(key))
        return found;
    config_entry *entry = first_candidate(key);
    if (entry == nullptr)
        explain_not_found(key);
    for (; entry != nullptr; entry = candidate_after(*entry)) {
        if (load_library(*entry))
            return lookup(key);
    }
    return nullptr;
}

bool registry::hold(registration &found)
{
    if (found.owner != nullptr && found.owner->loaded_stage != config_entry::stage::loaded)
        return refuse(*found.owner, "it opens its own adapter while it starts or stops",
                      "this is an error in the provider");
    osd::lock_guard guard(data_);
    ++found.open_count;
    if (found.owner != nullptr)
        ++found.owner->references;
    return true;
}

DAT_RETURN registry::acquire(const DAT_PROVIDER_INFO &key, binding &bound)
{
    if (torn_down())
        return error(DAT_INVALID_STATE);
    transition_guard guard(transition_);
    bound.provider = find_or_load(key);
    if (bound.provider == nullptr || !hold(*bound.provider))
        return error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
    return DAT_SUCCESS;
}

void registry::release(const binding &bound)
{
    transition_guard guard(transition_);
    config_entry *owner = bound.provider->owner;
    {
        osd::lock_guard data(data_);
        --bound.provider->open_count;
        if (owner == nullptr || --owner->references != 0)
            return;
    }
    stop_provider(*owner);
}

// --- Listing -------------------------------------------------------------------------------------

DAT_RETURN registry::list(DAT_COUNT max, DAT_COUNT &count, DAT_PROVIDER_INFO **list)
{
    if (torn_down())
        return error(DAT_INVALID_STATE);
    osd::lock_guard guard(data_);
    read_config();
    DAT_COUNT total = 0;
    each_mapping([&](const DAT_PROVIDER_INFO &) { return ++total > 0; });
    if (max <= 0) {
        count = total; // tells the caller how much room to make
        return error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
    }
    const DAT_COUNT stored = max < total ? max : total;
    for (DAT_COUNT i = 0; i < stored; ++i) {
        if (list[i] == nullptr)
            return error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
    }
    count = 0;
    each_mapping([&](const DAT_PROVIDER_INFO &key) {
        if (count < stored)
            *list[count++] = key;
        return count < stored;
    });
    return DAT_SUCCESS;
}

bool registry::knows(const char *name)
{
    osd::lock_guard guard(data_);
    read_config();
    bool known = false;
    each_mapping([&](const DAT_PROVIDER_INFO &key) {
        known = std::strcmp(key.ia_name, name) == 0;
        return !known;
    });
    return known;
}

// --- The end -------------------------------------------------------------------------------------

void registry::tear_down()
{
    torn_down_.store(true, std::memory_order_relaxed);
    if (!transition_.try_lock())
        return;
    if (data_.try_lock()) {
        bool loaded = false;
        for (config_entry *entry = config_.first; entry != nullptr; entry = entry->next)
            loaded = loaded || entry->loaded_stage != config_entry::stage::unloaded;
        if (!loaded)
            unload(config_);
        data_.unlock();
    }
    transition_.unlock();
}

} // namespace dat

// --- Entry points --------------------------------------------------------------------------------

namespace {

/// What providers hand over may lack its final null.
bool is_terminated(const DAT_PROVIDER_INFO &info)
{
    return strnlen(info.ia_name, sizeof info.ia_name) < sizeof info.ia_name;
}

} // namespace

extern "C" {

OSD_EXPORT DAT_RETURN DAT_API dat_registry_add_provider(const DAT_PROVIDER *provider,
                                                        const DAT_PROVIDER_INFO *info)
{
    if (provider == nullptr)
        return dat::error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
    if (info == nullptr || !is_terminated(*info))
        return dat::error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
    return dat::the_registry().add(*provider, *info);
}

OSD_EXPORT DAT_RETURN DAT_API dat_registry_remove_provider(const DAT_PROVIDER *provider,
                                                           const DAT_PROVIDER_INFO *info)
{
    if (provider == nullptr)
        return dat::error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
    if (info == nullptr || !is_terminated(*info))
        return dat::error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
    return dat::the_registry().remove(*provider, *info);
}

OSD_EXPORT DAT_RETURN DAT_API dat_registry_list_providers(DAT_COUNT max_to_return,
                                                          DAT_COUNT *entries_returned,
                                                          DAT_PROVIDER_INFO *(provider_list[]))
{
    if (entries_returned == nullptr)
        return dat::error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
    if (max_to_return > 0 && provider_list == nullptr)
        return dat::error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
    return dat::the_registry().list(max_to_return, *entries_returned, provider_list);
}

} // extern "C"
