// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "providers.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

namespace dapl::libfabric_rdm::ofi {

namespace {

struct info_closer {
    void operator()(fi_info *info) const { fi_freeinfo(info); }
};
using owned_info = std::unique_ptr<fi_info, info_closer>;

/// The lowest two bits are the modes of libfabric before 1.5, whose names 2.0 deprecates.
constexpr int all_memory_modes = ~0b11;

enum class wanted { anything, messages, what_the_port_needs };

/// All that libfabric has of a kind, one behind the other.
owned_info ask(wanted what)
{
    const owned_info hints(fi_allocinfo());
    if (hints == nullptr)
        return {};
    hints->mode = ~std::uint64_t{0};
    hints->domain_attr->mr_mode = all_memory_modes;
    if (what != wanted::anything) {
        hints->caps = FI_MSG;
        hints->ep_attr->type = FI_EP_RDM;
    }
    if (what == wanted::what_the_port_needs) {
        hints->mode = FI_CONTEXT | FI_CONTEXT2;
        hints->domain_attr->mr_mode = memory_modes;
    }
    fi_info *found = nullptr;
    return owned_info(
        fi_getinfo(api_version, nullptr, nullptr, 0, hints.get(), &found) == 0 ? found : nullptr);
}

const char *name_of(const fi_info &info)
{
    return info.fabric_attr->prov_name;
}

bool has(const owned_info &all, const char *name, fi_ep_type type = FI_EP_UNSPEC)
{
    for (const fi_info *each = all.get(); each != nullptr; each = each->next)
        if (std::strcmp(name_of(*each), name) == 0 &&
            (type == FI_EP_UNSPEC || each->ep_attr->type == type))
            return true;
    return false;
}

/// Whether an entry before this one has its provider.
bool is_told(const owned_info &all, const fi_info &info)
{
    for (const fi_info *each = all.get(); each != &info; each = each->next)
        if (std::strcmp(name_of(*each), name_of(info)) == 0)
            return true;
    return false;
}

} // namespace

other_providers::other_providers(const char *named)
{
    const owned_info all = ask(wanted::anything);
    const owned_info messages = ask(wanted::messages);
    const owned_info fit = ask(wanted::what_the_port_needs);
    const auto why = [&](const char *name) {
        if (has(fit, name))
            return "another line may name it";
        if (has(messages, name))
            return "needs what this port does not do, FI_MR_RAW or another mode";
        if (has(all, name, FI_EP_RDM))
            return "has no FI_MSG";
        return has(all, name, FI_EP_MSG) ? "has connections: libdapl-libfabric.so.2 or -verbs.so.2"
                                         : "has no FI_EP_RDM";
    };
    std::size_t used = 0;
    text[0] = '\0';
    for (const fi_info *each = all.get(); each != nullptr; each = each->next) {
        const char *const name = name_of(*each);
        if (std::strcmp(name, named) == 0 || is_told(all, *each))
            continue;
        const int more = std::snprintf(text + used, sizeof text - used, "%s%s (%s)",
                                       used == 0 ? "" : ", ", name, why(name));
        used = std::min(used + static_cast<std::size_t>(more), sizeof text - 1);
    }
    if (used == 0)
        std::snprintf(text, sizeof text, "none");
}

} // namespace dapl::libfabric_rdm::ofi
