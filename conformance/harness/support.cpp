// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/support.hpp"

#include "dat_names.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <unistd.h>

namespace conformance {

// ------------------------------------------------------------------------------------ settings

bool settings::promised(const std::string &what) const
{
    return std::find(promises.begin(), promises.end(), what) != promises.end();
}

settings &the_settings()
{
    static settings instance;
    return instance;
}

// ------------------------------------------------------------------------------- about a case

namespace {

judge *watching_judge = nullptr;
last_step own_step{nullptr};
last_step *step_place = &own_step;

} // namespace

void set_judge(judge *watching)
{
    watching_judge = watching;
}

void tell_not_claimed(const std::string &what)
{
    if (watching_judge != nullptr)
        watching_judge->not_claimed(what);
    else
        MESSAGE("this adapter does not claim ", what);
}

void allow_seconds(unsigned seconds)
{
    if (watching_judge != nullptr)
        watching_judge->allow_seconds(seconds);
    else
        ::alarm(seconds);
}

void note_steps_in(last_step *place)
{
    step_place = place;
}

void note(const step &next)
{
    step_place->store(&next, std::memory_order_relaxed);
}

// --------------------------------------------------------------------------------------- codes

std::string code_name(DAT_RETURN code)
{
    const char *major = nullptr;
    const char *minor = nullptr;
    char number[16];
    std::snprintf(number, sizeof number, "0x%08x", code);
    if (dat_strerror(code, &major, &minor) != DAT_SUCCESS || major == nullptr)
        return number;
    std::string name = major;
    if (minor != nullptr && *minor != '\0')
        name += std::string("/") + minor;
    if (code != DAT_SUCCESS && (code & DAT_CLASS_ERROR) == 0)
        name += " (bare)";
    return name;
}

doctest::String toString(const verdict &compared)
{
    return compared.text.c_str();
}

verdict same_code(DAT_RETURN actual, DAT_RETURN expected)
{
    return {actual == expected, "got " + code_name(actual) + ", want " + code_name(expected)};
}

bool refused(DAT_RETURN code)
{
    if (code == DAT_SUCCESS)
        return false;
    const bool proper = code == not_supported || code == error(DAT_NOT_IMPLEMENTED);
    CHECK_MESSAGE(proper, "refused with ", code_name(code), ", want ", code_name(not_supported));
    return true;
}

verdict same_type(DAT_RETURN actual, DAT_RETURN_TYPE expected)
{
    const bool same = (actual & DAT_CLASS_ERROR) != 0 && DAT_GET_TYPE(actual) == expected;
    return {same, "got " + code_name(actual) + ", want any " + code_name(error(expected))};
}

verdict same_outcome(DAT_RETURN actual, DAT_RETURN_TYPE expected)
{
    return {DAT_GET_TYPE(actual) == expected,
            "got " + code_name(actual) + ", want " + code_name(expected)};
}

verdict same_event(DAT_EVENT_NUMBER actual, DAT_EVENT_NUMBER expected)
{
    return {actual == expected,
            std::string("got ") + dat::event_name(actual) + ", want " + dat::event_name(expected)};
}

namespace {

bool is_peer = false;

} // namespace

void this_is_a_peer()
{
    is_peer = true;
}

void give_up(const std::string &why, const char *file, int line)
{
    if (is_peer) {
        std::fprintf(stderr, "peer: %s:%d: %s\n", file, line, why.c_str());
        std::_Exit(3);
    }
    DOCTEST_ADD_FAIL_AT(file, line, why);
    std::abort(); // the line above throws
}

namespace {

/// The name of the function in "MUST(dat_pz_create(ia, &pz))".
std::string callee(const step &at)
{
    const std::string call = at.call;
    return call.substr(0, call.find('('));
}

} // namespace

void must_succeed(DAT_RETURN code, const step &at)
{
    if (code == not_supported && watching_judge != nullptr)
        watching_judge->decline(callee(at));
    if (code != DAT_SUCCESS)
        give_up(std::string(at.call) + ": " + code_name(code), at.file, at.line);
}

void *find_symbol(const char *name)
{
    return ::dlsym(RTLD_DEFAULT, name);
}

// -------------------------------------------------------------------------------------- adapter

DAT_RETURN open_adapter(const std::string &name, DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia,
                        DAT_COUNT async_qlen)
{
    return dat_ia_openv(const_cast<char *>(name.c_str()), async_qlen, async_evd, ia,
                        DAT_VERSION_MAJOR, DAT_VERSION_MINOR,
                        the_settings().thread_safe ? DAT_TRUE : DAT_FALSE);
}

adapter::adapter(const std::string &name)
{
    MUST(open_adapter(name, &async, &handle));
    query();
}

adapter::adapter(DAT_EVD_HANDLE shared) : async(shared)
{
    MUST(open_adapter(the_settings().ia, &async, &handle));
    query();
}

adapter::~adapter()
{
    if (is_open())
        (void)close(DAT_CLOSE_ABRUPT_FLAG);
}

DAT_RETURN adapter::close(DAT_CLOSE_FLAGS how)
{
    const DAT_RETURN code = dat_ia_close(handle, how);
    if (code == DAT_SUCCESS)
        handle = DAT_HANDLE_NULL;
    return code;
}

DAT_SOCK_ADDR *adapter::address() const
{
    return attr.ia_address_ptr;
}

void adapter::query()
{
    MUST(dat_ia_query(handle, nullptr, DAT_IA_FIELD_ALL, &attr, DAT_PROVIDER_FIELD_ALL, &provider));
}

DAT_EVD_HANDLE make_evd(const adapter &ia, unsigned streams, DAT_COUNT qlen, DAT_CNO_HANDLE cno)
{
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    MUST(dat_evd_create(ia.handle, qlen, cno, static_cast<DAT_EVD_FLAGS>(streams), &evd));
    return evd;
}

DAT_CNO_HANDLE make_cno(const adapter &ia)
{
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    MUST(dat_cno_create(ia.handle, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
    return cno;
}

DAT_PZ_HANDLE make_pz(const adapter &ia)
{
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    MUST(dat_pz_create(ia.handle, &pz));
    return pz;
}

// ---------------------------------------------------------------------------------------- events

DAT_RETURN wait_event(DAT_EVD_HANDLE evd, DAT_EVENT &event, milliseconds time)
{
    DAT_RETURN code = DAT_INTERRUPTED_CALL;
    DAT_COUNT more = 0;
    while (DAT_GET_TYPE(code) == DAT_INTERRUPTED_CALL)
        code = dat_evd_wait(evd, microseconds(time), 1, &event, &more);
    return code;
}

void catch_signal()
{
    struct sigaction action {};
    action.sa_handler = [](int) {};
    ::sigaction(SIGUSR1, &action, nullptr);
}

DAT_EVENT next_event(DAT_EVD_HANDLE evd)
{
    DAT_EVENT event{};
    MUST(wait_event(evd, event));
    return event;
}

DAT_EVENT next_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER expected)
{
    const DAT_EVENT event = next_event(evd);
    if (event.event_number != expected)
        GIVE_UP(same_event(event.event_number, expected).text);
    return event;
}

bool ends_connection(DAT_EVENT_NUMBER number)
{
    return number == DAT_CONNECTION_EVENT_DISCONNECTED || number == DAT_CONNECTION_EVENT_BROKEN;
}

DAT_CONNECTION_EVENT_DATA next_connection(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER expected)
{
    return next_event(evd, expected).event_data.connect_event_data;
}

DAT_DTO_COMPLETION_EVENT_DATA next_dto(DAT_EVD_HANDLE evd)
{
    return next_event(evd, DAT_DTO_COMPLETION_EVENT).event_data.dto_completion_event_data;
}

bool begins_with(const void *data, DAT_COUNT size, const std::string &expected)
{
    return size >= 0 && static_cast<std::size_t>(size) >= expected.size() &&
           (expected.empty() ||
            (data != nullptr && std::memcmp(data, expected.data(), expected.size()) == 0));
}

bool stays_empty(DAT_EVD_HANDLE evd, milliseconds time)
{
    DAT_EVENT event{};
    return DAT_GET_TYPE(wait_event(evd, event, time)) == DAT_TIMEOUT_EXPIRED; // EVD-07: bare
}

std::vector<DAT_EVENT> drain(DAT_EVD_HANDLE evd, milliseconds silence)
{
    std::vector<DAT_EVENT> events;
    DAT_EVENT event{};
    while (wait_event(evd, event, silence) == DAT_SUCCESS)
        events.push_back(event);
    return events;
}

std::vector<DAT_EVENT> collect(DAT_EVD_HANDLE evd, std::size_t number)
{
    std::vector<DAT_EVENT> events;
    DAT_EVENT event{};
    while (wait_event(evd, event, events.size() < number ? milliseconds(3000) : a_while) ==
           DAT_SUCCESS)
        events.push_back(event);
    return events;
}

DAT_EVENT software_event(void *pointer)
{
    DAT_EVENT event{};
    event.event_number = DAT_SOFTWARE_EVENT;
    event.event_data.software_event_data.pointer = pointer;
    return event;
}

DAT_RETURN post_software(DAT_EVD_HANDLE evd, std::uintptr_t number)
{
    const DAT_EVENT event = software_event(reinterpret_cast<void *>(number));
    return dat_evd_post_se(evd, &event);
}

bool becomes_true(const std::function<bool()> &condition, milliseconds time)
{
    const auto until = std::chrono::steady_clock::now() + time;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > until)
            return false;
        std::this_thread::sleep_for(milliseconds(1));
    }
    return true;
}

bool ends_by_cancel(helper_thread &waiting)
{
    (void)::pthread_cancel(waiting.native());
    const bool ended = becomes_true([&] { return waiting.gone(); }, patience / 2);
    if (ended)
        waiting.join();
    else
        waiting.leave_behind();
    return ended;
}

bool ends_by_signal(helper_thread &waiting)
{
    return becomes_true(
        [&] {
            ::pthread_kill(waiting.native(), SIGUSR1);
            std::this_thread::sleep_for(milliseconds(20));
            return waiting.finished();
        },
        milliseconds(3000));
}

DAT_EP_STATE state_of(DAT_EP_HANDLE ep)
{
    DAT_EP_STATE state{};
    DAT_BOOLEAN recv_idle{}, request_idle{}; // EP-08 leaves them out
    MUST(dat_ep_get_status(ep, &state, &recv_idle, &request_idle));
    return state;
}

helper_thread::helper_thread(std::function<void()> work)
    : finished_(std::make_shared<std::atomic<bool>>(false)),
      id_(std::make_shared<std::atomic<long>>(0)),
      thread_([finished = finished_, id = id_, work = std::move(work)] {
          *id = ::gettid();
          work();
          *finished = true;
      })
{}

helper_thread::~helper_thread()
{
    join();
}

void helper_thread::join()
{
    if (thread_.joinable())
        thread_.join();
}

bool helper_thread::asleep() const
{
    std::ifstream file("/proc/self/task/" + std::to_string(*id_) + "/stat");
    std::string stat;
    std::getline(file, stat);
    const std::size_t name_end = stat.rfind(')');
    return name_end != std::string::npos && stat.compare(name_end, 3, ") S") == 0;
}

bool helper_thread::gone() const
{
    return *id_ != 0 && ::access(("/proc/self/task/" + std::to_string(*id_)).c_str(), F_OK) != 0;
}

bool helper_thread::sleeps() const
{
    if (*id_ == 0 || !asleep())
        return false;
    std::this_thread::sleep_for(milliseconds(10));
    return asleep();
}

void helper_thread::await_asleep() const
{
    if (!becomes_true([this] { return sleeps(); }))
        GIVE_UP("a thread that was to wait does not sleep");
}

// ---------------------------------------------------------------------------------------- memory

region::region(const adapter &ia, DAT_PZ_HANDLE pz, std::size_t size, DAT_MEM_PRIV_FLAGS rights)
    : bytes(size), ia_(ia)
{
    DAT_REGION_DESCRIPTION where{};
    where.for_va = bytes.data();
    MUST(dat_lmr_create(ia.handle, DAT_MEM_TYPE_VIRTUAL, where, size, pz, rights, DAT_VA_TYPE_VA,
                        &lmr, &lmr_context, &rmr_context, nullptr, nullptr));
}

region::~region()
{
    free();
}

/// The memory goes afterwards, so nobody may reach it any more.
void region::free()
{
    if (lmr != DAT_HANDLE_NULL && ia_.is_open())
        (void)dat_lmr_free(lmr);
    lmr = DAT_HANDLE_NULL;
}

DAT_LMR_TRIPLET region::local(std::size_t offset, std::size_t length) const
{
    return {reinterpret_cast<DAT_VADDR>(bytes.data() + offset), static_cast<DAT_SEG_LENGTH>(length),
            lmr_context};
}

DAT_RMR_TRIPLET region::remote(std::size_t offset, std::size_t length) const
{
    return {reinterpret_cast<DAT_VADDR>(bytes.data() + offset), static_cast<DAT_SEG_LENGTH>(length),
            rmr_context};
}

namespace {

std::uint8_t pattern(std::size_t position, unsigned seed)
{
    return static_cast<std::uint8_t>(position * 131 + position / 251 + seed * 89 + 1);
}

} // namespace

DEVICE_MEMORY void region::set_all(std::uint8_t value)
{
    for (std::uint8_t &byte : bytes)
        byte = value;
}

DEVICE_MEMORY void region::fill(std::size_t offset, std::size_t length, unsigned seed)
{
    for (std::size_t i = 0; i < length; ++i)
        bytes[offset + i] = pattern(i, seed);
}

DEVICE_MEMORY std::vector<std::uint8_t> region::copy() const
{
    std::vector<std::uint8_t> copied(bytes.size());
    for (std::size_t i = 0; i < bytes.size(); ++i)
        copied[i] = bytes[i];
    return copied;
}

DEVICE_MEMORY bool region::holds(std::size_t offset, std::size_t length, unsigned seed) const
{
    for (std::size_t i = 0; i < length; ++i)
        if (bytes[offset + i] != pattern(i, seed))
            return false;
    return true;
}

// ------------------------------------------------------------------------------------- endpoints

end::end(adapter &on, const end_options &options)
    : ia(on), pz(make_pz(on)), recv_evd(make_evd(on, DAT_EVD_DTO_FLAG, options.qlen, options.cno)),
      request_evd(options.one_dto_evd ? recv_evd
                                      : make_evd(on, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG,
                                                 options.qlen, options.cno)),
      connect_evd(make_evd(on, DAT_EVD_CONNECTION_FLAG, options.qlen, options.cno)),
      memory(on, pz, options.bytes)
{
    MUST(dat_ep_create(on.handle, pz, recv_evd, request_evd, connect_evd, options.attr, &ep));
}

/// Gives back all of it, so that thousands of cases can use one adapter.
end::~end()
{
    if (!ia.is_open())
        return;
    (void)free_ep();
    memory.free();
    (void)dat_evd_free(connect_evd);
    if (request_evd != recv_evd)
        (void)dat_evd_free(request_evd);
    (void)dat_evd_free(recv_evd);
    (void)dat_pz_free(pz);
}

DAT_RETURN end::free_ep()
{
    if (ep == DAT_HANDLE_NULL)
        return DAT_SUCCESS;
    const DAT_RETURN code = dat_ep_free(ep);
    if (code == DAT_SUCCESS)
        ep = DAT_HANDLE_NULL;
    return code;
}

DAT_RETURN end::connect(DAT_SOCK_ADDR *address, DAT_CONN_QUAL qualifier, milliseconds timeout,
                        const std::string &data)
{
    void *bytes = data.empty() ? nullptr : const_cast<char *>(data.data());
    return dat_ep_connect(ep, address, qualifier, microseconds(timeout),
                          static_cast<DAT_COUNT>(data.size()), bytes, DAT_QOS_BEST_EFFORT,
                          DAT_CONNECT_DEFAULT_FLAG);
}

DAT_EP_PARAM ep_param(DAT_EP_HANDLE ep)
{
    DAT_EP_PARAM param{};
    MUST(dat_ep_query(ep, DAT_EP_FIELD_ALL, &param));
    return param;
}

DAT_DTO_COOKIE cookie_of(std::uint64_t value)
{
    DAT_DTO_COOKIE cookie{};
    cookie.as_64 = value;
    return cookie;
}

DAT_RETURN end::recv(std::size_t offset, std::size_t length, std::uint64_t cookie)
{
    DAT_LMR_TRIPLET local = memory.local(offset, length);
    return dat_ep_post_recv(ep, 1, &local, cookie_of(cookie), DAT_COMPLETION_DEFAULT_FLAG);
}

DAT_RETURN end::send(std::size_t offset, std::size_t length, std::uint64_t cookie, unsigned flags)
{
    DAT_LMR_TRIPLET local = memory.local(offset, length);
    return dat_ep_post_send(ep, 1, &local, cookie_of(cookie),
                            static_cast<DAT_COMPLETION_FLAGS>(flags));
}

DAT_RETURN end::write(std::size_t offset, std::size_t length, const DAT_RMR_TRIPLET &to,
                      std::uint64_t cookie, unsigned flags)
{
    DAT_LMR_TRIPLET local = memory.local(offset, length);
    return dat_ep_post_rdma_write(ep, 1, &local, cookie_of(cookie), &to,
                                  static_cast<DAT_COMPLETION_FLAGS>(flags));
}

DAT_RETURN end::read(std::size_t offset, std::size_t length, const DAT_RMR_TRIPLET &from,
                     std::uint64_t cookie, unsigned flags)
{
    DAT_LMR_TRIPLET local = memory.local(offset, length);
    return dat_ep_post_rdma_read(ep, 1, &local, cookie_of(cookie), &from,
                                 static_cast<DAT_COMPLETION_FLAGS>(flags));
}

DAT_RETURN end::disconnect(DAT_CLOSE_FLAGS how)
{
    return dat_ep_disconnect(ep, how);
}

// ------------------------------------------------------------------------------------ connecting

/// Not one of those that providers and systems give out by themselves: such a one could be given to
/// somebody else by the time it is used. Other processes run the same cases at the same time.
DAT_CONN_QUAL unused_qualifier(adapter &ia)
{
    static std::atomic<unsigned> used{0};
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_CR_FLAG, 1);
    const auto first = static_cast<unsigned>(::getpid()) * 977;
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    DAT_CONN_QUAL qualifier = 0;
    DAT_RETURN code = DAT_CONN_QUAL_IN_USE;
    for (int tries = 0; tries < 1000 && DAT_GET_TYPE(code) == DAT_CONN_QUAL_IN_USE; ++tries) {
        qualifier = 10'000 + (first + used++) % 20'000;
        code = dat_psp_create(ia.handle, qualifier, evd, DAT_PSP_CONSUMER_FLAG, &psp);
    }
    MUST(code);
    MUST(dat_psp_free(psp));
    MUST(dat_evd_free(evd));
    return qualifier;
}

listener::listener(adapter &on, DAT_PSP_FLAGS flags, DAT_COUNT qlen)
    : ia(on), cr_evd(make_evd(on, DAT_EVD_CR_FLAG, qlen))
{
    MUST(dat_psp_create_any(on.handle, &qualifier, cr_evd, flags, &psp));
}

void listener::free()
{
    if (psp == DAT_HANDLE_NULL || !ia.is_open())
        return;
    (void)dat_psp_free(psp);
    (void)dat_evd_free(cr_evd);
    psp = DAT_HANDLE_NULL;
}

DAT_CR_ARRIVAL_EVENT_DATA listener::next_arrival()
{
    return next_event(cr_evd, DAT_CONNECTION_REQUEST_EVENT).event_data.cr_arrival_event_data;
}

void await_established(end &one, end &other)
{
    next_connection(one.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    next_connection(other.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

void establish(end &active, end &passive, listener &at)
{
    MUST(active.connect(at.ia.address(), at.qualifier));
    MUST(dat_cr_accept(at.next_request(), passive.ep, 0, nullptr));
    await_established(active, passive);
}

void establish(end &active, end &passive)
{
    listener at(passive.ia);
    establish(active, passive, at);
}

void move_data(end &from, end &to, unsigned seed)
{
    constexpr std::size_t size = 1000;
    from.memory.fill(0, size, seed);
    MUST(to.recv(4096, size, seed));
    MUST(from.send(0, size, seed));
    const auto sent = next_dto(from.request_evd);
    const auto received = next_dto(to.recv_evd);
    if (sent.status != DAT_DTO_SUCCESS || received.status != DAT_DTO_SUCCESS)
        GIVE_UP("a message failed");
    if (received.transfered_length != size || !to.memory.holds(4096, size, seed))
        GIVE_UP("a message did not arrive as it was sent");
}

void expect_disconnected(end &one, end &other)
{
    for (end *side : {&one, &other}) {
        const DAT_EVENT event = next_event(side->connect_evd);
        CHECK(same_event(event.event_number, DAT_CONNECTION_EVENT_DISCONNECTED));
        CHECK(event.event_data.connect_event_data.ep_handle == side->ep);
    }
    for (end *side : {&one, &other}) {
        CHECK(stays_empty(side->connect_evd));
        CHECK(side->state() == DAT_EP_STATE_DISCONNECTED);
    }
}

bool acknowledged()
{
    return the_settings().promised("acknowledged");
}

void expect_broken(end &failing, end &other, bool for_sure)
{
    const DAT_EVENT here = next_event(failing.connect_evd);
    if (for_sure)
        CHECK(same_event(here.event_number, DAT_CONNECTION_EVENT_BROKEN));
    CHECK(ends_connection(here.event_number));
    CHECK(ends_connection(next_event(other.connect_evd).event_number));
    CHECK(failing.state() == DAT_EP_STATE_DISCONNECTED);
    CHECK(other.state() == DAT_EP_STATE_DISCONNECTED);
    CHECK(stays_empty(failing.connect_evd, milliseconds(30)));
    CHECK(stays_empty(other.connect_evd, milliseconds(30)));
}

void expect_refused(end &by, end &there, bool reading, std::uint64_t cookie)
{
    const auto done = next_dto(by.request_evd);
    CHECK(done.user_cookie.as_64 == cookie);
    const bool told = done.status != DAT_DTO_SUCCESS && done.status != DAT_DTO_ERR_FLUSHED;
    if (acknowledged())
        CHECK(told);
    else if (!told)
        MESSAGE("this transport does not say why: status ", done.status);
    if (reading)
        CHECK(done.status != DAT_DTO_SUCCESS);
    expect_broken(by, there, told);
    CHECK(stays_empty(by.request_evd, milliseconds(1)));
}

} // namespace conformance
