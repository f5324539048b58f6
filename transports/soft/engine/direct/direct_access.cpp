// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "direct_access.hpp"

#include "osd_thread.hpp"
#include "osd_time.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace soft_hca {

namespace {

constexpr int most_tries = 8;
constexpr std::ptrdiff_t refused = local_process::interrupted - 1;

} // namespace

// ---------------------------------------------------------------------------------------- access

std::ptrdiff_t direct_link::copy(direct_peer &peer, const request &r) const
{
    bytes_view pieces[max_segments];
    std::uint32_t count = 0;
    std::uint32_t left = r.length; // the local memory of a read may be larger
    for (std::uint32_t i = 0; i < r.segments && left != 0; ++i) {
        const std::uint32_t size = std::min(r.local[i].length, left);
        if (size != 0)
            pieces[count++] = {
                reinterpret_cast<void *>(static_cast<std::uintptr_t>(r.local[i].address)), size};
        left -= size;
    }
    if (left != 0)
        return refused;
    const local_guard guard{&peer.board().gate_word(their_gate_), their_token_};
    const bytes_view there{reinterpret_cast<void *>(static_cast<std::uintptr_t>(r.remote.address)),
                           r.length};
    const std::ptrdiff_t done =
        is_read(r) ? peer.fetch(&there, 1, pieces, count, guard)
                   : peer.process.write(r.remote.address, pieces, count, r.length, guard);
    if (done < local_process::interrupted)
        peer.forbidden.store(true);
    return done;
}

/// Verifies that the process id is still the peer's. Copies only if that was a short time ago: the
/// system cannot have reused the id since. An execve in this time shows on the board. What reads
/// verifies it itself: what a wrong process has given is overwritten, or belongs to a read that
/// fails.
std::ptrdiff_t direct_link::copy_if_proven(direct_peer &peer, const request &r) const
{
    const std::int64_t now = is_read(r) ? 0 : osd::now_ns();
    if (is_read(r) || peer.was_proven(now))
        return copy(peer, r);
    if (!peer.is_proven())
        return refused;
    peer.proven_ns.store(now, std::memory_order_relaxed);
    return osd::now_ns() - now < direct_peer::short_time_ns ? copy(peer, r)
                                                            : local_process::interrupted;
}

/// Most requests name the region of the request before.
const board_name &direct_link::name_of(std::uint32_t key)
{
    if (key != named_) {
        name_ = board_name::of(their_zone_, key);
        named_ = key;
    }
    return name_;
}

std::ptrdiff_t direct_link::try_to_move(direct_peer &peer, const request &r)
{
    const direct_target to{is_read(r) ? remote_read : remote_write, r.remote.address, r.length};
    const board_name &region = name_of(r.remote.key);
    own_->claim(gate_, region.name);
    const bool permitted = peer.board().permits(their_gate_, their_token_, region, to);
    const std::ptrdiff_t done = permitted ? copy_if_proven(peer, r) : refused;
    own_->end_claim(gate_);
    return done;
}

bool direct_link::move(const request &r)
{
    direct_peer *const peer = peer_.load(std::memory_order_acquire);
    if (peer == nullptr || !peer->open_to_us || r.remote.key == 0 || r.length == 0 ||
        r.length > most_bytes || peer->forbidden.load(std::memory_order_relaxed))
        return false;
    for (int tries = 0; tries < most_tries; ++tries)
        if (const std::ptrdiff_t done = try_to_move(*peer, r); done != local_process::interrupted)
            return done == static_cast<std::ptrdiff_t>(r.length);
    return false;
}

/// A sender keeps the memory of a send until the receiver has acknowledged it, or the connection
/// has ended: the gate is closed before its sends are flushed, and claims are waited for.
bool direct_link::fetch(const bytes_view *from, std::uint32_t from_count, const bytes_view *to,
                        std::uint32_t to_count, std::uint32_t size)
{
    direct_peer *const peer = peer_.load(std::memory_order_acquire);
    if (peer == nullptr || !peer->open_to_us || peer->forbidden.load(std::memory_order_relaxed))
        return false;
    const direct_board &board = peer->board();
    const local_guard guard{&board.gate_word(their_gate_), their_token_};
    std::ptrdiff_t done = local_process::interrupted;
    own_->claim(gate_, direct_board::fetching);
    for (int tries = 0; tries < most_tries && done == local_process::interrupted &&
                        board.is_open(their_gate_, their_token_);
         ++tries)
        done = peer->fetch(from, from_count, to, to_count, guard);
    const bool still_open = board.is_open(their_gate_, their_token_);
    own_->end_claim(gate_);
    if (done < local_process::interrupted)
        peer->forbidden.store(true);
    return done == static_cast<std::ptrdiff_t>(size) && still_open;
}

// ------------------------------------------------------------------------------------------ life

local_obstacle direct_access::open(descriptor_set &within)
{
    const local_obstacle why = prepare(within);
    if (why != local_obstacle::none)
        close(); // frees the descriptors that were made
    return why;
}

local_obstacle direct_access::prepare(descriptor_set &within)
{
    if (!local_process::exists())
        return local_obstacle::no_calls;
    if (!memory_.create(sizeof(direct_board)))
        return local_obstacle::no_memory;
    mark_.at = reinterpret_cast<std::uintptr_t>(mark_.bytes);
    if (!random_bytes(mark_.bytes, sizeof mark_.bytes) || !secrets_.open() || !called_.open() ||
        !spare_.open() || !watched_.open() || !watched_.add(called_.descriptor()) ||
        !within.add(watched_.descriptor()))
        return local_obstacle::no_memory;
    within_ = &within;
    board_ = static_cast<direct_board *>(memory_.bytes());
    board_->begin();
    std::unique_ptr<direct_link[]> links(new (std::nothrow) direct_link[direct_board::gates]);
    if (links == nullptr)
        return local_obstacle::no_memory;
    for (std::uint32_t i = 0; i < direct_board::gates; ++i) {
        links[i].own_ = board_;
        links[i].gate_ = i;
    }
    links_ = std::move(links);
    return local_obstacle::none;
}

void direct_access::listen(const net_address &at)
{
    osd::lock_guard hold(lock_);
    if (!is_open() || listening_ == max_listeners)
        return;
    const waitable made = local_socket::listen(at);
    if (made < 0)
        return; // peers cannot connect, and use the network
    if (local_socket::permit_files(made, false))
        closer_.trust();
    if (watched_.add(made))
        listeners_[listening_++] = made;
    else
        local_socket::close(made);
}

void direct_access::close()
{
    osd::lock_guard hold(lock_);
    while (listening_ != 0)
        closer_.take_listener(listeners_[--listening_]);
    for (talk &each : talks_)
        if (each.socket >= 0)
            closer_.take(end_talk(each));
    closer_.end();
    while (direct_peer *const gone = peers_) {
        peers_ = gone->next;
        delete gone;
    }
    peers_known_ = 0;
    if (within_ != nullptr)
        within_->remove(watched_.descriptor());
    within_ = nullptr;
    watched_.close();
    called_.close();
    spare_.close();
    links_.reset();
    memory_.close();
    board_ = nullptr;
}

// ---------------------------------------------------------------------------------------- memory

void direct_access::show(const memory_region &region)
{
    if (!is_open() || (region.rights & (remote_read | remote_write)) == 0)
        return;
    const board_name as = board_name::of(secrets_.of(region.domain), region.key.load());
    osd::lock_guard hold(lock_);
    (void)board_->show(as, region);
}

/// Waits until the peer does not claim the region (0: any), or has gone. False after that time.
bool direct_link::ends_by(std::uint64_t name, std::int64_t until_ns) const
{
    const direct_peer &peer = *peer_.load(std::memory_order_relaxed);
    const auto has_ended = [&] {
        const std::uint64_t claimed = peer.board().claimed(their_gate_);
        return claimed == 0 || (name != 0 && claimed != name) || !peer.is_alive();
    };
    osd::wait_while([&] { return !has_ended() && osd::now_ns() <= until_ns; });
    return has_ended();
}

/// Waits for the end of a peer's access, which has been asked for at that time.
bool direct_link::outlast(std::uint64_t name, std::int64_t since_ns) const
{
    if (ends_by(name, since_ns))
        return true;
    access_patience &patience = peer_.load(std::memory_order_relaxed)->patience;
    const std::int64_t began = osd::now_ns();
    const bool ended = ends_by(name, since_ns + patience.at(began));
    patience.note(ended, began, osd::now_ns());
    return ended;
}

/// Closes the gate of a peer whose access does not end. If its thread was stopped before the copy,
/// the copy fails now (local_guard).
void direct_access::shut_out(direct_link &link)
{
    board_->close_gate(link.gate_);
    link.stuck_.store(true);
}

/// Waits for copies of peers that were shut out: if these run again, their copies end within this
/// time.
void direct_access::await_stuck()
{
    const std::int64_t until = osd::now_ns() + access_patience::last_ns;
    for (std::uint32_t i = 0; i < direct_board::gates; ++i)
        if (links_[i].is_stuck() && links_[i].is_accessible())
            (void)links_[i].ends_by(0, until);
}

/// All peers have an equal time, from when the key was removed.
void direct_access::withdraw(std::uint32_t key, const protection_domain *zone)
{
    if (!is_open())
        return;
    const board_name as = board_name::of(secrets_.of(zone), key);
    osd::lock_guard hold(lock_);
    if (!board_->withdraw(as) || peers_ == nullptr)
        return;
    const std::int64_t since = osd::now_ns();
    bool all_ended = true;
    for (std::uint32_t i = 0; i < direct_board::gates; ++i)
        if (links_[i].is_accessible() && !links_[i].outlast(as.name, since)) {
            shut_out(links_[i]);
            all_ended = false;
        }
    if (!all_ended)
        await_stuck();
}

// ------------------------------------------------------------------------------------ connections

direct_link *direct_access::free_link()
{
    for (std::uint32_t i = 0; i < direct_board::gates; ++i) {
        direct_link &each = links_[next_link_++ % direct_board::gates];
        if (each.now_ == direct_link::state::free)
            return &each;
    }
    return nullptr;
}

direct_link *direct_access::begin(const net_address &own, const net_address &peer,
                                  const direct_names &names, const protection_domain *zone,
                                  const direct_listener &told, ring_paths *rings)
{
    std::uint64_t token = 0;
    if (!is_open() || !peer.same_host(own) || !random_bytes(&token, sizeof token))
        return nullptr;
    osd::lock_guard hold(lock_);
    direct_link *const made = free_link();
    if (made == nullptr)
        return nullptr;
    made->names_ = names;
    made->to_ = peer;
    made->token_ = token | 1; // the value differs from `closed`
    made->zone_ = secrets_.of(zone);
    made->stuck_.store(false);
    made->outcome_.store(local_obstacle::none);
    made->told_ = told;
    made->rings_ = rings;
    made->now_ = names.calls ? direct_link::state::to_call : direct_link::state::waits;
    if (names.calls)
        called_.raise();
    return made;
}

void direct_access::end(direct_link *&link)
{
    if (link == nullptr)
        return;
    direct_link &ended = *std::exchange(link, nullptr);
    {
        osd::lock_guard hold(lock_);
        ended.now_ = direct_link::state::ending;
        ended.ring_.store(nullptr, std::memory_order_relaxed);
        board_->close_gate(ended.gate_);
    }
    direct_peer *const peer = ended.peer_.load(std::memory_order_relaxed);
    if (peer != nullptr)
        (void)ended.outlast(0, osd::now_ns());
    osd::lock_guard hold(lock_);
    if (ring_path *const held = std::exchange(ended.held_, nullptr))
        ended.rings_->release(*held);
    ended.peer_.store(nullptr, std::memory_order_relaxed);
    ended.now_ = direct_link::state::free;
    if (peer != nullptr)
        release(*peer);
}

// -------------------------------------------------------------------------------------- the thread

void direct_access::serve()
{
    if (!is_open())
        return;
    if (!board_->shows_life())
        (void)board_->life().hold(); // where that fails, peers look at the process for each write
    const waitable any = watched_.descriptor();
    if (wait_for(&any, 1, osd::deadline::passed()) != osd::wait_result::woken)
        return;
    osd::lock_guard hold(lock_);
    called_.clear(); // cleared before call_peers(): a later begin() raises it again
    accept_calls();
    for (talk &each : talks_)
        if (each.socket >= 0)
            hear(each);
    forget_peers(false);
    call_peers(); // answers that came above have made room
}

void direct_access::call_peers()
{
    for (std::uint32_t i = 0; i < direct_board::gates; ++i) {
        if (links_[i].now_ != direct_link::state::to_call)
            continue;
        talk *const by = place_for_call();
        if (by == nullptr)
            return;
        call(links_[i], *by);
    }
}

/// Returns null while all places are taken by calls without an answer.
direct_access::talk *direct_access::place_for_call()
{
    for (std::uint32_t i = 0; i < max_calls; ++i) {
        talk &each = talks_[i];
        if (each.socket >= 0 && each.is_current())
            continue;
        // The connection of that call has ended. Its socket needs no closer_, as a stranger's does:
        // local_socket::connect accepts a process of our own user only.
        if (each.socket >= 0)
            local_socket::close(end_talk(each));
        return &each;
    }
    return nullptr;
}

void direct_access::call(direct_link &link, talk &by)
{
    link.now_ = direct_link::state::waits;
    if (link.rings_ != nullptr)
        link.held_ = link.rings_->hold(link.to_);
    by = {};
    by.link = &link;
    by.token = link.token_;
    by.next = talk::message::answer;
    local_obstacle why = local_obstacle::no_memory;
    if (by.greeting.begin(link.names_))
        by.socket = local_socket::connect(link.to_, why);
    if (by.socket < 0)
        return tell(link, why);
    const direct_call said = by.greeting.call();
    if (watched_.add(by.socket) && local_socket::send(by.socket, &said, sizeof said))
        return;
    local_socket::close(end_talk(by));
    tell(link, local_obstacle::no_answer);
}

/// Accepts a bounded number of calls, since any user may call all the time: callers that are left
/// wake the thread again.
void direct_access::accept_calls()
{
    for (std::uint32_t i = 0; i < listening_; ++i)
        for (int left = max_at_once; left > 0 && accept_call(listeners_[i]);)
            --left;
}

/// Returns false when there is none that can be accepted. A stranger who keeps as many closes from
/// ending as there is room for has closed the door: connections use the network from then on.
bool direct_access::accept_call(waitable listener)
{
    if (!closer_.has_room()) {
        watched_.remove(listener);
        return false;
    }
    const waitable caller = local_socket::accept(listener);
    if (caller == local_socket::no_descriptor)
        return turn_away(listener);
    if (caller >= 0 && local_process::obstacle_to(caller) == local_obstacle::none)
        answer(caller);
    else
        closer_.take(caller);
    return caller != local_socket::none;
}

/// The process is out of descriptors. A call that stays in the backlog would wake this thread all
/// the time: it is accepted by means of the spare descriptor, and closed.
bool direct_access::turn_away(waitable listener)
{
    if (!spare_.is_open())
        return false;
    spare_.close();
    const waitable caller = local_socket::accept(listener);
    closer_.take(caller);
    return spare_.open() && caller >= 0;
}

/// Begins a talk on an accepted socket, in a free place or in place of the oldest talk. That may be
/// older than others which came later and have ended: a caller that is held up is not displaced
/// while there is room.
void direct_access::answer(waitable socket)
{
    const auto sooner = [](const talk &one, const talk &other) {
        return one.turn() < other.turn();
    };
    talk &with = *std::min_element(talks_ + max_calls, talks_ + max_talks, sooner);
    if (with.socket >= 0)
        hear(with); // its hello may have come by now
    if (with.socket >= 0)
        closer_.take(end_talk(with));
    if (!watched_.add(socket))
        return closer_.take(socket);
    with = {};
    with.socket = socket;
    with.number = ++answered_;
    hear(with); // usually the call is there already
}

waitable direct_access::end_talk(talk &with)
{
    watched_.remove(with.socket);
    return std::exchange(with.socket, -1);
}

bool direct_access::say_hello(const talk &to)
{
    const direct_link &link = *to.link;
    direct_hello said{};
    said.edition = direct_edition;
    said.gate = link.gate_;
    said.token = link.token_;
    said.zone = link.zone_;
    said.mark = mark_;
    to.greeting.prove(said);
    return local_socket::send(to.socket, &said, sizeof said, memory_.file(),
                              link.held_ != nullptr ? link.held_->file() : -1);
}

/// The link that waits for this call; null if there is none.
direct_link *direct_access::link_of(const direct_call &said)
{
    for (std::uint32_t i = 0; i < direct_board::gates; ++i) {
        direct_link &each = links_[i];
        if (each.now_ == direct_link::state::waits && !each.names_.calls &&
            each.names_.id == said.to_id && each.names_.peer_id == said.from_id)
            return &each;
    }
    return nullptr;
}

/// Takes the message that has come, if any. Ends the talk if another message was to come next, or
/// if the connection has ended.
void direct_access::hear(talk &from)
{
    const bool goes_on = from.next == talk::message::call     ? hear_call(from)
                         : from.next == talk::message::answer ? hear_answer(from)
                                                              : hear_hello(from);
    if (goes_on)
        return;
    if (from.link != nullptr && from.link->names_.calls && from.is_current())
        tell(*from.link, local_obstacle::no_answer);
    closer_.take(end_talk(from));
}

bool direct_access::hear_call(talk &from)
{
    direct_call said{};
    const std::ptrdiff_t size = local_socket::receive(from.socket, &said, sizeof said);
    if (size < 0)
        return true;
    from.link = size == sizeof said ? link_of(said) : nullptr;
    if (from.link == nullptr || !from.greeting.begin(from.link->names_) ||
        !from.greeting.take(said))
        return false;
    from.token = from.link->token_;
    from.next = talk::message::hello;
    const direct_answer answer = from.greeting.answer();
    (void)local_socket::permit_files(from.socket, true);
    return local_socket::send(from.socket, &answer, sizeof answer);
}

bool direct_access::hear_answer(talk &from)
{
    direct_answer said{};
    const std::ptrdiff_t size = local_socket::receive(from.socket, &said, sizeof said);
    if (size < 0)
        return true;
    if (size != sizeof said || !from.greeting.take(said) || !from.is_current())
        return false;
    from.next = talk::message::hello;
    (void)local_socket::permit_files(from.socket, true);
    return say_hello(from);
}

bool direct_access::hear_hello(talk &from)
{
    direct_hello said{};
    waitable board = -1;
    waitable ring = -1;
    const std::ptrdiff_t size = local_socket::receive(from.socket, &said, sizeof said, board, ring);
    if (size < 0)
        return true;
    const bool sound = size == sizeof said && from.greeting.is_proven(said) && board >= 0 &&
                       said.token != direct_board::closed && said.gate < direct_board::gates;
    if (sound && from.is_current()) {
        (void)local_socket::permit_files(from.socket, false); // no more will come
        talk with = from;
        (void)end_talk(from);
        meet(with, said, board, ring);
        return true;
    }
    closer_.take(board);
    closer_.take(ring);
    return false;
}

/// Stores the outcome, and posts an event to the queue pair of the link. In the states `waits` and
/// `shown` that queue pair is allocated, since it calls end() before it is freed; in `ending` it
/// may be freed before the event is delivered.
void direct_access::tell(direct_link &link, local_obstacle why)
{
    if (why != local_obstacle::none)
        obstacle_.store(why, std::memory_order_relaxed);
    link.outcome_.store(why, std::memory_order_relaxed);
    const bool in_use =
        link.now_ == direct_link::state::waits || link.now_ == direct_link::state::shown;
    if (in_use && link.told_.queue != nullptr)
        link.told_.queue->post(*link.told_.pair, path_event);
}

/// The hello of a link's peer has come. Takes over the descriptors.
void direct_access::meet(const talk &with, const direct_hello &said, waitable board, waitable ring)
{
    direct_link &link = *with.link;
    const bool has_ring = link.meet_ring(ring);
    local_obstacle why = local_obstacle::none;
    direct_peer *const peer = admit(with, said.mark, board, why);
    if (peer != nullptr) {
        enter(link, *peer, said, has_ring);
        // The peer may still access our memory if we have no access to its memory.
        why = peer->open_to_us ? local_obstacle::none : local_obstacle::no_access;
    }
    tell(link, why);
}

/// Decides whether the process at the other end of a socket can be used as a peer, answers its
/// hello, and keeps the socket. Null if it cannot, with the reason in `why`.
direct_peer *direct_access::admit(const talk &with, const process_mark &mark, waitable board,
                                  local_obstacle &why)
{
    const bool calls = with.link->names_.calls;
    direct_peer *peer = nullptr;
    std::unique_ptr<direct_peer> met(new (std::nothrow) direct_peer);
    if (met != nullptr) {
        why = verify(*met, with.socket, mark, board, peer);
    } else {
        why = local_obstacle::no_memory;
        local_socket::close(board);
    }
    if (why == local_obstacle::none && !calls && !say_hello(with))
        why = local_obstacle::no_answer;
    bool kept = false;
    if (why == local_obstacle::none && peer != nullptr)
        kept = peer->sockets.add(with.socket, calls, watched_);
    else if (why == local_obstacle::none)
        kept = (peer = keep(std::move(met), with.socket, calls)) != nullptr;
    if (!kept)
        local_socket::close(with.socket);
    if (why == local_obstacle::none && peer == nullptr)
        why = local_obstacle::no_memory;
    return why == local_obstacle::none ? peer : nullptr;
}

/// Verifies the process at the other end of a socket and maps its board. `kept`: this peer, if an
/// earlier link has met it.
local_obstacle direct_access::verify(direct_peer &met, waitable socket, const process_mark &mark,
                                     waitable board, direct_peer *&kept)
{
    const bool mapped = met.memory.map(board, sizeof(direct_board));
    const local_obstacle why = met.process.open(socket, mark);
    if (why != local_obstacle::none)
        return why;
    if (!mapped)
        return local_obstacle::bad_memory;
    kept = known(met);
    return kept == nullptr ? examine(met) : local_obstacle::none;
}

/// Makes a peer that was admitted the peer of a link: both sides can access from now on.
void direct_access::enter(direct_link &link, direct_peer &peer, const direct_hello &said,
                          bool has_ring)
{
    ++peer.links;
    link.their_gate_ = said.gate;
    link.their_token_ = said.token;
    link.their_zone_ = said.zone;
    link.named_ = 0;
    link.peer_.store(&peer, std::memory_order_release);
    link.now_ = direct_link::state::shown;
    // The peer can access our memory from now on; withdraw() and end() wait for its claims.
    board_->open_gate(link.gate_, link.token_);
    if (has_ring)
        link.ring_.store(link.held_, std::memory_order_release);
}

/// Takes over the ring file of the peer's hello. False if it had none, or there is no path for it.
bool direct_link::meet_ring(waitable ring)
{
    if (ring < 0)
        return false;
    if (held_ != nullptr)
        return rings_->meet(*held_, ring);
    if (rings_ != nullptr && !names_.calls)
        held_ = rings_->hold(to_, ring);
    else
        local_socket::close(ring);
    return held_ != nullptr;
}

/// Verifies the process and its board, and notes whether the system lets us access its memory.
local_obstacle direct_access::examine(direct_peer &met)
{
    const local_process::presence seen = met.process.look();
    if (seen == local_process::presence::gone || !met.board().is_board())
        return local_obstacle::bad_memory;
    met.open_to_us = seen == local_process::presence::proven;
    return local_obstacle::none;
}

/// The peer that is kept for this process and this board since an earlier link; null without one.
direct_peer *direct_access::known(const direct_peer &met) const
{
    for (direct_peer *each = peers_; each != nullptr; each = each->next)
        if (each->watched && each->memory.same_file(met.memory) &&
            each->process.same_process(met.process) && each->is_alive())
            return each;
    return nullptr;
}

/// Adds a new peer to those kept. Null if there is no room for it.
direct_peer *direct_access::keep(std::unique_ptr<direct_peer> met, waitable socket, bool called)
{
    forget_peers(false);
    if (peers_known_ == max_peers)
        forget_peers(true);
    if (peers_known_ == max_peers || !met->sockets.add(socket, called, watched_))
        return nullptr;
    ++peers_known_;
    met->next = peers_;
    return peers_ = met.release();
}

/// Frees peers that have gone once they have no link; `also_idle`: and all others without a link.
void direct_access::forget_peers(bool also_idle)
{
    for (direct_peer **at = &peers_; *at != nullptr;) {
        direct_peer &each = **at;
        if (each.watched &&
            ((also_idle && each.links == 0) || !each.sockets.check(watched_) || each.is_gone())) {
            each.watched = false;
            each.forbidden.store(true);
            mute_rings(each);
            each.sockets.ignore(watched_);
        }
        if (each.watched || each.links != 0) {
            at = &each.next;
            continue;
        }
        *at = each.next;
        --peers_known_;
        delete &each;
    }
}

/// The ring files of a peer that was killed may say for ever that it polls: sends no more by them.
void direct_access::mute_rings(const direct_peer &peer)
{
    for (std::uint32_t i = 0; i < direct_board::gates; ++i)
        if (links_[i].held_ != nullptr && links_[i].peer_.load(std::memory_order_relaxed) == &peer)
            links_[i].held_->mute();
}

void direct_access::release(direct_peer &peer)
{
    if (--peer.links == 0 && !peer.watched)
        forget_peers(false);
}

} // namespace soft_hca
