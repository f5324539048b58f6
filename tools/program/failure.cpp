// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "program/failure.hpp"

#include "dat_names.hpp"

#include <cstdio>
#include <cstdlib>

namespace program {

namespace {

std::string registry_advice()
{
    const char *file = std::getenv("DAT_OVERRIDE");
    return std::string(
               "`dat-info` lists the available adapters and explains why one does not load; "
               "DAT_OVERRIDE is ") +
           (file ? file : "not set");
}

std::string advice(DAT_RETURN code)
{
    switch (DAT_GET_TYPE(code)) {
    case DAT_PROVIDER_NOT_FOUND:
        return registry_advice();
    case DAT_CONN_QUAL_IN_USE:
        return "the connection qualifier is in use by another program; choose another --qualifier";
    case DAT_INSUFFICIENT_RESOURCES:
        return "a resource limit is reached: check `ulimit -l` (locked memory) and `ulimit -n` "
               "(files), "
               "or use smaller messages";
    case DAT_INVALID_ADDRESS:
        return "the peer's adapter uses another address family; use the same kind of adapter on "
               "both sides";
    case DAT_MODEL_NOT_SUPPORTED:
    case static_cast<DAT_UINT32>(DAT_NOT_IMPLEMENTED):
        return "not supported by this adapter; exclude the test with --tests";
    default:
        return "set DAPL_DBG_TYPE=0xffff to see the provider's debug messages";
    }
}

} // namespace

std::string code_text(DAT_RETURN code)
{
    const char *major = "unknown code";
    const char *minor = "";
    dat_strerror(code, &major, &minor);
    char number[16];
    std::snprintf(number, sizeof number, "0x%08x", code);
    std::string text = major;
    if (minor && *minor)
        text += std::string(" ") + minor;
    return text + " (" + number + ")";
}

void fail(const char *call, DAT_RETURN code)
{
    throw failure(std::string(call) + ": " + code_text(code) + "\n  " + advice(code));
}

void fail_connection(DAT_EVENT_NUMBER number)
{
    throw failure(std::string("connection failed with ") + dat::event_name(number) +
                  "\n  check that the peer's adapter is reachable and of the same kind");
}

} // namespace program
