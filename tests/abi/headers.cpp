// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The headers as C++20 sees them: layout, linkage, and the idioms that differ
// from C.
#include <dat2/dat_ib_extensions.h>
#include <dat2/dat_registry.h>
#include <dat2/udat.h>

#include <cstddef>
#include <cstring>
#include <type_traits>

static_assert(sizeof(void *) != 8 || sizeof(DAT_EVENT) == 120);
static_assert(sizeof(void *) != 8 || offsetof(DAT_EVENT, event_extension_data) == 56);
static_assert(sizeof(void *) != 8 || sizeof(DAT_IA_ATTR) == 688);
static_assert(sizeof(void *) != 8 || sizeof(DAT_PROVIDER_ATTR) == 520);
static_assert(sizeof(void *) != 8 || sizeof(DAT_EP_PARAM) == 184);
static_assert(sizeof(DAT_PROVIDER) == 81 * sizeof(void *));
static_assert(offsetof(DAT_PROVIDER, handle_extendedop_func) == 80 * sizeof(void *));
static_assert(sizeof(DAT_IB_EXTENSION_EVENT_DATA) == sizeof(DAT_EVENT::event_extension_data));
static_assert(std::is_trivially_copyable_v<DAT_EVENT>);
static_assert(std::is_standard_layout_v<DAT_PROVIDER>);

// Each slot has the type of its call.
static_assert(std::is_same_v<DAT_EVD_WAIT_FUNC, decltype(&dat_evd_wait)>);
static_assert(std::is_same_v<DAT_LMR_CREATE_FUNC, decltype(&dat_lmr_create)>);
static_assert(std::is_same_v<DAT_IA_OPENV_FUNC, decltype(&dat_ia_openv)>);
static_assert(std::is_same_v<DAT_PROVIDER_FINI_FUNC, decltype(&dat_provider_fini)>);

namespace {

DAT_RETURN DAT_API say_model_not_supported(DAT_EP_HANDLE)
{
    return DAT_MODEL_NOT_SUPPORTED;
}

} // namespace

// Unqualified: the declaration in the header gives it C linkage.
void DAT_API dat_provider_fini(const DAT_PROVIDER_INFO *) {}

int main()
{
    DAT_OS_WAIT_PROXY_AGENT agent = DAT_OS_WAIT_PROXY_AGENT_NULL;
    DAT_PROVIDER_ATTR attr{};
    DAT_PROVIDER provider{};
    provider.ep_reset_func = say_model_not_supported;
    const DAT_PROVIDER *object = &provider;

    const bool good = agent.proxy_agent_func == nullptr && attr.provider_specific_attr == nullptr
        && DAT_EP_RESET(&object) == DAT_MODEL_NOT_SUPPORTED
        && std::strcmp(DAT_PROVIDER_FINI_FUNC_STR, "dat_provider_fini") == 0
        && DAT_GET_TYPE(DAT_CLASS_ERROR | DAT_QUEUE_FULL) == DAT_QUEUE_FULL;
    return good ? 0 : 1;
}
