// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The library, adapters, EVDs and CNOs.
#include "calls/answers.hpp"

#include <dat2/dat_ib_extensions.h>
#include <dat2/dat_registry.h>

namespace conformance {
namespace {

// --------------------------------------------------------------------------------------- library

struct library {
    /// Each vector and entry that is added goes with the process.
    DAT_PROVIDER vector{};
    DAT_PROVIDER_INFO info{};
    char name[32] = "provider-of-the-suite";
    char *own_name = const_cast<char *>(the_settings().ia.c_str());

    library()
    {
        vector.device_name = name;
        std::strcpy(info.ia_name, name);
        info.dapl_version_major = DAT_VERSION_MAJOR;
        info.dapl_version_minor = DAT_VERSION_MINOR;
    }
};

answer list_providers(library &)
{
    std::vector<DAT_PROVIDER_INFO> entries;
    return list_registry(entries);
}

answer relate(library &l)
{
    DAT_HA_RELATIONSHIP told{};
    return IF_THERE(dat_registry_providers_related, l.own_name, l.own_name, &told);
}

answer open_one(library &l)
{
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    return open_adapter(l.own_name, &async, &ia);
}

answer open_unknown(library &)
{
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    return open_adapter("no-adapter-of-this-name", &async, &ia);
}

answer remove_added(library &l)
{
    (void)IF_THERE(dat_registry_add_provider, &l.vector, &l.info);
    return IF_THERE(dat_registry_remove_provider, &l.vector, &l.info);
}

answer explain_code(library &)
{
    const char *major = nullptr;
    const char *minor = nullptr;
    return dat_strerror(bad_handle(DAT_INVALID_HANDLE_EP), &major, &minor);
}

DAT_HANDLE quick_handle;

answer open_query(library &l)
{
    DAT_IA_ATTR attr{};
    DAT_PROVIDER_ATTR provider{};
    return dat_ib_open_query(l.own_name, &quick_handle, std::uint64_t{DAT_IA_FIELD_ALL}, &attr,
                             std::uint64_t{DAT_PROVIDER_FIELD_ALL}, &provider);
}

answer close_query(library &l)
{
    return open_query(l) == DAT_SUCCESS ? answer{dat_ib_close_query(quick_handle)} : answer{};
}

// -------------------------------------------------------------------------------------- adapters

struct adapter_subject {
    adapter ia;
    DAT_IA_HANDLE handle = ia.handle;
    DAT_HANDLE out = DAT_HANDLE_NULL;
    DAT_CONN_QUAL qualifier = unused_qualifier(ia);
    socket_address at{ia, unused_qualifier(ia)};
    DAT_EVD_HANDLE requests = DAT_HANDLE_NULL;
    std::unique_ptr<test_endpoint> own;

    /// Objects that a call needs beside the adapter, where it has any.
    test_endpoint &objects()
    {
        if (own == nullptr) {
            own = std::make_unique<test_endpoint>(ia);
            requests = make_evd(ia, DAT_EVD_CR_FLAG);
        }
        return *own;
    }
};

using adapter_entry = std::unique_ptr<adapter_subject>;

adapter_entry empty_adapter()
{
    return std::make_unique<adapter_subject>();
}

adapter_entry adapter_in_use()
{
    adapter_entry made = empty_adapter();
    (void)made->objects();
    return made;
}

adapter_entry closed_adapter()
{
    adapter_entry made = adapter_in_use();
    MUST(made->ia.close(DAT_CLOSE_ABRUPT_FLAG));
    return made;
}

template <DAT_CLOSE_FLAGS flag>
answer close_adapter(adapter_subject &s)
{
    const DAT_RETURN code = dat_ia_close(s.handle, flag);
    if (code == DAT_SUCCESS)
        s.ia.handle = DAT_HANDLE_NULL;
    return code;
}

answer query_adapter(adapter_subject &s)
{
    DAT_IA_ATTR attr{};
    return dat_ia_query(s.handle, nullptr, DAT_IA_FIELD_ALL, &attr, 0, nullptr);
}

DAT_RETURN register_memory(adapter_subject &s, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION where,
                           DAT_VA_TYPE addressing = DAT_VA_TYPE_VA)
{
    test_endpoint &own = s.objects();
    return dat_lmr_create(s.handle, type, where, 4096, own.pz, all_rights, addressing, &s.out,
                          nullptr, nullptr, nullptr, nullptr);
}

template <DAT_VA_TYPE addressing>
answer register_range(adapter_subject &s)
{
    DAT_REGION_DESCRIPTION where{};
    where.for_va = s.objects().memory.bytes.data();
    return register_memory(s, DAT_MEM_TYPE_VIRTUAL, where, addressing);
}

answer register_again(adapter_subject &s)
{
    DAT_REGION_DESCRIPTION where{};
    where.for_lmr_handle = s.objects().memory.lmr;
    return register_memory(s, DAT_MEM_TYPE_LMR, where);
}

answer register_shared(adapter_subject &s)
{
    static char cookie[DAT_LMR_COOKIE_SIZE] = "the answers of the calls";
    DAT_REGION_DESCRIPTION where{};
    where.for_shared_memory = {s.objects().memory.bytes.data(), &cookie};
    return register_memory(s, DAT_MEM_TYPE_SHARED_VIRTUAL, where);
}

template <decltype(dat_lmr_sync_rdma_read) *sync>
answer synchronize(adapter_subject &s)
{
    const DAT_LMR_TRIPLET part = s.objects().memory.local(0, 64);
    return sync(s.handle, &part, 1);
}

DAT_SRQ_ATTR small_queue{8, 1, DAT_SRQ_LW_DEFAULT};

answer create_shared_endpoint(adapter_subject &s)
{
    test_endpoint &own = s.objects();
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
    (void)dat_srq_create(s.handle, own.pz, &small_queue, &srq); // where that is refused, so is this
    return dat_ep_create_with_srq(s.handle, own.pz, own.recv_evd, own.request_evd, own.connect_evd,
                                  srq, nullptr, &s.out);
}

answer create_rsp(adapter_subject &s)
{
    const DAT_EP_HANDLE ep = s.objects().ep;
    return dat_rsp_create(s.handle, s.qualifier, ep, s.requests, &s.out);
}

answer create_psp(adapter_subject &s)
{
    (void)s.objects();
    return dat_psp_create(s.handle, s.qualifier, s.requests, DAT_PSP_CONSUMER_FLAG, &s.out);
}

template <DAT_PSP_FLAGS flag>
answer create_psp_anywhere(adapter_subject &s)
{
    (void)s.objects();
    return dat_psp_create_any(s.handle, &s.qualifier, s.requests, flag, &s.out);
}

answer create_csp(adapter_subject &s)
{
    (void)s.objects();
    DAT_COMM comm = s.at.comm();
    return IF_THERE(dat_csp_create, s.handle, &comm, s.at.get(), s.requests, &s.out);
}

answer create_fd_cno(adapter_subject &s)
{
    DAT_FD fd{};
    return IF_THERE(dat_cno_fd_create, s.handle, &fd, &s.out);
}

answer query_ia_counters(adapter_subject &s)
{
    DAT_UINT64 all[DCNT_IA_ALL_COUNTERS];
    return dat_ib_query_counters(s.handle, DCNT_IA_ALL_COUNTERS, all, 0);
}

answer print_counters(adapter_subject &s)
{
    return dat_ib_print_counters(s.handle, DCNT_IA_ALL_COUNTERS, 0);
}

// ------------------------------------------------------------------------------------------ EVDs

/// An EVD, with a thread that waits in it or without; the adapter is closed before the thread is
/// joined.
struct evd_subject {
    adapter ia;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    std::unique_ptr<test_endpoint> feeding;
    std::unique_ptr<helper_thread> waiter;

    ~evd_subject()
    {
        if (waiter != nullptr)
            (void)ia.close(DAT_CLOSE_ABRUPT_FLAG);
    }
};

using evd_entry = std::unique_ptr<evd_subject>;

evd_entry empty_evd()
{
    auto made = std::make_unique<evd_subject>();
    made->evd = make_evd(made->ia, DAT_EVD_SOFTWARE_FLAG, 4);
    return made;
}

evd_entry pending_evd()
{
    evd_entry made = empty_evd();
    MUST(post_software(made->evd));
    return made;
}

evd_entry full_evd()
{
    evd_entry made = empty_evd();
    while (post_software(made->evd) == DAT_SUCCESS)
        ;
    return made;
}

evd_entry awaited_evd()
{
    evd_entry made = empty_evd();
    made->waiter = std::make_unique<helper_thread>([evd = made->evd] {
        DAT_EVENT event{};
        DAT_COUNT more = 0;
        (void)dat_evd_wait(evd, DAT_TIMEOUT_INFINITE, 1, &event, &more);
    });
    made->waiter->await_asleep();
    return made;
}

evd_entry disabled_evd()
{
    evd_entry made = empty_evd();
    MUST(dat_evd_disable(made->evd));
    return made;
}

evd_entry unwaitable_evd()
{
    evd_entry made = empty_evd();
    MUST(dat_evd_set_unwaitable(made->evd));
    return made;
}

/// An EVD to which transfers complete.
evd_entry fed_evd()
{
    auto made = std::make_unique<evd_subject>();
    made->feeding = std::make_unique<test_endpoint>(made->ia);
    made->evd = made->feeding->recv_evd;
    return made;
}

evd_entry freed_evd()
{
    evd_entry made = empty_evd();
    MUST(dat_evd_free(made->evd));
    return made;
}

answer query_evd(evd_subject &s)
{
    DAT_EVD_PARAM param{};
    return dat_evd_query(s.evd, DAT_EVD_FIELD_ALL, &param);
}

answer wait_in_evd(evd_subject &s)
{
    DAT_EVENT event{};
    DAT_COUNT more = 0;
    return dat_evd_wait(s.evd, 0, 1, &event, &more);
}

answer take_event(evd_subject &s)
{
    DAT_EVENT event{};
    return dat_evd_dequeue(s.evd, &event);
}

// ------------------------------------------------------------------------------------------ CNOs

struct cno_subject {
    adapter ia;
    DAT_CNO_HANDLE cno = make_cno(ia);
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    std::unique_ptr<helper_thread> waiter;

    ~cno_subject()
    {
        if (waiter != nullptr)
            (void)ia.close(DAT_CLOSE_ABRUPT_FLAG);
    }
};

using cno_entry = std::unique_ptr<cno_subject>;

cno_entry idle_cno()
{
    return std::make_unique<cno_subject>();
}

cno_entry attached_cno()
{
    cno_entry made = idle_cno();
    made->evd = make_evd(made->ia, DAT_EVD_SOFTWARE_FLAG, 4, made->cno);
    return made;
}

cno_entry triggered_cno()
{
    cno_entry made = attached_cno();
    MUST(post_software(made->evd));
    return made;
}

cno_entry awaited_cno()
{
    cno_entry made = idle_cno();
    made->waiter = std::make_unique<helper_thread>([cno = made->cno] {
        DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
        (void)dat_cno_wait(cno, DAT_TIMEOUT_INFINITE, &by);
    });
    made->waiter->await_asleep();
    return made;
}

cno_entry freed_cno()
{
    cno_entry made = idle_cno();
    MUST(dat_cno_free(made->cno));
    return made;
}

answer query_cno(cno_subject &s)
{
    DAT_CNO_PARAM param{};
    return dat_cno_query(s.cno, DAT_CNO_FIELD_ALL, &param);
}

answer wait_in_cno(cno_subject &s)
{
    DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
    return dat_cno_wait(s.cno, 0, &by);
}

answer trigger_cno(cno_subject &s)
{
    DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
    return IF_THERE(dat_cno_trigger, s.cno, &by);
}

} // namespace

std::vector<probing> library_probings()
{
    return probings_of<library>(
        "Library", {{"any", [] { return std::make_unique<library>(); }}},
        {
            {"dat_registry_list_providers", "", list_providers},
            {"dat_registry_providers_related", "", relate},
            {"dat_registry_add_provider", "",
             [](library &l) { return IF_THERE(dat_registry_add_provider, &l.vector, &l.info); }},
            {"dat_registry_remove_provider", "", remove_added},
            {"dat_ia_openv", "", open_one},
            {"dat_ia_openv", "unknown name", open_unknown},
            {"dat_strerror", "", explain_code},
            {"dat_extension_op", "open query", open_query},
            {"dat_extension_op", "close query", close_query},
        });
}

std::vector<probing> adapter_probings()
{
    return probings_of<adapter_subject>(
        "IA",
        {{"without objects", empty_adapter},
         {"with objects", adapter_in_use},
         {"closed", closed_adapter}},
        {
            {"dat_ia_query", "", query_adapter},
            {"dat_ia_close", "graceful", close_adapter<DAT_CLOSE_GRACEFUL_FLAG>},
            {"dat_ia_close", "abrupt", close_adapter<DAT_CLOSE_ABRUPT_FLAG>},
            {"dat_pz_create", "",
             [](adapter_subject &s) { return dat_pz_create(s.handle, &s.out); }},
            {"dat_cno_create", "",
             [](adapter_subject &s) {
                 return dat_cno_create(s.handle, DAT_OS_WAIT_PROXY_AGENT_NULL, &s.out);
             }},
            {"dat_cno_fd_create", "", create_fd_cno},
            {"dat_evd_create", "",
             [](adapter_subject &s) {
                 return dat_evd_create(s.handle, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &s.out);
             }},
            {"dat_ep_create", "",
             [](adapter_subject &s) {
                 test_endpoint &own = s.objects();
                 return dat_ep_create(s.handle, own.pz, own.recv_evd, own.request_evd,
                                      own.connect_evd, nullptr, &s.out);
             }},
            {"dat_ep_create_with_srq", "", create_shared_endpoint},
            {"dat_srq_create", "",
             [](adapter_subject &s) {
                 return dat_srq_create(s.handle, s.objects().pz, &small_queue, &s.out);
             }},
            {"dat_lmr_create", "virtual", register_range<DAT_VA_TYPE_VA>},
            {"dat_lmr_create", "virtual, zero-based", register_range<DAT_VA_TYPE_ZB>},
            {"dat_lmr_create", "of an LMR", register_again},
            {"dat_lmr_create", "shared virtual", register_shared},
            {"dat_lmr_sync_rdma_read", "", synchronize<&dat_lmr_sync_rdma_read>},
            {"dat_lmr_sync_rdma_write", "", synchronize<&dat_lmr_sync_rdma_write>},
            {"dat_psp_create", "", create_psp},
            {"dat_psp_create_any", "", create_psp_anywhere<DAT_PSP_CONSUMER_FLAG>},
            {"dat_psp_create_any", "makes endpoints", create_psp_anywhere<DAT_PSP_PROVIDER_FLAG>},
            {"dat_rsp_create", "", create_rsp},
            {"dat_csp_create", "", create_csp},
            {"dat_extension_op", "query counters", query_ia_counters},
            {"dat_extension_op", "print counters", print_counters},
            {"dat_extension_op", "another operation",
             [](adapter_subject &s) {
                 return dat_extension_op(s.handle, static_cast<DAT_EXTENDED_OP>(0x4321));
             }},
        });
}

std::vector<probing> evd_probings()
{
    return probings_of<evd_subject>(
        "EVD",
        {{"empty", empty_evd},
         {"with an event", pending_evd},
         {"full", full_evd},
         {"a thread waits", awaited_evd},
         {"disabled", disabled_evd},
         {"unwaitable", unwaitable_evd},
         {"of an endpoint", fed_evd},
         {"freed", freed_evd}},
        {
            {"dat_evd_query", "", query_evd},
            {"dat_evd_modify_cno", "",
             [](evd_subject &s) { return dat_evd_modify_cno(s.evd, make_cno(s.ia)); }},
            {"dat_evd_enable", "", [](evd_subject &s) { return dat_evd_enable(s.evd); }},
            {"dat_evd_disable", "", [](evd_subject &s) { return dat_evd_disable(s.evd); }},
            {"dat_evd_wait", "without time", wait_in_evd},
            {"dat_evd_dequeue", "", take_event},
            {"dat_evd_post_se", "", [](evd_subject &s) { return post_software(s.evd); }},
            {"dat_evd_resize", "longer", [](evd_subject &s) { return dat_evd_resize(s.evd, 512); }},
            {"dat_evd_resize", "to 1", [](evd_subject &s) { return dat_evd_resize(s.evd, 1); }},
            {"dat_evd_set_unwaitable", "",
             [](evd_subject &s) { return dat_evd_set_unwaitable(s.evd); }},
            {"dat_evd_clear_unwaitable", "",
             [](evd_subject &s) { return dat_evd_clear_unwaitable(s.evd); }},
            {"dat_evd_free", "", [](evd_subject &s) { return dat_evd_free(s.evd); }},
        });
}

std::vector<probing> cno_probings()
{
    return probings_of<cno_subject>(
        "CNO",
        {{"idle", idle_cno},
         {"of an EVD", attached_cno},
         {"triggered", triggered_cno},
         {"a thread waits", awaited_cno},
         {"freed", freed_cno}},
        {
            {"dat_cno_query", "", query_cno},
            {"dat_cno_modify_agent", "",
             [](cno_subject &s) {
                 return dat_cno_modify_agent(s.cno, DAT_OS_WAIT_PROXY_AGENT_NULL);
             }},
            {"dat_cno_wait", "without time", wait_in_cno},
            {"dat_cno_trigger", "", trigger_cno},
            {"dat_cno_free", "", [](cno_subject &s) { return dat_cno_free(s.cno); }},
        });
}

} // namespace conformance
