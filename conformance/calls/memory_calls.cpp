// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Zones, regions, windows and shared receive queues.
#include "calls/answers.hpp"

namespace conformance {
namespace {

// ----------------------------------------------------------------------------------------- zones

struct zone_subject {
    adapter ia;
    DAT_PZ_HANDLE pz = make_pz(ia);
    std::unique_ptr<region> memory;
    DAT_HANDLE out = DAT_HANDLE_NULL;
};

using zone_entry = std::unique_ptr<zone_subject>;

zone_entry unused_zone()
{
    return std::make_unique<zone_subject>();
}

zone_entry zone_in_use()
{
    zone_entry made = unused_zone();
    made->memory = std::make_unique<region>(made->ia, made->pz, 4096);
    return made;
}

zone_entry freed_zone()
{
    zone_entry made = unused_zone();
    MUST(dat_pz_free(made->pz));
    return made;
}

answer query_zone(zone_subject &s)
{
    DAT_PZ_PARAM param{};
    return dat_pz_query(s.pz, DAT_PZ_FIELD_ALL, &param);
}

// --------------------------------------------------------------------------- regions and windows

/// A region and, where the adapter has any, a window, of an endpoint that is connected.
struct memory_subject {
    adapter ia;
    connected_pair pair{ia};
    region memory{ia, pair.active.pz, 4096};
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;

    bool has_window() { return dat_rmr_create(pair.active.pz, &rmr) == DAT_SUCCESS; }
    DAT_RETURN bind(std::size_t length, DAT_VA_TYPE addressing = DAT_VA_TYPE_VA)
    {
        const DAT_LMR_TRIPLET part = memory.local(0, length);
        DAT_RMR_CONTEXT context = 0;
        return dat_rmr_bind(rmr, memory.lmr, &part, DAT_MEM_PRIV_REMOTE_READ_FLAG, addressing,
                            pair.active.ep, cookie_of(0), DAT_COMPLETION_DEFAULT_FLAG, &context);
    }
};

using memory_entry = std::unique_ptr<memory_subject>;

memory_entry registered_region()
{
    return std::make_unique<memory_subject>();
}

memory_entry unbound_window()
{
    memory_entry made = registered_region();
    return made->has_window() ? std::move(made) : nullptr;
}

memory_entry bound_window()
{
    memory_entry made = unbound_window();
    if (made == nullptr)
        return made;
    MUST(made->bind(64));
    (void)next_event(made->pair.active.request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
    return made;
}

memory_entry freed_region()
{
    memory_entry made = registered_region();
    MUST(dat_lmr_free(made->memory.lmr));
    return made;
}

memory_entry freed_window()
{
    memory_entry made = unbound_window();
    if (made != nullptr)
        MUST(dat_rmr_free(made->rmr));
    return made;
}

answer query_region(memory_subject &s)
{
    DAT_LMR_PARAM param{};
    return dat_lmr_query(s.memory.lmr, DAT_LMR_FIELD_ALL, &param);
}

answer query_window(memory_subject &s)
{
    DAT_RMR_PARAM param{};
    return dat_rmr_query(s.rmr, DAT_RMR_FIELD_ALL, &param);
}

answer register_it_again(memory_subject &s)
{
    DAT_REGION_DESCRIPTION where{};
    where.for_lmr_handle = s.memory.lmr;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    return dat_lmr_create(s.ia.handle, DAT_MEM_TYPE_LMR, where, 4096, s.pair.active.pz, all_rights,
                          DAT_VA_TYPE_VA, &lmr, nullptr, nullptr, nullptr, nullptr);
}

template <decltype(dat_lmr_sync_rdma_read) *sync>
answer synchronize_it(memory_subject &s)
{
    const DAT_LMR_TRIPLET part = s.memory.local(0, 64);
    return sync(s.ia.handle, &part, 1);
}

// ------------------------------------------------------------------------- shared receive queues

constexpr DAT_COUNT some = 4;

struct queue_subject {
    adapter ia;
    test_endpoint own{ia};
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;

    DAT_RETURN post()
    {
        DAT_LMR_TRIPLET local = own.memory.local(0, 64);
        return dat_srq_post_recv(srq, 1, &local, cookie_of(0));
    }
    DAT_RETURN attach()
    {
        return dat_ep_create_with_srq(ia.handle, own.pz, own.recv_evd, own.request_evd,
                                      own.connect_evd, srq, nullptr, &ep);
    }
};

using queue_entry = std::unique_ptr<queue_subject>;

queue_entry empty_queue()
{
    auto made = std::make_unique<queue_subject>();
    DAT_SRQ_ATTR attr{2 * some, 1, DAT_SRQ_LW_DEFAULT};
    const bool there =
        dat_srq_create(made->ia.handle, made->own.pz, &attr, &made->srq) == DAT_SUCCESS;
    return there ? std::move(made) : nullptr;
}

queue_entry filled_queue()
{
    queue_entry made = empty_queue();
    for (int i = 0; made != nullptr && i < some; ++i)
        MUST(made->post());
    return made;
}

queue_entry full_queue()
{
    queue_entry made = empty_queue();
    while (made != nullptr && made->post() == DAT_SUCCESS)
        ;
    return made;
}

queue_entry attached_queue()
{
    queue_entry made = empty_queue();
    if (made != nullptr)
        MUST(made->attach());
    return made;
}

queue_entry freed_queue()
{
    queue_entry made = empty_queue();
    if (made != nullptr)
        MUST(dat_srq_free(made->srq));
    return made;
}

answer query_queue(queue_subject &s)
{
    DAT_SRQ_PARAM param{};
    return dat_srq_query(s.srq, DAT_SRQ_FIELD_ALL, &param);
}

answer receive_beside_queue(queue_subject &s)
{
    DAT_LMR_TRIPLET local = s.own.memory.local(0, 64);
    if (s.ep == DAT_HANDLE_NULL)
        return {};
    return dat_ep_post_recv(s.ep, 1, &local, cookie_of(0), DAT_COMPLETION_DEFAULT_FLAG);
}

answer query_taken(queue_subject &s)
{
    DAT_COUNT buffers = 0;
    DAT_COUNT span = 0;
    return s.ep == DAT_HANDLE_NULL ? answer{} : dat_ep_recv_query(s.ep, &buffers, &span);
}

answer set_watermark_of_taken(queue_subject &s)
{
    return s.ep == DAT_HANDLE_NULL ? answer{} : dat_ep_set_watermark(s.ep, 1, 2);
}

} // namespace

std::vector<probing> memory_probings()
{
    std::vector<probing> all = probings_of<zone_subject>(
        "PZ", {{"unused", unused_zone}, {"in use", zone_in_use}, {"freed", freed_zone}},
        {
            {"dat_pz_query", "", query_zone},
            {"dat_rmr_create", "", [](zone_subject &s) { return dat_rmr_create(s.pz, &s.out); }},
            {"dat_rmr_create_for_ep", "",
             [](zone_subject &s) { return IF_THERE(dat_rmr_create_for_ep, s.pz, &s.out); }},
            {"dat_pz_free", "", [](zone_subject &s) { return dat_pz_free(s.pz); }},
        });
    const auto add = [&all](std::vector<probing> more) {
        for (probing &each : more)
            all.push_back(std::move(each));
    };
    add(probings_of<memory_subject>(
        "LMR",
        {{"registered", registered_region},
         {"a window is bound", bound_window},
         {"freed", freed_region}},
        {
            {"dat_lmr_query", "", query_region},
            {"dat_lmr_create", "of it", register_it_again},
            {"dat_lmr_sync_rdma_read", "of it", synchronize_it<&dat_lmr_sync_rdma_read>},
            {"dat_lmr_sync_rdma_write", "of it", synchronize_it<&dat_lmr_sync_rdma_write>},
            {"dat_lmr_free", "", [](memory_subject &s) { return dat_lmr_free(s.memory.lmr); }},
        }));
    add(probings_of<memory_subject>(
        "RMR", {{"unbound", unbound_window}, {"bound", bound_window}, {"freed", freed_window}},
        {
            {"dat_rmr_query", "", query_window},
            {"dat_rmr_bind", "", [](memory_subject &s) { return s.bind(64); }},
            {"dat_rmr_bind", "no length", [](memory_subject &s) { return s.bind(0); }},
            {"dat_rmr_bind", "zero-based",
             [](memory_subject &s) { return s.bind(64, DAT_VA_TYPE_ZB); }},
            {"dat_rmr_free", "", [](memory_subject &s) { return dat_rmr_free(s.rmr); }},
        }));
    return all;
}

std::vector<probing> shared_queue_probings()
{
    return probings_of<queue_subject>(
        "SRQ",
        {{"empty", empty_queue},
         {"with receives", filled_queue},
         {"full", full_queue},
         {"of an endpoint", attached_queue},
         {"freed", freed_queue}},
        {
            {"dat_srq_query", "", query_queue},
            {"dat_srq_post_recv", "", [](queue_subject &s) { return s.post(); }},
            {"dat_srq_resize", "longer",
             [](queue_subject &s) { return dat_srq_resize(s.srq, 64 * some); }},
            {"dat_srq_resize", "to 1", [](queue_subject &s) { return dat_srq_resize(s.srq, 1); }},
            {"dat_srq_set_lw", "", [](queue_subject &s) { return dat_srq_set_lw(s.srq, 2); }},
            {"dat_ep_create_with_srq", "of it", [](queue_subject &s) { return s.attach(); }},
            {"dat_ep_post_recv", "of its endpoint", receive_beside_queue},
            {"dat_ep_recv_query", "of its endpoint", query_taken},
            {"dat_ep_set_watermark", "of its endpoint", set_watermark_of_taken},
            {"dat_srq_free", "", [](queue_subject &s) { return dat_srq_free(s.srq); }},
        });
}

} // namespace conformance
