/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/**
 * @file dat_registry.h
 * Between the registry and a provider library of DAT 1.2. Consumers do not
 * need it. libdat itself serves every adapter with providers of DAT 2.0; a
 * provider of DAT 1.2 that registers is turned away.
 */
#ifndef _DAT_REGISTRY_H_
#define _DAT_REGISTRY_H_

#include <dat/udat.h>
#include <dat/udat_redirection.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Exported by libdat ================================================= */

/**
 * Makes a provider's calls known under an adapter name.
 *
 * @param[in] provider the vector
 * @param[in] info     name, version and thread safety
 *
 * @retval DAT_MODEL_NOT_SUPPORTED always, of a DAT 1.x provider
 * @retval DAT_INVALID_PARAMETER `ARG1`, `ARG2`: a NULL pointer
 *
 * A library of DAT 2.0 that finds this function instead of libdat2's, because
 * it was linked with neither, is passed on to libdat2. Threads: safe. Rule:
 * dat_registry_add_provider(3DAT).
 */
DAT_RETURN DAT_API dat_registry_add_provider(DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *info);

/**
 * Takes a provider out of the registry.
 *
 * @param[in] provider the vector that was added
 * @param[in] info     name, version and thread safety
 *
 * @retval DAT_PROVIDER_NOT_FOUND always, of a DAT 1.x provider
 * @retval DAT_INVALID_PARAMETER `ARG1`, `ARG2`: a NULL pointer
 *
 * Threads: safe. Rule: dat_registry_remove_provider(3DAT).
 */
DAT_RETURN DAT_API dat_registry_remove_provider(DAT_PROVIDER *provider,
                                                const DAT_PROVIDER_INFO *info);

/* ==== Exported by a provider library ====================================== */

#define DAT_PROVIDER_INIT_FUNC_NAME dat_provider_init
#define DAT_PROVIDER_FINI_FUNC_NAME dat_provider_fini

#define DAT_PROVIDER_INIT_FUNC_STR "dat_provider_init"
#define DAT_PROVIDER_FINI_FUNC_STR "dat_provider_fini"

typedef void (DAT_API *DAT_PROVIDER_INIT_FUNC)(const DAT_PROVIDER_INFO *, const char *);
typedef void (DAT_API *DAT_PROVIDER_FINI_FUNC)(const DAT_PROVIDER_INFO *);

/**
 * Called by libdat after it has loaded the library. There is nothing to
 * return: not registering is how to fail, and dat_ia_open() then says
 * DAT_PROVIDER_NOT_FOUND.
 *
 * @param[in] info          the entry that is to be served
 * @param[in] instance_data the ia_params field of dat.conf, without quotes
 *
 * Threads: one call at a time. Rule: DAT registry specification.
 */
void DAT_API dat_provider_init(const DAT_PROVIDER_INFO *info, const char *instance_data);

/**
 * Called by libdat before it unloads the library. No thread of the provider
 * may be left when it returns.
 *
 * @param[in] info the entry that was served
 *
 * Threads: one call at a time. Rule: DAT registry specification.
 */
void DAT_API dat_provider_fini(const DAT_PROVIDER_INFO *info);

#ifdef __cplusplus
}
#endif

#endif /* _DAT_REGISTRY_H_ */
