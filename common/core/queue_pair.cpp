// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "queue_pair.hpp"

#include "adapter.hpp"
#include "binding.hpp"
#include "dapl_debug.hpp"
#include "dat_names.hpp"
#include "queue_owner.hpp"

#include <algorithm>

namespace dapl::DAPL_TRANSPORT::core {

// ------------------------------------------------------------------------- queue pair and queues

queue_pair::queue_pair(const DAT_PROVIDER *vector, adapter &owner, endpoint &self,
                       const DAT_EP_ATTR &attr, const ep_objects &objects, DAT_EP_STATE first)
    : object(vector, mark::ep, owner), state_(first), self_(self), attr_(attr), zone_(objects.zone),
      recv_evd_(objects.recv), request_evd_(objects.request), shared_(objects.shared)
{
    qp_.holder = this;
    add_notify_overrides(1);
}

namespace {

/// The completion flags of requests: the peer asks for solicited receives, so that flag is left
/// out.
DAT_COMPLETION_FLAGS request_notification(const DAT_EP_ATTR &attr)
{
    return static_cast<DAT_COMPLETION_FLAGS>(attr.request_completion_flags &
                                             ~DAT_COMPLETION_SOLICITED_WAIT_FLAG);
}

bool has_concurrent_posts(const adapter &ia)
{
    return posts_concurrently<any_thread> && ia.line.info.is_thread_safe;
}

work_queue *make_queue(const adapter &ia, endpoint &owner, DAT_COUNT limit, concurrent_posts &posts)
{
    work_queue *queue = work_queue::create(&owner, limit, has_concurrent_posts(ia));
    if (queue != nullptr && has_concurrent_posts(ia))
        queue->use(posts, true);
    return queue;
}

struct queue_release {
    void operator()(work_queue *unused) const { unused->release(); }
};
using spare_queue = std::unique_ptr<work_queue, queue_release>;

/// A queue to take the place of this one, if it is not idle. False when out of memory.
bool prepare(spare_queue &spare, const work_queue *queue)
{
    if (queue == nullptr || queue->idle())
        return true;
    spare.reset(work_queue::create(nullptr, queue->limit(), queue->is_concurrent()));
    return spare != nullptr;
}

/// The EVD adopts a queue of which it may still poll completions.
void orphan(work_queue *&queue, evd *completions)
{
    if (queue == nullptr)
        return;
    queue->leave_posts();
    if (queue->is_named())
        completions->adopt(queue);
    else
        queue->release();
    queue = nullptr;
}

/// Replaces a queue by a spare one, so that after a reset no completion of earlier operations
/// surfaces.
void replace(work_queue *&queue, evd *completions, spare_queue &&spare, concurrent_posts &posts)
{
    if (spare == nullptr)
        return;
    const bool concurrent = queue->is_concurrent();
    orphan(queue, completions);
    queue = spare.release();
    if (concurrent)
        queue->use(posts, false);
}

/// Logs the last operations posted to a queue that is released while some are outstanding.
void trace(queue_pair *ep, const char *name, const work_queue *queue)
{
    constexpr DAT_COUNT most = 16;
    if (queue == nullptr || queue->idle())
        return;
    dapl_log(DAPL_DBG_TYPE_DTO_COMP_ERR,
             "EP %p: %s: %llu outstanding; the last operations posted:", to_handle(ep), name,
             static_cast<unsigned long long>(queue->outstanding()));
    const work_request *request = queue->upcoming();
    const DAT_COUNT shown = std::min(most, queue->places() - 1);
    for (DAT_COUNT left = shown; left != 0; --left)
        request = request->before;
    for (DAT_COUNT left = shown; left != 0; --left) {
        if (request->operation != never_posted)
            dapl_log(DAPL_DBG_TYPE_DTO_COMP_ERR, "EP %p: %s, %u bytes, cookie 0x%llx, %s",
                     to_handle(ep), dat::operation_name(dto_of(request->operation)),
                     request->length, static_cast<unsigned long long>(request->cookie.as_64),
                     queue->is_outstanding(*request) ? "not known to be done" : "done");
        request = request->after;
    }
}

void trace_released(queue_pair &ep, const work_queue *sends, const work_queue *receives)
{
    if (!shows(DAPL_DBG_TYPE_DTO_COMP_ERR))
        return;
    trace(&ep, "requests", sends);
    trace(&ep, "receives", receives);
}

} // namespace

void queue_pair::add_notify_overrides(int change)
{
    if (recv_evd_)
        recv_evd_->add_notify_override(attr_.recv_completion_flags, change);
    if (request_evd_)
        request_evd_->add_notify_override(request_notification(attr_), change);
}

void queue_pair::set_completion_flags()
{
    if (send_queue_ != nullptr)
        send_queue_->completion_flags.store(request_notification(attr_), std::memory_order_relaxed);
    if (recv_queue_ != nullptr)
        recv_queue_->completion_flags.store(attr_.recv_completion_flags, std::memory_order_relaxed);
}

status queue_pair::attach()
{
    const post_gates::exclusion no_posts(gates_of(*this));
    if (!zone_)
        return success;
    send_queue_ = request_evd_
                      ? make_queue(*ia, self_, attr_.max_request_dtos, gates_of(*this).sends.posts)
                      : nullptr;
    if (shared_)
        recv_queue_ = work_queue::create_drawing(&self_, *shared_->receives());
    else
        recv_queue_ = recv_evd_
                          ? make_queue(*ia, self_, attr_.max_recv_dtos, gates_of(*this).recvs.posts)
                          : nullptr;
    const bool complete =
        (send_queue_ != nullptr || !request_evd_) && (recv_queue_ != nullptr || !recv_evd_);
    const status answer = complete ? alloc_qp() : out_of_memory;
    has_qp_ = answer.ok();
    if (!has_qp_) {
        for (work_queue **queue : {&send_queue_, &recv_queue_})
            if (work_queue *unused = std::exchange(*queue, nullptr); unused != nullptr)
                unused->release();
        return answer;
    }
    if (send_queue_ != nullptr)
        max_request_iov_ = static_cast<std::uint32_t>(attr_.max_request_iov);
    if (recv_queue_ != nullptr)
        max_recv_iov_ = static_cast<std::uint32_t>(attr_.max_recv_iov);
    set_completion_flags();
    open_recvs();
    return success;
}

status queue_pair::alloc_qp()
{
    const bool own_recvs = recv_evd_ && !shared_;
    const qp_params params{
        .owner = &self_,
        .max_recv = own_recvs ? attr_.max_recv_dtos : 0,
        .max_send = request_evd_ ? attr_.max_request_dtos : 0,
        .max_recv_iov = attr_.max_recv_iov,
        .max_send_iov = attr_.max_request_iov,
        .max_rdma_read_in = attr_.max_rdma_read_in,
        .max_rdma_read_out = attr_.max_rdma_read_out,
        .receiver = shared_ ? recv_queue_ : nullptr,
        .concurrent_posts = has_concurrent_posts(*ia),
        .datagrams = is_for_datagrams(attr_),
    };
    transport::cq *recv_cq = recv_evd_ ? recv_evd_->cq() : nullptr;
    transport::cq *send_cq = request_evd_ ? request_evd_->cq() : nullptr;
    const status made = transport::dapls_ib_qp_alloc(
        zone_->pd, qp_, recv_cq, send_cq, shared_ ? &shared_->port_srq : nullptr, params);
    if (made.ok() && shared_)
        transport::dapls_ib_qp_set_watermarks(qp_, soft_watermark_, hard_watermark_);
    return made;
}

void queue_pair::detach()
{
    if (!has_qp_)
        return;
    const post_gates::exclusion no_posts(gates_of(*this));
    max_request_iov_ = max_recv_iov_ = 0;
    open_recvs();
    quiesce();
    transport::dapls_ib_qp_free(qp_);
    open_sends(false);
    end_failures(self_); // a last upcall may have armed a timer
    has_qp_ = false;
    usable_ = false;
    trace_released(*this, send_queue_, recv_queue_);
    orphan(send_queue_, request_evd_.get());
    orphan(recv_queue_, recv_evd_.get());
}

status queue_pair::renew()
{
    if (shared_) { // receives taken from the SRQ and not polled yet must lose their endpoint
        detach();
        return attach();
    }
    if (!has_qp_)
        return success;
    const post_gates::exclusion no_posts(gates_of(*this));
    quiesce();
    spare_queue sends;
    spare_queue recvs;
    // Memory first: nothing undoes the port's reset.
    status answer = out_of_memory;
    if (prepare(sends, send_queue_) && prepare(recvs, recv_queue_))
        answer = transport::dapls_ib_qp_reset(qp_);
    end_failures(self_);
    if (answer.ok()) {
        usable_ = false;
        trace_released(*this, send_queue_, recv_queue_);
        replace(send_queue_, request_evd_.get(), std::move(sends), gates_of(*this).sends.posts);
        replace(recv_queue_, recv_evd_.get(), std::move(recvs), gates_of(*this).recvs.posts);
        set_completion_flags();
        open_recvs();
    }
    own_queues(&self_);
    return answer;
}

status queue_pair::flush_receives()
{
    if (!has_qp_ || shared_ || recv_idle())
        return success;
    const post_gates::exclusion no_posts(gates_of(*this));
    transport::dapls_ib_disconnect_clean(qp_);
    const status renewed = transport::dapls_ib_qp_reset(qp_);
    usable_ = !renewed.ok();
    return renewed;
}

void queue_pair::set_objects(const DAT_EP_ATTR &attr, const ep_objects &objects)
{
    add_notify_overrides(-1);
    attr_ = attr;
    zone_ = user_of<pz>(objects.zone);
    recv_evd_ = user_of<evd>(objects.recv);
    request_evd_ = user_of<evd>(objects.request);
    set_completion_flags();
    add_notify_overrides(1);
}

/// Stops failures and timeouts from acting on the queue pair any more, before a fence.
void queue_pair::quiesce()
{
    own_queues(nullptr);
    end_failures(self_);
}

/// The completions of a queue without an owner are dropped.
void queue_pair::own_queues(endpoint *owner)
{
    for (work_queue *queue : {send_queue_, recv_queue_}) {
        if (queue == nullptr)
            continue;
        osd::lock_guard hold(queue->owner_lock);
        queue->owner.store(owner);
    }
}

namespace {

/// A count only: the thread that posts may be at work on the requests themselves.
void trace_count(queue_pair *ep, const char *name, const work_queue *queue, const evd &there)
{
    if (queue->idle())
        return;
    dapl_log(DAPL_DBG_TYPE_DTO_COMP_ERR, "a wait on EVD %p expired; EP %p: %s: %llu outstanding",
             static_cast<const void *>(&there), to_handle(ep), name,
             static_cast<unsigned long long>(queue->outstanding()));
}

} // namespace

/// Skips a queue that is being replaced (its lock is held): it has nothing outstanding.
void trace_outstanding(queue_pair &ep, const evd &there)
{
    ep.visit_queues([&](post_gate &gate, work_queue *const &queue, const user_of<evd> &completes_on,
                        const char *kind) {
        if (!gate.lock.try_lock())
            return;
        if (queue != nullptr && completes_on.get() == &there)
            trace_count(&ep, kind, queue, there);
        gate.lock.unlock();
    });
}

/// Leaves out a queue that is being replaced or looked at: its lock is held.
void note_posts(queue_pair &ep)
{
    const std::int64_t now = osd::now_ns();
    ep.visit_queues([&](post_gate &gate, work_queue *const &queue, auto &&...) {
        if (!gate.lock.try_lock())
            return;
        if (queue != nullptr && queue->places() != 0)
            queue->times.note(*queue, now);
        gate.lock.unlock();
    });
}

void copy_outstanding(queue_pair &ep, outstanding_posts (&both)[2])
{
    const post_gates::exclusion no_posts(gates_of(ep));
    outstanding_posts *out = both;
    ep.visit_queues([&](post_gate &, work_queue *const &queue, const auto &, const char *kind) {
        out->kind = kind;
        out->count = 0;
        if (queue != nullptr && queue->places() != 0)
            out->count =
                queue->times.copy(*queue, osd::now_ns(), out->oldest, std::size(out->oldest));
        ++out;
    });
}

status queue_pair::post_bind(binding &posted, transport::mw &window, const pz &zone,
                             DAT_RMR_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
    const post_gates::exclusion no_posts(gates_of(*this)); // the port may refuse it
    const auto refused = [this](status why) {
        return refuse(*this, opcode::bind, send_queue_, why);
    };
    const status checked = check_request(false, 0, nullptr, nullptr, flags, 8);
    if (!checked.ok())
        return refused(checked);
    if (zone_.get() != &zone)
        return refused(status::error(DAT_PROTECTION_VIOLATION));
    if (!request_evd_ || !request_evd_->takes(DAT_EVD_RMR_BIND_FLAG))
        return refused(invalid_handle(DAT_INVALID_HANDLE_EVD_REQUEST));
    transport::wr *wr = send_queue_->make_room_for_bindings()
                            ? next_request(opcode::bind, 0, cookie, flags)
                            : nullptr;
    if (wr == nullptr)
        return refused(out_of_memory);
    posted.queue = send_queue_;
    posted.request = wr;
    send_queue_->hold();
    send_queue_->note_binding(*wr, &posted);
    const mw_params range{
        .address = posted.part.virtual_address,
        .length = posted.part.segment_length,
        .privileges = posted.privileges,
        .one_connection = posted.one_connection,
    };
    transport::mr *region = posted.region ? &posted.region->mr : nullptr;
    const status answer =
        transport::dapls_ib_mw_bind(qp_, *wr, window, region, range, flags, posted.context);
    if (answer.ok())
        return success;
    (void)send_queue_->take_binding(*wr);
    send_queue_->release();
    return refused_request(qp_, answer);
}

// -------------------------------------------------------------------------------------- posting

status queue_pair::state_error() const
{
    static constexpr DAT_RETURN_SUBTYPE subtypes[] = {
        DAT_INVALID_STATE_EP_UNCONNECTED,     DAT_INVALID_STATE_EP_UNCONFIGURED,
        DAT_INVALID_STATE_EP_RESERVED,        DAT_INVALID_STATE_EP_UNCONFRESERVED,
        DAT_INVALID_STATE_EP_PASSCONNPENDING, DAT_INVALID_STATE_EP_UNCONFPASSIVE,
        DAT_INVALID_STATE_EP_ACTCONNPENDING,  DAT_INVALID_STATE_EP_TENTCONNPENDING,
        DAT_INVALID_STATE_EP_UNCONFTENTATIVE, DAT_INVALID_STATE_EP_CONNECTED,
        DAT_INVALID_STATE_EP_DISCPENDING,     DAT_INVALID_STATE_EP_DISCONNECTED,
        DAT_INVALID_STATE_EP_COMPLPENDING,
    };
    return status::error(DAT_INVALID_STATE, subtypes[state()]);
}

/// Refines an argument error: EP_NOTREADY without a queue pair, INSUFFICIENT_RESOURCES without a
/// request EVD, otherwise `seen`.
status queue_pair::not_ready_or(status seen) const
{
    if (!has_qp_)
        return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_EP_NOTREADY);
    return send_queue_ == nullptr ? out_of_memory : seen;
}

/// Like not_ready_or, for receives: SRQ_IN_USE if they come from an SRQ.
status queue_pair::no_recvs_or(status seen) const
{
    if (shared_)
        return status::error(DAT_INVALID_STATE, DAT_INVALID_STATE_SRQ_IN_USE);
    if (has_qp_)
        return recv_queue_ == nullptr ? out_of_memory : seen;
    return not_ready_or(seen);
}

/// A concurrent post observes either the old or the new ring.
void queue_pair::open_sends(bool open)
{
    open_sends_.store(open ? send_queue_ : &closed_ring, std::memory_order_release);
    gates_of(*this).sends.posts.set_ready(open);
}

void queue_pair::open_recvs()
{
    // Receives of datagrams take the slow path, which says what they are.
    const bool open = max_recv_iov_ != 0 && !shared_ && !is_for_datagrams(attr_);
    open_recvs_ = open ? recv_queue_ : &closed_ring;
    gates_of(*this).recvs.posts.set_ready(open);
}

void queue_pair::enter_state(DAT_EP_STATE next)
{
    if (next == DAT_EP_STATE_CONNECTED)
        usable_ = true;
    open_sends(next == DAT_EP_STATE_CONNECTED && max_request_iov_ != 0);
    state_.store(next, std::memory_order_release);
}

namespace {

bool admits_requests(DAT_EP_STATE now, bool usable)
{
    return usable && (now == DAT_EP_STATE_CONNECTED || now == DAT_EP_STATE_DISCONNECTED);
}

/// Whether suppressed successes may be asked for.
bool has_requests(const DAT_EP_ATTR &attr, DAT_EP_STATE now, bool usable)
{
    return is_for_datagrams(attr) || admits_requests(now, usable);
}

/// [nth_signal] Gives requests back that have succeeded silently, as the port says; the polling
/// thread may give back later ones meanwhile. The caller posts, and no other thread does.
[[maybe_unused]] void give_back_done(work_queue &requests, transport::qp &qp)
{
    const work_queue::view now = requests.snapshot();
    if (now.outstanding == 0)
        return;
    auto *last = const_cast<transport::wr *>(now.last);
    transport::wr *done = last;
    for (DAT_COUNT left =
             transport::dapls_ib_requests_done(qp, static_cast<transport::wr &>(*last->after),
                                               static_cast<DAT_COUNT>(now.outstanding));
         left > 0; --left)
        done = static_cast<transport::wr *>(done->after);
    requests.retired.compare_exchange_strong(last, done);
}

/// Runs `work` while other posting threads are kept out. The calling thread has entered: it leaves
/// meanwhile, and enters again.
template <class Work>
[[maybe_unused]] void with_gate_closed(post_gate &gate, Work work)
{
    gate.posts.leave();
    {
        osd::lock_guard hold(gate.lock);
        gate.posts.close();
        work();
        gate.posts.reopen();
    }
    osd::wait_while([&gate] { return !gate.posts.try_enter(); });
}

} // namespace

/// The error of a request, by argument numbers of the DAT calls: segments 2, local 3, remote 5 for
/// RDMA, flags last.
status queue_pair::check_request(bool rdma, DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                 const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags,
                                 int flags_position, status next)
{
    if (static_cast<std::uint32_t>(segments) > max_request_iov_)
        return not_ready_or(invalid_parameter(2));
    if (local == nullptr && segments != 0)
        return invalid_parameter(3);
    if (rdma && remote == nullptr)
        return invalid_parameter(5);
    if (has_unknown_flags(flags, request_flags))
        return invalid_parameter(flags_position);
    if (!next.ok())
        return next;
    return admits_requests(state(), usable_) ? success : state_error();
}

namespace {

/// The answer to a read into what an RMR names, if its other arguments are right.
status check_lengths_of_read(const DAT_RMR_TRIPLET &to, const DAT_RMR_TRIPLET &from)
{
    if (to.segment_length < from.segment_length)
        return status::error(DAT_LENGTH_ERROR);
    return claims.read_to_rmr ? success : not_supported;
}

} // namespace

/// The error of an extended request, but for its length.
status queue_pair::check_extended(opcode operation, const extended_request &wanted)
{
    const bool write = operation == opcode::write_immediate;
    switch (operation) {
    case opcode::read_to_rmr:
        if (wanted.to == nullptr)
            return invalid_parameter(2);
        if (wanted.remote == nullptr)
            return invalid_parameter(4);
        return check_request(false, 0, nullptr, nullptr, wanted.flags, 5,
                             check_lengths_of_read(*wanted.to, *wanted.remote));
    case opcode::send_invalidate:
        return check_request(false, wanted.segments, wanted.local, nullptr, wanted.flags, 5,
                             ia->attr.send_invalidate ? success : not_supported);
    default:
        if (write && has_too_many(wanted.segments, opcode::rdma_write, attr_))
            return not_ready_or(invalid_parameter(2));
        return check_request(true, wanted.segments, wanted.local, wanted.remote, wanted.flags,
                             write ? 7 : 6);
    }
}

namespace {

/// The length that an extended request is posted with; its arguments are there.
DAT_UINT64 length_of(opcode operation, const extended_request &wanted)
{
    return operation == opcode::read_to_rmr ? wanted.remote->segment_length
                                            : total_length(wanted.segments, wanted.local);
}

/// Atomics take one local segment of the size of their word, and a word that is aligned.
status check_length(opcode operation, const extended_request &wanted, DAT_UINT64 length)
{
    constexpr DAT_UINT64 word = sizeof(DAT_UINT64);
    constexpr status wrong = status::error(DAT_LENGTH_ERROR);
    switch (operation) {
    case opcode::read_to_rmr:
        return success;
    case opcode::send_invalidate:
        return length > UINT32_MAX ? wrong : success;
    case opcode::write_immediate:
        return length > wanted.remote->segment_length ? wrong : success;
    default:
        if (length != word || wanted.remote->segment_length < word)
            return wrong;
        return wanted.remote->virtual_address % word != 0 ? invalid_parameter(5) : success;
    }
}

} // namespace

status queue_pair::post_checked(opcode operation, const extended_request &wanted,
                                DAT_DTO_COOKIE cookie)
{
    const auto refused = [&](status why) { return refuse(*this, operation, send_queue_, why); };
    status checked = check_extended(operation, wanted);
    const DAT_UINT64 length = checked.ok() ? length_of(operation, wanted) : 0;
    if (checked.ok())
        checked = check_length(operation, wanted, length);
    if (!checked.ok())
        return refused(checked);
    transport::wr *wr = next_request(operation, length, cookie, wanted.flags);
    if (wr == nullptr)
        return refused(out_of_memory);
    const status answer = transport::dapls_ib_post_extended(qp_, *wr, wanted);
    return answer.ok() ? success : refused_request(qp_, answer);
}

/// A filled work request, or null when as many as there are have been posted.
transport::wr *queue_pair::next_request(opcode operation, DAT_UINT64 length, DAT_DTO_COOKIE cookie,
                                        DAT_COMPLETION_FLAGS flags)
{
    transport::wr *request = send_queue_ == nullptr ? nullptr : send_queue_->take_slowly();
    if constexpr (claims.nth_signal)
        if (request == nullptr && send_queue_ != nullptr) {
            const auto give_back = [this] {
                if (send_queue_ != nullptr && has_requests(attr_, state(), usable_))
                    give_back_done(*send_queue_, qp_);
            };
            if (operation == opcode::bind || !send_queue_->is_concurrent())
                give_back(); // needs no gate: a thread that binds a window keeps the others out
                             // already
            else
                with_gate_closed(gates_of(*this).sends, give_back);
            if (send_queue_ != nullptr && has_requests(attr_, state(), usable_))
                request = send_queue_->take_slowly();
        }
    if (request == nullptr)
        return nullptr;
    fill(*request, operation, length, cookie);
    apply_flags(*request, flags, *send_queue_, *request_evd_.get());
    return request;
}

status refuse(const queue_pair &ep, opcode operation, const work_queue *queue, status why,
              bool by_port)
{
    return refuse({.kind = "EP",
                   .object = &ep,
                   .state = dat::ep_state_name(ep.state()),
                   .operation = operation,
                   .outstanding = queue == nullptr ? 0 : queue->outstanding(),
                   .limit = queue == nullptr ? 0 : queue->limit(),
                   .by_port = by_port},
                  why);
}

namespace {

/// Frees the request that was taken last and that the port refused, and reports that.
status give_back(const queue_pair &ep, work_queue &queue, status why)
{
    queue.put_back();
    return refuse(ep, queue.upcoming()->operation, &queue, why, true);
}

} // namespace

status queue_pair::refused_request(owned_qp &q, status answer)
{
    return give_back(*q.holder, *q.holder->send_queue_, answer);
}

status queue_pair::refused_recv(owned_qp &q, status answer)
{
    return give_back(*q.holder, *q.holder->recv_queue_, answer);
}

template <opcode operation>
DAT_RETURN queue_pair::post_slowly(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                   const DAT_RMR_TRIPLET *remote, DAT_DTO_COOKIE cookie,
                                   DAT_COMPLETION_FLAGS flags)
{
    constexpr bool rdma = operation != opcode::send;
    const auto refused = [this](status why) {
        return refuse(*this, operation, send_queue_, why).code();
    };
    if (rdma && has_too_many(segments, operation, attr_))
        return refused(not_ready_or(invalid_parameter(2)));
    const status checked = check_request(rdma, segments, local, remote, flags, rdma ? 6 : 5);
    if (!checked.ok())
        return refused(checked);
    const DAT_UINT64 length = total_length(segments, local);
    if (length > UINT32_MAX || !fits<operation>(length, remote))
        return refused(status::error(DAT_LENGTH_ERROR));
    transport::wr *request = next_request(operation, length, cookie, flags);
    if (request == nullptr)
        return refused(out_of_memory);
    return post_filled<operation>(*request, segments, local, remote, flags);
}

/// A usual post that finds no known room.
template <opcode operation>
DAT_RETURN queue_pair::post_finding_room(const DAT_LMR_TRIPLET *local,
                                         const DAT_RMR_TRIPLET *remote, DAT_DTO_COOKIE cookie,
                                         DAT_COMPLETION_FLAGS flags)
{
    const DAT_UINT32 length = local->segment_length;
    transport::wr *request;
    if (!gates_of(*this).sends.posts.enter_finding_room<true>(request)) [[unlikely]]
        return enter_and_post_slowly<operation>(1, local, remote, cookie, flags);
    fill(*request, operation, length, cookie);
    return post_entered<operation>(*request, local, remote, flags);
}

template <opcode operation>
DAT_RETURN queue_pair::enter_and_post_slowly(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                             const DAT_RMR_TRIPLET *remote, DAT_DTO_COOKIE cookie,
                                             DAT_COMPLETION_FLAGS flags)
{
    const entered_posts hold(gates_of(*this).sends);
    return post_slowly<operation>(segments, local, remote, cookie, flags);
}

DAT_RETURN queue_pair::enter_and_post_recv_slowly(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                                  DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
    const entered_posts hold(gates_of(*this).recvs);
    return post_recv_slowly(segments, local, cookie, flags);
}

#define POSTS_SLOWLY(operation)                                                                    \
    template DAT_RETURN queue_pair::post_slowly<operation>(DAT_COUNT, const DAT_LMR_TRIPLET *,     \
                                                           const DAT_RMR_TRIPLET *,                \
                                                           DAT_DTO_COOKIE, DAT_COMPLETION_FLAGS);  \
    template DAT_RETURN queue_pair::enter_and_post_slowly<operation>(                              \
        DAT_COUNT, const DAT_LMR_TRIPLET *, const DAT_RMR_TRIPLET *, DAT_DTO_COOKIE,               \
        DAT_COMPLETION_FLAGS);                                                                     \
    template DAT_RETURN queue_pair::post_finding_room<operation>(                                  \
        const DAT_LMR_TRIPLET *, const DAT_RMR_TRIPLET *, DAT_DTO_COOKIE, DAT_COMPLETION_FLAGS);
POSTS_SLOWLY(opcode::send)
POSTS_SLOWLY(opcode::rdma_write)
POSTS_SLOWLY(opcode::rdma_read)
#undef POSTS_SLOWLY

DAT_RETURN queue_pair::post_recv_slowly(DAT_COUNT segments, const DAT_LMR_TRIPLET *local,
                                        DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags)
{
    const auto refused = [this](status why) {
        return refuse(*this, opcode::receive, recv_queue_, why).code();
    };
    if (static_cast<std::uint32_t>(segments) > max_recv_iov_)
        return refused(no_recvs_or(invalid_parameter(2)));
    if (local == nullptr && segments != 0)
        return refused(invalid_parameter(3));
    if (has_unknown_flags(flags, recv_flags))
        return refused(invalid_parameter(5));
    transport::wr *request = recv_queue_ == nullptr ? nullptr : recv_queue_->take_slowly();
    if (request == nullptr)
        return refused(no_recvs_or(out_of_memory));
    fill(*request, is_for_datagrams(attr_) ? opcode::receive_datagram : opcode::receive,
         total_length(segments, local), cookie);
    apply_flags(*request, flags, *recv_queue_, *recv_evd_.get());
    return post_filled_recv(*request, segments, local);
}

} // namespace dapl::DAPL_TRANSPORT::core
