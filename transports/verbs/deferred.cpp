// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Destruction that waits for an answer. An iWARP kernel frees neither the identifier nor the queue
// pair of a connection whose request the peer has not answered: who destroys one sleeps until then.
// So they are kept with the connection until its event comes, and with them what verbs does not
// free before the queue pair.
#include "internal.hpp"

#include "dapl_debug.hpp"

#include <cstring>
#include <utility>

namespace dapl::verbs::vrb {

namespace {

bool uses(const ibv_qp &qp, const ibv_cq *queue)
{
    return qp.send_cq == queue || qp.recv_cq == queue;
}

bool uses(const ibv_qp &qp, const ibv_srq *shared)
{
    return qp.srq == shared;
}

bool uses(const ibv_qp &qp, const ibv_pd *domain)
{
    return qp.pd == domain || (qp.srq != nullptr && qp.srq->pd == domain);
}

template <class Object>
deferred_destruction *user_of(hca &device, const Object *object) OSD_REQUIRES(device.lock)
{
    for (connection *c = device.connections.front(); c != nullptr; c = device.connections.after(*c))
        if (c->rest.qp != nullptr && uses(*c->rest.qp, object))
            return &c->rest;
    return nullptr;
}

template <class Object>
void put(Object *(&places)[2], Object *object)
{
    (places[0] == nullptr ? places[0] : places[1]) = object;
}

// Events of the device shall not lead to what is gone.

void keep(deferred_destruction &rest, ibv_cq *queue)
{
    queue->cq_context = nullptr;
    put(rest.cqs, queue);
}

void keep(deferred_destruction &rest, ibv_srq *shared)
{
    shared->srq_context = nullptr;
    rest.srq = shared;
}

void keep(deferred_destruction &rest, ibv_pd *domain)
{
    put(rest.pds, domain);
}

void check(const hca &device, const char *call, int error)
{
    if (error != 0)
        dapl_log(DAPL_DBG_TYPE_ERR, "%s: %s failed: %s", device.name, call, std::strerror(error));
}

void destroy(const hca &device, ibv_cq *queue)
{
    ibv_comp_channel *channel = queue->channel;
    check(device, "ibv_destroy_cq", ibv_destroy_cq(queue));
    (void)ibv_destroy_comp_channel(channel);
}

void destroy(const hca &device, ibv_srq *shared)
{
    check(device, "ibv_destroy_srq", ibv_destroy_srq(shared));
}

void destroy(const hca &device, ibv_pd *domain)
{
    check(device, "ibv_dealloc_pd", ibv_dealloc_pd(domain));
}

template <class Object>
void destroy_or_keep(hca &device, Object *object) OSD_REQUIRES(device.lock)
{
    if (object == nullptr)
        return;
    if (deferred_destruction *rest = user_of(device, object))
        keep(*rest, object);
    else
        destroy(device, object);
}

} // namespace

void destroy_qp(const hca &device, ibv_qp *handle)
{
    check(device, "ibv_destroy_qp", ibv_destroy_qp(handle));
}

void destroy_later(connection &c, ibv_qp *handle)
{
    handle->qp_context = nullptr;
    c.rest.qp = handle;
}

void destroy_cq(hca &device, ibv_cq *queue)
{
    destroy_or_keep(device, queue);
}

void destroy_srq(hca &device, ibv_srq *shared)
{
    destroy_or_keep(device, shared);
}

void destroy_pd(hca &device, ibv_pd *domain)
{
    destroy_or_keep(device, domain);
}

void destroy_rest(hca &device, const deferred_destruction &rest)
{
    if (rest.qp == nullptr)
        return;
    destroy_qp(device, rest.qp);
    destroy_or_keep(device, rest.srq);
    for (ibv_cq *queue : rest.cqs)
        destroy_or_keep(device, queue);
    for (ibv_pd *domain : rest.pds)
        destroy_or_keep(device, domain);
}

} // namespace dapl::verbs::vrb
