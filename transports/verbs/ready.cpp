// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// [siw] An accepting side keeps still until its peer has read the answer. No event tells when, and
// any request that asked for it would be sent itself. So the answer names a word of memory, which
// the peer writes as its first request. The word's region is the port's own, in each protection
// domain. A domain has few attempts at a time; two that share a word only shorten a pause.
#include "internal.hpp"

#include "dapl_debug.hpp"

#include <cstring>
#include <new>

namespace dapl::verbs::vrb {

namespace {

constexpr std::uint64_t yes = ~std::uint64_t{0};

} // namespace

/// Word 0 is written into the others, by RDMA.
struct ready_words {
    static constexpr std::size_t count = 256;

    std::atomic<std::uint64_t> word[count] = {yes};
    std::size_t last = 0;
    ibv_mr *region = nullptr;
};

namespace {

/// Null where there are none to be had.
ready_words *words_of([[maybe_unused]] hca &device, pd &domain) OSD_REQUIRES(device.lock)
{
    if (domain.ready != nullptr)
        return domain.ready;
    auto *made = new (std::nothrow) ready_words;
    if (made == nullptr)
        return nullptr;
    made->region = ibv_reg_mr(domain.handle, made->word, sizeof made->word,
                              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (made->region == nullptr) {
        delete made;
        return nullptr;
    }
    domain.ready = made;
    return made;
}

} // namespace

void free_ready_words(hca &, pd &domain)
{
    if (domain.ready == nullptr)
        return;
    (void)ibv_dereg_mr(domain.ready->region);
    delete domain.ready;
    domain.ready = nullptr;
}

ready_place await_ready(hca &device, qp &q)
{
    q.ready = nullptr;
    ready_words *const words = words_of(device, *q.zone);
    if (words == nullptr)
        return {};
    words->last = words->last % (ready_words::count - 1) + 1;
    q.ready = &words->word[words->last];
    q.ready->store(0);
    return {reinterpret_cast<std::uintptr_t>(q.ready), words->region->rkey};
}

bool is_peer_ready(const qp &q)
{
    return q.ready != nullptr && q.ready->load(std::memory_order_acquire) == yes;
}

bool empty_place(const qp &q, ibv_sge &out)
{
    const ready_words *const words = q.zone->ready;
    if (words == nullptr)
        return false;
    out = {reinterpret_cast<std::uintptr_t>(&words->word[0]), 0, words->region->lkey};
    return true;
}

void tell_ready(hca &device, qp &q, const ready_place &place)
{
    ready_words *const words = words_of(device, *q.zone);
    if (words == nullptr)
        return;
    ibv_sge from{reinterpret_cast<std::uintptr_t>(&words->word[0]), sizeof words->word[0],
                 words->region->lkey};
    ibv_send_wr request = with_opcode(IBV_WR_RDMA_WRITE);
    request.wr_id = reinterpret_cast<std::uint64_t>(&q.ready_marker);
    request.sg_list = &from;
    request.num_sge = 1;
    // It is not signalled, as nobody may poll for its completion.
    request.wr.rdma.remote_addr = place.address;
    request.wr.rdma.rkey = place.key;
    osd::lock_guard hold(q.lock);
    if (q.handle == nullptr)
        return;
    q.ready_marker.finished = false;
    ibv_send_wr *bad = nullptr;
    const int error = q.post(q.handle, &request, &bad);
    if (bad != nullptr)
        dapl_log(DAPL_DBG_TYPE_CM, "%s: qp %p: the peer is not told that its answer is read: %s",
                 device.name, static_cast<void *>(&q), std::strerror(std::abs(error)));
}

} // namespace dapl::verbs::vrb
