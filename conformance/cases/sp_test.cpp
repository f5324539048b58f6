// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Service points: public ones, and service points reserved for one endpoint.
#include "harness/support.hpp"

#include "program/sockets.hpp"

#include "harness/peer.hpp"

#include <utility>

namespace conformance {
namespace {

DAT_RETURN try_psp(const adapter &ia, DAT_CONN_QUAL qualifier, DAT_EVD_HANDLE evd,
                   DAT_PSP_HANDLE *psp, DAT_PSP_FLAGS flags = DAT_PSP_CONSUMER_FLAG)
{
    return dat_psp_create(ia.handle, qualifier, evd, flags, psp);
}

/// An RSP that holds an endpoint.
struct reservation {
    explicit reservation(adapter &on)
        : ia(on), own(on), cr_evd(make_evd(on, DAT_EVD_CR_FLAG)), qualifier(unused_qualifier(on))
    {
        MUST(dat_rsp_create(on.handle, qualifier, own.ep, cr_evd, &rsp));
    }
    ~reservation()
    {
        if (rsp != DAT_HANDLE_NULL)
            (void)dat_rsp_free(rsp);
        (void)own.free_ep();
        (void)dat_evd_free(cr_evd);
    }
    DAT_CR_ARRIVAL_EVENT_DATA next_arrival()
    {
        return next_event(cr_evd, DAT_CONNECTION_REQUEST_EVENT).event_data.cr_arrival_event_data;
    }

    adapter &ia;
    test_endpoint own;
    DAT_EVD_HANDLE cr_evd;
    DAT_CONN_QUAL qualifier;
    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
};

} // namespace

TEST_CASE("SP-01: psp_create and psp_create_any check their arguments" *
          hint("check the handle only, or store the PSP before all is checked"))
{
    adapter ia;
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_CR_FLAG);
    const DAT_EVD_HANDLE dto = make_evd(ia, DAT_EVD_DTO_FLAG);
    const DAT_CONN_QUAL qualifier = unused_qualifier(ia);
    const auto bad_flag = static_cast<DAT_PSP_FLAGS>(2);
    const DAT_RETURN bad_evd = bad_handle(DAT_INVALID_HANDLE_EVD_CR);
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    DAT_CONN_QUAL any = 77;
    CHECK(same_code(try_psp(ia, qualifier, DAT_HANDLE_NULL, &psp), bad_evd));
    CHECK(same_code(try_psp(ia, qualifier, dto, &psp), bad_evd));
    CHECK(same_code(try_psp(ia, qualifier, evd, &psp, bad_flag), bad_arg(4)));
    CHECK(same_code(try_psp(ia, qualifier, evd, nullptr), bad_arg(5)));
    CHECK(same_code(dat_psp_create_any(ia.handle, nullptr, evd, DAT_PSP_CONSUMER_FLAG, &psp),
                    bad_arg(2)));
    CHECK(
        same_code(dat_psp_create_any(ia.handle, &any, dto, DAT_PSP_CONSUMER_FLAG, &psp), bad_evd));
    CHECK(same_code(dat_psp_create_any(ia.handle, &any, evd, bad_flag, &psp), bad_arg(4)));
    CHECK(same_code(dat_psp_create_any(ia.handle, &any, evd, DAT_PSP_CONSUMER_FLAG, nullptr),
                    bad_arg(5)));
    CHECK(psp == DAT_HANDLE_NULL);
    CHECK(any == 77);
    CHECK(same_code(dat_evd_free(evd), DAT_SUCCESS)); // nothing kept it
}

TEST_CASE("SP-02: query returns what a PSP was created with" *
          hint("forget qualifier or flags of a PSP made by create_any"))
{
    adapter ia;
    listener at(ia, DAT_PSP_PROVIDER_FLAG);
    DAT_PSP_PARAM param{};
    CHECK(same_code(dat_psp_query(at.psp, DAT_PSP_FIELD_ALL, &param), DAT_SUCCESS));
    CHECK(param.ia_handle == ia.handle);
    CHECK(param.conn_qual == at.qualifier);
    CHECK(param.evd_handle == at.cr_evd);
    CHECK(param.psp_flags == DAT_PSP_PROVIDER_FLAG);
    CHECK(same_code(dat_psp_query(at.psp, DAT_PSP_FIELD_ALL, nullptr), bad_arg(3)));
    CHECK(same_code(dat_psp_query(at.psp, static_cast<DAT_PSP_PARAM_MASK>(0x10), &param),
                    bad_arg(2)));
}

TEST_CASE("SP-03: a qualifier that is taken is CONN_QUAL_IN_USE, and free again afterwards" *
          hint("answer INTERNAL_ERROR for a port that is taken, or keep it after the PSP is freed"))
{
    adapter ia;
    adapter other;
    const DAT_RETURN taken = error(DAT_CONN_QUAL_IN_USE);
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
    test_endpoint own(ia);
    auto at = std::make_unique<listener>(ia);
    const DAT_CONN_QUAL qualifier = at->qualifier;
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_CR_FLAG);
    CHECK(same_code(try_psp(ia, qualifier, evd, &psp), taken));
    CHECK(same_code(try_psp(other, qualifier, make_evd(other, DAT_EVD_CR_FLAG), &psp), taken));
    CHECK(same_code(dat_rsp_create(ia.handle, qualifier, own.ep, evd, &rsp), taken));
    CHECK(own.state() == DAT_EP_STATE_UNCONNECTED);
    CHECK(psp == DAT_HANDLE_NULL);
    CHECK(rsp == DAT_HANDLE_NULL);
    at.reset();
    CHECK(same_code(try_psp(ia, qualifier, evd, &psp), DAT_SUCCESS));
    CHECK(same_code(dat_psp_free(psp), DAT_SUCCESS));
}

TEST_CASE("SP-04: create_any picks a different free qualifier each time" *
          hint("always offer the same qualifier, or one that is taken"))
{
    adapter ia;
    listener one(ia);
    listener two(ia);
    listener three(ia);
    CHECK(one.qualifier != two.qualifier);
    CHECK(two.qualifier != three.qualifier);
    CHECK(one.qualifier != three.qualifier);
    test_endpoint from(ia);
    test_endpoint to(ia);
    establish(from, to, two);
    move_data(from, to);
}

TEST_CASE("SP-05: a PSP takes any number of requests, and says which it is" *
          hint("take one request and then stop, or report the wrong service point"))
{
    adapter ia;
    listener at(ia);
    std::vector<std::unique_ptr<test_endpoint>> ends;
    for (int i = 0; i < 5; ++i) {
        ends.push_back(std::make_unique<test_endpoint>(ia));
        MUST(ends.back()->connect(ia.address(), at.qualifier));
    }
    for (int i = 0; i < 5; ++i) {
        const DAT_CR_ARRIVAL_EVENT_DATA arrival = at.next_arrival();
        CHECK(arrival.sp_handle.psp_handle == at.psp);
        CHECK(arrival.conn_qual == at.qualifier);
        CHECK(arrival.cr_handle != DAT_HANDLE_NULL);
        CHECK(arrival.local_ia_address_ptr != nullptr);
        CHECK(arrival.truncate_flag == DAT_FALSE);
        MUST(dat_cr_reject(arrival.cr_handle, 0, nullptr));
    }
    for (const auto &each : ends)
        next_connection(each->connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
}

TEST_CASE("SP-06: a request that arrived can still be accepted after its PSP was freed" *
          hint("destroy pending requests together with their listener"))
{
    adapter ia;
    test_endpoint from(ia);
    test_endpoint to(ia);
    auto at = std::make_unique<listener>(ia);
    MUST(from.connect(ia.address(), at->qualifier));
    const DAT_CR_HANDLE request = at->next_request();
    MUST(dat_psp_free(at->psp));
    DAT_CR_PARAM param{};
    CHECK(same_code(dat_cr_query(request, DAT_CR_FIELD_ALL, &param), DAT_SUCCESS));
    MUST(dat_cr_accept(request, to.ep, 0, nullptr));
    await_established(from, to);
    move_data(from, to);
}

TEST_CASE("SP-07: a PSP that makes endpoints gives each request one, to be completed first" *
          hint("do not know DAT_PSP_PROVIDER_FLAG, or make an endpoint that is not TENTATIVE"))
{
    adapter ia;
    listener at(ia, DAT_PSP_PROVIDER_FLAG);
    test_endpoint from(ia);
    test_endpoint parts(ia);
    MUST(from.connect(ia.address(), at.qualifier));
    const DAT_CR_HANDLE request = at.next_request();
    DAT_CR_PARAM cr{};
    MUST(dat_cr_query(request, DAT_CR_FIELD_ALL, &cr));
    const DAT_EP_HANDLE made = cr.local_ep_handle;
    REQUIRE(made != DAT_HANDLE_NULL);
    CHECK(state_of(made) == DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
    CHECK(same_type(dat_cr_accept(request, DAT_HANDLE_NULL, 0, nullptr), DAT_INVALID_STATE));
    CHECK(
        same_code(dat_cr_accept(request, parts.ep, 0, nullptr), bad_handle(DAT_INVALID_HANDLE_EP)));
    DAT_EP_PARAM wanted{};
    wanted.pz_handle = parts.pz;
    wanted.recv_evd_handle = parts.recv_evd;
    wanted.request_evd_handle = parts.request_evd;
    wanted.connect_evd_handle = parts.connect_evd;
    MUST(dat_ep_modify(made,
                       DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
                           DAT_EP_FIELD_REQUEST_EVD_HANDLE | DAT_EP_FIELD_CONNECT_EVD_HANDLE,
                       &wanted));
    MUST(dat_cr_accept(request, DAT_HANDLE_NULL, 0, nullptr));
    MUST(parts.free_ep());
    parts.ep = made;
    await_established(from, parts);
    move_data(from, parts);
    move_data(parts, from);
}

TEST_CASE("SP-08: rejecting a request destroys the endpoint that was made for it" *
          hint("leave the endpoint of a rejected request behind"))
{
    adapter ia;
    listener at(ia, DAT_PSP_PROVIDER_FLAG);
    test_endpoint from(ia);
    MUST(from.connect(ia.address(), at.qualifier));
    const DAT_CR_HANDLE request = at.next_request();
    DAT_CR_PARAM cr{};
    MUST(dat_cr_query(request, DAT_CR_FIELD_ALL, &cr));
    MUST(dat_cr_reject(request, 0, nullptr));
    CHECK(same_code(dat_ep_get_status(cr.local_ep_handle, nullptr, nullptr, nullptr),
                    bad_handle(DAT_INVALID_HANDLE_EP)));
    next_connection(from.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
}

TEST_CASE("SP-09: rsp_create checks its arguments and leaves the endpoint unconnected" *
          hint("reserve the endpoint before all arguments are checked"))
{
    adapter ia;
    test_endpoint own(ia);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_CR_FLAG);
    const DAT_CONN_QUAL qualifier = unused_qualifier(ia);
    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
    CHECK(same_code(dat_rsp_create(ia.handle, qualifier, DAT_HANDLE_NULL, evd, &rsp),
                    bad_handle(DAT_INVALID_HANDLE_EP)));
    CHECK(same_code(dat_rsp_create(ia.handle, qualifier, own.ep, DAT_HANDLE_NULL, &rsp),
                    bad_handle(DAT_INVALID_HANDLE_EVD_CR)));
    CHECK(same_code(dat_rsp_create(ia.handle, qualifier, own.ep, own.recv_evd, &rsp),
                    bad_handle(DAT_INVALID_HANDLE_EVD_CR)));
    CHECK(same_code(dat_rsp_create(ia.handle, qualifier, own.ep, evd, nullptr), bad_arg(5)));
    CHECK(rsp == DAT_HANDLE_NULL);
    CHECK(own.state() == DAT_EP_STATE_UNCONNECTED);
}

TEST_CASE("SP-10: an RSP reserves its endpoint, returns it in a query, and releases it when freed" *
          hint("do not change the endpoint's state, or do not release it when the RSP is freed"))
{
    adapter ia;
    reservation r(ia);
    CHECK(r.own.state() == DAT_EP_STATE_RESERVED);
    DAT_RSP_PARAM param{};
    CHECK(same_code(dat_rsp_query(r.rsp, DAT_RSP_FIELD_ALL, &param), DAT_SUCCESS));
    CHECK(param.ia_handle == ia.handle);
    CHECK(param.conn_qual == r.qualifier);
    CHECK(param.evd_handle == r.cr_evd);
    CHECK(param.ep_handle == r.own.ep);
    CHECK(same_code(dat_rsp_query(r.rsp, DAT_RSP_FIELD_ALL, nullptr), bad_arg(3)));
    CHECK(
        same_code(dat_rsp_query(r.rsp, static_cast<DAT_RSP_PARAM_MASK>(0x10), &param), bad_arg(2)));
    MUST(dat_rsp_free(r.rsp));
    r.rsp = DAT_HANDLE_NULL;
    CHECK(r.own.state() == DAT_EP_STATE_UNCONNECTED);
    test_endpoint peer(ia);
    establish(r.own, peer);
}

TEST_CASE("SP-11: the one request of an RSP brings its endpoint, and accept takes no other" *
          hint("bring no endpoint with the request, or let accept take another"))
{
    adapter ia;
    reservation r(ia);
    test_endpoint from(ia);
    MUST(from.connect(ia.address(), r.qualifier));
    const DAT_CR_ARRIVAL_EVENT_DATA arrival = r.next_arrival();
    CHECK(arrival.sp_handle.rsp_handle == r.rsp);
    CHECK(arrival.conn_qual == r.qualifier);
    CHECK(r.own.state() == DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
    DAT_CR_PARAM cr{};
    MUST(dat_cr_query(arrival.cr_handle, DAT_CR_FIELD_ALL, &cr));
    CHECK(cr.local_ep_handle == r.own.ep);
    CHECK(same_code(dat_cr_accept(arrival.cr_handle, r.own.ep, 0, nullptr),
                    bad_handle(DAT_INVALID_HANDLE_EP)));
    MUST(dat_cr_accept(arrival.cr_handle, DAT_HANDLE_NULL, 0, nullptr));
    await_established(from, r.own);
    move_data(from, r.own);
}

TEST_CASE("SP-12: after its one request an RSP takes no other" *
          hint("keep listening after the one request"))
{
    adapter ia;
    reservation r(ia);
    test_endpoint first(ia);
    test_endpoint second(ia);
    MUST(first.connect(ia.address(), r.qualifier));
    const DAT_CR_HANDLE request = r.next_arrival().cr_handle;
    MUST(second.connect(ia.address(), r.qualifier));
    next_connection(second.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    CHECK(stays_empty(r.cr_evd, milliseconds(1)));
    MUST(dat_cr_accept(request, DAT_HANDLE_NULL, 0, nullptr));
    await_established(first, r.own);
}

TEST_CASE("SP-13: rejecting the request of an RSP makes its endpoint unconnected again" *
          hint("leave the endpoint pending, or free it, when its request is rejected"))
{
    adapter ia;
    reservation r(ia);
    test_endpoint from(ia);
    MUST(from.connect(ia.address(), r.qualifier));
    MUST(dat_cr_reject(r.next_arrival().cr_handle, 0, nullptr));
    CHECK(r.own.state() == DAT_EP_STATE_UNCONNECTED);
    next_connection(from.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
    MUST(dat_ep_reset(from.ep));
    establish(from, r.own);
    move_data(r.own, from);
}

TEST_CASE("SP-14: an RSP freed after its request leaves the endpoint to the request" *
          hint("reset the endpoint although a request holds it"))
{
    adapter ia;
    reservation r(ia);
    test_endpoint from(ia);
    MUST(from.connect(ia.address(), r.qualifier));
    const DAT_CR_HANDLE request = r.next_arrival().cr_handle;
    MUST(dat_rsp_free(r.rsp));
    r.rsp = DAT_HANDLE_NULL;
    CHECK(r.own.state() == DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
    MUST(dat_cr_accept(request, DAT_HANDLE_NULL, 0, nullptr));
    await_established(from, r.own);
    move_data(from, r.own);
}

TEST_CASE("SP-15: service points come and go hundreds of times on one qualifier" *
          hint("leave a port in use for a while after it was closed"))
{
    adapter ia;
    const DAT_CONN_QUAL qualifier = unused_qualifier(ia);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_CR_FLAG);
    for (int i = 0; i < 200; ++i) {
        DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
        MUST(try_psp(ia, qualifier, evd, &psp));
        MUST(dat_psp_free(psp));
    }
    CHECK(same_code(dat_evd_free(evd), DAT_SUCCESS));
}

TEST_CASE("SP-16: a PSP is freed safely while requests arrive" *
          hint("let a request arrive for a listener that is already freed"))
{
    adapter ia;
    adapter other;
    for (int round = 0; round < 20; ++round) {
        test_endpoint from(other);
        auto at = std::make_unique<listener>(ia);
        MUST(from.connect(ia.address(), at->qualifier, milliseconds(1500)));
        if (round % 2 != 0)
            std::this_thread::sleep_for(std::chrono::microseconds(round * 50));
        const DAT_EVD_HANDLE evd = at->cr_evd;
        MUST(free_once(dat_psp_free, at->psp));
        DAT_EVENT event{};
        if (dat_evd_dequeue(evd, &event) == DAT_SUCCESS)
            MUST(dat_cr_reject(event.event_data.cr_arrival_event_data.cr_handle, 0, nullptr));
        const DAT_EVENT answer = next_event(from.connect_evd);
        CHECK((answer.event_number == DAT_CONNECTION_EVENT_NON_PEER_REJECTED ||
               answer.event_number == DAT_CONNECTION_EVENT_PEER_REJECTED ||
               answer.event_number == DAT_CONNECTION_EVENT_TIMED_OUT));
    }
}

TEST_CASE("SP-17: a qualifier is taken as it is, or refused; never cut short" *
          hint("cut a 64-bit qualifier down to the port's 16 bits"))
{
    adapter ia;
    test_endpoint from(ia);
    listener at(ia);
    const DAT_CONN_QUAL large = at.qualifier + (DAT_CONN_QUAL{1} << 32);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_CR_FLAG);
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    const DAT_RETURN created = try_psp(ia, large, evd, &psp);
    if (created != DAT_SUCCESS) // it has no such qualifiers, or has them and they share something
        CHECK((DAT_GET_TYPE(created) == DAT_INVALID_PARAMETER ||
               DAT_GET_TYPE(created) == DAT_CONN_QUAL_IN_USE));
    else
        MUST(dat_psp_free(psp));
    if (from.connect(ia.address(), large) == DAT_SUCCESS)
        next_connection(from.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    CHECK(stays_empty(at.cr_evd));
}

// ---------------------------------------------------------------------- common service points

namespace {

/// The calls, null if libdat2 lacks them, and their arguments.
struct common_calls {
    explicit common_calls(adapter &on)
        : ia(on), comm{on.address()->sa_family, SOCK_STREAM, 0}, evd(make_evd(on, DAT_EVD_CR_FLAG)),
          port(unused_qualifier(on)), address(on, port)
    {}
    /// Whether there are CSPs here; one is made then. A refusal is checked.
    bool begin()
    {
        return create != nullptr && !refused(create(ia.handle, &comm, address.get(), evd, &csp));
    }
    DAT_RETURN try_create(DAT_COMM with, DAT_IA_ADDRESS_PTR at)
    {
        DAT_CSP_HANDLE made = DAT_HANDLE_NULL;
        const DAT_RETURN code = create(ia.handle, &with, at, evd, &made);
        CHECK((made == DAT_HANDLE_NULL || code == DAT_SUCCESS));
        return code;
    }
    DAT_CR_ARRIVAL_EVENT_DATA next_arrival()
    {
        return next_event(evd, DAT_CONNECTION_REQUEST_EVENT).event_data.cr_arrival_event_data;
    }

    decltype(dat_csp_create) *create = optional_call<decltype(dat_csp_create)>("dat_csp_create");
    decltype(dat_csp_query) *query = optional_call<decltype(dat_csp_query)>("dat_csp_query");
    decltype(dat_csp_free) *free = optional_call<decltype(dat_csp_free)>("dat_csp_free");
    decltype(dat_ep_common_connect) *connect =
        optional_call<decltype(dat_ep_common_connect)>("dat_ep_common_connect");
    adapter &ia;
    DAT_COMM comm;
    DAT_EVD_HANDLE evd;
    DAT_CONN_QUAL port;
    socket_address address;
    DAT_CSP_HANDLE csp = DAT_HANDLE_NULL;
};

constexpr const char *common_points = "common service points";

} // namespace

TEST_CASE("SP-18: a CSP takes requests for its socket address, and query returns its attributes" *
          hint("keep pointers to the caller's address, or name no service point in the request") *
          needs("csp"))
{
    adapter ia;
    common_calls on(ia);
    if (!on.begin())
        NOT_CLAIMED(common_points);
    DAT_CSP_PARAM param{};
    CHECK(same_code(on.query(on.csp, DAT_CSP_FIELD_ALL, &param), success));
    CHECK(param.ia_handle == ia.handle);
    CHECK(param.evd_handle == on.evd);
    REQUIRE(param.comm != nullptr);
    CHECK(param.comm->domain == on.comm.domain);
    CHECK(param.comm->type == on.comm.type);
    REQUIRE(param.address_ptr != nullptr);
    CHECK(std::memcmp(param.address_ptr, on.address.get(), sizeof(sockaddr_in)) == 0);
    test_endpoint from(ia);
    test_endpoint to(ia);
    std::string data = "who asks";
    MUST(on.connect(from.ep, on.address.get(), microseconds(connect_timeout()), 8, data.data()));
    const DAT_CR_ARRIVAL_EVENT_DATA arrival = on.next_arrival();
    CHECK(arrival.sp_handle.csp_handle == on.csp);
    CHECK(arrival.conn_qual == on.port);
    DAT_CR_PARAM cr{};
    MUST(dat_cr_query(arrival.cr_handle, DAT_CR_FIELD_ALL, &cr));
    CHECK(begins_with(cr.private_data, cr.private_data_size, data));
    CHECK(cr.local_ep_handle == DAT_HANDLE_NULL);
    MUST(on.free(on.csp)); // the request stays
    MUST(dat_cr_accept(arrival.cr_handle, to.ep, 0, nullptr));
    await_established(from, to);
    move_data(from, to);
    CHECK(ep_param(from.ep).remote_port_qual == on.port);
    test_endpoint late(ia);
    MUST(on.connect(late.ep, on.address.get(), microseconds(connect_timeout()), 0, nullptr));
    next_connection(late.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
}

TEST_CASE("SP-19: csp_create refuses sockets, addresses and ports that the adapter does not have" *
          hint("listen somewhere else than asked, or take datagram sockets for connections") *
          needs("csp"))
{
    adapter ia;
    common_calls on(ia);
    if (!on.begin())
        NOT_CLAIMED(common_points);
    const socket_address elsewhere_port(ia, unused_qualifier(ia));
    socket_address free_one = elsewhere_port;
    DAT_CSP_HANDLE csp = DAT_HANDLE_NULL;
    CHECK(same_code(on.try_create(on.comm, on.address.get()), error(DAT_PORT_IN_USE)));
    CHECK(same_code(on.try_create({on.comm.domain, SOCK_DGRAM, 0}, free_one.get()),
                    error(DAT_COMM_NOT_SUPPORTED)));
    CHECK(same_code(on.try_create({AF_UNIX, SOCK_STREAM, 0}, free_one.get()),
                    error(DAT_COMM_NOT_SUPPORTED)));
    sockaddr_storage no_family{};
    no_family.ss_family = 200;
    CHECK(same_type(on.try_create(on.comm, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&no_family)),
                    DAT_INVALID_ADDRESS));
    if (ia.address()->sa_family == AF_INET) {
        socket_address foreign = free_one;
        reinterpret_cast<sockaddr_in *>(foreign.get())->sin_addr.s_addr = htonl(0xc0000201);
        CHECK(same_type(on.try_create(on.comm, foreign.get()), DAT_INVALID_ADDRESS));
    }
    socket_address no_port(ia, 0);
    CHECK(same_code(on.try_create(on.comm, no_port.get()), bad_arg(3)));
    CHECK(same_code(on.create(ia.handle, nullptr, free_one.get(), on.evd, &csp), bad_arg(2)));
    CHECK(same_code(on.try_create(on.comm, nullptr), bad_arg(3)));
    CHECK(same_code(
        on.create(ia.handle, &on.comm, free_one.get(), make_evd(ia, DAT_EVD_CONNECTION_FLAG), &csp),
        bad_handle(DAT_INVALID_HANDLE_EVD_CR)));
    CHECK(same_code(on.create(ia.handle, &on.comm, free_one.get(), on.evd, nullptr), bad_arg(5)));
    CHECK(csp == DAT_HANDLE_NULL);
    const DAT_RETURN stale = bad_handle(DAT_INVALID_HANDLE_CSP);
    DAT_CSP_PARAM param{};
    CHECK(same_code(on.query(on.csp, DAT_CSP_FIELD_ALL, nullptr), bad_arg(3)));
    CHECK(same_code(on.query(on.csp, static_cast<DAT_CSP_PARAM_MASK>(0x10), &param), bad_arg(2)));
    CHECK(same_code(on.query(DAT_HANDLE_NULL, DAT_CSP_FIELD_ALL, &param), stale));
    listener psp(ia);
    CHECK(same_code(on.free(psp.psp), stale));
    CHECK(same_code(dat_psp_free(on.csp), bad_handle(DAT_INVALID_HANDLE_PSP)));
    DAT_HANDLE_TYPE type{};
    CHECK(same_code(dat_get_handle_type(on.csp, &type), success));
    CHECK(type == DAT_HANDLE_TYPE_CSP);
    CHECK(same_code(dat_evd_free(on.evd), bad_state(DAT_INVALID_STATE_EVD_IN_USE)));
    CHECK(same_code(on.free(on.csp), success));
    CHECK(same_code(on.free(on.csp), stale));
    CHECK(same_code(dat_evd_free(on.evd), success));
}

TEST_CASE("SP-20: common_connect checks its arguments, and leaves the endpoint unconnected" *
          hint("number the arguments as dat_ep_connect does, which has one more") * needs("csp"))
{
    adapter ia;
    common_calls on(ia);
    if (!on.begin())
        NOT_CLAIMED(common_points);
    test_endpoint own(ia);
    std::string large(static_cast<std::size_t>(ia.provider.max_private_data_size) + 1, 'x');
    const auto size = static_cast<DAT_COUNT>(large.size());
    const auto connect = [&](DAT_IA_ADDRESS_PTR to, DAT_TIMEOUT timeout, DAT_COUNT bytes,
                             void *data) { return on.connect(own.ep, to, timeout, bytes, data); };
    socket_address no_port(ia, 0);
    CHECK(same_code(connect(nullptr, 1000, 0, nullptr), bad_arg(2)));
    CHECK(same_code(connect(no_port.get(), 1000, 0, nullptr), bad_arg(2)));
    CHECK(same_code(connect(on.address.get(), 0, 0, nullptr), bad_arg(3)));
    CHECK(same_code(connect(on.address.get(), 1000, -1, large.data()), bad_arg(4)));
    CHECK(same_code(connect(on.address.get(), 1000, size, large.data()), bad_arg(4)));
    CHECK(same_code(connect(on.address.get(), 1000, 4, nullptr), bad_arg(5)));
    CHECK(same_code(on.connect(DAT_HANDLE_NULL, on.address.get(), 1000, 0, nullptr),
                    bad_handle(DAT_INVALID_HANDLE_EP)));
    CHECK(own.state() == DAT_EP_STATE_UNCONNECTED);
    CHECK(stays_empty(on.evd, milliseconds(1)));
}

// ---------------------------------------------------------------------- qualifiers, and after use

TEST_CASE("SP-21: qualifier 0 is none" * hint("take it for any, or pass it to a device which does"))
{
    adapter ia;
    test_endpoint own(ia);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_CR_FLAG);
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
    CHECK(same_code(try_psp(ia, 0, evd, &psp), bad_arg(2)));
    CHECK(same_code(dat_rsp_create(ia.handle, 0, own.ep, evd, &rsp), bad_arg(2)));
    CHECK(psp == DAT_HANDLE_NULL);
    CHECK(rsp == DAT_HANDLE_NULL);
    CHECK(own.state() == DAT_EP_STATE_UNCONNECTED);
    CHECK(same_code(dat_evd_free(evd), DAT_SUCCESS));
}

TEST_CASE("SP-22: a qualifier that one kind of service point has is taken for each" *
          hint("keep a table for each kind of service point"))
{
    adapter ia;
    reservation r(ia);
    test_endpoint own(ia);
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_CR_FLAG);
    const DAT_RETURN taken = error(DAT_CONN_QUAL_IN_USE);
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
    CHECK(same_code(try_psp(ia, r.qualifier, evd, &psp), taken));
    CHECK(same_code(dat_rsp_create(ia.handle, r.qualifier, own.ep, evd, &rsp), taken));
    CHECK(own.state() == DAT_EP_STATE_UNCONNECTED);
    common_calls on(ia);
    if (on.begin()) {
        CHECK(same_code(try_psp(ia, on.port, evd, &psp), taken));
        CHECK(same_code(dat_rsp_create(ia.handle, on.port, own.ep, evd, &rsp), taken));
        CHECK(own.state() == DAT_EP_STATE_UNCONNECTED);
        socket_address reserved(ia, r.qualifier);
        CHECK(same_code(on.try_create(on.comm, reserved.get()), error(DAT_PORT_IN_USE)));
        listener at(ia);
        socket_address listening(ia, at.qualifier);
        if (at.qualifier <= 0xffff)
            CHECK(same_code(on.try_create(on.comm, listening.get()), error(DAT_PORT_IN_USE)));
        MUST(on.free(on.csp));
    }
    CHECK(psp == DAT_HANDLE_NULL);
    CHECK(rsp == DAT_HANDLE_NULL);
    MUST(dat_rsp_free(r.rsp));
    r.rsp = DAT_HANDLE_NULL;
    CHECK(same_code(try_psp(ia, r.qualifier, evd, &psp), DAT_SUCCESS));
    MUST(dat_psp_free(psp));
}

namespace {

/// Child process: listens, sends the qualifier to its parent, and exits when the parent answers.
int occupant(peer_link &link)
{
    adapter ia;
    listener at(ia);
    link.send(at.qualifier);
    (void)link.receive<char>();
    return 0;
}
const role occupant_role("occupant", occupant);

} // namespace

TEST_CASE("SP-23: a qualifier that another process has is CONN_QUAL_IN_USE, and free after it" *
          hint("share the port, and take requests that are meant for another process"))
{
    if (!the_settings().peer_network.empty())
        NOT_CLAIMED("peers in the same network; see --peer-network");
    adapter ia;
    const listener at(ia); // an adapter that cannot listen is not judged
    peer_process peer("occupant");
    const auto qualifier = peer.link->receive<DAT_CONN_QUAL>();
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_CR_FLAG);
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    CHECK(same_code(try_psp(ia, qualifier, evd, &psp), error(DAT_CONN_QUAL_IN_USE)));
    CHECK(psp == DAT_HANDLE_NULL);
    peer.link->send('q');
    CHECK(peer.await_exit() == 0);
    CHECK(becomes_true([&] { return try_psp(ia, qualifier, evd, &psp) == DAT_SUCCESS; }));
    if (psp != DAT_HANDLE_NULL)
        MUST(dat_psp_free(psp));
}

namespace {

/// The ports of a number, of both kinds of socket, in the hands of a program that has nothing to do
/// with DAT.
class taken_ports {
public:
    taken_ports(const adapter &ia, DAT_CONN_QUAL number)
        : stream_(bound(ia, SOCK_STREAM, number)), datagram_(bound(ia, SOCK_DGRAM, number))
    {
        if (stream_.is_open())
            (void)stream_.listen();
    }
    taken_ports(const taken_ports &) = delete;
    taken_ports &operator=(const taken_ports &) = delete;
    ~taken_ports() { give_back(); }

    bool both() const { return stream_.is_open() && datagram_.is_open(); }
    void give_back()
    {
        stream_.close();
        datagram_.close();
    }

private:
    static program::socket bound(const adapter &ia, int type, DAT_CONN_QUAL number)
    {
        const int family = ia.address()->sa_family;
        const bool four = family == AF_INET;
        sockaddr_storage any{};
        reinterpret_cast<sockaddr &>(any).sa_family =
            static_cast<decltype(sockaddr::sa_family)>(family);
        (four ? reinterpret_cast<sockaddr_in &>(any).sin_port
              : reinterpret_cast<sockaddr_in6 &>(any).sin6_port) =
            htons(static_cast<std::uint16_t>(number));
        program::socket made = program::socket::open(family, type);
        if (made.is_open() && !made.bind(reinterpret_cast<const sockaddr *>(&any),
                                         four ? sizeof(sockaddr_in) : sizeof(sockaddr_in6)))
            made.close();
        return made;
    }

    program::socket stream_;
    program::socket datagram_;
};

} // namespace

TEST_CASE("SP-29: a port of another program's is CONN_QUAL_IN_USE, where the adapter needs it" *
          hint("answer INTERNAL_ERROR, or listen where no request arrives"))
{
    adapter ia;
    DAT_CONN_QUAL qualifier = unused_qualifier(ia);
    auto others = std::make_unique<taken_ports>(ia, qualifier);
    while (!others->both()) {
        qualifier = unused_qualifier(ia);
        others = std::make_unique<taken_ports>(ia, qualifier);
    }
    listener at(ia);
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    const DAT_RETURN code = try_psp(ia, qualifier, at.cr_evd, &psp);
    if (code != DAT_SUCCESS) {
        CHECK(same_code(code, error(DAT_CONN_QUAL_IN_USE)));
        CHECK(psp == DAT_HANDLE_NULL);
        others->give_back();
        MUST(try_psp(ia, qualifier, at.cr_evd, &psp));
    }
    test_endpoint from(ia);
    test_endpoint to(ia);
    MUST(from.connect(ia.address(), qualifier));
    MUST(dat_cr_accept(at.next_request(), to.ep, 0, nullptr));
    await_established(from, to);
    move_data(from, to);
    MUST(dat_psp_free(psp));
}

TEST_CASE("SP-24: a PSP that was freed is no handle, although its requests live" *
          hint("keep the service point as long as its requests, and its handle with it"))
{
    adapter ia;
    test_endpoint from(ia);
    listener at(ia);
    MUST(from.connect(ia.address(), at.qualifier));
    const DAT_CR_HANDLE request = at.next_request();
    const DAT_PSP_HANDLE stale = at.psp;
    MUST(free_once(dat_psp_free, at.psp));
    const DAT_RETURN bad = bad_handle(DAT_INVALID_HANDLE_PSP);
    DAT_PSP_PARAM param{};
    CHECK(same_code(dat_psp_query(stale, DAT_PSP_FIELD_ALL, &param), bad));
    CHECK(same_code(dat_psp_free(stale), bad));
    DAT_PSP_HANDLE again = DAT_HANDLE_NULL; // the qualifier is free, too
    CHECK(same_code(try_psp(ia, at.qualifier, at.cr_evd, &again), DAT_SUCCESS));
    MUST(dat_cr_reject(request, 0, nullptr));
    next_connection(from.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
    if (again != DAT_HANDLE_NULL)
        MUST(dat_psp_free(again));
    MUST(dat_evd_free(at.cr_evd));
}

TEST_CASE("SP-25: after its PSP was freed a qualifier is NON_PEER_REJECTED" *
          hint("take requests for a listener that is gone, or report the refusal as the peer's"))
{
    adapter ia;
    listener at(ia);
    test_endpoint first(ia);
    MUST(first.connect(ia.address(), at.qualifier));
    MUST(dat_cr_reject(at.next_request(), 0, nullptr));
    next_connection(first.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
    const DAT_EVD_HANDLE evd = at.cr_evd;
    MUST(free_once(dat_psp_free, at.psp));
    test_endpoint late(ia);
    MUST(late.connect(ia.address(), at.qualifier));
    next_connection(late.connect_evd, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    CHECK(stays_empty(evd, milliseconds(1)));
    MUST(dat_evd_free(evd));
}

TEST_CASE("SP-26: once its request came an RSP has no endpoint to tell, and takes none along" *
          hint("name an endpoint that is another's by now, or release it with the RSP"))
{
    adapter ia;
    reservation r(ia);
    test_endpoint from(ia);
    MUST(from.connect(ia.address(), r.qualifier));
    const DAT_CR_HANDLE request = r.next_arrival().cr_handle;
    DAT_RSP_PARAM param{};
    MUST(dat_rsp_query(r.rsp, DAT_RSP_FIELD_ALL, &param));
    CHECK(param.ep_handle == DAT_HANDLE_NULL);
    CHECK(param.conn_qual == r.qualifier);
    MUST(dat_cr_reject(request, 0, nullptr));
    next_connection(from.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
    // The endpoint is free for another RSP, which the first one leaves alone.
    const DAT_CONN_QUAL elsewhere = unused_qualifier(ia);
    DAT_RSP_HANDLE second = DAT_HANDLE_NULL;
    MUST(dat_rsp_create(ia.handle, elsewhere, r.own.ep, r.cr_evd, &second));
    MUST(dat_rsp_free(r.rsp));
    r.rsp = second;
    CHECK(r.own.state() == DAT_EP_STATE_RESERVED);
    MUST(dat_rsp_query(second, DAT_RSP_FIELD_ALL, &param));
    CHECK(param.ep_handle == r.own.ep);
}

TEST_CASE("SP-27: a PSP may share its EVD with others, and each request names its own" *
          hint("find the service point by the EVD"))
{
    adapter ia;
    const DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_CR_FLAG);
    DAT_PSP_HANDLE points[3] = {};
    DAT_CONN_QUAL qualifiers[3] = {};
    for (std::size_t i = 0; i < 3; ++i)
        MUST(dat_psp_create_any(ia.handle, &qualifiers[i], evd, DAT_PSP_CONSUMER_FLAG, &points[i]));
    for (std::size_t i : {2u, 0u, 1u}) {
        test_endpoint from(ia);
        MUST(from.connect(ia.address(), qualifiers[i]));
        const auto arrival =
            next_event(evd, DAT_CONNECTION_REQUEST_EVENT).event_data.cr_arrival_event_data;
        CHECK(arrival.sp_handle.psp_handle == points[i]);
        CHECK(arrival.conn_qual == qualifiers[i]);
        MUST(dat_cr_reject(arrival.cr_handle, 0, nullptr));
        next_connection(from.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
    }
    for (std::size_t i = 0; i < 3; ++i) {
        CHECK(same_code(dat_evd_free(evd), bad_state(DAT_INVALID_STATE_EVD_IN_USE)));
        MUST(dat_psp_free(points[i]));
    }
    CHECK(same_code(dat_evd_free(evd), DAT_SUCCESS));
}

TEST_CASE("SP-28: a request that comes while its PSP is being made brings that PSP" *
          hint("take requests before the event can name their service point"))
{
    adapter ia;
    adapter other;
    const connected_pair usual(other, ia);
    test_endpoint from(other);
    const DAT_CONN_QUAL qualifier = unused_qualifier(ia);
    const DAT_EVD_HANDLE cr_evd = make_evd(ia, DAT_EVD_CR_FLAG);
    std::atomic<bool> enough{false};
    std::atomic<int> established{0};
    helper_thread caller([&] {
        while (!enough) {
            if (from.connect(ia.address(), qualifier) != DAT_SUCCESS)
                break;
            const DAT_EVENT event = next_event(from.connect_evd);
            if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED) {
                ++established;
                if (!ends_connection(next_event(from.connect_evd).event_number))
                    break;
            }
            if (dat_ep_reset(from.ep) != DAT_SUCCESS)
                break;
        }
    });
    const set_at_end stop{enough};
    constexpr int rounds = 20;
    for (int round = 0; round < rounds; ++round) {
        CAPTURE(round);
        test_endpoint own(ia);
        DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
        MUST(dat_psp_create(ia.handle, qualifier, cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
        const auto arrival =
            next_event(cr_evd, DAT_CONNECTION_REQUEST_EVENT).event_data.cr_arrival_event_data;
        CHECK(arrival.sp_handle.psp_handle == psp);
        CHECK(arrival.conn_qual == qualifier);
        MUST(dat_psp_free(psp)); // frees it before the next request
        enough = round == rounds - 1;
        MUST(dat_cr_accept(arrival.cr_handle, own.ep, 0, nullptr));
        next_connection(own.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        MUST(own.disconnect(DAT_CLOSE_ABRUPT_FLAG));
        CHECK(ends_connection(next_event(own.connect_evd).event_number));
    }
    caller.join();
    CHECK(established == rounds);
}

} // namespace conformance
