// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "query.hpp"

#include "native_socket.hpp"
#include "program/failure.hpp"
#include "program/system.hpp"

#include <cstdint>
#include <cstring>
#include <dat2/dat_registry.h>
#include <dat2/udat.h>
#include <functional>
#include <sstream>

namespace dat_info {
namespace {

constexpr DAT_COUNT queue_length = 8;

// ------------------------------------------------------------------------------------ enumerations

struct word {
    std::uint64_t value;
    const char *name;
};

template <std::size_t size>
std::string choice(std::uint64_t value, const word (&words)[size])
{
    for (const word &each : words)
        if (each.value == value)
            return each.name;
    return "unknown (" + std::to_string(value) + ")";
}

/// The names of flags; the first word stands for no flags.
template <std::size_t size>
std::string flags(std::uint64_t value, const word (&words)[size])
{
    std::string text;
    for (const word &each : words)
        if (each.value != 0 && (value & each.value) == each.value) {
            text += (text.empty() ? "" : ", ") + std::string(each.name);
            value &= ~each.value;
        }
    if (value != 0)
        text += (text.empty() ? "" : ", ") + std::string("unknown ") + std::to_string(value);
    return text.empty() ? words[0].name : text;
}

constexpr word qualities[] = {{DAT_QOS_BEST_EFFORT, "best effort"},
                              {DAT_QOS_HIGH_THROUGHPUT, "high throughput"},
                              {DAT_QOS_LOW_LATENCY, "low latency"},
                              {DAT_QOS_ECONOMY, "economy"},
                              {DAT_QOS_PREMIUM, "premium"}};
constexpr word completions[] = {{DAT_COMPLETION_DEFAULT_FLAG, "default"},
                                {DAT_COMPLETION_SUPPRESS_FLAG, "suppress"},
                                {DAT_COMPLETION_SOLICITED_WAIT_FLAG, "solicited wait"},
                                {DAT_COMPLETION_UNSIGNALLED_FLAG, "unsignalled"},
                                {DAT_COMPLETION_BARRIER_FENCE_FLAG, "barrier fence"},
                                {DAT_COMPLETION_EVD_THRESHOLD_FLAG, "EVD threshold"},
                                {DAT_COMPLETION_LMR_INVALIDATE_FENCE_FLAG, "invalidate fence"}};
constexpr word memories[] = {{DAT_MEM_TYPE_VIRTUAL, "virtual"},
                             {DAT_MEM_TYPE_LMR, "LMR"},
                             {DAT_MEM_TYPE_SHARED_VIRTUAL, "shared virtual"}};
constexpr word owners[] = {{DAT_IOV_CONSUMER, "consumer"},
                           {DAT_IOV_PROVIDER_NOMOD, "provider, unchanged"},
                           {DAT_IOV_PROVIDER_MOD, "provider"}};
constexpr word creators[] = {{DAT_PSP_CREATES_EP_NEVER, "never"},
                             {DAT_PSP_CREATES_EP_IFASKED, "if asked"},
                             {DAT_PSP_CREATES_EP_ALWAYS, "always"}};
constexpr word zones[] = {{DAT_PZ_UNIQUE, "unique"}, {DAT_PZ_SHAREABLE, "shareable"}};
constexpr word scopes[] = {{DAT_RMR_SCOPE_EP, "endpoint"},
                           {DAT_RMR_SCOPE_PZ, "protection zone"},
                           {DAT_RMR_SCOPE_ANY, "any"}};
constexpr word balances[] = {
    {DAT_HA_LB_NONE, "none"}, {DAT_HA_LB_INTERCOMM, "inter"}, {DAT_HA_LB_INTRACOMM, "intra"}};
constexpr word extensions[] = {
    {DAT_EXTENSION_NONE, "none"}, {DAT_EXTENSION_IB, "IB"}, {DAT_EXTENSION_IW, "iWARP"}};
constexpr word services[] = {{DAT_SERVICE_TYPE_RC, "reliable connection"}};

// ------------------------------------------------------------------------------------- attributes

class describer {
public:
    describer(const teller &parent, const char *section) : parent_(parent), section_(section) {}

    void text(const char *name, const std::string &value) const
    {
        parent_.tell("attribute", section_, name, value, "text");
    }
    /// Character arrays may lack a terminating null.
    template <std::size_t size>
    void name(const char *name, const char (&value)[size]) const
    {
        text(name, std::string(value, ::strnlen(value, size)));
    }
    void number(const char *name, std::uint64_t value, const char *kind = "number") const
    {
        parent_.tell("attribute", section_, name, std::to_string(value), kind);
    }
    void count(const char *name, DAT_COUNT value) const
    {
        parent_.tell("attribute", section_, name, std::to_string(value), "number");
    }
    void bytes(const char *name, std::uint64_t value) const { number(name, value, "bytes"); }
    void yes_no(const char *name, DAT_BOOLEAN value) const
    {
        parent_.tell("attribute", section_, name, value != DAT_FALSE ? "yes" : "no", "yes/no");
    }
    void version(const char *name, DAT_UINT32 major, DAT_UINT32 minor) const
    {
        text(name, std::to_string(major) + "." + std::to_string(minor));
    }
    /// Attributes that are specific to a provider.
    void named(const DAT_NAMED_ATTR *first, DAT_COUNT number) const
    {
        const std::string section = std::string(section_) + " named";
        for (DAT_COUNT i = 0; first != nullptr && i < number; ++i)
            if (first[i].name != nullptr)
                parent_.tell("attribute", section, first[i].name,
                             first[i].value != nullptr ? first[i].value : "", "text");
    }

private:
    const teller &parent_;
    const char *section_;
};

std::string address_text(const DAT_SOCK_ADDR *address)
{
    const auto *any = reinterpret_cast<const sockaddr *>(address);
    if (any == nullptr)
        return "none";
    const socklen_t size = any->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    char host[NI_MAXHOST];
    if ((any->sa_family == AF_INET || any->sa_family == AF_INET6) &&
        ::getnameinfo(any, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) == 0)
        return host;
    return "of family " + std::to_string(any->sa_family);
}

void describe(const DAT_IA_ATTR &a, const teller &parent)
{
    const describer out(parent, "adapter");
    out.name("adapter_name", a.adapter_name);
    out.name("vendor_name", a.vendor_name);
    out.text("ia_address", address_text(a.ia_address_ptr));
    out.version("hardware_version", a.hardware_version_major, a.hardware_version_minor);
    out.version("firmware_version", a.firmware_version_major, a.firmware_version_minor);
    out.count("max_eps", a.max_eps);
    out.count("max_dto_per_ep", a.max_dto_per_ep);
    out.count("max_rdma_read_per_ep_in", a.max_rdma_read_per_ep_in);
    out.count("max_rdma_read_per_ep_out", a.max_rdma_read_per_ep_out);
    out.yes_no("max_rdma_read_per_ep_in_guaranteed", a.max_rdma_read_per_ep_in_guaranteed);
    out.yes_no("max_rdma_read_per_ep_out_guaranteed", a.max_rdma_read_per_ep_out_guaranteed);
    out.count("max_rdma_read_in", a.max_rdma_read_in);
    out.count("max_rdma_read_out", a.max_rdma_read_out);
    out.count("max_evds", a.max_evds);
    out.count("max_evd_qlen", a.max_evd_qlen);
    out.count("max_iov_segments_per_dto", a.max_iov_segments_per_dto);
    out.count("max_iov_segments_per_rdma_read", a.max_iov_segments_per_rdma_read);
    out.count("max_iov_segments_per_rdma_write", a.max_iov_segments_per_rdma_write);
    out.count("max_lmrs", a.max_lmrs);
    out.bytes("max_lmr_block_size", a.max_lmr_block_size);
    out.number("max_lmr_virtual_address", a.max_lmr_virtual_address, "address");
    out.count("max_pzs", a.max_pzs);
    out.bytes("max_message_size", a.max_message_size);
    out.bytes("max_rdma_size", a.max_rdma_size);
    out.count("max_rmrs", a.max_rmrs);
    out.number("max_rmr_target_address", a.max_rmr_target_address, "address");
    out.count("max_srqs", a.max_srqs);
    out.count("max_ep_per_srq", a.max_ep_per_srq);
    out.count("max_recv_per_srq", a.max_recv_per_srq);
    out.yes_no("zb_supported", a.zb_supported);
    out.text("extension_supported", choice(a.extension_supported, extensions));
    out.count("extension_version", a.extension_version);
    out.named(a.transport_attr, a.num_transport_attr);
    out.named(a.vendor_attr, a.num_vendor_attr);
}

/// "software: connection requests; ..." for each stream and the streams that it may share an EVD
/// with.
std::string merging_text(const DAT_PROVIDER_ATTR &a)
{
    constexpr const char *streams[] = {"software",    "requests", "DTOs",
                                       "connections", "binds",    "async"};
    std::string text;
    for (std::size_t i = 0; i < 6; ++i)
        for (std::size_t j = i + 1; j < 6; ++j)
            if (a.evd_stream_merging_supported[i][j] != DAT_FALSE)
                text += (text.empty() ? "" : ", ") + std::string(streams[i]) + "+" + streams[j];
    return text.empty() ? "none" : text;
}

void describe(const DAT_PROVIDER_ATTR &a, const teller &parent)
{
    const describer out(parent, "provider");
    out.name("provider_name", a.provider_name);
    out.version("provider_version", a.provider_version_major, a.provider_version_minor);
    out.version("dapl_version", a.dapl_version_major, a.dapl_version_minor);
    out.yes_no("is_thread_safe", a.is_thread_safe);
    out.bytes("max_private_data_size", static_cast<std::uint64_t>(a.max_private_data_size));
    out.text("lmr_mem_types_supported",
             "virtual" + (a.lmr_mem_types_supported == 0
                              ? std::string()
                              : ", " + flags(a.lmr_mem_types_supported, memories)));
    out.text("iov_ownership_on_return", choice(a.iov_ownership_on_return, owners));
    out.text("dat_qos_supported", flags(a.dat_qos_supported, qualities));
    out.text("completion_flags_supported", flags(a.completion_flags_supported, completions));
    out.yes_no("supports_multipath", a.supports_multipath);
    out.text("ep_creator", choice(a.ep_creator, creators));
    out.text("pz_support", choice(a.pz_support, zones));
    out.bytes("optimal_buffer_alignment", a.optimal_buffer_alignment);
    out.text("evd_stream_merging_supported", merging_text(a));
    out.yes_no("srq_supported", a.srq_supported);
    out.count("srq_watermarks_supported", a.srq_watermarks_supported);
    out.yes_no("srq_ep_pz_difference_supported", a.srq_ep_pz_difference_supported);
    out.count("srq_info_supported", a.srq_info_supported);
    out.count("ep_recv_info_supported", a.ep_recv_info_supported);
    out.yes_no("lmr_sync_req", a.lmr_sync_req);
    out.yes_no("dto_async_return_guaranteed", a.dto_async_return_guaranteed);
    out.yes_no("rdma_write_for_rdma_read_req", a.rdma_write_for_rdma_read_req);
    out.yes_no("rdma_read_lmr_rmr_context_exposure", a.rdma_read_lmr_rmr_context_exposure);
    out.text("rmr_scope_supported", choice(a.rmr_scope_supported, scopes));
    out.yes_no("is_signal_safe", a.is_signal_safe);
    out.yes_no("ha_supported", a.ha_supported);
    out.text("ha_loadbalancing", choice(a.ha_loadbalancing, balances));
    out.named(a.provider_specific_attr, a.num_provider_specific_attr);
}

void describe(const DAT_EP_ATTR &a, const teller &parent)
{
    const describer out(parent, "endpoint");
    out.text("service_type", choice(a.service_type, services));
    out.bytes("max_message_size", a.max_message_size);
    out.bytes("max_rdma_size", a.max_rdma_size);
    out.text("qos", flags(a.qos, qualities));
    out.text("recv_completion_flags", flags(a.recv_completion_flags, completions));
    out.text("request_completion_flags", flags(a.request_completion_flags, completions));
    out.count("max_recv_dtos", a.max_recv_dtos);
    out.count("max_request_dtos", a.max_request_dtos);
    out.count("max_recv_iov", a.max_recv_iov);
    out.count("max_request_iov", a.max_request_iov);
    out.count("max_rdma_read_in", a.max_rdma_read_in);
    out.count("max_rdma_read_out", a.max_rdma_read_out);
    out.count("max_rdma_read_iov", a.max_rdma_read_iov);
    out.count("max_rdma_write_iov", a.max_rdma_write_iov);
    out.count("srq_soft_hw", a.srq_soft_hw);
    out.named(a.ep_transport_specific, a.ep_transport_specific_count);
    out.named(a.ep_provider_specific, a.ep_provider_specific_count);
}

// ------------------------------------------------------------------------------------------ calls

/// Why the dynamic loader or the registry rejects a library; empty if it does not.
std::string trouble_of(const std::string &library)
{
    std::string why;
    void *const loaded = program::load_library(library, why);
    if (loaded == nullptr)
        return why;
    for (const char *needed : {DAT_PROVIDER_INIT_FUNC_STR, DAT_PROVIDER_FINI_FUNC_STR})
        if (program::symbol_in(loaded, needed) == nullptr)
            return library + ": has no symbol " + needed;
    return "";
}

void explain_loading(const adapter &which, const teller &parent)
{
    for (const line *each : which.lines) {
        parent.tell("step", "loading " + each->library);
        parent.tell("loading", std::to_string(each->number), trouble_of(each->library));
    }
}

/// Reports the call before it is made, and its code unless it is success.
template <class Call>
bool succeeds(const teller &parent, const char *name, Call call)
{
    parent.tell("step", name);
    const DAT_RETURN code = call();
    if (code != DAT_SUCCESS)
        parent.tell("refused", name, program::code_text(code),
                    DAT_GET_TYPE(code) == DAT_PROVIDER_NOT_FOUND ? "not found" : "");
    return code == DAT_SUCCESS;
}

/// A new endpoint shows the default limits.
void tell_endpoint(DAT_IA_HANDLE ia, const teller &parent)
{
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE transfers = DAT_HANDLE_NULL, connections = DAT_HANDLE_NULL;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    DAT_EP_PARAM param;
    std::memset(&param, 0, sizeof param);
    const struct {
        const char *name;
        std::function<DAT_RETURN()> call;
    } steps[] = {
        {"dat_pz_create", [&] { return dat_pz_create(ia, &pz); }},
        {"dat_evd_create",
         [&] {
             return dat_evd_create(ia, queue_length, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &transfers);
         }},
        {"dat_evd_create",
         [&] {
             return dat_evd_create(ia, queue_length, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG,
                                   &connections);
         }},
        {"dat_ep_create",
         [&] { return dat_ep_create(ia, pz, transfers, transfers, connections, nullptr, &ep); }},
        {"dat_ep_query", [&] { return dat_ep_query(ep, DAT_EP_FIELD_EP_ATTR_ALL, &param); }},
    };
    for (const auto &[name, call] : steps) {
        parent.tell("step", name);
        if (const DAT_RETURN code = call(); code != DAT_SUCCESS) {
            parent.tell("remark", std::string("endpoint limits are unknown: ") + name +
                                      " returns " + program::code_text(code));
            return;
        }
    }
    describe(param.ep_attr, parent);
    // the rest is freed by the abrupt close of the adapter
}

void list_adapters(const teller &parent)
{
    std::vector<DAT_PROVIDER_INFO> entries(4096);
    std::vector<DAT_PROVIDER_INFO *> pointers;
    for (DAT_PROVIDER_INFO &each : entries)
        pointers.push_back(&each);
    DAT_COUNT number = 0;
    if (!succeeds(parent, "dat_registry_list_providers", [&] {
            return dat_registry_list_providers(static_cast<DAT_COUNT>(entries.size()), &number,
                                               pointers.data());
        }))
        return;
    for (DAT_COUNT i = 0; i < number && i < static_cast<DAT_COUNT>(entries.size()); ++i) {
        const DAT_PROVIDER_INFO &each = entries[static_cast<std::size_t>(i)];
        parent.tell("adapter", std::string(each.ia_name, ::strnlen(each.ia_name, 256)),
                    std::to_string(each.dapl_version_major),
                    std::to_string(each.dapl_version_minor),
                    each.is_thread_safe != DAT_FALSE ? "1" : "0");
    }
    parent.tell("done");
}

void open_adapter(const adapter &which, bool with_endpoint, const teller &parent)
{
    std::string name = which.name; // the call takes it as writable
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    const DAT_BOOLEAN safety = which.thread_safe ? DAT_TRUE : DAT_FALSE;
    if (!succeeds(parent, "dat_ia_open", [&] {
            return dat_ia_openv(name.data(), queue_length, &async, &ia, which.api_major,
                                which.api_minor, safety);
        })) {
        explain_loading(which, parent);
        parent.tell("done");
        return;
    }
    DAT_IA_ATTR attr{};
    DAT_PROVIDER_ATTR provider{};
    if (succeeds(parent, "dat_ia_query", [&] {
            return dat_ia_query(ia, nullptr, DAT_IA_FIELD_ALL, &attr, DAT_PROVIDER_FIELD_ALL,
                                &provider);
        })) {
        describe(attr, parent);
        describe(provider, parent);
        if (with_endpoint)
            tell_endpoint(ia, parent);
    }
    (void)succeeds(parent, "dat_ia_close", [&] { return dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG); });
    parent.tell("done");
}

void list_all(const std::string &)
{
    list_adapters(teller());
    end_child();
}

/// The opposite of open_argument().
void open_one(const std::string &argument)
{
    std::istringstream words(argument);
    adapter which{};
    bool with_endpoint = false;
    words >> with_endpoint >> which.thread_safe >> which.api_major >> which.api_minor;
    std::getline(words >> std::ws, which.name);
    const registry_file file = find_registry_file(libdat2_is_ours());
    find_lines(which, file);
    open_adapter(which, with_endpoint, teller());
    end_child();
}

} // namespace

const program::job list_job("list", list_all);
const program::job open_job("open", open_one);

std::string open_argument(const adapter &which, bool with_endpoint)
{
    return std::to_string(with_endpoint) + " " + std::to_string(which.thread_safe) + " " +
           std::to_string(which.api_major) + " " + std::to_string(which.api_minor) + " " +
           which.name;
}

void find_lines(adapter &which, const registry_file &file)
{
    for (const line &each : file.lines)
        if (each.is_usable() && each.name == which.name && each.api_major == which.api_major &&
            each.api_minor == which.api_minor && each.thread_safe == which.thread_safe)
            which.lines.push_back(&each);
}

/// Whether the libdat2 is ours; others may lack calls of DAT 2.0.
bool libdat2_is_ours()
{
    return program::find_symbol("dat_registry_providers_related") != nullptr;
}

} // namespace dat_info
