// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What two devices say on a local socket before either shows its board.
//
//   call    active side    the ids of the connection, and a proof that it knows it
//   answer  passive side   proves that it knows the connection
//   hello   active side    proves the same; with its board and its ring
//   hello   passive side   likewise
//
// Anybody may listen on a name, and call. Nobody gets a file, or the secret of a zone, before he
// has proven himself. Only both sides know the tags of the connection. They are not sent here: a
// proof is a hash of the message, and of the random numbers of both sides, under a key that is made
// of them.
#pragma once

#include "net/net_local.hpp"

#include "osd_siphash.hpp"

#include <cstdint>

namespace soft_hca {

/// The numbers of both sides of a connection.
struct direct_names {
    std::uint32_t id;
    std::uint32_t tag;
    std::uint32_t peer_id;
    std::uint32_t peer_tag;
    bool calls; ///< active side: connects the local socket
};

/// Number of the edition of all these messages.
inline constexpr std::uint32_t direct_edition = 0x5d'a9'00'03;

struct direct_nonce {
    std::uint64_t words[2] = {};
};

struct direct_call {
    std::uint32_t edition;
    std::uint32_t to_id;
    std::uint32_t from_id;
    std::uint32_t zero;
    direct_nonce nonce;
    std::uint64_t proof;
};

struct direct_answer {
    std::uint32_t edition;
    std::uint32_t zero;
    direct_nonce nonce;
    std::uint64_t proof;
};

struct direct_hello {
    std::uint32_t edition;
    std::uint32_t gate;
    std::uint64_t token;
    osd::siphash_key zone; ///< the secret of the zone that the connection is in
    process_mark mark;
    std::uint64_t proof;
};

/// The messages about one connection, from the side that makes them.
class direct_greeting {
public:
    /// Draws the random number of this side, before any other call. False if the system gives no
    /// random numbers.
    [[nodiscard]] bool begin(const direct_names &names);
    direct_call call() const;
    /// Passive side: takes a call about this connection. False if it proves nothing.
    [[nodiscard]] bool take(const direct_call &call);
    direct_answer answer() const;
    /// Active side: takes the answer. False if it proves nothing.
    [[nodiscard]] bool take(const direct_answer &answer);
    /// Adds the proof to a hello of ours.
    void prove(direct_hello &hello) const;
    /// Whether a hello is the peer's.
    bool is_proven(const direct_hello &hello) const;

private:
    enum class purpose : std::uint32_t { answer, active_hello, passive_hello, call };

    template <class Message>
    std::uint64_t proof_of(purpose what, Message message) const;
    std::uint64_t proof_of(const direct_hello &hello, bool from_active) const;

    direct_names names_{};
    direct_nonce active_;
    direct_nonce passive_;
};

} // namespace soft_hca
