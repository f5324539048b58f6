// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Posting, and what comes before and after a connection. The rest of queue pairs is in the files
// queue_pair_*.cpp.
#include "queue_pair.hpp"

#include "device.hpp"

#include <bit>
#include <new>

namespace soft_hca {

bool queue_pair::post_send(request &r)
{
    constexpr std::uint32_t small = 4096;
    r.done = false;
    r.status = work_status::success;
    const bool may_wait = r.length <= small;
    if (!sends_.post(r))
        return false;
    // While packets are on their way more posts can be gathered: the next acknowledgement, poll or
    // tick sends them together.
    if (may_wait && in_flight_.load() != 0 && home->attended() &&
        sends_.tail() - taken_.load(std::memory_order_relaxed) < gather_up_to)
        home->defer(*this);
    else
        ring();
    return true;
}

bool queue_pair::post_receive(request &r)
{
    r.done = false;
    r.status = work_status::success;
    if (!receives_.post(r))
        return false;
    if (wants_receives_.load())
        ring();
    return true;
}

void queue_pair::ring() OSD_UNCHECKED
{
    doorbell.store(true);
    if (!lock.try_lock())
        return; // the holder will see the doorbell
    doorbell.store(false);
    pump(osd::now_ns());
    leave();
}

void queue_pair::leave() OSD_UNCHECKED
{
    lock.unlock();
    while (doorbell.exchange(false)) {
        doorbell.store(true); // for another holder, who may not be one that pumps
        if (!lock.try_lock())
            return;
        doorbell.store(false);
        pump(osd::now_ns());
        lock.unlock();
    }
}

void queue_pair::receive_came()
{
    wants_receives_.store(true);
    doorbell.store(true); // for the holder of the lock, who may be about to overwrite due_ns
    due_ns.store(0);
    home->timer_set(*this, 0);
}

bool queue_pair::open_queues() OSD_UNCHECKED
{
    max_responses_ = std::bit_ceil<std::uint32_t>(with.reads_in == 0 ? 1 : with.reads_in);
    responses_.reset(new (std::nothrow) response[max_responses_]);
    return responses_ != nullptr && sends_.open(with.max_sends) &&
           receives_.open(with.max_receives) && tx_.open(window);
}

bool queue_pair::renew()
{
    const settings &how = of->how();
    std::uint32_t random[3];
    if (!random_bytes(random, sizeof random))
        return false;
    sends_.clear();
    receives_.clear();
    state_ = state::idle;
    tag_ = random[0];
    next_token_ = random[1];
    first_psn_ = how.fixed_start ? how.first_number : random[2];
    tx_.start(first_psn_);
    rtt_ = {};
    rx_.forget();
    next_send_ = oldest_question_ = sends_.tail();
    taken_.store(next_send_);
    const std::uint32_t first_msn = how.fixed_start ? how.first_number : 1;
    send_msn_ = read_msn_ = receive_msn_ = read_msn_in_ = first_msn;
    atomic_msn_in_ = atomic_msn_out_ = first_msn;
    response_head_ = response_next_ = response_tail_ = 0;
    peer_id_ = peer_tag_ = 0;
    questions_out_ = 0;
    begun_ = write_sent_ = out_of_credit_ = not_ready_ = false;
    ack_owed_ = ack_awaited_ = ack_now_ = false;
    receiving_ = nullptr;
    received_ = written_ = unacknowledged_ = retries_ = 0;
    write_over_ = true;
    ack_due_ = resend_from_ = probe_due_ = blocked_until_ = handshake_due_ = close_due_ = 0;
    linger_until_ = refused_since_ = 0;
    watched_ = {};
    watched_ns_ = unanswered_ns_ = 0;
    closes_left_ = 0;
    closing_ = {};
    hello_.reset();
    answer_size = 0;
    in_flight_.store(0);
    wants_receives_.store(false);
    due_ns.store(INT64_MAX);
    return true;
}

void queue_pair::cut()
{
    if (connected())
        close({}, osd::now_ns());
    else if (state_ == state::connecting || state_ == state::accepting)
        send_close(osd::now_ns());
    if (closes_left_ != 0)
        home->keep_closing({peer_, make_base(packet_kind::close, tx_.next()), closing_, tag_,
                            closes_left_, close_due_});
    state_ = state::idle; // nothing is flushed
    tx_.start(tx_.next());
    if (with.shared != nullptr)
        with.shared->wait_no_more(*this);
    for (std::uint32_t i = sends_.head(); i != sends_.tail(); ++i) {
        request &r = sends_.at(i);
        if (r.kind == work::bind && !r.done)
            of->windows.cancel(r);
    }
    sends_.clear();
    receives_.clear();
    if (with.shared != nullptr && receiving_ != nullptr)
        with.shared->give_back(*receiving_);
    receiving_ = nullptr;
    rx_.forget();
    hello_.reset();
    closes_left_ = 0;
    handshake_due_ = close_due_ = 0; // the shard may be about to call on_timer
    due_ns.store(INT64_MAX);
}

} // namespace soft_hca
