/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What libdat calls of libdat2, with the types of DAT 2.0. All else goes to the provider directly.
 */
#ifndef DAT12_LIBDAT2_CALLS_H
#define DAT12_LIBDAT2_CALLS_H

#include <dat2/dat_registry.h>
#include <dat2/udat.h>

#ifdef __cplusplus
extern "C" {
#endif

/* dat_ia_openv() for the version 2.0. */
DAT_RETURN libdat2_ia_openv(const char *name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd,
                            DAT_IA_HANDLE *ia, DAT_BOOLEAN thread_safety);
DAT_RETURN libdat2_ia_close(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS flags);
/* Turns the number of an adapter into the provider's pointer. */
DAT_RETURN libdat2_get_ia_handle(DAT_IA_HANDLE given, DAT_IA_HANDLE *other);
DAT_RETURN libdat2_add_provider(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *info);
DAT_RETURN libdat2_remove_provider(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *info);

#ifdef __cplusplus
}
#endif

#endif /* DAT12_LIBDAT2_CALLS_H */
