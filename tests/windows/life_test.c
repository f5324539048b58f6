/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What an adapter of the software HCA leaves behind and uses: closed, its library is unloaded and
 * no handle more is open than before; open and idle, it uses next to no processor time.
 */
#include <stdio.h>

#include <dat2/udat.h>
#include <windows.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                 \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

#define LIBRARY "libdapl-soft-2.dll"
#define ROUNDS 5

/* Wine 8 counts none, but a new one gets the lowest number that is free. */
static uintptr_t handles(void)
{
    const HANDLE newest = CreateEventW(NULL, TRUE, FALSE, NULL);
    DWORD number = 0;

    (void)GetProcessHandleCount(GetCurrentProcess(), &number);
    CloseHandle(newest);
    return number != 0 ? number : (uintptr_t)newest;
}

/* In milliseconds, of all threads. */
static unsigned long long processor_time(void)
{
    FILETIME begin, end, kernel, user;
    ULARGE_INTEGER sum[2];

    (void)GetProcessTimes(GetCurrentProcess(), &begin, &end, &kernel, &user);
    sum[0].LowPart = kernel.dwLowDateTime;
    sum[0].HighPart = kernel.dwHighDateTime;
    sum[1].LowPart = user.dwLowDateTime;
    sum[1].HighPart = user.dwHighDateTime;
    return (sum[0].QuadPart + sum[1].QuadPart) / 10000;
}

/* With a connection that is open, whose two ends may have timers. */
static int connect_to_itself(DAT_IA_HANDLE ia)
{
    DAT_EVD_HANDLE requests, connections, transfers;
    DAT_EP_HANDLE active, passive;
    DAT_EVENT event;
    DAT_IA_ATTR attributes;
    DAT_PSP_HANDLE psp;
    DAT_PZ_HANDLE pz;
    DAT_COUNT more;
    DAT_CONN_QUAL port;

    CHECK(dat_pz_create(ia, &pz) == DAT_SUCCESS);
    CHECK(dat_evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &requests) == DAT_SUCCESS);
    CHECK(dat_evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &connections) ==
          DAT_SUCCESS);
    CHECK(dat_evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &transfers) == DAT_SUCCESS);
    CHECK(dat_ep_create(ia, pz, transfers, transfers, connections, NULL, &active) == DAT_SUCCESS);
    CHECK(dat_ep_create(ia, pz, transfers, transfers, connections, NULL, &passive) == DAT_SUCCESS);
    CHECK(dat_psp_create_any(ia, &port, requests, DAT_PSP_CONSUMER_FLAG, &psp) == DAT_SUCCESS);
    CHECK(dat_ia_query(ia, NULL, DAT_IA_FIELD_IA_ADDRESS_PTR, &attributes, 0, NULL) == DAT_SUCCESS);
    CHECK(dat_ep_connect(active, attributes.ia_address_ptr, port, 60 * 1000 * 1000, 0, NULL,
                         DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG) == DAT_SUCCESS);
    CHECK(dat_evd_wait(requests, DAT_TIMEOUT_INFINITE, 1, &event, &more) == DAT_SUCCESS);
    CHECK(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, passive, 0, NULL) ==
          DAT_SUCCESS);
    CHECK(dat_evd_wait(connections, DAT_TIMEOUT_INFINITE, 2, &event, &more) == DAT_SUCCESS);
    CHECK(event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED);
    return 0;
}

/* The time of this thread and the engine's, while both rest. */
static int rest(void)
{
    const unsigned long long before = processor_time();
    unsigned long long used;

    Sleep(3000);
    used = processor_time() - before;
    printf("idle for 3000 ms: %llu ms of processor time\n", used);
    CHECK(used < 1500); /* half of one processor: a thread that spins takes all that it gets */
    return 0;
}

static int one_round(int rests)
{
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia;

    CHECK(dat_ia_open("soft-udp", 8, &async, &ia) == DAT_SUCCESS);
    CHECK(GetModuleHandleA(LIBRARY) != NULL);
    CHECK(connect_to_itself(ia) == 0);
    if (rests)
        CHECK(rest() == 0);
    CHECK(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS);
    CHECK(GetModuleHandleA(LIBRARY) == NULL);
    return 0;
}

int main(void)
{
    uintptr_t after_one;
    int round;

    CHECK(one_round(1) == 0);
    after_one = handles(); /* Winsock keeps some of its own */
    for (round = 1; round < ROUNDS; ++round)
        CHECK(one_round(0) == 0);
    printf("handles after 1 round: %u, after %d: %u\n", (unsigned)after_one, ROUNDS,
           (unsigned)handles());
    CHECK(handles() <= after_one);
    return 0;
}
