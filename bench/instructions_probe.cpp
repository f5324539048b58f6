// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// What `instructions` runs under callgrind: calls of the data path, each phase dumped under its own
// name, with counting switched on only inside the calls. One process, two connected endpoints.
//
// While a call is counted nothing else of this thread is; other threads never are. Between the
// calls the transport is given the time and the polls it needs, so that the completion is already
// there when a dequeue is counted.
#include "dat_link.hpp"
#include "dat_names.hpp"
#include "program/command_line.hpp"

#include <cstdio>
#include <memory>
#include <unistd.h>
#include <valgrind/callgrind.h>
#include <vector>

namespace {

using namespace bench;

/// Runs `call` with counting on. It has to be inlined: the count has the call and a few
/// instructions of ours, which the report leaves out.
template <class Call>
inline DAT_RETURN counted(Call call)
{
    CALLGRIND_TOGGLE_COLLECT;
    const DAT_RETURN code = call();
    CALLGRIND_TOGGLE_COLLECT;
    return code;
}

struct probe_options {
    std::string adapter = "ofi-lo";
    bool threadsafe = false;
    bool merged = false;
    unsigned pairs = 1;
    unsigned count = 100;
};

class probe {
public:
    probe(const probe_options &how, patience &p)
        : count_(how.count), p_(p), adapter_(how.adapter, how.threadsafe),
          a_(adapter_, buffer_size, how.merged ? dat_link::evds::merged : dat_link::evds::separate,
             static_cast<int>(how.pairs)),
          b_(adapter_, buffer_size, dat_link::evds::separate, static_cast<int>(how.pairs))
    {
        dat_link::connect_pair(a_, b_, adapter_, p_);
        for (unsigned i = 1; i < how.pairs; ++i) {
            further_.push_back({std::make_unique<dat_link>(adapter_, buffer_size, a_),
                                std::make_unique<dat_link>(adapter_, buffer_size, b_)});
            dat_link::connect_pair(*further_.back().a, *further_.back().b, adapter_, p_);
        }
    }

    void run()
    {
        DAT_LMR_TRIPLET send = a_.send_segment(message_size);
        DAT_RMR_TRIPLET remote = a_.peer_segment(message_size);
        const auto post_write = [&] {
            return dat_ep_post_rdma_write(a_.endpoint(), 1, &send, {}, &remote,
                                          DAT_COMPLETION_DEFAULT_FLAG);
        };
        const auto post_send = [&] {
            return dat_ep_post_send(a_.endpoint(), 1, &send, {}, DAT_COMPLETION_DEFAULT_FLAG);
        };
        DAT_LMR_TRIPLET receive = b_.receive_segment();
        const auto post_recv = [&] {
            return dat_ep_post_recv(b_.endpoint(), 1, &receive, {}, DAT_COMPLETION_DEFAULT_FLAG);
        };
        DAT_EVENT event;
        DAT_COUNT more;
        const auto dequeue = [&] { return dat_evd_dequeue(a_.request_evd(), &event); };
        const auto wait = [&] {
            return dat_evd_wait(a_.request_evd(), DAT_TIMEOUT_INFINITE, 1, &event, &more);
        };
        const auto finish_write = [&] { await(a_.request_evd()); };
        const auto finish_send = [&] {
            await(a_.request_evd());
            await(b_.receive_evd());
        };

        // the first round of each resolves symbols and is thrown away
        for (const unsigned count : {3u, count_}) {
            phase(
                "post_rdma_write", count, [] {}, post_write, finish_write);
            phase(
                "post_send", count, [] {}, post_send,
                [&] {
                    finish_send();
                    program::must("dat_ep_post_recv", post_recv());
                });
            phase(
                "post_recv", count,
                [&] {
                    program::must("dat_ep_post_send", post_send());
                    finish_send();
                },
                post_recv, [] {});
            const auto have_event = [&] {
                program::must("dat_ep_post_rdma_write", post_write());
                settle();
            };
            phase("dequeue", count, have_event, dequeue, [&] {
                if (last_was_odd_) // it came too early: the event is still to be taken
                    await(a_.request_evd());
            });
            phase(
                "dequeue_empty", count, [] {}, dequeue, [] {}, DAT_QUEUE_EMPTY);
            phase("wait_ready", count, have_event, wait, [] {});
            phase(
                "wait_many", count,
                [&] {
                    for (unsigned i = 0; i < many; ++i)
                        program::must("dat_ep_post_rdma_write", post_write());
                    settle();
                },
                [&] {
                    DAT_RETURN code = dat_evd_wait(a_.request_evd(), DAT_TIMEOUT_INFINITE,
                                                   static_cast<DAT_COUNT>(many), &event, &more);
                    for (unsigned i = 1; i < many && code == DAT_SUCCESS; ++i)
                        code = dequeue();
                    return code;
                },
                [] {}, DAT_SUCCESS, many);
            phase(
                "stream", count,
                [&] {
                    for (unsigned i = 0; i < many; ++i)
                        sender(i).post_send(message_size);
                },
                [&] { return finish_many(); },
                [&] {
                    for (unsigned i = 0; i < many; ++i)
                        receiver(i).post_receive();
                },
                DAT_SUCCESS, many);
        }
    }

private:
    static constexpr std::uint32_t buffer_size = 4096;
    static constexpr std::uint32_t message_size = 64;
    static constexpr unsigned many = 16;

    template <class Before, class Call, class After>
    void phase(const char *name, unsigned count, Before before, Call call, After after,
               DAT_RETURN_TYPE expected = DAT_SUCCESS, unsigned of_each = 1)
    {
        unsigned odd = 0;
        last_was_odd_ = false;
        CALLGRIND_ZERO_STATS;
        for (unsigned i = 0; i < count; ++i) {
            before();
            const DAT_RETURN code = counted(call);
            last_was_odd_ = DAT_GET_TYPE(code) != static_cast<DAT_UINT32>(expected);
            if (last_was_odd_ && DAT_GET_TYPE(code) != DAT_QUEUE_EMPTY)
                program::fail(name, code);
            odd += last_was_odd_;
            after();
        }
        if (count != count_)
            return;
        CALLGRIND_DUMP_STATS_AT(name);
        std::printf("%s %u %u\n", name, count * of_each, odd);
    }

    // The connection of each message of a stream: they take turns.
    dat_link &sender(unsigned message)
    {
        const std::size_t at = message % (further_.size() + 1);
        return at == 0 ? a_ : *further_[at - 1].a;
    }
    dat_link &receiver(unsigned message)
    {
        const std::size_t at = message % (further_.size() + 1);
        return at == 0 ? b_ : *further_[at - 1].b;
    }

    /// Polls both sides until the messages that were sent are complete at each.
    DAT_RETURN finish_many()
    {
        DAT_EVENT event;
        unsigned sent = 0, came = 0;
        while (sent < many || came < many) {
            came += dat_evd_dequeue(b_.receive_evd(), &event) == DAT_SUCCESS;
            sent += dat_evd_dequeue(a_.request_evd(), &event) == DAT_SUCCESS;
        }
        return DAT_SUCCESS;
    }

    void await(DAT_EVD_HANDLE evd)
    {
        DAT_EVENT event;
        DAT_RETURN code;
        while (DAT_GET_TYPE(code = dat_evd_dequeue(evd, &event)) == DAT_QUEUE_EMPTY) {
            usleep(100);
            p_.slept();
        }
        p_.progress();
        program::must("dat_evd_dequeue", code);
        if (event.event_data.dto_completion_event_data.status != DAT_DTO_SUCCESS)
            throw program::failure(
                std::string("an operation completed with ") +
                dat::dto_status_name(event.event_data.dto_completion_event_data.status));
    }

    /// Drains outstanding operations: waits, and polls the other queues.
    void settle()
    {
        DAT_EVENT event;
        for (int i = 0; i < 10; ++i) {
            usleep(200);
            dat_evd_dequeue(b_.receive_evd(), &event);
            dat_evd_dequeue(b_.request_evd(), &event);
        }
    }

    unsigned count_;
    patience &p_;
    dat_adapter adapter_;
    dat_link a_, b_;
    struct further_pair {
        std::unique_ptr<dat_link> a, b;
    };
    std::vector<further_pair> further_; ///< their completions go to the EVDs of a_ and b_
    bool last_was_odd_ = false;
};

} // namespace

int main(int argc, char **argv)
{
    probe_options how;
    program::command_line line(
        "instructions-probe",
        "Run by `instructions` under callgrind; prints phases, calls and unusual outcomes");
    line.positional("adapter", how.adapter, "adapter name in dat.conf");
    line.flag("--threadsafe", how.threadsafe, "open it through its threadsafe line");
    line.flag("--merged", how.merged, "requests and connection events share an EVD");
    line.number("--pairs", how.pairs, 1u, 64u, "connections of the stream, which share two EVDs");
    line.number("--count", how.count, 10u, 100'000u, "calls per phase");
    if (const auto status = line.parse(argc, argv))
        return *status;
    try {
        patience p(seconds(60));
        probe(how, p).run();
    } catch (const std::exception &e) {
        std::fprintf(stderr, "instructions-probe: %s\n", e.what());
        return 1;
    }
}
