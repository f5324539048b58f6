// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A consumer of an adapter on the programmable port, and the registry that it is opened through.
#pragma once

#include "calls/counting.hpp"
#include "core/adapter_life.hpp"
#include "core/async_events.hpp"
#include "core/cno.hpp"
#include "core/cr.hpp"
#include "core/endpoint.hpp"
#include "core/evd.hpp"
#include "core/lmr.hpp"
#include "core/rmr.hpp"
#include "core/service_point.hpp"
#include "core/shared_recv_queue.hpp"
#include "dat_calls.hpp"
#include "port.hpp"

#include "../rounds.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace test {

using namespace dapl::programmable;
using namespace dapl::programmable::core;
using test_run::rounds;

enum class line { nonthreadsafe, threadsafe };

/// Everything that a test opens goes through the vector that the provider gave to the registry.
const DAT_PROVIDER &provider(line which);

/// A call to the provider whose failure ends the test.
void must(DAT_RETURN code);

constexpr DAT_RETURN error_code(DAT_RETURN_TYPE type, DAT_RETURN_SUBTYPE subtype = DAT_NO_SUBTYPE)
{
    return status::error(type, subtype).code();
}

/// Runs the call on a thread of its own. False when it hangs; the thread is left behind. A call
/// hangs when it takes half a minute, or half a minute without progress where it counts that.
bool finishes(
    std::function<void()> call, const std::function<int()> &progress = [] { return 0; });

constexpr DAT_EVD_FLAGS flags(unsigned bits)
{
    return static_cast<DAT_EVD_FLAGS>(bits);
}

DAT_DTO_COOKIE cookie(DAT_UINT64 number);

constexpr unsigned merged = DAT_EVD_SOFTWARE_FLAG | DAT_EVD_DTO_FLAG; ///< streams of an EVD
constexpr DAT_CONN_QUAL here = 5;

struct wait_answer {
    DAT_RETURN code;
    DAT_EVENT event;
    DAT_COUNT nmore;
};

/// A proxy agent that counts, and calls what the test wants called.
struct agent {
    DAT_OS_WAIT_PROXY_AGENT value()
    {
        return {this, [](DAT_PVOID me, DAT_EVD_HANDLE by) { static_cast<agent *>(me)->run(by); }};
    }
    void run(DAT_EVD_HANDLE by)
    {
        calls.fetch_add(1);
        if (what)
            what(by);
    }
    std::atomic<int> calls{0};
    std::function<void(DAT_EVD_HANDLE)> what;
};

/// An open adapter. Its end closes it, abruptly if need be, and looks for leavings.
class consumer {
public:
    explicit consumer(line which = line::nonthreadsafe, DAT_COUNT async_qlen = 8);
    consumer(const consumer &) = delete;
    consumer &operator=(const consumer &) = delete;
    ~consumer();

    DAT_RETURN close(DAT_CLOSE_FLAGS how);

    DAT_EVD_HANDLE make_evd(unsigned streams, DAT_COUNT qlen = 16,
                            DAT_CNO_HANDLE cno = DAT_HANDLE_NULL);
    DAT_CNO_HANDLE make_cno(DAT_OS_WAIT_PROXY_AGENT = DAT_OS_WAIT_PROXY_AGENT_NULL);
    DAT_PZ_HANDLE make_pz();
    DAT_PSP_HANDLE make_psp(DAT_CONN_QUAL, DAT_EVD_HANDLE, DAT_PSP_FLAGS = DAT_PSP_CONSUMER_FLAG);

    DAT_RETURN connect(DAT_EP_HANDLE, DAT_CONN_QUAL, DAT_TIMEOUT = DAT_TIMEOUT_INFINITE);
    DAT_RETURN post_recv(DAT_EP_HANDLE, DAT_UINT64 cookie = 0);
    DAT_RETURN post_send(DAT_EP_HANDLE, DAT_UINT64 cookie = 0,
                         DAT_COMPLETION_FLAGS = DAT_COMPLETION_DEFAULT_FLAG);
    DAT_RETURN post_se(DAT_EVD_HANDLE, std::uintptr_t value = 0);
    DAT_RETURN dequeue(DAT_EVD_HANDLE, DAT_EVENT &);
    wait_answer wait(DAT_EVD_HANDLE, DAT_TIMEOUT, DAT_COUNT threshold = 1);
    /// Everything there is, in order.
    std::vector<DAT_EVENT> drain(DAT_EVD_HANDLE);
    DAT_EP_STATE state(DAT_EP_HANDLE);

    const DAT_PROVIDER &v;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
};

/// Made before a thread waits in the EVD: tells when it has looked for events and sleeps.
class sleep_of_waiter {
public:
    explicit sleep_of_waiter(DAT_EVD_HANDLE e) : evd_(*from_handle<evd>(e)), before_(count()) {}
    void await() const
    {
        while (count() == before_)
            std::this_thread::yield();
    }

private:
    DAT_UINT64 count() const { return evd_.counters.read(DCNT_EVD_WAIT_BLOCKED, false); }
    evd &evd_;
    const DAT_UINT64 before_;
};

/// dat_extension_op, as the registry calls the vector.
DAT_RETURN extended(const consumer &c, DAT_HANDLE handle, int op, ...);

/// An endpoint with everything it needs, one EVD per purpose.
struct station {
    explicit station(consumer &c, DAT_COUNT connect_qlen = 16, DAT_COUNT dto_qlen = 64);
    station(consumer &c, DAT_EVD_HANDLE shared_dto, DAT_EVD_HANDLE connections);
    DAT_EP_HANDLE make_ep(const DAT_EP_ATTR *attr = nullptr);
    /// Connected by hand: the port answers ESTABLISHED, the event is taken.
    void connect_by_hand();
    qp &port() { return *find_qp(ep); }
    /// Number of the only event of the connect EVD; 0 when there is none.
    int connect_event();

    consumer &c;
    DAT_PZ_HANDLE pz;
    DAT_EVD_HANDLE recv;
    DAT_EVD_HANDLE request;
    DAT_EVD_HANDLE connections;
    DAT_EP_HANDLE ep;
};

inline DAT_UINT64 cookie_of(const DAT_EVENT &event)
{
    return event.event_data.dto_completion_event_data.user_cookie.as_64;
}
inline DAT_DTO_COMPLETION_STATUS status_of(const DAT_EVENT &event)
{
    return event.event_data.dto_completion_event_data.status;
}

/// The text that a call writes to a descriptor of the process.
template <class Call>
std::string text_written_to(int descriptor, Call &&call)
{
    std::fflush(nullptr);
    const int real = ::dup(descriptor);
    std::FILE *instead = std::tmpfile();
    ::dup2(::fileno(instead), descriptor);
    call();
    std::fflush(nullptr);
    ::dup2(real, descriptor);
    ::close(real);
    std::rewind(instead);
    std::string said;
    for (int c = std::fgetc(instead); c != EOF; c = std::fgetc(instead))
        said += static_cast<char>(c);
    std::fclose(instead);
    return said;
}

/// The text that a call writes to standard error.
template <class Call>
std::string standard_error_of(Call &&call)
{
    return text_written_to(STDERR_FILENO, call);
}

} // namespace test
