// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The registry's way with the libraries of providers: load, start, stop, unload.
#include "debug.hpp"
#include "osd_system.hpp"
#include "osd_thread.hpp"
#include "registry.hpp"

#include <cstdio>
#include <cstdlib>

namespace dat {
namespace {

using stage = config_entry::stage;

template <typename Function>
Function symbol(void *library, const char *name)
{
    return reinterpret_cast<Function>(osd::library_symbol(library, name));
}

} // namespace

/// Says once per attempt which adapter failed through which library, why, and what to do.
bool registry::refuse(const config_entry &entry, const char *reason, const char *advice)
{
    osd::lock_guard guard(data_);
    log(topic::error, "%s:%u: adapter '%s': library %s cannot be used: %s; %s", config_.path,
        entry.line, entry.key.ia_name, entry.library_path, reason, advice);
    return false;
}

/// Notes that providers which register on this thread from now on belong to `now.entry`. Returns
/// the entry before, for starts nest.
registry::loading registry::mark_loading(loading now)
{
    osd::lock_guard guard(data_);
    const loading before = loading_;
    loading_ = now;
    return before;
}

bool registry::load_library(config_entry &entry)
{
    if (entry.loaded_stage != stage::unloaded)
        return refuse(entry, "it is loaded, but does not provide the adapter any more",
                      "close what else it provides and try again");
    entry.loaded_stage = stage::changing;
    const loading before = mark_loading({&entry, osd::thread_id()});
    const bool started = start_provider(entry);
    mark_loading(before);
    entry.loaded_stage = started ? stage::loaded : stage::unloaded;
    return started;
}

bool registry::start_provider(config_entry &entry)
{
    char why[512];
    log(topic::providers, "adapter '%s': loading %s", entry.key.ia_name, entry.library_path);
    entry.library = osd::library_open(entry.library_path, why, sizeof why);
    if (entry.library == nullptr)
        return refuse(entry, why, osd::library_advice());

    auto init = symbol<DAT_PROVIDER_INIT_FUNC>(entry.library, DAT_PROVIDER_INIT_FUNC_STR);
    entry.fini = symbol<DAT_PROVIDER_FINI_FUNC>(entry.library, DAT_PROVIDER_FINI_FUNC_STR);
    entry.extensions = symbol<DAT_HANDLE_EXTENDEDOP_FUNC>(entry.library, "dapl_extensions");
    if (init == nullptr || entry.fini == nullptr) {
        std::snprintf(why, sizeof why, "it has no symbol %s",
                      init == nullptr ? DAT_PROVIDER_INIT_FUNC_STR : DAT_PROVIDER_FINI_FUNC_STR);
        close_library(entry);
        return refuse(entry, why, "name the library of a DAT 2.0 provider");
    }
    init(&entry.key, entry.ia_params);
    if (lookup(entry.key) != nullptr)
        return true;
    stop_provider(entry);
    return refuse(entry, "its dat_provider_init did not register the adapter",
                  "DAPL_DBG_TYPE=0xffff may make the provider say why");
}

void registry::stop_provider(config_entry &entry)
{
    entry.loaded_stage = stage::changing;
    entry.fini(&entry.key);
    close_library(entry);
    entry.loaded_stage = stage::unloaded;
}

void registry::close_library(config_entry &entry)
{
    log(topic::providers, "adapter '%s': unloading %s", entry.key.ia_name, entry.library_path);
    osd::library_close(entry.library);
    entry.library = nullptr;
    entry.fini = nullptr;
    entry.extensions = nullptr;
    drop_leftovers(entry);
}

/// What a library forgot to unregister would lead into unmapped memory. Its destructors have had
/// their chance.
void registry::drop_leftovers(const config_entry &entry)
{
    osd::lock_guard guard(data_);
    for (registration **at = &registrations_; *at != nullptr;) {
        registration *left = *at;
        if (left->owner != &entry) {
            at = &left->next;
            continue;
        }
        log(topic::error, "library %s left adapter '%s' registered when it was unloaded",
            entry.library_path, left->key.ia_name);
        *at = left->next;
        std::free(left);
    }
}

} // namespace dat
