// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ring_paths.hpp"

#include <new>
#include <utility>

namespace soft_hca {

// -------------------------------------------------------------------------------------- one path

bool ring_path::open()
{
    if (!own_.create(sizeof(ring_file)))
        return false;
    own().begin();
    return true;
}

/// Connects our ring with the peer's, which must be empty: a ring file has one reader in its life.
bool ring_path::meet(std::unique_ptr<shared_memory> theirs)
{
    const auto &file = *static_cast<const ring_file *>(theirs->bytes());
    if (!file.is_ring() || !file.is_fresh())
        return false;
    theirs_ = std::move(theirs);
    writer_.open(own(), file);
    reader_.open(own(), file);
    return true;
}

bool ring_path::put(const void *bytes, std::uint32_t size)
{
    if (!writer_.begin(size))
        return false;
    writer_.add(bytes, size);
    writer_.put();
    return true;
}

bool ring_path::put(const out_packet &packet)
{
    if (!writer_.begin(packet.size))
        return false;
    for (std::uint32_t i = 0; i < packet.pieces; ++i)
        writer_.add(packet.piece[i].at, packet.piece[i].size);
    writer_.put();
    return true;
}

/// Puts as many as fit the gather buffer. The kernel gathers them: it does not fault where memory
/// of a consumer was unmapped.
send_result ring_path::send_some(const out_packet *packets, std::uint32_t count,
                                 std::uint32_t &done)
{
    std::uint32_t some = 0;
    std::size_t size = 0;
    gather_.begin();
    for (; some < count && packets[some].pieces <= gather_.room() &&
           size + packets[some].size <= gathered;
         size += packets[some++].size)
        gather_.add(packets[some]);
    const std::size_t copied = gather_.gather();
    std::size_t at = 0;
    for (std::uint32_t i = 0; i < some; at += packets[i++].size) {
        if (at + packets[i].size > copied)
            return send_result::bad_memory;
        if (!put(gather_.bytes() + at, packets[i].size))
            return send_result::busy;
        ++done;
    }
    return send_result::sent;
}

send_result ring_path::send_safely(const out_packet *packets, std::uint32_t count,
                                   std::uint32_t &done)
{
    if (!gather_.is_open() && !gather_.open(gathered))
        return send_result::busy;
    send_result result = send_result::sent;
    while (result == send_result::sent && done < count && packets[done].size <= ring_file::largest)
        result = send_some(packets + done, count - done, done);
    return result;
}

send_result ring_path::send_plain(const out_packet *packets, std::uint32_t count,
                                  std::uint32_t &done)
{
    while (done < count && packets[done].size <= ring_file::largest)
        if (!put(packets[done]))
            return send_result::busy;
        else
            ++done;
    return send_result::sent;
}

send_result ring_path::send(const out_packet *packets, std::uint32_t count, bool plain,
                            std::uint32_t &done)
{
    done = 0;
    osd::lock_guard hold(writing_);
    const send_result result =
        plain ? send_plain(packets, count, done) : send_safely(packets, count, done);
    if (writer_.is_attended())
        return result;
    done = 0; // the peer may sleep now without having seen them: all are sent as datagrams, too
    return send_result::sent;
}

bool ring_path::send_one(const out_packet &packet)
{
    osd::lock_guard hold(writing_);
    return is_attended() && put(packet) && writer_.is_attended();
}

// ----------------------------------------------------------------------------------- all of them

void ring_paths::close()
{
    osd::lock_guard hold(lock_);
    count_ = 0;
    for (std::unique_ptr<ring_path> &each : paths_)
        each.reset();
    any_made_.store(false);
}

void ring_paths::set_attention(ring_path &path) const
{
    const ring_attention there = asleep_.load() ? ring_attention::asleep : ring_attention::awake;
    path.own().attention.store(path.listens_ ? there : ring_attention::none);
}

ring_path *ring_paths::make(const net_address &peer)
{
    any_made_.store(true);
    for (std::unique_ptr<ring_path> &each : paths_) {
        if (each != nullptr)
            continue;
        each.reset(new (std::nothrow) ring_path(peer));
        if (each != nullptr && !each->open())
            each.reset();
        return each.get();
    }
    return nullptr;
}

ring_path *ring_paths::hold(const net_address &peer)
{
    osd::lock_guard hold(lock_);
    ring_path *found = nullptr;
    for (const std::unique_ptr<ring_path> &each : paths_)
        if (each != nullptr && !each->given_up_.load() && each->peer_ == peer)
            found = each.get();
    if (found == nullptr)
        found = make(peer);
    if (found != nullptr)
        ++found->links_;
    return found;
}

namespace {

std::unique_ptr<shared_memory> mapped(waitable file)
{
    std::unique_ptr<shared_memory> made(new (std::nothrow) shared_memory);
    if (made == nullptr)
        local_socket::close(file);
    else if (!made->map(file, sizeof(ring_file)))
        made.reset();
    return made;
}

} // namespace

/// Connects two rings. The peer sends a file that is mapped already, for a further connection
/// between these sockets.
bool ring_paths::meet(ring_path &path, std::unique_ptr<shared_memory> theirs)
{
    if (path.is_met())
        return path.theirs_->same_file(*theirs);
    if (!path.meet(std::move(theirs)))
        return false;
    path.listens_ = true;
    set_attention(path);
    changed_.store(true);
    return true;
}

bool ring_paths::meet(ring_path &path, waitable file)
{
    std::unique_ptr<shared_memory> theirs = mapped(file);
    osd::lock_guard hold(lock_);
    return theirs != nullptr && meet(path, std::move(theirs));
}

ring_path *ring_paths::hold(const net_address &peer, waitable file)
{
    std::unique_ptr<shared_memory> theirs = mapped(file);
    if (theirs == nullptr)
        return nullptr;
    osd::lock_guard hold(lock_);
    ring_path *found = nullptr;
    for (const std::unique_ptr<ring_path> &each : paths_) {
        if (each == nullptr || each->given_up_.load() || !(each->peer_ == peer))
            continue;
        if (each->is_met() ? each->theirs_->same_file(*theirs) : found == nullptr)
            found = each.get();
    }
    if (found == nullptr)
        found = make(peer);
    if (found == nullptr || !meet(*found, std::move(theirs)))
        return nullptr;
    ++found->links_;
    return found;
}

/// The peer puts packets until it reads that this side takes no more. The holder of the poll lock
/// takes these out before it frees the path.
void ring_paths::release(ring_path &path)
{
    osd::lock_guard hold(lock_);
    if (--path.links_ != 0)
        return;
    path.given_up_.store(true);
    path.listens_ = false;
    set_attention(path);
    if (path.is_met())
        return changed_.store(true);
    for (std::unique_ptr<ring_path> &each : paths_)
        if (each.get() == &path)
            each.reset();
}

void ring_paths::set_asleep(bool asleep)
{
    asleep_.store(asleep);
    if (!any_made_.load())
        return;
    osd::lock_guard hold(lock_);
    for (const std::unique_ptr<ring_path> &each : paths_)
        if (each != nullptr && each->listens_)
            set_attention(*each);
}

bool ring_paths::has_packets()
{
    if (!any_made_.load())
        return false;
    osd::lock_guard hold(lock_);
    for (const std::unique_ptr<ring_path> &each : paths_)
        if (each != nullptr && each->listens_ &&
            each->theirs().has_packet(each->own().taken.load(std::memory_order_relaxed)))
            return true;
    return false;
}

// -------------------------------------------------------------------------------- taking packets

void ring_paths::collect()
{
    osd::lock_guard hold(lock_);
    changed_.store(false);
    count_ = 0;
    for (std::unique_ptr<ring_path> &each : paths_) {
        if (each == nullptr || !each->is_met())
            continue;
        if (each->given_up_.load() && each->drained_)
            each.reset();
        else
            met_[count_++] = each.get();
    }
}

/// No link holds the path and its ring is empty, or the peer has put something invalid: takes no
/// more packets from it.
void ring_paths::leave(ring_path &path)
{
    path.drained_ = true;
    osd::lock_guard hold(lock_);
    path.listens_ = false;
    set_attention(path);
    if (path.given_up_.load())
        changed_.store(true);
}

} // namespace soft_hca
