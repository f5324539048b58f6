// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ucx_link.hpp"

#include <cstring>
#include <string>

namespace bench {

ucx_link::ucx_link(std::uint32_t max_size)
    : max_size_(max_size), memory_(link_memory(2 * std::size_t{max_size}))
{
    send_.op_attr_mask = receive_.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    send_.user_data = receive_.user_data = this;
    send_.cb.send = on_sent;
    receive_.cb.recv = on_received;
    open_context();
    ucp_worker_params_t params{};
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    params.thread_mode = UCS_THREAD_MODE_SINGLE;
    ucp_worker_h worker = nullptr;
    must("ucp_worker_create", ucp_worker_create(context_.get(), &params, &worker));
    worker_.reset(worker);
    for (int i = 0; i < receive_pool; ++i)
        post_receive();
}

/// Long messages are copied by the system, out of the sender's memory, as others do inside a host.
void ucx_link::open_context()
{
    ucp_config_t *config = nullptr;
    must("ucp_config_read", ucp_config_read(nullptr, nullptr, &config));
    const ucs_status_t chosen = ucp_config_modify(config, "TLS", "posix,cma");
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_TAG;
    ucp_context_h context = nullptr;
    const ucs_status_t opened = ucp_init(&params, config, &context);
    ucp_config_release(config);
    must("ucp_config_modify", chosen);
    must("ucp_init", opened);
    context_.reset(context);
}

ucx_link::~ucx_link()
{
    for (; received_.come != posted_; ++received_.come)
        ucp_request_cancel(worker_.get(), receives_[received_.come % kept]);
}

ucx_link::place ucx_link::own()
{
    ucp_address_t *address = nullptr;
    place made{};
    must("ucp_worker_get_address", ucp_worker_get_address(worker_.get(), &address, &made.size));
    const bool fits = made.size <= sizeof made.bytes;
    if (fits)
        std::memcpy(made.bytes, address, made.size);
    ucp_worker_release_address(worker_.get(), address);
    if (!fits)
        fail("ucp_worker_get_address", UCS_ERR_BUFFER_TOO_SMALL);
    return made;
}

void ucx_link::meet(const place &peer)
{
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = reinterpret_cast<const ucp_address_t *>(peer.bytes);
    must("ucp_ep_create", ucp_ep_create(worker_.get(), &params, &peer_));
}

void ucx_link::on_sent(void *request, ucs_status_t status, void *link)
{
    must("a send", status);
    ++static_cast<ucx_link *>(link)->sent_.come;
    ucp_request_free(request);
}

void ucx_link::on_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *,
                           void *link)
{
    if (status != UCS_ERR_CANCELED) {
        must("a receive", status);
        ++static_cast<ucx_link *>(link)->received_.come;
    }
    ucp_request_free(request);
}

void ucx_link::fail(const char *call, ucs_status_t status)
{
    throw program::failure(std::string(call) + ": " + ucs_status_string(status));
}

} // namespace bench
