/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A consumer in plain C over libdat2 and a provider, each a DLL: opens the adapter, sends itself a
 * software event, waits for an event that does not come, and closes.
 */
#include <stdio.h>

#include <dat2/udat.h>

#define CHECK(condition) \
    do { if (!(condition)) { printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); return 1; } } while (0)

static DAT_RETURN wait_for(DAT_EVD_HANDLE evd, DAT_TIMEOUT us, DAT_EVENT *event)
{
    DAT_COUNT more;
    return dat_evd_wait(evd, us, 1, event, &more);
}

int main(void)
{
    DAT_IA_HANDLE ia;
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL, evd;
    DAT_EVENT event = {0};

    CHECK(dat_ia_open("memory", 8, &async, &ia) == DAT_SUCCESS);
    CHECK(dat_evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_SOFTWARE_FLAG, &evd) == DAT_SUCCESS);

    event.event_number = DAT_SOFTWARE_EVENT;
    event.event_data.software_event_data.pointer = &ia;
    CHECK(dat_evd_post_se(evd, &event) == DAT_SUCCESS);
    event.event_data.software_event_data.pointer = NULL;
    CHECK(wait_for(evd, DAT_TIMEOUT_INFINITE, &event) == DAT_SUCCESS);
    CHECK(event.event_data.software_event_data.pointer == &ia);
    CHECK(wait_for(evd, 20000, &event) == DAT_TIMEOUT_EXPIRED);

    CHECK(dat_evd_free(evd) == DAT_SUCCESS);
    CHECK(dat_evd_free(evd) != DAT_SUCCESS);
    CHECK(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG) == DAT_SUCCESS);
    return 0;
}
