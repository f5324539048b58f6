// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "call_log.hpp"

#include "dapl_debug.hpp"
#include "dat_calls.hpp"
#include "dat_names.hpp"
#include "osd_cancellation.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <type_traits>

namespace dapl::DAPL_TRANSPORT::core {

namespace {

/// A line in the making. What is too long for it is cut.
class line_text {
public:
    void add(const char *format, ...) OSD_PRINTF(2, 3)
    {
        va_list values;
        va_start(values, format);
        const int more = std::vsnprintf(text_ + used_, sizeof text_ - used_, format, values);
        va_end(values);
        used_ = std::min(used_ + static_cast<std::size_t>(std::max(more, 0)), sizeof text_ - 1);
    }
    const char *get() const { return text_; }

private:
    char text_[384] = "";
    std::size_t used_ = 0;
};

template <class T>
void add_argument(line_text &text, const T &value)
{
    if constexpr (std::is_pointer_v<T>)
        text.add(", %p", static_cast<const void *>(value));
    else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>)
        text.add(", %lld", static_cast<long long>(value));
    else if constexpr (std::is_same_v<T, DAT_DTO_COOKIE>)
        text.add(", 0x%llx", static_cast<unsigned long long>(value.as_64));
    else
        text.add(", {}");
}

/// Adds the object or the event that a successful call has given.
template <class T>
void add_result(line_text &text, const T &value)
{
    if constexpr (std::is_same_v<T, DAT_HANDLE *>) {
        if (value != nullptr)
            text.add(", gives %p", *value);
    } else if constexpr (std::is_same_v<T, DAT_EVENT *>) {
        const char *const name = value == nullptr ? nullptr : dat::event_name(value->event_number);
        if (name != nullptr)
            text.add(", gives %s", name);
    }
}

/// Wraps a call. A thread is not cancelled while it logs: it would lose what its wait has found.
template <class Call, auto slot>
struct logged;
template <class Call, class Handle, class... Rest,
          DAT_RETURN (*DAT_PROVIDER::*slot)(Handle, Rest...)>
struct logged<Call, slot> {
    static void called(Handle handle, const Rest &...rest)
    {
        if (!shows(DAPL_DBG_TYPE_API))
            return;
        const osd::cancellation_hold no_cancellation;
        line_text text;
        text.add("%s(%p", Call::name, handle);
        (add_argument(text, rest), ...);
        debug_line("%s)", text.get());
    }
    static void returned(DAT_RETURN code, Handle handle, const Rest &...rest)
    {
        if (!shows(DAPL_DBG_TYPE_RTN))
            return;
        const osd::cancellation_hold no_cancellation;
        line_text text;
        text.add("%s(%p): %s", Call::name, handle, code_text(code).text);
        if (code == DAT_SUCCESS)
            (add_result(text, rest), ...);
        debug_line("%s", text.get());
    }
    static DAT_RETURN made(Handle handle, Rest... rest)
    {
        constexpr bool polls = std::is_same_v<Call, call_evd_dequeue>;
        const object *const named = any_object(handle);
        if constexpr (!polls)
            called(handle, rest...);
        const DAT_RETURN code =
            named == nullptr ? invalid_handle(Call::bad_handle).code()
                             : (reinterpret_cast<const provider_line *>(named->provider)->unlogged.*
                                slot)(handle, rest...);
        if (polls && DAT_GET_TYPE(code) == DAT_QUEUE_EMPTY) // programs ask again and again
            return code;
        if constexpr (polls)
            called(handle, rest...);
        returned(code, handle, rest...);
        return code;
    }
};

struct to_log {
    template <class Call>
    static constexpr auto around = logged<Call, Call::slot>::made;
};

/// The handle may be the name of an adapter, which a quick query opens.
template <class Safety>
DAT_RETURN logged_extension_op(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list arguments)
{
    using log = logged<call_extension_op, call_extension_op::slot>;
    log::called(handle, op, arguments);
    const DAT_RETURN code = dapl_extension_op<Safety>(handle, op, arguments);
    log::returned(code, handle, op, arguments);
    return code;
}

struct call_ia_close {
    static constexpr auto slot = &DAT_PROVIDER::ia_close_func;
    static constexpr DAT_RETURN_SUBTYPE bad_handle = DAT_INVALID_HANDLE_IA;
    static constexpr const char *name = "dat_ia_close";
};

} // namespace

code_text::code_text(DAT_RETURN code)
{
    const char *const type = dat::return_type_name(code);
    const char *const subtype = dat::return_subtype_name(code);
    if (type == nullptr || subtype == nullptr)
        std::snprintf(text, sizeof text, "0x%x", code);
    else
        std::snprintf(text, sizeof text, "%s%s%s", type, *subtype == '\0' ? "" : ", ", subtype);
}

void log_calls(provider_line &line)
{
    if (!shows(DAPL_DBG_TYPE_API | DAPL_DBG_TYPE_RTN))
        return;
    line.unlogged = line.vector;
    log_vector<to_log>(line.vector);
    line.vector.ia_close_func = to_log::around<call_ia_close>;
    line.vector.handle_extendedop_func = line.info.is_thread_safe
                                             ? logged_extension_op<any_thread>
                                             : logged_extension_op<one_thread_per_object>;
}

} // namespace dapl::DAPL_TRANSPORT::core
