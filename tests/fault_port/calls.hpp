// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the calls of DAT do when the plan has a fault for them: the functions of libdat2, preloaded.
#pragma once

#include "plan.hpp"
#include "spoil_dat.hpp"

#include "spoil_one.hpp" // comes after the overloads

#include <cstdint>
#include <dlfcn.h>
#include <type_traits>

namespace dapl::DAPL_TRANSPORT::faults {

void sleep_ms(std::int64_t ms);
/// Turns SA_RESTART on or off for all present handlers, for good.
void set_restart(bool restarts);

/// The function of libdat2 that has this one's name.
template <auto own>
auto real(const char *name)
{
    static const auto found = reinterpret_cast<decltype(own)>(::dlsym(RTLD_NEXT, name));
    return found;
}

template <class T>
void spoil_stored(T &)
{}
template <class T>
void spoil_stored(T *&at)
{
    if constexpr (!std::is_const_v<T> && !std::is_void_v<T>)
        if (at != nullptr)
            spoil(*at);
}

template <class... Args>
void spoil_stored_at(std::int64_t place, Args &...args)
{
    std::int64_t at = 0;
    ((at++ == place ? spoil_stored(args) : void()), ...);
}

/// Timeouts and empty queues are no errors.
inline bool is_error(DAT_RETURN code)
{
    return (code & DAT_CLASS_ERROR) != 0;
}

/// The answer of a call that was made.
template <class... Args>
DAT_RETURN answered(const fault &due, DAT_RETURN code, Args &...args)
{
    switch (due.does) {
    case action::answer:
        return due.code;
    case action::refusal:
        return is_error(code) ? due.code : code;
    case action::outcome:
        return code != DAT_SUCCESS && !is_error(code) ? due.code : code;
    case action::accepts:
        return is_error(code) ? DAT_RETURN{DAT_SUCCESS} : code;
    case action::out:
    case action::stores:
        if (is_error(code) == (due.does == action::stores))
            spoil_stored_at(due.amount, args...);
        return code;
    default:
        return code;
    }
}

template <class Call, class... Args>
DAT_RETURN call_with(const fault &due, Call call, Args &...args)
{
    switch (due.does) {
    case action::fail:
        return due.code;
    case action::skip:
        return DAT_SUCCESS;
    case action::argument:
        return with_spoiled(due.amount, call, args...);
    case action::unrestarted:
    case action::restarted:
        set_restart(due.does == action::restarted);
        break;
    case action::slow:
        sleep_ms(due.amount);
        break;
    case action::twice:
        (void)call(args...);
        break;
    default:
        break;
    }
    const DAT_RETURN code = call(args...);
    return answered(due, code, args...);
}

template <subject what, class Call, class... Args>
DAT_RETURN call_as_planned(Call call, Args &...args)
{
    const fault *const due = the_plan().due(what);
    return due == nullptr ? call(args...) : call_with(*due, call, args...);
}

} // namespace dapl::DAPL_TRANSPORT::faults
