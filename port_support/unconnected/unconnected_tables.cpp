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

// ------------------------------------------------------------------------------------ peer_names

int peer_names::find(fabric &device, const fabric_name &name, fabric_peer &out)
{
    for (const entry *each = first_; each != nullptr; each = each->next)
        if (each->name.size == name.size &&
            std::memcmp(each->name.bytes, name.bytes, name.size) == 0) {
            out = each->peer;
            return 0;
        }
    std::unique_ptr<entry> made(new (std::nothrow) entry{first_, 0, name});
    if (made == nullptr)
        return ENOMEM;
    const int error = device.peer_of(name, made->peer);
    if (error != 0)
        return error;
    out = made->peer;
    first_ = made.release();
    return 0;
}

peer_names::~peer_names()
{
    while (entry *first = first_) {
        first_ = first->next;
        delete first;
    }
}

// ----------------------------------------------------------------------------------- grant_table

std::uint64_t grant_table::add(types::mr &memory, std::uint64_t tag)
{
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

void grant_table::abandon(const types::mr &memory, std::int64_t ended_before_ns, bool all)
{
    for (grant_slot &each : slots_)
        if (each.of == &memory && (all || (each.ended_ns != 0 && each.ended_ns < ended_before_ns)))
            end(each);
}

} // namespace dapl::DAPL_TRANSPORT::unconnected
