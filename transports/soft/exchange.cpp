// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Exchanges of the addresses of datagram queue pairs.
//
// An exchange is the handshake of a connection that ends with it. In front of the private data of
// request and answer stands the address of the side that sends it, in network byte order: id and
// tag of the queue pair, and the UDP port; the host is the sender's.
#include "exchange.hpp"

#include <cstring>
#include <new>

namespace dapl::soft {

namespace {

constexpr std::size_t address_size = 10;

void put(std::uint8_t *to, std::uint32_t value, int bytes)
{
    while (bytes-- != 0) {
        to[bytes] = static_cast<std::uint8_t>(value);
        value >>= 8;
    }
}

std::uint32_t get(const std::uint8_t *from, int bytes)
{
    std::uint32_t value = 0;
    for (int i = 0; i < bytes; ++i)
        value = value << 8 | from[i];
    return value;
}

/// The bytes of a request or answer.
struct message {
    message(const soft_hca::datagram_address &own, const private_data &data)
        : size(address_size + data.size)
    {
        put(bytes, own.id, 4);
        put(bytes + 4, own.tag, 4);
        put(bytes + 8, own.at.port(), 2);
        if (data.size != 0)
            std::memcpy(bytes + address_size, data.bytes, data.size);
    }
    static bool has_room(const private_data &data)
    {
        return data.size <= soft_hca::max_private_data - address_size;
    }

    std::size_t size;
    std::uint8_t bytes[soft_hca::max_private_data];
};

void read_address(soft_hca::datagram_address &out, const std::uint8_t *from)
{
    out.id = get(from, 4);
    out.tag = get(from + 4, 4);
    out.at.set_port(static_cast<std::uint16_t>(get(from + 8, 2)));
}

/// Makes the queue pair of an exchange, of no use for data.
status prepare(types::exchange &e, types::qp &q, datagram_peer &owner, bool calls)
{
    e.parent = q.parent;
    e.owner = &owner;
    e.calls = calls;
    e.pair.reset(new (std::nothrow) soft_hca::queue_pair);
    if (e.pair == nullptr)
        return out_of_memory;
    soft_hca::pair_params params;
    params.use = soft_hca::pair_use::exchange;
    params.owner = &e;
    params.domain = q.pair.params.domain;
    if (e.parent->device.make_pair(*e.pair, params))
        return success;
    e.pair.reset();
    return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
}

status begun(types::exchange &e, soft_hca::queue_pair::start how)
{
    const status answer = answer_of(how);
    if (!answer.ok())
        transport::dapls_ib_exchange_end(e);
    return answer;
}

} // namespace

bool take_address(private_data &data)
{
    if (data.size < address_size)
        return false;
    data.bytes = static_cast<const std::uint8_t *>(data.bytes) + address_size;
    data.size -= address_size;
    return true;
}

/// The side that accepts has had the address of its peer with the request.
void on_exchange(void *owner, soft_hca::connection_event what, const void *data, std::size_t size)
{
    auto &e = *static_cast<types::exchange *>(owner);
    private_data rest{data, size};
    datagram_address found;
    if (what == soft_hca::connection_event::established) {
        const std::uint16_t port = e.peer.at.port();
        e.peer.at = e.pair->peer();
        e.peer.at.set_port(port);
        if (e.calls && take_address(rest))
            read_address(e.peer, static_cast<const std::uint8_t *>(data));
        else if (e.calls)
            what = soft_hca::connection_event::refused; // it answers with no address
        else
            rest = {};
        found.number = e.peer.id;
        found.address = reinterpret_cast<const DAT_SOCK_ADDR *>(e.peer.at.get());
    }
    dapl_datagram_peer_callback(*e.owner, event_of(what), rest, found);
}

status transport::dapls_ib_exchange_begin(exchange &e, qp &q, datagram_peer &owner,
                                          const connect_params &params)
{
    soft_hca::net_address to;
    if (const status aimed = aim(*q.parent, params, to); !aimed.ok())
        return aimed;
    if (!message::has_room(params.data))
        return invalid_parameter(5);
    if (const status made = prepare(e, q, owner, true); !made.ok())
        return made;
    const message own(q.pair.address(), params.data);
    return begun(e, e.pair->connect(to, params.qualifier, own.bytes, own.size));
}

status transport::dapls_ib_exchange_accept(exchange &e, cr &request, qp &q, datagram_peer &owner,
                                           const private_data &data)
{
    if (!message::has_room(data))
        return invalid_parameter(3);
    if (const status made = prepare(e, q, owner, false); !made.ok())
        return made;
    read_address(e.peer, request.request->data);
    const message own(q.pair.address(), data);
    const status answer = begun(e, e.pair->accept(*request.request, own.bytes, own.size));
    if (answer.ok())
        request.request = nullptr;
    return answer;
}

void transport::dapls_ib_exchange_end(exchange &e)
{
    if (e.pair == nullptr)
        return;
    if (e.parent->foreign())
        (void)e.pair.release();
    else
        e.parent->device.free_pair(*e.pair);
    e.pair.reset();
}

} // namespace dapl::soft
