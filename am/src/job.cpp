// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "job.hpp"

#include "introduction.hpp"
#include "osd_address.hpp"
#include "report.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace am {

namespace {

constexpr char adapter_key[] = "dapl-am.adapter";
constexpr char introduction_key[] = "dapl-am.introduction";
constexpr char segment_key[] = "dapl-am.segment";

int report_no_memory(const char *what)
{
    report("no memory for %s", what);
    return DAPL_AM_ERR_RESOURCES;
}

const char *network_of(const DAT_PROVIDER_ATTR &provider)
{
    for (DAT_COUNT i = 0; i < provider.num_provider_specific_attr; ++i) {
        const DAT_NAMED_ATTR &attr = provider.provider_specific_attr[i];
        if (std::strcmp(attr.name, "DAT_IB_PROVIDER_NAME") == 0)
            return attr.value;
    }
    return "";
}

/// DAT lets a write complete when its source is free again. With these networks it completes when
/// the peer's adapter has acknowledged the data; with TCP when TCP has taken them.
bool acknowledges_writes(const char *network)
{
    return std::strcmp(network, "IB") == 0 || std::strcmp(network, "ROCE") == 0 ||
           std::strcmp(network, "soft") == 0;
}

} // namespace

// --- the adapter

int job::try_adapter(const char *name)
{
    // Nothing takes asynchronous events: each connection has room for its one, as a loss is logged.
    const DAT_COUNT room = 8 + context_.size();
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    const DAT_RETURN code = dat_ia_open(const_cast<char *>(name), room, &async, &context_.ia);
    if (code != DAT_SUCCESS) {
        context_.ia = DAT_HANDLE_NULL;
        return DAPL_AM_ERR_ADAPTER;
    }
    (void)std::snprintf(context_.adapter, sizeof context_.adapter, "%s", name);
    return DAPL_AM_OK;
}

bool job::is_loopback()
{
    DAT_IA_ATTR attr{};
    if (dat_ia_query(context_.ia, nullptr, DAT_IA_FIELD_IA_ADDRESS_PTR, &attr, 0, nullptr) !=
        DAT_SUCCESS)
        return false;
    return osd::address::is_loopback(reinterpret_cast<const sockaddr *>(attr.ia_address_ptr));
}

/// `reaches_others`: one at a loopback address will not do.
int job::open_first(bool reaches_others)
{
    constexpr int most = 64;
    const std::unique_ptr<DAT_PROVIDER_INFO[]> infos(new (std::nothrow) DAT_PROVIDER_INFO[most]);
    if (infos == nullptr)
        return report_no_memory("the names of adapters");
    DAT_PROVIDER_INFO *pointers[most];
    for (std::size_t i = 0; i < most; ++i)
        pointers[i] = &infos[i];
    DAT_COUNT count = 0;
    if (dat_registry_list_providers(most, &count, pointers) != DAT_SUCCESS)
        count = 0;
    bool some_open = false;
    for (int i = 0; i < std::min(count, most); ++i) {
        if (try_adapter(pointers[i]->ia_name) != DAPL_AM_OK)
            continue;
        if (!reaches_others || !is_loopback())
            return DAPL_AM_OK;
        some_open = true;
        (void)dat_ia_close(context_.ia, DAT_CLOSE_ABRUPT_FLAG);
        context_.ia = DAT_HANDLE_NULL;
        *context_.adapter = '\0';
    }
    if (some_open)
        report(
            "the job has ranks on several hosts, and each adapter in dat.conf that opens is at a "
            "loopback address; dat-info --suggest writes lines for others");
    else
        report("none of the %d adapters in dat.conf opens; dat-info tells why", count);
    return DAPL_AM_ERR_ADAPTER;
}

int job::open_named(const char *name)
{
    if (try_adapter(name) == DAPL_AM_OK)
        return DAPL_AM_OK;
    report("the adapter \"%s\"%s does not open; dat-info tells why", name,
           *context_.set.adapter == '\0' ? ", which rank 0 has chosen," : "");
    return DAPL_AM_ERR_ADAPTER;
}

/// Ranks on several hosts, which may have several dat.conf: rank 0 chooses for all that name none.
int job::open_same()
{
    job_context &c = context_;
    const bool is_named = *c.set.adapter != '\0';
    const bool chooses = !is_named && c.rank() == 0;
    const int chosen = chooses ? open_first(true) : DAPL_AM_OK;
    char name[DAT_NAME_MAX_LENGTH] = "";
    (void)std::snprintf(name, sizeof name, "%s", is_named ? c.set.adapter : c.adapter);
    int status = c.starter.publish(adapter_key, name, sizeof name);
    if (status == DAPL_AM_OK)
        status = c.starter.exchange(adapter_key, c.set.setup_timeout);
    if (status == DAPL_AM_OK && !is_named && !chooses)
        status = c.starter.lookup(0, adapter_key, name, sizeof name, c.set.setup_timeout);
    if (status != DAPL_AM_OK || chooses)
        return status != DAPL_AM_OK ? status : chosen;
    return *name != '\0' ? open_named(name) : DAPL_AM_ERR_ADAPTER; // rank 0 has said why
}

int job::open_adapter()
{
    if (context_.starter.local_size() < context_.size())
        return open_same();
    return *context_.set.adapter != '\0' ? open_named(context_.set.adapter) : open_first(false);
}

int job::query_adapter()
{
    DAT_IA_ATTR attr{};
    DAT_PROVIDER_ATTR provider{};
    DAT_RETURN code = dat_ia_query(context_.ia, nullptr, DAT_IA_FIELD_ALL, &attr,
                                   DAT_PROVIDER_FIELD_ALL, &provider);
    if (code == DAT_SUCCESS)
        code = dat_pz_create(context_.ia, &context_.pz);
    if (code != DAT_SUCCESS) {
        report("adapter \"%s\": %s", context_.adapter, dat_text(code));
        return DAPL_AM_ERR_RESOURCES;
    }
    context_.confirms_writes = !acknowledges_writes(network_of(provider));
    (void)std::snprintf(network_, sizeof network_, "%s", network_of(provider));
    context_.max_rdma =
        std::min<DAT_SEG_LENGTH>(attr.max_rdma_size, 1U << 30) & ~DAT_SEG_LENGTH{4095};
    location &own = context_.peer_of_rank(context_.rank()).place;
    const DAT_SOCK_ADDR *address = attr.ia_address_ptr;
    std::memcpy(&own.address, address,
                address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    context_.buffers.open(context_.ia, context_.pz);
    return links_.open(own);
}

// --- meeting the other ranks

int job::introduce()
{
    job_context &c = context_;
    if (c.size() == 1)
        return DAPL_AM_OK;
    if (c.rank() == 0 && !c.key.make())
        return DAPL_AM_ERR_RESOURCES;
    const introduction own = introduction::make(c, network_);
    int status = c.starter.publish(introduction_key, &own, sizeof own);
    if (status == DAPL_AM_OK)
        status = c.starter.exchange(introduction_key, c.set.setup_timeout);
    introduction first = own;
    int agreed = DAPL_AM_OK;
    for (int rank = 0; rank < c.size() && status == DAPL_AM_OK; ++rank) {
        introduction other = own;
        if (rank != c.rank())
            status =
                c.starter.lookup(rank, introduction_key, &other, sizeof other, c.set.setup_timeout);
        if (rank == 0)
            first = other;
        c.peer_of_rank(rank).place = other.place;
        if (status == DAPL_AM_OK && agreed == DAPL_AM_OK)
            agreed = first.compare(other, rank, c.rank());
    }
    c.key = first.key;
    if (status != DAPL_AM_OK || agreed != DAPL_AM_OK)
        return status != DAPL_AM_OK ? status : agreed;
    if (!c.key.is_made())
        report("rank 0 has published no secret of the job");
    return c.key.is_made() ? DAPL_AM_OK : DAPL_AM_ERR_LAUNCHER;
}

int job::open(const DAPL_AM_OPTIONS *options)
{
    job_context &c = context_;
    int status = c.starter.start();
    if (status == DAPL_AM_OK)
        status = c.set.load(options);
    if (status != DAPL_AM_OK)
        return status;
    c.crowded = c.starter.local_size() > sysconf(_SC_NPROCESSORS_ONLN);
    c.peers.reset(new (std::nothrow) peer[static_cast<std::size_t>(c.size())]);
    if (c.peers == nullptr)
        return report_no_memory("the other ranks");
    for (int rank = 0; rank < c.size(); ++rank) {
        c.peer_of_rank(rank).rank = rank;
        c.peer_of_rank(rank).job = &c;
    }
    status = open_adapter();
    if (status == DAPL_AM_OK)
        status = query_adapter();
    return status == DAPL_AM_OK ? introduce() : status;
}

int job::serve()
{
    const int status = links_.serve();
    if (status == DAPL_AM_OK)
        context_.stage = job_stage::initialized;
    return status;
}

// --- the segment

int job::exchange_segments()
{
    job_context &c = context_;
    if (c.size() == 1)
        return DAPL_AM_OK;
    int status = c.starter.publish(segment_key, &c.own_segment, sizeof c.own_segment);
    if (status == DAPL_AM_OK)
        status = c.starter.exchange(segment_key, c.set.setup_timeout);
    for (int rank = 0; rank < c.size() && status == DAPL_AM_OK; ++rank)
        if (rank != c.rank())
            status = c.starter.lookup(rank, segment_key, &c.peer_of_rank(rank).memory,
                                      sizeof(segment), c.set.setup_timeout);
    return status;
}

int job::make_segment(std::size_t size)
{
    job_context &c = context_;
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t rounded = (size + page - 1) / page * page;
    if (rounded < size || rounded > PTRDIFF_MAX - barrier::area_size) {
        report("dapl_am_attach: a segment of %zu bytes", size);
        return DAPL_AM_ERR_RESOURCES;
    }
    const std::size_t length = rounded + barrier::area_size;
    void *memory =
        mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        report("dapl_am_attach: no memory for a segment of %zu bytes", size);
        return DAPL_AM_ERR_RESOURCES;
    }
    DAT_REGION_DESCRIPTION region{};
    region.for_va = memory;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    const DAT_RETURN code = dat_lmr_create(
        c.ia, DAT_MEM_TYPE_VIRTUAL, region, length, c.pz, DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA,
        &lmr, &c.segment_context, &c.own_segment.context, nullptr, nullptr);
    if (code != DAT_SUCCESS) {
        report("dapl_am_attach: dat_lmr_create of %zu bytes: %s; is the limit of locked memory "
               "(ulimit -l) too low?",
               length, dat_text(code));
        munmap(memory, length);
        return DAPL_AM_ERR_RESOURCES;
    }
    c.own_segment.base = reinterpret_cast<std::uint64_t>(memory);
    c.own_segment.size = rounded;
    c.peer_of_rank(c.rank()).memory = c.own_segment;
    barrier_.set_area(static_cast<std::byte *>(memory) + rounded);
    return DAPL_AM_OK;
}

void job::connect_all()
{
    job_context &c = context_;
    for (int rank = 0; rank < c.size(); ++rank)
        if (rank != c.rank())
            (void)links_.ensure(c.peer_of_rank(rank));
    for (int rank = 0; rank < c.size(); ++rank)
        if (rank != c.rank())
            progress_.await_connection(c.peer_of_rank(rank));
}

int job::attach(DAPL_AM_HANDLER *handlers, int count, std::size_t segment_size)
{
    job_context &c = context_;
    if (c.stage != job_stage::initialized)
        return DAPL_AM_ERR_STATE;
    int status = messages_.set_handlers(handlers, count);
    if (status == DAPL_AM_OK)
        status = make_segment(segment_size);
    if (status == DAPL_AM_OK)
        status = exchange_segments();
    if (status == DAPL_AM_OK && c.size() > 1)
        status = cache_.open();
    if (status == DAPL_AM_OK && c.set.receive_thread)
        status = progress_.start_receive_thread();
    if (status != DAPL_AM_OK)
        return status;
    c.stage = job_stage::attached;
    if (c.set.connect_all)
        connect_all();
    return DAPL_AM_OK;
}

void job::fill(DAPL_AM_COUNTERS &out) const
{
    const messenger::counters &counted = messages_.counted();
    out = {counted.requests,
           counted.replies,
           counted.credit_messages,
           progress_.credit_waits(),
           links_.established(),
           context_.buffers.made(),
           context_.buffers.locks(),
           progress_.polls_with_work(),
           cache_.made(),
           cache_.hits(),
           memory_.confirmations()};
}

} // namespace am
