// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Endpoints with their zones, EVDs and memory, and connecting them.
#pragma once

#include "harness/adapter.hpp"
#include "harness/events.hpp"
#include "harness/region.hpp"

#include <dat2/udat.h>

#include <string>

namespace conformance {

DAT_EP_STATE state_of(DAT_EP_HANDLE ep);

struct endpoint_options {
    const DAT_EP_ATTR *attr = nullptr;
    std::size_t bytes = 64 * 1024;
    DAT_COUNT qlen = 256;
    bool one_dto_evd = false; ///< sends and receives complete in one EVD
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
};

/// An endpoint with protection zone, EVDs and memory of its own.
class test_endpoint {
public:
    explicit test_endpoint(adapter &on, const endpoint_options &options = {});
    test_endpoint(const test_endpoint &) = delete;
    test_endpoint &operator=(const test_endpoint &) = delete;
    ~test_endpoint();

    DAT_RETURN connect(DAT_SOCK_ADDR *address, DAT_CONN_QUAL qualifier,
                       milliseconds timeout = connect_timeout(), const std::string &data = {});
    DAT_RETURN recv(std::size_t offset, std::size_t length, std::uint64_t cookie = 0);
    DAT_RETURN send(std::size_t offset, std::size_t length, std::uint64_t cookie = 0,
                    unsigned flags = DAT_COMPLETION_DEFAULT_FLAG);
    DAT_RETURN write(std::size_t offset, std::size_t length, const DAT_RMR_TRIPLET &to,
                     std::uint64_t cookie = 0, unsigned flags = DAT_COMPLETION_DEFAULT_FLAG);
    DAT_RETURN read(std::size_t offset, std::size_t length, const DAT_RMR_TRIPLET &from,
                    std::uint64_t cookie = 0, unsigned flags = DAT_COMPLETION_DEFAULT_FLAG);
    DAT_RETURN disconnect(DAT_CLOSE_FLAGS how);
    DAT_RETURN free_ep();
    DAT_EP_STATE state() const { return state_of(ep); }

    adapter &ia;
    DAT_PZ_HANDLE pz;
    DAT_EVD_HANDLE recv_evd;
    DAT_EVD_HANDLE request_evd;
    DAT_EVD_HANDLE connect_evd;
    region memory;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
};

DAT_EP_PARAM ep_param(DAT_EP_HANDLE ep);
DAT_DTO_COOKIE cookie_of(std::uint64_t value);

/// Whether RMRs can be made for one endpoint.
bool has_narrow_windows(const adapter &ia);
DAT_RMR_HANDLE make_narrow_rmr(const test_endpoint &of);
/// Makes an RMR that a peer's message can close. RMR-26 judges the others.
DAT_RMR_HANDLE make_closable_rmr(const test_endpoint &of);

/// A PSP on an unused qualifier.
class listener {
public:
    explicit listener(adapter &on, DAT_PSP_FLAGS flags = DAT_PSP_CONSUMER_FLAG,
                      DAT_COUNT qlen = 64);
    listener(const listener &) = delete;
    listener &operator=(const listener &) = delete;
    ~listener() { free(); }

    DAT_CR_ARRIVAL_EVENT_DATA next_arrival(const place &where = place::current());
    DAT_CR_HANDLE next_request(const place &where = place::current())
    {
        return next_arrival(where).cr_handle;
    }
    void free();

    adapter &ia;
    DAT_EVD_HANDLE cr_evd;
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    DAT_CONN_QUAL qualifier = 0;
};

/// A qualifier without a listener.
DAT_CONN_QUAL unused_qualifier(adapter &ia);

/// The adapter's address, with a port.
class socket_address {
public:
    socket_address(const adapter &ia, DAT_CONN_QUAL port);
    DAT_IA_ADDRESS_PTR get() { return reinterpret_cast<DAT_IA_ADDRESS_PTR>(&storage_); }
    DAT_COMM comm() const { return {storage_.ss_family, SOCK_STREAM, 0}; }

private:
    sockaddr_storage storage_{};
};

/// Connects the two and waits for both ESTABLISHED events.
void establish(test_endpoint &active, test_endpoint &passive,
               const place &where = place::current());
void establish(test_endpoint &active, test_endpoint &passive, listener &at,
               const place &where = place::current());
void await_established(test_endpoint &one, test_endpoint &other,
                       const place &where = place::current());

/// Two connected endpoints, of one adapter or of two.
struct connected_pair {
    explicit connected_pair(adapter &ia, const endpoint_options &options = {})
        : connected_pair(ia, ia, options)
    {}
    connected_pair(adapter &one, adapter &other, const endpoint_options &options = {})
        : active(one, options), passive(other, options)
    {
        establish(active, passive);
    }
    test_endpoint active;
    test_endpoint passive;
};

} // namespace conformance
