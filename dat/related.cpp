// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// dat_registry_providers_related: whether one adapter can stand in for another.
#include "ia_table.hpp"
#include "registry.hpp"
#include "status.hpp"

#include <dat2/dat_registry.h>

namespace dat {
namespace {

/// What the provider of `name` thinks of `other`. Only an open adapter can be asked.
DAT_HA_RELATIONSHIP opinion(const char *name, char *other)
{
    void *ia = open_adapters().find_named(name);
    if (ia == nullptr)
        return DAT_HA_UNKNOWN;
    const auto ask = (*static_cast<const DAT_PROVIDER *const *>(ia))->ia_ha_related_func;
    DAT_BOOLEAN related = DAT_FALSE;
    if (ask == nullptr || ask(ia, other, &related) != DAT_SUCCESS)
        return DAT_HA_UNKNOWN;
    return related != DAT_FALSE ? DAT_HA_TRUE : DAT_HA_FALSE;
}

DAT_HA_RELATIONSHIP combine(DAT_HA_RELATIONSHIP one, DAT_HA_RELATIONSHIP other)
{
    if (one == DAT_HA_UNKNOWN)
        return other;
    if (other == DAT_HA_UNKNOWN || one == other)
        return one;
    return DAT_HA_CONFLICTING;
}

} // namespace
} // namespace dat

extern "C" OSD_EXPORT DAT_RETURN DAT_API dat_registry_providers_related(const DAT_NAME_PTR first,
                                                                        const DAT_NAME_PTR second,
                                                                        DAT_HA_RELATIONSHIP *answer)
{
    if (first == nullptr)
        return dat::error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
    if (second == nullptr)
        return dat::error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
    if (answer == nullptr)
        return dat::error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
    if (!dat::the_registry().knows(first) || !dat::the_registry().knows(second))
        return dat::error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
    *answer = dat::combine(dat::opinion(first, second), dat::opinion(second, first));
    return DAT_SUCCESS;
}
