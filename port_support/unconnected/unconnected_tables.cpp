// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What an adapter knows by numbers and names: queue pairs, peers, grants.
#include "unconnected_port.hpp"

#include <cerrno>
#include <cstring>
#include <new>

namespace dapl::DAPL_TRANSPORT::unconnected {

// ------------------------------------------------------------------------------------ pair_table

bool pair_table::open()
{
    all_.reset(static_cast<types::qp **>(std::calloc(most, sizeof(types::qp *))));
    return all_ != nullptr;
}

bool pair_table::add(types::qp &pair)
{
    for (std::uint32_t tried = 0; tried < most; ++tried) {
        const std::uint32_t index = next_++ % most;
        if (all_[index] != nullptr)
            continue;
        all_[index] = &pair;
        pair.index = index;
        return true;
    }
    return false;
}

// ------------------------------------------------------------------------------------ peer_table

known_peer *peer_table::find(peers &among, const fabric_name &name)
{
    for (known_peer *each = among.front(); each != nullptr; each = among.after(*each))
        if (each->name.size == name.size &&
            std::memcmp(each->name.bytes, name.bytes, name.size) == 0)
            return each;
    return nullptr;
}

int peer_table::connect(fabric &device, const fabric_name &name, known_peer *&out)
{
    known_peer *peer = find(known_, name);
    if (peer == nullptr)
        peer = find(idle_, name);
    if (peer == nullptr) {
        peer = new (std::nothrow) known_peer;
        if (peer == nullptr)
            return ENOMEM;
        if (const int error = device.peer_of(name, peer->number); error != 0) {
            delete peer;
            return error;
        }
        peer->name = name;
    }
    ++peer->connections;
    peer->unlink();
    known_.push(*peer);
    out = peer;
    return 0;
}

bool peer_table::disconnect(known_peer &peer, std::int64_t now)
{
    if (--peer.connections != 0)
        return false;
    peer.idle_ns = now;
    peer.cancelled = false;
    peer.unlink();
    idle_.push(peer);
    return true;
}

void peer_table::forget(fabric &device, known_peer &peer)
{
    peer.unlink();
    if (device.forget(peer.number))
        delete &peer;
    else
        known_.push(peer);
}

peer_table::~peer_table()
{
    for (peers *each : {&known_, &idle_})
        while (known_peer *first = each->front()) {
            first->unlink();
            delete first;
        }
}

// ----------------------------------------------------------------------------------- grant_table

std::uint64_t grant_table::add(types::mr &memory, std::uint64_t tag)
{
    if (slots_.left() == 0)
        end_stopped(nullptr);
    grant_slot *const slot = slots_.take();
    if (slot == nullptr)
        return 0;
    ++slot->generation;
    slot->of = &memory;
    slot->tag = tag;
    ++memory.uses;
    return std::uint64_t{slot->generation} << 32 |
           static_cast<std::uint64_t>(slot - slots_.begin() + 1);
}

grant_slot *grant_table::slot_of(std::uint64_t number)
{
    const auto index = static_cast<std::uint32_t>(number);
    if (index == 0 || index > max_grants)
        return nullptr;
    grant_slot *const slot = slots_.begin() + index - 1;
    return slot->of != nullptr && slot->generation == number >> 32 ? slot : nullptr;
}

void grant_table::end(grant_slot &slot)
{
    --slot.of->uses;
    slot.of = nullptr;
    slot.ended_ns = 0;
    slots_.give(slot);
}

void grant_table::remove(std::uint64_t number, std::uint64_t tag)
{
    grant_slot *const slot = slot_of(number);
    if (slot != nullptr && slot->tag == tag)
        end(*slot);
}

void grant_table::remove_all(std::uint64_t tag)
{
    for (grant_slot &each : slots_)
        if (each.of != nullptr && each.tag == tag)
            end(each);
}

void grant_table::connection_ended(std::uint64_t tag, std::int64_t now)
{
    if (slots_.taken() == 0)
        return;
    for (grant_slot &each : slots_)
        if (each.of != nullptr && each.tag == tag)
            each.ended_ns = now;
}

void grant_table::end_stopped(const types::mr *memory)
{
    const std::int64_t before = osd::now_ns() - peers_stop_ns;
    for (grant_slot &each : slots_)
        if (each.of != nullptr && (memory == nullptr || each.of == memory) && each.ended_ns != 0 &&
            each.ended_ns < before)
            end(each);
}

void grant_table::end_all(const types::mr &memory)
{
    for (grant_slot &each : slots_)
        if (each.of == &memory)
            end(each);
}

} // namespace dapl::DAPL_TRANSPORT::unconnected
