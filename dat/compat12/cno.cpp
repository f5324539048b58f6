// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Consumer notification objects.
#include "calls.hpp"
#include "immortal.hpp"
#include "osd_sync.hpp"

using dat12::object;

namespace dat12 {
namespace {

// An agent is two words, which dat_cno_modify_agent() may replace while it is called.
constinit dat::immortal<osd::mutex> agents;

DAT_OS_WAIT_PROXY_AGENT agent_of(const object &cno)
{
    osd::lock_guard guard(agents.value);
    return cno.agent;
}

void set_agent(object &cno, const DAT_OS_WAIT_PROXY_AGENT &agent)
{
    osd::lock_guard guard(agents.value);
    cno.agent = agent;
}

/// What the provider calls: the EVD it names is one of DAT 2.0.
void DAT_API call_agent(DAT_PVOID cno, DAT_EVD_HANDLE evd)
{
    const DAT_OS_WAIT_PROXY_AGENT agent = agent_of(*static_cast<object *>(cno));
    if (agent.proxy_agent_func != nullptr)
        agent.proxy_agent_func(agent.instance_data, one_of(evd));
}

/// An agent without a function is left for the provider to judge.
DAT_OS_WAIT_PROXY_AGENT in_place_of(const DAT_OS_WAIT_PROXY_AGENT &agent, object &cno)
{
    return agent.proxy_agent_func == nullptr ? agent : DAT_OS_WAIT_PROXY_AGENT{&cno, call_agent};
}

} // namespace
} // namespace dat12

DAT_RETURN dat12_cno_create(DAT_IA_HANDLE handle, DAT_OS_WAIT_PROXY_AGENT agent,
                            DAT_CNO_HANDLE *cno)
{
    object *ia = dat12::object_of<DAT_HANDLE_TYPE_IA>(handle);
    if (ia == nullptr)
        return dat12::refused<DAT_HANDLE_TYPE_IA>;
    return dat12::create<DAT_HANDLE_TYPE_CNO>(*ia, cno, 3, [&](DAT_HANDLE *made, object &ours) {
        ours.agent = agent;
        return dat12::call<&DAT_PROVIDER::cno_create_func>(*ia, dat12::in_place_of(agent, ours),
                                                           made);
    });
}

DAT_RETURN dat12_cno_modify_agent(DAT_CNO_HANDLE handle, DAT_OS_WAIT_PROXY_AGENT agent)
{
    object *cno = dat12::object_of<DAT_HANDLE_TYPE_CNO>(handle);
    if (cno == nullptr)
        return dat12::refused<DAT_HANDLE_TYPE_CNO>;
    const DAT_OS_WAIT_PROXY_AGENT before = dat12::agent_of(*cno);
    dat12::set_agent(*cno, agent); // set before the provider may call it
    const DAT_RETURN status =
        dat12::call<&DAT_PROVIDER::cno_modify_agent_func>(*cno, dat12::in_place_of(agent, *cno));
    if (status != DAT_SUCCESS)
        dat12::set_agent(*cno, before);
    return status;
}

DAT_RETURN dat12_cno_query(DAT_CNO_HANDLE handle, v1::DAT_CNO_PARAM_MASK mask,
                           v1::DAT_CNO_PARAM *param)
{
    object *cno = dat12::object_of<DAT_HANDLE_TYPE_CNO>(handle);
    if (cno == nullptr)
        return dat12::refused<DAT_HANDLE_TYPE_CNO>;
    const DAT_RETURN status = dat12::check_query(mask, v1::DAT_CNO_FIELD_ALL, param);
    if (status != DAT_SUCCESS)
        return status;
    param->ia_handle = dat12::handle_of(cno->ia);
    param->agent = dat12::agent_of(*cno);
    return DAT_SUCCESS;
}

DAT_RETURN dat12_cno_free(DAT_CNO_HANDLE cno)
{
    return dat12::release<DAT_HANDLE_TYPE_CNO, &DAT_PROVIDER::cno_free_func>(cno);
}

DAT_RETURN dat12_cno_wait(DAT_CNO_HANDLE handle, DAT_TIMEOUT timeout, DAT_EVD_HANDLE *evd)
{
    object *cno = dat12::object_of<DAT_HANDLE_TYPE_CNO>(handle);
    if (cno == nullptr)
        return dat12::refused<DAT_HANDLE_TYPE_CNO>;
    DAT_EVD_HANDLE two = nullptr;
    const DAT_RETURN status =
        dat12::call<&DAT_PROVIDER::cno_wait_func>(*cno, timeout, evd != nullptr ? &two : nullptr);
    if (evd != nullptr)
        *evd = dat12::one_of(two); // null after a timeout
    return status;
}
