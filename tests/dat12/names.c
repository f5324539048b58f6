/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The adapters that the lines of dat.conf make known to DAT 1.2: with names.conf as the file. */
#define _POSIX_C_SOURCE 200112L /* setenv */
#include <dat/udat.h>

#include "checks.h"

#include <stdlib.h>

static DAT_RETURN try_open(const char *name, DAT_UINT32 major, DAT_UINT32 minor, DAT_BOOLEAN safety)
{
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_RETURN status = dat_ia_openv((DAT_NAME_PTR)name, 8, &evd, &ia, major, minor, safety);

    if (status == DAT_SUCCESS)
        status = dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG);
    return status;
}

#define NOT_FOUND(subtype) ERROR_OF(DAT_PROVIDER_NOT_FOUND, subtype)

/* For want of descriptors, say. Has to be the first case. */
static void a_file_that_cannot_be_read_is_read_by_the_next_open(void)
{
    const char *file = getenv("DAT_OVERRIDE");
    char *kept = malloc(strlen(file) + 1);

    strcpy(kept, file);
    setenv("DAT_OVERRIDE", "/nowhere/dat.conf", 1);
    CHECK(try_open("ib0", 1, 2, DAT_FALSE) == NOT_FOUND(DAT_NAME_NOT_REGISTERED));
    setenv("DAT_OVERRIDE", kept, 1);
    free(kept);
    MUST(try_open("ib0", 1, 2, DAT_FALSE));
}

static void aliases_are_opened(void)
{
    MUST(try_open("OpenIB-cma", 1, 2, DAT_FALSE));
    MUST(try_open("ib0", 1, 2, DAT_FALSE));
    MUST(try_open("nes0", 1, 2, DAT_FALSE));
}

static void an_adapter_needs_a_line_of_its_version(void)
{
    CHECK(try_open("port", 1, 2, DAT_FALSE) == NOT_FOUND(DAT_MAJOR_NOT_FOUND));
    CHECK(try_open("port", 2, 0, DAT_FALSE) == NOT_FOUND(DAT_MAJOR_NOT_FOUND));
    CHECK(try_open("old", 1, 2, DAT_FALSE) == NOT_FOUND(DAT_MINOR_NOT_FOUND));
    CHECK(try_open("old", 1, 1, DAT_FALSE) == NOT_FOUND(DAT_NAME_NOT_REGISTERED));
    CHECK(try_open("ib0", 1, 2, DAT_TRUE) == NOT_FOUND(DAT_THREAD_SAFETY_NOT_FOUND));
    CHECK(try_open("ib1", 1, 2, DAT_FALSE) == NOT_FOUND(DAT_NAME_NOT_REGISTERED));
    CHECK(try_open("", 1, 2, DAT_FALSE) == NOT_FOUND(DAT_NAME_NOT_REGISTERED));
}

static void lines_of_old_providers_are_refused(void)
{
    CHECK(try_open("OpenIB-scm", 1, 2, DAT_FALSE) == NOT_FOUND(DAT_NAME_NOT_REGISTERED));
}

static void lines_are_tried_in_their_order(void)
{
    MUST(try_open("second-line", 1, 2, DAT_FALSE));
}

static void missing_providers_are_reported(void)
{
    CHECK(IS(try_open("nowhere", 1, 2, DAT_FALSE), DAT_PROVIDER_NOT_FOUND));
    CHECK(IS(try_open("gone", 1, 2, DAT_FALSE), DAT_PROVIDER_NOT_FOUND));
}

static void lines_for_others_are_ignored(void)
{
    CHECK(try_open("hidden", 1, 2, DAT_FALSE) == NOT_FOUND(DAT_NAME_NOT_REGISTERED));
    CHECK(try_open("kernel", 1, 2, DAT_FALSE) == NOT_FOUND(DAT_NAME_NOT_REGISTERED));
}

static void names_too_long_are_refused(void)
{
    char name[300];

    memset(name, 'a', sizeof name);
    name[299] = '\0';
    CHECK(try_open(name, 1, 2, DAT_FALSE) == ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
}

static void each_adapter_is_listed_once(void)
{
    static const char *const expected[] = {"OpenIB-cma", "ib0", "nes0", "second-line", "nowhere",
                                           "gone"};
    DAT_PROVIDER_INFO storage[16], *list[16];
    DAT_COUNT i, count = 0;

    for (i = 0; i < 16; ++i)
        list[i] = &storage[i];
    MUST(dat_registry_list_providers(16, &count, list));
    CHECK(count == 6);
    for (i = 0; i < count; ++i)
        CHECK(strcmp(storage[i].ia_name, expected[i]) == 0);
    MUST(dat_registry_list_providers(2, &count, list));
    CHECK(count == 2);
    list[1] = NULL;
    CHECK(dat_registry_list_providers(2, &count, list) ==
          ERROR_OF(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
}

static const struct a_case cases[] = {
    {"a file that cannot be read is read by the next open",
     a_file_that_cannot_be_read_is_read_by_the_next_open},
    {"aliases are opened", aliases_are_opened},
    {"an adapter needs a line of its version", an_adapter_needs_a_line_of_its_version},
    {"lines of old providers are refused", lines_of_old_providers_are_refused},
    {"lines are tried in their order", lines_are_tried_in_their_order},
    {"missing providers are reported", missing_providers_are_reported},
    {"lines for others are ignored", lines_for_others_are_ignored},
    {"names too long are refused", names_too_long_are_refused},
    {"each adapter is listed once", each_adapter_is_listed_once}
};

int main(int argc, char **argv)
{
    return run_cases(cases, sizeof cases / sizeof *cases, argc > 1 ? argv[1] : NULL);
}
