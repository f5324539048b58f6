// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "links.hpp"

#include "dapl_am.h"
#include "posts.hpp"
#include "report.hpp"
#include "service_thread.hpp"

#include <algorithm>
#include <cstring>
#include <pthread.h>
#include <unistd.h>
#include <utility>

namespace am {

namespace {

using purpose = connection_purpose;

constexpr std::uint32_t magic = 0xda91a302;  // changes with the form of the messages
constexpr int least_room = 8;                // peers
constexpr std::int64_t first_pause = 20'000; // before another attempt, and twice as long each time
constexpr std::int64_t longest_pause = 1'000'000;
constexpr std::int64_t grace = 1'000'000; // the job ends so long after a connection is lost
constexpr std::int64_t between_reports = 10'000'000;
constexpr unsigned refusal_pause = 5'000;
constexpr DAT_TIMEOUT slice = 100'000;

bool set_owner(DAT_EP_HANDLE ep, peer *owner)
{
    DAT_CONTEXT context{};
    context.as_ptr = owner;
    return !report_failed("dat_set_consumer_context", dat_set_consumer_context(ep, context));
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

bool is_end(DAT_EVENT_NUMBER number)
{
    return number == DAT_CONNECTION_EVENT_DISCONNECTED || number == DAT_CONNECTION_EVENT_BROKEN;
}

} // namespace

// --- refusing what does not come from a rank

void stranger_log::refuse(DAT_CR_HANDLE request, const char *why)
{
    (void)dat_cr_reject(request, 0, nullptr);
    refused_ = true;
    ++count_;
    if (now_us() < next_report_)
        return;
    report("refused %llu connection requests that do not come from a rank of this job; the last "
           "one %s",
           static_cast<unsigned long long>(std::exchange(count_, 0)), why);
    next_report_ = now_us() + between_reports;
}

unsigned stranger_log::take_pause()
{
    return std::exchange(refused_, false) ? refusal_pause : 0;
}

// --- queues and endpoints

bool links::make_queues()
{
    // Every rank asks this one for two things at an exit; connections make two events each.
    const int length = 8 * job_.size() + 128;
    const auto streams = static_cast<DAT_EVD_FLAGS>(DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG);
    const int few = receives_per_peer() + job_context::depth;
    const auto make_queue = [this](int entries, DAT_CNO_HANDLE cno, DAT_EVD_FLAGS flags,
                                   DAT_EVD_HANDLE &evd) {
        return !report_failed("dat_evd_create", dat_evd_create(job_.ia, entries, cno, flags, &evd));
    };
    const auto make_cno = [this] {
        return !job_.set.receive_thread ||
               !report_failed(
                   "dat_cno_create",
                   dat_cno_create(job_.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &job_.receive_cno));
    };
    return make_queue(length, DAT_HANDLE_NULL, streams, events_) && make_cno() &&
           make_queue(few, job_.receive_cno, DAT_EVD_DTO_FLAG, job_.receive_evd) &&
           make_queue(few, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, job_.request_evd);
}

/// Makes one queue for the receives of all credits that can be granted, where the adapter has such.
bool links::make_shared_receives()
{
    DAT_IA_ATTR ia{};
    DAT_PROVIDER_ATTR provider{};
    if (report_failed("dat_ia_query", dat_ia_query(job_.ia, nullptr, DAT_IA_FIELD_ALL, &ia,
                                                   DAT_PROVIDER_FIELD_ALL, &provider)))
        return false;
    const std::int64_t all = std::int64_t{receives_per_peer()} * (job_.size() - 1);
    if (all == 0 || !provider.srq_supported || ia.max_srqs < 1 || ia.max_recv_per_srq < all ||
        ia.max_ep_per_srq < job_.size())
        return true;
    // Some adapters cannot resize theirs.
    DAT_SRQ_ATTR attr{1, 1, DAT_SRQ_LW_DEFAULT};
    DAT_RETURN code = dat_srq_create(job_.ia, job_.pz, &attr, &job_.receives);
    receives_grow_ =
        code == DAT_SUCCESS && dat_srq_resize(job_.receives, receives_per_peer()) == DAT_SUCCESS;
    if (code == DAT_SUCCESS && !receives_grow_) {
        (void)dat_srq_free(job_.receives);
        attr.max_recv_dtos = static_cast<DAT_COUNT>(all);
        code = dat_srq_create(job_.ia, job_.pz, &attr, &job_.receives);
    }
    return !report_failed("dat_srq_create", code);
}

int links::open(location &own)
{
    if (!make_queues() || !make_shared_receives() ||
        report_failed("dat_psp_create_any", dat_psp_create_any(job_.ia, &own.qualifier, events_,
                                                               DAT_PSP_CONSUMER_FLAG, &listener_)))
        return DAPL_AM_ERR_RESOURCES;
    return DAPL_AM_OK;
}

/// Makes room for the events of one more peer.
void links::make_room()
{
    if (used_++ < room_)
        return;
    room_ = std::min(std::max(least_room, 2 * room_), job_.size());
    const osd::lock_guard receive(job_.receive_lock);
    const osd::lock_guard request(job_.request_lock);
    if (report_failed("dat_evd_resize",
                      dat_evd_resize(job_.receive_evd, room_ * receives_per_peer())) ||
        report_failed("dat_evd_resize",
                      dat_evd_resize(job_.request_evd, room_ * job_context::depth)))
        job_.end.fail();
    const osd::lock_guard shared(job_.receives_lock);
    if (receives_grow_ &&
        report_failed("dat_srq_resize", dat_srq_resize(job_.receives, room_ * receives_per_peer())))
        job_.end.fail();
}

/// Makes an endpoint with receives of its own, or of the shared queue if `receives` is 0.
DAT_EP_HANDLE links::make_endpoint(DAT_EVD_HANDLE events, int receives, int requests) const
{
    DAT_IA_ATTR limits{};
    if (report_failed("dat_ia_query",
                      dat_ia_query(job_.ia, nullptr, DAT_IA_FIELD_ALL, &limits, 0, nullptr)))
        return DAT_HANDLE_NULL;
    DAT_EP_ATTR attr{};
    attr.service_type = DAT_SERVICE_TYPE_RC;
    attr.max_message_size = std::min<DAT_SEG_LENGTH>(buffer_size, limits.max_message_size);
    attr.max_rdma_size = job_.max_rdma;
    attr.qos = DAT_QOS_BEST_EFFORT;
    attr.max_recv_dtos = receives;
    attr.max_request_dtos = requests;
    attr.max_recv_iov = 1;
    attr.max_request_iov = 1;
    // All requests may be reads. Where both sides have more than these, siw serves no read.
    attr.max_rdma_read_in = std::min(job_context::depth, limits.max_rdma_read_per_ep_in);
    attr.max_rdma_read_out = std::min(job_context::depth, limits.max_rdma_read_per_ep_out);
    attr.max_rdma_read_iov = 1;
    attr.max_rdma_write_iov = 1;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    const bool failed =
        receives > 0
            ? report_failed("dat_ep_create", dat_ep_create(job_.ia, job_.pz, job_.receive_evd,
                                                           job_.request_evd, events, &attr, &ep))
            : report_failed("dat_ep_create_with_srq",
                            dat_ep_create_with_srq(job_.ia, job_.pz, job_.receive_evd,
                                                   job_.request_evd, events, job_.receives, &attr,
                                                   &ep));
    return failed ? DAT_HANDLE_NULL : ep;
}

/// Makes the endpoint of a connection, with M receives; the other M are posted with each request.
bool links::make_talker(peer &p)
{
    make_room();
    const bool shared = job_.receives != DAT_HANDLE_NULL;
    p.ep = make_endpoint(events_, shared ? 0 : receives_per_peer(), job_context::depth);
    if (p.ep == DAT_HANDLE_NULL || !set_owner(p.ep, &p))
        return false;
    p.credits = static_cast<int>(job_.set.credits);
    p.spare_receives = 0;
    p.bank = 0;
    // The receives of an earlier attempt are in the shared queue still.
    for (unsigned i = 0; i < job_.set.credits && !(shared && p.granted); ++i)
        post_receive(p, job_.take_buffer());
    p.granted = true;
    p.state = link_state::connecting;
    return true;
}

DAT_EP_HANDLE links::make_plain_endpoint(DAT_EVD_HANDLE events, peer *owner) const
{
    const DAT_EP_HANDLE ep = make_endpoint(events, 1, 1);
    return ep == DAT_HANDLE_NULL || set_owner(ep, owner) ? ep : DAT_HANDLE_NULL;
}

peer *links::peer_of(DAT_EP_HANDLE ep)
{
    DAT_CONTEXT context{};
    return dat_get_consumer_context(ep, &context) == DAT_SUCCESS
               ? static_cast<peer *>(context.as_ptr)
               : nullptr;
}

// --- connecting

DAT_RETURN links::connect(DAT_EP_HANDLE ep, const peer &p, const hello &words,
                          unsigned milliseconds)
{
    constexpr unsigned longest = 4'000'000;
    sockaddr_in6 address = p.place.address;
    hello data = words;
    return dat_ep_connect(ep, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&address), p.place.qualifier,
                          std::min(milliseconds, longest) * 1000U, sizeof data, &data,
                          DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
}

void links::start(peer &p)
{
    const bool connects = job_.rank() < p.rank;
    if (connects) {
        if (!make_talker(p))
            job_.end.fail();
    } else {
        p.knock = make_plain_endpoint(events_, &p);
        if (p.knock == DAT_HANDLE_NULL)
            job_.end.fail();
        p.state = link_state::connecting;
    }
    const auto left = std::max<std::int64_t>(1, (p.deadline - now_us()) / 1000);
    const hello words = make_hello(p, connects ? purpose::talk : purpose::knock, 0);
    p.connect_number = words.number;
    const DAT_RETURN code =
        connect(connects ? p.ep : p.knock, p, words, static_cast<unsigned>(left));
    if (report_failed("dat_ep_connect", code))
        job_.end.fail();
}

void links::begin(peer &p)
{
    const osd::lock_guard outer(lock_);
    const osd::lock_guard inner(p.lock);
    if (p.state != link_state::none)
        return;
    p.deadline = now_us() + std::int64_t{job_.set.connect_timeout} * 1000;
    p.pause = first_pause;
    start(p);
}

/// Begins another attempt after a failed one, until the time is up. The endpoint is kept: receives
/// that it may still hold refer to it.
void links::try_again(peer &p, DAT_EVENT_NUMBER why)
{
    if (job_.end.begun())
        return;
    if (now_us() + p.pause < p.deadline) {
        retries_ += p.retry_at == 0;
        p.retry_at = now_us() + p.pause;
        p.pause = std::min(2 * p.pause, longest_pause);
        return;
    }
    report("no connection to rank %d within %u ms: %s", p.rank, job_.set.connect_timeout,
           event_text(why));
    job_.end.begin(1);
}

void links::retry_due()
{
    const std::int64_t time = now_us();
    for (int rank = 0; retries_ > 0 && rank < job_.size(); ++rank) {
        peer &p = job_.peer_of_rank(rank);
        if (p.retry_at == 0 || p.retry_at > time)
            continue;
        p.retry_at = 0;
        --retries_;
        const osd::lock_guard outer(lock_);
        const osd::lock_guard inner(p.lock);
        start(p);
    }
}

// --- proofs

statement links::statement_of(const hello &words, int to) const
{
    return {static_cast<std::uint32_t>(words.purpose),
            0,
            words.rank,
            static_cast<std::uint32_t>(to),
            words.number,
            static_cast<std::uint32_t>(words.code)};
}

hello links::make_hello(peer &to, purpose why, int code) const
{
    hello words{};
    words.magic = magic;
    words.purpose = why;
    words.rank = static_cast<std::uint32_t>(job_.rank());
    words.code = code;
    words.number = to.requests.fetch_add(1, std::memory_order_relaxed) + 1;
    words.shown = prove(job_.key, statement_of(words, to.rank));
    return words;
}

/// Makes what the rank that was asked says: it accepts, or it rejects.
answer links::make_answer(const hello &words, bool accepts) const
{
    answer made{};
    made.magic = magic;
    made.shown = prove(job_.key, {static_cast<std::uint32_t>(words.purpose), 1,
                                  static_cast<std::uint32_t>(job_.rank()), words.rank, words.number,
                                  accepts});
    return made;
}

bool links::is_answered_by(const peer &p, purpose why, std::uint64_t number,
                           const DAT_EVENT &event) const
{
    const auto &data = event.event_data.connect_event_data;
    answer words{};
    if (data.private_data_size < static_cast<DAT_COUNT>(sizeof words))
        return false;
    std::memcpy(&words, data.private_data, sizeof words);
    const bool accepts = event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED;
    return words.magic == magic &&
           is_proof(job_.key,
                    {static_cast<std::uint32_t>(why), 1, static_cast<std::uint32_t>(p.rank),
                     static_cast<std::uint32_t>(job_.rank()), number, accepts},
                    words.shown);
}

/// Returns why a request is not believed, or null.
const char *links::doubt(const hello &words) const
{
    const int rank = static_cast<int>(words.rank);
    if (words.magic != magic)
        return "is none of libdapl-am, or of another version";
    if (!job_.has_rank(rank) || rank == job_.rank() ||
        !is_proof(job_.key, statement_of(words, job_.rank()), words.shown))
        return "does not prove that it knows the secret of the job";
    if (!job_.peers[words.rank].heard.is_new(words.number))
        return "has come before";
    const bool asks_upwards = words.purpose == purpose::talk && rank > job_.rank();
    const bool asks_downwards = words.purpose == purpose::knock && rank < job_.rank();
    return words.purpose < purpose::talk || words.purpose > purpose::leave || asks_upwards ||
                   asks_downwards || (words.purpose == purpose::elect && job_.rank() != 0)
               ? "has a purpose that this rank does not serve"
               : nullptr;
}

// --- answering requests

void links::reject(DAT_CR_HANDLE request, const hello &words) const
{
    answer no = make_answer(words, false);
    (void)dat_cr_reject(request, sizeof no, &no);
}

void links::accept_talk(DAT_CR_HANDLE request, const hello &words, peer &p)
{
    const osd::lock_guard outer(lock_);
    const osd::lock_guard inner(p.lock);
    if (p.state == link_state::up) {
        report("rank %d asks for a second connection: refused", p.rank);
        return reject(request, words);
    }
    // An endpoint that is there belongs to an attempt of which the peer thinks that it failed. Its
    // events are passed over.
    if (p.ep != DAT_HANDLE_NULL)
        (void)dat_ep_disconnect(p.ep, DAT_CLOSE_ABRUPT_FLAG);
    if (!make_talker(p))
        return reject(request, words);
    answer yes = make_answer(words, true);
    if (report_failed("dat_cr_accept", dat_cr_accept(request, p.ep, sizeof yes, &yes)))
        job_.end.fail();
}

void links::answer_election(DAT_CR_HANDLE request, const hello &words) const
{
    // The endpoint comes first: a rank that is granted the election has to be told.
    const DAT_EP_HANDLE ep = make_plain_endpoint(events_, nullptr);
    answer yes = make_answer(words, true);
    if (ep == DAT_HANDLE_NULL || !job_.end.grant(static_cast<int>(words.rank)) ||
        dat_cr_accept(request, ep, sizeof yes, &yes) != DAT_SUCCESS)
        reject(request, words);
}

void links::answer_rank(DAT_CR_HANDLE request, const hello &words, peer &p)
{
    switch (words.purpose) {
    case purpose::talk:
        return accept_talk(request, words, p);
    case purpose::elect:
        return answer_election(request, words);
    case purpose::leave: // answered first: the process may be gone soon
        reject(request, words);
        return job_.end.begin_for_other(words.code);
    case purpose::knock:
        begin(p);
        return reject(request, words);
    }
}

void links::take_request(const DAT_EVENT &event)
{
    const DAT_CR_HANDLE request = event.event_data.cr_arrival_event_data.cr_handle;
    DAT_CR_PARAM param{};
    hello words{};
    if (dat_cr_query(request, DAT_CR_FIELD_ALL, &param) == DAT_SUCCESS &&
        param.private_data_size >= static_cast<DAT_COUNT>(sizeof words))
        std::memcpy(&words, param.private_data, sizeof words);
    if (const char *why = doubt(words))
        return strangers_.refuse(request, why);
    answer_rank(request, words, job_.peers[words.rank]);
}

// --- events of connections

void links::enter_connected(peer &p, const DAT_EVENT &event)
{
    // This side has asked for the connection, or has accepted a proven request.
    if (job_.rank() < p.rank && !is_answered_by(p, purpose::talk, p.connect_number, event)) {
        (void)dat_ep_disconnect(std::exchange(p.ep, DAT_HANDLE_NULL), DAT_CLOSE_ABRUPT_FLAG);
        if (!std::exchange(p.doubted, true))
            report("what listens in the place of rank %d does not know the secret of the job",
                   p.rank);
        return try_again(p, event.event_number);
    }
    count_.fetch_add(1, std::memory_order_relaxed);
    p.state.store(link_state::up, std::memory_order_release);
}

void links::take_talk_event(peer &p, const DAT_EVENT &event)
{
    const DAT_EVENT_NUMBER number = event.event_number;
    if (number == DAT_CONNECTION_EVENT_ESTABLISHED)
        enter_connected(p, event);
    else if (is_end(number))
        job_.lose(p);
    else if (number == DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR)
        p.ep = DAT_HANDLE_NULL; // the peer gave this one up and comes again
    else
        try_again(p, number);
}

void links::take_knock_event(peer &p, const DAT_EVENT &event)
{
    const DAT_EP_HANDLE ep = std::exchange(p.knock, DAT_HANDLE_NULL);
    if (event.event_number != DAT_CONNECTION_EVENT_PEER_REJECTED ||
        !is_answered_by(p, purpose::knock, p.connect_number, event))
        try_again(p, event.event_number);
    (void)dat_ep_free(ep);
}

/// Passes over the events of endpoints that were given up.
void links::take_event(const DAT_EVENT &event)
{
    const DAT_EP_HANDLE ep = event.event_data.connect_event_data.ep_handle;
    peer *p = peer_of(ep);
    if (p == nullptr)
        return;
    const osd::lock_guard guard(p->lock);
    if (ep == p->ep)
        take_talk_event(*p, event);
    else if (ep == p->knock)
        take_knock_event(*p, event);
}

void links::end_if_peer_is_lost()
{
    const std::int64_t time = job_.lost_at.load(std::memory_order_acquire);
    if (time == 0 || now_us() < time + grace || job_.end.begun())
        return;
    report("rank %d has ended without leaving the job, or the connection to it failed",
           job_.lost_rank.load());
    job_.end.begin(1);
}

int links::serve()
{
    return start_service_thread(run_thread, this) ? DAPL_AM_OK : DAPL_AM_ERR_RESOURCES;
}

void *links::run_thread(void *self)
{
    (void)pthread_setname_np(pthread_self(), "am-links");
    static_cast<links *>(self)->run();
}

/// Waits in one EVD without completions, and not in a CNO: there an adapter may wake the thread for
/// all that arrives, while the threads that poll need the processor.
void links::run()
{
    for (;;) {
        DAT_EVENT event;
        DAT_COUNT more = 0;
        const DAT_TIMEOUT limit = retries_ == 0 ? slice : static_cast<DAT_TIMEOUT>(first_pause);
        if (dat_evd_wait(events_, limit, 1, &event, &more) == DAT_SUCCESS) {
            if (event.event_number == DAT_CONNECTION_REQUEST_EVENT)
                take_request(event);
            else
                take_event(event);
        }
        if (more == 0)
            if (const unsigned sleep = strangers_.take_pause(); sleep != 0)
                usleep(sleep);
        retry_due();
        end_if_peer_is_lost();
    }
}

} // namespace am
