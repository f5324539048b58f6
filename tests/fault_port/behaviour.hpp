// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the wrapper's operations and upcalls do when the plan has a fault for them.
#pragma once

#include "plan.hpp"
#include "spoil.hpp"
#include "wrapped_objects.hpp"

#include "osd_time.hpp"

#include <tuple>
#include <type_traits>

namespace dapl::DAPL_TRANSPORT::faults {

void sleep_ms(std::int64_t ms);
/// Refuses requests for a service point from now on: it is gone, although its listener is not.
void stop_requests(service_point &);
void allow_requests(service_point &);
bool has_stopped(const service_point &);
/// The CQ is as if it were armed only after that time.
void arm_late(cq_object &, std::int64_t ms);
/// Whether a notification comes from a CQ that is not armed yet. It is armed again then.
bool comes_too_soon(const evd &);
/// The code and threads of this library stay when it is unloaded.
void keep_library();

// ------------------------------------------------------------------------------------ operations

/// Whether an upcall comes now without a reason.
inline bool comes_early(subject upcall)
{
    return the_plan().is_early(upcall);
}

template <subject what, class... Args>
void after_success(Args &...args)
{
    const inside_upcall early;
    auto all = std::tie(args...);
    if constexpr (what == subject::open_hca) {
        std::get<0>(all).owner = std::get<1>(all).owner;
    } else if constexpr (what == subject::pd_alloc) {
        if (comes_early(subject::evd_un_async_error_callback))
            dapl_evd_un_async_error_callback(*std::get<0>(all).owner);
    } else if constexpr (what == subject::cq_alloc) {
        std::get<1>(all).owner = &std::get<2>(all);
        if (comes_early(subject::evd_cq_async_error_callback))
            dapl_evd_cq_async_error_callback(std::get<2>(all));
    } else if constexpr (what == subject::qp_alloc) {
        std::get<1>(all).owner = std::get<5>(all).owner;
        if (std::get<2>(all) != nullptr && comes_early(subject::evd_dto_callback))
            dapl_evd_dto_callback(*std::get<2>(all)->owner);
    } else if constexpr (what == subject::srq_alloc) {
        std::get<1>(all).owner = std::get<2>(all).owner;
    } else if constexpr (what == subject::srq_set_limit) {
        if (comes_early(subject::srq_limit_callback))
            dapl_srq_limit_callback(*std::get<0>(all).owner);
    } else if constexpr (what == subject::qp_set_watermarks) {
        if (comes_early(subject::ep_watermark_callback))
            dapl_ep_watermark_callback(*std::get<0>(all).owner);
    } else if constexpr (what == subject::exchange_begin) {
        if (comes_early(subject::datagram_peer_callback))
            dapl_datagram_peer_callback(std::get<2>(all), DAT_CONNECTION_EVENT_UNREACHABLE, {}, {});
    } else if constexpr (what == subject::connect) {
        if (comes_early(subject::evd_connection_callback))
            dapl_evd_connection_callback(*std::get<0>(all).owner, DAT_CONNECTION_EVENT_ESTABLISHED,
                                         {});
    }
}

/// Does to a call what a fault says; `call` makes it.
template <class Call, class... Args>
auto call_with(const fault &due, Call call, Args &...args) -> decltype(call(args...))
{
    using result = decltype(call(args...));
    if constexpr (std::is_same_v<result, status>)
        if (due.does == action::fail)
            return status(due.code);
    if (std::is_same_v<result, osd::wait_result> && due.does == action::skip)
        sleep_ms(1); // it may return early, but not keep others from the processor
    if (due.does == action::skip)
        return result();
    if (due.does == action::slow)
        sleep_ms(due.amount);
    if constexpr (sizeof...(args) == 2)
        if (due.does == action::late)
            if constexpr (std::is_same_v<std::tuple_element_t<0, std::tuple<Args...>>, cq_object>)
                arm_late(std::get<0>(std::tie(args...)), due.amount);
    if (due.does == action::argument)
        return with_spoiled(due.amount, call, args...);
    if constexpr (std::is_void_v<result>) {
        call(args...);
        if (due.does == action::out)
            spoil_one(due.amount, args...);
    } else {
        result answer = call(args...);
        if (due.does == action::out)
            spoil_one(due.amount, args...);
        if (due.does == action::wrong)
            spoil(answer);
        return answer;
    }
}

template <subject what, class Call, class... Args>
auto call_as_planned(Call call, Args &...args) -> decltype(call(args...))
{
    fault *due = the_plan().due(what);
    if constexpr (std::is_same_v<decltype(call(args...)), status>)
        if (fault *const any = the_plan().due(subject::any); due == nullptr)
            due = any;
    return due == nullptr ? call(args...) : call_with(*due, call, args...);
}

bool poll_as_planned(cq_object &, completion &);

/// A failed open is no open.
template <class Call, class Hca, class Params>
status open_as_planned(Call call, Hca &hca, const Params &params)
{
    if (!the_plan().read())
        return invalid_parameter(1);
    if (the_plan().has_chance())
        keep_library(); // keeps the counts of the plan
    const status opened = call_as_planned<subject::open_hca>(call, hca, params);
    if (opened.ok())
        after_success<subject::open_hca>(hca, params);
    else
        the_plan().open_failed();
    return opened;
}

template <subject what, class Call, class... Args>
auto perform(Call call, Args &...args) -> decltype(call(args...))
{
    using result = decltype(call(args...));
    auto all = std::tie(args...);
    if constexpr (what == subject::open_hca) {
        return open_as_planned(call, args...);
    } else if constexpr (what == subject::completion_poll) {
        if (the_plan().touches_completions())
            return poll_as_planned(args...);
        return call_as_planned<what>(call, args...);
    } else if constexpr (what == subject::completion_take) {
        return the_plan().touches_completions() ? take_result::other
                                                : call_as_planned<what>(call, args...);
    } else if constexpr (what == subject::cq_count) {
        return call_as_planned<what>(call, args...) + std::get<0>(all).held();
    } else if constexpr (what == subject::cq_wait) {
        std::get<3>(all) = std::get<0>(all).earlier(std::get<3>(all));
        return call_as_planned<what>(call, args...);
    } else if constexpr (std::is_same_v<result, status>) {
        if constexpr (what == subject::setup_conn_listener) {
            std::get<1>(all).owner = &std::get<2>(all);
            allow_requests(std::get<2>(all));
        }
        const status done = call_as_planned<what>(call, args...);
        if (done.ok())
            after_success<what>(args...);
        return done;
    } else if constexpr (std::is_void_v<result>) {
        call_as_planned<what>(call, args...);
        after_success<what>(args...);
    } else {
        return call_as_planned<what>(call, args...);
    }
}

/// An object that is not freed is kept, so that the wrapped port may go on with it.
template <subject what, class Call, class Object>
void end(Call call, Object &object)
{
    const fault *const due = the_plan().due(what);
    if (what == subject::close_hca)
        the_plan().device_closed();
    if (due != nullptr && due->does == action::skip) {
        if constexpr (what == subject::remove_conn_listener)
            stop_requests(*object.owner);
        if constexpr (what == subject::close_hca)
            keep_library();
        object.leave();
        return;
    }
    if (due != nullptr && due->does == action::slow)
        sleep_ms(due->amount);
    call(object);
    object.of.reset();
}

// --------------------------------------------------------------------------------------- upcalls

template <subject what, class Call, class... Args>
auto pass_on(Call call, Args &...args) -> decltype(call(args...))
{
    const inside_upcall now;
    auto all = std::tie(args...);
    if constexpr (what == subject::cr_callback)
        if (has_stopped(std::get<0>(all)))
            return false;
    if constexpr (what == subject::evd_dto_callback)
        if (comes_too_soon(std::get<0>(all)))
            return;
    const fault *const due = the_plan().due(what);
    if (due == nullptr) {
        if constexpr (what == subject::evd_connection_callback) {
            call(args...);
            if (std::get<1>(all) == DAT_CONNECTION_EVENT_ESTABLISHED &&
                comes_early(subject::evd_qp_async_error_callback))
                dapl_evd_qp_async_error_callback(std::get<0>(all));
            return;
        } else {
            return call(args...);
        }
    }
    if constexpr (what == subject::evd_connection_callback ||
                  what == subject::datagram_peer_callback)
        if (due->does == action::event)
            std::get<1>(all) = static_cast<DAT_EVENT_NUMBER>(due->amount);
    if constexpr (what != subject::cr_callback)
        if (due->does == action::twice)
            call(args...);
    return call_with(*due, call, args...);
}

} // namespace dapl::DAPL_TRANSPORT::faults
