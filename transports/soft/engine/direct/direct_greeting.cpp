// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "direct_greeting.hpp"

#include "net/net.hpp"

#include <type_traits>

namespace soft_hca {

namespace {

std::uint64_t pair_of(std::uint32_t high, std::uint32_t low)
{
    return std::uint64_t{high} << 32 | low;
}

/// Both sides compute the same key.
osd::siphash_key key_of(const direct_names &n)
{
    if (n.calls)
        return {pair_of(n.tag, n.peer_tag), pair_of(n.id, n.peer_id)};
    return {pair_of(n.peer_tag, n.tag), pair_of(n.peer_id, n.id)};
}

} // namespace

bool direct_greeting::begin(const direct_names &names)
{
    names_ = names;
    direct_nonce &own = names.calls ? active_ : passive_;
    return random_bytes(&own, sizeof own);
}

template <class Message>
std::uint64_t direct_greeting::proof_of(purpose what, Message message) const
{
    static_assert(std::has_unique_object_representations_v<Message>, "no padding is hashed");
    message.proof = 0;
    const struct {
        std::uint64_t what;
        direct_nonce active;
        direct_nonce passive;
        Message message;
    } input{static_cast<std::uint64_t>(what), active_,
            what == purpose::call ? direct_nonce{} : passive_, message};
    return osd::siphash(key_of(names_)).of(&input, sizeof input);
}

direct_call direct_greeting::call() const
{
    direct_call made{direct_edition, names_.peer_id, names_.id, 0, active_, 0};
    made.proof = proof_of(purpose::call, made);
    return made;
}

bool direct_greeting::take(const direct_call &call)
{
    active_ = call.nonce;
    return call.edition == direct_edition && proof_of(purpose::call, call) == call.proof;
}

direct_answer direct_greeting::answer() const
{
    direct_answer made{direct_edition, 0, passive_, 0};
    made.proof = proof_of(purpose::answer, made);
    return made;
}

bool direct_greeting::take(const direct_answer &answer)
{
    passive_ = answer.nonce;
    return answer.edition == direct_edition && proof_of(purpose::answer, answer) == answer.proof;
}

std::uint64_t direct_greeting::proof_of(const direct_hello &hello, bool from_active) const
{
    return proof_of(from_active ? purpose::active_hello : purpose::passive_hello, hello);
}

void direct_greeting::prove(direct_hello &hello) const
{
    hello.proof = proof_of(hello, names_.calls);
}

bool direct_greeting::is_proven(const direct_hello &hello) const
{
    return hello.edition == direct_edition && proof_of(hello, !names_.calls) == hello.proof;
}

} // namespace soft_hca
