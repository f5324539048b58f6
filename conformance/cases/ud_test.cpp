// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The IB extension: unreliable datagrams. A datagram may get lost, so that a case sends again until
// one arrives; over a network that loses none the first does.
#include "harness/support.hpp"

#include <dat2/dat_ib_extensions.h>

#include <cstring>

namespace conformance {

namespace {

#define NEED_DATAGRAMS(ia)                                                                         \
    do {                                                                                           \
        if (!offers(ia.provider, DAT_IB_ATTR_UD))                                                  \
            NOT_CLAIMED("datagrams");                                                              \
    } while (false)

constexpr std::size_t header_size = 40; ///< in front of what a receive gets

DAT_EP_ATTR datagram_attr(DAT_COUNT depth = 16)
{
    DAT_EP_ATTR attr{};
    attr.service_type = static_cast<DAT_SERVICE_TYPE>(DAT_IB_SERVICE_TYPE_UD);
    attr.max_message_size = 256;
    attr.max_recv_dtos = depth;
    attr.max_request_dtos = depth;
    attr.max_recv_iov = 1;
    attr.max_request_iov = 1;
    return attr;
}

struct datagram_end {
    explicit datagram_end(adapter &ia, const DAT_EP_ATTR &wanted = datagram_attr())
        : attr(wanted), at(ia, {.attr = &attr})
    {}

    DAT_RETURN send(const DAT_IB_ADDR_HANDLE &to, std::size_t offset, std::size_t length,
                    std::uint64_t cookie = 0, unsigned flags = DAT_COMPLETION_DEFAULT_FLAG)
    {
        DAT_LMR_TRIPLET local = at.memory.local(offset, length);
        DAT_IB_ADDR_HANDLE address = to;
        return dat_ib_post_send_ud(at.ep, 1, &local, &address, cookie_of(cookie), flags);
    }

    DAT_EP_ATTR attr;
    test_endpoint at;
};

DAT_IB_EXTENSION_EVENT_DATA more_of(const DAT_EVENT &event)
{
    DAT_IB_EXTENSION_EVENT_DATA out;
    std::memcpy(&out, event.event_extension_data, sizeof out);
    return out;
}

struct exchange_end {
    DAT_IB_ADDR_HANDLE address{};
    DAT_CONTEXT context{};
};

/// The event that ends an exchange well.
exchange_end next_address(const datagram_end &of, DAT_IB_EXT_TYPE type,
                          const std::string &data = {}, const place &where = place::current())
{
    const DAT_EVENT event =
        next_event(of.at.connect_evd,
                   static_cast<DAT_EVENT_NUMBER>(DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED), where);
    const auto &connected = event.event_data.connect_event_data;
    const DAT_IB_EXTENSION_EVENT_DATA more = more_of(event);
    CHECK(more.type == type);
    CHECK(more.status == DAT_OP_SUCCESS);
    CHECK(connected.ep_handle == of.at.ep);
    CHECK(begins_with(connected.private_data, connected.private_data_size, data));
    CHECK(more.remote_ah.ah != nullptr);
    CHECK(more.context.as_ptr != nullptr);
    return {more.remote_ah, more.context};
}

DAT_CR_HANDLE next_datagram_request(listener &at, const place &where = place::current())
{
    const DAT_EVENT event = next_event(
        at.cr_evd, static_cast<DAT_EVENT_NUMBER>(DAT_IB_UD_CONNECTION_REQUEST_EVENT), where);
    CHECK(more_of(event).type == DAT_IB_UD_CONNECT_REQUEST);
    const auto &arrival = event.event_data.cr_arrival_event_data;
    CHECK(arrival.sp_handle.psp_handle == at.psp);
    CHECK(arrival.conn_qual == at.qualifier);
    return arrival.cr_handle;
}

DAT_RETURN accept(DAT_CR_HANDLE request, const datagram_end &by, const std::string &data = {})
{
    return dat_cr_accept(request, by.at.ep, static_cast<DAT_COUNT>(data.size()),
                         data.empty() ? nullptr : const_cast<char *>(data.data()));
}

/// What an exchange has brought to both sides.
struct exchanged {
    exchange_end active;
    exchange_end passive;
};
exchanged exchange(datagram_end &active, datagram_end &passive, listener &at)
{
    MUST(active.at.connect(at.ia.address(), at.qualifier, connect_timeout(), "question"));
    MUST(accept(next_datagram_request(at), passive, "answer"));
    exchanged out;
    out.active = next_address(active, DAT_IB_UD_REMOTE_AH, "answer");
    out.passive = next_address(passive, DAT_IB_UD_PASSIVE_REMOTE_AH);
    return out;
}

struct datagram_pair {
    explicit datagram_pair(adapter &ia, const DAT_EP_ATTR &attr = datagram_attr())
        : active(ia, attr), passive(ia, attr), at(ia), both(exchange(active, passive, at))
    {}

    const DAT_IB_ADDR_HANDLE &to_passive() const { return both.active.address; }
    const DAT_IB_ADDR_HANDLE &to_active() const { return both.passive.address; }

    datagram_end active;
    datagram_end passive;
    listener at;
    exchanged both;
};

struct datagram_event {
    DAT_DTO_COMPLETION_EVENT_DATA dto;
    DAT_IB_EXTENSION_EVENT_DATA more;
};
datagram_event next_datagram(DAT_EVD_HANDLE evd, DAT_IB_EXT_TYPE type, DAT_IB_DTOS operation,
                             const place &where = place::current())
{
    const DAT_EVENT event = next_event(evd, static_cast<DAT_EVENT_NUMBER>(DAT_IB_DTO_EVENT), where);
    const datagram_event out{event.event_data.dto_completion_event_data, more_of(event)};
    CHECK(out.more.type == type);
    CHECK(static_cast<int>(out.dto.operation) == operation);
    return out;
}
datagram_event next_sent(const datagram_end &by, const place &where = place::current())
{
    return next_datagram(by.at.request_evd, DAT_IB_UD_SEND, DAT_IB_DTO_SEND_UD, where);
}
datagram_event next_received(const datagram_end &by, const place &where = place::current())
{
    return next_datagram(by.at.recv_evd, DAT_IB_UD_RECV, DAT_IB_DTO_RECV_UD, where);
}

/// Sends until a posted receive has taken one.
datagram_event send_until_there(datagram_end &from, const DAT_IB_ADDR_HANDLE &to,
                                datagram_end &target, std::size_t length,
                                const place &where = place::current())
{
    DAT_EVENT event{};
    const auto tried = [&] {
        MUST(from.send(to, 0, length));
        (void)next_sent(from, where);
        return wait_event(target.at.recv_evd, event, a_while) == DAT_SUCCESS;
    };
    CHECK(becomes_true(tried));
    return {event.event_data.dto_completion_event_data, more_of(event)};
}

} // namespace

TEST_CASE("UD-01: an exchange of addresses tells both sides, with their private data" *
          needs("datagrams") *
          hint("report it by the events of connections, or one side's address to itself"))
{
    adapter ia;
    NEED_DATAGRAMS(ia);
    datagram_end active(ia);
    datagram_end passive(ia);
    listener at(ia);
    MUST(active.at.connect(ia.address(), at.qualifier, connect_timeout(), "question"));
    const DAT_CR_HANDLE request = next_datagram_request(at);
    DAT_CR_PARAM param{};
    MUST(dat_cr_query(request, DAT_CR_FIELD_ALL, &param));
    CHECK(begins_with(param.private_data, param.private_data_size, "question"));
    MUST(accept(request, passive, "answer"));
    const exchange_end to_passive = next_address(active, DAT_IB_UD_REMOTE_AH, "answer");
    const exchange_end to_active = next_address(passive, DAT_IB_UD_PASSIVE_REMOTE_AH);
    CHECK(to_passive.address.qpn != to_active.address.qpn);
    CHECK(stays_empty(active.at.connect_evd));
    CHECK(stays_empty(passive.at.connect_evd, milliseconds(1)));
    CHECK(active.at.state() == DAT_EP_STATE_UNCONNECTED);
    CHECK(passive.at.state() == DAT_EP_STATE_UNCONNECTED);
}

TEST_CASE("UD-02: a datagram arrives behind a header of 40 bytes, by events of the extension" *
          needs("datagrams") * hint("leave the header out, or out of the length"))
{
    adapter ia;
    NEED_DATAGRAMS(ia);
    datagram_pair pair(ia);
    for (const std::size_t size : {std::size_t{0}, std::size_t{24}, std::size_t{256}}) {
        CAPTURE(size);
        pair.active.at.memory.fill(0, size, 7);
        pair.passive.at.memory.set_all(0);
        MUST(pair.passive.at.recv(1024, header_size + 256, 30));
        const datagram_event got =
            send_until_there(pair.active, pair.to_passive(), pair.passive, size);
        CHECK(got.more.type == DAT_IB_UD_RECV);
        CHECK(static_cast<int>(got.dto.operation) == DAT_IB_DTO_RECV_UD);
        CHECK(got.dto.status == DAT_DTO_SUCCESS);
        CHECK(got.more.status == DAT_OP_SUCCESS);
        CHECK(got.dto.user_cookie.as_64 == 30);
        CHECK(got.dto.ep_handle == pair.passive.at.ep);
        CHECK(got.dto.transfered_length == header_size + size);
        CHECK(pair.passive.at.memory.holds(1024 + header_size, size, 7));
    }
    MUST(pair.active.send(pair.to_passive(), 0, 24, 31));
    const datagram_event sent = next_sent(pair.active);
    CHECK(sent.dto.status == DAT_DTO_SUCCESS);
    CHECK(sent.dto.user_cookie.as_64 == 31);
    CHECK(sent.dto.transfered_length == 24);
}

TEST_CASE("UD-03: a refused exchange is an event with the peer's data, and leaves the endpoint" *
          needs("datagrams") * hint("end the endpoint, as a refused connection does"))
{
    adapter ia;
    NEED_DATAGRAMS(ia);
    datagram_end active(ia);
    datagram_end passive(ia);
    listener at(ia);
    MUST(active.at.connect(ia.address(), at.qualifier));
    char no[] = "no";
    MUST(dat_cr_reject(next_datagram_request(at), sizeof no, no));
    const DAT_EVENT event = next_event(
        active.at.connect_evd, static_cast<DAT_EVENT_NUMBER>(DAT_IB_UD_CONNECTION_REJECT_EVENT));
    const auto &told = event.event_data.connect_event_data;
    CHECK(more_of(event).type == DAT_IB_UD_CONNECT_REJECT);
    CHECK(more_of(event).status == DAT_IB_OP_ERR);
    CHECK(told.ep_handle == active.at.ep);
    CHECK(begins_with(told.private_data, told.private_data_size, "no"));
    (void)exchange(active, passive, at);
}

TEST_CASE("UD-04: an exchange that nobody answers ends by an error event" * needs("datagrams") *
          hint("leave the consumer without an event"))
{
    adapter ia;
    NEED_DATAGRAMS(ia);
    datagram_end active(ia);
    listener at(ia);
    SUBCASE("no listener")
    {
        MUST(active.at.connect(ia.address(), unused_qualifier(ia)));
    }
    SUBCASE("no answer in time")
    {
        MUST(active.at.connect(ia.address(), at.qualifier, milliseconds(100)));
    }
    const DAT_EVENT event = next_event(
        active.at.connect_evd, static_cast<DAT_EVENT_NUMBER>(DAT_IB_UD_CONNECTION_ERROR_EVENT));
    CHECK(more_of(event).type == DAT_IB_UD_CONNECT_ERROR);
    CHECK(more_of(event).status == DAT_IB_OP_ERR);
    CHECK(event.event_data.connect_event_data.ep_handle == active.at.ep);
    CHECK(stays_empty(active.at.connect_evd));
}

TEST_CASE("UD-05: one endpoint has several peers, and learns who has sent a datagram" *
          needs("datagrams") * hint("send all to the latest peer"))
{
    adapter ia;
    NEED_DATAGRAMS(ia);
    datagram_end hub(ia);
    datagram_end one(ia);
    datagram_end other(ia);
    listener at(ia);
    const exchanged first = exchange(hub, one, at);
    const exchanged second = exchange(hub, other, at);
    for (datagram_end *each : {&one, &other})
        MUST(each->at.recv(1024, header_size + 8, 40));
    hub.at.memory.fill(0, 8, 1);
    (void)send_until_there(hub, first.active.address, one, 8);
    CHECK(one.at.memory.holds(1024 + header_size, 8, 1));
    hub.at.memory.fill(0, 8, 2);
    (void)send_until_there(hub, second.active.address, other, 8);
    CHECK(other.at.memory.holds(1024 + header_size, 8, 2));
    MUST(hub.at.recv(1024, header_size + 8));
    const datagram_event got = send_until_there(other, second.passive.address, hub, 8);
    CHECK(got.more.remote_ah.qpn == second.active.address.qpn);
}

TEST_CASE("UD-06: contexts and address handles are freed once, in either order" *
          needs("datagrams") * hint("take the address away with the context"))
{
    adapter ia;
    NEED_DATAGRAMS(ia);
    datagram_pair pair(ia);
    const DAT_EP_HANDLE ep = pair.active.at.ep;
    exchange_end &end = pair.both.active;
    DAT_CONTEXT none{};
    CHECK(same_code(dat_ib_ud_cm_free(ep, none.as_ptr), bad_arg(2)));
    CHECK(same_code(dat_ib_ud_cm_free(pair.passive.at.ep, end.context.as_ptr), bad_arg(2)));
    MUST(dat_ib_ud_cm_free(ep, end.context.as_ptr));
    CHECK(same_code(dat_ib_ud_cm_free(ep, end.context.as_ptr), bad_arg(2)));
    MUST(pair.passive.at.recv(1024, header_size + 8));
    (void)send_until_there(pair.active, end.address, pair.passive, 8);
    MUST(dat_ib_ud_ah_free(ep, &end.address));
    CHECK(same_code(dat_ib_ud_ah_free(ep, &end.address), bad_arg(2)));
    CHECK(same_code(pair.active.send(end.address, 0, 8), bad_arg(4)));
    const DAT_EP_HANDLE peer = pair.passive.at.ep;
    MUST(dat_ib_ud_ah_free(peer, &pair.both.passive.address));
    MUST(dat_ib_ud_cm_free(peer, pair.both.passive.context.as_ptr));
    CHECK(same_code(pair.passive.send(pair.both.passive.address, 0, 8), bad_arg(4)));
}

TEST_CASE("UD-07: a datagram longer than the endpoint's limit is refused" * needs("datagrams") *
          hint("cut it, or send it in parts"))
{
    adapter ia;
    NEED_DATAGRAMS(ia);
    datagram_pair pair(ia);
    MUST(pair.passive.at.recv(1024, 1024));
    CHECK(same_type(pair.active.send(pair.to_passive(), 0, 257), DAT_LENGTH_ERROR));
    CHECK(stays_empty(pair.active.at.request_evd));
    CHECK(stays_empty(pair.passive.at.recv_evd));
    DAT_EP_ATTR attr = datagram_attr();
    attr.max_message_size = 0; // as the adapter has it
    datagram_end largest(ia, attr);
    const DAT_EP_PARAM param = ep_param(largest.at.ep);
    CHECK(param.ep_attr.max_message_size > 0);
    attr.max_message_size = param.ep_attr.max_message_size + 1;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    const test_endpoint &own = largest.at;
    CHECK(same_code(dat_ep_create(ia.handle, own.pz, own.recv_evd, own.request_evd, own.connect_evd,
                                  &attr, &ep),
                    bad_arg(6)));
}

TEST_CASE("UD-08: a datagram that finds no receive is dropped, and holds nobody up" *
          needs("datagrams") * hint("keep it until a receive is posted, or fail the receive"))
{
    adapter ia;
    NEED_DATAGRAMS(ia);
    datagram_pair pair(ia);
    pair.active.at.memory.fill(0, 64, 1);
    for (int i = 0; i < 3; ++i) {
        MUST(pair.active.send(pair.to_passive(), 0, 64));
        CHECK(next_sent(pair.active).dto.status == DAT_DTO_SUCCESS);
    }
    CHECK(stays_empty(pair.passive.at.recv_evd));
    MUST(pair.passive.at.recv(1024, header_size + 8, 50)); // too short for these
    CHECK(stays_empty(pair.passive.at.recv_evd));
    pair.active.at.memory.fill(0, 64, 2);
    const datagram_event got = send_until_there(pair.active, pair.to_passive(), pair.passive, 8);
    CHECK(got.dto.status == DAT_DTO_SUCCESS);
    CHECK(got.dto.user_cookie.as_64 == 50);
    CHECK(pair.passive.at.memory.holds(1024 + header_size, 8, 2));
}

TEST_CASE("UD-09: connections and datagrams do not take each other's calls" * needs("datagrams") *
          hint("send a message of a connection to nobody"))
{
    adapter ia;
    NEED_DATAGRAMS(ia);
    datagram_pair pair(ia);
    connected_pair connected(ia);
    CHECK(same_type(pair.active.at.send(0, 8), DAT_INVALID_STATE));
    const DAT_RMR_TRIPLET to = pair.passive.at.memory.remote(0, 8);
    CHECK(same_type(pair.active.at.write(0, 8, to), DAT_INVALID_STATE));
    DAT_LMR_TRIPLET local = connected.active.memory.local(0, 8);
    CHECK(same_code(dat_ib_post_send_ud(connected.active.ep, 1, &local, &pair.both.active.address,
                                        cookie_of(0), DAT_COMPLETION_DEFAULT_FLAG),
                    bad_handle(DAT_INVALID_HANDLE_EP)));
    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
    CHECK(refused(
        dat_rsp_create(ia.handle, unused_qualifier(ia), pair.active.at.ep, pair.at.cr_evd, &rsp)));
    CHECK(refused(dat_ep_dup_connect(pair.active.at.ep, connected.active.ep,
                                     microseconds(connect_timeout()), 0, nullptr,
                                     DAT_QOS_BEST_EFFORT)));
    MUST(pair.active.at.connect(ia.address(), pair.at.qualifier));
    const DAT_CR_HANDLE request = next_datagram_request(pair.at);
    test_endpoint idle(ia);
    CHECK(same_code(dat_cr_accept(request, idle.ep, 0, nullptr), bad_arg(2)));
    MUST(accept(request, pair.passive));
    MUST(idle.connect(ia.address(), pair.at.qualifier));
    const DAT_CR_HANDLE other = pair.at.next_request();
    CHECK(same_code(accept(other, pair.passive), bad_arg(2)));
    MUST(dat_cr_reject(other, 0, nullptr));
}

TEST_CASE("UD-10: a disconnect flushes receives, and abandons exchanges without an event" *
          needs("datagrams") * hint("report an end that nothing has begun"))
{
    adapter ia;
    NEED_DATAGRAMS(ia);
    datagram_pair pair(ia);
    MUST(pair.active.at.recv(1024, 256, 60));
    MUST(pair.active.at.recv(2048, 256, 61));
    MUST(pair.active.at.connect(ia.address(), pair.at.qualifier));
    const DAT_CR_HANDLE request = next_datagram_request(pair.at);
    MUST(pair.active.at.disconnect(DAT_CLOSE_ABRUPT_FLAG));
    for (const std::uint64_t cookie : {60, 61}) {
        const datagram_event flushed = next_received(pair.active);
        CHECK(flushed.dto.status == DAT_DTO_ERR_FLUSHED);
        CHECK(flushed.more.status == DAT_IB_OP_ERR);
        CHECK(flushed.dto.user_cookie.as_64 == cookie);
    }
    MUST(dat_cr_reject(request, 0, nullptr));
    CHECK(stays_empty(pair.active.at.connect_evd));
    CHECK(pair.active.at.state() == DAT_EP_STATE_UNCONNECTED);
    MUST(pair.active.at.recv(1024, 256, 62));
    const exchanged again = exchange(pair.passive, pair.active, pair.at);
    const datagram_event got = send_until_there(pair.passive, again.active.address, pair.active, 8);
    CHECK(got.dto.user_cookie.as_64 == 62);
    MUST(pair.active.at.recv(1024, 256, 63));
    MUST(pair.active.at.free_ep()); // with addresses, contexts and a receive
    CHECK(stays_empty(pair.active.at.recv_evd, milliseconds(1)));
}

TEST_CASE("UD-11: sends whose success is suppressed give their places back" * needs("datagrams") *
          hint("count them as posted for ever"))
{
    adapter ia;
    NEED_DATAGRAMS(ia);
    datagram_pair pair(ia);
    const auto takes_one = [&] {
        return pair.active.send(pair.to_passive(), 0, 8, 0, DAT_COMPLETION_SUPPRESS_FLAG) ==
               DAT_SUCCESS;
    };
    int sent = 0;
    while (sent != 4 * 16 && becomes_true(takes_one))
        ++sent;
    REQUIRE(sent == 4 * 16);
    CHECK(stays_empty(pair.active.at.request_evd));
    MUST(pair.active.send(pair.to_passive(), 0, 8, 70));
    CHECK(next_sent(pair.active).dto.user_cookie.as_64 == 70);
}

TEST_CASE("UD-12: an adapter says whether it has datagrams, and refuses them if not" *
          hint("make an endpoint of another kind than was asked for"))
{
    adapter ia;
    test_endpoint own(ia);
    DAT_EP_ATTR attr = datagram_attr();
    attr.max_message_size = 0;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    const DAT_RETURN made = dat_ep_create(ia.handle, own.pz, own.recv_evd, own.request_evd,
                                          own.connect_evd, &attr, &ep);
    if (!offers(ia.provider, DAT_IB_ATTR_UD)) {
        CHECK(refused(made));
        NOT_CLAIMED("datagrams");
    }
    MUST(made);
    CHECK(ia.attr.extension_supported == DAT_EXTENSION_IB);
    CHECK(ia.attr.extension_version >= 209);
    const DAT_EP_PARAM param = ep_param(ep);
    CHECK(static_cast<int>(param.ep_attr.service_type) == DAT_IB_SERVICE_TYPE_UD);
    MUST(dat_ep_free(ep));
}

} // namespace conformance
