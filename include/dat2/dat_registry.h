/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/**
 * @file dat_registry.h
 * Between libdat2 and a provider library. Consumers do not need it, except for
 * dat_registry_providers_related().
 *
 * When the first adapter of a library is opened, libdat2 loads it and calls
 * its dat_provider_init() with the dat.conf entry; the provider answers with
 * dat_registry_add_provider(). After the last close, libdat2 calls
 * dat_provider_fini(), the provider takes itself out with
 * dat_registry_remove_provider(), and the library is unloaded. It may be
 * loaded again later in the same process.
 */
#ifndef _DAT_REGISTRY_H_
#define _DAT_REGISTRY_H_

#include <dat2/udat.h>
#include <dat2/udat_redirection.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Exported by libdat2 ================================================= */

/**
 * Makes a provider's calls known under an adapter name.
 *
 * @param[in] provider the vector; the pointer is kept, so it must stay in
 *                     place until removed. Its device_name must be the name in
 *                     the info: closing an adapter relies on that
 * @param[in] info     as it was handed to dat_provider_init(); copied
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_PARAMETER `ARG1`, `ARG2`: a NULL pointer
 * @retval DAT_PROVIDER_ALREADY_REGISTERED same name, version, thread safety
 * @retval DAT_INVALID_STATE the registry is shut down already
 * @retval DAT_INSUFFICIENT_RESOURCES
 *
 * Threads: safe. Rule: dat_registry_add_provider(3DAT).
 */
DAT_RETURN DAT_API dat_registry_add_provider(const DAT_PROVIDER *provider,
                                             const DAT_PROVIDER_INFO *info);

/**
 * Takes a provider out of the registry.
 *
 * @param[in] provider the vector that was added
 * @param[in] info     as it was handed to dat_provider_fini()
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_PARAMETER `ARG1`: provider is NULL, or not registered
 *         (DAT_PROVIDER_NOT_FOUND in the reference implementation)
 * @retval DAT_PROVIDER_IN_USE an adapter of it is open
 *
 * Threads: safe. Rule: dat_registry_remove_provider(3DAT).
 */
DAT_RETURN DAT_API dat_registry_remove_provider(const DAT_PROVIDER *provider,
                                                const DAT_PROVIDER_INFO *info);

/**
 * Translates between the adapter handle of a consumer, which is a small number
 * given out by libdat2, and the provider's own, which is a pointer. Providers
 * use it to put the consumer's form into query results and events.
 *
 * @param[in]  handle    either form
 * @param[out] ia_handle the other one
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_HANDLE `IA`: neither
 *
 * Threads: safe. Rule: reference implementation practice; its headers do not
 * declare it, its library exports it.
 */
DAT_RETURN DAT_API dats_get_ia_handle(DAT_IA_HANDLE handle, DAT_IA_HANDLE *ia_handle);

/** Do two adapters lead to one place, so that one can stand in for the other? */
typedef enum dat_ha_relationship {
    DAT_HA_FALSE          = 0,
    DAT_HA_TRUE           = 1,
    DAT_HA_UNKNOWN        = 2,
    DAT_HA_CONFLICTING    = 3, /**< the two providers do not agree */
    DAT_HA_EXTENSION_BASE = 4
} DAT_HA_RELATIONSHIP;

/**
 * Asks how two adapters are related for high availability.
 *
 * @param[in]  ia_name1     one adapter, by name; not kept
 * @param[in]  ia_name2     the other
 * @param[out] relationship the answer
 *
 * @retval DAT_SUCCESS
 * @retval DAT_INVALID_PARAMETER `ARG1` to `ARG3`: a NULL pointer
 * @retval DAT_PROVIDER_NOT_FOUND
 * @retval DAT_MODEL_NOT_SUPPORTED
 *
 * @note Not exported by the reference library.
 *
 * Threads: safe. Rule: DAT 2.0 specification.
 */
DAT_RETURN DAT_API dat_registry_providers_related(const DAT_NAME_PTR ia_name1,
                                                  const DAT_NAME_PTR ia_name2,
                                                  DAT_HA_RELATIONSHIP *relationship);

/* ==== Exported by a provider library ====================================== */

#define DAT_PROVIDER_INIT_FUNC_NAME dat_provider_init
#define DAT_PROVIDER_FINI_FUNC_NAME dat_provider_fini

#define DAT_PROVIDER_INIT_FUNC_STR "dat_provider_init"
#define DAT_PROVIDER_FINI_FUNC_STR "dat_provider_fini"

typedef void (DAT_API *DAT_PROVIDER_INIT_FUNC)(const DAT_PROVIDER_INFO *, const char *);
typedef void (DAT_API *DAT_PROVIDER_FINI_FUNC)(const DAT_PROVIDER_INFO *);

/**
 * Called by libdat2 after it has loaded the library. There is nothing to
 * return: not registering is how to fail, and dat_ia_open() then says
 * DAT_PROVIDER_NOT_FOUND.
 *
 * @param[in] info          the entry that is to be served
 * @param[in] instance_data the ia_params field of dat.conf, without quotes
 *
 * Threads: one call at a time. Rule: DAT 2.0 specification, registry.
 */
void DAT_API dat_provider_init(const DAT_PROVIDER_INFO *info, const char *instance_data);

/**
 * Called by libdat2 before it unloads the library. No thread of the provider
 * may be left when it returns.
 *
 * @param[in] info the entry that was served
 *
 * Threads: one call at a time. Rule: DAT 2.0 specification, registry.
 */
void DAT_API dat_provider_fini(const DAT_PROVIDER_INFO *info);

#ifdef __cplusplus
}
#endif

#endif /* _DAT_REGISTRY_H_ */
