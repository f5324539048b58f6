// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/adapter.hpp"

#include "harness/judge.hpp"

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
