// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/adapter.hpp"

#include "harness/judge.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace conformance {

DAT_RETURN open_adapter(const std::string &name, DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia,
                        DAT_COUNT async_qlen)
{
    return dat_ia_openv(const_cast<char *>(name.c_str()), async_qlen, async_evd, ia,
                        DAT_VERSION_MAJOR, DAT_VERSION_MINOR,
                        the_settings().thread_safe ? DAT_TRUE : DAT_FALSE);
}

adapter::adapter(const std::string &name)
{
    MUST(open_adapter(name, &async, &handle));
    query();
}

adapter::adapter(DAT_EVD_HANDLE shared) : async(shared)
{
    MUST(open_adapter(the_settings().ia, &async, &handle));
    query();
}

adapter::~adapter()
{
    if (is_open())
        (void)close(DAT_CLOSE_ABRUPT_FLAG);
}

DAT_RETURN adapter::close(DAT_CLOSE_FLAGS how)
{
    const DAT_RETURN code = dat_ia_close(handle, how);
    if (code == DAT_SUCCESS)
        handle = DAT_HANDLE_NULL;
    return code;
}

DAT_SOCK_ADDR *adapter::address() const
{
    return attr.ia_address_ptr;
}

void adapter::query()
{
    MUST(dat_ia_query(handle, nullptr, DAT_IA_FIELD_ALL, &attr, DAT_PROVIDER_FIELD_ALL, &provider));
}

bool offers(const DAT_PROVIDER_ATTR &provider, const char *attribute)
{
    const DAT_NAMED_ATTR *const all = provider.provider_specific_attr;
    return std::any_of(all, all + provider.num_provider_specific_attr,
                       [&](const DAT_NAMED_ATTR &each) {
                           return std::strcmp(each.name, attribute) == 0 &&
                                  std::strcmp(each.value, "TRUE") == 0;
                       });
}

DAT_RETURN list_registry(std::vector<DAT_PROVIDER_INFO> &entries)
{
    DAT_COUNT number = 0;
    entries.resize(256);
    std::vector<DAT_PROVIDER_INFO *> pointers;
    for (DAT_PROVIDER_INFO &entry : entries)
        pointers.push_back(&entry);
    const DAT_RETURN code = dat_registry_list_providers(static_cast<DAT_COUNT>(entries.size()),
                                                        &number, pointers.data());
    if (code != DAT_SUCCESS)
        number = 0;
    entries.resize(std::min(entries.size(), static_cast<std::size_t>(number)));
    return code;
}

std::unique_ptr<adapter> adapter_of_other_name()
{
    std::vector<DAT_PROVIDER_INFO> entries;
    MUST(list_registry(entries));
    const std::string vendor = adapter().attr.vendor_name;
    std::unique_ptr<adapter> found;
    for (const DAT_PROVIDER_INFO &entry : entries) {
        if (entry.ia_name == the_settings().ia || entry.dapl_version_major != DAT_VERSION_MAJOR ||
            (entry.is_thread_safe != DAT_FALSE) != the_settings().thread_safe)
            continue;
        DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
        DAT_IA_HANDLE opened = DAT_HANDLE_NULL;
        if (open_adapter(entry.ia_name, &async, &opened) != DAT_SUCCESS)
            continue;
        MUST(dat_ia_close(opened, DAT_CLOSE_GRACEFUL_FLAG));
        found = std::make_unique<adapter>(entry.ia_name);
        if (found->attr.vendor_name != vendor)
            break;
    }
    return found;
}

DAT_EVD_HANDLE make_evd(const adapter &ia, unsigned streams, DAT_COUNT qlen, DAT_CNO_HANDLE cno)
{
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    MUST(dat_evd_create(ia.handle, qlen, cno, static_cast<DAT_EVD_FLAGS>(streams), &evd));
    return evd;
}

DAT_CNO_HANDLE make_cno(const adapter &ia)
{
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    MUST(dat_cno_create(ia.handle, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
    return cno;
}

DAT_PZ_HANDLE make_pz(const adapter &ia)
{
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    MUST(dat_pz_create(ia.handle, &pz));
    return pz;
}

} // namespace conformance
