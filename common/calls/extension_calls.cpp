// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// dat_extension_op: the operations of the IB extension that this port claims.
#include "checks.hpp"
#include "core/adapter.hpp"
#include "core/adapter_life.hpp"
#include "core/endpoint.hpp"
#include "counting.hpp"
#include "dat_calls.hpp"

namespace dapl::DAPL_TRANSPORT::core {

namespace {

constexpr status unknown_operation = status::error(DAT_NOT_IMPLEMENTED);

// The arguments follow in the order of the macros of dat_ib_extensions.h. An enumeration travels as
// an int.

DAT_COMPLETION_FLAGS next_flags(va_list &from)
{
    return static_cast<DAT_COMPLETION_FLAGS>(va_arg(from, int));
}

/// An operation that is posted, as the consumer gave it.
struct extended_post {
    opcode operation;
    extended_request request;
    DAT_DTO_COOKIE cookie;
};

void read_write_immediate(va_list &from, extended_post &out)
{
    extended_request &request = out.request;
    request.segments = va_arg(from, DAT_COUNT);
    request.local = va_arg(from, DAT_LMR_TRIPLET *);
    out.cookie = va_arg(from, DAT_DTO_COOKIE);
    request.remote = va_arg(from, DAT_RMR_TRIPLET *);
    request.immediate = va_arg(from, DAT_UINT32);
    request.flags = next_flags(from);
}

void read_atomic(va_list &from, extended_post &out)
{
    extended_request &request = out.request;
    request.segments = 1;
    request.add_or_compare = va_arg(from, DAT_UINT64);
    if (out.operation == opcode::compare_swap)
        request.swap = va_arg(from, DAT_UINT64);
    request.local = va_arg(from, DAT_LMR_TRIPLET *);
    out.cookie = va_arg(from, DAT_DTO_COOKIE);
    request.remote = va_arg(from, DAT_RMR_TRIPLET *);
    request.flags = next_flags(from);
}

/// Returns false for what no adapter of this port does.
bool read_request(DAT_EXTENDED_OP op, va_list &from, extended_post &out)
{
    switch (static_cast<int>(op)) {
    case DAT_IB_RDMA_WRITE_IMMED_OP:
        out.operation = opcode::write_immediate;
        read_write_immediate(from, out);
        return claims.immediate_data;
    case DAT_IB_FETCH_AND_ADD_OP:
        out.operation = opcode::fetch_add;
        break;
    case DAT_IB_CMP_AND_SWAP_OP:
        out.operation = opcode::compare_swap;
        break;
    default:
        return false;
    }
    read_atomic(from, out);
    return claims.atomics;
}

/// Whether this device has an operation that the port claims.
bool device_can(const hca_attr &device, opcode operation)
{
    return operation == opcode::write_immediate ? device.immediate_data : device.atomics;
}

void count(endpoint &ep, const extended_post &posted)
{
    if (posted.operation == opcode::fetch_add)
        return ep.counters.add(DCNT_EP_POST_FETCH_ADD);
    if (posted.operation == opcode::compare_swap)
        return ep.counters.add(DCNT_EP_POST_CMP_SWAP);
    ep.counters.add(DCNT_EP_POST_WRITE_IMM);
    ep.counters.add(DCNT_EP_POST_WRITE_IMM_DATA,
                    total_length(posted.request.segments, posted.request.local));
}

// ------------------------------------------------------------------------------------ datagrams

/// Operations of datagram endpoints, of ports that have them.
bool is_datagram_operation(DAT_EXTENDED_OP op)
{
    const int which = static_cast<int>(op);
    return claims.datagrams && (which == DAT_IB_UD_SEND_OP || which == DAT_IB_UD_CM_FREE_OP ||
                                which == DAT_IB_UD_AH_FREE_OP);
}

template <class Safety>
status post_datagram(endpoint &ep, va_list &from)
{
    extended_request wanted;
    wanted.segments = va_arg(from, DAT_COUNT);
    wanted.local = va_arg(from, DAT_LMR_TRIPLET *);
    const auto *to = va_arg(from, DAT_IB_ADDR_HANDLE *);
    const auto cookie = va_arg(from, DAT_DTO_COOKIE);
    wanted.flags = next_flags(from);
    const status posted = ep.datagrams.post<Safety>(to, wanted, cookie);
    if (posted.ok()) {
        ep.counters.add(DCNT_EP_POST_SEND_UD);
        ep.counters.add(DCNT_EP_POST_SEND_UD_DATA, total_length(wanted.segments, wanted.local));
        note_time_of_post(ep);
    }
    return posted;
}

template <class Safety>
status operate_datagrams(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list &from)
{
    endpoint *ep = from_handle<endpoint>(handle);
    const adapter *ia = ep != nullptr ? ep->ia : from_handle<adapter>(handle);
    if (ia != nullptr && ia->attr.max_datagram_size == 0)
        return unknown_operation;
    if (ep == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    switch (static_cast<int>(op)) {
    case DAT_IB_UD_CM_FREE_OP:
        return ep->datagrams.free_context(va_arg(from, DAT_CONTEXT).as_ptr);
    case DAT_IB_UD_AH_FREE_OP:
        return ep->datagrams.free_address(va_arg(from, DAT_IB_ADDR_HANDLE *));
    default:
        return post_datagram<Safety>(*ep, from);
    }
}

// ------------------------------------------------------------------------------- quick queries
//
// dat_ib_open_query opens the device alone. The handle is good for dat_ib_close_query only: it is
// no adapter's for any other call.

struct quick_query {
    explicit quick_query(const provider_line &line) : ia(line) { ia.tag.store(mark::dead); }
    adapter ia;
    quick_query *next = nullptr;
};

osd::mutex queries_lock;
quick_query *queries OSD_GUARDED_BY(queries_lock) = nullptr;

status make_query(const char *name, quick_query *&out)
{
    const provider_line *line = find_line(name, false);
    if (line == nullptr)
        return status::error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
    out = new (std::nothrow) quick_query(*line);
    return out == nullptr ? out_of_memory : out->ia.open_hca();
}

void end_query(quick_query *ended)
{
    if (ended != nullptr)
        ended->ia.close_hca();
    delete ended;
}

/// Reports argument numbers of dat_ia_query, whose masks are at these positions too.
status open_query(const char *name, va_list &from)
{
    auto *out = va_arg(from, DAT_IA_HANDLE *);
    const auto ia_mask = va_arg(from, DAT_IA_ATTR_MASK);
    auto *ia_attr = va_arg(from, DAT_IA_ATTR *);
    const auto provider_mask = va_arg(from, DAT_PROVIDER_ATTR_MASK);
    auto *provider_attr = va_arg(from, DAT_PROVIDER_ATTR *);
    if (name == nullptr)
        return invalid_parameter(1);
    if (out == nullptr)
        return invalid_parameter(2);
    quick_query *opened = nullptr;
    status answer = make_query(name, opened);
    if (answer.ok())
        answer = dapl_ia_query(opened->ia, nullptr, ia_mask, ia_attr, provider_mask, provider_attr);
    if (!answer.ok()) {
        end_query(opened);
        return answer;
    }
    *out = static_cast<DAT_IA_HANDLE>(opened);
    osd::lock_guard hold(queries_lock);
    opened->next = queries;
    queries = opened;
    return success;
}

status close_query(const void *handle)
{
    quick_query *found = nullptr;
    {
        osd::lock_guard hold(queries_lock);
        quick_query **link = &queries;
        while (*link != nullptr && *link != handle)
            link = &(*link)->next;
        found = *link;
        if (found != nullptr)
            *link = found->next;
    }
    if (found == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    end_query(found);
    return success;
}

/// Operations that are about no endpoint. False when this is none.
bool operate_elsewhere(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list &from, DAT_RETURN &code)
{
    switch (static_cast<int>(op)) {
    case DAT_IB_QUERY_COUNTERS_OP:
        code = query_counters(handle, from);
        return true;
    case DAT_IB_PRINT_COUNTERS_OP:
        code = print_counters(handle, from);
        return true;
    case DAT_IB_START_COUNTERS_OP:
        code = sample_counters(handle, true, from);
        return true;
    case DAT_IB_STOP_COUNTERS_OP:
        code = sample_counters(handle, false, from);
        return true;
    case DAT_IB_OPEN_QUERY_OP:
        code = open_query(static_cast<const char *>(handle), from).code();
        return true;
    case DAT_IB_CLOSE_QUERY_OP:
        code = close_query(handle).code();
        return true;
    default:
        return false;
    }
}

} // namespace

template <class Safety>
DAT_RETURN dapl_extension_op(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list arguments)
{
    const osd::cancellation_hold no_cancellation;
    va_list from;
    va_copy(from, arguments);
    DAT_RETURN code = DAT_SUCCESS;
    extended_post wanted{};
    bool elsewhere = operate_elsewhere(handle, op, from, code);
    if (!elsewhere && is_datagram_operation(op)) {
        elsewhere = true;
        code = operate_datagrams<Safety>(handle, op, from).code();
    }
    const bool known = !elsewhere && read_request(op, from, wanted);
    va_end(from);
    if (elsewhere)
        return code;
    if (!known)
        return unknown_operation.code();
    endpoint *ep = from_handle<endpoint>(handle);
    if (ep == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_EP).code();
    if (!device_can(ep->ia->attr, wanted.operation))
        return not_supported.code();
    const status posted =
        ep->post_extended<Safety>(wanted.operation, wanted.request, wanted.cookie);
    if (posted.ok()) {
        count(*ep, wanted);
        note_time_of_post(*ep);
    }
    return posted.code();
}
template DAT_RETURN dapl_extension_op<one_thread_per_object>(DAT_HANDLE, DAT_EXTENDED_OP, va_list);
template DAT_RETURN dapl_extension_op<any_thread>(DAT_HANDLE, DAT_EXTENDED_OP, va_list);

} // namespace dapl::DAPL_TRANSPORT::core
