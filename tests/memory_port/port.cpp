// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "port.hpp"

#include "dapl_debug.hpp"
#include "errno_status.hpp"
#include "key_table.hpp"
#include "osd_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace dapl::memory {

using md = memory_device::outcome;

namespace {

/// The keys of all adapters: the device has one fabric.
port_support::key_table<std::uint64_t> keys;

std::uint64_t device_key(std::uint32_t key)
{
    std::uint64_t found = 0;
    (void)keys.find(key, found);
    return found;
}

transport::qp &qp_of(tcp_connection &c)
{
    return static_cast<transport::qp &>(c);
}

/// The process as well: the fabric ends with it.
struct peer_address {
    long process;
    std::uint32_t number;
};

tcp_cm_address address_of(const transport::qp &q)
{
    const peer_address mine{osd::process_id(), q.pair->number()};
    tcp_cm_address out;
    out.size = sizeof mine;
    std::memcpy(out.bytes, &mine, sizeof mine);
    return out;
}

// ------------------------------------------------------------------------------------- the thread

/// Reports CQs. All ready ones are listed before the first upcall, during which others may be
/// freed.
void report(transport::hca &device, list<transport::cq, list_link> &ready) OSD_REQUIRES(device.lock)
{
    while (transport::cq *c = ready.front()) {
        c->unlink();
        c->queue->clear();
        device.run_upcall(c, [owner = c->owner] { dapl_evd_dto_callback(*owner); });
    }
}

/// Serves the device, unchecked: the lock of cm is this one.
OSD_UNCHECKED void serve(void *argument)
{
    auto &device = *static_cast<transport::hca *>(argument);
    list<transport::cq, list_link> ready;
    osd::lock_guard hold(device.lock);
    while (!device.events.is_stopping(device.lock)) {
        const std::int64_t due_ns = device.cm.serve();
        for (void *tag : device.events.wait(device.lock, due_ns))
            if (tag != &device.cm)
                ready.push(*static_cast<transport::cq *>(tag));
        report(device, ready);
    }
}

} // namespace

// -------------------------------------------------------------------------------------------- HCA

status transport::dapls_ib_open_hca(hca &device, const hca_open_params &params)
{
    device.owner = params.owner;
    device.process = osd::process_id();
    std::snprintf(device.name, sizeof device.name, "%s", params.name);
    if (const status found = device.interface.find(params.name, params.params); !found.ok())
        return found;
    hca_attr attr;
    device.attributes.set({"memory", device.name, "4096"}, attr);
    const bool runs = device.events.open() && device.cm.open(device.interface.address) &&
                      device.events.start("dapl-memory", serve, &device);
    return runs ? success : status_of_errno(errno);
}

void transport::dapls_ib_close_hca(hca &device)
{
    if (!device.foreign())
        device.events.stop(device.lock);
}

void transport::dapls_ib_query_hca(const hca &device, hca_attr &attr)
{
    attr = {};
    attr.address = device.interface.shown();
    attr.hca_name = device.name;
    attr.vendor_name = "memory";
    attr.max_eps = 4096;
    attr.max_dto_per_ep = 4096;
    attr.max_rdma_read_per_ep_in = 16;
    attr.max_rdma_read_per_ep_out = 16;
    attr.max_cqs = 4096;
    attr.max_cq_depth = 65536;
    attr.max_iov_per_dto = memory_device::operation::max_segments;
    attr.max_iov_per_rdma_read = memory_device::operation::max_segments;
    attr.max_iov_per_rdma_write = memory_device::operation::max_segments;
    attr.max_mrs = 65536;
    attr.max_pds = 4096;
    attr.max_mr_size = ~DAT_VLEN{0} >> 1;
    attr.max_message_size = 1u << 30;
    attr.max_rdma_size = 1u << 30;
    attr.max_private_data_size = tcp_cm::max_private_data;
    device.attributes.show_in(attr);
}

// ----------------------------------------------------------------------------------------- memory

status transport::dapls_ib_pd_alloc(hca &device, pd &zone)
{
    zone.device = &device;
    return success;
}

void transport::dapls_ib_pd_free(pd &) {}

status transport::dapls_ib_mr_register(pd &zone, mr &region, const mr_params &params, mr_keys &out)
{
    if (osd::look_at_memory(params.address, params.length, params.writes()) !=
        osd::memory_use::possible)
        return status::error(DAT_PROTECTION_VIOLATION);
    const auto has = [&](unsigned right) { return (params.privileges & right) != 0; };
    const unsigned rights =
        (has(DAT_MEM_PRIV_LOCAL_READ_FLAG) ? unsigned{memory_device::local_read} : 0u) |
        (has(DAT_MEM_PRIV_LOCAL_WRITE_FLAG) ? unsigned{memory_device::local_write} : 0u) |
        (has(DAT_MEM_PRIV_REMOTE_READ_FLAG) ? unsigned{memory_device::remote_read} : 0u) |
        (has(DAT_MEM_PRIV_REMOTE_WRITE_FLAG) ? unsigned{memory_device::remote_write} : 0u);
    region.device_key = memory_device::add_region(&zone, params.address, params.length, rights);
    region.key = keys.add(region.device_key);
    if (region.key == 0) {
        memory_device::remove_region(region.device_key);
        return status::error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION);
    }
    out.local = region.key;
    out.remote =
        has(DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG) ? region.key : 0;
    return success;
}

void transport::dapls_ib_mr_deregister(mr &region)
{
    (void)keys.remove(region.key);
    memory_device::remove_region(region.device_key);
}

// ------------------------------------------------------------------------------ completion queues

status transport::dapls_ib_cq_alloc(hca &device, cq &c, evd &owner, DAT_COUNT &)
{
    c.queue.emplace();
    c.device = &device;
    c.owner = &owner;
    return device.events.add(c.queue->descriptor(), EPOLLIN, &c) ? success : status_of_errno(errno);
}

void transport::dapls_ib_cq_free(cq &c)
{
    hca &device = *c.device;
    osd::lock_guard hold(device.lock);
    if (!device.foreign())
        device.events.remove(c.queue->descriptor());
    c.unlink();
    device.wait_quiet(&c);
    c.queue.reset();
}

bool transport::dapls_ib_completion_poll(cq &c, completion &out)
{
    static constexpr DAT_DTO_COMPLETION_STATUS statuses[] = {
        DAT_DTO_SUCCESS,           DAT_DTO_ERR_FLUSHED,
        DAT_DTO_ERR_LOCAL_LENGTH,  DAT_DTO_ERR_LOCAL_PROTECTION,
        DAT_DTO_ERR_REMOTE_ACCESS, DAT_DTO_ERR_REMOTE_RESPONDER,
    };
    memory_device::completion done;
    if (!c.queue->poll(done))
        return false;
    out = {};
    out.wr = static_cast<wr *>(done.id);
    out.length = done.length;
    out.status = statuses[static_cast<unsigned>(done.status)];
    return true;
}

void transport::dapls_ib_completion_notify(cq &c, notify_on)
{
    c.queue->arm();
}

// ------------------------------------------------------------------------------------ queue pairs

status transport::dapls_ib_qp_alloc(pd &domain, qp &q, cq *recv_cq, cq *send_cq, srq *,
                                    const qp_params &params)
{
    q.domain = &domain;
    q.device = domain.device;
    q.recv_cq = recv_cq;
    q.send_cq = send_cq;
    q.owner = params.owner;
    return dapls_ib_qp_reset(q);
}

void transport::dapls_ib_qp_free(qp &q)
{
    if (q.device->foreign())
        return;
    q.device->cm.forget(q);
    q.pair.reset();
}

status transport::dapls_ib_qp_reset(qp &q)
{
    dapls_ib_qp_free(q);
    q.pair.emplace(q.domain, q.send_cq == nullptr ? nullptr : &*q.send_cq->queue,
                   q.recv_cq == nullptr ? nullptr : &*q.recv_cq->queue);
    return success;
}

namespace {

status post(transport::qp &q, transport::wr &request, memory_device::opcode what,
            DAT_COUNT segments, const DAT_LMR_TRIPLET *local, const DAT_RMR_TRIPLET *remote,
            DAT_COMPLETION_FLAGS flags)
{
    memory_device::operation &op = request.posted;
    op.id = &request;
    op.what = what;
    op.silent = (flags & DAT_COMPLETION_SUPPRESS_FLAG) != 0;
    op.segments = static_cast<std::size_t>(segments);
    std::size_t left = SIZE_MAX; // a read brings no more than the remote segment has
    if (what == memory_device::opcode::read)
        left = remote->segment_length;
    for (std::size_t i = 0; i < op.segments; ++i) {
        const std::size_t length = std::min<std::size_t>(local[i].segment_length, left);
        op.local[i] = {reinterpret_cast<void *>(local[i].virtual_address), length,
                       device_key(local[i].lmr_context)};
        left -= length;
    }
    if (remote != nullptr) {
        op.remote_address = remote->virtual_address;
        op.remote_key = device_key(remote->rmr_context);
    }
    if (!q.pair->post(op))
        q.device->cm.fail(q);
    return success;
}

} // namespace

status transport::dapls_ib_post_send(qp &q, wr &request, DAT_COUNT segments,
                                     const DAT_LMR_TRIPLET *local, const DAT_RMR_TRIPLET *remote,
                                     DAT_COMPLETION_FLAGS flags)
{
    const auto what = request.operation == opcode::send         ? memory_device::opcode::send
                      : request.operation == opcode::rdma_write ? memory_device::opcode::write
                                                                : memory_device::opcode::read;
    return post(q, request, what, segments, local, remote, flags);
}

status transport::dapls_ib_post_recv(qp &q, wr &request, DAT_COUNT segments,
                                     const DAT_LMR_TRIPLET *local)
{
    return post(q, request, memory_device::opcode::receive, segments, local, nullptr,
                DAT_COMPLETION_DEFAULT_FLAG);
}

// ------------------------------------------------------------------------------------- connection

bool types::hca::offer(tcp_listener &l, tcp_request &request, const cr_params &params)
{
    cr incoming{std::move(request)};
    bool taken = false;
    run_upcall(&l, [&, to = l.owner] { taken = dapls_cr_callback(*to, incoming, params); });
    if (!taken)
        request = std::move(incoming.request);
    return taken;
}

bool types::hca::bring_up(tcp_connection &c, const tcp_cm_address &peer)
{
    peer_address there{};
    if (peer.size != sizeof there)
        return false;
    std::memcpy(&there, peer.bytes, sizeof there);
    return there.process == process && qp_of(c).pair->connect(there.number);
}

void types::hca::tear_down(tcp_connection &c)
{
    if (c.phase() == connection_phase::idle)
        qp_of(c).pair->flush();
    else
        qp_of(c).pair->disconnect();
}

bool types::hca::is_drained(tcp_connection &c)
{
    return !qp_of(c).pair->has_sends();
}

status transport::dapls_ib_setup_conn_listener(hca &device, listener &l, service_point &owner,
                                               DAT_CONN_QUAL &qualifier)
{
    l.device = &device;
    return device.cm.listen(l, owner, qualifier);
}

void transport::dapls_ib_remove_conn_listener(listener &l)
{
    if (!l.device->foreign())
        l.device->cm.stop_listening(l);
}

status transport::dapls_ib_connect(qp &q, const connect_params &params)
{
    return q.device->cm.connect(q, params, address_of(q));
}

status transport::dapls_ib_accept_connection(cr &incoming, qp &q, const private_data &data)
{
    return q.device->cm.accept(incoming.request, q, data, address_of(q));
}

void transport::dapls_ib_reject_connection(cr &incoming, reject_reason reason,
                                           const private_data &data)
{
    tcp_cm::reject(incoming.request, reason, data);
}

void transport::dapls_ib_disconnect(qp &q, DAT_CLOSE_FLAGS how)
{
    q.device->cm.disconnect(q, how);
}

void transport::dapls_ib_disconnect_clean(qp &q)
{
    q.device->cm.disconnect_clean(q);
}

} // namespace dapl::memory
