// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the cases share: an adapter that closes itself, an endpoint with all that it needs, waits
// that always end, and codes that print by name.
#pragma once

#include <doctest/doctest.h>

#include <dat2/udat.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <pthread.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <vector>

namespace conformance {

// ------------------------------------------------------------------------------------ settings

struct settings {
    std::string ia;
    bool thread_safe = false;
    bool in_process = false;
    bool long_rounds = false; ///< cases that repeat something do it as often as is meant
    std::string peer_network; ///< network namespace of second processes, if not ours
    /// What a transport may promise beyond DAT; an observation becomes a check.
    std::vector<std::string> promises;

    bool promised(const std::string &what) const;
};
settings &the_settings();

using std::chrono::milliseconds;

/// Of a function that looks at memory through which devices move data: ThreadSanitizer does not see
/// that a completion on one adapter orders what another did.
#define DEVICE_MEMORY __attribute__((no_sanitize("thread")))

/// How long a case waits for what must come. Far more than it takes: slow machines run this too.
inline constexpr milliseconds patience{20'000};
/// How long a case waits for what must not come.
inline constexpr milliseconds a_while{150};

constexpr DAT_TIMEOUT microseconds(milliseconds time)
{
    return static_cast<DAT_TIMEOUT>(time.count() * 1000);
}

/// Sanitizers keep memory and mappings of their own, and judge the leaks of every library at exit.
constexpr bool instrumented()
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#else
    return false;
#endif
}

// ------------------------------------------------------------------------------- about a case

/// What a typical port that fails this case does; shown when it fails.
using hint = doctest::description;
/// What the case needs, in words separated by spaces. Of a capability that the adapter does not
/// claim, the case checks the refusal, and says NOT_CLAIMED. The word `alone` is for the runner: no
/// other case runs beside this one.
using needs = doctest::test_suite;

/// Who watches the running case from outside; there is nobody when it runs in-process.
struct judge {
    virtual void not_claimed(const std::string &what) = 0;
    /// Ends the case, by an exception: a call that it cannot do without is not supported.
    [[noreturn]] virtual void decline(const std::string &call) = 0;
    virtual void allow_seconds(unsigned seconds) = 0;

protected:
    ~judge() = default;
};
void set_judge(judge *watching);

/// Ends the case: the adapter does not have this, and said so properly.
#define NOT_CLAIMED(what)                                                                          \
    do {                                                                                           \
        ::conformance::tell_not_claimed(what);                                                     \
        return;                                                                                    \
    } while (false)
void tell_not_claimed(const std::string &what);

/// Gives the running case this many seconds in all before it counts as hanging.
void allow_seconds(unsigned seconds);

/// A call that a case is about to make.
struct step {
    const char *call;
    const char *file;
    int line;
};
using last_step = std::atomic<const step *>;
/// Steps are noted there from now on: in memory that outlives a crash.
void note_steps_in(last_step *place);
void note(const step &next);

// --------------------------------------------------------------------------------------- codes

constexpr DAT_RETURN error(unsigned type, unsigned subtype = DAT_NO_SUBTYPE)
{
    return DAT_CLASS_ERROR | type | subtype;
}
constexpr DAT_RETURN bad_arg(int position)
{
    return error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1 + static_cast<unsigned>(position) - 1);
}
constexpr DAT_RETURN bad_handle(unsigned subtype)
{
    return error(DAT_INVALID_HANDLE, subtype);
}
constexpr DAT_RETURN bad_state(unsigned subtype)
{
    return error(DAT_INVALID_STATE, subtype);
}
inline constexpr DAT_RETURN success = DAT_SUCCESS;
inline constexpr DAT_RETURN not_supported = error(DAT_MODEL_NOT_SUPPORTED);

/// By the names that dat_strerror has for it; a missing error class is said.
std::string code_name(DAT_RETURN code);

/// The outcome of a comparison, which prints what was compared.
struct verdict {
    bool same;
    std::string text;
    explicit operator bool() const { return same; }
};
doctest::String toString(const verdict &compared);

/// The whole word: class, type and subtype.
verdict same_code(DAT_RETURN actual, DAT_RETURN expected);
/// True, once it was checked, if this is the proper refusal of what an adapter need not have.
bool refused(DAT_RETURN code);
/// An error of this type, classed, whatever its subtype.
verdict same_type(DAT_RETURN actual, DAT_RETURN_TYPE expected);
/// What is no error: that it is bare is for EVD-07 and EVD-10 to judge.
verdict same_outcome(DAT_RETURN actual, DAT_RETURN_TYPE expected);
verdict same_event(DAT_EVENT_NUMBER actual, DAT_EVENT_NUMBER expected);

/// Ends the case, or the process if it is a peer.
[[noreturn]] void give_up(const std::string &why, const char *file, int line);
void must_succeed(DAT_RETURN code, const step &at);

/// For calls that prepare what a case is about. Where one is not supported, the case is not
/// claimed.
#define MUST(...)                                                                                  \
    do {                                                                                           \
        static constexpr ::conformance::step must_step{#__VA_ARGS__, __FILE__, __LINE__};          \
        ::conformance::note(must_step);                                                            \
        ::conformance::must_succeed((__VA_ARGS__), must_step);                                     \
    } while (false)
#define GIVE_UP(why) ::conformance::give_up((why), __FILE__, __LINE__)

/// Peers have no doctest to report to.
void this_is_a_peer();

// -------------------------------------------------------------------------------------- adapter

DAT_RETURN open_adapter(const std::string &name, DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia,
                        DAT_COUNT async_qlen = 64);

class adapter {
public:
    explicit adapter(const std::string &name = the_settings().ia);
    /// Shares the asynchronous EVD of another instance.
    explicit adapter(DAT_EVD_HANDLE shared);
    adapter(const adapter &) = delete;
    adapter &operator=(const adapter &) = delete;
    ~adapter();

    DAT_RETURN close(DAT_CLOSE_FLAGS how);
    bool is_open() const { return handle != DAT_HANDLE_NULL; }
    DAT_SOCK_ADDR *address() const;

    DAT_IA_HANDLE handle = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_IA_ATTR attr{};
    DAT_PROVIDER_ATTR provider{};

private:
    void query();
};

/// What frees an object forgets its handle, so that no destructor frees it again: a registry may
/// read through a handle to find its provider.
template <class Free>
DAT_RETURN free_once(Free *call, DAT_HANDLE &handle)
{
    const DAT_RETURN code = call(handle);
    if (code == DAT_SUCCESS)
        handle = DAT_HANDLE_NULL;
    return code;
}

// These belong to the adapter, which takes them along.
DAT_EVD_HANDLE make_evd(const adapter &ia, unsigned streams, DAT_COUNT qlen = 64,
                        DAT_CNO_HANDLE cno = DAT_HANDLE_NULL);
DAT_CNO_HANDLE make_cno(const adapter &ia);
DAT_PZ_HANDLE make_pz(const adapter &ia);

// ---------------------------------------------------------------------------------------- events

/// From now on SIGUSR1 interrupts system calls and does no more.
void catch_signal();
/// Waits, a signal notwithstanding.
DAT_RETURN wait_event(DAT_EVD_HANDLE evd, DAT_EVENT &event, milliseconds time = patience);
DAT_EVENT next_event(DAT_EVD_HANDLE evd);
DAT_EVENT next_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER expected);
/// One of the two that end a connection.
bool ends_connection(DAT_EVENT_NUMBER number);
DAT_CONNECTION_EVENT_DATA next_connection(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER expected);
DAT_DTO_COMPLETION_EVENT_DATA next_dto(DAT_EVD_HANDLE evd);
/// Private data that begin so; how long they are, CONN-04 looks at.
bool begins_with(const void *data, DAT_COUNT size, const std::string &expected);
/// Nothing comes for a while.
bool stays_empty(DAT_EVD_HANDLE evd, milliseconds time = a_while);
/// All that is in it, and what comes until it has been silent for a while.
std::vector<DAT_EVENT> drain(DAT_EVD_HANDLE evd, milliseconds silence = a_while);
/// The same where so many are to come: as long as they have not, a longer silence is borne.
std::vector<DAT_EVENT> collect(DAT_EVD_HANDLE evd, std::size_t number);

DAT_EVENT software_event(void *pointer);
DAT_RETURN post_software(DAT_EVD_HANDLE evd, std::uintptr_t number = 0);

/// False if it did not become true in time.
bool becomes_true(const std::function<bool()> &condition, milliseconds time = patience);
DAT_EP_STATE state_of(DAT_EP_HANDLE ep);

/// A thread that is joined, and whose work tells when it is about to begin.
class helper_thread {
public:
    explicit helper_thread(std::function<void()> work);
    ~helper_thread();
    void join();
    bool finished() const { return *finished_; }
    /// Looks twice, for it may be on its way to where it sleeps.
    bool sleeps() const;
    /// Until it sleeps in the kernel, as far as can be seen from outside: its work has begun, and
    /// it was found asleep twice.
    void await_asleep() const;
    pthread_t native() { return thread_.native_handle(); }
    /// Goes on without it: it does not end.
    void leave_behind() { thread_.detach(); }
    bool gone() const;

private:
    bool asleep() const;

    std::shared_ptr<std::atomic<bool>> finished_;
    std::shared_ptr<std::atomic<long>> id_; ///< the system's, once it runs
    std::thread thread_;
};

/// Cancels the thread and waits for its end. False when it does not end; it is then left behind.
bool ends_by_cancel(helper_thread &waiting);
/// Both kinds of cancellation, for the thread that is to be cancelled.
inline constexpr int cancel_types[] = {PTHREAD_CANCEL_DEFERRED, PTHREAD_CANCEL_ASYNCHRONOUS};

/// Signals the thread, after catch_signal, until what it waits in returns. False when that goes on.
bool ends_by_signal(helper_thread &waiting);

// ---------------------------------------------------------------------------------------- memory

constexpr auto all_rights = static_cast<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_ALL_FLAG);

/// Registered memory.
class region {
public:
    region(const adapter &ia, DAT_PZ_HANDLE pz, std::size_t bytes,
           DAT_MEM_PRIV_FLAGS rights = all_rights);
    region(const region &) = delete;
    region &operator=(const region &) = delete;
    ~region();

    DAT_LMR_TRIPLET local(std::size_t offset, std::size_t length) const;
    DAT_RMR_TRIPLET remote(std::size_t offset, std::size_t length) const;
    void set_all(std::uint8_t value);
    void fill(std::size_t offset, std::size_t length, unsigned seed);
    bool holds(std::size_t offset, std::size_t length, unsigned seed) const;
    std::vector<std::uint8_t> copy() const;
    void free();

    std::vector<std::uint8_t> bytes;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT lmr_context = 0;
    DAT_RMR_CONTEXT rmr_context = 0;

private:
    const adapter &ia_;
};

// ------------------------------------------------------------------------------------- endpoints

struct end_options {
    const DAT_EP_ATTR *attr = nullptr;
    std::size_t bytes = 64 * 1024;
    DAT_COUNT qlen = 256;
    bool one_dto_evd = false; ///< sends and receives complete in the same EVD
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
};

/// One end of a connection: an endpoint with zone, EVDs and memory of its own.
class end {
public:
    explicit end(adapter &on, const end_options &options = {});
    end(const end &) = delete;
    end &operator=(const end &) = delete;
    ~end();

    DAT_RETURN connect(DAT_SOCK_ADDR *address, DAT_CONN_QUAL qualifier,
                       milliseconds timeout = patience, const std::string &data = {});
    DAT_RETURN recv(std::size_t offset, std::size_t length, std::uint64_t cookie = 0);
    DAT_RETURN send(std::size_t offset, std::size_t length, std::uint64_t cookie = 0,
                    unsigned flags = DAT_COMPLETION_DEFAULT_FLAG);
    DAT_RETURN write(std::size_t offset, std::size_t length, const DAT_RMR_TRIPLET &to,
                     std::uint64_t cookie = 0, unsigned flags = DAT_COMPLETION_DEFAULT_FLAG);
    DAT_RETURN read(std::size_t offset, std::size_t length, const DAT_RMR_TRIPLET &from,
                    std::uint64_t cookie = 0, unsigned flags = DAT_COMPLETION_DEFAULT_FLAG);
    DAT_RETURN disconnect(DAT_CLOSE_FLAGS how);
    DAT_RETURN free_ep();
    DAT_EP_STATE state() const { return state_of(ep); }

    adapter &ia;
    DAT_PZ_HANDLE pz;
    DAT_EVD_HANDLE recv_evd;
    DAT_EVD_HANDLE request_evd;
    DAT_EVD_HANDLE connect_evd;
    region memory;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
};

DAT_EP_PARAM ep_param(DAT_EP_HANDLE ep);
DAT_DTO_COOKIE cookie_of(std::uint64_t value);

/// A PSP on a qualifier that was free.
class listener {
public:
    explicit listener(adapter &on, DAT_PSP_FLAGS flags = DAT_PSP_CONSUMER_FLAG,
                      DAT_COUNT qlen = 64);
    listener(const listener &) = delete;
    listener &operator=(const listener &) = delete;
    ~listener() { free(); }

    DAT_CR_ARRIVAL_EVENT_DATA next_arrival();
    DAT_CR_HANDLE next_request() { return next_arrival().cr_handle; }
    void free();

    adapter &ia;
    DAT_EVD_HANDLE cr_evd;
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    DAT_CONN_QUAL qualifier = 0;
};

/// A qualifier that nobody listens on.
DAT_CONN_QUAL unused_qualifier(adapter &ia);

/// Connects the two and waits for both ESTABLISHED events.
void establish(end &active, end &passive);
void establish(end &active, end &passive, listener &at);
void await_established(end &one, end &other);

/// Two connected endpoints. Of one adapter, or of two.
struct connected_pair {
    explicit connected_pair(adapter &ia, const end_options &options = {})
        : connected_pair(ia, ia, options)
    {}
    connected_pair(adapter &one, adapter &other, const end_options &options = {})
        : active(one, options), passive(other, options)
    {
        establish(active, passive);
    }
    end active;
    end passive;
};

/// One message there, completions included.
void move_data(end &from, end &to, unsigned seed = 1);

/// After one side has ended the connection: one event on each side, and no second.
void expect_disconnected(end &one, end &other);
/// A transport may complete a request before its peer has looked at it. Then a refusal comes too
/// late for the request, and shows as the end of the connection only.
bool acknowledged();
/// Both sides learn once that the connection was broken. `failing` is the side whose operation
/// failed.
void expect_broken(end &failing, end &other, bool for_sure);
/// An RDMA request that the peer has to refuse.
void expect_refused(end &by, end &there, bool reading, std::uint64_t cookie);

// ------------------------------------------------------------------------ calls by their name

/// A call that some libdat2 do not export; null where it is missing.
template <class Function>
Function *optional_call(const char *name);
void *find_symbol(const char *name);

template <class Function>
Function *optional_call(const char *name)
{
    return reinterpret_cast<Function *>(find_symbol(name));
}

} // namespace conformance
