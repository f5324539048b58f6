// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// dat_strerror. The names are listed here once more, so that the table it is made from is tested.
#include <cstring>
#include <dat2/udat.h>
#include <doctest/doctest.h>
#include <iterator>
#include <string>

namespace {

struct named {
    unsigned value;
    const char *name;
};

#define NAMED(name)                                                                                \
    {                                                                                              \
        static_cast<unsigned>(name), #name                                                         \
    }

const named types[] = {
    NAMED(DAT_SUCCESS),
    NAMED(DAT_ABORT),
    NAMED(DAT_CONN_QUAL_IN_USE),
    NAMED(DAT_INSUFFICIENT_RESOURCES),
    NAMED(DAT_INTERNAL_ERROR),
    NAMED(DAT_INVALID_HANDLE),
    NAMED(DAT_INVALID_PARAMETER),
    NAMED(DAT_INVALID_STATE),
    NAMED(DAT_LENGTH_ERROR),
    NAMED(DAT_MODEL_NOT_SUPPORTED),
    NAMED(DAT_PROVIDER_NOT_FOUND),
    NAMED(DAT_PRIVILEGES_VIOLATION),
    NAMED(DAT_PROTECTION_VIOLATION),
    NAMED(DAT_QUEUE_EMPTY),
    NAMED(DAT_QUEUE_FULL),
    NAMED(DAT_TIMEOUT_EXPIRED),
    NAMED(DAT_PROVIDER_ALREADY_REGISTERED),
    NAMED(DAT_PROVIDER_IN_USE),
    NAMED(DAT_INVALID_ADDRESS),
    NAMED(DAT_INTERRUPTED_CALL),
    NAMED(DAT_CONN_QUAL_UNAVAILABLE),
    NAMED(DAT_RESERVED_LMR),
    NAMED(DAT_PORT_IN_USE),
    NAMED(DAT_COMM_NOT_SUPPORTED),
    NAMED(DAT_EXTENSION_BASE),
    NAMED(DAT_NOT_IMPLEMENTED),
};

const named subtypes[] = {
    {0, ""},
    NAMED(DAT_SUB_INTERRUPTED),
    NAMED(DAT_RESOURCE_MEMORY),
    NAMED(DAT_RESOURCE_SRQ),
    NAMED(DAT_INVALID_HANDLE_IA),
    NAMED(DAT_INVALID_HANDLE_EVD_REQUEST),
    NAMED(DAT_INVALID_HANDLE_CSP),
    NAMED(DAT_INVALID_HANDLE1),
    NAMED(DAT_INVALID_HANDLE10),
    NAMED(DAT_INVALID_ARG1),
    NAMED(DAT_INVALID_ARG10),
    NAMED(DAT_INVALID_STATE_EP_UNCONNECTED),
    NAMED(DAT_INVALID_STATE_EP_NOTREADY),
    NAMED(DAT_INVALID_STATE_EP_UNCONFTENTATIVE),
    NAMED(DAT_INVALID_STATE_CNO_IN_USE),
    NAMED(DAT_INVALID_STATE_EVD_UNWAITABLE),
    NAMED(DAT_INVALID_STATE_IA_IN_USE),
    NAMED(DAT_INVALID_STATE_PZ_IN_USE),
    NAMED(DAT_INVALID_STATE_SRQ_SHUTDOWN),
    NAMED(DAT_PRIVILEGES_READ),
    NAMED(DAT_PRIVILEGES_RDMA_WRITE),
    NAMED(DAT_PROTECTION_READ),
    NAMED(DAT_PROTECTION_RDMA_WRITE),
    NAMED(DAT_INVALID_ADDRESS_UNSUPPORTED),
    NAMED(DAT_INVALID_ADDRESS_MALFORMED),
    NAMED(DAT_NAME_NOT_REGISTERED),
    NAMED(DAT_MAJOR_NOT_FOUND),
    NAMED(DAT_MINOR_NOT_FOUND),
    NAMED(DAT_THREAD_SAFETY_NOT_FOUND),
};

constexpr unsigned last_subtype = DAT_THREAD_SAFETY_NOT_FOUND;
constexpr unsigned classes[] = {0, DAT_CLASS_ERROR, DAT_CLASS_WARNING};

std::string text(DAT_RETURN value)
{
    const char *major = nullptr, *minor = nullptr;
    REQUIRE(dat_strerror(value, &major, &minor) == DAT_SUCCESS);
    return std::string(major) + "|" + minor;
}

} // namespace

TEST_CASE("every type has its identifier as text, whatever the class")
{
    for (unsigned klass : classes) {
        for (const named &type : types)
            CHECK(text(klass | type.value) == std::string(type.name) + "|");
    }
}

TEST_CASE("every subtype has its identifier as text, and none is empty")
{
    for (unsigned klass : classes) {
        for (const named &subtype : subtypes)
            CHECK(text(klass | DAT_INVALID_STATE | subtype.value) ==
                  std::string("DAT_INVALID_STATE|") + subtype.name);
    }
    CHECK(text(DAT_ABORT) == "DAT_ABORT|");
    for (unsigned subtype = 1; subtype <= last_subtype; ++subtype) {
        const char *minor = nullptr;
        CHECK(dat_strerror(DAT_ABORT | subtype, nullptr, &minor) == DAT_SUCCESS);
        CHECK(std::strncmp(minor, "DAT_", 4) == 0);
    }
}

TEST_CASE("other words are invalid parameters, bare, with texts that can be printed")
{
    const DAT_RETURN words[] = {
        0x00180000,
        0x80180000,
        DAT_EXTENSION_BASE + 0x10000,
        0x3FFE0000,
        DAT_INVALID_STATE | (last_subtype + 1),
        DAT_CLASS_ERROR | DAT_INVALID_STATE | 0xFFFF,
        0xFFFFFFFF,
        0x0000FFFF,
    };
    for (DAT_RETURN word : words) {
        const char *major = nullptr, *minor = nullptr;
        CHECK(dat_strerror(word, &major, &minor) == DAT_INVALID_PARAMETER);
        REQUIRE(major != nullptr);
        REQUIRE(minor != nullptr);
        CHECK(std::strlen(major) > 0);
    }
}

TEST_CASE("either text may be left out")
{
    CHECK(dat_strerror(DAT_ABORT, nullptr, nullptr) == DAT_SUCCESS);
    const char *major = nullptr;
    CHECK(dat_strerror(DAT_ABORT, &major, nullptr) == DAT_SUCCESS);
    CHECK(std::string(major) == "DAT_ABORT");
}
