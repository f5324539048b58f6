// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "links.hpp"

#include "ending.hpp"
#include "lasting.hpp"
#include "posts.hpp"
#include "report.hpp"

#include <algorithm>
#include <cstring>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
#include <utility>

namespace am::links {

namespace {

constexpr std::uint32_t magic = 0xda91a302;  // with the version of the messages
constexpr int least_room = 8;                // peers
constexpr std::int64_t first_pause = 20'000; // before another attempt, and twice as long each time
constexpr std::int64_t longest_pause = 1'000'000;
constexpr std::int64_t grace = 1'000'000; // from a lost connection to the end of the job
constexpr DAT_TIMEOUT slice = 100'000;

/// Connection requests that do not come from a rank of this job. They are answered, but not at
/// once if there are many: what has come meanwhile is then taken together.
class strangers {
public:
    void refuse(DAT_CR_HANDLE request, const char *why);
    /// @return microseconds to sleep before the next requests are taken
    unsigned pause() { return std::exchange(refused_, false) ? 5'000 : 0; }

private:
    static constexpr std::int64_t between_reports = 10'000'000;

    bool refused_ = false; ///< since pause()
    std::uint64_t count_ = 0;
    std::int64_t next_report_ = 0;
};

struct state {
    mutex lock;
    DAT_EVD_HANDLE events = DAT_HANDLE_NULL; // of connections and requests for them
    DAT_PSP_HANDLE listener = DAT_HANDLE_NULL;
    int retries = 0;   // that are due at some time; of the service thread
    strangers refused; // of the service thread
    int room = 0;      // peers that the EVDs of transfers have room for
    int used = 0;
    bool receives_grow = false;     // the shared queue has room for those peers only
    std::atomic<int> lost_rank{-1}; // the first
    std::atomic<std::int64_t> lost_at{0};
    std::atomic<std::uint64_t> count{0};
};

state &links = lasting<state>();

int receives_per_peer()
{
    return 2 * int(the_job.set.credits) + 1;
}

bool link_failed(const char *call, DAT_RETURN code)
{
    if (code == DAT_SUCCESS)
        return false;
    report("%s: %s", call, dat_text(code));
    return true;
}

/// Makes room for the events of one more peer. The lock is held.
void make_room()
{
    if (links.used++ < links.room)
        return;
    links.room = std::min(std::max(least_room, 2 * links.room), the_job.size());
    const std::lock_guard receive(the_job.receive_lock);
    const std::lock_guard request(the_job.request_lock);
    if (link_failed("dat_evd_resize",
                    dat_evd_resize(the_job.receive_evd, links.room * receives_per_peer())) ||
        link_failed("dat_evd_resize", dat_evd_resize(the_job.request_evd, links.room * job::depth)))
        ending::fail();
    const std::lock_guard shared(the_job.receives_lock);
    if (links.receives_grow &&
        link_failed("dat_srq_resize",
                    dat_srq_resize(the_job.receives, links.room * receives_per_peer())))
        ending::fail();
}

/// An endpoint with receives of its own, or of the shared queue if `receives` is 0.
DAT_EP_HANDLE make_endpoint(DAT_EVD_HANDLE events, int receives, int requests)
{
    DAT_IA_ATTR limits{};
    if (link_failed("dat_ia_query",
                    dat_ia_query(the_job.ia, nullptr, DAT_IA_FIELD_ALL, &limits, 0, nullptr)))
        return DAT_HANDLE_NULL;
    DAT_EP_ATTR attr{};
    attr.service_type = DAT_SERVICE_TYPE_RC;
    attr.max_message_size = std::min<DAT_SEG_LENGTH>(buffer_size, limits.max_message_size);
    attr.max_rdma_size = the_job.max_rdma;
    attr.qos = DAT_QOS_BEST_EFFORT;
    attr.max_recv_dtos = receives;
    attr.max_request_dtos = requests;
    attr.max_recv_iov = 1;
    attr.max_request_iov = 1;
    // All requests may be reads. Where both sides have more than these, siw serves none of them.
    attr.max_rdma_read_in = std::min(job::depth, limits.max_rdma_read_per_ep_in);
    attr.max_rdma_read_out = std::min(job::depth, limits.max_rdma_read_per_ep_out);
    attr.max_rdma_read_iov = 1;
    attr.max_rdma_write_iov = 1;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    const bool failed =
        receives > 0 ? link_failed("dat_ep_create",
                                   dat_ep_create(the_job.ia, the_job.pz, the_job.receive_evd,
                                                 the_job.request_evd, events, &attr, &ep))
                     : link_failed("dat_ep_create_with_srq",
                                   dat_ep_create_with_srq(the_job.ia, the_job.pz,
                                                          the_job.receive_evd, the_job.request_evd,
                                                          events, the_job.receives, &attr, &ep));
    return failed ? DAT_HANDLE_NULL : ep;
}

bool give_to(DAT_EP_HANDLE ep, peer *of)
{
    DAT_CONTEXT context{};
    context.as_ptr = of;
    return !link_failed("dat_set_consumer_context", dat_set_consumer_context(ep, context));
}

/// The endpoint of a connection, with M receives; the other M are posted with each request.
/// The locks of links and peer are held.
bool make_talker(peer &p)
{
    make_room();
    const bool shared = the_job.receives != DAT_HANDLE_NULL;
    p.ep = make_endpoint(links.events, shared ? 0 : receives_per_peer(), job::depth);
    if (p.ep == DAT_HANDLE_NULL || !give_to(p.ep, &p))
        return false;
    p.credits = int(the_job.set.credits);
    p.spare_receives = 0;
    p.bank = 0;
    // What was posted to the shared queue for an attempt before is there still.
    for (unsigned i = 0; i < the_job.set.credits && !(shared && p.granted); ++i)
        post_receive(p, take_buffer());
    p.granted = true;
    p.state = link_state::connecting;
    return true;
}

/// The locks of links and peer are held.
void start(peer &p)
{
    const bool mine = the_job.rank() < p.rank;
    if (mine) {
        if (!make_talker(p))
            ending::fail();
    } else {
        p.knock = make_plain_endpoint(links.events, &p);
        if (p.knock == DAT_HANDLE_NULL)
            ending::fail();
        p.state = link_state::connecting;
    }
    const auto left = std::max<std::int64_t>(1, (p.deadline - now()) / 1000);
    const hello words = make_hello(p, mine ? purpose::talk : purpose::knock, 0);
    p.connect_number = words.number;
    const DAT_RETURN code = connect(mine ? p.ep : p.knock, p, words, unsigned(left));
    if (link_failed("dat_ep_connect", code))
        ending::fail();
}

void begin(peer &p)
{
    const std::lock_guard outer(links.lock);
    const std::lock_guard inner(p.lock);
    if (p.state != link_state::none)
        return;
    p.deadline = now() + std::int64_t{the_job.set.connect_timeout} * 1000;
    p.pause = first_pause;
    start(p);
}

const char *event_text(DAT_EVENT_NUMBER number)
{
    switch (number) {
    case DAT_CONNECTION_EVENT_TIMED_OUT:
        return "timed out";
    case DAT_CONNECTION_EVENT_UNREACHABLE:
        return "unreachable";
    case DAT_CONNECTION_EVENT_NON_PEER_REJECTED:
        return "nothing listens there";
    case DAT_CONNECTION_EVENT_PEER_REJECTED:
        return "refused";
    case DAT_CONNECTION_EVENT_ESTABLISHED:
        return "another process listens there";
    default:
        return "failed";
    }
}

/// An attempt failed; another one follows until the time is up. The endpoint is kept: receives that
/// it may still hold refer to it.
void try_again(peer &p, DAT_EVENT_NUMBER why)
{
    if (ending::begun())
        return;
    if (now() + p.pause < p.deadline) {
        links.retries += p.retry_at == 0;
        p.retry_at = now() + p.pause;
        p.pause = std::min(2 * p.pause, longest_pause);
        return;
    }
    report("no connection to rank %d within %u ms: %s", p.rank, the_job.set.connect_timeout,
           event_text(why));
    ending::begin(1);
}

void retry_due()
{
    const std::int64_t time = now();
    for (int rank = 0; links.retries > 0 && rank < the_job.size(); ++rank) {
        peer &p = the_job.at(rank);
        if (p.retry_at == 0 || p.retry_at > time)
            continue;
        p.retry_at = 0;
        --links.retries;
        const std::lock_guard outer(links.lock);
        const std::lock_guard inner(p.lock);
        start(p);
    }
}

statement statement_of(const hello &words, int to)
{
    return {std::uint32_t(words.what), 0, words.rank, std::uint32_t(to), words.number,
            std::uint32_t(words.code)};
}

/// What the rank that was asked says: it accepts, or it rejects.
answer make_answer(const hello &words, bool accepts)
{
    answer made{};
    made.magic = magic;
    made.shown = prove(the_job.key, {std::uint32_t(words.what), 1, std::uint32_t(the_job.rank()),
                                     words.rank, words.number, accepts});
    return made;
}

void reject(DAT_CR_HANDLE request, const hello &words)
{
    answer no = make_answer(words, false);
    (void)dat_cr_reject(request, sizeof no, &no);
}

void accept_talk(DAT_CR_HANDLE request, const hello &words, peer &p)
{
    const std::lock_guard outer(links.lock);
    const std::lock_guard inner(p.lock);
    if (p.state == link_state::up) {
        report("rank %d asks for a second connection: refused", p.rank);
        return reject(request, words);
    }
    // Of an attempt before, of which the peer thinks that it failed. Its events are passed over.
    if (p.ep != DAT_HANDLE_NULL)
        (void)dat_ep_disconnect(p.ep, DAT_CLOSE_ABRUPT_FLAG);
    if (!make_talker(p))
        return reject(request, words);
    answer yes = make_answer(words, true);
    if (link_failed("dat_cr_accept", dat_cr_accept(request, p.ep, sizeof yes, &yes)))
        ending::fail();
}

void answer_election(DAT_CR_HANDLE request, const hello &words)
{
    // Made first: who is granted it has to be told.
    const DAT_EP_HANDLE ep = make_plain_endpoint(links.events, nullptr);
    answer yes = make_answer(words, true);
    if (ep == DAT_HANDLE_NULL || !ending::grant(int(words.rank)) ||
        dat_cr_accept(request, ep, sizeof yes, &yes) != DAT_SUCCESS)
        reject(request, words);
}

void answer_rank(DAT_CR_HANDLE request, const hello &words, peer &p)
{
    switch (words.what) {
    case purpose::talk:
        return accept_talk(request, words, p);
    case purpose::elect:
        return answer_election(request, words);
    case purpose::leave: // answered first: the process may be gone soon
        reject(request, words);
        return ending::asked(words.code);
    case purpose::knock:
        begin(p);
        return reject(request, words);
    }
}

void strangers::refuse(DAT_CR_HANDLE request, const char *why)
{
    (void)dat_cr_reject(request, 0, nullptr);
    refused_ = true;
    ++count_;
    if (now() < next_report_)
        return;
    report("refused %llu connection requests that do not come from a rank of this job; the last "
           "one %s",
           static_cast<unsigned long long>(std::exchange(count_, 0)), why);
    next_report_ = now() + between_reports;
}

/// Null, or why it is not believed.
const char *doubt(const hello &words)
{
    if (words.magic != magic)
        return "is none of libdapl-am, or of another version";
    if (words.rank >= unsigned(the_job.size()) || int(words.rank) == the_job.rank() ||
        !is_proof(the_job.key, statement_of(words, the_job.rank()), words.shown))
        return "does not prove that it knows the secret of the job";
    if (!the_job.at(int(words.rank)).heard.is_new(words.number))
        return "has come before";
    const bool asks_upwards = words.what == purpose::talk && int(words.rank) > the_job.rank();
    const bool asks_downwards = words.what == purpose::knock && int(words.rank) < the_job.rank();
    return words.what < purpose::talk || words.what > purpose::leave || asks_upwards ||
                   asks_downwards || (words.what == purpose::elect && the_job.rank() != 0)
               ? "has a purpose that this rank does not serve"
               : nullptr;
}

void take_request(const DAT_EVENT &event)
{
    const DAT_CR_HANDLE request = event.event_data.cr_arrival_event_data.cr_handle;
    DAT_CR_PARAM param{};
    hello words{};
    if (dat_cr_query(request, DAT_CR_FIELD_ALL, &param) == DAT_SUCCESS &&
        param.private_data_size >= DAT_COUNT(sizeof words))
        std::memcpy(&words, param.private_data, sizeof words);
    if (const char *why = doubt(words))
        return links.refused.refuse(request, why);
    answer_rank(request, words, the_job.at(int(words.rank)));
}

bool is_end(DAT_EVENT_NUMBER number)
{
    return number == DAT_CONNECTION_EVENT_DISCONNECTED || number == DAT_CONNECTION_EVENT_BROKEN;
}

/// The peer's lock is held.
void connection_made(peer &p, const DAT_EVENT &event)
{
    // This side has asked for it, or has accepted what was proven.
    if (the_job.rank() < p.rank && !answered(p, purpose::talk, p.connect_number, event)) {
        (void)dat_ep_disconnect(std::exchange(p.ep, DAT_HANDLE_NULL), DAT_CLOSE_ABRUPT_FLAG);
        if (!std::exchange(p.doubted, true))
            report("what listens in the place of rank %d does not know the secret of the job",
                   p.rank);
        return try_again(p, event.event_number);
    }
    links.count.fetch_add(1, std::memory_order_relaxed);
    p.state.store(link_state::up, std::memory_order_release);
}

void talk_event(peer &p, const DAT_EVENT &event)
{
    const DAT_EVENT_NUMBER number = event.event_number;
    if (number == DAT_CONNECTION_EVENT_ESTABLISHED)
        connection_made(p, event);
    else if (is_end(number))
        lose(p);
    else if (number == DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR)
        p.ep = DAT_HANDLE_NULL; // the peer gave this one up and comes again
    else
        try_again(p, number);
}

/// The peer's lock is held.
void knock_event(peer &p, const DAT_EVENT &event)
{
    const DAT_EP_HANDLE ep = std::exchange(p.knock, DAT_HANDLE_NULL);
    if (event.event_number != DAT_CONNECTION_EVENT_PEER_REJECTED ||
        !answered(p, purpose::knock, p.connect_number, event))
        try_again(p, event.event_number);
    (void)dat_ep_free(ep);
}

/// Of endpoints that were given up nothing more is of interest.
void take_event(const DAT_EVENT &event)
{
    const DAT_EP_HANDLE ep = event.event_data.connect_event_data.ep_handle;
    peer *p = peer_of(ep);
    if (!p)
        return;
    const std::lock_guard guard(p->lock);
    if (ep == p->ep)
        talk_event(*p, event);
    else if (ep == p->knock)
        knock_event(*p, event);
}

void check_lost()
{
    const std::int64_t at = links.lost_at.load(std::memory_order_acquire);
    if (at == 0 || now() < at + grace || ending::begun())
        return;
    report("rank %d has ended without leaving the job, or the connection to it failed",
           links.lost_rank.load());
    ending::begin(1);
}

/// In one EVD without completions, and not in a CNO: there an adapter may wake the thread for all
/// that arrives, while the threads that poll need the processor.
void *run(void *)
{
    (void)pthread_setname_np(pthread_self(), "am-links");
    for (;;) {
        DAT_EVENT event;
        DAT_COUNT more = 0;
        const DAT_TIMEOUT limit = links.retries == 0 ? slice : DAT_TIMEOUT(first_pause);
        if (dat_evd_wait(links.events, limit, 1, &event, &more) == DAT_SUCCESS) {
            if (event.event_number == DAT_CONNECTION_REQUEST_EVENT)
                take_request(event);
            else
                take_event(event);
        }
        if (more == 0)
            if (const unsigned sleep = links.refused.pause(); sleep != 0)
                usleep(sleep);
        retry_due();
        check_lost();
    }
    return nullptr;
}

/// One queue that holds the receives for all credits that can be granted, where the adapter has
/// such.
bool make_shared_receives()
{
    DAT_IA_ATTR ia{};
    DAT_PROVIDER_ATTR provider{};
    if (link_failed("dat_ia_query", dat_ia_query(the_job.ia, nullptr, DAT_IA_FIELD_ALL, &ia,
                                                 DAT_PROVIDER_FIELD_ALL, &provider)))
        return false;
    const std::int64_t all = std::int64_t{receives_per_peer()} * (the_job.size() - 1);
    if (all == 0 || !provider.srq_supported || ia.max_srqs < 1 || ia.max_recv_per_srq < all ||
        ia.max_ep_per_srq < the_job.size())
        return true;
    // Some adapters cannot resize theirs.
    DAT_SRQ_ATTR attr{1, 1, DAT_SRQ_LW_DEFAULT};
    DAT_RETURN code = dat_srq_create(the_job.ia, the_job.pz, &attr, &the_job.receives);
    links.receives_grow =
        code == DAT_SUCCESS && dat_srq_resize(the_job.receives, receives_per_peer()) == DAT_SUCCESS;
    if (code == DAT_SUCCESS && !links.receives_grow) {
        (void)dat_srq_free(the_job.receives);
        attr.max_recv_dtos = DAT_COUNT(all);
        code = dat_srq_create(the_job.ia, the_job.pz, &attr, &the_job.receives);
    }
    return !link_failed("dat_srq_create", code);
}

} // namespace

hello make_hello(peer &to, purpose what, int code)
{
    hello words{};
    words.magic = magic;
    words.what = what;
    words.rank = std::uint32_t(the_job.rank());
    words.code = code;
    words.number = to.requests.fetch_add(1, std::memory_order_relaxed) + 1;
    words.shown = prove(the_job.key, statement_of(words, to.rank));
    return words;
}

bool answered(const peer &by, purpose what, std::uint64_t number, const DAT_EVENT &event)
{
    const auto &data = event.event_data.connect_event_data;
    answer words{};
    if (data.private_data_size < DAT_COUNT(sizeof words))
        return false;
    std::memcpy(&words, data.private_data, sizeof words);
    const bool accepts = event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED;
    return words.magic == magic && is_proof(the_job.key,
                                            {std::uint32_t(what), 1, std::uint32_t(by.rank),
                                             std::uint32_t(the_job.rank()), number, accepts},
                                            words.shown);
}

int open(location &mine)
{
    // At an exit every rank asks this one for two things; connections make two events each.
    const int length = 8 * the_job.size() + 128;
    const auto streams = DAT_EVD_FLAGS(DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG);
    const int few = receives_per_peer() + job::depth;
    if (link_failed("dat_evd_create",
                    dat_evd_create(the_job.ia, length, DAT_HANDLE_NULL, streams, &links.events)) ||
        (the_job.set.receive_thread &&
         link_failed("dat_cno_create", dat_cno_create(the_job.ia, DAT_OS_WAIT_PROXY_AGENT_NULL,
                                                      &the_job.receive_cno))) ||
        link_failed("dat_evd_create", dat_evd_create(the_job.ia, few, the_job.receive_cno,
                                                     DAT_EVD_DTO_FLAG, &the_job.receive_evd)) ||
        link_failed("dat_evd_create", dat_evd_create(the_job.ia, few, DAT_HANDLE_NULL,
                                                     DAT_EVD_DTO_FLAG, &the_job.request_evd)) ||
        !make_shared_receives() ||
        link_failed("dat_psp_create_any",
                    dat_psp_create_any(the_job.ia, &mine.qualifier, links.events,
                                       DAT_PSP_CONSUMER_FLAG, &links.listener)))
        return DAPL_AM_ERR_RESOURCES;
    return DAPL_AM_OK;
}

int serve()
{
    return ending::start_thread(run) ? DAPL_AM_OK : DAPL_AM_ERR_RESOURCES;
}

DAT_EP_HANDLE make_plain_endpoint(DAT_EVD_HANDLE events, peer *of)
{
    const DAT_EP_HANDLE ep = make_endpoint(events, 1, 1);
    return ep == DAT_HANDLE_NULL || give_to(ep, of) ? ep : DAT_HANDLE_NULL;
}

peer *peer_of(DAT_EP_HANDLE ep)
{
    DAT_CONTEXT context{};
    return dat_get_consumer_context(ep, &context) == DAT_SUCCESS
               ? static_cast<peer *>(context.as_ptr)
               : nullptr;
}

DAT_RETURN connect(DAT_EP_HANDLE ep, const peer &p, const hello &words, unsigned milliseconds)
{
    sockaddr_in6 address = p.place.address;
    hello data = words;
    return dat_ep_connect(ep, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&address), p.place.qualifier,
                          DAT_TIMEOUT(std::min(milliseconds, 4'000'000U) * 1000U), sizeof data,
                          &data, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
}

bool ensure(peer &p)
{
    const link_state state = p.state.load(std::memory_order_acquire);
    if (state == link_state::up) [[likely]]
        return true;
    if (state == link_state::none)
        begin(p);
    return false;
}

void failed(peer &p, DAT_DTO_COMPLETION_STATUS status)
{
    if (!p.lost && !ending::begun())
        report("an operation on rank %d completed with status %d", p.rank, int(status));
    lose(p);
}

void lose(peer &p)
{
    p.lost = true;
    int none = -1;
    if (links.lost_rank.compare_exchange_strong(none, p.rank))
        links.lost_at.store(now(), std::memory_order_release);
}

std::uint64_t established()
{
    return links.count;
}

} // namespace am::links
