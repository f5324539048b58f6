/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Cases for programs that are C89 and C++98 at once: a table of named functions, each of which ends
 * at its first failed CHECK.
 */
#ifndef DAT12_CHECKS_H
#define DAT12_CHECKS_H

#include <stdio.h>
#include <string.h>

struct a_case {
    const char *name;
    void (*run)(void);
};

static int case_failed;

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            printf("    %s:%d: %s\n", __FILE__, __LINE__, #condition); \
            case_failed = 1; \
            return; \
        } \
    } while (0)

/* A call that has to succeed; prints its answer otherwise. */
#define MUST(call) \
    do { \
        const DAT_RETURN must_ = (call); \
        if (must_ != DAT_SUCCESS) { \
            const char *major_ = "", *minor_ = ""; \
            (void)dat_strerror(must_, &major_, &minor_); \
            printf("    %s:%d: %s: %s %s\n", __FILE__, __LINE__, #call, major_, minor_); \
            case_failed = 1; \
            return; \
        } \
    } while (0)

/* What a helper found to be wrong ends the case that called it. */
#define SOUND(call) \
    do { \
        (call); \
        if (case_failed) { \
            printf("    %s:%d: in %s\n", __FILE__, __LINE__, #call); \
            return; \
        } \
    } while (0)

#define IS(status, type) (DAT_GET_TYPE(status) == (DAT_RETURN)(type))
#define ERROR_OF(type, subtype) (DAT_CLASS_ERROR | (DAT_RETURN)(type) | (DAT_RETURN)(subtype))

/* Runs the cases whose names contain `wanted`, if that is not null; answers the exit status. */
static int run_cases(const struct a_case *cases, unsigned count, const char *wanted)
{
    unsigned i, failures = 0, ran = 0;

    for (i = 0; i < count; ++i) {
        if (wanted != NULL && strstr(cases[i].name, wanted) == NULL)
            continue;
        ++ran;
        case_failed = 0;
        printf("%s\n", cases[i].name);
        fflush(stdout);
        cases[i].run();
        failures += case_failed != 0;
    }
    printf("%u cases, %u failures\n", ran, failures);
    return failures != 0 || ran == 0;
}

#endif /* DAT12_CHECKS_H */
