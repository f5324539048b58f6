// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "trace.hpp"

#include "dapl_debug.hpp"
#include "dat_names.hpp"
#include "osd_descriptor.hpp"
#include "osd_sync.hpp"
#include "osd_system.hpp"
#include "osd_thread.hpp"

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace dapl::DAPL_TRANSPORT::trace {

bool on = false;

namespace {

osd::mutex opening;
int open_hcas = 0;
int output = -1;
std::int64_t began_ns = 0;
std::atomic<unsigned long> empty_polls{0};

/// Opens the file for the trace. A link at this place may lead to someone else's file.
int open_output(const char *where)
{
    if (std::strcmp(where, "-") == 0)
        return STDERR_FILENO;
    const int file = osd::beyond_standard(
        ::open(where, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600));
    if (file < 0)
        dapl_log(DAPL_DBG_TYPE_ERR, "DAPL_TRACE: %s cannot be written: %s; nothing is traced",
                 where, errno == ELOOP ? "it is a link" : std::strerror(errno));
    return file;
}

} // namespace

void begin()
{
    osd::lock_guard hold(opening);
    if (open_hcas++ != 0)
        return;
    char *where = osd::environment("DAPL_TRACE");
    if (where != nullptr && *where != '\0')
        output = open_output(where);
    std::free(where);
    began_ns = osd::now_ns();
    on = output >= 0;
}

void end()
{
    osd::lock_guard hold(opening);
    if (--open_hcas != 0)
        return;
    on = false;
    if (output > STDERR_FILENO)
        ::close(output);
    output = -1;
}

void count_empty()
{
    empty_polls.fetch_add(1, std::memory_order_relaxed);
}

unsigned long take_empty()
{
    return empty_polls.exchange(0, std::memory_order_relaxed);
}

line::line(const char *mark, const char *name)
{
    add("%11.6f %ld %s %s", static_cast<double>(osd::now_ns() - began_ns) / 1e9, osd::thread_id(),
        mark, name);
}

/// Writes the line in one call, so that lines of several threads and processes do not mix. It uses
/// the bare system call: write() is a cancellation point.
line::~line()
{
    if (size_ >= sizeof text_ - 1) {
        size_ = sizeof text_ - 1;
        std::memcpy(text_ + size_ - 3, "...", 3);
    }
    text_[size_++] = '\n';
    (void)::syscall(SYS_write, output, text_, size_);
}

void line::add(const char *format, ...)
{
    if (size_ >= sizeof text_ - 1)
        return;
    std::va_list args;
    va_start(args, format);
    const int length = std::vsnprintf(text_ + size_, sizeof text_ - size_, format, args);
    va_end(args);
    if (length > 0)
        size_ += static_cast<std::size_t>(length);
}

void line::took(std::int64_t since_ns)
{
    add(", %.1f us", static_cast<double>(osd::now_ns() - since_ns) / 1e3);
}

void line::show(const status &value)
{
    const char *type = dat::return_type_name(value.code());
    const char *subtype = dat::return_subtype_name(value.code());
    if (value.ok())
        add("success");
    else if (type == nullptr)
        add("0x%x", static_cast<unsigned>(value.code()));
    else
        add("%s%s%s", type, subtype != nullptr && *subtype != '\0' ? "/" : "",
            subtype != nullptr ? subtype : "");
}

void line::show(const work_request &value)
{
    add("{%s, %u bytes, cookie 0x%llx}", dat::operation_name(dto_of(value.operation)), value.length,
        static_cast<unsigned long long>(value.cookie.as_64));
}

void line::show(const completion &value)
{
    add("{");
    if (value.wr != nullptr)
        show(*value.wr);
    add(": %s, %u bytes", dat::dto_status_name(value.status), value.length);
    if (value.has_immediate)
        add(", immediate 0x%x", value.immediate);
    if (value.invalidated != 0)
        add(", closed window 0x%x", value.invalidated);
    add("}");
}

void line::show(const private_data &value)
{
    add("%zu bytes", value.size);
}

void line::show(const mr_params &value)
{
    add("{%p, %llu bytes, privileges 0x%x}", value.address,
        static_cast<unsigned long long>(value.length), static_cast<unsigned>(value.privileges));
}

void line::show(const mr_keys &value)
{
    add("{local 0x%x, remote 0x%x}", value.local, value.remote);
}

void line::show(const qp_params &value)
{
    add("{%d receives of %d segments, %d requests of %d, reads %d in, %d out}", value.max_recv,
        value.max_recv_iov, value.max_send, value.max_send_iov, value.max_rdma_read_in,
        value.max_rdma_read_out);
}

void line::show(const srq_params &value)
{
    add("{%d receives}", value.max_recv);
}

void line::show(const connect_params &value)
{
    add("{qualifier %llu, timeout %u us, %zu bytes}",
        static_cast<unsigned long long>(value.qualifier), value.timeout_us, value.data.size);
}

void line::show(const cr_params &value)
{
    add("{from port %llu, %zu bytes}", static_cast<unsigned long long>(value.peer_port),
        value.data.size);
}

void line::show(const hca_open_params &value)
{
    add("\"%s\", \"%s\"", value.name, value.params);
}

void line::show(const DAT_RMR_TRIPLET *value)
{
    if (value == nullptr)
        add("null");
    else
        add("{0x%llx, %u bytes, key 0x%x}", static_cast<unsigned long long>(value->virtual_address),
            value->segment_length, value->rmr_context);
}

void line::show(const osd::deadline &value)
{
    if (value.is_never())
        add("no timeout");
    else
        add("%s", value.has_passed() ? "timeout passed" : "timeout set");
}

void line::show(osd::wait_result value)
{
    add("%s", value == osd::wait_result::woken       ? "woken"
              : value == osd::wait_result::timed_out ? "timed out"
                                                     : "interrupted");
}

void line::show(notify_on value)
{
    add("%s", value == notify_on::any ? "any" : "solicited");
}

void line::show(reject_reason value)
{
    add("%s", value == reject_reason::consumer ? "by the consumer" : "not by the consumer");
}

void line::show(DAT_EVENT_NUMBER value)
{
    add("%s", dat::event_name(value));
}

void line::show(DAT_CLOSE_FLAGS value)
{
    add("%s", value == DAT_CLOSE_GRACEFUL_FLAG ? "graceful" : "abrupt");
}

void line::show(bool value)
{
    add("%s", value ? "true" : "false");
}

} // namespace dapl::DAPL_TRANSPORT::trace
