// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Connection of the acme port. Made by dapl-port; it is yours.
#include "port.hpp"

namespace dapl::acme {

// TODO(port) dapls_ib_setup_conn_listener: listen on a qualifier, or on a free one
// Listens on the qualifier, or on a free one which it stores when it is 0. Control; requests
// may be handed up before it returns. DAT_CONN_QUAL_IN_USE; DAT_INVALID_PARAMETER for one the
// transport does not have.
// (control, may block; shown by SP-03, SP-04, SP-15, SP-17, SP-18)
status transport::dapls_ib_setup_conn_listener(hca &, listener &, service_point & /*owner*/,
                                               DAT_CONN_QUAL & /*qualifier*/)
{
    return not_supported;
}

// TODO(port) dapls_ib_remove_conn_listener: stop listening; requests handed up stay valid
// Fence for dapls_cr_callback. Requests already handed up stay valid.
// (fence, may block; shown by SP-06, SP-16)
void transport::dapls_ib_remove_conn_listener(listener &) {}

// TODO(port) dapls_ib_connect: start connecting
// Starts connecting. Success obliges the port to exactly one dapl_evd_connection_callback:
// ESTABLISHED, PEER_REJECTED, NON_PEER_REJECTED, UNREACHABLE or TIMED_OUT. Receives posted
// before an attempt that fails come back flushed before that callback. Control; does not wait
// for the peer. DAT_INVALID_ADDRESS for an address of the wrong kind.
// (control, may block; shown by CONN-02, CONN-03, CONN-04, CONN-06, CONN-07, CONN-08, CONN-22,
// CONN-24, SP-18)
status transport::dapls_ib_connect(qp &, const connect_params &)
{
    return not_supported;
}

// TODO(port) dapls_ib_accept_connection: answer a request with a queue pair
// Answers a request with this qp; uses up the cr on success. Then exactly one callback:
// ESTABLISHED or ACCEPT_COMPLETION_ERROR. Control.
// (control, may block; shown by CONN-03, CONN-04, CONN-24, CR-11, CR-13, SP-05)
status transport::dapls_ib_accept_connection(cr &, qp &, const private_data &)
{
    return not_supported;
}

// TODO(port) dapls_ib_reject_connection: refuse a request
// Refuses a request, whose peer may be gone; uses up the cr. Control.
// (control, may block; shown by CONN-05, CR-12, CR-16)
void transport::dapls_ib_reject_connection(cr &, reject_reason, const private_data &) {}

// TODO(port) dapls_ib_disconnect: end an established connection
// Ends an established connection: graceful lets posted requests finish first, abrupt does not;
// abrupt may follow graceful. What did not finish completes as flushed. After ESTABLISHED
// every connection ends in exactly one callback: DISCONNECTED, whichever side began it, or
// BROKEN. What was not flushed can be polled before that. Control.
// (control, may block; shown by CONN-10, CONN-11, CONN-12, CONN-13, DTO-23, DTO-24)
void transport::dapls_ib_disconnect(qp &, DAT_CLOSE_FLAGS) {}

// TODO(port) dapls_ib_disconnect_clean: abandon an attempt to connect, and flush
// Abandons an attempt begun with connect or accept, if there is one; what was posted has
// completed as flushed on return. A qp that was never connected can be used as before. A
// callback already under way may still come (the common layer drops it). Shall not block. Any
// thread, also beside a control operation of the same qp that is not a fence.
// (any, does not block; shown by CONN-08, CONN-14, CONN-19, CONN-25, EP-30)
void transport::dapls_ib_disconnect_clean(qp &) {}

} // namespace dapl::acme
