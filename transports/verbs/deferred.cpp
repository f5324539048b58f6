// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Destruction that waits for an answer. An iWARP kernel frees neither the identifier nor the queue
// pair of a connection whose request the peer has not answered: who destroys one sleeps until then.
// So they are kept with the connection until its event comes, and with them what verbs does not
// free before the queue pair.
#include "internal.hpp"

namespace dapl::verbs::vrb {

namespace {

bool uses(const ibv_qp &qp, const void *object)
{
    return object == qp.send_cq || object == qp.recv_cq || object == qp.srq || object == qp.pd ||
           (qp.srq != nullptr && object == qp.srq->pd);
}

/// Destroys an object at once, or with the last queue pair that uses it and waits for an answer.
void destroy_after_users(hca &device, const deferred_destruction::need &object)
    OSD_REQUIRES(device.lock)
{
    for (connection *c = device.connections.front(); c != nullptr;
         c = device.connections.after(*c)) {
        deferred_destruction &rest = c->rest;
        if (rest.qp != nullptr && uses(*rest.qp, object.handle)) {
            rest.needs[rest.count++] = object;
            return;
        }
    }
    object.destroy(device, object.handle);
}

void destroy_cq_now(const hca &device, void *handle)
{
    auto *queue = static_cast<ibv_cq *>(handle);
    ibv_comp_channel *channel = queue->channel;
    log_failure(device, "ibv_destroy_cq", ibv_destroy_cq(queue));
    (void)ibv_destroy_comp_channel(channel);
}

void destroy_srq_now(const hca &device, void *handle)
{
    log_failure(device, "ibv_destroy_srq", ibv_destroy_srq(static_cast<ibv_srq *>(handle)));
}

void destroy_pd_now(const hca &device, void *handle)
{
    log_failure(device, "ibv_dealloc_pd", ibv_dealloc_pd(static_cast<ibv_pd *>(handle)));
}

} // namespace

void destroy_qp(const hca &device, ibv_qp *handle)
{
    log_failure(device, "ibv_destroy_qp", ibv_destroy_qp(handle));
}

// The device's events shall not lead to an owner that is gone.

void destroy_later(connection &c, ibv_qp *handle)
{
    handle->qp_context = nullptr;
    c.rest.qp = handle;
}

void destroy_cq(hca &device, ibv_cq *queue)
{
    queue->cq_context = nullptr;
    destroy_after_users(device, {queue, destroy_cq_now});
}

void destroy_srq(hca &device, ibv_srq *shared)
{
    shared->srq_context = nullptr;
    destroy_after_users(device, {shared, destroy_srq_now});
}

void destroy_pd(hca &device, ibv_pd *domain)
{
    destroy_after_users(device, {domain, destroy_pd_now});
}

void destroy_rest(hca &device, const deferred_destruction &rest)
{
    if (rest.qp == nullptr)
        return;
    destroy_qp(device, rest.qp);
    for (int i = 0; i < rest.count; ++i)
        destroy_after_users(device, rest.needs[i]);
}

} // namespace dapl::verbs::vrb
