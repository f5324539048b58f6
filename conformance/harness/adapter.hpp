// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// An open adapter, and the objects of it that need no class of their own.
#pragma once

#include "harness/settings.hpp"

#include <dat2/udat.h>

#include <memory>
#include <string>
#include <vector>

namespace conformance {

DAT_RETURN open_adapter(const std::string &name, DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia,
                        DAT_COUNT async_qlen = 64);

class adapter {
public:
    explicit adapter(const std::string &name = the_settings().ia);
    /// Shares the asynchronous EVD of another instance.
    explicit adapter(DAT_EVD_HANDLE shared);
    adapter(const adapter &) = delete;
    adapter &operator=(const adapter &) = delete;
    ~adapter();

    DAT_RETURN close(DAT_CLOSE_FLAGS how);
    bool is_open() const { return handle != DAT_HANDLE_NULL; }
    DAT_SOCK_ADDR *address() const;

    DAT_IA_HANDLE handle = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_IA_ATTR attr{};
    DAT_PROVIDER_ATTR provider{};

private:
    void query();
};

/// Whether a provider says TRUE of a named attribute.
bool offers(const DAT_PROVIDER_ATTR &provider, const char *attribute);
/// The lines of the registry; none if the call fails.
DAT_RETURN list_registry(std::vector<DAT_PROVIDER_INFO> &entries);
/// Another adapter of the registry that opens here: of another vendor, else of another name; null
/// if there is none.
std::unique_ptr<adapter> adapter_of_other_name();

/// Clears the handle after the object is freed, so that no destructor frees it twice: a registry
/// may dereference a handle to find its provider.
template <class Free>
DAT_RETURN free_once(Free *call, DAT_HANDLE &handle)
{
    const DAT_RETURN code = call(handle);
    if (code == DAT_SUCCESS)
        handle = DAT_HANDLE_NULL;
    return code;
}

// These are freed with the adapter.
DAT_EVD_HANDLE make_evd(const adapter &ia, unsigned streams, DAT_COUNT qlen = 64,
                        DAT_CNO_HANDLE cno = DAT_HANDLE_NULL);
DAT_CNO_HANDLE make_cno(const adapter &ia);
DAT_PZ_HANDLE make_pz(const adapter &ia);

} // namespace conformance
