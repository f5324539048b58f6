// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "job.hpp"

#include "barrier.hpp"
#include "dapl_am.h"
#include "ending.hpp"
#include "lasting.hpp"
#include "links.hpp"
#include "messages.hpp"
#include "posts.hpp"
#include "registrations.hpp"
#include "report.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

namespace am {

job &the_job = lasting<job>();
thread_local int in_handler = 0;

namespace {

constexpr char introduction_key[] = "dapl-am.introduction";
constexpr char segment_key[] = "dapl-am.segment";

void idle_in_set_up()
{
    ending::stand_if_begun();
    usleep(200);
}

int no_memory(const char *what)
{
    report("no memory for %s", what);
    return DAPL_AM_ERR_RESOURCES;
}

/// Leaves the core to its other thread for a moment, where it has one.
void relax()
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#elif defined __aarch64__
    asm volatile("yield");
#endif
}

} // namespace

std::int64_t now()
{
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return std::int64_t{time.tv_sec} * 1'000'000 + time.tv_nsec / 1000;
}

void idle_wait::pause(bool worked)
{
    ending::stand_if_begun();
    if (worked) {
        empty_ = 0;
        return;
    }
    ++empty_;
    // Where ranks share processors, what this one waits for needs the processor.
    const unsigned spins = the_job.crowded() ? 0 : 1000;
    const unsigned yields = the_job.crowded() ? 50 : 20'000;
    if (empty_ <= spins)
        relax();
    else if (empty_ <= spins + yields)
        sched_yield();
    else
        usleep(std::min(20 * (empty_ - spins - yields), 500U));
}

int job::try_adapter(const char *name)
{
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    const DAT_RETURN code = dat_ia_open(const_cast<char *>(name), 8, &async, &ia);
    if (code != DAT_SUCCESS) {
        ia = DAT_HANDLE_NULL;
        return DAPL_AM_ERR_ADAPTER;
    }
    (void)std::snprintf(adapter, sizeof adapter, "%s", name);
    return DAPL_AM_OK;
}

namespace {

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

/// @return whether they are the same; else both ranks, and rank 0, say so
template <typename... Values>
bool must_agree(bool same, bool tells, const char *format, Values... values)
{
    if (!same && tells)
        report(format, values...);
    return same;
}

} // namespace

int job::open_first()
{
    constexpr int most = 64;
    const std::unique_ptr<DAT_PROVIDER_INFO[]> infos(new (std::nothrow) DAT_PROVIDER_INFO[most]);
    if (!infos)
        return no_memory("the names of adapters");
    DAT_PROVIDER_INFO *pointers[most];
    for (int i = 0; i < most; ++i)
        pointers[i] = &infos[std::size_t(i)];
    DAT_COUNT count = 0;
    if (dat_registry_list_providers(most, &count, pointers) != DAT_SUCCESS)
        count = 0;
    for (int i = 0; i < std::min(count, most); ++i)
        if (try_adapter(infos[std::size_t(i)].ia_name) == DAPL_AM_OK)
            return DAPL_AM_OK;
    report("none of the %d adapters in dat.conf opens; dat-info tells why", int(count));
    return DAPL_AM_ERR_ADAPTER;
}

int job::open_adapter()
{
    if (*set.adapter == '\0') {
        if (const int status = open_first(); status != DAPL_AM_OK)
            return status;
    } else if (try_adapter(set.adapter) != DAPL_AM_OK) {
        report("the adapter \"%s\" does not open; dat-info tells why", set.adapter);
        return DAPL_AM_ERR_ADAPTER;
    }
    DAT_IA_ATTR attr{};
    DAT_PROVIDER_ATTR provider{};
    DAT_RETURN code =
        dat_ia_query(ia, nullptr, DAT_IA_FIELD_ALL, &attr, DAT_PROVIDER_FIELD_ALL, &provider);
    if (code == DAT_SUCCESS)
        code = dat_pz_create(ia, &pz);
    if (code != DAT_SUCCESS) {
        report("adapter \"%s\": %s", adapter, dat_text(code));
        return DAPL_AM_ERR_RESOURCES;
    }
    confirms_writes = !acknowledges_writes(network_of(provider));
    (void)std::snprintf(network_, sizeof network_, "%s", network_of(provider));
    max_rdma = std::min<DAT_SEG_LENGTH>(attr.max_rdma_size, 1U << 30) & ~DAT_SEG_LENGTH{4095};
    location &mine_at = peers[std::size_t(rank())].place;
    const DAT_SOCK_ADDR *address = attr.ia_address_ptr;
    std::memcpy(&mine_at.address, address,
                address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    buffers.open(ia, pz);
    return links::open(mine_at);
}

introduction job::own_introduction()
{
    introduction made{};
    made.place = at(rank()).place;
    made.key = key;
    made.credits = set.credits;
    made.put_barrier = set.put_barrier;
    std::memcpy(made.network, network_, sizeof made.network);
    (void)std::snprintf(made.adapter, sizeof made.adapter, "%.47s", adapter);
    return made;
}

/// What would let the ranks wait for each other for ever, or never connect.
int job::compare(const introduction &first, const introduction &other, int who) const
{
    const bool tells = rank() == 0 || rank() == who;
    bool good = must_agree(first.credits == other.credits, tells,
                           "rank %d has DAPL_AM_CREDITS %u, rank 0 has %u: they must be the same",
                           who, other.credits, first.credits);
    good &= must_agree(first.put_barrier == other.put_barrier, tells,
                       "rank %d has DAPL_AM_PUT_BARRIER %u, rank 0 has %u: they must be the same",
                       who, other.put_barrier, first.put_barrier);
    good &=
        must_agree(std::strncmp(first.network, other.network, sizeof first.network) == 0, tells,
                   "rank %d is on adapter %.48s (network %.16s), rank 0 on %.48s (network %.16s): "
                   "they cannot connect; set DAPL_AM_ADAPTER on all ranks",
                   who, other.adapter, other.network, first.adapter, first.network);
    return good ? DAPL_AM_OK : DAPL_AM_ERR_ARGUMENT;
}

int job::introduce()
{
    if (size() == 1)
        return DAPL_AM_OK;
    if (rank() == 0 && !key.make())
        return DAPL_AM_ERR_RESOURCES;
    const introduction own = own_introduction();
    int status = starter.publish(introduction_key, &own, sizeof own);
    if (status == DAPL_AM_OK)
        status = starter.exchange(introduction_key, set.setup_timeout, idle_in_set_up);
    introduction first = own;
    int agreed = DAPL_AM_OK;
    for (int i = 0; i < size() && status == DAPL_AM_OK; ++i) {
        introduction other = own;
        if (i != rank())
            status = starter.lookup(i, introduction_key, &other, sizeof other);
        if (i == 0)
            first = other;
        at(i).place = other.place;
        if (status == DAPL_AM_OK && agreed == DAPL_AM_OK)
            agreed = compare(first, other, i);
    }
    key = first.key;
    if (status != DAPL_AM_OK || agreed != DAPL_AM_OK)
        return status != DAPL_AM_OK ? status : agreed;
    if (!key.is_made())
        report("rank 0 has published no secret of the job");
    return key.is_made() ? DAPL_AM_OK : DAPL_AM_ERR_LAUNCHER;
}

int job::open(const DAPL_AM_OPTIONS *options)
{
    int status = starter.start();
    if (status == DAPL_AM_OK)
        status = set.load(options);
    if (status != DAPL_AM_OK)
        return status;
    crowded_ = starter.local_size() > sysconf(_SC_NPROCESSORS_ONLN);
    peers.reset(new (std::nothrow) peer[std::size_t(size())]);
    if (!peers)
        return no_memory("the other ranks");
    for (int i = 0; i < size(); ++i)
        at(i).rank = i;
    status = open_adapter();
    if (status == DAPL_AM_OK)
        status = introduce();
    if (status == DAPL_AM_OK)
        status = ending::open();
    // Others may ask this rank to end, or to talk, as soon as the thread runs.
    if (status == DAPL_AM_OK)
        status = links::serve();
    return status;
}

int job::exchange_segments()
{
    if (size() == 1)
        return DAPL_AM_OK;
    int status = starter.publish(segment_key, &mine, sizeof mine);
    if (status == DAPL_AM_OK)
        status = starter.exchange(segment_key, set.setup_timeout, idle_in_set_up);
    for (int i = 0; i < size() && status == DAPL_AM_OK; ++i)
        if (i != rank())
            status = starter.lookup(i, segment_key, &at(i).memory, sizeof(segment));
    return status;
}

int job::attach(std::size_t segment_size)
{
    const std::size_t page = std::size_t(sysconf(_SC_PAGESIZE));
    const std::size_t rounded = (segment_size + page - 1) / page * page;
    if (rounded < segment_size || rounded > PTRDIFF_MAX - barrier::area_size) {
        report("dapl_am_attach: a segment of %zu bytes", segment_size);
        return DAPL_AM_ERR_RESOURCES;
    }
    const std::size_t length = rounded + barrier::area_size;
    void *memory =
        mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        report("dapl_am_attach: no memory for a segment of %zu bytes", segment_size);
        return DAPL_AM_ERR_RESOURCES;
    }
    DAT_REGION_DESCRIPTION region{};
    region.for_va = memory;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    const DAT_RETURN code =
        dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, length, pz, DAT_MEM_PRIV_ALL_FLAG,
                       DAT_VA_TYPE_VA, &lmr, &segment_context, &mine.context, nullptr, nullptr);
    if (code != DAT_SUCCESS) {
        report("dapl_am_attach: dat_lmr_create of %zu bytes: %s; is the limit of locked memory "
               "(ulimit -l) too low?",
               length, dat_text(code));
        munmap(memory, length);
        return DAPL_AM_ERR_RESOURCES;
    }
    mine.base = reinterpret_cast<std::uint64_t>(memory);
    mine.size = rounded;
    at(rank()).memory = mine;
    barrier::set_area(static_cast<std::byte *>(memory) + rounded);
    return exchange_segments();
}

} // namespace am

using namespace am;

int dapl_am_init(const DAPL_AM_OPTIONS *options)
{
    static std::atomic<bool> called;
    if (called.exchange(true)) {
        report("dapl_am_init: called before");
        return DAPL_AM_ERR_STATE;
    }
    const int status = the_job.open(options);
    if (status == DAPL_AM_OK)
        the_job.stage = 1;
    return status;
}

int dapl_am_rank(void)
{
    return the_job.rank();
}

int dapl_am_size(void)
{
    return the_job.size();
}

const char *dapl_am_adapter(void)
{
    return the_job.adapter;
}

int dapl_am_attach(DAPL_AM_HANDLER *handlers, int count, size_t segment_size)
{
    if (the_job.stage != 1)
        return DAPL_AM_ERR_STATE;
    int status = set_handlers(handlers, count);
    if (status == DAPL_AM_OK)
        status = the_job.attach(segment_size);
    if (status == DAPL_AM_OK && the_job.size() > 1)
        status = registrations::open();
    if (status == DAPL_AM_OK && the_job.set.receive_thread)
        status = start_receive_thread();
    if (status != DAPL_AM_OK)
        return status;
    the_job.stage = 2;
    for (int i = 0; the_job.set.connect_all && i < the_job.size(); ++i)
        if (i != the_job.rank())
            (void)links::ensure(the_job.at(i));
    for (int i = 0; the_job.set.connect_all && i < the_job.size(); ++i)
        if (i != the_job.rank())
            (void)await_connection(the_job.at(i), 0);
    return DAPL_AM_OK;
}

int dapl_am_segment(int rank, void **address, size_t *size)
{
    if (the_job.stage < 2)
        return DAPL_AM_ERR_STATE;
    if (!the_job.valid(rank))
        return DAPL_AM_ERR_RANK;
    if (!address || !size)
        return DAPL_AM_ERR_ARGUMENT;
    const segment &memory = the_job.at(rank).memory;
    *address = memory.size > 0 ? reinterpret_cast<void *>(memory.base) : nullptr;
    *size = memory.size;
    return DAPL_AM_OK;
}
