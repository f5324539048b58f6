// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A provider that provides nothing: what the registry needs to see of one, and the ways to get it
// wrong. The instance data of dat.conf chooses, in words separated by spaces:
//   silent          init does not register
//   forgets         fini does not unregister
//   wrong_vector    fini unregisters with a vector that was never registered
//   open_fails      ia_open returns INSUFFICIENT_RESOURCES | RESOURCE_DEVICE
//   close_fails     the first ia_close returns INVALID_STATE | STATE_IA_IN_USE
//   lies            provider attributes say the opposite thread safety
//   nests           init opens and closes the adapter "nested"
//   opens_itself    init, having registered, opens its own adapter
//   closes_itself   ia_close closes the adapter once more, by the consumer's handle
//   extends         announces and has extensions
// Built as it is and with
//   STUB_WITHOUT_INIT, STUB_WITHOUT_FINI  the symbol is missing
//   STUB_REGISTERS_EARLY                  the constructor registers "early", init nothing
#define EXPORT_DAT_SYMBOLS
#include "osd_annotations.hpp"
#include "stub_saw.hpp"

#include <cstdarg>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <dat2/dat_registry.h>
#include <dat2/udat.h>
#include <pthread.h>

namespace {

struct provider {
    DAT_PROVIDER vector; // first: an object's first word points here
    DAT_PROVIDER_INFO info;
    char instance[256];
    bool close_failed;

    bool has(const char *word) const { return std::strstr(instance, word) != nullptr; }
};

enum class kind { ia, pz };

struct object {
    const provider *owner; // read by the registry as const DAT_PROVIDER *
    kind type;
    object *ia;
    DAT_CONTEXT context;
};
static_assert(offsetof(provider, vector) == 0);

constexpr unsigned most_providers = 16;
provider *providers[most_providers];
pthread_mutex_t providers_lock = PTHREAD_MUTEX_INITIALIZER;

class guard {
public:
    guard() { pthread_mutex_lock(&providers_lock); }
    ~guard() { pthread_mutex_unlock(&providers_lock); }
    guard(const guard &) = delete;
    guard &operator=(const guard &) = delete;
};

DAT_RETURN failure(unsigned type, unsigned subtype)
{
    return DAT_CLASS_ERROR | type | subtype;
}

provider **find(const char *name, DAT_BOOLEAN is_thread_safe)
{
    for (provider *&known : providers) {
        if (known != nullptr && std::strcmp(known->info.ia_name, name) == 0 &&
            known->info.is_thread_safe == is_thread_safe)
            return &known;
    }
    return nullptr;
}

const provider *started(const char *name, DAT_BOOLEAN is_thread_safe)
{
    guard locked;
    return *find(name, is_thread_safe);
}

provider *owner_of(DAT_HANDLE handle)
{
    return const_cast<provider *>(static_cast<object *>(handle)->owner);
}

object *make(const provider *owner, kind type, object *ia)
{
    auto *made = static_cast<object *>(std::calloc(1, sizeof(object)));
    made->owner = owner;
    made->type = type;
    made->ia = ia;
    return made;
}

// Two open functions, as two vectors need them: one cannot tell otherwise which line was opened.
template <DAT_BOOLEAN ThreadSafe>
DAT_RETURN ia_open(const DAT_NAME_PTR name, DAT_COUNT, DAT_EVD_HANDLE *, DAT_IA_HANDLE *ia)
{
    const provider *owner = started(name, ThreadSafe);
    saw("open", name);
    if (owner->has("open_fails"))
        return failure(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE);
    *ia = make(owner, kind::ia, nullptr);
    return DAT_SUCCESS;
}

DAT_RETURN ia_query(DAT_IA_HANDLE ia, DAT_EVD_HANDLE *, DAT_IA_ATTR_MASK mask, DAT_IA_ATTR *attr,
                    DAT_PROVIDER_ATTR_MASK provider_mask, DAT_PROVIDER_ATTR *provider_attr)
{
    const provider *owner = owner_of(ia);
    if (mask != 0) {
        std::memset(static_cast<void *>(attr), 0, sizeof *attr);
        attr->extension_supported = owner->has("extends") ? DAT_EXTENSION_IB : DAT_EXTENSION_NONE;
    }
    if (provider_mask != 0) {
        std::memset(static_cast<void *>(provider_attr), 0, sizeof *provider_attr);
        std::strcpy(provider_attr->provider_name, owner->info.ia_name);
        provider_attr->dapl_version_major = 2;
        const bool safe = (owner->info.is_thread_safe != DAT_FALSE) != owner->has("lies");
        provider_attr->is_thread_safe = safe ? DAT_TRUE : DAT_FALSE;
    }
    return DAT_SUCCESS;
}

/// Reports a second close by its result; the handle must still be known.
void close_again(DAT_IA_HANDLE ia, const char *name)
{
    DAT_IA_HANDLE number = DAT_HANDLE_NULL;
    if (dats_get_ia_handle(ia, &number) != DAT_SUCCESS)
        saw("lost", name);
    else if (dat_ia_close(number, DAT_CLOSE_ABRUPT_FLAG) ==
             failure(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA))
        saw("refused", name);
}

DAT_RETURN ia_close(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS)
{
    provider *owner = owner_of(ia);
    saw("close", owner->info.ia_name);
    if (owner->has("close_fails") && !owner->close_failed) {
        owner->close_failed = true;
        return failure(DAT_INVALID_STATE, DAT_INVALID_STATE_IA_IN_USE);
    }
    if (owner->has("closes_itself"))
        close_again(ia, owner->info.ia_name);
    std::free(ia);
    return DAT_SUCCESS;
}

DAT_RETURN set_context(DAT_HANDLE handle, DAT_CONTEXT context)
{
    static_cast<object *>(handle)->context = context;
    return DAT_SUCCESS;
}

DAT_RETURN get_context(DAT_HANDLE handle, DAT_CONTEXT *context)
{
    *context = static_cast<object *>(handle)->context;
    return DAT_SUCCESS;
}

DAT_RETURN get_type(DAT_HANDLE handle, DAT_HANDLE_TYPE *type)
{
    const bool is_ia = static_cast<object *>(handle)->type == kind::ia;
    *type = is_ia ? DAT_HANDLE_TYPE_IA : DAT_HANDLE_TYPE_PZ;
    return DAT_SUCCESS;
}

DAT_RETURN pz_create(DAT_IA_HANDLE ia, DAT_PZ_HANDLE *pz)
{
    *pz = make(owner_of(ia), kind::pz, static_cast<object *>(ia));
    return DAT_SUCCESS;
}

DAT_RETURN pz_query(DAT_PZ_HANDLE pz, DAT_PZ_PARAM_MASK, DAT_PZ_PARAM *param)
{
    return dats_get_ia_handle(static_cast<object *>(pz)->ia, &param->ia_handle);
}

DAT_RETURN pz_free(DAT_PZ_HANDLE pz)
{
    std::free(pz);
    return DAT_SUCCESS;
}

DAT_RETURN lmr_create(DAT_IA_HANDLE, DAT_MEM_TYPE, DAT_REGION_DESCRIPTION region, DAT_VLEN length,
                      DAT_PZ_HANDLE, DAT_MEM_PRIV_FLAGS, DAT_VA_TYPE, DAT_LMR_HANDLE *,
                      DAT_LMR_CONTEXT *, DAT_RMR_CONTEXT *, DAT_VLEN *registered_length,
                      DAT_VADDR *registered_address)
{
    *registered_length = length;
    *registered_address = reinterpret_cast<DAT_VADDR>(region.for_va);
    return DAT_SUCCESS;
}

DAT_RETURN ia_ha_related(DAT_IA_HANDLE ia, const DAT_NAME_PTR other, DAT_BOOLEAN *answer)
{
    *answer = owner_of(ia)->has(other) ? DAT_TRUE : DAT_FALSE;
    return DAT_SUCCESS;
}

DAT_RETURN open_query(const char *name, DAT_IA_HANDLE *ia, DAT_IA_ATTR_MASK mask, DAT_IA_ATTR *attr)
{
    saw("open_query", name);
    *ia = make(started(name, DAT_FALSE), kind::ia, nullptr);
    return ia_query(*ia, nullptr, mask, attr, 0, nullptr);
}

DAT_RETURN extended_op(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list arguments)
{
    if (op == DAT_OPEN_EXTENSION_BASE) {
        DAT_IA_HANDLE *ia = va_arg(arguments, DAT_IA_HANDLE *);
        const DAT_IA_ATTR_MASK mask = va_arg(arguments, DAT_IA_ATTR_MASK);
        return open_query(static_cast<char *>(handle), ia, mask, va_arg(arguments, DAT_IA_ATTR *));
    }
    if (op == DAT_CLOSE_EXTENSION_BASE) {
        saw("close_query", owner_of(handle)->info.ia_name);
        std::free(handle);
        return DAT_SUCCESS;
    }
    const int first = va_arg(arguments, int);
    *va_arg(arguments, int *) = first * 2;
    return static_cast<object *>(handle)->type == kind::ia ? DAT_SUCCESS : DAT_QUEUE_EMPTY;
}

void fill(DAT_PROVIDER &vector, const provider &self)
{
    vector.device_name = self.info.ia_name;
    vector.ia_open_func =
        self.info.is_thread_safe != DAT_FALSE ? ia_open<DAT_TRUE> : ia_open<DAT_FALSE>;
    vector.ia_query_func = ia_query;
    vector.ia_close_func = ia_close;
    vector.set_consumer_context_func = set_context;
    vector.get_consumer_context_func = get_context;
    vector.get_handle_type_func = get_type;
    vector.pz_create_func = pz_create;
    vector.pz_query_func = pz_query;
    vector.pz_free_func = pz_free;
    vector.lmr_create_func = lmr_create;
    vector.ia_ha_related_func = ia_ha_related;
    if (self.has("extends"))
        vector.handle_extendedop_func = extended_op;
}

void keep(provider *made)
{
    guard locked;
    for (provider *&slot : providers) {
        if (slot == nullptr) {
            slot = made;
            return;
        }
    }
}

/// Takes it out of the list.
provider *give_up(const DAT_PROVIDER_INFO &info)
{
    guard locked;
    provider **slot = find(info.ia_name, info.is_thread_safe);
    provider *found = slot != nullptr ? *slot : nullptr;
    if (slot != nullptr)
        *slot = nullptr;
    return found;
}

void open_another(const char *name)
{
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    if (dat_ia_open(const_cast<char *>(name), 8, &async, &ia) != DAT_SUCCESS)
        saw("refused", name);
    else
        dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
}

[[maybe_unused]] void start(const DAT_PROVIDER_INFO *info, const char *instance)
{
    saw("init", info->ia_name);
    auto *made = static_cast<provider *>(std::calloc(1, sizeof(provider)));
    made->info = *info;
    std::strncpy(made->instance, instance, sizeof made->instance - 1);
    fill(made->vector, *made);
    keep(made);
    if (!made->has("silent"))
        dat_registry_add_provider(&made->vector, info);
    if (made->has("nests"))
        open_another("nested");
    if (made->has("opens_itself"))
        open_another(info->ia_name);
}

[[maybe_unused]] void stop(const DAT_PROVIDER_INFO *info)
{
    saw("fini", info->ia_name);
    provider *stopped = give_up(*info);
    if (stopped == nullptr)
        return;
    static const DAT_PROVIDER unregistered{};
    if (!stopped->has("forgets"))
        dat_registry_remove_provider(
            stopped->has("wrong_vector") ? &unregistered : &stopped->vector, info);
    std::free(stopped);
}

} // namespace

#ifdef STUB_REGISTERS_EARLY

namespace {

const DAT_PROVIDER_INFO early = {"early", 2, 0, DAT_FALSE};

__attribute__((constructor)) void arrive()
{
    start(&early, "");
}

__attribute__((destructor)) void depart()
{
    stop(&early);
}

} // namespace

extern "C" OSD_EXPORT void dat_provider_init(const DAT_PROVIDER_INFO *info, const char *)
{
    saw("init", info->ia_name);
}

extern "C" OSD_EXPORT void dat_provider_fini(const DAT_PROVIDER_INFO *info)
{
    saw("fini", info->ia_name);
}

#else

#ifndef STUB_WITHOUT_INIT
extern "C" OSD_EXPORT void dat_provider_init(const DAT_PROVIDER_INFO *info, const char *instance)
{
    start(info, instance);
}
#endif

#ifndef STUB_WITHOUT_FINI
extern "C" OSD_EXPORT void dat_provider_fini(const DAT_PROVIDER_INFO *info)
{
    stop(info);
}
#endif

#endif
