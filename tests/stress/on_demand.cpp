// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// on-demand: processes that connect to one another when they have something to say, as ranks of an
// MPI library do. Every receive is posted in a state in which DAT lets it be posted, and while
// there is room for it: before and during the connect, after the accept, on arrival of a message,
// during the disconnect and after it. Where two processes connect to each other at once, one gives
// up and resets its endpoint. A refused post ends the run, with all that is known about it.
#include "run.hpp"

#include "dat_names.hpp"
#include "program/command_line.hpp"
#include "program/failure.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace stress {
namespace {

constexpr std::uint32_t most_ranks = 16;
constexpr std::uint32_t depth = 32;     ///< receives of an endpoint
constexpr std::uint32_t sends = 8;      ///< outstanding ones of an endpoint
constexpr std::uint32_t messages = 300; ///< in each direction of a connection
constexpr std::uint32_t kept_free = 2;  ///< receives that are posted while a connection ends
constexpr std::uint32_t slot_size = 64;

struct wishes {
    std::string ia;
    std::uint32_t ranks = 4;
    std::uint32_t seconds = 10;
    std::uint32_t busy = 0;
    std::uint32_t seed = 0;
    std::uint32_t patience = 60;
};

/// What the processes share.
struct board {
    std::atomic<std::uint32_t> arrived{0}; ///< at barriers, over all rounds
    std::atomic<bool> failed{false};
    std::atomic<bool> over{false};
    std::atomic<std::uint64_t> rounds{0}, connections{0}, crossed{0}, receives{0};
    DAT_CONN_QUAL qualifiers[most_ranks] = {};
};

struct message {
    std::uint32_t from, to, number, round;
};

enum class link_state { idle, connecting, accepting, up, ending, ended };
constexpr const char *state_names[] = {"idle", "connecting", "accepting", "up", "ending", "ended"};

struct peer {
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    link_state now = link_state::idle;
    std::uint32_t life = 0; ///< counts resets
    std::uint32_t posted = 0, taken = 0, sent = 0, out = 0;
    bool has_given_up = false; ///< the event that ends the given-up attempt is still to come
    bool has_lost = false;     ///< the peer connects, after both have
    std::vector<std::uint32_t> unused;
};

struct another_failed {};

/// A rank of the job: one process.
class rank {
public:
    rank(const wishes &asked, board &all, std::uint32_t number)
        : asked_(asked), all_(all), me_(number), random_(std::uint64_t{asked.seed} << 8 | number),
          peers_(asked.ranks), memory_(asked.ranks * (depth + sends) * slot_size)
    {}

    void run()
    {
        const instant end = now() + instant{asked_.seconds} * 1'000'000'000;
        while (!all_.over) {
            live_one_round();
            if (me_ == 0) {
                all_.rounds.fetch_add(1);
                all_.over = now() >= end;
            }
            meet();
        }
    }

private:
    void must(const char *call, DAT_RETURN code)
    {
        if (code != DAT_SUCCESS)
            broken(std::string(call) + ": " + program::code_text(code));
    }
    [[noreturn]] void broken(const std::string &what)
    {
        std::string text = "on-demand: BROKEN, rank " + std::to_string(me_) + " in round " +
                           std::to_string(round_) + ": " + what + "\n";
        for (std::uint32_t i = 0; i < asked_.ranks; ++i)
            if (i != me_)
                text += "  " + describe(i) + "\n";
        std::fputs(text.c_str(), stderr);
        throw another_failed();
    }
    std::string describe(std::uint32_t number)
    {
        const peer &p = peers_[number];
        DAT_EP_STATE state{};
        DAT_BOOLEAN no_receives{}, no_requests{};
        const DAT_RETURN asked = dat_ep_get_status(p.ep, &state, &no_receives, &no_requests);
        return "rank " + std::to_string(number) + ": " + state_names[static_cast<int>(p.now)] +
               ", endpoint " +
               (asked == DAT_SUCCESS ? dat::ep_state_name(state) : program::code_text(asked)) +
               ", " + std::to_string(p.posted) + " of " + std::to_string(depth) +
               " receives posted, " + std::to_string(p.taken) + " messages taken, " +
               std::to_string(p.sent) + " sent, " + std::to_string(p.out) + " outstanding, " +
               std::to_string(p.life) + " resets";
    }

    /// All processes have come as far.
    void meet()
    {
        ++meetings_;
        all_.arrived.fetch_add(1);
        const instant limit = now() + instant{asked_.patience} * 1'000'000'000;
        while (all_.arrived < meetings_ * asked_.ranks) {
            if (all_.failed)
                throw another_failed();
            if (now() > limit)
                broken("the other processes do not come");
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
    }

    // --- a round ---

    void live_one_round()
    {
        ++round_;
        open();
        meet();
        talk();
        meet();
        part();
        meet();
        must("dat_ia_close", dat_ia_close(ia_, DAT_CLOSE_ABRUPT_FLAG));
    }

    void open()
    {
        DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
        must("dat_ia_openv", dat_ia_openv(const_cast<char *>(asked_.ia.c_str()), 8, &async, &ia_,
                                          DAT_VERSION_MAJOR, DAT_VERSION_MINOR, DAT_FALSE));
        must("dat_ia_query", dat_ia_query(ia_, &async, DAT_IA_FIELD_ALL, &attr_, 0, nullptr));
        must("dat_pz_create", dat_pz_create(ia_, &pz_));
        const auto evd = [&](DAT_COUNT length, DAT_EVD_FLAGS streams, DAT_EVD_HANDLE &out) {
            must("dat_evd_create", dat_evd_create(ia_, length, DAT_HANDLE_NULL, streams, &out));
        };
        const auto ranks = static_cast<DAT_COUNT>(asked_.ranks);
        evd(2 * ranks, DAT_EVD_CR_FLAG, requests_);
        evd(4 * ranks, DAT_EVD_CONNECTION_FLAG, connections_);
        evd(2 * ranks * static_cast<DAT_COUNT>(depth + sends), DAT_EVD_DTO_FLAG, transfers_);
        DAT_REGION_DESCRIPTION region{};
        region.for_va = memory_.data();
        DAT_RMR_CONTEXT remote = 0;
        DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
        must("dat_lmr_create", dat_lmr_create(ia_, DAT_MEM_TYPE_VIRTUAL, region, memory_.size(),
                                              pz_, DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &lmr,
                                              &context_, &remote, nullptr, nullptr));
        DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
        must("dat_psp_create_any", dat_psp_create_any(ia_, &all_.qualifiers[me_], requests_,
                                                      DAT_PSP_CONSUMER_FLAG, &psp));
        for (std::uint32_t i = 0; i < asked_.ranks; ++i)
            if (i != me_)
                make(i);
    }

    void make(std::uint32_t number)
    {
        peer &p = peers_[number] = {};
        DAT_EP_ATTR attr{};
        attr.service_type = DAT_SERVICE_TYPE_RC;
        attr.qos = DAT_QOS_BEST_EFFORT;
        attr.max_recv_dtos = depth;
        attr.max_request_dtos = sends;
        attr.max_recv_iov = attr.max_request_iov = 1;
        attr.max_rdma_read_in = attr.max_rdma_read_out = 1;
        attr.max_rdma_read_iov = attr.max_rdma_write_iov = 1;
        attr.srq_soft_hw = DAT_HW_DEFAULT;
        must("dat_ep_create",
             dat_ep_create(ia_, pz_, transfers_, transfers_, connections_, &attr, &p.ep));
        fill(number, depth / 2);
    }

    void talk()
    {
        watch_begins();
        while (!all_have_said_all()) {
            bool moved = false;
            for (std::uint32_t i = 0; i < asked_.ranks; ++i)
                if (i != me_)
                    moved |= speak(i);
            moved |= int{answer_request()} | int{look_at_connections()} | int{look_at_transfers()};
            watch(moved);
        }
    }
    bool all_have_said_all() const
    {
        for (std::uint32_t i = 0; i < asked_.ranks; ++i) {
            const peer &p = peers_[i];
            if (i != me_ && (p.taken < messages || p.sent < messages || p.out != 0))
                return false;
        }
        return true;
    }

    void part()
    {
        for (std::uint32_t i = 0; i < asked_.ranks; ++i) {
            if (i == me_)
                continue;
            peers_[i].now = link_state::ending;
            must("dat_ep_disconnect", dat_ep_disconnect(peers_[i].ep, DAT_CLOSE_GRACEFUL_FLAG));
            fill(i, peers_[i].posted + 1);
        }
        const auto is_done = [](const peer &p) {
            return p.ep == DAT_HANDLE_NULL || (p.now == link_state::ended && p.posted == 0);
        };
        watch_begins();
        while (!std::all_of(peers_.begin(), peers_.end(), is_done))
            watch((int{look_at_connections()} | int{look_at_transfers()}) != 0);
        for (peer &p : peers_)
            if (p.ep != DAT_HANDLE_NULL)
                must("dat_ep_free", dat_ep_free(std::exchange(p.ep, DAT_HANDLE_NULL)));
    }

    void watch_begins() { moved_ = now(); }
    void watch(bool moved)
    {
        if (moved)
            moved_ = now();
        else if (all_.failed)
            throw another_failed();
        else if (now() - moved_ > instant{asked_.patience} * 1'000'000'000)
            broken("nothing moves");
    }

    // --- receives and sends ---

    std::uint8_t *slot(std::uint32_t number, std::uint32_t which)
    {
        return memory_.data() + (number * (depth + sends) + which) * slot_size;
    }
    DAT_LMR_TRIPLET segment(std::uint32_t number, std::uint32_t which, std::uint32_t length)
    {
        return {reinterpret_cast<DAT_VADDR>(slot(number, which)), length, context_};
    }
    static DAT_DTO_COOKIE cookie(std::uint32_t life, std::uint32_t number, std::uint32_t which)
    {
        DAT_DTO_COOKIE out{};
        out.as_64 = std::uint64_t{life} << 32 | number << 16 | which;
        return out;
    }

    /// Posts receives until there are so many.
    void fill(std::uint32_t number, std::uint32_t wanted)
    {
        peer &p = peers_[number];
        if (p.posted == 0) {
            p.unused.clear();
            for (std::uint32_t i = depth; i != 0; --i)
                p.unused.push_back(i - 1);
        }
        while (p.posted < std::min(wanted, depth)) {
            const std::uint32_t which = p.unused.back();
            DAT_LMR_TRIPLET where = segment(number, which, slot_size);
            const DAT_RETURN code = dat_ep_post_recv(p.ep, 1, &where, cookie(p.life, number, which),
                                                     DAT_COMPLETION_DEFAULT_FLAG);
            if (code != DAT_SUCCESS)
                broken("a receive for rank " + std::to_string(number) +
                       " is refused: " + program::code_text(code));
            p.unused.pop_back();
            ++p.posted;
        }
    }

    bool speak(std::uint32_t number)
    {
        peer &p = peers_[number];
        if (p.now == link_state::idle && !p.has_lost && random_.one_in(50)) {
            p.now = link_state::connecting;
            must("dat_ep_connect",
                 dat_ep_connect(p.ep, attr_.ia_address_ptr, all_.qualifiers[number],
                                DAT_TIMEOUT_INFINITE, sizeof me_, &me_, DAT_QOS_BEST_EFFORT,
                                DAT_CONNECT_DEFAULT_FLAG));
            fill(number, depth * 3 / 4);
            return true;
        }
        const bool has_room = p.out < sends && p.sent < messages &&
                              p.sent < p.taken + depth / 2 - 1; // the peer has a receive for it
        if (p.now != link_state::up || !has_room)
            return false;
        const std::uint32_t which = depth + p.sent % sends;
        const message said{me_, number, p.sent, round_};
        std::memcpy(slot(number, which), &said, sizeof said);
        DAT_LMR_TRIPLET from = segment(number, which, sizeof said);
        must("dat_ep_post_send", dat_ep_post_send(p.ep, 1, &from, cookie(p.life, number, which),
                                                  DAT_COMPLETION_DEFAULT_FLAG));
        ++p.sent;
        ++p.out;
        return true;
    }

    bool look_at_transfers()
    {
        DAT_EVENT event;
        if (dat_evd_dequeue(transfers_, &event) != DAT_SUCCESS)
            return false;
        const DAT_DTO_COMPLETION_EVENT_DATA &done = event.event_data.dto_completion_event_data;
        const auto life = static_cast<std::uint32_t>(done.user_cookie.as_64 >> 32);
        const auto number = static_cast<std::uint32_t>(done.user_cookie.as_64 >> 16 & 0xffff);
        const auto which = static_cast<std::uint32_t>(done.user_cookie.as_64 & 0xffff);
        peer &p = peers_[number];
        if (done.ep_handle != p.ep || life != p.life)
            broken("a completion comes of an endpoint that is gone, or was reset since");
        // An attempt may have been rejected, and that event not be taken yet.
        const bool ends = p.now == link_state::ending || p.now == link_state::ended ||
                          p.now == link_state::connecting;
        const bool failed = done.status != DAT_DTO_SUCCESS;
        if (failed && !(ends && done.status == DAT_DTO_ERR_FLUSHED))
            broken(std::string("an operation for rank ") + std::to_string(number) +
                   " completes with " + dat::dto_status_name(done.status));
        if (which >= depth) {
            --p.out;
            return true;
        }
        --p.posted;
        p.unused.push_back(which);
        if (!failed)
            take(number, which);
        return true;
    }

    void take(std::uint32_t number, std::uint32_t which)
    {
        peer &p = peers_[number];
        message said{};
        std::memcpy(&said, slot(number, which), sizeof said);
        if (said.from != number || said.to != me_ || said.number != p.taken || said.round != round_)
            broken("a message from rank " + std::to_string(number) + " is not the next one");
        ++p.taken;
        all_.receives.fetch_add(1, std::memory_order_relaxed);
        if (p.taken + kept_free <= messages)
            fill(number, depth);
    }

    // --- connections ---

    bool answer_request()
    {
        DAT_EVENT event;
        if (dat_evd_dequeue(requests_, &event) != DAT_SUCCESS)
            return false;
        const DAT_CR_HANDLE request = event.event_data.cr_arrival_event_data.cr_handle;
        DAT_CR_PARAM param{};
        must("dat_cr_query", dat_cr_query(request, DAT_CR_FIELD_ALL, &param));
        std::uint32_t number = 0;
        std::memcpy(&number, param.private_data, sizeof number);
        peer &p = peers_[number];
        if (p.now != link_state::idle && me_ < number) { // the peer gives up, or has done that
            must("dat_cr_reject", dat_cr_reject(request, 0, nullptr));
            return true;
        }
        if (p.now == link_state::connecting)
            give_up(number);
        if (p.now != link_state::idle)
            broken("a request comes from rank " + std::to_string(number) + " out of turn");
        p.now = link_state::accepting;
        must("dat_cr_accept", dat_cr_accept(request, p.ep, 0, nullptr));
        fill(number, depth);
        return true;
    }

    /// The peer has begun to connect, too. The end of our attempt was told before the call returns,
    /// or is told by then.
    void give_up(std::uint32_t number)
    {
        must("dat_ep_disconnect", dat_ep_disconnect(peers_[number].ep, DAT_CLOSE_ABRUPT_FLAG));
        peers_[number].has_given_up = true;
        begin_again(number);
    }
    void begin_again(std::uint32_t number)
    {
        peer &p = peers_[number];
        must("dat_ep_reset", dat_ep_reset(p.ep));
        ++p.life;
        p.posted = 0;
        p.now = link_state::idle;
        p.has_lost = true;
        all_.crossed.fetch_add(1);
        fill(number, depth / 2);
    }

    bool look_at_connections()
    {
        DAT_EVENT event;
        if (dat_evd_dequeue(connections_, &event) != DAT_SUCCESS)
            return false;
        const DAT_EP_HANDLE ep = event.event_data.connect_event_data.ep_handle;
        const auto found =
            std::find_if(peers_.begin(), peers_.end(), [ep](const peer &p) { return p.ep == ep; });
        if (found == peers_.end())
            broken("a connection event comes of an endpoint that is gone");
        const auto number = static_cast<std::uint32_t>(found - peers_.begin());
        peer &p = *found;
        switch (static_cast<int>(event.event_number)) {
        case DAT_CONNECTION_EVENT_ESTABLISHED:
            p.now = link_state::up;
            all_.connections.fetch_add(1, std::memory_order_relaxed);
            fill(number, depth);
            return true;
        case DAT_CONNECTION_EVENT_PEER_REJECTED:
        case DAT_CONNECTION_EVENT_DISCONNECTED:
            if (std::exchange(p.has_given_up, false))
                return true;
            if (p.now == link_state::connecting && me_ > number) {
                begin_again(number);
                return true;
            }
            if (p.now != link_state::ending)
                break;
            p.now = link_state::ended;
            fill(number, p.posted + 1);
            return true;
        default:
            break;
        }
        broken("rank " + std::to_string(number) + ": " + dat::event_name(event.event_number));
    }

    const wishes &asked_;
    board &all_;
    std::uint32_t me_;
    dice random_;
    std::uint32_t round_ = 0;
    std::uint32_t meetings_ = 0;
    instant moved_ = 0;
    std::vector<peer> peers_;
    std::vector<std::uint8_t> memory_;
    DAT_IA_HANDLE ia_ = DAT_HANDLE_NULL;
    DAT_IA_ATTR attr_{};
    DAT_PZ_HANDLE pz_ = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE requests_ = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE connections_ = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE transfers_ = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT context_ = 0;
};

// ------------------------------------------------------------------------------------ processes

template <class Work>
pid_t in_child(Work work)
{
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child != 0)
        return child;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent)
        std::_Exit(1);
    std::_Exit(work());
}

int run_rank(const wishes &asked, board &all, std::uint32_t number)
{
    try {
        rank(asked, all, number).run();
        return 0;
    } catch (const another_failed &) {
    } catch (const std::exception &e) {
        std::fprintf(stderr, "on-demand: rank %u: %s\n", number, e.what());
    }
    all.failed = true;
    return 1;
}

/// True if all of them succeed.
bool await(const std::vector<pid_t> &ranks)
{
    bool well = true;
    for (const pid_t each : ranks) {
        int how = 0;
        ::waitpid(each, &how, 0);
        well = well && how == 0;
        if (WIFSIGNALED(how))
            std::fprintf(stderr, "on-demand: a process ends by signal %d\n", WTERMSIG(how));
    }
    return well;
}

int start(const wishes &asked)
{
    void *const shared =
        ::mmap(nullptr, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        throw program::failure("no shared memory");
    board &all = *new (shared) board;
    std::vector<pid_t> busy, ranks;
    for (std::uint32_t i = 0; i < asked.busy; ++i)
        busy.push_back(in_child([]() -> int {
            for (std::atomic<unsigned> turns{0};;)
                turns.fetch_add(1);
        }));
    for (std::uint32_t i = 0; i < asked.ranks; ++i)
        ranks.push_back(in_child([&asked, &all, i] { return run_rank(asked, all, i); }));
    const bool well = await(ranks);
    for (const pid_t each : busy) {
        ::kill(each, SIGKILL);
        ::waitpid(each, nullptr, 0);
    }
    std::printf("%s: %s, seed %u, %u processes: %llu rounds, %llu connections, %llu crossed, "
                "%llu messages\n",
                well ? "all well" : "BROKEN", asked.ia.c_str(), asked.seed, asked.ranks,
                static_cast<unsigned long long>(all.rounds.load()),
                static_cast<unsigned long long>(all.connections.load() / 2),
                static_cast<unsigned long long>(all.crossed.load()),
                static_cast<unsigned long long>(all.receives.load()));
    return well ? 0 : 1;
}

void describe(program::command_line &line, wishes &s)
{
    line.text("--ia", "NAME", s.ia, "name in dat.conf of the adapter");
    line.number("--ranks", s.ranks, 2u, most_ranks, "number of processes that connect");
    line.number("--seconds", s.seconds, 1u, 1'000'000u, "duration");
    line.number("--busy", s.busy, 0u, 256u, "further processes that keep the processors busy");
    line.number("--seed", s.seed, 0u, 0xffffffu, "seed of the random numbers; 0: from the clock");
    line.number("--patience", s.patience, 1u, 100'000u,
                "seconds before an expected event is reported as missing");
}

} // namespace
} // namespace stress

int main(int argc, char **argv)
{
    stress::wishes asked;
    program::command_line line("on-demand", "Processes that connect to one another on demand");
    stress::describe(line, asked);
    if (const auto status = line.parse(argc, argv))
        return *status;
    if (asked.ia.empty()) {
        std::fprintf(stderr, "on-demand: --ia is missing\nrun on-demand --help for usage\n");
        return program::wrong_usage;
    }
    if (asked.seed == 0)
        asked.seed = static_cast<std::uint32_t>(stress::now() / 1000 & 0xffffff) | 1;
    try {
        return stress::start(asked);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "on-demand: %s\n", e.what());
        return 1;
    }
}
