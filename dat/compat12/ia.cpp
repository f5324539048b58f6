// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Interface adapters, and the queries that every object answers.
#include "calls.hpp"
#include "debug.hpp"
#include "key.hpp"
#include "libdat2_calls.h"
#include "lines.hpp"
#include "open.hpp"
#include "qlen.hpp"
#include "segments.hpp"

#include <algorithm>
#include <cstring>

namespace dat12 {
namespace {

// --- Opening
// -----------------------------------------------------------------------------------------

bool is_stand_in(DAT_EVD_HANDLE evd)
{
    return evd == DAT_EVD_ASYNC_EXISTS || evd == DAT_EVD_OUT_OF_SCOPE;
}

/// An adapter of DAT 2.0 that is being opened: closed again unless it is kept.
class opened {
public:
    opened() = default;
    opened(const opened &) = delete;
    opened &operator=(const opened &) = delete;
    ~opened()
    {
        if (number != nullptr && !kept)
            libdat2_ia_close(number, DAT_CLOSE_ABRUPT_FLAG);
    }

    DAT_RETURN open(const char *name, DAT_COUNT qlen, DAT_EVD_HANDLE *async, DAT_BOOLEAN safety)
    {
        DAT_RETURN status = libdat2_ia_openv(name, qlen, async, &number, safety);
        if (status != DAT_SUCCESS) {
            number = nullptr;
            return to_one(status);
        }
        status = libdat2_get_ia_handle(number, &ia);
        return status == DAT_SUCCESS ? check(name) : to_one(status);
    }

    DAT_IA_HANDLE number = nullptr;
    DAT_IA_HANDLE ia = nullptr;
    bool kept = false;

private:
    /// The segments of a post are translated on the stack: a provider that goes on reading them
    /// after the post has returned cannot be served.
    DAT_RETURN check(const char *name)
    {
        DAT_PROVIDER_ATTR attr{};
        const DAT_RETURN status = dat::call<&DAT_PROVIDER::ia_query_func, DAT_NO_SUBTYPE>(
            ia, static_cast<DAT_EVD_HANDLE *>(nullptr), DAT_IA_ATTR_MASK{0},
            static_cast<DAT_IA_ATTR *>(nullptr), DAT_PROVIDER_FIELD_IOV_OWNERSHIP, &attr);
        if (status != DAT_SUCCESS)
            return to_one(status);
        if (attr.iov_ownership_on_return == DAT_IOV_CONSUMER)
            return DAT_SUCCESS;
        dat::log(dat::topic::error,
                 "adapter '%s' keeps the segment lists of posts, and is of no use for DAT 1.2",
                 name);
        return fail(v1::DAT_MODEL_NOT_SUPPORTED);
    }
};

/// Our objects for an adapter that is open, and for the EVD that came with it.
DAT_RETURN publish_adapter(opened &two, DAT_EVD_HANDLE async_two, bool made_evd,
                           DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *handle)
{
    object *ia = reserve();
    object *evd = made_evd ? reserve() : nullptr;
    if (ia == nullptr || (made_evd && evd == nullptr)) {
        if (ia != nullptr)
            discard(*ia);
        return no_memory;
    }
    ia->number = two.number;
    publish(*ia, DAT_HANDLE_TYPE_IA, two.ia, nullptr);
    if (made_evd)
        *async_evd = handle_of(publish(*evd, DAT_HANDLE_TYPE_EVD, async_two, ia));
    *handle = handle_of(ia);
    two.kept = true;
    return DAT_SUCCESS;
}

DAT_RETURN open_two(const char *name, DAT_COUNT async_qlen, DAT_EVD_HANDLE *async_evd,
                    DAT_IA_HANDLE *handle, DAT_BOOLEAN safety)
{
    const bool given = async_evd != nullptr && *async_evd != nullptr;
    DAT_EVD_HANDLE async_two = nullptr;
    if (given)
        async_two = is_stand_in(*async_evd) ? *async_evd : two_of<DAT_HANDLE_TYPE_EVD>(*async_evd);
    opened two;
    const DAT_RETURN status =
        two.open(name, least_qlen(async_qlen), async_evd != nullptr ? &async_two : nullptr, safety);
    if (status != DAT_SUCCESS)
        return status;
    return publish_adapter(two, async_two, !given && async_two != nullptr, async_evd, handle);
}

/// One line after the other, until one leads to an adapter that is there.
DAT_RETURN open_by_lines(const DAT_PROVIDER_INFO &key, DAT_COUNT async_qlen,
                         DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *handle)
{
    const dat::config_entry *line = the_lines().find(key, nullptr);
    if (line == nullptr)
        return the_lines().explain(key);
    DAT_RETURN status = DAT_SUCCESS;
    for (; line != nullptr; line = the_lines().find(key, line)) {
        status = open_two(two_name(*line), async_qlen, async_evd, handle, key.is_thread_safe);
        if (DAT_GET_TYPE(status) != static_cast<DAT_UINT32>(DAT_PROVIDER_NOT_FOUND))
            break;
    }
    return status;
}

// --- Querying
// ----------------------------------------------------------------------------------------

/// The fields behind this bit have moved up by `places` in DAT 2.0.
constexpr DAT_UINT64 moved(DAT_UINT64 mask, DAT_UINT64 first, unsigned places)
{
    const DAT_UINT64 below = first - 1;
    return (mask & below) | ((mask & ~below) << places);
}

constexpr DAT_UINT64 ia_mask(DAT_UINT64 one)
{
    return moved(one, v1::IA_FIELD_IA_NUM_TRANSPORT_ATTR, 3);
}

constexpr DAT_UINT64 provider_mask(DAT_UINT64 one)
{
    return moved(one, v1::PROVIDER_FIELD_NUM_PROVIDER_SPECIFIC_ATTR, 5);
}

static_assert(ia_mask(v1::IA_FIELD_IA_VENDOR_ATTR) == DAT_IA_FIELD_IA_VENDOR_ATTR);
static_assert(ia_mask(v1::IA_FIELD_IA_NUM_TRANSPORT_ATTR) == DAT_IA_FIELD_IA_NUM_TRANSPORT_ATTR);
static_assert(provider_mask(v1::PROVIDER_FIELD_PROVIDER_SPECIFIC_ATTR) ==
              DAT_PROVIDER_FIELD_PROVIDER_SPECIFIC_ATTR);

void translate(const DAT_IA_ATTR &two, v1::DAT_IA_ATTR &one)
{
    std::memcpy(one.adapter_name, two.adapter_name, sizeof one.adapter_name);
    std::memcpy(one.vendor_name, two.vendor_name, sizeof one.vendor_name);
    one.hardware_version_major = two.hardware_version_major;
    one.hardware_version_minor = two.hardware_version_minor;
    one.firmware_version_major = two.firmware_version_major;
    one.firmware_version_minor = two.firmware_version_minor;
    one.ia_address_ptr = two.ia_address_ptr;
    one.max_eps = two.max_eps;
    one.max_dto_per_ep = two.max_dto_per_ep;
    one.max_rdma_read_per_ep_in = two.max_rdma_read_per_ep_in;
    one.max_rdma_read_per_ep_out = two.max_rdma_read_per_ep_out;
    one.max_evds = two.max_evds;
    one.max_evd_qlen = two.max_evd_qlen;
    one.max_iov_segments_per_dto = std::min(two.max_iov_segments_per_dto, most_segments);
    one.max_lmrs = two.max_lmrs;
    one.max_lmr_block_size = two.max_lmr_block_size;
    one.max_lmr_virtual_address = two.max_lmr_virtual_address;
    one.max_pzs = two.max_pzs;
    one.max_message_size = two.max_message_size;
    one.max_rdma_size = two.max_rdma_size;
    one.max_rmrs = two.max_rmrs;
    one.max_rmr_target_address = two.max_rmr_target_address;
    one.max_srqs = two.max_srqs;
    one.max_ep_per_srq = two.max_ep_per_srq;
    one.max_recv_per_srq = two.max_recv_per_srq;
    one.max_iov_segments_per_rdma_read =
        std::min(two.max_iov_segments_per_rdma_read, most_segments);
    one.max_iov_segments_per_rdma_write =
        std::min(two.max_iov_segments_per_rdma_write, most_segments);
    one.max_rdma_read_in = two.max_rdma_read_in;
    one.max_rdma_read_out = two.max_rdma_read_out;
    one.max_rdma_read_per_ep_in_guaranteed = two.max_rdma_read_per_ep_in_guaranteed;
    one.max_rdma_read_per_ep_out_guaranteed = two.max_rdma_read_per_ep_out_guaranteed;
    one.num_transport_attr = two.num_transport_attr;
    one.transport_attr = two.transport_attr;
    one.num_vendor_attr = two.num_vendor_attr;
    one.vendor_attr = two.vendor_attr;
}

v1::DAT_PZ_SUPPORT pz_support_to_one(DAT_PZ_SUPPORT two)
{
    return two == DAT_PZ_SHAREABLE ? v1::DAT_PZ_SHAREABLE : v1::DAT_PZ_UNIQUE;
}

void translate(const DAT_PROVIDER_ATTR &two, v1::DAT_PROVIDER_ATTR &one)
{
    constexpr unsigned known_completion_flags = 0x1f;
    std::memcpy(one.provider_name, two.provider_name, sizeof one.provider_name);
    one.provider_version_major = two.provider_version_major;
    one.provider_version_minor = two.provider_version_minor;
    one.dapl_version_major = 1; // what the consumer has opened
    one.dapl_version_minor = 2;
    one.lmr_mem_types_supported = two.lmr_mem_types_supported;
    one.iov_ownership_on_return = DAT_IOV_CONSUMER;
    one.dat_qos_supported = two.dat_qos_supported;
    one.completion_flags_supported = static_cast<v1::DAT_COMPLETION_FLAGS>(
        two.completion_flags_supported & known_completion_flags);
    one.is_thread_safe = two.is_thread_safe;
    one.max_private_data_size = two.max_private_data_size;
    one.supports_multipath = two.supports_multipath;
    one.ep_creator = two.ep_creator;
    one.pz_support = pz_support_to_one(two.pz_support);
    one.optimal_buffer_alignment = two.optimal_buffer_alignment;
    // The header calls it const, for consumers.
    std::memcpy(const_cast<DAT_BOOLEAN *>(&one.evd_stream_merging_supported[0][0]),
                two.evd_stream_merging_supported, sizeof one.evd_stream_merging_supported);
    one.srq_supported = two.srq_supported;
    one.srq_watermarks_supported = two.srq_watermarks_supported;
    one.srq_ep_pz_difference_supported = two.srq_ep_pz_difference_supported;
    one.srq_info_supported = two.srq_info_supported;
    one.ep_recv_info_supported = two.ep_recv_info_supported;
    one.lmr_sync_req = two.lmr_sync_req;
    one.dto_async_return_guaranteed = two.dto_async_return_guaranteed;
    one.rdma_write_for_rdma_read_req = two.rdma_write_for_rdma_read_req;
    one.num_provider_specific_attr = two.num_provider_specific_attr;
    one.provider_specific_attr = two.provider_specific_attr;
}

DAT_RETURN check_masks(DAT_UINT64 ia, const v1::DAT_IA_ATTR *ia_attr, DAT_UINT64 provider,
                       const v1::DAT_PROVIDER_ATTR *provider_attr)
{
    if ((ia & ~v1::IA_FIELD_ALL) != 0)
        return bad_argument(3);
    if (ia != 0 && ia_attr == nullptr)
        return bad_argument(4);
    if ((provider & ~v1::PROVIDER_FIELD_ALL) != 0)
        return bad_argument(5);
    if (provider != 0 && provider_attr == nullptr)
        return bad_argument(6);
    return DAT_SUCCESS;
}

} // namespace

DAT_RETURN open(const char *name, DAT_COUNT async_qlen, DAT_EVD_HANDLE *async_evd,
                DAT_IA_HANDLE *ia, DAT_UINT32 major, DAT_UINT32 minor, DAT_BOOLEAN thread_safety)
{
    DAT_PROVIDER_INFO key;
    if (!dat::make_key(name, major, minor, thread_safety, key))
        return bad_argument(1);
    if (ia == nullptr)
        return refused<DAT_HANDLE_TYPE_IA>;
    dat::log(dat::topic::consumer_api, "dat_ia_openv('%s', %u.%u, %d)", name, major, minor,
             static_cast<int>(thread_safety));
    if (!DAT_STATIC_REGISTRY && major == 1 && minor == 2) // no lines, no aliases
        return open_two(name, async_qlen, async_evd, ia, thread_safety);
    return open_by_lines(key, async_qlen, async_evd, ia);
}

} // namespace dat12

using dat12::object;

extern "C" OSD_EXPORT DAT_RETURN dat12_ia_openv(const DAT_NAME_PTR name, DAT_COUNT async_qlen,
                                                DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia,
                                                DAT_UINT32 major, DAT_UINT32 minor,
                                                DAT_BOOLEAN thread_safety) __asm__("dat_ia_openv");
DAT_RETURN dat12_ia_openv(const DAT_NAME_PTR name, DAT_COUNT async_qlen, DAT_EVD_HANDLE *async_evd,
                          DAT_IA_HANDLE *ia, DAT_UINT32 major, DAT_UINT32 minor,
                          DAT_BOOLEAN thread_safety)
{
    return dat12::open(name, async_qlen, async_evd, ia, major, minor, thread_safety);
}

DAT_RETURN dat12_ia_close(DAT_IA_HANDLE handle, DAT_CLOSE_FLAGS flags)
{
    object *ia = dat12::object_of<DAT_HANDLE_TYPE_IA>(handle);
    if (ia == nullptr)
        return dat12::refused<DAT_HANDLE_TYPE_IA>;
    const DAT_RETURN status = libdat2_ia_close(ia->number, flags);
    if (status == DAT_SUCCESS)
        dat12::retire_adapter(*ia);
    return dat12::to_one(status);
}

DAT_RETURN dat12_ia_query(DAT_IA_HANDLE handle, DAT_EVD_HANDLE *async_evd, DAT_UINT64 ia_mask,
                          v1::DAT_IA_ATTR *ia_attr, DAT_UINT64 provider_mask,
                          v1::DAT_PROVIDER_ATTR *provider_attr)
{
    object *ia = dat12::object_of<DAT_HANDLE_TYPE_IA>(handle);
    if (ia == nullptr)
        return dat12::refused<DAT_HANDLE_TYPE_IA>;
    DAT_RETURN status = dat12::check_masks(ia_mask, ia_attr, provider_mask, provider_attr);
    if (status != DAT_SUCCESS)
        return status;
    DAT_EVD_HANDLE async_two = nullptr;
    DAT_IA_ATTR ia_two{};
    DAT_PROVIDER_ATTR provider_two{};
    status = dat12::call<&DAT_PROVIDER::ia_query_func>(
        *ia, async_evd != nullptr ? &async_two : nullptr, dat12::ia_mask(ia_mask),
        ia_mask != 0 ? &ia_two : nullptr, dat12::provider_mask(provider_mask),
        provider_mask != 0 ? &provider_two : nullptr);
    if (status != DAT_SUCCESS)
        return status;
    if (async_evd != nullptr)
        *async_evd = dat12::is_stand_in(async_two) ? async_two : dat12::one_of(async_two);
    if (ia_mask != 0)
        dat12::translate(ia_two, *ia_attr);
    if (provider_mask != 0)
        dat12::translate(provider_two, *provider_attr);
    return DAT_SUCCESS;
}

// --- Any object
// --------------------------------------------------------------------------------------

DAT_RETURN dat12_set_consumer_context(DAT_HANDLE handle, DAT_CONTEXT context)
{
    object *given = dat12::any_object_of(handle);
    if (given == nullptr)
        return dat12::fail(v1::DAT_INVALID_HANDLE, v1::DAT_INVALID_HANDLE1);
    given->context = context;
    return DAT_SUCCESS;
}

DAT_RETURN dat12_get_consumer_context(DAT_HANDLE handle, DAT_CONTEXT *context)
{
    object *given = dat12::any_object_of(handle);
    if (given == nullptr)
        return dat12::fail(v1::DAT_INVALID_HANDLE, v1::DAT_INVALID_HANDLE1);
    if (context == nullptr)
        return dat12::bad_argument(2);
    *context = given->context;
    return DAT_SUCCESS;
}

DAT_RETURN dat12_get_handle_type(DAT_HANDLE handle, v1::DAT_HANDLE_TYPE *type)
{
    object *given = dat12::any_object_of(handle);
    if (given == nullptr)
        return dat12::fail(v1::DAT_INVALID_HANDLE, v1::DAT_INVALID_HANDLE1);
    if (type == nullptr)
        return dat12::bad_argument(2);
    *type = static_cast<v1::DAT_HANDLE_TYPE>(static_cast<std::uint32_t>(given->kind) -
                                             static_cast<std::uint32_t>(dat12::mark::first));
    return DAT_SUCCESS;
}

// --- The registry
// ------------------------------------------------------------------------------------

extern "C" OSD_EXPORT DAT_RETURN
dat12_list_providers(DAT_COUNT max, DAT_COUNT *count,
                     DAT_PROVIDER_INFO *(list[])) __asm__("dat_registry_list_providers");
DAT_RETURN dat12_list_providers(DAT_COUNT max, DAT_COUNT *count, DAT_PROVIDER_INFO *(list[]))
{
    if (count == nullptr)
        return dat12::bad_argument(2);
    if (max > 0 && list == nullptr)
        return dat12::bad_argument(3);
    return dat12::the_lines().list(max, *count, list);
}

// A provider of DAT 2.0 that is not linked with libdat2 finds these first, if the program is linked
// with libdat. Their parameters are equal in both generations; the version tells the generation.

extern "C" OSD_EXPORT DAT_RETURN
dat12_add_provider(const DAT_PROVIDER *provider,
                   const DAT_PROVIDER_INFO *info) __asm__("dat_registry_add_provider");
DAT_RETURN dat12_add_provider(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *info)
{
    if (provider == nullptr)
        return dat12::bad_argument(1);
    if (info == nullptr)
        return dat12::bad_argument(2);
    if (info->dapl_version_major >= 2)
        return libdat2_add_provider(provider, info);
    dat::log(dat::topic::error,
             "a provider of DAT 1.x registers; only DAT 2.0 providers can be used");
    return dat12::fail(v1::DAT_MODEL_NOT_SUPPORTED);
}

extern "C" OSD_EXPORT DAT_RETURN
dat12_remove_provider(const DAT_PROVIDER *provider,
                      const DAT_PROVIDER_INFO *info) __asm__("dat_registry_remove_provider");
DAT_RETURN dat12_remove_provider(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *info)
{
    if (provider == nullptr)
        return dat12::bad_argument(1);
    if (info == nullptr)
        return dat12::bad_argument(2);
    if (info->dapl_version_major >= 2)
        return libdat2_remove_provider(provider, info);
    return dat12::fail(v1::DAT_PROVIDER_NOT_FOUND, v1::DAT_NAME_NOT_REGISTERED);
}
