/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two processes, perhaps on different systems, exchange messages in both directions at once; then
 * each writes into the other's memory by RDMA and reads back what it wrote. All of it is verified.
 *
 *   exchange server ADAPTER PORT MESSAGES ROUNDS
 *   exchange client ADAPTER PORT MESSAGES ROUNDS ADDRESS
 */
#if __has_include(<arpa/inet.h>) /* Winsock has all of it in headers that udat.h includes */
#include <arpa/inet.h>
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dat2/udat.h>

#define PATIENCE (120 * 1000 * 1000) /* microseconds */
#define AHEAD 8                      /* messages that a side may be ahead of the other */
/* An endpoint takes so many by default: a message that may be sent has one. */
#define RECEIVES (2 * AHEAD)
#define LONGEST 4096       /* bytes of a message */
#define BLOCK (256 * 1024) /* bytes of an RDMA operation */

enum { send_cookie = 1 << 20, rdma_cookie };

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "exchange.c:%d: %s\n", __LINE__, #condition);                          \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Numbers are in network byte order. */
struct offer {
    uint32_t rmr_context, address_high, address_low;
};

static struct memory {
    unsigned char incoming[RECEIVES][LONGEST];
    unsigned char outgoing[AHEAD][LONGEST];
    unsigned char target[BLOCK]; /* the peer writes to and reads from it */
    unsigned char block[BLOCK];
} memory;

static DAT_IA_HANDLE ia;
static DAT_EVD_HANDLE conn_evd, cr_evd, dto_evd;
static DAT_EP_HANDLE ep;
static DAT_LMR_CONTEXT lmr_context;
static DAT_RMR_CONTEXT rmr_context;
static DAT_RMR_TRIPLET peer; /* its target */
static unsigned sent, completed, received, rdma_done;

static unsigned length_of(unsigned message)
{
    return 1 + message * 37 % LONGEST;
}

static void fill(unsigned char *bytes, unsigned size, unsigned seed)
{
    unsigned i;

    for (i = 0; i < size; ++i)
        bytes[i] = (unsigned char)(seed * 131 + i * 7 + (i >> 8));
}

static int is_filled(const unsigned char *bytes, unsigned size, unsigned seed)
{
    unsigned i;

    for (i = 0; i < size; ++i)
        if (bytes[i] != (unsigned char)(seed * 131 + i * 7 + (i >> 8)))
            return 0;
    return 1;
}

static DAT_LMR_TRIPLET segment(const void *bytes, unsigned size)
{
    DAT_LMR_TRIPLET triplet;

    memset(&triplet, 0, sizeof triplet);
    triplet.lmr_context = lmr_context;
    triplet.virtual_address = (DAT_VADDR)(uintptr_t)bytes;
    triplet.segment_length = size;
    return triplet;
}

static void post_receive(unsigned slot)
{
    DAT_LMR_TRIPLET local = segment(memory.incoming[slot], LONGEST);
    DAT_DTO_COOKIE cookie;

    cookie.as_64 = slot;
    CHECK(dat_ep_post_recv(ep, 1, &local, cookie, DAT_COMPLETION_DEFAULT_FLAG) == DAT_SUCCESS);
}

static void send_message(void)
{
    unsigned char *const bytes = memory.outgoing[sent % AHEAD];
    DAT_LMR_TRIPLET local = segment(bytes, length_of(sent));
    DAT_DTO_COOKIE cookie;

    fill(bytes, length_of(sent), sent);
    cookie.as_64 = send_cookie;
    CHECK(dat_ep_post_send(ep, 1, &local, cookie, DAT_COMPLETION_DEFAULT_FLAG) == DAT_SUCCESS);
    ++sent;
}

/* Receives complete in the order in which they were posted. */
static void take_message(unsigned slot, DAT_VLEN size)
{
    CHECK(slot == received % RECEIVES);
    CHECK(size == length_of(received));
    CHECK(is_filled(memory.incoming[slot], (unsigned)size, received));
    post_receive(slot);
    ++received;
}

static void take_completion(void)
{
    const DAT_DTO_COMPLETION_EVENT_DATA *done;
    DAT_EVENT event;
    DAT_COUNT more;

    CHECK(dat_evd_wait(dto_evd, PATIENCE, 1, &event, &more) == DAT_SUCCESS);
    CHECK(event.event_number == DAT_DTO_COMPLETION_EVENT);
    done = &event.event_data.dto_completion_event_data;
    CHECK(done->status == DAT_DTO_SUCCESS);
    switch (done->user_cookie.as_64) {
    case send_cookie:
        ++completed;
        break;
    case rdma_cookie:
        ++rdma_done;
        break;
    default:
        take_message((unsigned)done->user_cookie.as_64, done->transfered_length);
    }
}

/* A message is sent when the peer has a receive for it and its buffer is free. */
static void exchange_messages(unsigned until)
{
    while (sent < until || received < until || completed < until) {
        while (sent < until && sent < received + AHEAD && sent < completed + AHEAD)
            send_message();
        take_completion();
    }
}

static void await_rdma(unsigned number)
{
    while (rdma_done < number)
        take_completion();
}

static void write_and_read_back(unsigned round)
{
    DAT_LMR_TRIPLET local = segment(memory.block, BLOCK);
    DAT_DTO_COOKIE cookie;

    cookie.as_64 = rdma_cookie;
    fill(memory.block, BLOCK, round);
    CHECK(dat_ep_post_rdma_write(ep, 1, &local, cookie, &peer, DAT_COMPLETION_DEFAULT_FLAG) ==
          DAT_SUCCESS);
    await_rdma(2 * round + 1);
    memset(memory.block, 0, BLOCK);
    CHECK(dat_ep_post_rdma_read(ep, 1, &local, cookie, &peer, DAT_COMPLETION_DEFAULT_FLAG) ==
          DAT_SUCCESS);
    await_rdma(2 * round + 2);
    CHECK(is_filled(memory.block, BLOCK, round));
}

/* ---- Connection ---- */

static void open_side(const char *adapter)
{
    const DAT_MEM_PRIV_FLAGS all = DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG |
                                   DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG;
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_REGION_DESCRIPTION region;
    DAT_PZ_HANDLE pz;
    DAT_LMR_HANDLE lmr;
    unsigned i;

    CHECK(dat_ia_open((DAT_NAME_PTR)adapter, 8, &async, &ia) == DAT_SUCCESS);
    CHECK(dat_pz_create(ia, &pz) == DAT_SUCCESS);
    CHECK(dat_evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &conn_evd) ==
          DAT_SUCCESS);
    CHECK(dat_evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &cr_evd) == DAT_SUCCESS);
    CHECK(dat_evd_create(ia, 256, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &dto_evd) == DAT_SUCCESS);
    CHECK(dat_ep_create(ia, pz, dto_evd, dto_evd, conn_evd, NULL, &ep) == DAT_SUCCESS);
    region.for_va = &memory;
    CHECK(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof memory, pz, all, DAT_VA_TYPE_VA,
                         &lmr, &lmr_context, &rmr_context, NULL, NULL) == DAT_SUCCESS);
    for (i = 0; i < RECEIVES; ++i)
        post_receive(i);
}

static struct offer our_offer(void)
{
    const uint64_t address = (uintptr_t)memory.target;
    struct offer made;

    made.rmr_context = htonl(rmr_context);
    made.address_high = htonl((uint32_t)(address >> 32));
    made.address_low = htonl((uint32_t)address);
    return made;
}

static void take_offer(const void *data, DAT_COUNT size)
{
    struct offer made;

    CHECK(size >= (DAT_COUNT)sizeof made);
    memcpy(&made, data, sizeof made);
    memset(&peer, 0, sizeof peer);
    peer.rmr_context = ntohl(made.rmr_context);
    peer.virtual_address = (DAT_VADDR)ntohl(made.address_high) << 32 | ntohl(made.address_low);
    peer.segment_length = BLOCK;
}

static DAT_EVENT expect(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER wanted)
{
    DAT_EVENT event;
    DAT_COUNT more;

    CHECK(dat_evd_wait(evd, PATIENCE, 1, &event, &more) == DAT_SUCCESS);
    CHECK(event.event_number == wanted);
    return event;
}

static void serve(DAT_CONN_QUAL port)
{
    struct offer made = our_offer();
    DAT_CR_HANDLE request;
    DAT_CR_PARAM about;
    DAT_PSP_HANDLE psp;

    CHECK(dat_psp_create(ia, port, cr_evd, DAT_PSP_CONSUMER_FLAG, &psp) == DAT_SUCCESS);
    printf("waiting on port %d\n", (int)port);
    fflush(stdout);
    request =
        expect(cr_evd, DAT_CONNECTION_REQUEST_EVENT).event_data.cr_arrival_event_data.cr_handle;
    CHECK(dat_cr_query(request, DAT_CR_FIELD_ALL, &about) == DAT_SUCCESS);
    take_offer(about.private_data, about.private_data_size);
    CHECK(dat_cr_accept(request, ep, sizeof made, &made) == DAT_SUCCESS);
    (void)expect(conn_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

static void call(DAT_CONN_QUAL port, const char *address)
{
    struct offer made = our_offer();
    struct sockaddr_in to;
    DAT_EVENT event;

    memset(&to, 0, sizeof to);
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = inet_addr(address);
    CHECK(dat_ep_connect(ep, (DAT_IA_ADDRESS_PTR)&to, port, PATIENCE, sizeof made, &made,
                         DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG) == DAT_SUCCESS);
    event = expect(conn_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    take_offer(event.event_data.connect_event_data.private_data,
               event.event_data.connect_event_data.private_data_size);
}

int main(int argc, char **argv)
{
    const int is_client = argc == 7 && strcmp(argv[1], "client") == 0;
    unsigned messages, rounds, round;

    CHECK(is_client || argc == 6);
    messages = (unsigned)atoi(argv[4]);
    rounds = (unsigned)atoi(argv[5]);
    open_side(argv[2]);
    if (is_client)
        call((DAT_CONN_QUAL)atoi(argv[3]), argv[6]);
    else
        serve((DAT_CONN_QUAL)atoi(argv[3]));

    exchange_messages(messages);
    for (round = 0; round < rounds; ++round)
        write_and_read_back(round);
    /* A message arrives after the data that were written before it. */
    exchange_messages(messages + 1);
    CHECK(rounds == 0 || is_filled(memory.target, BLOCK, rounds - 1));

    if (is_client)
        CHECK(dat_ep_disconnect(ep, DAT_CLOSE_GRACEFUL_FLAG) == DAT_SUCCESS);
    (void)expect(conn_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    CHECK(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS);
    printf("%u messages and %u RDMA operations of %d bytes\n", received, rdma_done, BLOCK);
    return 0;
}
