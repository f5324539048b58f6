// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// in_turn ADAPTER LIBRARY LOG: opens the adapter, connects two endpoints and uses each operation,
// again and again; each time another operation fails, first the first, then the second, until none
// does. A call that fails says so by the documented code, leaves its object as it was, and nothing
// behind. LIBRARY stays loaded, so that a leak detector can tell where memory comes from; LOG is
// written by the library when an operation fails.
#include <dat2/dat_ib_extensions.h>
#include <dat2/udat.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <fstream>
#include <functional>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

int mistakes = 0;

void expect(bool is_so, const std::string &what)
{
    if (is_so)
        return;
    const char *const plan = std::getenv("DAPL_FAULT");
    std::printf("%s: %s\n", plan == nullptr ? "no fault" : plan, what.c_str());
    ++mistakes;
}

std::size_t entries_of(const char *folder)
{
    std::size_t number = 0;
    DIR *const listed = ::opendir(folder);
    while (::readdir(listed) != nullptr)
        ++number;
    ::closedir(listed);
    return number;
}

/// What a call does after it failed.
enum class then { give_up, repeat };

class program {
public:
    program(char *adapter, then what) : adapter_(adapter), then_(what) {}
    /// Returns true if all calls were made.
    bool run();

private:
    struct side {
        DAT_EVD_HANDLE received{}, requested{}, connected{};
        DAT_EP_HANDLE ep{};
    };

    /// Makes a call; false when it failed and is not to be repeated.
    bool call(const char *name, const std::function<DAT_RETURN()> &make);
    /// Makes later calls of `end` to undo a call.
    void later(const char *name, std::function<DAT_RETURN()> end)
    {
        ends_.push_back({name, std::move(end)});
    }
    bool open();
    bool make_objects();
    bool make_side(side &, bool shared);
    bool connect();
    bool move_data();
    bool use_windows();
    bool part();
    DAT_EVENT next(DAT_EVD_HANDLE evd);
    bool completes(DAT_EVD_HANDLE evd);
    DAT_LMR_TRIPLET at(std::size_t place, DAT_SEG_LENGTH length = 8) const
    {
        return {reinterpret_cast<DAT_VADDR>(memory_ + place), length, local_};
    }
    DAT_RMR_TRIPLET remote(std::size_t place, DAT_RMR_CONTEXT key) const
    {
        return {reinterpret_cast<DAT_VADDR>(memory_ + place), 8, key};
    }
    DAT_RETURN post_receive(const side &by);

    struct ending {
        const char *name;
        std::function<DAT_RETURN()> end;
    };
    char *adapter_;
    then then_;
    std::vector<ending> ends_;
    alignas(64) char memory_[4096] = {};
    DAT_EVD_HANDLE async_{}, requests_{};
    DAT_IA_HANDLE ia_{};
    DAT_PZ_HANDLE pz_{};
    DAT_LMR_HANDLE lmr_{};
    DAT_LMR_CONTEXT local_{};
    DAT_RMR_CONTEXT key_{};
    DAT_SRQ_HANDLE srq_{};
    DAT_PSP_HANDLE psp_{};
    DAT_CONN_QUAL qualifier_{};
    side active_, passive_;
};

bool program::call(const char *name, const std::function<DAT_RETURN()> &make)
{
    DAT_RETURN code = make();
    if (code == DAT_SUCCESS)
        return true;
    expect(DAT_GET_TYPE(code) == DAT_INSUFFICIENT_RESOURCES,
           std::string(name) + " fails with " + std::to_string(code));
    if (then_ == then::give_up)
        return false;
    code = make();
    expect(code == DAT_SUCCESS, std::string(name) + " fails again, with " + std::to_string(code));
    return code == DAT_SUCCESS;
}

bool program::run()
{
    const bool done =
        open() && make_objects() && connect() && move_data() && use_windows() && part();
    while (!ends_.empty()) {
        const DAT_RETURN code = ends_.back().end();
        expect(code == DAT_SUCCESS,
               std::string(ends_.back().name) + " fails with " + std::to_string(code));
        ends_.pop_back();
    }
    return done;
}

/// Operations are counted from the first one again when no adapter is open.
bool program::open()
{
    bool again = false;
    if (!call("dat_ia_open", [&] {
            if (std::exchange(again, true))
                ::unsetenv("DAPL_FAULT");
            async_ = DAT_HANDLE_NULL;
            return dat_ia_open(adapter_, 8, &async_, &ia_);
        }))
        return false;
    later("dat_ia_close", [&] { return dat_ia_close(ia_, DAT_CLOSE_GRACEFUL_FLAG); });
    return true;
}

bool program::make_side(side &made, bool shared)
{
    const auto evd = [&](DAT_EVD_HANDLE &which, int streams) {
        if (!call("dat_evd_create", [&] {
                return dat_evd_create(ia_, 16, DAT_HANDLE_NULL, static_cast<DAT_EVD_FLAGS>(streams),
                                      &which);
            }))
            return false;
        later("dat_evd_free", [&] { return dat_evd_free(which); });
        return true;
    };
    if (!evd(made.received, DAT_EVD_DTO_FLAG) ||
        !evd(made.requested, DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG) ||
        !evd(made.connected, DAT_EVD_CONNECTION_FLAG) ||
        !call("dat_evd_resize", [&] { return dat_evd_resize(made.received, 32); }) ||
        !call("dat_ep_create", [&] {
            return shared ? dat_ep_create_with_srq(ia_, pz_, made.received, made.requested,
                                                   made.connected, srq_, nullptr, &made.ep)
                          : dat_ep_create(ia_, pz_, made.received, made.requested, made.connected,
                                          nullptr, &made.ep);
        }))
        return false;
    later("dat_ep_free", [&] { return dat_ep_free(made.ep); });
    return true;
}

bool program::make_objects()
{
    if (!call("dat_pz_create", [&] { return dat_pz_create(ia_, &pz_); }))
        return false;
    later("dat_pz_free", [&] { return dat_pz_free(pz_); });
    DAT_REGION_DESCRIPTION where{};
    where.for_va = memory_;
    const auto rights = static_cast<DAT_MEM_PRIV_FLAGS>(
        DAT_MEM_PRIV_ALL_FLAG | static_cast<int>(DAT_IB_MEM_PRIV_REMOTE_ATOMIC));
    if (!call("dat_lmr_create", [&] {
            return dat_lmr_create(ia_, DAT_MEM_TYPE_VIRTUAL, where, sizeof memory_, pz_, rights,
                                  DAT_VA_TYPE_VA, &lmr_, &local_, &key_, nullptr, nullptr);
        }))
        return false;
    later("dat_lmr_free", [&] { return dat_lmr_free(lmr_); });
    DAT_SRQ_ATTR attr{8, 1, 1};
    if (!call("dat_srq_create", [&] { return dat_srq_create(ia_, pz_, &attr, &srq_); }))
        return false;
    later("dat_srq_free", [&] { return dat_srq_free(srq_); });
    return call("dat_srq_resize", [&] { return dat_srq_resize(srq_, 16); }) &&
           call("dat_srq_set_lw", [&] { return dat_srq_set_lw(srq_, 1); }) &&
           make_side(active_, false) && make_side(passive_, true);
}

DAT_EVENT program::next(DAT_EVD_HANDLE evd)
{
    DAT_EVENT event{};
    DAT_COUNT more = 0;
    const DAT_RETURN code = dat_evd_wait(evd, 10'000'000, 1, &event, &more);
    expect(code == DAT_SUCCESS, "an event is missing: " + std::to_string(code));
    return event;
}

bool program::connect()
{
    if (!call("dat_evd_create",
              [&] { return dat_evd_create(ia_, 8, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &requests_); }))
        return false;
    later("dat_evd_free", [&] { return dat_evd_free(requests_); });
    if (!call("dat_psp_create_any", [&] {
            return dat_psp_create_any(ia_, &qualifier_, requests_, DAT_PSP_CONSUMER_FLAG, &psp_);
        }))
        return false;
    later("dat_psp_free", [&] { return dat_psp_free(psp_); });
    DAT_IA_ATTR about{};
    expect(dat_ia_query(ia_, nullptr, DAT_IA_FIELD_ALL, &about, 0, nullptr) == DAT_SUCCESS,
           "dat_ia_query fails");
    if (!call("dat_ep_connect", [&] {
            return dat_ep_connect(active_.ep, about.ia_address_ptr, qualifier_, 10'000'000, 0,
                                  nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
        }))
        return false;
    const DAT_EVENT request = next(requests_);
    const DAT_CR_HANDLE cr = request.event_data.cr_arrival_event_data.cr_handle;
    if (!call("dat_cr_accept", [&] { return dat_cr_accept(cr, passive_.ep, 0, nullptr); })) {
        expect(dat_cr_reject(cr, 0, nullptr) == DAT_SUCCESS, "dat_cr_reject fails");
        expect(next(active_.connected).event_number == DAT_CONNECTION_EVENT_PEER_REJECTED,
               "a request that was rejected after a failed accept is not PEER_REJECTED");
        return false;
    }
    for (const side *each : {&active_, &passive_})
        expect(next(each->connected).event_number == DAT_CONNECTION_EVENT_ESTABLISHED,
               "no connection");
    return true;
}

bool program::completes(DAT_EVD_HANDLE evd)
{
    const DAT_EVENT event = next(evd);
    const bool good =
        event.event_number == DAT_DTO_COMPLETION_EVENT
            ? event.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS
        : event.event_number == DAT_RMR_BIND_COMPLETION_EVENT
            ? event.event_data.rmr_completion_event_data.status == DAT_RMR_BIND_SUCCESS
            : event.event_number == static_cast<DAT_EVENT_NUMBER>(DAT_IB_DTO_EVENT);
    const auto number = static_cast<unsigned>(event.event_number);
    expect(good, "a transfer fails: event " + std::to_string(number) + ", status " +
                     std::to_string(event.event_data.dto_completion_event_data.status));
    return good;
}

DAT_RETURN program::post_receive(const side &by)
{
    DAT_LMR_TRIPLET room = at(64);
    return &by == &passive_ ? dat_srq_post_recv(srq_, 1, &room, {})
                            : dat_ep_post_recv(by.ep, 1, &room, {}, DAT_COMPLETION_DEFAULT_FLAG);
}

bool program::move_data()
{
    for (const auto &[from, to] : {std::pair{&active_, &passive_}, {&passive_, &active_}}) {
        std::memcpy(memory_, "message", 8);
        std::memset(memory_ + 64, 0, 8);
        DAT_LMR_TRIPLET sent = at(0);
        if (!call("dat_ep_post_recv", [&, to = to] { return post_receive(*to); }) ||
            !call("dat_ep_post_send",
                  [&, from = from] {
                      return dat_ep_post_send(from->ep, 1, &sent, {}, DAT_COMPLETION_DEFAULT_FLAG);
                  }) ||
            !completes(from->requested) || !completes(to->received))
            return false;
        expect(std::memcmp(memory_ + 64, "message", 8) == 0, "a message arrives changed");
    }
    DAT_LMR_TRIPLET here = at(128);
    const DAT_RMR_TRIPLET there = remote(0, key_);
    return call("dat_ep_post_rdma_read",
                [&] {
                    return dat_ep_post_rdma_read(active_.ep, 1, &here, {}, &there,
                                                 DAT_COMPLETION_DEFAULT_FLAG);
                }) &&
           completes(active_.requested) &&
           call("dat_ib_post_fetch_and_add",
                [&] {
                    return dat_ib_post_fetch_and_add(active_.ep, 1, &here, DAT_DTO_COOKIE{}, &there,
                                                     DAT_COMPLETION_DEFAULT_FLAG);
                }) &&
           completes(active_.requested);
}

bool program::use_windows()
{
    DAT_RMR_HANDLE window{};
    DAT_RMR_CONTEXT opened = 0;
    DAT_LMR_TRIPLET part = at(256, 64);
    DAT_LMR_TRIPLET sent = at(0);
    const DAT_RMR_TRIPLET from = remote(0, key_);
    if (!call("dat_rmr_create", [&] { return dat_rmr_create(pz_, &window); }))
        return false;
    const auto use = [&] {
        if (!call("dat_rmr_bind", [&] {
                return dat_rmr_bind(window, lmr_, &part, DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA,
                                    active_.ep, {}, DAT_COMPLETION_DEFAULT_FLAG, &opened);
            }))
            return false;
        const DAT_RMR_TRIPLET to = remote(256, opened);
        return completes(active_.requested) &&
               call("dat_ep_post_rdma_read_to_rmr",
                    [&] {
                        return dat_ep_post_rdma_read_to_rmr(active_.ep, &to, {}, &from,
                                                            DAT_COMPLETION_DEFAULT_FLAG);
                    }) &&
               completes(active_.requested) &&
               call("dat_ep_post_recv", [&] { return post_receive(active_); }) &&
               call("dat_ep_post_send_with_invalidate",
                    [&] {
                        return dat_ep_post_send_with_invalidate(passive_.ep, 1, &sent, {},
                                                                DAT_COMPLETION_DEFAULT_FLAG,
                                                                DAT_TRUE, opened);
                    }) &&
               completes(passive_.requested) && completes(active_.received);
    };
    const bool used = use();
    expect(dat_rmr_free(window) == DAT_SUCCESS, "dat_rmr_free fails");
    return used;
}

bool program::part()
{
    expect(dat_ep_disconnect(active_.ep, DAT_CLOSE_GRACEFUL_FLAG) == DAT_SUCCESS,
           "dat_ep_disconnect fails");
    for (const side *each : {&active_, &passive_})
        expect(next(each->connected).event_number == DAT_CONNECTION_EVENT_DISCONNECTED,
               "no end of the connection");
    return call("dat_ep_reset", [&] { return dat_ep_reset(active_.ep); }) &&
           call("dat_ep_reset", [&] { return dat_ep_reset(passive_.ep); });
}

/// A thread that has ended may be listed for a moment.
bool falls_to(const char *folder, std::size_t number)
{
    for (int tries = 0; entries_of(folder) > number && tries < 1000; ++tries)
        ::usleep(1000);
    return entries_of(folder) <= number;
}

struct mode {
    then what;
    const char *more; ///< "+": all later operations fail, too
};

/// Whether operation `number` was reached, and failed.
bool run_once(char *adapter, const std::string &log, const mode &how, unsigned number)
{
    const std::string plan = "any:" + std::to_string(number) + how.more +
                             ":DAT_INSUFFICIENT_RESOURCES/DAT_RESOURCE_MEMORY";
    ::setenv("DAPL_FAULT", plan.c_str(), 1);
    std::ofstream(log, std::ios::trunc);
    const std::size_t descriptors = entries_of("/proc/self/fd");
    const std::size_t threads = entries_of("/proc/self/task");
    const bool done = program(adapter, how.what).run();
    const bool reached = std::ifstream(log).peek() != std::ifstream::traits_type::eof();
    expect(done || (reached && how.what == then::give_up), "the program ends early");
    expect(falls_to("/proc/self/fd", descriptors), "descriptors are left behind");
    expect(falls_to("/proc/self/task", threads), "threads are left behind");
    return reached;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 4 || ::dlopen(argv[2], RTLD_NOW | RTLD_NODELETE) == nullptr)
        return 2;
    ::unsetenv("DAPL_FAULT");
    ::setenv("DAPL_FAULT_LOG", argv[3], 1);
    expect(program(argv[1], then::give_up).run(), "the program ends early without a fault");
    const mode modes[] = {{then::give_up, ""}, {then::give_up, "+"}, {then::repeat, ""}};
    for (const mode &each : modes) {
        unsigned number = 1;
        while (run_once(argv[1], argv[3], each, number) && number < 1000)
            ++number;
        std::printf("%u operations failed in turn\n", number - 1);
        expect(number == 36, "the program makes 35 calls that can fail");
    }
    return mistakes == 0 ? 0 : 1;
}
