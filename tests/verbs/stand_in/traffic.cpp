// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "traffic.hpp"

#include <algorithm>
#include <cstring>
#include <sys/uio.h>

namespace stand_in {

namespace {

constexpr unsigned no_right = 0;

char *behind(std::uint64_t address)
{
    char *const at = reinterpret_cast<char *>(address);
    for (const auto &each : all().memory)
        if (at >= each.address && at < each.address + each.size)
            return each.behind + (at - each.address);
    return at;
}

/// Copies like a device: memory that is gone is an error, and sanitizers do not see it.
bool copy(char *to, char *from, std::size_t size)
{
    if (size == 0)
        return true;
    const iovec here{to, size};
    const iovec there{from, size};
    return ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) == static_cast<ssize_t>(size);
}

bool lies_in(std::uint64_t address, std::uint64_t length, std::uint64_t begin, std::uint64_t size)
{
    return address >= begin && length <= size && address - begin <= size - length;
}

bool is_allowed(const ibv_pd *domain, const ibv_sge &place, unsigned rights)
{
    if (place.length == 0)
        return true;
    const auto found = all().local_keys.find(place.lkey);
    if (found == all().local_keys.end())
        return false;
    const region &in = *found->second;
    return in.pd == domain && (in.rights & rights) == rights &&
           lies_in(place.addr, place.length, reinterpret_cast<std::uint64_t>(in.addr), in.length);
}

bool is_allowed_there(const queue_pair &target, std::uint64_t address, std::uint32_t key,
                      std::uint64_t length, unsigned right)
{
    if (length == 0)
        return true;
    if ((target.rights & right) != right)
        return false;
    if (const auto found = all().remote_keys.find(key); found != all().remote_keys.end()) {
        const region &in = *found->second;
        return in.pd == target.pd && (in.rights & right) == right &&
               lies_in(address, length, reinterpret_cast<std::uint64_t>(in.addr), in.length);
    }
    const auto found = all().windows.find(key);
    if (found == all().windows.end())
        return false;
    const window &in = *found->second;
    return in.in != nullptr && in.pd == target.pd && (in.rights & right) == right &&
           (in.bound_by == 0 || in.bound_by == target.qp_num) &&
           lies_in(address, length, in.begin, in.length);
}

std::uint64_t length_of(const std::vector<ibv_sge> &places)
{
    std::uint64_t sum = 0;
    for (const ibv_sge &place : places)
        sum += place.length;
    return sum;
}

/// What requests send, or false.
bool gather(const queue_pair &q, const request &r, std::vector<char> &bytes)
{
    bytes = r.carried;
    if ((r.wr.send_flags & IBV_SEND_INLINE) != 0)
        return true;
    for (const ibv_sge &place : r.places) {
        if (!is_allowed(q.pd, place, no_right))
            return false;
        bytes.resize(bytes.size() + place.length);
        if (!copy(bytes.data() + bytes.size() - place.length, behind(place.addr), place.length))
            return false;
    }
    return true;
}

bool scatter(const ibv_pd *domain, const std::vector<ibv_sge> &places, std::vector<char> &bytes)
{
    std::size_t done = 0;
    for (const ibv_sge &place : places) {
        const std::size_t part = std::min<std::size_t>(place.length, bytes.size() - done);
        if (part == 0)
            break;
        if (!is_allowed(domain, place, IBV_ACCESS_LOCAL_WRITE) ||
            !copy(behind(place.addr), bytes.data() + done, part))
            return false;
        done += part;
    }
    return true;
}

void complete(completion_queue &to, const ibv_wc &entry, bool solicited)
{
    if (to.entries.size() >= static_cast<std::size_t>(to.cqe)) {
        ibv_async_event event{};
        event.event_type = IBV_EVENT_CQ_ERR;
        event.element.cq = &to;
        raise(to.context, event);
        return;
    }
    to.entries.push_back(entry);
    const bool wakes = !to.solicited_only || solicited || entry.status != IBV_WC_SUCCESS;
    if (!to.armed || !wakes || to.channel == nullptr || ++to.since_event < to.moderated)
        return;
    to.armed = false;
    to.since_event = 0;
    ++all().cq_events;
    static_cast<completion_channel *>(to.channel)->events.push(&to);
}

ibv_wc_opcode opcode_of(ibv_wr_opcode posted)
{
    switch (posted) {
    case IBV_WR_RDMA_READ:
        return IBV_WC_RDMA_READ;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return IBV_WC_RDMA_WRITE;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return IBV_WC_FETCH_ADD;
    case IBV_WR_BIND_MW:
        return IBV_WC_BIND_MW;
    case IBV_WR_LOCAL_INV:
        return IBV_WC_LOCAL_INV;
    default:
        return IBV_WC_SEND;
    }
}

void complete_first(queue_pair &q, ibv_wc_status status, std::uint32_t length)
{
    const request done = std::move(q.requests.front());
    q.requests.pop_front();
    if (status == IBV_WC_SUCCESS && (done.wr.send_flags & IBV_SEND_SIGNALED) == 0)
        return;
    ibv_wc entry{};
    entry.wr_id = done.wr.wr_id;
    entry.status = status;
    entry.opcode = opcode_of(done.wr.opcode);
    entry.byte_len = length;
    entry.qp_num = q.qp_num;
    complete(q.sent_to(), entry, false);
}

void complete_receive(queue_pair &q, const receive &taken, ibv_wc_status status,
                      const request &from, std::size_t length)
{
    ibv_wc entry{};
    entry.wr_id = taken.id;
    entry.status = status;
    entry.opcode =
        from.wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
    entry.byte_len = static_cast<std::uint32_t>(length);
    entry.qp_num = q.qp_num;
    if (from.wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM || from.wr.opcode == IBV_WR_SEND_WITH_IMM) {
        entry.wc_flags = IBV_WC_WITH_IMM;
        entry.imm_data = from.wr.imm_data;
    } else if (from.wr.opcode == IBV_WR_SEND_WITH_INV) {
        entry.wc_flags = IBV_WC_WITH_INV;
        entry.invalidated_rkey = from.wr.invalidate_rkey;
    }
    complete(q.received_to(), entry, (from.wr.send_flags & IBV_SEND_SOLICITED) != 0);
}

void raise_of(queue_pair &q, ibv_event_type type)
{
    ibv_async_event event{};
    event.event_type = type;
    event.element.qp = &q;
    raise(q.context, event);
}

/// The first request fails, and the queue pair with it.
void refuse_first(queue_pair &q, ibv_wc_status status)
{
    complete_first(q, status, 0);
    fail_pair(q);
}

void refused_by(queue_pair &target, queue_pair &q)
{
    raise_of(target, IBV_EVENT_QP_ACCESS_ERR);
    refuse_first(q, IBV_WC_REM_ACCESS_ERR);
    fail_pair(target);
}

bool has_receive(queue_pair &target)
{
    return !(target.srq != nullptr ? target.shared()->receives : target.receives).empty();
}

receive take_receive(queue_pair &target)
{
    auto &from = target.srq != nullptr ? target.shared()->receives : target.receives;
    receive taken = std::move(from.front());
    from.pop_front();
    if (target.srq != nullptr && from.size() < target.shared()->limit) {
        target.shared()->limit = 0;
        ibv_async_event event{};
        event.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
        event.element.srq = target.srq;
        raise(target.srq->context, event);
    }
    return taken;
}

enum class step { done, waits, failed };

/// Closes a window of type 2 that is open to the peer of this queue pair. False for other keys.
bool close_window(const queue_pair &of, std::uint32_t key)
{
    const auto found = all().windows.find(key);
    if (found == all().windows.end() || found->second->bound_by != of.qp_num ||
        found->second->in == nullptr)
        return false;
    found->second->in = nullptr;
    return true;
}

step deliver(queue_pair &q, queue_pair &target, std::vector<char> *bytes)
{
    const request sent = q.requests.front();
    const receive taken = take_receive(target);
    const std::size_t length = bytes != nullptr ? bytes->size() : length_of(sent.places);
    ibv_wc_status wrong = IBV_WC_SUCCESS;
    ibv_wc_status told = IBV_WC_REM_OP_ERR;
    if (bytes != nullptr && bytes->size() > length_of(taken.places)) {
        wrong = IBV_WC_LOC_LEN_ERR;
        told = IBV_WC_REM_INV_REQ_ERR;
        raise_of(target, IBV_EVENT_QP_REQ_ERR);
    } else if (bytes != nullptr && !scatter(target.pd, taken.places, *bytes)) {
        wrong = IBV_WC_LOC_PROT_ERR;
    } else if (sent.wr.opcode == IBV_WR_SEND_WITH_INV &&
               !close_window(target, sent.wr.invalidate_rkey)) {
        wrong = IBV_WC_REM_INV_REQ_ERR;
    }
    complete_receive(target, taken, wrong, sent, length);
    if (wrong == IBV_WC_SUCCESS)
        return step::done;
    refuse_first(q, told);
    fail_pair(target);
    return step::failed;
}

step send(queue_pair &q, queue_pair &target)
{
    if (!has_receive(target)) {
        if (q.rnr_retry == 7)
            return step::waits;
        refuse_first(q, IBV_WC_RNR_RETRY_EXC_ERR);
        return step::failed;
    }
    std::vector<char> bytes;
    if (!gather(q, q.requests.front(), bytes)) {
        refuse_first(q, IBV_WC_LOC_PROT_ERR);
        return step::failed;
    }
    return deliver(q, target, &bytes);
}

step write(queue_pair &q, queue_pair &target)
{
    const request &r = q.requests.front();
    const bool tells = r.wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    if (tells && !has_receive(target))
        return step::waits;
    std::vector<char> bytes;
    if (!gather(q, r, bytes)) {
        refuse_first(q, IBV_WC_LOC_PROT_ERR);
        return step::failed;
    }
    const auto &to = r.wr.wr.rdma;
    if (!is_allowed_there(target, to.remote_addr, to.rkey, bytes.size(), IBV_ACCESS_REMOTE_WRITE) ||
        !copy(behind(to.remote_addr), bytes.data(), bytes.size())) {
        refused_by(target, q);
        return step::failed;
    }
    return tells ? deliver(q, target, nullptr) : step::done;
}

step read(queue_pair &q, queue_pair &target)
{
    const request &r = q.requests.front();
    const auto &from = r.wr.wr.rdma;
    std::vector<char> bytes(length_of(r.places));
    if (!is_allowed_there(target, from.remote_addr, from.rkey, bytes.size(),
                          IBV_ACCESS_REMOTE_READ) ||
        !copy(bytes.data(), behind(from.remote_addr), bytes.size())) {
        refused_by(target, q);
        return step::failed;
    }
    if (scatter(q.pd, r.places, bytes))
        return step::done;
    refuse_first(q, IBV_WC_LOC_PROT_ERR);
    return step::failed;
}

step change(queue_pair &q, queue_pair &target)
{
    const request &r = q.requests.front();
    const auto &at = r.wr.wr.atomic;
    std::uint64_t word = 0;
    if (!is_allowed_there(target, at.remote_addr, at.rkey, sizeof word, IBV_ACCESS_REMOTE_ATOMIC) ||
        at.remote_addr % sizeof word != 0) {
        refused_by(target, q);
        return step::failed;
    }
    const std::uint64_t operand = at.compare_add;
    char *const bytes = reinterpret_cast<char *>(&word);
    if (!copy(bytes, behind(at.remote_addr), sizeof word)) {
        refused_by(target, q);
        return step::failed;
    }
    std::vector<char> old(bytes, bytes + sizeof word);
    if (r.wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        word += operand;
    else if (word == operand)
        word = at.swap;
    (void)copy(behind(at.remote_addr), bytes, sizeof word);
    if (scatter(q.pd, r.places, old))
        return step::done;
    refuse_first(q, IBV_WC_LOC_PROT_ERR);
    return step::failed;
}

bool can_be_bound(const ibv_mw_bind_info &range, const queue_pair &through)
{
    return range.mr != nullptr && range.mr->pd == through.pd &&
           lies_in(range.addr, range.length, reinterpret_cast<std::uint64_t>(range.mr->addr),
                   range.mr->length) &&
           (static_cast<region *>(range.mr)->rights & IBV_ACCESS_MW_BIND) != 0;
}

/// A window of type 2 is closed before it is bound again, and never bound to nothing.
bool can_bind(const window &bound, const ibv_mw_bind_info &range, const queue_pair &through)
{
    if (bound.type == IBV_MW_TYPE_2)
        return bound.in == nullptr && range.length != 0 && bound.pd == through.pd &&
               can_be_bound(range, through);
    return range.length == 0 || can_be_bound(range, through);
}

step bind(queue_pair &q)
{
    const auto &wanted = q.requests.front().wr.bind_mw;
    auto &bound = *static_cast<window *>(wanted.mw);
    const auto &range = wanted.bind_info;
    constexpr unsigned key_bits = 8;
    const bool has_key =
        bound.key == q.requests.front().old_key && bound.key >> key_bits == wanted.rkey >> key_bits;
    if (!has_key || !can_bind(bound, range, q)) {
        refuse_first(q, IBV_WC_MW_BIND_ERR);
        return step::failed;
    }
    all().windows.erase(bound.key);
    bound.key = wanted.rkey;
    bound.in = range.length == 0 ? nullptr : range.mr;
    bound.begin = range.addr;
    bound.length = range.length;
    bound.rights = range.mw_access_flags;
    bound.bound_by = bound.type == IBV_MW_TYPE_2 ? q.qp_num : 0;
    all().windows[bound.key] = &bound;
    return step::done;
}

step invalidate(queue_pair &q)
{
    if (close_window(q, q.requests.front().wr.invalidate_rkey))
        return step::done;
    refuse_first(q, IBV_WC_LOC_QP_OP_ERR);
    return step::failed;
}

step execute(queue_pair &q, queue_pair &target)
{
    switch (q.requests.front().wr.opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
        return send(q, target);
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return write(q, target);
    case IBV_WR_RDMA_READ:
        return read(q, target);
    case IBV_WR_BIND_MW:
        return bind(q);
    case IBV_WR_LOCAL_INV:
        return invalidate(q);
    default:
        return change(q, target);
    }
}

/// Chooses the length in the completion of the first request: adapters tell how much was read.
std::uint32_t told_length(const queue_pair &q)
{
    const request &r = q.requests.front();
    const bool brings = r.wr.opcode == IBV_WR_RDMA_READ ||
                        r.wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
                        r.wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    return brings ? static_cast<std::uint32_t>(length_of(r.places)) : all().has.length_of_sent;
}

} // namespace

void raise(ibv_context *in, const ibv_async_event &event)
{
    of(in).events.push(event);
}

void fail_pair(queue_pair &q)
{
    q.state = IBV_QPS_ERR;
    while (!q.requests.empty())
        complete_first(q, IBV_WC_WR_FLUSH_ERR, 0);
    while (!q.receives.empty()) {
        const receive taken = std::move(q.receives.front());
        q.receives.pop_front();
        complete_receive(q, taken, IBV_WC_WR_FLUSH_ERR, {}, 0);
    }
}

void run(queue_pair &q)
{
    if (of(q.context).dead)
        return;
    if (q.state == IBV_QPS_ERR) {
        fail_pair(q);
        return;
    }
    while (!q.requests.empty() && q.state == IBV_QPS_RTS) {
        const auto found = all().pairs.find(q.peer);
        // A peer that is gone answers nothing; the connection manager tells the end.
        if (found == all().pairs.end() || found->second->peer != q.qp_num)
            return;
        queue_pair &target = *found->second;
        if (target.state != IBV_QPS_RTR && target.state != IBV_QPS_RTS)
            return;
        const std::uint32_t length = told_length(q);
        const step how = execute(q, target);
        if (how == step::done)
            complete_first(q, IBV_WC_SUCCESS, length);
        else
            return;
    }
}

void run_peer_of(queue_pair &q)
{
    if (const auto found = all().pairs.find(q.peer); found != all().pairs.end())
        run(*found->second);
}

void run_all()
{
    for (const auto &[number, q] : all().pairs)
        if (!q->requests.empty())
            run(*q);
}

} // namespace stand_in
