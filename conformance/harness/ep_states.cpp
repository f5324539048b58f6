// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/ep_states.hpp"

namespace conformance {

void in_state::reserve()
{
    DAT_EVD_HANDLE evd = make_evd(ia, DAT_EVD_CR_FLAG);
    MUST(dat_rsp_create(ia.handle, unused_qualifier(ia), ep.ep, evd, &rsp));
}

void in_state::become_passive()
{
    reserve();
    DAT_RSP_PARAM param{};
    MUST(dat_rsp_query(rsp, DAT_RSP_FIELD_ALL, &param));
    MUST(peer.connect(ia.address(), param.conn_qual));
    (void)next_event(param.evd_handle, DAT_CONNECTION_REQUEST_EVENT);
}

void in_state::become_tentative()
{
    at = std::make_unique<listener>(ia, DAT_PSP_PROVIDER_FLAG);
    MUST(peer.connect(ia.address(), at->qualifier));
    DAT_CR_PARAM param{};
    MUST(dat_cr_query(at->next_request(), DAT_CR_FIELD_ALL, &param));
    subject = param.local_ep_handle;
}

in_state::in_state(DAT_EP_STATE wanted) : ep(ia), peer(ia), subject(ep.ep)
{
    switch (wanted) {
    case DAT_EP_STATE_RESERVED:
        reserve();
        break;
    case DAT_EP_STATE_PASSIVE_CONNECTION_PENDING:
        become_passive();
        break;
    case DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING:
        become_tentative();
        break;
    case DAT_EP_STATE_ACTIVE_CONNECTION_PENDING:
        at = std::make_unique<listener>(ia);
        MUST(ep.connect(ia.address(), at->qualifier));
        (void)at->next_request();
        break;
    case DAT_EP_STATE_CONNECTED:
        establish(ep, peer);
        break;
    case DAT_EP_STATE_DISCONNECTED:
        establish(ep, peer);
        MUST(ep.disconnect(DAT_CLOSE_ABRUPT_FLAG));
        next_connection(ep.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        break;
    default:
        break;
    }
}

accepted_request::accepted_request() : own(ia), at(ia), peer("caller")
{
    peer.link->send(offer_of(ia, at.qualifier));
    (void)peer.link->receive<bool>();
    const DAT_CR_HANDLE request = at.next_request();
    peer.stop();
    MUST(dat_cr_accept(request, own.ep, 0, nullptr));
    std::this_thread::sleep_for(a_while); // some transports are connected without the peer
}

lingering::lingering() : peer("obedient"), own(ia, {.bytes = size})
{
    offer there = peer.link->receive<offer>();
    memory = there.memory;
    MUST(own.connect(there.to(), there.qualifier));
    next_connection(own.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    (void)peer.link->receive<bool>();
    peer.stop();
    for (std::uint64_t i = 0; i < writes; ++i)
        MUST(own.write(0, size, memory, i));
    MUST(own.send(0, 64, writes));
    MUST(own.disconnect(DAT_CLOSE_GRACEFUL_FLAG));
}

bool lingering::pending() const
{
    return !becomes_true([&] { return own.state() != DAT_EP_STATE_DISCONNECT_PENDING; },
                         milliseconds(700));
}

} // namespace conformance
