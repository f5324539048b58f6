// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "opening.hpp"

#include "channel.hpp"
#include "dat_link.hpp"
#include "peer_process.hpp"
#include "program/failure.hpp"
#include "program/system.hpp"
#include "statistics.hpp"

#include <array>
#include <cstdio>
#include <cstring>
#ifdef BENCH_FI
#include <rdma/fi_domain.h>
#endif

namespace bench {

namespace {

constexpr std::size_t fewest = 5; ///< processes for a median
const char *const embedded = "soft-lo";

struct report {
    double us = 0;
    char provider[32] = {}; ///< name of libfabric's provider, if the adapter has one
};

void name_provider(const dat_adapter &adapter, report &told)
{
    if (std::strcmp(adapter.attr().vendor_name, "libfabric") != 0)
        return;
    DAT_PROVIDER_ATTR attr{};
    program::must("dat_ia_query",
                  dat_ia_query(adapter.ia(), nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL, &attr));
    for (DAT_COUNT i = 0; i < attr.num_provider_specific_attr; ++i) {
        const DAT_NAMED_ATTR &each = attr.provider_specific_attr[i];
        if (std::strcmp(each.name, "DAT_IB_PROVIDER_NAME") == 0)
            std::snprintf(told.provider, sizeof told.provider, "%s", each.value);
    }
}

/// Runs work(report, done) in this process and tells the first one the report, with the time until
/// the work was done.
template <class Work>
void tell_time(channel &first, Work work)
{
    report told;
    const auto start = clock::now();
    work(told, [&] { told.us = seconds(clock::now() - start).count() * 1e6; });
    first.send(told);
}

#ifdef BENCH_FI
template <class Function>
Function *function(void *library, const char *name)
{
    void *const found = program::symbol_in(library, name);
    if (found == nullptr)
        throw program::failure(std::string("libfabric has no ") + name);
    return reinterpret_cast<Function *>(found);
}

/// Loads libfabric, as a provider library does, and asks it for message endpoints of one provider.
void ask_libfabric(channel &first, const std::string &provider)
{
    tell_time(first, [&](report &, auto done) {
        std::string why;
        void *const library = program::load_library("libfabric.so.1", why);
        if (library == nullptr)
            throw program::failure(why);
        const auto dupinfo = function<decltype(fi_dupinfo)>(library, "fi_dupinfo");
        const auto getinfo = function<decltype(fi_getinfo)>(library, "fi_getinfo");
        fi_info *const hints = dupinfo(nullptr);
        hints->caps = FI_MSG | FI_RMA;
        hints->ep_attr->type = FI_EP_MSG;
        hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
        hints->fabric_attr->prov_name = strdup(provider.c_str());
        fi_info *found = nullptr;
        if (getinfo(FI_VERSION(1, 11), nullptr, nullptr, 0, hints, &found) != 0)
            throw program::failure("fi_getinfo has no message endpoints of " + provider);
        done();
    });
}
const peer_role asking_libfabric{"libfabric", ask_libfabric};
#endif

void open_adapter(channel &first, const std::string &name)
{
    tell_time(first, [&](report &told, auto done) {
        const dat_adapter adapter(name);
        done();
        name_provider(adapter, told);
    });
}

const peer_role opening_role{"open", open_adapter};

report in_fresh_process(const peer_role &what, const std::string &argument, double limit_s)
{
    auto [child, peer] = peer_process::start(what, argument);
    const auto told = peer.receive<report>(seconds(limit_s));
    if (!child.ended_well(seconds(limit_s)))
        throw program::failure("a process that was to open an adapter exited abnormally");
    return told;
}

/// Asks the registry, which a libdat2 over DAT 1.2 need not have.
bool is_registered(const char *name)
{
    using list_function = DAT_RETURN(DAT_COUNT, DAT_COUNT *, DAT_PROVIDER_INFO *[]);
    void *const list = program::find_symbol("dat_registry_list_providers");
    std::array<DAT_PROVIDER_INFO, 256> entries{};
    std::array<DAT_PROVIDER_INFO *, 256> pointers{};
    for (std::size_t i = 0; i < entries.size(); ++i)
        pointers[i] = &entries[i];
    DAT_COUNT count = 0;
    if (list == nullptr || reinterpret_cast<list_function *>(list)(pointers.size(), &count,
                                                                   pointers.data()) != DAT_SUCCESS)
        return false;
    for (DAT_COUNT i = 0; i < count; ++i)
        if (std::strcmp(entries[static_cast<std::size_t>(i)].ia_name, name) == 0)
            return true;
    return false;
}

} // namespace

std::vector<opening> measure_openings(const std::string &adapter, double duration_s, double limit_s)
{
    const bool beside = adapter != embedded && is_registered(embedded);
    std::string provider;
    std::vector<double> ours, its_own, embedded_ones;
    const auto end =
        clock::now() + std::chrono::duration_cast<clock::duration>(seconds(duration_s));
    while (ours.size() < fewest || clock::now() < end) {
        const report opened = in_fresh_process(opening_role, adapter, limit_s);
        ours.push_back(opened.us);
#ifdef BENCH_FI
        provider = opened.provider;
        if (!provider.empty())
            its_own.push_back(in_fresh_process(asking_libfabric, provider, limit_s).us);
#endif
        if (beside)
            embedded_ones.push_back(in_fresh_process(opening_role, embedded, limit_s).us);
    }
    const double unit = its_own.empty() ? 0 : median(its_own);
    const auto part = [&](double us) { return unit > 0 ? us / unit : 0; };
    std::vector<opening> all{{adapter, median(ours), part(median(ours))}};
    if (!its_own.empty())
        all.push_back({"libfabric's " + provider, unit, 0, true});
    if (beside)
        all.push_back({embedded, median(embedded_ones), part(median(embedded_ones))});
    return all;
}

} // namespace bench
