// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a traced operation writes: see README.md.
#pragma once

#include "dapls_ib.hpp"
#include "osd_annotations.hpp"
#include "osd_time.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>

#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
/// A place where perf, bpftrace or SystemTap can stop, with the object: dapl:NAME.
#define DAPL_TRACE_PROBE(name, object) DTRACE_PROBE1(dapl, name, object)
#else
#define DAPL_TRACE_PROBE(name, object) static_cast<void>(object)
#endif

namespace dapl::DAPL_TRANSPORT::trace {

/// Changes while no hca is open.
extern bool on __attribute__((visibility("hidden")));

OSD_ALWAYS_INLINE bool is_on()
{
    return on;
}
/// The first hca that is open looks at DAPL_TRACE; when the last one closes, the file is closed.
void begin() OSD_COLD;
void end() OSD_COLD;

/// Around open_hca, whose answer is assigned to it.
class opened_hca {
public:
    opened_hca() { begin(); }
    opened_hca(const opened_hca &) = delete;
    ~opened_hca()
    {
        if (failed_)
            end();
    }
    status operator=(const status &answer)
    {
        failed_ = !answer.ok();
        return answer;
    }

private:
    bool failed_ = true;
};
/// Traces close_hca; the object lives around it.
class closed_hca {
public:
    closed_hca() = default;
    closed_hca(const closed_hca &) = delete;
    closed_hca &operator=(const closed_hca &) = delete;
    ~closed_hca() { end(); }
};

/// One line, written when it ends. A line that is too long ends in dots.
class line {
public:
    explicit line(const char *mark, const char *name);
    line(const line &) = delete;
    line &operator=(const line &) = delete;
    ~line();

    template <class... Args>
    void arguments(const Args &...args)
    {
        add("(");
        const char *between = "";
        ((add("%s", between), show(args), between = ", "), ...);
        add(")");
    }
    template <class Result>
    void result(const Result &value)
    {
        add(" = ");
        show(value);
    }
    void took(std::int64_t began_ns);
    void add(const char *format, ...) __attribute__((format(printf, 2, 3)));

private:
    void show(const status &);
    void show(const work_request &);
    void show(const completion &);
    void show(const private_data &);
    void show(const mr_params &);
    void show(const mr_keys &);
    void show(const qp_params &);
    void show(const srq_params &);
    void show(const connect_params &);
    void show(const cr_params &);
    void show(const hca_open_params &);
    void show(const DAT_RMR_TRIPLET *);
    void show(const osd::deadline &);
    void show(osd::wait_result);
    void show(notify_on);
    void show(reject_reason);
    void show(DAT_EVENT_NUMBER);
    void show(DAT_CLOSE_FLAGS);
    void show(bool);
    template <class T>
    void show(const T &value)
    {
        // Compares pointers: some of the types are only declared here.
        if constexpr (std::is_convertible_v<const T *, const work_request *>)
            show(static_cast<const work_request &>(value));
        else if constexpr (std::is_enum_v<T>)
            add("0x%llx", static_cast<unsigned long long>(value));
        else if constexpr (std::is_integral_v<T>)
            add(std::is_signed_v<T> ? "%lld" : "%llu", static_cast<long long>(value));
        else if constexpr (std::is_pointer_v<T>)
            add("%p", static_cast<const void *>(value));
        else
            add("%p", static_cast<const void *>(&value));
    }

    char text_[400];
    std::size_t size_ = 0;
};

/// Polls that found nothing are counted, not shown.
void count_empty();
unsigned long take_empty();

/// An operation that may block or make upcalls: a line when it begins and one when it ends.
template <class Make, class... Args>
OSD_COLD auto call(const char *name, Make make, const Args &...args)
{
    line(">", name).arguments(args...);
    const std::int64_t began_ns = osd::now_ns();
    if constexpr (std::is_void_v<decltype(make())>) {
        make();
        line("<", name).took(began_ns);
    } else {
        const auto answer = make();
        line ended("<", name);
        ended.result(answer);
        ended.took(began_ns);
        return answer;
    }
}

/// Traces a call that makes no upcall, in one line. Its arguments are looked at before: they may be
/// used again at once.
template <class Make, class... Args>
OSD_COLD auto hot(const char *name, Make make, const Args &...args)
{
    line only("-", name);
    only.arguments(args...);
    const std::int64_t began_ns = osd::now_ns();
    if constexpr (std::is_void_v<decltype(make())>) {
        make();
        only.took(began_ns);
    } else {
        const auto answer = make();
        only.result(answer);
        only.took(began_ns);
        return answer;
    }
}

/// Traces completion_poll.
template <class Make, class Cq>
OSD_COLD bool poll(const char *name, Make make, const Cq &c, const completion &found)
{
    const std::int64_t began_ns = osd::now_ns();
    if (!make()) {
        count_empty();
        return false;
    }
    line only("-", name);
    only.arguments(c, found);
    only.took(began_ns);
    if (const unsigned long empty = take_empty(); empty != 0)
        only.add(", after %lu polls that found nothing", empty);
    return true;
}

} // namespace dapl::DAPL_TRANSPORT::trace
