// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "counting.hpp"

#include "calls.hpp"
#include "core/adapter.hpp"
#include "core/endpoint.hpp"
#include "core/evd.hpp"
#include "core/segments.hpp"
#include "osd_system.hpp"

#include <cinttypes>
#include <cstdio>

namespace dapl::DAPL_TRANSPORT::core {

namespace {

std::atomic<bool> asked_for{false}; // written for each line of dat.conf

// ------------------------------------------------------------------------------------ counting

// An object that a successful call was about is there until another call frees it, and that would
// be the consumer's mistake while this one runs.

endpoint &ep_of(DAT_HANDLE handle)
{
    return *static_cast<endpoint *>(static_cast<object *>(handle));
}

evd &evd_of(DAT_HANDLE handle)
{
    return *static_cast<evd *>(static_cast<object *>(handle));
}

/// Counts a call on the adapter of the object that it names first. Before the call, for after one
/// that frees the object the adapter may be closed.
template <DAT_IA_COUNTERS which, auto call>
struct of_adapter;
template <DAT_IA_COUNTERS which, class... Rest, DAT_RETURN (*call)(DAT_HANDLE, Rest...)>
struct of_adapter<which, call> {
    static DAT_RETURN counted(DAT_HANDLE first, Rest... rest)
    {
        const object *named = any_object(first);
        adapter *const ia = named == nullptr ? nullptr : named->ia;
        if (ia != nullptr)
            ia->counters.add(which);
        const DAT_RETURN code = call(first, rest...);
        if (code != DAT_SUCCESS && ia != nullptr)
            ia->counters.take_back(which);
        return code;
    }
};

/// Counts a call on its endpoint.
template <DAT_EP_COUNTERS which, auto call>
struct of_endpoint;
template <DAT_EP_COUNTERS which, class... Rest, DAT_RETURN (*call)(DAT_HANDLE, Rest...)>
struct of_endpoint<which, call> {
    static DAT_RETURN counted(DAT_HANDLE ep, Rest... rest)
    {
        const DAT_RETURN code = call(ep, rest...);
        if (code == DAT_SUCCESS)
            ep_of(ep).counters.add(which);
        return code;
    }
};

/// Counts an operation and its bytes; the counter of these is the next one.
template <DAT_EP_COUNTERS which, auto call>
struct of_post;
template <DAT_EP_COUNTERS which, class... Rest,
          DAT_RETURN (*call)(DAT_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET *, Rest...)>
struct of_post<which, call> {
    static DAT_RETURN counted(DAT_HANDLE ep, DAT_COUNT segments, DAT_LMR_TRIPLET *local,
                              Rest... rest)
    {
        const DAT_RETURN code = call(ep, segments, local, rest...);
        if (code != DAT_SUCCESS)
            return code;
        ep_of(ep).counters.add(which);
        ep_of(ep).counters.add(which + 1, total_length(segments, local));
        return code;
    }
};

void count_receive(const DAT_DTO_COMPLETION_EVENT_DATA &done, DAT_EP_COUNTERS which)
{
    if (done.status != DAT_DTO_SUCCESS || done.ep_handle == DAT_HANDLE_NULL)
        return;
    ep_of(done.ep_handle).counters.add(which);
    ep_of(done.ep_handle).counters.add(which + 1, done.transfered_length);
}

/// What a connection event says of the adapter.
int counter_of(DAT_EVENT_NUMBER number)
{
    switch (number) {
    case DAT_CONNECTION_REQUEST_EVENT:
        return DCNT_IA_SP_CR;
    case DAT_CONNECTION_EVENT_PEER_REJECTED:
        return DCNT_IA_CM_USER_REJ_RX;
    case DAT_CONNECTION_EVENT_NON_PEER_REJECTED:
        return DCNT_IA_CM_ERR_REFUSED;
    case DAT_CONNECTION_EVENT_TIMED_OUT:
    case DAT_CONNECTION_EVENT_UNREACHABLE:
        return DCNT_IA_CM_ERR_TIMEOUT;
    case DAT_CONNECTION_EVENT_BROKEN:
        return DCNT_IA_CM_ERR_RESET;
    default:
        return -1;
    }
}

/// The consumer has got an event from `from`.
void count_event(evd &from, const DAT_EVENT &event)
{
    const auto &done = event.event_data.dto_completion_event_data;
    if (event.event_number == DAT_DTO_COMPLETION_EVENT) {
        if (done.operation == DAT_DTO_RECEIVE)
            count_receive(done, DCNT_EP_RECV);
    } else if (static_cast<int>(event.event_number) == DAT_IB_DTO_EVENT) {
        if (static_cast<int>(done.operation) == DAT_IB_DTO_RECV_IMMED)
            count_receive(done, DCNT_EP_RECV_RDMA_IMM);
    } else if (const int which = counter_of(event.event_number); which >= 0) {
        from.ia->counters.add(static_cast<std::size_t>(which));
    }
}

template <class Safety>
DAT_RETURN count_dequeue(DAT_EVD_HANDLE handle, DAT_EVENT *event)
{
    const DAT_RETURN code = on_data_path<dapl_evd_dequeue<Safety>>(handle, event);
    const bool found = code == DAT_SUCCESS;
    if (!found && DAT_GET_TYPE(code) != DAT_QUEUE_EMPTY)
        return code;
    evd &from = evd_of(handle);
    from.counters.add(DCNT_EVD_DEQUEUE);
    from.counters.add(found ? DCNT_EVD_DEQUEUE_FOUND : DCNT_EVD_DEQUEUE_NOT_FOUND);
    if (found)
        count_event(from, *event);
    return code;
}

DAT_RETURN count_wait(DAT_EVD_HANDLE handle, DAT_TIMEOUT timeout_us, DAT_COUNT threshold,
                      DAT_EVENT *event, DAT_COUNT *nmore)
{
    const DAT_RETURN code = dapl_evd_wait(handle, timeout_us, threshold, event, nmore);
    const bool expired = DAT_GET_TYPE(code) == DAT_TIMEOUT_EXPIRED;
    if (code != DAT_SUCCESS && !expired)
        return code;
    evd_of(handle).counters.add(DCNT_EVD_WAIT);
    if (!expired)
        count_event(evd_of(handle), *event);
    return code;
}

// ------------------------------------------------------------------------------------- reading

struct counter_name {
    int which;
    const char *text;
};

// Those that are kept. The others of the extension are 0.
constexpr counter_name adapter_names[] = {
    {DCNT_IA_PZ_CREATE, "pz_create"},
    {DCNT_IA_PZ_FREE, "pz_free"},
    {DCNT_IA_LMR_CREATE, "lmr_create"},
    {DCNT_IA_LMR_FREE, "lmr_free"},
    {DCNT_IA_RMR_CREATE, "rmr_create"},
    {DCNT_IA_RMR_FREE, "rmr_free"},
    {DCNT_IA_PSP_CREATE, "psp_create"},
    {DCNT_IA_PSP_CREATE_ANY, "psp_create_any"},
    {DCNT_IA_PSP_FREE, "psp_free"},
    {DCNT_IA_RSP_CREATE, "rsp_create"},
    {DCNT_IA_RSP_FREE, "rsp_free"},
    {DCNT_IA_EVD_CREATE, "evd_create"},
    {DCNT_IA_EVD_FREE, "evd_free"},
    {DCNT_IA_EP_CREATE, "ep_create"},
    {DCNT_IA_EP_FREE, "ep_free"},
    {DCNT_IA_SRQ_CREATE, "srq_create"},
    {DCNT_IA_SRQ_FREE, "srq_free"},
    {DCNT_IA_SP_CR, "sp_cr"},
    {DCNT_IA_SP_CR_ACCEPTED, "sp_cr_accepted"},
    {DCNT_IA_SP_CR_REJECTED, "sp_cr_rejected"},
    {DCNT_IA_ASYNC_ERROR, "async_error"},
    {DCNT_IA_ASYNC_QP_ERROR, "async_qp_error"},
    {DCNT_IA_ASYNC_CQ_ERROR, "async_cq_error"},
    {DCNT_IA_CM_USER_REJ_RX, "cm_user_rej_rx"},
    {DCNT_IA_CM_ERR_REFUSED, "cm_err_refused"},
    {DCNT_IA_CM_ERR_RESET, "cm_err_reset"},
    {DCNT_IA_CM_ERR_TIMEOUT, "cm_err_timeout"},
};
constexpr counter_name endpoint_names[] = {
    {DCNT_EP_CONNECT, "connect"},
    {DCNT_EP_DISCONNECT, "disconnect"},
    {DCNT_EP_POST_SEND, "post_send"},
    {DCNT_EP_POST_SEND_DATA, "post_send_data"},
    {DCNT_EP_POST_RECV, "post_recv"},
    {DCNT_EP_POST_RECV_DATA, "post_recv_data"},
    {DCNT_EP_POST_WRITE, "post_write"},
    {DCNT_EP_POST_WRITE_DATA, "post_write_data"},
    {DCNT_EP_POST_WRITE_IMM, "post_write_imm"},
    {DCNT_EP_POST_WRITE_IMM_DATA, "post_write_imm_data"},
    {DCNT_EP_POST_READ, "post_read"},
    {DCNT_EP_POST_READ_DATA, "post_read_data"},
    {DCNT_EP_POST_CMP_SWAP, "post_cmp_swap"},
    {DCNT_EP_POST_FETCH_ADD, "post_fetch_add"},
    {DCNT_EP_RECV, "recv"},
    {DCNT_EP_RECV_DATA, "recv_data"},
    {DCNT_EP_RECV_RDMA_IMM, "recv_rdma_imm"},
    {DCNT_EP_RECV_RDMA_IMM_DATA, "recv_rdma_imm_data"},
};
constexpr counter_name evd_names[] = {
    {DCNT_EVD_WAIT, "wait"},
    {DCNT_EVD_WAIT_BLOCKED, "wait_blocked"},
    {DCNT_EVD_DEQUEUE, "dequeue"},
    {DCNT_EVD_DEQUEUE_FOUND, "dequeue_found"},
    {DCNT_EVD_DEQUEUE_NOT_FOUND, "dequeue_not_found"},
    {DCNT_EVD_CONN_CALLBACK, "conn_callback"},
    {DCNT_EVD_DTO_CALLBACK, "dto_callback"},
};

/// Calls `then` with the counters of what the handle is of, how many there are, and their names.
template <class Then>
DAT_RETURN with_counters(DAT_HANDLE handle, Then then)
{
    if (!counting())
        return status::error(DAT_NOT_IMPLEMENTED).code();
    if (auto *ia = from_handle<adapter>(handle))
        return then(ia->counters, DCNT_IA_ALL_COUNTERS, "IA", adapter_names);
    if (auto *ep = from_handle<endpoint>(handle))
        return then(ep->counters, DCNT_EP_ALL_COUNTERS, "EP", endpoint_names);
    if (auto *queue = from_handle<evd>(handle))
        return then(queue->counters, DCNT_EVD_ALL_COUNTERS, "EVD", evd_names);
    return status::error(DAT_INVALID_HANDLE).code();
}

} // namespace

void counters_init()
{
    asked_for.store(osd::environment_number("DAPL_COUNTERS", 0) != 0, std::memory_order_relaxed);
}

bool counting()
{
    return asked_for.load(std::memory_order_relaxed);
}

template <class Safety>
void count_calls(DAT_PROVIDER &v)
{
    v.pz_create_func = of_adapter<DCNT_IA_PZ_CREATE, uncancelled<dapl_pz_create>>::counted;
    v.pz_free_func = of_adapter<DCNT_IA_PZ_FREE, uncancelled<dapl_pz_free>>::counted;
    v.lmr_create_func = of_adapter<DCNT_IA_LMR_CREATE, uncancelled<dapl_lmr_create>>::counted;
    v.lmr_free_func = of_adapter<DCNT_IA_LMR_FREE, uncancelled<dapl_lmr_free>>::counted;
    v.rmr_create_func = of_adapter<DCNT_IA_RMR_CREATE, uncancelled<dapl_rmr_create>>::counted;
    v.rmr_free_func = of_adapter<DCNT_IA_RMR_FREE, uncancelled<dapl_rmr_free>>::counted;
    v.psp_create_func = of_adapter<DCNT_IA_PSP_CREATE, uncancelled<dapl_psp_create>>::counted;
    v.psp_create_any_func =
        of_adapter<DCNT_IA_PSP_CREATE_ANY, uncancelled<dapl_psp_create_any>>::counted;
    v.psp_free_func = of_adapter<DCNT_IA_PSP_FREE, uncancelled<dapl_psp_free>>::counted;
    v.rsp_create_func = of_adapter<DCNT_IA_RSP_CREATE, uncancelled<dapl_rsp_create>>::counted;
    v.rsp_free_func = of_adapter<DCNT_IA_RSP_FREE, uncancelled<dapl_rsp_free>>::counted;
    v.evd_create_func = of_adapter<DCNT_IA_EVD_CREATE, uncancelled<dapl_evd_create>>::counted;
    v.evd_free_func = of_adapter<DCNT_IA_EVD_FREE, uncancelled<dapl_evd_free>>::counted;
    v.ep_create_func = of_adapter<DCNT_IA_EP_CREATE, uncancelled<dapl_ep_create>>::counted;
    v.ep_create_with_srq_func =
        of_adapter<DCNT_IA_EP_CREATE, uncancelled<dapl_ep_create_with_srq>>::counted;
    v.ep_free_func = of_adapter<DCNT_IA_EP_FREE, uncancelled<dapl_ep_free>>::counted;
    v.srq_create_func = of_adapter<DCNT_IA_SRQ_CREATE, uncancelled<dapl_srq_create>>::counted;
    v.srq_free_func = of_adapter<DCNT_IA_SRQ_FREE, uncancelled<dapl_srq_free>>::counted;
    v.cr_accept_func = of_adapter<DCNT_IA_SP_CR_ACCEPTED, uncancelled<dapl_cr_accept>>::counted;
    v.cr_reject_func = of_adapter<DCNT_IA_SP_CR_REJECTED, uncancelled<dapl_cr_reject>>::counted;

    v.ep_connect_func = of_endpoint<DCNT_EP_CONNECT, uncancelled<dapl_ep_connect>>::counted;
    v.ep_dup_connect_func = of_endpoint<DCNT_EP_CONNECT, uncancelled<dapl_ep_dup_connect>>::counted;
    v.ep_common_connect_func =
        of_endpoint<DCNT_EP_CONNECT, uncancelled<dapl_ep_common_connect>>::counted;
    v.ep_disconnect_func =
        of_endpoint<DCNT_EP_DISCONNECT, uncancelled<dapl_ep_disconnect>>::counted;
    v.ep_post_send_func =
        of_post<DCNT_EP_POST_SEND, on_data_path<dapl_ep_post_send<Safety>>>::counted;
    v.ep_post_recv_func =
        of_post<DCNT_EP_POST_RECV, on_data_path<dapl_ep_post_recv<Safety>>>::counted;
    v.ep_post_rdma_write_func =
        of_post<DCNT_EP_POST_WRITE, on_data_path<dapl_ep_post_rdma_write<Safety>>>::counted;
    v.ep_post_rdma_read_func =
        of_post<DCNT_EP_POST_READ, on_data_path<dapl_ep_post_rdma_read<Safety>>>::counted;

    v.evd_dequeue_func = count_dequeue<Safety>;
    v.evd_wait_func = count_wait;
}
template void count_calls<one_thread_per_object>(DAT_PROVIDER &);
template void count_calls<any_thread>(DAT_PROVIDER &);

DAT_RETURN query_counters(DAT_HANDLE handle, va_list &from)
{
    const int which = va_arg(from, int);
    DAT_UINT64 *const out = va_arg(from, DAT_UINT64 *);
    const bool reset = va_arg(from, int) != 0;
    return with_counters(handle, [&](auto &counters, int all, const char *, const auto &) {
        if (which < 0 || which > all)
            return invalid_parameter(3).code();
        if (out == nullptr)
            return invalid_parameter(4).code();
        if (which < all)
            *out = counters.read(static_cast<std::size_t>(which), reset);
        for (int i = 0; which == all && i < all; ++i)
            out[i] = counters.read(static_cast<std::size_t>(i), reset);
        return DAT_RETURN{DAT_SUCCESS};
    });
}

DAT_RETURN print_counters(DAT_HANDLE handle, va_list &from)
{
    const int which = va_arg(from, int);
    const bool reset = va_arg(from, int) != 0;
    return with_counters(handle, [&](auto &counters, int all, const char *of, const auto &names) {
        if (which < 0 || which > all)
            return invalid_parameter(3).code();
        for (const counter_name &each : names)
            if (which == each.which || which == all)
                std::printf("%s %p %-20s %" PRIu64 "\n", of, handle, each.text,
                            counters.read(static_cast<std::size_t>(each.which), reset));
        return std::fflush(stdout) == 0 ? DAT_RETURN{DAT_SUCCESS}
                                        : status::error(DAT_INTERNAL_ERROR).code();
    });
}

} // namespace dapl::DAPL_TRANSPORT::core
