// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The calls of DAT 1.2 that libdat exports. The same functions are behind its symbols and in the
// vector that the redirection macros of programs go through.
#pragma once

#include "dat12_types.hpp"
#include "osd_annotations.hpp"

#include <type_traits>

// In the order of the vector, from slot 3 on.
#define DAT12_SLOTS(X)                                                                             \
    X(ia_query)                                                                                    \
    X(ia_close)                                                                                    \
    X(set_consumer_context)                                                                        \
    X(get_consumer_context)                                                                        \
    X(get_handle_type) X(cno_create) X(cno_modify_agent) X(cno_query) X(cno_free) X(cno_wait)      \
        X(cr_query) X(cr_accept) X(cr_reject) X(cr_handoff) X(evd_create) X(evd_query)             \
            X(evd_modify_cno) X(evd_enable) X(evd_disable) X(evd_wait) X(evd_resize)               \
                X(evd_post_se) X(evd_dequeue) X(evd_free) X(ep_create) X(ep_query) X(ep_modify)    \
                    X(ep_connect) X(ep_dup_connect) X(ep_disconnect) X(ep_post_send)               \
                        X(ep_post_recv) X(ep_post_rdma_read) X(ep_post_rdma_write)                 \
                            X(ep_get_status) X(ep_free) X(lmr_create) X(lmr_query) X(lmr_free)     \
                                X(rmr_create) X(rmr_query) X(rmr_bind) X(rmr_free) X(psp_create)   \
                                    X(psp_query) X(psp_free) X(rsp_create) X(rsp_query)            \
                                        X(rsp_free) X(pz_create) X(pz_query) X(pz_free)            \
                                            X(psp_create_any) X(ep_reset) X(evd_set_unwaitable)    \
                                                X(evd_clear_unwaitable) X(lmr_sync_rdma_read)      \
                                                    X(lmr_sync_rdma_write) X(ep_create_with_srq)   \
                                                        X(ep_recv_query) X(ep_set_watermark)       \
                                                            X(srq_create) X(srq_free)              \
                                                                X(srq_post_recv) X(srq_query)      \
                                                                    X(srq_resize) X(srq_set_lw)

// Each has the type of its slot and the symbol of its call. In C++ it has a name of its own,
// because dat2/ declares a function of the symbol's name with other types.
#define DAT12_DECLARE(name)                                                                        \
    extern "C" OSD_EXPORT std::remove_pointer_t<decltype(v1::DAT_PROVIDER::name##_func)>           \
        dat12_##name __asm__("dat_" #name);
DAT12_SLOTS(DAT12_DECLARE)
#undef DAT12_DECLARE

namespace dat12 {

extern const v1::DAT_PROVIDER provider_vector;

} // namespace dat12
