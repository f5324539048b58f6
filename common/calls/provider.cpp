// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the registry sees of a provider library: init and fini, and a vector of functions for each
// adapter line of dat.conf.
#include "call_log.hpp"
#include "core/adapter_life.hpp"
#include "counting.hpp"
#include "dapl_debug.hpp"
#include "dapl_line_limit.hpp"
#include "dat_calls.hpp"
#include "osd_system.hpp"
#include "osd_thread.hpp"
#include "osd_time.hpp"

#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

extern "C" {
OSD_EXPORT void dat_provider_init(const DAT_PROVIDER_INFO *info, const char *params);
OSD_EXPORT void dat_provider_fini(const DAT_PROVIDER_INFO *info);
OSD_EXPORT DAT_RETURN dapl_extensions(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list arguments);
}

namespace dapl::DAPL_TRANSPORT::core {

namespace {

osd::mutex lines_lock;
provider_line *lines OSD_GUARDED_BY(lines_lock) = nullptr;
void *kept_loaded OSD_GUARDED_BY(lines_lock) = nullptr;
long loaded_by = 0; // process; a forked child owns nothing of ours

bool same_line(const DAT_PROVIDER_INFO &a, const DAT_PROVIDER_INFO &b)
{
    return std::strcmp(a.ia_name, b.ia_name) == 0 && !a.is_thread_safe == !b.is_thread_safe;
}

/// The registry passes the name alone, so each promise about threads has an open of its own.
template <class Safety>
DAT_RETURN open_ia(const DAT_NAME_PTR name, DAT_COUNT async_qlen, DAT_EVD_HANDLE *async_evd,
                   DAT_IA_HANDLE *out)
{
    const osd::cancellation_hold no_cancellation;
    if (name == nullptr)
        return invalid_parameter(1).code();
    dapl_log(DAPL_DBG_TYPE_API, "dat_ia_open(%s)", name);
    const provider_line *line = find_line(name, Safety::locks);
    const status opened = line == nullptr
                              ? status::error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED)
                              : open_adapter(*line, async_qlen, async_evd, out);
    dapl_log(DAPL_DBG_TYPE_RTN, "dat_ia_open(%s): %s, gives %p", name,
             code_text(opened.code()).text, opened.ok() ? *out : nullptr);
    return opened.code();
}

template <class Safety>
void make_vector(DAT_PROVIDER &out)
{
    out.ia_open_func = open_ia<Safety>;
    out.ia_close_func = ending_call<close_adapter, DAT_INVALID_HANDLE_IA>::made;
    out.ia_ha_related_func = control_call<dapl_ia_ha_related, DAT_INVALID_HANDLE_IA>::made;
    out.handle_extendedop_func = dapl_extension_op<Safety>;
    fill_vector<Safety>(out);
    if (counting())
        count_calls<Safety>(out);
}

// ------------------------------------------------------------------------------- forked children
//
// An object that a child has inherited is the parent's: a post would be sent in the place of the
// parent's next one, and locks may be held by threads that the child has not.

line_limit child_refusals; // covers all lines of dat.conf

status refuse_in_child(const char *call, const void *handle) OSD_COLD;
status refuse_in_child(const char *call, const void *handle)
{
    std::uint32_t left_out = 0;
    if (shows(DAPL_DBG_TYPE_ERR) && child_refusals.allows(osd::now_ns(), left_out))
        debug_line(
            "%s: %p is refused, DAT_INVALID_STATE: it is of the process that has forked this "
            "one, which can use an adapter that it opens itself; %u such lines were left out "
            "before",
            call, handle, left_out);
    return status::error(DAT_INVALID_STATE);
}

/// Wraps a call for forked children, in which it is refused on inherited objects.
template <class Call, auto slot>
struct guarded;
template <class Call, class Handle, class... Rest,
          DAT_RETURN (*DAT_PROVIDER::*slot)(Handle, Rest...)>
struct guarded<Call, slot> {
    static DAT_RETURN made(Handle handle, Rest... rest)
    {
        const object *named = any_object(handle);
        if (named == nullptr)
            return invalid_handle(Call::bad_handle).code();
        if (named->ia->is_from_before_fork())
            return refuse_in_child(Call::name, handle).code();
        return (reinterpret_cast<const provider_line *>(named->provider)->unguarded.*slot)(handle,
                                                                                           rest...);
    }
};
struct in_child {
    template <class Call>
    static constexpr auto around = guarded<Call, Call::slot>::made;
};

/// A quick query is opened by the name of an adapter, which is no object.
DAT_RETURN extension_op_in_child(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list arguments)
{
    if (static_cast<int>(op) == DAT_IB_OPEN_QUERY_OP ||
        static_cast<int>(op) == DAT_IB_CLOSE_QUERY_OP)
        return dapl_extension_op<any_thread>(handle, op, arguments);
    return in_child::around<call_extension_op>(handle, op, arguments);
}

/// Guards the lines of dat.conf that the parent registered. No thread holds their lock here, or the
/// one of child_refusals, or will ever give them back.
void guard_lines() OSD_UNCHECKED
{
    ++adapter::forks;
    new (&child_refusals) line_limit;
    for (provider_line *line = lines; line != nullptr; line = line->next) {
        if (line->is_guarded)
            continue;
        line->unguarded = line->vector;
        line->is_guarded = true;
        guard_vector<in_child>(line->vector);
        line->vector.handle_extendedop_func = extension_op_in_child;
    }
}

provider_line *make_line(const DAT_PROVIDER_INFO &info, const char *params)
{
    auto *line = new (std::nothrow) provider_line{};
    if (line == nullptr)
        return nullptr;
    line->info = info;
    if (info.is_thread_safe)
        make_vector<any_thread>(line->vector);
    else
        make_vector<one_thread_per_object>(line->vector);
    log_calls(*line);
    line->vector.device_name = line->info.ia_name; // the registry finds the line again by it
    line->params = osd::copy_text(params == nullptr ? "" : params);
    if (line->params == nullptr) {
        delete line;
        return nullptr;
    }
    return line;
}

void watch_for_forks()
{
    static bool watches = false; // the registry loads one provider at a time
    if (!watches)
        watches = osd::call_in_forked_children(guard_lines);
    if (!watches)
        dapl_log(DAPL_DBG_TYPE_ERR,
                 "no memory: a forked child is not kept from using its parent's objects");
}

void free_line(provider_line *line)
{
    std::free(line->params);
    delete line;
}

void register_line(const DAT_PROVIDER_INFO &info, const char *params)
{
    provider_line *line = make_line(info, params);
    if (line == nullptr) {
        dapl_log(DAPL_DBG_TYPE_ERR, "no memory for adapter %s", info.ia_name);
        return;
    }
    {
        osd::lock_guard hold(lines_lock);
        line->next = lines;
        lines = line;
    }
    dapl_log(DAPL_DBG_TYPE_UTIL,
             "adapter %s, %sthreadsafe: ia_params \"%s\"; DAPL_DBG_TYPE 0x%x, DAPL_COUNTERS %d",
             info.ia_name, info.is_thread_safe ? "" : "non", line->params, debug_mask.load(),
             counting());
    const status added{dat_registry_add_provider(&line->vector, &line->info)};
    if (!added.ok())
        dapl_log(DAPL_DBG_TYPE_ERR, "the registry refuses adapter %s: 0x%x", info.ia_name,
                 added.code());
}

void remove_line(const DAT_PROVIDER_INFO &info)
{
    provider_line *gone = nullptr;
    {
        osd::lock_guard hold(lines_lock);
        for (provider_line **link = &lines; *link != nullptr; link = &(*link)->next)
            if (same_line((*link)->info, info)) {
                gone = *link;
                *link = gone->next;
                break;
            }
    }
    if (gone == nullptr)
        return;
    (void)dat_registry_remove_provider(&gone->vector, &gone->info);
    free_line(gone);
}

/// The registry has loaded the library again, which keeps it in memory for threads that left late.
void end_keeping_loaded()
{
    void *kept = nullptr;
    {
        osd::lock_guard hold(lines_lock);
        std::swap(kept, kept_loaded);
    }
    if (kept != nullptr)
        osd::library_close(kept);
}

} // namespace

const provider_line *find_line(const char *name, bool thread_safe)
{
    osd::lock_guard hold(lines_lock);
    for (const provider_line *line = lines; line != nullptr; line = line->next)
        if (std::strcmp(line->info.ia_name, name) == 0 &&
            (line->info.is_thread_safe == DAT_TRUE) == thread_safe)
            return line;
    return nullptr;
}

void outlive_leaving_threads()
{
    osd::lock_guard hold(lines_lock);
    if (kept_loaded == nullptr)
        kept_loaded = osd::library_hold(&lines);
}

void stay_loaded()
{
    (void)osd::library_hold(&lines);
}

} // namespace dapl::DAPL_TRANSPORT::core

void dat_provider_init(const DAT_PROVIDER_INFO *info, const char *params)
{
    using namespace dapl::DAPL_TRANSPORT;
    using namespace dapl::DAPL_TRANSPORT::core;
    debug_init();
    counters_init();
    watch_for_forks();
    loaded_by = osd::process_id();
    end_keeping_loaded();
    register_line(*info, params);
}

void dat_provider_fini(const DAT_PROVIDER_INFO *info)
{
    using namespace dapl::DAPL_TRANSPORT::core;
    if (loaded_by == osd::process_id())
        remove_line(*info);
}

DAT_RETURN dapl_extensions(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list arguments)
{
    using namespace dapl::DAPL_TRANSPORT::core;
    return dapl_extension_op<any_thread>(handle, op, arguments);
}
