// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The calls of libibverbs.
#include "traffic.hpp"

#include "osd_memory.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <endian.h>
#include <net/if.h>

#undef ibv_reg_mr
#undef ibv_query_port

using namespace stand_in;

namespace stand_in {

world &all()
{
    static world &only = *new world; // lives as long as any thread
    return only;
}

namespace {

constexpr int most_entries = 1 << 20;
constexpr int most_requests = 16'384;

ibv_device the_device = [] {
    ibv_device made{};
    made.node_type = IBV_NODE_CA;
    made.transport_type = IBV_TRANSPORT_IB;
    std::snprintf(made.name, sizeof made.name, "standin0");
    std::snprintf(made.dev_name, sizeof made.dev_name, "uverbs0");
    return made;
}();

using hold = std::lock_guard<std::mutex>;

bool is_dead(ibv_context *handle)
{
    if (!of(handle).dead)
        return false;
    errno = EIO;
    return true;
}

std::vector<ibv_sge> places_of(const ibv_sge *list, int count)
{
    return {list, list + count};
}

// ------------------------------------------------------------------- the calls behind pointers

int query_port(ibv_context *, std::uint8_t port, ibv_port_attr *attr, std::size_t size)
{
    if (port != 1)
        return EINVAL;
    ibv_port_attr is{};
    is.state = IBV_PORT_ACTIVE;
    is.max_mtu = is.active_mtu = IBV_MTU_4096;
    is.gid_tbl_len = device().ethernet ? 3 : 1;
    is.max_msg_sz = 0x40000000;
    is.link_layer = device().ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
    std::memcpy(attr, &is, std::min(size, sizeof is));
    return 0;
}

int query_device_ex(ibv_context *handle, const ibv_query_device_ex_input *,
                    ibv_device_attr_ex *attr, std::size_t size)
{
    ibv_device_attr_ex is{};
    (void)ibv_query_device(handle, &is.orig_attr);
    const hold guard(all().lock);
    if (all().has.on_demand_paging) {
        is.odp_caps.general_caps = IBV_ODP_SUPPORT;
        is.odp_caps.per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
                                                     IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
                                                     IBV_ODP_SUPPORT_SRQ_RECV;
    }
    is.cq_mod_caps = {all().has.most_moderated, UINT16_MAX};
    std::memcpy(attr, &is, std::min(size, sizeof is));
    return 0;
}

int modify_cq(ibv_cq *handle, ibv_modify_cq_attr *attr)
{
    const hold guard(all().lock);
    if (!all().moderates)
        return EIO;
    if (attr->attr_mask != IBV_CQ_ATTR_MODERATE ||
        attr->moderate.cq_count > all().has.most_moderated)
        return EINVAL;
    static_cast<completion_queue *>(handle)->moderated = attr->moderate.cq_count;
    return 0;
}

int poll_cq(ibv_cq *handle, int most, ibv_wc *entries)
{
    const hold guard(all().lock);
    auto &c = *static_cast<completion_queue *>(handle);
    int count = 0;
    for (; count < most && !c.entries.empty(); ++count) {
        entries[count] = c.entries.front();
        c.entries.pop_front();
    }
    return count;
}

int req_notify_cq(ibv_cq *handle, int solicited_only)
{
    const hold guard(all().lock);
    ++all().times_armed;
    if (!all().arms)
        return EIO;
    auto &c = *static_cast<completion_queue *>(handle);
    c.solicited_only = solicited_only != 0 && (!c.armed || c.solicited_only);
    c.armed = true;
    return 0;
}

int post_one(queue_pair &q, const ibv_send_wr &wr)
{
    if (q.state != IBV_QPS_RTS && q.state != IBV_QPS_ERR)
        return EINVAL;
    if (q.requests.size() >= q.room.max_send_wr)
        return ENOMEM;
    if (wr.num_sge > static_cast<int>(q.room.max_send_sge))
        return EINVAL;
    request posted{wr, {}, {}};
    if (wr.opcode == IBV_WR_BIND_MW)
        posted.old_key = wr.bind_mw.mw->rkey;
    if (wr.opcode != IBV_WR_BIND_MW && wr.opcode != IBV_WR_LOCAL_INV)
        posted.places = places_of(wr.sg_list, wr.num_sge);
    if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
        for (const ibv_sge &place : posted.places) {
            const auto *from = reinterpret_cast<const char *>(place.addr);
            posted.carried.insert(posted.carried.end(), from, from + place.length);
        }
        if (posted.carried.size() > q.room.max_inline_data)
            return EINVAL;
        ++all().inline_posts;
    }
    q.requests.push_back(std::move(posted));
    return 0;
}

int post_send(ibv_qp *handle, ibv_send_wr *wr, ibv_send_wr **bad)
{
    const hold guard(all().lock);
    auto &q = *static_cast<queue_pair *>(handle);
    for (; wr != nullptr; wr = wr->next)
        if (const int error = post_one(q, *wr); error != 0) {
            *bad = wr;
            return error;
        }
    run(q);
    return 0;
}

int post_recv(ibv_qp *handle, ibv_recv_wr *wr, ibv_recv_wr **bad)
{
    const hold guard(all().lock);
    auto &q = *static_cast<queue_pair *>(handle);
    for (; wr != nullptr; wr = wr->next) {
        const bool full = q.receives.size() >= q.room.max_recv_wr;
        if (full || wr->num_sge > static_cast<int>(q.room.max_recv_sge)) {
            *bad = wr;
            return full ? ENOMEM : EINVAL;
        }
        q.receives.push_back({wr->wr_id, places_of(wr->sg_list, wr->num_sge)});
    }
    if (q.state == IBV_QPS_ERR)
        run(q);
    run_peer_of(q);
    return 0;
}

int post_srq_recv(ibv_srq *handle, ibv_recv_wr *wr, ibv_recv_wr **bad)
{
    const hold guard(all().lock);
    auto &shared = *static_cast<shared_queue *>(handle);
    for (; wr != nullptr; wr = wr->next) {
        if (shared.receives.size() >= shared.room) {
            *bad = wr;
            return ENOMEM;
        }
        shared.receives.push_back({wr->wr_id, places_of(wr->sg_list, wr->num_sge)});
    }
    run_all();
    return 0;
}

ibv_mw *alloc_mw(ibv_pd *domain, ibv_mw_type type)
{
    const hold guard(all().lock);
    if (is_dead(domain->context))
        return nullptr;
    if (type == IBV_MW_TYPE_2 && !all().has.windows_of_one_peer) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    auto *made = new window{};
    made->context = domain->context;
    made->pd = domain;
    made->type = type;
    made->key = made->rkey = new_number() << 8;
    return made;
}

int bind_mw(ibv_qp *handle, ibv_mw *bound, ibv_mw_bind *wanted)
{
    ibv_send_wr wr{};
    wr.wr_id = wanted->wr_id;
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = wanted->send_flags;
    wr.bind_mw.mw = bound;
    wr.bind_mw.rkey = ibv_inc_rkey(bound->rkey);
    wr.bind_mw.bind_info = wanted->bind_info;
    ibv_send_wr *bad = nullptr;
    const int error = post_send(handle, &wr, &bad);
    if (error == 0)
        bound->rkey = wr.bind_mw.rkey;
    return error;
}

int dealloc_mw(ibv_mw *handle)
{
    const hold guard(all().lock);
    auto *gone = static_cast<window *>(handle);
    all().windows.erase(gone->key);
    delete gone;
    return 0;
}

ibv_mr *register_region(ibv_pd *domain, void *address, std::size_t size, unsigned rights)
{
    const hold guard(all().lock);
    if (is_dead(domain->context))
        return nullptr;
    const bool writes = (rights & (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)) != 0;
    const auto *from = static_cast<const char *>(address);
    const bool of_device = std::any_of(all().memory.begin(), all().memory.end(), [&](auto &each) {
        return from >= each.address && from + size <= each.address + each.size;
    });
    if (!of_device && (rights & IBV_ACCESS_ON_DEMAND) == 0 &&
        osd::look_at_memory(address, size, writes) != osd::memory_use::possible) {
        errno = EFAULT;
        return nullptr;
    }
    const bool lacks = (rights & IBV_ACCESS_ON_DEMAND) != 0 && !all().has.on_demand_paging;
    const bool contradicts = (rights & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0 &&
                             (rights & IBV_ACCESS_LOCAL_WRITE) == 0;
    if (lacks || contradicts) {
        errno = lacks ? EOPNOTSUPP : EINVAL;
        return nullptr;
    }
    auto *made = new region{};
    made->context = domain->context;
    made->pd = domain;
    made->addr = address;
    made->length = size;
    made->rights = rights;
    made->lkey = new_number() << 8;
    made->rkey = new_number() << 8;
    all().local_keys[made->lkey] = made;
    all().remote_keys[made->rkey] = made;
    all().regions.push_back(made);
    return made;
}

} // namespace

ibv_context *open_context()
{
    if (all().failed) {
        errno = EIO;
        return nullptr;
    }
    auto *made = new context;
    verbs_context &api = made->api;
    api.sz = sizeof api;
    api.query_port = query_port;
    api.query_device_ex = query_device_ex;
    api.modify_cq = modify_cq;
    api.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    api.context.device = &the_device;
    api.context.num_comp_vectors = all().has.vectors;
    api.context.cmd_fd = -1;
    api.context.async_fd = made->fails.beside(made->events.fd);
    api.context.ops.poll_cq = poll_cq;
    api.context.ops.req_notify_cq = req_notify_cq;
    api.context.ops.post_send = post_send;
    api.context.ops.post_recv = post_recv;
    api.context.ops.post_srq_recv = post_srq_recv;
    api.context.ops.alloc_mw = alloc_mw;
    api.context.ops.bind_mw = bind_mw;
    api.context.ops.dealloc_mw = dealloc_mw;
    all().contexts.insert(made);
    return &api.context;
}

void close_context(ibv_context *handle)
{
    context *gone = &of(handle);
    all().contexts.erase(gone);
    delete gone;
}

// ------------------------------------------------------------------- what tests ask and order

settings &device()
{
    return all().has;
}

std::vector<int> vectors_in_use()
{
    const hold guard(all().lock);
    std::vector<int> seen;
    for (const completion_queue *each : all().queues)
        seen.push_back(each->vector);
    return seen;
}

std::vector<unsigned> rights_of_regions()
{
    const hold guard(all().lock);
    std::vector<unsigned> seen;
    for (const region *each : all().regions)
        seen.push_back(each->rights);
    return seen;
}

std::size_t inline_posts()
{
    const hold guard(all().lock);
    return all().inline_posts;
}

std::uint8_t class_of_newest_route()
{
    const hold guard(all().lock);
    return all().newest_class;
}

std::size_t times_armed()
{
    const hold guard(all().lock);
    return all().times_armed;
}

void let_arm(bool allowed)
{
    const hold guard(all().lock);
    all().arms = allowed;
}

std::size_t cq_events()
{
    const hold guard(all().lock);
    return all().cq_events;
}

void let_moderate(bool allowed)
{
    const hold guard(all().lock);
    all().moderates = allowed;
}

std::size_t queue_pairs()
{
    const hold guard(all().lock);
    return all().pairs.size();
}

std::size_t identifiers()
{
    const hold guard(all().lock);
    return all().identifiers.size();
}

way newest_way()
{
    const hold guard(all().lock);
    return all().ways.back();
}

std::size_t ways_of_class(int traffic_class)
{
    const hold guard(all().lock);
    return static_cast<std::size_t>(
        std::count_if(all().ways.begin(), all().ways.end(), [traffic_class](const way &each) {
            return each.traffic_class == traffic_class;
        }));
}

void add_device_memory(void *address, std::size_t size, void *behind)
{
    const hold guard(all().lock);
    all().memory.push_back({static_cast<char *>(address), size, static_cast<char *>(behind)});
}

void forget_device_memory()
{
    const hold guard(all().lock);
    all().memory.clear();
}

void fail_all()
{
    all().failed = true;
    ibv_async_event event{};
    event.event_type = IBV_EVENT_DEVICE_FATAL;
    for (context *each : all().contexts) {
        each->dead = true;
        each->events.push(event);
    }
}

void fail()
{
    const hold guard(all().lock);
    fail_all();
}

void restore()
{
    const hold guard(all().lock);
    all().failed = false;
    all().manager = nullptr; // its users keep it
}

void raise_port_event(int type)
{
    const hold guard(all().lock);
    ibv_async_event event{};
    event.event_type = static_cast<ibv_event_type>(type);
    event.element.port_num = 1;
    for (context *each : all().contexts)
        each->events.push(event);
}

void fail_newest_srq()
{
    const hold guard(all().lock);
    shared_queue &failed = *all().shared.back();
    ibv_async_event event{};
    event.event_type = IBV_EVENT_SRQ_ERR;
    event.element.srq = &failed;
    raise(failed.context, event);
}

} // namespace stand_in

// ----------------------------------------------------------------------------- the device

ibv_device **ibv_get_device_list(int *count)
{
    const hold guard(all().lock);
    auto **list = static_cast<ibv_device **>(std::calloc(2, sizeof(ibv_device *)));
    const bool there = !all().failed;
    list[0] = there ? &the_device : nullptr;
    if (count != nullptr)
        *count = there ? 1 : 0;
    return list;
}

void ibv_free_device_list(ibv_device **list)
{
    std::free(list);
}

ibv_context *ibv_open_device(ibv_device *)
{
    const hold guard(all().lock);
    return open_context();
}

int ibv_close_device(ibv_context *handle)
{
    const hold guard(all().lock);
    close_context(handle);
    return 0;
}

int ibv_query_device(ibv_context *, ibv_device_attr *attr)
{
    ibv_device_attr is{};
    std::snprintf(is.fw_ver, sizeof is.fw_ver, "1.2.3");
    is.max_mr_size = UINT64_MAX;
    is.vendor_id = 0x5354;
    is.hw_ver = 1;
    is.max_qp = 65'536;
    is.max_qp_wr = most_requests;
    is.device_cap_flags = IBV_DEVICE_MEM_WINDOW;
    if (device().windows_of_one_peer)
        is.device_cap_flags |= IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS;
    is.max_sge = 32;
    is.max_sge_rd = 32;
    is.max_cq = 65'536;
    is.max_cqe = most_entries;
    is.max_mr = 1 << 20;
    is.max_pd = 65'536;
    is.max_qp_rd_atom = 16;
    is.max_qp_init_rd_atom = 16;
    is.atomic_cap = IBV_ATOMIC_HCA;
    is.max_mw = 1 << 20;
    is.max_srq = 65'536;
    is.max_srq_wr = most_requests;
    is.max_srq_sge = 32;
    is.phys_port_cnt = 1;
    *attr = is;
    return 0;
}

int _ibv_query_gid_ex(ibv_context *, std::uint32_t port, std::uint32_t index, ibv_gid_entry *entry,
                      std::uint32_t, std::size_t size)
{
    const std::uint32_t count = device().ethernet ? 3 : 1;
    if (port != 1 || index >= count)
        return EINVAL;
    ibv_gid_entry is{};
    is.gid_index = index;
    is.port_num = port;
    is.gid_type = IBV_GID_TYPE_IB;
    is.gid.global.subnet_prefix = htobe64(0xfe80000000000000);
    is.gid.global.interface_id = 1;
    if (device().ethernet) {
        is.gid_type = index == 0 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
        is.gid = {};
        is.gid.raw[10] = is.gid.raw[11] = 0xff;
        is.gid.raw[12] = index == 1 ? 192 : 127;
        is.gid.raw[15] = 1;
        is.ndev_ifindex = if_nametoindex("lo");
    }
    std::memcpy(entry, &is, std::min(size, sizeof is));
    return 0;
}

int ibv_get_async_event(ibv_context *handle, ibv_async_event *event)
{
    const hold guard(all().lock);
    if (of(handle).fails.is_there())
        stand_in::fail_all();
    return of(handle).events.pop(*event) ? 0 : -1;
}

void ibv_ack_async_event(ibv_async_event *) {}

// ----------------------------------------------------------------------------- memory

ibv_pd *ibv_alloc_pd(ibv_context *handle)
{
    const hold guard(all().lock);
    if (is_dead(handle))
        return nullptr;
    auto *made = new ibv_pd{};
    made->context = handle;
    return made;
}

int ibv_dealloc_pd(ibv_pd *domain)
{
    delete domain;
    return 0;
}

ibv_mr *ibv_reg_mr(ibv_pd *domain, void *address, std::size_t size, int rights)
{
    return register_region(domain, address, size, static_cast<unsigned>(rights));
}

ibv_mr *ibv_reg_mr_iova2(ibv_pd *domain, void *address, std::size_t size, std::uint64_t,
                         unsigned rights)
{
    return register_region(domain, address, size, rights);
}

int ibv_dereg_mr(ibv_mr *handle)
{
    const hold guard(all().lock);
    auto *gone = static_cast<region *>(handle);
    for (const auto &[key, each] : all().windows)
        if (each->in == gone)
            return EBUSY;
    all().local_keys.erase(gone->lkey);
    all().remote_keys.erase(gone->rkey);
    forget(all().regions, gone);
    delete gone;
    return 0;
}

// ----------------------------------------------------------------------------- completions

ibv_comp_channel *ibv_create_comp_channel(ibv_context *handle)
{
    const hold guard(all().lock);
    if (is_dead(handle))
        return nullptr;
    auto *made = new completion_channel{};
    made->context = handle;
    made->fd = made->events.fd;
    return made;
}

int ibv_destroy_comp_channel(ibv_comp_channel *channel)
{
    const hold guard(all().lock);
    if (channel->refcnt != 0)
        return EBUSY;
    delete static_cast<completion_channel *>(channel);
    return 0;
}

ibv_cq *ibv_create_cq(ibv_context *handle, int entries, void *owner, ibv_comp_channel *channel,
                      int vector)
{
    const hold guard(all().lock);
    if (is_dead(handle))
        return nullptr;
    if (entries < 1 || entries > most_entries || vector < 0 || vector >= handle->num_comp_vectors) {
        errno = EINVAL;
        return nullptr;
    }
    auto *made = new completion_queue{};
    made->context = handle;
    made->channel = channel;
    made->cq_context = owner;
    made->cqe = entries;
    made->vector = vector;
    if (channel != nullptr)
        ++channel->refcnt;
    all().queues.push_back(made);
    return made;
}

int ibv_resize_cq(ibv_cq *handle, int entries)
{
    const hold guard(all().lock);
    auto &c = *static_cast<completion_queue *>(handle);
    if (of(c.context).dead)
        return EIO;
    if (entries > most_entries || entries < static_cast<int>(c.entries.size()))
        return EINVAL;
    c.cqe = entries;
    return 0;
}

int ibv_destroy_cq(ibv_cq *handle)
{
    const hold guard(all().lock);
    auto *gone = static_cast<completion_queue *>(handle);
    if (gone->channel != nullptr) {
        static_cast<completion_channel *>(gone->channel)
            ->events.remove_if([gone](completion_queue *each) { return each == gone; });
        --gone->channel->refcnt;
    }
    of(gone->context).events.remove_if([gone](const ibv_async_event &each) {
        return each.event_type == IBV_EVENT_CQ_ERR && each.element.cq == gone;
    });
    forget(all().queues, gone);
    delete gone;
    return 0;
}

int ibv_get_cq_event(ibv_comp_channel *channel, ibv_cq **cq, void **owner)
{
    const hold guard(all().lock);
    completion_queue *told = nullptr;
    if (!static_cast<completion_channel *>(channel)->events.pop(told))
        return -1;
    *cq = told;
    *owner = told->cq_context;
    return 0;
}

void ibv_ack_cq_events(ibv_cq *, unsigned) {}

// ----------------------------------------------------------------------------- queues

ibv_srq *ibv_create_srq(ibv_pd *domain, ibv_srq_init_attr *wanted)
{
    const hold guard(all().lock);
    if (is_dead(domain->context))
        return nullptr;
    auto *made = new shared_queue{};
    made->context = domain->context;
    made->srq_context = wanted->srq_context;
    made->pd = domain;
    made->room = wanted->attr.max_wr;
    all().shared.push_back(made);
    return made;
}

int ibv_modify_srq(ibv_srq *handle, ibv_srq_attr *wanted, int mask)
{
    const hold guard(all().lock);
    auto &shared = *static_cast<shared_queue *>(handle);
    if (of(shared.context).dead)
        return EIO;
    if ((mask & IBV_SRQ_MAX_WR) != 0) {
        if (wanted->max_wr < shared.receives.size())
            return EINVAL;
        shared.room = wanted->max_wr;
    }
    if ((mask & IBV_SRQ_LIMIT) != 0) {
        shared.limit = wanted->srq_limit;
        if (shared.receives.size() < shared.limit) {
            shared.limit = 0;
            ibv_async_event event{};
            event.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
            event.element.srq = &shared;
            raise(shared.context, event);
        }
    }
    return 0;
}

int ibv_destroy_srq(ibv_srq *handle)
{
    const hold guard(all().lock);
    auto *gone = static_cast<shared_queue *>(handle);
    of(gone->context).events.remove_if([gone](const ibv_async_event &each) {
        return (each.event_type == IBV_EVENT_SRQ_LIMIT_REACHED ||
                each.event_type == IBV_EVENT_SRQ_ERR) &&
               each.element.srq == gone;
    });
    forget(all().shared, gone);
    delete gone;
    return 0;
}

ibv_qp *ibv_create_qp(ibv_pd *domain, ibv_qp_init_attr *wanted)
{
    const hold guard(all().lock);
    if (is_dead(domain->context))
        return nullptr;
    if (wanted->cap.max_send_wr > most_requests || wanted->cap.max_recv_wr > most_requests ||
        wanted->cap.max_inline_data > all().has.max_inline || wanted->qp_type != IBV_QPT_RC) {
        errno = EINVAL;
        return nullptr;
    }
    auto *made = new queue_pair{};
    made->context = domain->context;
    made->qp_context = wanted->qp_context;
    made->pd = domain;
    made->send_cq = wanted->send_cq;
    made->recv_cq = wanted->recv_cq;
    made->srq = wanted->srq;
    made->qp_num = new_number();
    made->state = IBV_QPS_RESET;
    made->qp_type = IBV_QPT_RC;
    made->room = wanted->cap;
    all().pairs[made->qp_num] = made;
    return made;
}

int ibv_modify_qp(ibv_qp *handle, ibv_qp_attr *wanted, int mask)
{
    const hold guard(all().lock);
    auto &q = *static_cast<queue_pair *>(handle);
    if (of(q.context).dead)
        return EIO;
    if ((mask & IBV_QP_DEST_QPN) != 0)
        q.peer = wanted->dest_qp_num;
    if ((mask & IBV_QP_AV) != 0) {
        const ibv_ah_attr &to = wanted->ah_attr;
        all().ways.push_back(
            {to.is_global != 0, to.grh.sgid_index, to.grh.traffic_class, to.sl, wanted->path_mtu});
    }
    if ((mask & IBV_QP_ACCESS_FLAGS) != 0)
        q.rights = wanted->qp_access_flags;
    if ((mask & IBV_QP_RNR_RETRY) != 0)
        q.rnr_retry = wanted->rnr_retry;
    if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0)
        q.reads_in = wanted->max_dest_rd_atomic;
    if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0)
        q.reads_out = wanted->max_rd_atomic;
    if ((mask & IBV_QP_STATE) == 0)
        return 0;
    q.state = wanted->qp_state;
    if (q.state == IBV_QPS_ERR)
        fail_pair(q);
    run(q);
    run_peer_of(q);
    return 0;
}

int ibv_query_qp(ibv_qp *handle, ibv_qp_attr *attr, int, ibv_qp_init_attr *)
{
    const hold guard(all().lock);
    const auto &q = *static_cast<queue_pair *>(handle);
    *attr = {};
    attr->qp_state = q.state;
    attr->cap = q.room;
    attr->max_dest_rd_atomic = q.reads_in;
    attr->max_rd_atomic = q.reads_out;
    return 0;
}

int ibv_destroy_qp(ibv_qp *handle)
{
    const hold guard(all().lock);
    auto *gone = static_cast<queue_pair *>(handle);
    for (const auto &[key, each] : all().windows)
        if (each->in != nullptr && each->bound_by == gone->qp_num)
            return EBUSY;
    // Completions that nobody has polled go with it, as with adapters.
    for (ibv_cq *each : {gone->send_cq, gone->recv_cq}) {
        auto &entries = static_cast<completion_queue *>(each)->entries;
        entries.erase(
            std::remove_if(entries.begin(), entries.end(),
                           [gone](const ibv_wc &entry) { return entry.qp_num == gone->qp_num; }),
            entries.end());
    }
    of(gone->context).events.remove_if([gone](const ibv_async_event &each) {
        return (each.event_type == IBV_EVENT_QP_ACCESS_ERR ||
                each.event_type == IBV_EVENT_QP_REQ_ERR) &&
               each.element.qp == gone;
    });
    all().pairs.erase(gone->qp_num);
    delete gone;
    return 0;
}
