// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fixture.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

extern "C" {
void dat_provider_init(const DAT_PROVIDER_INFO *info, const char *params);
void dat_provider_fini(const DAT_PROVIDER_INFO *info);
}

namespace {

std::map<std::string, const DAT_PROVIDER *> registered;

std::string key_of(const DAT_PROVIDER_INFO &info)
{
    return std::string(info.ia_name) + (info.is_thread_safe ? "/safe" : "/plain");
}

} // namespace

// The registry, as far as the provider sees it.

DAT_RETURN dat_registry_add_provider(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *info)
{
    registered[key_of(*info)] = provider;
    return DAT_SUCCESS;
}

DAT_RETURN dat_registry_remove_provider(const DAT_PROVIDER *, const DAT_PROVIDER_INFO *info)
{
    return registered.erase(key_of(*info)) == 1 ? DAT_SUCCESS : DAT_INTERNAL_ERROR;
}

DAT_RETURN dats_get_ia_handle(DAT_IA_HANDLE handle, DAT_IA_HANDLE *ia_handle)
{
    *ia_handle = handle;
    return DAT_SUCCESS;
}

namespace test {

namespace {

/// Both lines of the adapter, from before the first test until after the last.
struct provider_library {
    provider_library()
    {
        for (DAT_PROVIDER_INFO *info : {&plain, &safe}) {
            std::strcpy(info->ia_name, "programmable-lo");
            info->dapl_version_major = 2;
        }
        safe.is_thread_safe = DAT_TRUE;
        dat_provider_init(&plain, "params");
        dat_provider_init(&safe, nullptr);
    }
    ~provider_library()
    {
        dat_provider_fini(&plain);
        dat_provider_fini(&safe);
        if (!registered.empty())
            std::fputs("a provider stayed in the registry\n", stderr);
    }
    DAT_PROVIDER_INFO plain{};
    DAT_PROVIDER_INFO safe{};
};

} // namespace

const DAT_PROVIDER &provider(line which)
{
    static const provider_library loaded;
    return *registered.at(which == line::threadsafe ? "programmable-lo/safe"
                                                    : "programmable-lo/plain");
}

DAT_RETURN extended(const consumer &c, DAT_HANDLE handle, int op, ...)
{
    va_list arguments;
    va_start(arguments, op);
    const DAT_RETURN code =
        c.v.handle_extendedop_func(handle, static_cast<DAT_EXTENDED_OP>(op), arguments);
    va_end(arguments);
    return code;
}

DAT_DTO_COOKIE cookie(DAT_UINT64 number)
{
    DAT_DTO_COOKIE out;
    out.as_64 = number;
    return out;
}

void must(DAT_RETURN code)
{
    REQUIRE_EQ(code, DAT_SUCCESS);
}

bool finishes(std::function<void()> call, const std::function<int()> &progress)
{
    auto done = std::make_shared<std::promise<void>>();
    std::future<void> finished = done->get_future();
    std::thread runner([done, call = std::move(call)] {
        call();
        done->set_value();
    });
    const auto in_half_a_minute = [&finished] {
        return finished.wait_for(std::chrono::seconds(30)) == std::future_status::ready;
    };
    bool in_time = in_half_a_minute();
    for (int before = 0; !in_time && progress() != before; in_time = in_half_a_minute())
        before = progress();
    // Detached only when it hangs: MinGW's runtime loses threads whose end meets their detach().
    if (in_time)
        runner.join();
    else
        runner.detach();
    return in_time;
}

// ------------------------------------------------------------------------------------- consumer

consumer::consumer(line which, DAT_COUNT async_qlen) : v(provider(which))
{
    lab::reset();
    char name[] = "programmable-lo";
    must(v.ia_open_func(name, async_qlen, &async, &ia));
}

consumer::~consumer()
{
    if (ia != DAT_HANDLE_NULL)
        CHECK_EQ(close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    CHECK_EQ(lab::violations(), "");
    CHECK_EQ(lab::live_objects.load(), 0);
}

DAT_RETURN consumer::close(DAT_CLOSE_FLAGS how)
{
    const DAT_RETURN code = v.ia_close_func(ia, how);
    if (code == DAT_SUCCESS)
        ia = DAT_HANDLE_NULL;
    return code;
}

DAT_EVD_HANDLE consumer::make_evd(unsigned streams, DAT_COUNT qlen, DAT_CNO_HANDLE cno)
{
    DAT_EVD_HANDLE made = DAT_HANDLE_NULL;
    must(v.evd_create_func(ia, qlen, cno, flags(streams), &made));
    return made;
}

DAT_CNO_HANDLE consumer::make_cno(DAT_OS_WAIT_PROXY_AGENT agent)
{
    DAT_CNO_HANDLE made = DAT_HANDLE_NULL;
    must(v.cno_create_func(ia, agent, &made));
    return made;
}

DAT_PZ_HANDLE consumer::make_pz()
{
    DAT_PZ_HANDLE made = DAT_HANDLE_NULL;
    must(v.pz_create_func(ia, &made));
    return made;
}

DAT_PSP_HANDLE consumer::make_psp(DAT_CONN_QUAL qualifier, DAT_EVD_HANDLE evd, DAT_PSP_FLAGS how)
{
    DAT_PSP_HANDLE made = DAT_HANDLE_NULL;
    must(v.psp_create_func(ia, qualifier, evd, how, &made));
    return made;
}

DAT_RETURN consumer::connect(DAT_EP_HANDLE ep, DAT_CONN_QUAL qualifier, DAT_TIMEOUT timeout)
{
    DAT_SOCK_ADDR peer{};
    peer.sa_family = AF_INET;
    return v.ep_connect_func(ep, &peer, qualifier, timeout, 0, nullptr, DAT_QOS_BEST_EFFORT,
                             DAT_CONNECT_DEFAULT_FLAG);
}

DAT_RETURN consumer::post_recv(DAT_EP_HANDLE ep, DAT_UINT64 cookie)
{
    DAT_DTO_COOKIE c{};
    c.as_64 = cookie;
    DAT_LMR_TRIPLET room{};
    room.segment_length = 24;
    return v.ep_post_recv_func(ep, 1, &room, c, DAT_COMPLETION_DEFAULT_FLAG);
}

DAT_RETURN consumer::post_send(DAT_EP_HANDLE ep, DAT_UINT64 cookie, DAT_COMPLETION_FLAGS how)
{
    DAT_DTO_COOKIE c{};
    c.as_64 = cookie;
    return v.ep_post_send_func(ep, 0, nullptr, c, how);
}

DAT_RETURN consumer::post_se(DAT_EVD_HANDLE evd, std::uintptr_t value)
{
    DAT_EVENT event{};
    event.event_number = DAT_SOFTWARE_EVENT;
    event.event_data.software_event_data.pointer = reinterpret_cast<void *>(value);
    return v.evd_post_se_func(evd, &event);
}

DAT_RETURN consumer::dequeue(DAT_EVD_HANDLE evd, DAT_EVENT &event)
{
    return v.evd_dequeue_func(evd, &event);
}

wait_answer consumer::wait(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout, DAT_COUNT threshold)
{
    wait_answer answer{};
    answer.nmore = -1;
    answer.code = v.evd_wait_func(evd, timeout, threshold, &answer.event, &answer.nmore);
    return answer;
}

std::vector<DAT_EVENT> consumer::drain(DAT_EVD_HANDLE evd)
{
    std::vector<DAT_EVENT> all;
    DAT_EVENT event;
    while (dequeue(evd, event) == DAT_SUCCESS)
        all.push_back(event);
    return all;
}

DAT_EP_STATE consumer::state(DAT_EP_HANDLE ep)
{
    DAT_EP_STATE now{};
    must(v.ep_get_status_func(ep, &now, nullptr, nullptr));
    return now;
}

// -------------------------------------------------------------------------------------- station

station::station(consumer &on, DAT_COUNT connect_qlen, DAT_COUNT dto_qlen)
    : c(on), pz(on.make_pz()), recv(on.make_evd(DAT_EVD_DTO_FLAG, dto_qlen)),
      request(on.make_evd(DAT_EVD_DTO_FLAG, dto_qlen)),
      connections(on.make_evd(DAT_EVD_CONNECTION_FLAG, connect_qlen)), ep(make_ep())
{}

station::station(consumer &on, DAT_EVD_HANDLE shared_dto, DAT_EVD_HANDLE connect_evd)
    : c(on), pz(on.make_pz()), recv(shared_dto), request(shared_dto), connections(connect_evd),
      ep(make_ep())
{}

DAT_EP_HANDLE station::make_ep(const DAT_EP_ATTR *attr)
{
    DAT_EP_HANDLE made = DAT_HANDLE_NULL;
    must(c.v.ep_create_func(c.ia, pz, recv, request, connections, attr, &made));
    return made;
}

void station::connect_by_hand()
{
    must(c.connect(ep, 1));
    REQUIRE(fire(port(), DAT_CONNECTION_EVENT_ESTABLISHED));
    DAT_EVENT event;
    must(c.dequeue(connections, event));
}

int station::connect_event()
{
    DAT_EVENT event;
    if (c.dequeue(connections, event) != DAT_SUCCESS)
        return 0;
    return event.event_number;
}

} // namespace test
