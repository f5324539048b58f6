// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "work_queue.hpp"

#include "binding.hpp"
#include "dapl_debug.hpp"
#include "dapl_line_limit.hpp"
#include "dat_names.hpp"
#include "osd_time.hpp"

#include <bit>
#include <cstdio>

namespace dapl::DAPL_TRANSPORT::core {

work_queue *work_queue::create(endpoint *owner, DAT_COUNT limit, bool concurrent)
{
    constexpr std::size_t few = 2;
    std::size_t length = std::size_t{static_cast<std::uint32_t>(limit)} + 1;
    if (concurrent)
        length = std::bit_ceil(length);
    auto *queue = new (std::nothrow) work_queue(owner);
    if (queue == nullptr)
        return nullptr;
    queue->length_ = static_cast<DAT_COUNT>(length);
    queue->limit_ = limit;
    if (queue->grow_by(concurrent || length <= 2 * few ? length : few))
        return queue;
    queue->release();
    return nullptr;
}

/// Adds places to the ring; returns false when memory is out or `count` is 0. Only the thread that
/// posts calls this, while the ring has no places or a single unused one: then nothing refers to
/// the two links that change, `after` of the request that was posted last and `before` of the
/// unused place. The first link is stored before the number of places, see snapshot().
bool work_queue::grow_by(std::size_t count)
{
    if (count == 0)
        return false;
    std::unique_ptr<ring_places> more(new (std::nothrow) ring_places);
    if (more == nullptr)
        return false;
    more->slots.reset(new (std::nothrow) wr[count]());
    if (more->slots == nullptr)
        return false;
    more->added = static_cast<DAT_UINT32>(count);
    wr *const slots = more->slots.get();
    wr *unused = next.load(std::memory_order_relaxed);
    wr *last = unused == nullptr ? &slots[count - 1] : static_cast<wr *>(unused->before);
    if (unused != nullptr) {
        more->earlier.reset(places_.load(std::memory_order_relaxed));
        more->first = more->earlier->count();
        more->unused = more->earlier->order_of(*unused);
    } else {
        unused = slots;
        retired = known_end = last;
    }
    for (std::size_t i = 0; i < count; ++i) {
        slots[i].queue = this;
        slots[i].ring_place = more->first + static_cast<DAT_UINT32>(i);
        slots[i].operation = never_posted;
        slots[i].before = last;
        last->after = &slots[i];
        last = &slots[i];
    }
    last->after = unused;
    unused->before = last;
    if (more->first != 0)
        known_end = unused;
    next.store(slots, std::memory_order_release);
    places_.store(more.release(), std::memory_order_release);
    return true;
}

void work_queue::use(concurrent_posts &posts, bool from_zero)
{
    const auto length = static_cast<std::uint32_t>(length_);
    if (from_zero)
        posts.begin_at_zero(length);
    wr *const slots = places_.load(std::memory_order_relaxed)->slots.get();
    retired.store(&slots[(posts.next_place() - 1) & (length - 1)]);
    posts.use(slots, length, limit_, retired);
    posts_.store(&posts);
}

void work_queue::leave_posts()
{
    if (is_concurrent())
        next.store(const_cast<wr *>(upcoming()));
    posts_.store(nullptr);
}

work_queue::~work_queue()
{
    for (DAT_COUNT i = 0; bindings != nullptr && i < length_; ++i)
        if (binding *left = bindings[i].load(); left != nullptr)
            left->release();
    delete[] bindings;
    delete places_.load();
    if (draws_from != nullptr)
        draws_from->release();
}

void work_queue::release()
{
    if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1)
        return;
    if (shared)
        delete static_cast<shared_work_queue *>(this);
    else
        delete this;
}

/// Room is known as far as the next place with a binding.
transport::wr *work_queue::take_slowly()
{
    if (is_concurrent()) {
        wr *taken = posts_.load(std::memory_order_relaxed)->take();
        if (taken != nullptr && bindings != nullptr)
            forget_binding(*taken);
        return taken;
    }
    wr *request = next.load(std::memory_order_relaxed);
    if (request == known_end) {
        if (!find_room(request)) {
            if (!grow_by(static_cast<std::size_t>(std::min(places(), length_ - places()))))
                return nullptr;
            request = next.load(std::memory_order_relaxed);
        } else if (bindings != nullptr) {
            forget_binding(*request); // it has completed, its success suppressed
            auto *clear = static_cast<wr *>(request->after);
            while (clear != known_end && binding_at(*clear) == nullptr)
                clear = static_cast<wr *>(clear->after);
            known_end = clear;
        }
    }
    advance(request);
    return request;
}

void work_queue::forget_binding(const wr &request)
{
    if (binding *before = take_binding(request); before != nullptr)
        before->release();
}

bool work_queue::make_room_for_bindings()
{
    if (bindings == nullptr)
        bindings = new (std::nothrow) std::atomic<binding *>[static_cast<std::size_t>(length_)]();
    if (bindings == nullptr)
        return false;
    looks_slowly |= binds;
    if (is_concurrent())
        posts_.load(std::memory_order_relaxed)->set(concurrent_posts::binding_there);
    return true;
}

void post_times::note(const work_queue &queue, std::int64_t now_ns)
{
    if (noted_ns_ == nullptr) {
        const DAT_COUNT most = std::max(queue.places(), queue.limit() + 1);
        noted_ns_.reset(new (std::nothrow) std::int64_t[static_cast<std::size_t>(most)]());
        if (noted_ns_ == nullptr)
            return;
        last_ = queue.retired.load(std::memory_order_acquire);
    }
    const work_request *const end = queue.upcoming();
    for (const work_request *each = last_->after; each != end; each = each->after) {
        noted_ns_[each->ring_place] = now_ns;
        last_ = each;
    }
}

std::size_t post_times::copy(const work_queue &queue, std::int64_t now_ns, posted *out,
                             std::size_t room)
{
    note(queue, now_ns);
    const work_queue::view now = queue.snapshot();
    const auto all = static_cast<std::size_t>(now.outstanding);
    const work_request *each = now.last;
    for (std::size_t i = 0; i < std::min(room, all); ++i) {
        each = each->after;
        out[i] = {each->cookie, each->length, each->operation,
                  noted_ns_ == nullptr ? now_ns : noted_ns_[each->ring_place]};
    }
    return all;
}

// ---------------------------------------------------------------------------- what is not taken

namespace {

line_limit post_refusals; // covers all endpoints and SRQs

struct room_text {
    char bytes[128] = "";
};

/// Says how full the queue is, and how a full queue gets room.
room_text room_in(const refused_post &post)
{
    room_text out;
    if (post.limit == 0)
        return out;
    const bool full = post.outstanding >= static_cast<std::uint64_t>(post.limit);
    std::snprintf(out.bytes, sizeof out.bytes, "; %llu of %d are outstanding%s",
                  static_cast<unsigned long long>(post.outstanding), post.limit,
                  full ? ": a completion that is dequeued makes room" : "");
    return out;
}

} // namespace

status refuse(const refused_post &post, status why)
{
    std::uint32_t left_out = 0;
    if (!shows(DAPL_DBG_TYPE_EP) || !post_refusals.allows(osd::now_ns(), left_out))
        return why;
    debug_line("%s %p%s%s: a post (%s) is refused%s: %s %s%s; %u such lines were left out before",
               post.kind, post.object, post.state == nullptr ? "" : " in state ",
               post.state == nullptr ? "" : post.state, dat::operation_name(dto_of(post.operation)),
               post.by_port ? " by the port" : "", dat::return_type_name(why.code()),
               dat::return_subtype_name(why.code()), room_in(post).bytes, left_out);
    return why;
}

} // namespace dapl::DAPL_TRANSPORT::core
