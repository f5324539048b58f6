// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "counting.hpp"

#include "core/adapter.hpp"
#include "core/endpoint.hpp"
#include "core/evd.hpp"
#include "dat_calls.hpp"
#include "dat_names.hpp"
#include "osd_system.hpp"
#include "osd_time.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <iterator>

namespace dapl::DAPL_TRANSPORT::core {

namespace {

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

/// Counts a call on the adapter of the object that it names first. It counts before the call: the
/// call may free the object, and the adapter may be closed when it returns.
template <DAT_IA_COUNTERS which, auto call>
struct adapter_call;
template <DAT_IA_COUNTERS which, class... Rest, DAT_RETURN (*call)(DAT_HANDLE, Rest...)>
struct adapter_call<which, call> {
    static DAT_RETURN made(DAT_HANDLE first, Rest... rest)
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
struct endpoint_call;
template <DAT_EP_COUNTERS which, class... Rest, DAT_RETURN (*call)(DAT_HANDLE, Rest...)>
struct endpoint_call<which, call> {
    static DAT_RETURN made(DAT_HANDLE ep, Rest... rest)
    {
        const DAT_RETURN code = call(ep, rest...);
        if (code == DAT_SUCCESS)
            ep_of(ep).counters.add(which);
        return code;
    }
};

/// Counts an operation and its bytes; the counter of the bytes is the next in the enumeration.
template <DAT_EP_COUNTERS which, auto call>
struct post_call;
template <DAT_EP_COUNTERS which, class... Rest,
          DAT_RETURN (*call)(DAT_HANDLE, DAT_COUNT, DAT_LMR_TRIPLET *, Rest...)>
struct post_call<which, call> {
    static DAT_RETURN made(DAT_HANDLE ep, DAT_COUNT segments, DAT_LMR_TRIPLET *local, Rest... rest)
    {
        const DAT_RETURN code = call(ep, segments, local, rest...);
        if (code != DAT_SUCCESS)
            return code;
        ep_of(ep).counters.add(which);
        ep_of(ep).counters.add(which + 1, total_length(segments, local));
        note_posts(ep_of(ep));
        return code;
    }
};
/// Counts an operation whose target is a DAT_RMR_TRIPLET, and its bytes.
template <DAT_EP_COUNTERS which, class... Rest,
          DAT_RETURN (*call)(DAT_HANDLE, const DAT_RMR_TRIPLET *, Rest...)>
struct post_call<which, call> {
    static DAT_RETURN made(DAT_HANDLE ep, const DAT_RMR_TRIPLET *to, Rest... rest)
    {
        const DAT_RETURN code = call(ep, to, rest...);
        if (code != DAT_SUCCESS)
            return code;
        ep_of(ep).counters.add(which);
        ep_of(ep).counters.add(which + 1, to->segment_length);
        note_posts(ep_of(ep));
        return code;
    }
};

/// How the calls of the table are counted.
struct counted {
    template <DAT_IA_COUNTERS which, auto call>
    static constexpr auto of_adapter = adapter_call<which, call>::made;
    template <DAT_EP_COUNTERS which, auto call>
    static constexpr auto of_endpoint = endpoint_call<which, call>::made;
    template <DAT_EP_COUNTERS which, auto call>
    static constexpr auto of_post = post_call<which, call>::made;
};

void count_receive(const DAT_DTO_COMPLETION_EVENT_DATA &done, DAT_EP_COUNTERS which)
{
    if (done.status != DAT_DTO_SUCCESS || done.ep_handle == DAT_HANDLE_NULL)
        return;
    ep_of(done.ep_handle).counters.add(which);
    ep_of(done.ep_handle).counters.add(which + 1, done.transfered_length);
}

/// The counter of a connection event.
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
        if (done.operation == DAT_DTO_RECEIVE || done.operation == DAT_DTO_RECEIVE_WITH_INVALIDATE)
            count_receive(done, DCNT_EP_RECV);
    } else if (static_cast<int>(event.event_number) == DAT_IB_DTO_EVENT) {
        if (static_cast<int>(done.operation) == DAT_IB_DTO_RECV_IMMED)
            count_receive(done, DCNT_EP_RECV_RDMA_IMM);
    } else if (const int which = counter_of(event.event_number); which >= 0) {
        from.ia->counters.add(static_cast<std::size_t>(which));
    }
}

DAT_RETURN count_dequeue(DAT_EVD_HANDLE handle, DAT_EVENT *event)
{
    const DAT_RETURN code = data_path_call<dapl_evd_dequeue, DAT_NO_SUBTYPE>::made(handle, event);
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
    const DAT_RETURN code =
        wait_call<dapl_evd_wait, DAT_NO_SUBTYPE>::made(handle, timeout_us, threshold, event, nmore);
    const bool expired = DAT_GET_TYPE(code) == DAT_TIMEOUT_EXPIRED;
    if (code != DAT_SUCCESS && !expired)
        return code;
    evd_of(handle).counters.add(DCNT_EVD_WAIT);
    if (!expired)
        count_event(evd_of(handle), *event);
    return code;
}

// ------------------------------------------------------------------------------------- reading

adapter_counters &counters_of(adapter &ia)
{
    if constexpr (claims.device_counters) {
        device_counters now;
        transport::dapls_ib_read_counters(ia.hca, now);
        ia.counters.bring(now);
    }
    return ia.counters;
}

/// What the device counts of a connection has no numbers, and is not reset.
void print_device_counters(DAT_HANDLE handle)
{
    qp_counters now;
    if (auto *ep = from_handle<endpoint>(handle); claims.qp_counters && ep != nullptr)
        ep->read_device(now);
    for (const qp_counters::named &each : now)
        std::printf("%p %-28s %" PRIu64 "\n", handle, each.name, each.value);
}

void print_outstanding(DAT_HANDLE ep, const outstanding_posts &found)
{
    const std::int64_t now = osd::now_ns();
    const std::size_t shown = std::min(found.count, std::size(found.oldest));
    for (std::size_t i = 0; i < shown; ++i) {
        const post_times::posted &each = found.oldest[i];
        std::printf("%p outstanding %s, %u bytes, cookie 0x%" PRIx64 ", for %.3f ms\n", ep,
                    dat::operation_name(dto_of(each.operation)), each.length,
                    std::uint64_t{each.cookie.as_64},
                    static_cast<double>(now - each.noted_ns) / 1e6);
    }
    if (found.count != shown)
        std::printf("%p outstanding and younger: %zu %s\n", ep, found.count - shown, found.kind);
}

/// Prints the operations of an endpoint that have not completed, with their ages: a program that
/// hangs shows here what it waits for.
void print_outstanding(DAT_HANDLE handle)
{
    auto *const ep = from_handle<endpoint>(handle);
    if (ep == nullptr)
        return;
    outstanding_posts both[2];
    copy_outstanding(*ep, both);
    for (const outstanding_posts &each : both)
        print_outstanding(handle, each);
}

/// Calls `then` with the counters of what the handle is of, how many there are, and their names.
template <class Then>
DAT_RETURN with_counters(DAT_HANDLE handle, Then then)
{
    if (!counting())
        return status::error(DAT_NOT_IMPLEMENTED).code();
    if (auto *ia = from_handle<adapter>(handle))
        return then(counters_of(*ia), DCNT_IA_ALL_COUNTERS, dat::adapter_counter_name);
    if (auto *ep = from_handle<endpoint>(handle))
        return then(ep->counters, DCNT_EP_ALL_COUNTERS, dat::endpoint_counter_name);
    if (auto *queue = from_handle<evd>(handle))
        return then(queue->counters, DCNT_EVD_ALL_COUNTERS, dat::evd_counter_name);
    return status::error(DAT_INVALID_HANDLE).code();
}

} // namespace

void counters_init()
{
    const auto wanted = osd::environment_number("DAPL_COUNTERS", 0);
    adapter::counts.store(wanted != 0, std::memory_order_relaxed);
    adapter::offers_counters.store(wanted == 2, std::memory_order_relaxed);
}

void note_time_of_post(endpoint &ep)
{
    if (counting())
        note_posts(ep);
}

bool counting()
{
    return adapter::counts.load(std::memory_order_relaxed);
}

template <class Safety>
void count_calls(DAT_PROVIDER &v)
{
    fill_counted<Safety, counted>(v);
    v.evd_dequeue_func = count_dequeue;
    v.evd_wait_func = count_wait;
}
template void count_calls<one_thread_per_object>(DAT_PROVIDER &);
template void count_calls<any_thread>(DAT_PROVIDER &);

DAT_RETURN query_counters(DAT_HANDLE handle, va_list &from)
{
    const int which = va_arg(from, int);
    DAT_UINT64 *const out = va_arg(from, DAT_UINT64 *);
    const bool reset = va_arg(from, int) != 0;
    return with_counters(handle, [&](auto &counters, int all, const auto &) {
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

DAT_RETURN sample_counters(DAT_HANDLE handle, bool wanted, va_list &from)
{
    const int group = va_arg(from, int);
    if (!counting() || !claims.device_counters)
        return status::error(DAT_NOT_IMPLEMENTED).code();
    adapter *const ia = from_handle<adapter>(handle);
    if (ia == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_IA).code();
    if (group == DCNT_IA_CM) // the common layer counts these: no device is asked for them
        return status::error(DAT_NOT_IMPLEMENTED).code();
    if (group != DCNT_IA_LNK && group != DCNT_IA_DIAG)
        return invalid_parameter(3).code();
    device_counters now;
    transport::dapls_ib_read_counters(ia->hca, now);
    ia->counters.sample(static_cast<DAT_IA_COUNTER_TYPE>(group), wanted, now);
    return DAT_SUCCESS;
}

DAT_RETURN print_counters(DAT_HANDLE handle, va_list &from)
{
    const int which = va_arg(from, int);
    const bool reset = va_arg(from, int) != 0;
    return with_counters(handle, [&](auto &counters, int all, const auto &name_of) {
        if (which < 0 || which > all)
            return invalid_parameter(3).code();
        for (int i = 0; i < all; ++i)
            if (const char *name = name_of(i); name != nullptr && (which == i || which == all))
                std::printf("%p %-28s %" PRIu64 "\n", handle, name,
                            counters.read(static_cast<std::size_t>(i), reset));
        if (which == all) {
            print_device_counters(handle);
            print_outstanding(handle);
        }
        return std::fflush(stdout) == 0 ? DAT_RETURN{DAT_SUCCESS}
                                        : status::error(DAT_INTERNAL_ERROR).code();
    });
}

} // namespace dapl::DAPL_TRANSPORT::core
