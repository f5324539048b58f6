// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// DAT 2.0 through DAT 1.2: preloaded in front of libdat2, this library sends each call of a program
// through libdat, so that programs of DAT 2.0 - the suite, dat-perf - judge and measure DAT 1.2.
// Handles are DAT 1.2 handles; structures, masks and codes are translated both ways. Calls that DAT
// 1.2 lacks answer DAT_MODEL_NOT_SUPPORTED.
#include "dat12_types.hpp"
#include "ep_attributes.hpp"
#include "osd_annotations.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <vector>

namespace {

// --- The two libraries behind
// ------------------------------------------------------------------------

/// libdat opens and closes the adapters of DAT 2.0 by calls that end up here again: those go on to
/// libdat2.
thread_local int inside_libdat = 0;

struct inside {
    inside() { ++inside_libdat; }
    ~inside() { --inside_libdat; }
    inside(const inside &) = delete;
    inside &operator=(const inside &) = delete;
};

void *library(const char *name)
{
    void *handle = ::dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (handle == nullptr) {
        std::fprintf(stderr, "%s\n", ::dlerror());
        std::abort();
    }
    return handle;
}

template <typename Function>
Function *find(const char *name, const char *of, const char *version)
{
    void *found = ::dlvsym(library(of), name, version);
    if (found == nullptr) {
        std::fprintf(stderr, "%s lacks %s\n", of, name);
        std::abort();
    }
    return reinterpret_cast<Function *>(found);
}

/// The call of that name in libdat2, of the given type.
template <typename Function>
Function *in_libdat2(const char *name)
{
    return find<Function>(name, "libdat2.so.2", "DAT_2.0");
}

/// The calls of libdat, in the order of its vector.
v1::DAT_PROVIDER calls_of_libdat()
{
    v1::DAT_PROVIDER calls{};
#define FILL(name)                                                                                 \
    calls.name##_func = find<std::remove_pointer_t<decltype(calls.name##_func)>>(                  \
        "dat_" #name, "libdat.so.1", "DAT_1.2");
    DAT12_SLOTS(FILL)
#undef FILL
    return calls;
}

const v1::DAT_PROVIDER &one()
{
    static const v1::DAT_PROVIDER calls = calls_of_libdat();
    return calls;
}

// --- Codes
// -------------------------------------------------------------------------------------------

DAT_RETURN to_two(DAT_RETURN code)
{
    DAT_UINT32 type = DAT_GET_TYPE(code), subtype = DAT_GET_SUBTYPE(code);
    if (type == v1::DAT_NOT_IMPLEMENTED)
        type = DAT_NOT_IMPLEMENTED;
    subtype += subtype >= DAT_INVALID_HANDLE_CSP;
    subtype += subtype >= DAT_INVALID_STATE_SRQ_SHUTDOWN;
    return (code & (DAT_CLASS_ERROR | DAT_CLASS_WARNING)) | type | subtype;
}

/// For a call of which DAT 2.0 has one more parameter, at this position.
DAT_RETURN with_position(DAT_RETURN two, unsigned position)
{
    const DAT_UINT32 first = DAT_INVALID_ARG1 + position - 1;
    const DAT_UINT32 subtype = DAT_GET_SUBTYPE(two);
    const bool moves = subtype >= first && subtype < DAT_INVALID_ARG10;
    return moves ? two + 1 : two;
}

DAT_RETURN bad_argument(unsigned position)
{
    return DAT_CLASS_ERROR | static_cast<DAT_UINT32>(DAT_INVALID_PARAMETER) |
           (static_cast<DAT_UINT32>(DAT_INVALID_ARG1) + position - 1);
}

constexpr DAT_RETURN not_in_dat12 =
    DAT_CLASS_ERROR | static_cast<DAT_UINT32>(DAT_MODEL_NOT_SUPPORTED);

// --- Masks
// -------------------------------------------------------------------------------------------

/// Takes out the bits `between`, which only DAT 2.0 has, and moves those above down. The bits of
/// DAT 2.0 above its own last one stay unknown to DAT 1.2.
DAT_UINT64 without(DAT_UINT64 two, DAT_UINT64 lowest, unsigned places)
{
    return (two & (lowest - 1)) | (two & ~(lowest - 1)) >> places;
}

DAT_UINT64 ep_mask(DAT_UINT64 two)
{
    const DAT_UINT64 attributes = DAT_EP_FIELD_EP_ATTR_ALL;
    const DAT_UINT64 others = two & ~attributes;
    const bool impossible = (two & ~DAT_EP_FIELD_ALL) != 0;
    return (two & attributes) | without(others & DAT_EP_FIELD_ALL, DAT_EP_FIELD_COMM << 1, 1) |
           (impossible ? DAT_UINT64{0x800} : 0);
}

// --- Structures
// --------------------------------------------------------------------------------------

struct ep_attributes {
    explicit ep_attributes(const DAT_EP_ATTR *two) : given(two != nullptr)
    {
        if (given)
            dat12::copy_attributes(*two, attr);
    }
    const v1::DAT_EP_ATTR *pointer() const { return given ? &attr : nullptr; }

    v1::DAT_EP_ATTR attr{};
    bool given;
};

v1::DAT_LMR_TRIPLET to_one(const DAT_LMR_TRIPLET &two)
{
    return {two.lmr_context, 0, two.virtual_address, two.segment_length};
}

/// A segment list: null stays null, and a count that is none is left for libdat to refuse.
struct segments {
    segments(const DAT_LMR_TRIPLET *two, DAT_VLEN count) : given(two != nullptr)
    {
        for (DAT_VLEN i = 0; given && i < count && i < 1024; ++i)
            list.push_back(to_one(two[i]));
        list.push_back({});
    }
    v1::DAT_LMR_TRIPLET *pointer() { return given ? list.data() : nullptr; }

    std::vector<v1::DAT_LMR_TRIPLET> list;
    bool given;
};

DAT_VLEN count_of(DAT_COUNT count)
{
    return count > 0 ? static_cast<DAT_VLEN>(count) : 0;
}

struct remote_segment {
    explicit remote_segment(const DAT_RMR_TRIPLET *two) : given(two != nullptr)
    {
        if (given)
            one = {two->rmr_context, 0, two->virtual_address, two->segment_length};
    }
    const v1::DAT_RMR_TRIPLET *pointer() const { return given ? &one : nullptr; }

    v1::DAT_RMR_TRIPLET one{};
    bool given;
};

v1::DAT_COMPLETION_FLAGS to_one(DAT_COMPLETION_FLAGS flags)
{
    return static_cast<v1::DAT_COMPLETION_FLAGS>(flags);
}

/// The operation of a completion is not said in DAT 1.2.
void translate(const v1::DAT_EVENT &from, DAT_EVENT &to)
{
    std::memset(static_cast<void *>(&to), 0, sizeof to);
    to.event_number = static_cast<DAT_EVENT_NUMBER>(from.event_number);
    to.evd_handle = from.evd_handle;
    if (from.event_number == v1::DAT_DTO_COMPLETION_EVENT) {
        const auto &dto = from.event_data.dto_completion_event_data;
        to.event_data.dto_completion_event_data.ep_handle = dto.ep_handle;
        to.event_data.dto_completion_event_data.user_cookie = dto.user_cookie;
        to.event_data.dto_completion_event_data.status =
            static_cast<DAT_DTO_COMPLETION_STATUS>(dto.status);
        to.event_data.dto_completion_event_data.transfered_length =
            static_cast<DAT_SEG_LENGTH>(dto.transfered_length);
    } else { // the remaining members have one layout
        std::memcpy(static_cast<void *>(&to.event_data), &from.event_data, sizeof from.event_data);
    }
}

void translate(const v1::DAT_IA_ATTR &from, DAT_IA_ATTR &to)
{
    std::memcpy(&to, &from, offsetof(DAT_IA_ATTR, max_lmr_block_size));
    to.max_lmr_block_size = static_cast<DAT_SEG_LENGTH>(from.max_lmr_block_size);
    to.max_lmr_virtual_address = from.max_lmr_virtual_address;
    to.max_pzs = from.max_pzs;
    to.max_message_size = static_cast<DAT_SEG_LENGTH>(from.max_message_size);
    to.max_rdma_size = static_cast<DAT_SEG_LENGTH>(from.max_rdma_size);
    to.max_rmrs = from.max_rmrs;
    to.max_rmr_target_address = from.max_rmr_target_address;
    to.max_srqs = from.max_srqs;
    to.max_ep_per_srq = from.max_ep_per_srq;
    to.max_recv_per_srq = from.max_recv_per_srq;
    to.max_iov_segments_per_rdma_read = from.max_iov_segments_per_rdma_read;
    to.max_iov_segments_per_rdma_write = from.max_iov_segments_per_rdma_write;
    to.max_rdma_read_in = from.max_rdma_read_in;
    to.max_rdma_read_out = from.max_rdma_read_out;
    to.max_rdma_read_per_ep_in_guaranteed = from.max_rdma_read_per_ep_in_guaranteed;
    to.max_rdma_read_per_ep_out_guaranteed = from.max_rdma_read_per_ep_out_guaranteed;
    to.zb_supported = DAT_FALSE;
    to.extension_supported = DAT_EXTENSION_NONE;
    to.extension_version = 0;
    to.num_transport_attr = from.num_transport_attr;
    to.transport_attr = from.transport_attr;
    to.num_vendor_attr = from.num_vendor_attr;
    to.vendor_attr = from.vendor_attr;
}

static_assert(offsetof(DAT_IA_ATTR, max_lmr_block_size) ==
              offsetof(v1::DAT_IA_ATTR, max_lmr_block_size));
static_assert(offsetof(DAT_PROVIDER_ATTR, rdma_read_lmr_rmr_context_exposure) ==
              offsetof(v1::DAT_PROVIDER_ATTR, num_provider_specific_attr));

void translate(const v1::DAT_PROVIDER_ATTR &from, DAT_PROVIDER_ATTR &to)
{
    std::memcpy(static_cast<void *>(&to), &from,
                offsetof(v1::DAT_PROVIDER_ATTR, num_provider_specific_attr));
    to.dapl_version_major = 2; // what the program believes to have opened
    to.dapl_version_minor = 0;
    to.pz_support = from.pz_support == v1::DAT_PZ_SHAREABLE ? DAT_PZ_SHAREABLE : DAT_PZ_UNIQUE;
    to.rdma_read_lmr_rmr_context_exposure = DAT_FALSE;
    to.rmr_scope_supported = DAT_RMR_SCOPE_PZ;
    to.is_signal_safe = DAT_FALSE;
    to.ha_supported = DAT_FALSE;
    to.ha_loadbalancing = DAT_HA_LB_NONE;
    to.num_provider_specific_attr = from.num_provider_specific_attr;
    to.provider_specific_attr = from.provider_specific_attr;
}

} // namespace

extern "C" {

// --- Adapters
// ----------------------------------------------------------------------------------------

OSD_EXPORT DAT_RETURN DAT_API dat_ia_openv(const DAT_NAME_PTR name, DAT_COUNT qlen,
                                           DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia,
                                           DAT_UINT32 major, DAT_UINT32 minor, DAT_BOOLEAN safety)
{
    using openv = DAT_RETURN(const DAT_NAME_PTR, DAT_COUNT, DAT_EVD_HANDLE *, DAT_IA_HANDLE *,
                             DAT_UINT32, DAT_UINT32, DAT_BOOLEAN);
    if (inside_libdat != 0) {
        static const auto libdat2 = in_libdat2<openv>("dat_ia_openv");
        return libdat2(name, qlen, async_evd, ia, major, minor, safety);
    }
    static const auto libdat = find<openv>("dat_ia_openv", "libdat.so.1", "DAT_1.2");
    const inside now;
    const bool right = major == 2 && minor == 0;
    const DAT_RETURN status =
        to_two(libdat(name, qlen, async_evd, ia, right ? 1 : 9, right ? 2 : minor, safety));
    // DAT 1.2 names the object that was not found; DAT 2.0, in practice, says that the name was
    // not.
    return DAT_GET_TYPE(status) == static_cast<DAT_UINT32>(DAT_PROVIDER_NOT_FOUND)
               ? (status & ~DAT_SUBTYPE_MASK) | DAT_NAME_NOT_REGISTERED
               : status;
}

OSD_EXPORT DAT_RETURN DAT_API dat_ia_close(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS flags)
{
    if (inside_libdat != 0) {
        static const auto libdat2 = in_libdat2<decltype(dat_ia_close)>("dat_ia_close");
        return libdat2(ia, flags);
    }
    const inside now;
    return to_two(one().ia_close_func(ia, flags));
}

OSD_EXPORT DAT_RETURN DAT_API dats_get_ia_handle(DAT_IA_HANDLE ia, DAT_IA_HANDLE *other)
{
    using get = DAT_RETURN(DAT_IA_HANDLE, DAT_IA_HANDLE *);
    static const auto libdat2 = in_libdat2<get>("dats_get_ia_handle");
    return libdat2(ia, other);
}

OSD_EXPORT DAT_RETURN DAT_API dat_registry_add_provider(const DAT_PROVIDER *provider,
                                                        const DAT_PROVIDER_INFO *info)
{
    static const auto libdat2 =
        in_libdat2<decltype(dat_registry_add_provider)>("dat_registry_add_provider");
    return libdat2(provider, info);
}

OSD_EXPORT DAT_RETURN DAT_API dat_registry_remove_provider(const DAT_PROVIDER *provider,
                                                           const DAT_PROVIDER_INFO *info)
{
    static const auto libdat2 =
        in_libdat2<decltype(dat_registry_remove_provider)>("dat_registry_remove_provider");
    return libdat2(provider, info);
}

OSD_EXPORT DAT_RETURN DAT_API dat_registry_list_providers(DAT_COUNT max, DAT_COUNT *count,
                                                          DAT_PROVIDER_INFO *list[])
{
    static const auto libdat = find<decltype(dat_registry_list_providers)>(
        "dat_registry_list_providers", "libdat.so.1", "DAT_1.2");
    const DAT_RETURN status = libdat(max, count, list);
    for (DAT_COUNT i = 0; status == DAT_SUCCESS && i < *count; ++i) {
        list[i]->dapl_version_major = 2;
        list[i]->dapl_version_minor = 0;
    }
    return to_two(status);
}

OSD_EXPORT DAT_RETURN DAT_API dat_strerror(DAT_RETURN value, const char **major, const char **minor)
{
    static const auto libdat2 = in_libdat2<decltype(dat_strerror)>("dat_strerror");
    return libdat2(value, major, minor);
}

OSD_EXPORT DAT_RETURN DAT_API dat_ia_query(DAT_IA_HANDLE ia, DAT_EVD_HANDLE *async,
                                           DAT_IA_ATTR_MASK mask, DAT_IA_ATTR *attr,
                                           DAT_PROVIDER_ATTR_MASK provider_mask,
                                           DAT_PROVIDER_ATTR *provider)
{
    v1::DAT_IA_ATTR attr_one{};
    v1::DAT_PROVIDER_ATTR provider_one{};
    const bool bad_mask = (mask & ~DAT_IA_FIELD_ALL) != 0;
    const bool bad_provider_mask = (provider_mask & ~DAT_PROVIDER_FIELD_ALL) != 0;
    const DAT_RETURN status = one().ia_query_func(ia, async,
                                                  bad_mask    ? ~DAT_UINT64{0}
                                                  : mask != 0 ? v1::IA_FIELD_ALL
                                                              : 0,
                                                  attr != nullptr ? &attr_one : nullptr,
                                                  bad_provider_mask    ? ~DAT_UINT64{0}
                                                  : provider_mask != 0 ? v1::PROVIDER_FIELD_ALL
                                                                       : 0,
                                                  provider != nullptr ? &provider_one : nullptr);
    if (status == DAT_SUCCESS && mask != 0)
        translate(attr_one, *attr);
    if (status == DAT_SUCCESS && provider_mask != 0)
        translate(provider_one, *provider);
    return to_two(status);
}

// --- Calls that are the same in both
// -----------------------------------------------------------------

#define SAME1(name, T1)                                                                            \
    OSD_EXPORT DAT_RETURN DAT_API dat_##name(T1 a)                                                 \
    {                                                                                              \
        return to_two(one().name##_func(a));                                                       \
    }
#define SAME2(name, T1, T2)                                                                        \
    OSD_EXPORT DAT_RETURN DAT_API dat_##name(T1 a, T2 b)                                           \
    {                                                                                              \
        return to_two(one().name##_func(a, b));                                                    \
    }
#define SAME3(name, T1, T2, T3)                                                                    \
    OSD_EXPORT DAT_RETURN DAT_API dat_##name(T1 a, T2 b, T3 c)                                     \
    {                                                                                              \
        return to_two(one().name##_func(a, b, c));                                                 \
    }
#define SAME4(name, T1, T2, T3, T4)                                                                \
    OSD_EXPORT DAT_RETURN DAT_API dat_##name(T1 a, T2 b, T3 c, T4 d)                               \
    {                                                                                              \
        return to_two(one().name##_func(a, b, c, d));                                              \
    }
#define SAME5(name, T1, T2, T3, T4, T5)                                                            \
    OSD_EXPORT DAT_RETURN DAT_API dat_##name(T1 a, T2 b, T3 c, T4 d, T5 e)                         \
    {                                                                                              \
        return to_two(one().name##_func(a, b, c, d, e));                                           \
    }

SAME2(set_consumer_context, DAT_HANDLE, DAT_CONTEXT)
SAME2(get_consumer_context, DAT_HANDLE, DAT_CONTEXT *)
SAME3(cno_create, DAT_IA_HANDLE, DAT_OS_WAIT_PROXY_AGENT, DAT_CNO_HANDLE *)
SAME2(cno_modify_agent, DAT_CNO_HANDLE, DAT_OS_WAIT_PROXY_AGENT)
SAME1(cno_free, DAT_CNO_HANDLE)
SAME3(cno_wait, DAT_CNO_HANDLE, DAT_TIMEOUT, DAT_EVD_HANDLE *)
SAME3(cr_query, DAT_CR_HANDLE, DAT_CR_PARAM_MASK, DAT_CR_PARAM *)
SAME4(cr_accept, DAT_CR_HANDLE, DAT_EP_HANDLE, DAT_COUNT, const DAT_PVOID)
SAME2(cr_handoff, DAT_CR_HANDLE, DAT_CONN_QUAL)
SAME2(evd_modify_cno, DAT_EVD_HANDLE, DAT_CNO_HANDLE)
SAME1(evd_enable, DAT_EVD_HANDLE)
SAME1(evd_disable, DAT_EVD_HANDLE)
SAME1(evd_set_unwaitable, DAT_EVD_HANDLE)
SAME1(evd_clear_unwaitable, DAT_EVD_HANDLE)
SAME2(evd_resize, DAT_EVD_HANDLE, DAT_COUNT)
SAME1(evd_free, DAT_EVD_HANDLE)
SAME2(ep_disconnect, DAT_EP_HANDLE, DAT_CLOSE_FLAGS)
SAME1(ep_free, DAT_EP_HANDLE)
SAME1(ep_reset, DAT_EP_HANDLE)
SAME3(ep_recv_query, DAT_EP_HANDLE, DAT_COUNT *, DAT_COUNT *)
SAME3(ep_set_watermark, DAT_EP_HANDLE, DAT_COUNT, DAT_COUNT)
SAME1(lmr_free, DAT_LMR_HANDLE)
SAME2(rmr_create, DAT_PZ_HANDLE, DAT_RMR_HANDLE *)
SAME1(rmr_free, DAT_RMR_HANDLE)
SAME5(psp_create, DAT_IA_HANDLE, DAT_CONN_QUAL, DAT_EVD_HANDLE, DAT_PSP_FLAGS, DAT_PSP_HANDLE *)
SAME5(psp_create_any, DAT_IA_HANDLE, DAT_CONN_QUAL *, DAT_EVD_HANDLE, DAT_PSP_FLAGS,
      DAT_PSP_HANDLE *)
SAME3(psp_query, DAT_PSP_HANDLE, DAT_PSP_PARAM_MASK, DAT_PSP_PARAM *)
SAME1(psp_free, DAT_PSP_HANDLE)
SAME5(rsp_create, DAT_IA_HANDLE, DAT_CONN_QUAL, DAT_EP_HANDLE, DAT_EVD_HANDLE, DAT_RSP_HANDLE *)
SAME3(rsp_query, DAT_RSP_HANDLE, DAT_RSP_PARAM_MASK, DAT_RSP_PARAM *)
SAME1(rsp_free, DAT_RSP_HANDLE)
SAME2(pz_create, DAT_IA_HANDLE, DAT_PZ_HANDLE *)
SAME3(pz_query, DAT_PZ_HANDLE, DAT_PZ_PARAM_MASK, DAT_PZ_PARAM *)
SAME1(pz_free, DAT_PZ_HANDLE)
SAME4(srq_create, DAT_IA_HANDLE, DAT_PZ_HANDLE, DAT_SRQ_ATTR *, DAT_SRQ_HANDLE *)
SAME1(srq_free, DAT_SRQ_HANDLE)
SAME2(srq_resize, DAT_SRQ_HANDLE, DAT_COUNT)
SAME2(srq_set_lw, DAT_SRQ_HANDLE, DAT_COUNT)

OSD_EXPORT DAT_RETURN DAT_API dat_get_handle_type(DAT_HANDLE handle, DAT_HANDLE_TYPE *type)
{
    v1::DAT_HANDLE_TYPE found{};
    const DAT_RETURN status =
        one().get_handle_type_func(handle, type != nullptr ? &found : nullptr);
    if (status == DAT_SUCCESS)
        *type = static_cast<DAT_HANDLE_TYPE>(found);
    return to_two(status);
}

OSD_EXPORT DAT_RETURN DAT_API dat_cno_query(DAT_CNO_HANDLE cno, DAT_CNO_PARAM_MASK mask,
                                            DAT_CNO_PARAM *param)
{
    v1::DAT_CNO_PARAM found{};
    const DAT_RETURN status = one().cno_query_func(
        cno,
        mask > DAT_CNO_FIELD_ALL ? static_cast<v1::DAT_CNO_PARAM_MASK>(4) : v1::DAT_CNO_FIELD_ALL,
        param != nullptr ? &found : nullptr);
    if (status != DAT_SUCCESS)
        return to_two(status);
    param->ia_handle = found.ia_handle;
    param->proxy_type =
        found.agent.proxy_agent_func != nullptr ? DAT_PROXY_TYPE_AGENT : DAT_PROXY_TYPE_NONE;
    param->proxy.agent = found.agent;
    return DAT_SUCCESS;
}

OSD_EXPORT DAT_RETURN DAT_API dat_cr_reject(DAT_CR_HANDLE cr, DAT_COUNT size, const DAT_PVOID)
{
    return size == 0 ? to_two(one().cr_reject_func(cr)) : not_in_dat12;
}

// --- Event dispatchers
// -------------------------------------------------------------------------------

OSD_EXPORT DAT_RETURN DAT_API dat_evd_create(DAT_IA_HANDLE ia, DAT_COUNT qlen, DAT_CNO_HANDLE cno,
                                             DAT_EVD_FLAGS flags, DAT_EVD_HANDLE *evd)
{
    return to_two(one().evd_create_func(ia, qlen, cno, static_cast<v1::DAT_EVD_FLAGS>(flags), evd));
}

OSD_EXPORT DAT_RETURN DAT_API dat_evd_query(DAT_EVD_HANDLE evd, DAT_EVD_PARAM_MASK mask,
                                            DAT_EVD_PARAM *param)
{
    return to_two(one().evd_query_func(evd, mask, reinterpret_cast<v1::DAT_EVD_PARAM *>(param)));
}
static_assert(sizeof(DAT_EVD_PARAM) == sizeof(v1::DAT_EVD_PARAM));

OSD_EXPORT DAT_RETURN DAT_API dat_evd_post_se(DAT_EVD_HANDLE evd, const DAT_EVENT *event)
{
    v1::DAT_EVENT software{};
    if (event != nullptr) {
        software.event_number = static_cast<v1::DAT_EVENT_NUMBER>(event->event_number);
        software.event_data.software_event_data = event->event_data.software_event_data;
    }
    return to_two(one().evd_post_se_func(evd, event != nullptr ? &software : nullptr));
}

OSD_EXPORT DAT_RETURN DAT_API dat_evd_dequeue(DAT_EVD_HANDLE evd, DAT_EVENT *event)
{
    v1::DAT_EVENT found;
    const DAT_RETURN status = one().evd_dequeue_func(evd, event != nullptr ? &found : nullptr);
    if (status == DAT_SUCCESS)
        translate(found, *event);
    return to_two(status);
}

OSD_EXPORT DAT_RETURN DAT_API dat_evd_wait(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout,
                                           DAT_COUNT threshold, DAT_EVENT *event, DAT_COUNT *more)
{
    v1::DAT_EVENT found;
    const DAT_RETURN status =
        one().evd_wait_func(evd, timeout, threshold, event != nullptr ? &found : nullptr, more);
    if (status == DAT_SUCCESS)
        translate(found, *event);
    return to_two(status);
}

// --- Endpoints
// ---------------------------------------------------------------------------------------

OSD_EXPORT DAT_RETURN DAT_API dat_ep_create(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv,
                                            DAT_EVD_HANDLE request, DAT_EVD_HANDLE connect,
                                            const DAT_EP_ATTR *attr, DAT_EP_HANDLE *ep)
{
    const ep_attributes given(attr);
    return to_two(one().ep_create_func(ia, pz, recv, request, connect, given.pointer(), ep));
}

OSD_EXPORT DAT_RETURN DAT_API dat_ep_create_with_srq(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz,
                                                     DAT_EVD_HANDLE recv, DAT_EVD_HANDLE request,
                                                     DAT_EVD_HANDLE connect, DAT_SRQ_HANDLE srq,
                                                     const DAT_EP_ATTR *attr, DAT_EP_HANDLE *ep)
{
    const ep_attributes given(attr);
    return to_two(
        one().ep_create_with_srq_func(ia, pz, recv, request, connect, srq, given.pointer(), ep));
}

OSD_EXPORT DAT_RETURN DAT_API dat_ep_query(DAT_EP_HANDLE ep, DAT_EP_PARAM_MASK mask,
                                           DAT_EP_PARAM *param)
{
    v1::DAT_EP_PARAM found{};
    const DAT_RETURN status =
        one().ep_query_func(ep, ep_mask(mask), param != nullptr ? &found : nullptr);
    if (status != DAT_SUCCESS)
        return to_two(status);
    param->ia_handle = found.ia_handle;
    param->ep_state = static_cast<DAT_EP_STATE>(found.ep_state);
    param->comm = {};
    param->local_ia_address_ptr = found.local_ia_address_ptr;
    param->local_port_qual = found.local_port_qual;
    param->remote_ia_address_ptr = found.remote_ia_address_ptr;
    param->remote_port_qual = found.remote_port_qual;
    param->pz_handle = found.pz_handle;
    param->recv_evd_handle = found.recv_evd_handle;
    param->request_evd_handle = found.request_evd_handle;
    param->connect_evd_handle = found.connect_evd_handle;
    param->srq_handle = found.srq_handle;
    dat12::copy_attributes(found.ep_attr, param->ep_attr);
    return DAT_SUCCESS;
}

OSD_EXPORT DAT_RETURN DAT_API dat_ep_modify(DAT_EP_HANDLE ep, DAT_EP_PARAM_MASK mask,
                                            const DAT_EP_PARAM *param)
{
    v1::DAT_EP_PARAM given{};
    if (param != nullptr) {
        given.pz_handle = param->pz_handle;
        given.recv_evd_handle = param->recv_evd_handle;
        given.request_evd_handle = param->request_evd_handle;
        given.connect_evd_handle = param->connect_evd_handle;
        given.srq_handle = param->srq_handle;
        dat12::copy_attributes(param->ep_attr, given.ep_attr);
    }
    // What cannot be changed in DAT 2.0 and is not there in DAT 1.2 cannot be changed either.
    if ((mask & DAT_EP_FIELD_COMM) != 0)
        return bad_argument(2);
    return to_two(one().ep_modify_func(ep, ep_mask(mask), param != nullptr ? &given : nullptr));
}

OSD_EXPORT DAT_RETURN DAT_API dat_ep_connect(DAT_EP_HANDLE ep, DAT_IA_ADDRESS_PTR address,
                                             DAT_CONN_QUAL qualifier, DAT_TIMEOUT timeout,
                                             DAT_COUNT size, const DAT_PVOID data, DAT_QOS qos,
                                             DAT_CONNECT_FLAGS flags)
{
    return to_two(one().ep_connect_func(ep, address, qualifier, timeout, size, data, qos,
                                        static_cast<v1::DAT_CONNECT_FLAGS>(flags)));
}

OSD_EXPORT DAT_RETURN DAT_API dat_ep_dup_connect(DAT_EP_HANDLE ep, DAT_EP_HANDLE model,
                                                 DAT_TIMEOUT timeout, DAT_COUNT size,
                                                 const DAT_PVOID data, DAT_QOS qos)
{
    return to_two(one().ep_dup_connect_func(ep, model, timeout, size, data, qos));
}

OSD_EXPORT DAT_RETURN DAT_API dat_ep_get_status(DAT_EP_HANDLE ep, DAT_EP_STATE *state,
                                                DAT_BOOLEAN *recv_idle, DAT_BOOLEAN *request_idle)
{
    v1::DAT_EP_STATE found{};
    const DAT_RETURN status =
        one().ep_get_status_func(ep, state != nullptr ? &found : nullptr, recv_idle, request_idle);
    if (status == DAT_SUCCESS && state != nullptr)
        *state = static_cast<DAT_EP_STATE>(found);
    return to_two(status);
}

OSD_EXPORT DAT_RETURN DAT_API dat_ep_post_send(DAT_EP_HANDLE ep, DAT_COUNT count,
                                               DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
                                               DAT_COMPLETION_FLAGS flags)
{
    segments list(iov, count_of(count));
    return to_two(one().ep_post_send_func(ep, count, list.pointer(), cookie, to_one(flags)));
}

OSD_EXPORT DAT_RETURN DAT_API dat_ep_post_recv(DAT_EP_HANDLE ep, DAT_COUNT count,
                                               DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
                                               DAT_COMPLETION_FLAGS flags)
{
    segments list(iov, count_of(count));
    return to_two(one().ep_post_recv_func(ep, count, list.pointer(), cookie, to_one(flags)));
}

OSD_EXPORT DAT_RETURN DAT_API dat_ep_post_rdma_read(DAT_EP_HANDLE ep, DAT_COUNT count,
                                                    DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
                                                    const DAT_RMR_TRIPLET *remote,
                                                    DAT_COMPLETION_FLAGS flags)
{
    segments list(iov, count_of(count));
    const remote_segment source(remote);
    return to_two(one().ep_post_rdma_read_func(ep, count, list.pointer(), cookie, source.pointer(),
                                               to_one(flags)));
}

OSD_EXPORT DAT_RETURN DAT_API dat_ep_post_rdma_write(DAT_EP_HANDLE ep, DAT_COUNT count,
                                                     DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
                                                     const DAT_RMR_TRIPLET *remote,
                                                     DAT_COMPLETION_FLAGS flags)
{
    segments list(iov, count_of(count));
    const remote_segment target(remote);
    return to_two(one().ep_post_rdma_write_func(ep, count, list.pointer(), cookie, target.pointer(),
                                                to_one(flags)));
}

OSD_EXPORT DAT_RETURN DAT_API dat_srq_post_recv(DAT_SRQ_HANDLE srq, DAT_COUNT count,
                                                DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie)
{
    segments list(iov, count_of(count));
    return to_two(one().srq_post_recv_func(srq, count, list.pointer(), cookie));
}

OSD_EXPORT DAT_RETURN DAT_API dat_srq_query(DAT_SRQ_HANDLE srq, DAT_SRQ_PARAM_MASK mask,
                                            DAT_SRQ_PARAM *param)
{
    v1::DAT_SRQ_PARAM found{};
    const DAT_RETURN status = one().srq_query_func(srq, mask, param != nullptr ? &found : nullptr);
    if (status != DAT_SUCCESS)
        return to_two(status);
    std::memcpy(param, &found, sizeof *param);
    param->srq_state = found.srq_state == v1::DAT_SRQ_STATE_OPERATIONAL ? DAT_SRQ_STATE_OPERATIONAL
                                                                        : DAT_SRQ_STATE_ERROR;
    return DAT_SUCCESS;
}
static_assert(sizeof(DAT_SRQ_PARAM) == sizeof(v1::DAT_SRQ_PARAM));

// --- Memory
// ------------------------------------------------------------------------------------------

OSD_EXPORT DAT_RETURN DAT_API dat_lmr_create(
    DAT_IA_HANDLE ia, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION region, DAT_VLEN length,
    DAT_PZ_HANDLE pz, DAT_MEM_PRIV_FLAGS privileges, DAT_VA_TYPE va_type, DAT_LMR_HANDLE *lmr,
    DAT_LMR_CONTEXT *lmr_context, DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *size, DAT_VADDR *address)
{
    if (va_type == DAT_VA_TYPE_ZB) { // the other arguments are checked first
        DAT_LMR_HANDLE made = DAT_HANDLE_NULL;
        const DAT_RETURN status =
            dat_lmr_create(ia, type, region, length, pz, privileges, DAT_VA_TYPE_VA,
                           lmr != nullptr ? &made : nullptr, nullptr, nullptr, nullptr, nullptr);
        if (status != DAT_SUCCESS)
            return status;
        (void)one().lmr_free_func(made);
        return not_in_dat12;
    }
    if (va_type != DAT_VA_TYPE_VA)
        return bad_argument(7);
    return with_position(
        to_two(one().lmr_create_func(ia, type, region, length, pz,
                                     static_cast<v1::DAT_MEM_PRIV_FLAGS>(privileges), lmr,
                                     lmr_context, rmr_context, size, address)),
        7);
}

OSD_EXPORT DAT_RETURN DAT_API dat_lmr_query(DAT_LMR_HANDLE lmr, DAT_LMR_PARAM_MASK mask,
                                            DAT_LMR_PARAM *param)
{
    v1::DAT_LMR_PARAM found{};
    const DAT_UINT64 fields = (mask & ~DAT_LMR_FIELD_ALL) != 0
                                  ? DAT_UINT64{0x400}
                                  : without(mask, DAT_LMR_FIELD_LMR_CONTEXT, 1);
    const DAT_RETURN status = one().lmr_query_func(lmr, static_cast<v1::DAT_LMR_PARAM_MASK>(fields),
                                                   param != nullptr ? &found : nullptr);
    if (status != DAT_SUCCESS)
        return to_two(status);
    param->ia_handle = found.ia_handle;
    param->mem_type = found.mem_type;
    param->region_desc = found.region_desc;
    param->length = found.length;
    param->pz_handle = found.pz_handle;
    param->mem_priv = static_cast<DAT_MEM_PRIV_FLAGS>(found.mem_priv);
    param->va_type = DAT_VA_TYPE_VA;
    param->lmr_context = found.lmr_context;
    param->rmr_context = found.rmr_context;
    param->registered_size = found.registered_size;
    param->registered_address = found.registered_address;
    return DAT_SUCCESS;
}

OSD_EXPORT DAT_RETURN DAT_API dat_lmr_sync_rdma_read(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *iov,
                                                     DAT_VLEN count)
{
    segments list(iov, count);
    return to_two(one().lmr_sync_rdma_read_func(ia, list.pointer(), count));
}

OSD_EXPORT DAT_RETURN DAT_API dat_lmr_sync_rdma_write(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *iov,
                                                      DAT_VLEN count)
{
    segments list(iov, count);
    return to_two(one().lmr_sync_rdma_write_func(ia, list.pointer(), count));
}

OSD_EXPORT DAT_RETURN DAT_API dat_rmr_query(DAT_RMR_HANDLE rmr, DAT_RMR_PARAM_MASK mask,
                                            DAT_RMR_PARAM *param)
{
    v1::DAT_RMR_PARAM found{};
    const bool bad_mask = (mask & ~DAT_RMR_FIELD_ALL) != 0;
    const DAT_RETURN status =
        one().rmr_query_func(rmr,
                             static_cast<v1::DAT_RMR_PARAM_MASK>(
                                 bad_mask ? 0x20 : static_cast<int>(mask) & v1::DAT_RMR_FIELD_ALL),
                             param != nullptr ? &found : nullptr);
    if (status != DAT_SUCCESS)
        return to_two(status);
    param->ia_handle = found.ia_handle;
    param->pz_handle = found.pz_handle;
    param->lmr_triplet = {found.lmr_triplet.virtual_address,
                          static_cast<DAT_SEG_LENGTH>(found.lmr_triplet.segment_length),
                          found.lmr_triplet.lmr_context};
    param->mem_priv = static_cast<DAT_MEM_PRIV_FLAGS>(found.mem_priv);
    param->rmr_context = found.rmr_context;
    param->rmr_scope = DAT_RMR_SCOPE_PZ;
    param->va_type = DAT_VA_TYPE_VA;
    return DAT_SUCCESS;
}

/// In DAT 1.2 the region is named by the context of the segment, in DAT 2.0 by its handle.
OSD_EXPORT DAT_RETURN DAT_API dat_rmr_bind(DAT_RMR_HANDLE rmr, DAT_LMR_HANDLE lmr,
                                           const DAT_LMR_TRIPLET *segment,
                                           DAT_MEM_PRIV_FLAGS privileges, DAT_VA_TYPE va_type,
                                           DAT_EP_HANDLE ep, DAT_RMR_COOKIE cookie,
                                           DAT_COMPLETION_FLAGS flags, DAT_RMR_CONTEXT *context)
{
    if (va_type == DAT_VA_TYPE_ZB)
        return not_in_dat12;
    if (va_type != DAT_VA_TYPE_VA)
        return bad_argument(5);
    segments list(segment, 1);
    v1::DAT_LMR_PARAM region{};
    if (segment != nullptr && segment->segment_length != 0) {
        const DAT_RETURN known = one().lmr_query_func(lmr, v1::DAT_LMR_FIELD_LMR_CONTEXT, &region);
        if (known != DAT_SUCCESS)
            return to_two(known);
        list.list.front().lmr_context = region.lmr_context;
    }
    const DAT_RETURN status =
        one().rmr_bind_func(rmr, list.pointer(), static_cast<v1::DAT_MEM_PRIV_FLAGS>(privileges),
                            ep, cookie, to_one(flags), context);
    return with_position(with_position(to_two(status), 2), 5);
}

// --- What DAT 1.2 does not have
// ----------------------------------------------------------------------

OSD_EXPORT DAT_RETURN DAT_API dat_extension_op(DAT_HANDLE, DAT_EXTENDED_OP, ...)
{
    return DAT_CLASS_ERROR | static_cast<DAT_UINT32>(DAT_NOT_IMPLEMENTED);
}

OSD_EXPORT DAT_RETURN DAT_API dat_registry_providers_related(const DAT_NAME_PTR, const DAT_NAME_PTR,
                                                             DAT_HA_RELATIONSHIP *)
{
    return not_in_dat12;
}

OSD_EXPORT DAT_RETURN DAT_API dat_csp_create(DAT_IA_HANDLE, DAT_COMM *, DAT_IA_ADDRESS_PTR,
                                             DAT_EVD_HANDLE, DAT_CSP_HANDLE *)
{
    return not_in_dat12;
}

OSD_EXPORT DAT_RETURN DAT_API dat_csp_query(DAT_CSP_HANDLE, DAT_CSP_PARAM_MASK, DAT_CSP_PARAM *)
{
    return not_in_dat12;
}

OSD_EXPORT DAT_RETURN DAT_API dat_csp_free(DAT_CSP_HANDLE)
{
    return not_in_dat12;
}

OSD_EXPORT DAT_RETURN DAT_API dat_ep_common_connect(DAT_EP_HANDLE, DAT_IA_ADDRESS_PTR, DAT_TIMEOUT,
                                                    DAT_COUNT, const DAT_PVOID)
{
    return not_in_dat12;
}

OSD_EXPORT DAT_RETURN DAT_API dat_rmr_create_for_ep(DAT_PZ_HANDLE, DAT_RMR_HANDLE *)
{
    return not_in_dat12;
}

OSD_EXPORT DAT_RETURN DAT_API dat_ep_post_send_with_invalidate(DAT_EP_HANDLE, DAT_COUNT,
                                                               DAT_LMR_TRIPLET *, DAT_DTO_COOKIE,
                                                               DAT_COMPLETION_FLAGS, DAT_BOOLEAN,
                                                               DAT_RMR_CONTEXT)
{
    return not_in_dat12;
}

OSD_EXPORT DAT_RETURN DAT_API dat_ep_post_rdma_read_to_rmr(DAT_EP_HANDLE, const DAT_RMR_TRIPLET *,
                                                           DAT_DTO_COOKIE, const DAT_RMR_TRIPLET *,
                                                           DAT_COMPLETION_FLAGS)
{
    return not_in_dat12;
}

OSD_EXPORT DAT_RETURN DAT_API dat_cno_fd_create(DAT_IA_HANDLE, DAT_FD *, DAT_CNO_HANDLE *)
{
    return not_in_dat12;
}

OSD_EXPORT DAT_RETURN DAT_API dat_cno_trigger(DAT_CNO_HANDLE, DAT_EVD_HANDLE *)
{
    return not_in_dat12;
}

} // extern "C"
