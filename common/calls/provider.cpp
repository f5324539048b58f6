// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the registry sees of a provider library: init and fini, and a vector of functions for each
// adapter line of dat.conf.
#include "calls.hpp"
#include "core/adapter_life.hpp"
#include "counting.hpp"
#include "dapl_debug.hpp"
#include "osd_system.hpp"
#include "osd_thread.hpp"

#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <utility>

extern "C" {
OSD_EXPORT void dat_provider_init(const DAT_PROVIDER_INFO *info, const char *params);
OSD_EXPORT void dat_provider_fini(const DAT_PROVIDER_INFO *info);
OSD_EXPORT DAT_RETURN dapl_extensions(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list arguments);
}

namespace dapl::DAPL_TRANSPORT::core {

namespace {

osd::mutex lines_lock;
provider_line *lines OSD_GUARDED_BY(lines_lock) = nullptr;
void *kept_loaded OSD_GUARDED_BY(lines_lock) = nullptr;
long loaded_by = 0; // process; a forked child owns nothing of ours

bool same_line(const DAT_PROVIDER_INFO &a, const DAT_PROVIDER_INFO &b)
{
    return std::strcmp(a.ia_name, b.ia_name) == 0 && !a.is_thread_safe == !b.is_thread_safe;
}

provider_line *find_line(const char *name, bool thread_safe)
{
    osd::lock_guard hold(lines_lock);
    for (provider_line *line = lines; line != nullptr; line = line->next)
        if (std::strcmp(line->info.ia_name, name) == 0 &&
            (line->info.is_thread_safe == DAT_TRUE) == thread_safe)
            return line;
    return nullptr;
}

/// The registry passes the name alone, so each promise about threads has an open of its own.
template <class Safety>
DAT_RETURN open_ia(const DAT_NAME_PTR name, DAT_COUNT async_qlen, DAT_EVD_HANDLE *async_evd,
                   DAT_IA_HANDLE *out)
{
    if (name == nullptr)
        return invalid_parameter(1).code();
    const provider_line *line = find_line(name, Safety::locks);
    if (line == nullptr)
        return status::error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED).code();
    return open_adapter(*line, async_qlen, async_evd, out).code();
}

/// For the calls that no port can serve yet; typed like the slot it stands in.
template <class>
struct unsupported;
template <class... Arguments>
struct unsupported<DAT_RETURN (*)(Arguments...)> {
    static DAT_RETURN call(Arguments...) { return not_supported.code(); }
};

#define NOT_SUPPORTED(slot) unsupported<decltype(DAT_PROVIDER::slot)>::call

template <class Safety>
constexpr DAT_PROVIDER vector_for()
{
    DAT_PROVIDER v{};
    v.ia_open_func = uncancelled<open_ia<Safety>>;
    v.ia_query_func = uncancelled<dapl_ia_query>;
    v.ia_close_func = uncancelled<dapl_ia_close>;
    v.set_consumer_context_func = uncancelled<dapl_set_consumer_context>;
    v.get_consumer_context_func = uncancelled<dapl_get_consumer_context>;
    v.get_handle_type_func = uncancelled<dapl_get_handle_type>;
    v.cno_create_func = uncancelled<dapl_cno_create>;
    v.cno_modify_agent_func = uncancelled<dapl_cno_modify_agent>;
    v.cno_query_func = uncancelled<dapl_cno_query>;
    v.cno_free_func = uncancelled<dapl_cno_free>;
    v.cno_wait_func = dapl_cno_wait;
    v.cr_query_func = uncancelled<dapl_cr_query>;
    v.cr_accept_func = uncancelled<dapl_cr_accept>;
    v.cr_reject_func = uncancelled<dapl_cr_reject>;
    v.cr_handoff_func = uncancelled<dapl_cr_handoff>;
    v.evd_create_func = uncancelled<dapl_evd_create>;
    v.evd_query_func = uncancelled<dapl_evd_query>;
    v.evd_modify_cno_func = uncancelled<dapl_evd_modify_cno>;
    v.evd_enable_func = uncancelled<dapl_evd_enable>;
    v.evd_disable_func = uncancelled<dapl_evd_disable>;
    v.evd_wait_func = dapl_evd_wait;
    v.evd_resize_func = uncancelled<dapl_evd_resize>;
    v.evd_post_se_func = uncancelled<dapl_evd_post_se>;
    v.evd_dequeue_func = on_data_path<dapl_evd_dequeue<Safety>>;
    v.evd_free_func = uncancelled<dapl_evd_free>;
    v.ep_create_func = uncancelled<dapl_ep_create>;
    v.ep_query_func = uncancelled<dapl_ep_query>;
    v.ep_modify_func = uncancelled<dapl_ep_modify>;
    v.ep_connect_func = uncancelled<dapl_ep_connect>;
    v.ep_dup_connect_func = uncancelled<dapl_ep_dup_connect>;
    v.ep_disconnect_func = uncancelled<dapl_ep_disconnect>;
    v.ep_post_send_func = on_data_path<dapl_ep_post_send<Safety>>;
    v.ep_post_recv_func = on_data_path<dapl_ep_post_recv<Safety>>;
    v.ep_post_rdma_read_func = on_data_path<dapl_ep_post_rdma_read<Safety>>;
    v.ep_post_rdma_write_func = on_data_path<dapl_ep_post_rdma_write<Safety>>;
    v.ep_get_status_func = uncancelled<dapl_ep_get_status>;
    v.ep_free_func = uncancelled<dapl_ep_free>;
    v.lmr_create_func = uncancelled<dapl_lmr_create>;
    v.lmr_query_func = uncancelled<dapl_lmr_query>;
    v.lmr_free_func = uncancelled<dapl_lmr_free>;
    v.rmr_create_func = uncancelled<dapl_rmr_create>;
    v.rmr_query_func = uncancelled<dapl_rmr_query>;
    v.rmr_bind_func = uncancelled<dapl_rmr_bind>;
    v.rmr_free_func = uncancelled<dapl_rmr_free>;
    v.psp_create_func = uncancelled<dapl_psp_create>;
    v.psp_query_func = uncancelled<dapl_psp_query>;
    v.psp_free_func = uncancelled<dapl_psp_free>;
    v.rsp_create_func = uncancelled<dapl_rsp_create>;
    v.rsp_query_func = uncancelled<dapl_rsp_query>;
    v.rsp_free_func = uncancelled<dapl_rsp_free>;
    v.pz_create_func = uncancelled<dapl_pz_create>;
    v.pz_query_func = uncancelled<dapl_pz_query>;
    v.pz_free_func = uncancelled<dapl_pz_free>;
    v.psp_create_any_func = uncancelled<dapl_psp_create_any>;
    v.ep_reset_func = uncancelled<dapl_ep_reset>;
    v.evd_set_unwaitable_func = uncancelled<dapl_evd_set_unwaitable>;
    v.evd_clear_unwaitable_func = uncancelled<dapl_evd_clear_unwaitable>;
    v.lmr_sync_rdma_read_func = uncancelled<dapl_lmr_sync_rdma_read>;
    v.lmr_sync_rdma_write_func = uncancelled<dapl_lmr_sync_rdma_write>;
    v.ep_create_with_srq_func = uncancelled<dapl_ep_create_with_srq>;
    v.ep_recv_query_func = NOT_SUPPORTED(ep_recv_query_func);
    v.ep_set_watermark_func = NOT_SUPPORTED(ep_set_watermark_func);
    v.srq_create_func = uncancelled<dapl_srq_create>;
    v.srq_free_func = uncancelled<dapl_srq_free>;
    v.srq_post_recv_func = on_data_path<dapl_srq_post_recv<Safety>>;
    v.srq_query_func = uncancelled<dapl_srq_query>;
    v.srq_resize_func = uncancelled<dapl_srq_resize>;
    v.srq_set_lw_func = uncancelled<dapl_srq_set_lw>;
    v.csp_create_func = uncancelled<dapl_csp_create>;
    v.csp_query_func = uncancelled<dapl_csp_query>;
    v.csp_free_func = uncancelled<dapl_csp_free>;
    v.ep_common_connect_func = uncancelled<dapl_ep_common_connect>;
    v.rmr_create_for_ep_func = NOT_SUPPORTED(rmr_create_for_ep_func);
    v.ep_post_send_with_invalidate_func = NOT_SUPPORTED(ep_post_send_with_invalidate_func);
    v.ep_post_rdma_read_to_rmr_func = NOT_SUPPORTED(ep_post_rdma_read_to_rmr_func);
    v.cno_fd_create_func = uncancelled<dapl_cno_fd_create>;
    v.cno_trigger_func = uncancelled<dapl_cno_trigger>;
    v.ia_ha_related_func = NOT_SUPPORTED(ia_ha_related_func);
    v.handle_extendedop_func = uncancelled<dapl_extension_op<Safety>>;
    return v;
}

template <class Safety>
void make_vector(DAT_PROVIDER &out)
{
    out = vector_for<Safety>();
    if (counting())
        count_calls<Safety>(out);
}

provider_line *make_line(const DAT_PROVIDER_INFO &info, const char *params)
{
    auto *line = new (std::nothrow) provider_line{};
    if (line == nullptr)
        return nullptr;
    line->info = info;
    if (info.is_thread_safe)
        make_vector<any_thread>(line->vector);
    else
        make_vector<one_thread_per_object>(line->vector);
    line->vector.device_name = line->info.ia_name; // the registry finds the line again by it
    line->params = ::strdup(params == nullptr ? "" : params);
    if (line->params == nullptr) {
        delete line;
        return nullptr;
    }
    return line;
}

void free_line(provider_line *line)
{
    std::free(line->params);
    delete line;
}

void register_line(const DAT_PROVIDER_INFO &info, const char *params)
{
    provider_line *line = make_line(info, params);
    if (line == nullptr) {
        dapl_log(DAPL_DBG_TYPE_ERR, "no memory for adapter %s", info.ia_name);
        return;
    }
    {
        osd::lock_guard hold(lines_lock);
        line->next = lines;
        lines = line;
    }
    const status added{dat_registry_add_provider(&line->vector, &line->info)};
    if (!added.ok())
        dapl_log(DAPL_DBG_TYPE_ERR, "the registry refuses adapter %s: 0x%x", info.ia_name,
                 added.code());
}

void remove_line(const DAT_PROVIDER_INFO &info)
{
    provider_line *gone = nullptr;
    {
        osd::lock_guard hold(lines_lock);
        for (provider_line **link = &lines; *link != nullptr; link = &(*link)->next)
            if (same_line((*link)->info, info)) {
                gone = *link;
                *link = gone->next;
                break;
            }
    }
    if (gone == nullptr)
        return;
    (void)dat_registry_remove_provider(&gone->vector, &gone->info);
    free_line(gone);
}

/// The registry has loaded the library again, which keeps it in memory for threads that left late.
void end_keeping_loaded()
{
    void *kept = nullptr;
    {
        osd::lock_guard hold(lines_lock);
        std::swap(kept, kept_loaded);
    }
    if (kept != nullptr)
        osd::library_close(kept);
}

} // namespace

void outlive_leaving_threads()
{
    osd::lock_guard hold(lines_lock);
    if (kept_loaded == nullptr)
        kept_loaded = osd::library_hold(&lines);
}

void stay_loaded()
{
    (void)osd::library_hold(&lines);
}

} // namespace dapl::DAPL_TRANSPORT::core

void dat_provider_init(const DAT_PROVIDER_INFO *info, const char *params)
{
    using namespace dapl::DAPL_TRANSPORT;
    using namespace dapl::DAPL_TRANSPORT::core;
    debug_init();
    counters_init();
    loaded_by = osd::process_id();
    end_keeping_loaded();
    register_line(*info, params);
}

void dat_provider_fini(const DAT_PROVIDER_INFO *info)
{
    using namespace dapl::DAPL_TRANSPORT::core;
    if (loaded_by == osd::process_id())
        remove_line(*info);
}

DAT_RETURN dapl_extensions(DAT_HANDLE handle, DAT_EXTENDED_OP op, va_list arguments)
{
    using namespace dapl::DAPL_TRANSPORT::core;
    return dapl_extension_op<any_thread>(handle, op, arguments);
}
