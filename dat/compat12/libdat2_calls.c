/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * libdat and libdat2 export equal names. The calls that libdat makes of libdat2 are bound to the
 * version node of that library, here, where none of our own definitions is in sight. Compiled
 * without link-time optimization, which would lose the binding.
 */
#include "libdat2_calls.h"

__asm__(".symver dat_ia_openv, dat_ia_openv@DAT_2.0");
__asm__(".symver dat_ia_close, dat_ia_close@DAT_2.0");
__asm__(".symver dats_get_ia_handle, dats_get_ia_handle@DAT_2.0");
__asm__(".symver dat_registry_add_provider, dat_registry_add_provider@DAT_2.0");
__asm__(".symver dat_registry_remove_provider, dat_registry_remove_provider@DAT_2.0");

DAT_RETURN libdat2_ia_openv(const char *name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd,
                            DAT_IA_HANDLE *ia, DAT_BOOLEAN thread_safety)
{
    return dat_ia_openv((DAT_NAME_PTR)name, qlen, async_evd, ia, 2, 0, thread_safety);
}

DAT_RETURN libdat2_ia_close(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS flags)
{
    return dat_ia_close(ia, flags);
}

DAT_RETURN libdat2_get_ia_handle(DAT_IA_HANDLE given, DAT_IA_HANDLE *other)
{
    return dats_get_ia_handle(given, other);
}

DAT_RETURN libdat2_add_provider(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *info)
{
    return dat_registry_add_provider(provider, info);
}

DAT_RETURN libdat2_remove_provider(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *info)
{
    return dat_registry_remove_provider(provider, info);
}
