// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The calls of DAT that begin and end the counting, store events, or have no place in a provider's
// vector.
#include "calls.hpp"

#include "events.hpp"
#include "osd_annotations.hpp"

#include <csignal>
#include <cstdarg>
#include <dat2/dat_registry.h>
#include <time.h>

namespace dapl::DAPL_TRANSPORT::faults {

void sleep_ms(std::int64_t ms)
{
    const timespec time{ms / 1000, static_cast<long>(ms % 1000) * 1000000};
    ::nanosleep(&time, nullptr);
}

void set_restart(bool restarts)
{
    for (int number = 1; number <= SIGRTMAX; ++number) {
        struct sigaction action {};
        if (::sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_DFL ||
            action.sa_handler == SIG_IGN)
            continue;
        action.sa_flags = restarts ? action.sa_flags | SA_RESTART : action.sa_flags & ~SA_RESTART;
        (void)::sigaction(number, &action, nullptr);
    }
}

DAT_RETURN dequeue_next(DAT_EVD_HANDLE evd, DAT_EVENT &event)
{
    return real<&::dat_evd_dequeue>("dat_evd_dequeue")(evd, &event);
}

namespace {

/// Calls that need no adapter have faults as well.
__attribute__((constructor)) void read_plan()
{
    if (the_plan().read())
        the_plan().open_failed();
}

} // namespace

} // namespace dapl::DAPL_TRANSPORT::faults

using namespace dapl::DAPL_TRANSPORT::faults;

extern "C" {

OSD_EXPORT DAT_RETURN DAT_API dat_ia_openv(const DAT_NAME_PTR given, DAT_COUNT length,
                                           DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia,
                                           DAT_UINT32 major, DAT_UINT32 minor, DAT_BOOLEAN safe)
{
    DAT_NAME_PTR name = given;
    if (!the_plan().read())
        return DAT_CLASS_ERROR | DAT_INVALID_PARAMETER | DAT_INVALID_ARG1;
    const DAT_RETURN code = call_as_planned<subject::dat_ia_openv>(
        real<&::dat_ia_openv>("dat_ia_openv"), name, length, async_evd, ia, major, minor, safe);
    if (code != DAT_SUCCESS)
        the_plan().open_failed();
    return code;
}

OSD_EXPORT DAT_RETURN DAT_API dat_ia_close(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS flags)
{
    const DAT_RETURN code =
        call_as_planned<subject::dat_ia_close>(real<&::dat_ia_close>("dat_ia_close"), ia, flags);
    if (code == DAT_SUCCESS)
        the_plan().device_closed();
    return code;
}

OSD_EXPORT DAT_RETURN DAT_API dat_evd_dequeue(DAT_EVD_HANDLE evd, DAT_EVENT *event)
{
    return take_event(evd, event, [&] {
        return call_as_planned<subject::dat_evd_dequeue>(
            real<&::dat_evd_dequeue>("dat_evd_dequeue"), evd, event);
    });
}

OSD_EXPORT DAT_RETURN DAT_API dat_evd_wait(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout,
                                           DAT_COUNT threshold, DAT_EVENT *event, DAT_COUNT *nmore)
{
    return take_event(evd, event, [&] {
        return call_as_planned<subject::dat_evd_wait>(real<&::dat_evd_wait>("dat_evd_wait"), evd,
                                                      timeout, threshold, event, nmore);
    });
}

/// No operation has more arguments, and each fills a word.
OSD_EXPORT DAT_RETURN DAT_API dat_extension_op(DAT_HANDLE handle, DAT_EXTENDED_OP operation, ...)
{
    void *words[8];
    va_list from;
    va_start(from, operation);
    for (void *&word : words)
        word = va_arg(from, void *);
    va_end(from);
    const auto call = [&](DAT_HANDLE of, DAT_EXTENDED_OP what) {
        return real<&::dat_extension_op>("dat_extension_op")(of, what, words[0], words[1], words[2],
                                                             words[3], words[4], words[5], words[6],
                                                             words[7]);
    };
    return call_as_planned<subject::dat_extension_op>(call, handle, operation);
}

OSD_EXPORT DAT_RETURN DAT_API dat_registry_add_provider(const DAT_PROVIDER *vector,
                                                        const DAT_PROVIDER_INFO *info)
{
    return call_as_planned<subject::dat_registry_add_provider>(
        real<&::dat_registry_add_provider>("dat_registry_add_provider"), vector, info);
}

OSD_EXPORT DAT_RETURN DAT_API dat_registry_remove_provider(const DAT_PROVIDER *vector,
                                                           const DAT_PROVIDER_INFO *info)
{
    return call_as_planned<subject::dat_registry_remove_provider>(
        real<&::dat_registry_remove_provider>("dat_registry_remove_provider"), vector, info);
}

OSD_EXPORT DAT_RETURN DAT_API dat_registry_list_providers(DAT_COUNT most, DAT_COUNT *number,
                                                          DAT_PROVIDER_INFO *list[])
{
    return call_as_planned<subject::dat_registry_list_providers>(
        real<&::dat_registry_list_providers>("dat_registry_list_providers"), most, number, list);
}

OSD_EXPORT DAT_RETURN DAT_API dat_registry_providers_related(const DAT_NAME_PTR first,
                                                             const DAT_NAME_PTR second,
                                                             DAT_HA_RELATIONSHIP *answer)
{
    DAT_NAME_PTR one = first;
    DAT_NAME_PTR other = second;
    return call_as_planned<subject::dat_registry_providers_related>(
        real<&::dat_registry_providers_related>("dat_registry_providers_related"), one, other,
        answer);
}

OSD_EXPORT DAT_RETURN DAT_API dat_strerror(DAT_RETURN value, const char **major, const char **minor)
{
    return call_as_planned<subject::dat_strerror>(real<&::dat_strerror>("dat_strerror"), value,
                                                  major, minor);
}

} // extern "C"
