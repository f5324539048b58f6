/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Hello over DAT 2.0. The client connects and says who it is; the server accepts and says where its
 * memory is. The client writes a greeting there by RDMA and announces it by a message, which the
 * server answers. Then the client disconnects.
 *
 *   cc -std=c99 hello.c $(pkg-config --cflags --libs dat2) -o hello
 *
 *   hello server soft-lo &
 *   hello client soft-lo 127.0.0.1
 */
#define _POSIX_C_SOURCE 200112L /* getaddrinfo() */

#if __has_include(<netdb.h>) /* Winsock has all of it in headers that udat.h includes */
#include <arpa/inet.h>
#include <netdb.h>
#endif
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dat2/dat_event_names.h>
#include <dat2/udat.h>

#define DEFAULT_PORT 45248
#define PATIENCE (30 * 1000 * 1000) /* microseconds that the peer may take for each step */
#define QUEUE_LENGTH 8              /* events; more than are ever outstanding here */

static const char usage[] =
    "Usage: hello server ADAPTER [PORT]\n"
    "       hello client ADAPTER HOST [PORT]\n"
    "\n"
    "Greets a server, over an adapter of dat.conf; dat-info lists them.\n"
    "HOST is a name or an address that the adapter reaches, PORT any number that\n"
    "is free on the server. Exit status: 0 done, 1 failed, 2 wrong arguments.\n";

/* The private data of the server's answer, in network byte order: the two hosts may differ. */
struct offer {
    uint32_t rmr_context;
    uint32_t length;
    uint32_t address_high;
    uint32_t address_low;
};

/* What the adapter reads and writes. It is registered as one region. */
struct memory {
    char outgoing[64]; /* of messages */
    char incoming[64]; /* of messages */
    char greeting[64]; /* from the client's to the server's by RDMA write */
};

struct side {
    DAT_IA_HANDLE ia;
    DAT_PZ_HANDLE pz;
    DAT_CNO_HANDLE cno; /* DAT_HANDLE_NULL at the client */
    DAT_EVD_HANDLE recv_evd, request_evd, conn_evd;
    DAT_EP_HANDLE ep;
    DAT_LMR_HANDLE lmr;
    DAT_LMR_CONTEXT lmr_context; /* names the region in the segments of this side */
    DAT_RMR_CONTEXT rmr_context; /* names it to the peer */
    struct memory memory;
};

/* ---- Errors ---- */

/* At exit the system takes everything back, and the peer's connection breaks. */
static void fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fputs("hello: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static void check(DAT_RETURN status, const char *call)
{
    const char *type, *subtype;

    if (status == DAT_SUCCESS)
        return;
    dat_strerror(status, &type, &subtype);
    fail("%.*s: %s %s", (int)strcspn(call, "("), call, type, subtype);
}

#define CHECK(call) check((call), #call)

/* ---- Waiting ---- */

/* The way of the client: in one EVD, until an event is there. */
static DAT_EVENT wait_in_evd(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout)
{
    DAT_EVENT event;
    DAT_COUNT more;

    CHECK(dat_evd_wait(evd, timeout, 1, &event, &more));
    return event;
}

/*
 * The way of the server: in a CNO, which every EVD triggers. Which one did is a hint; events of the
 * others stay queued until they are asked for.
 */
static DAT_EVENT wait_in_cno(DAT_CNO_HANDLE cno, DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout)
{
    DAT_EVENT event;
    DAT_EVD_HANDLE triggered;
    DAT_RETURN status;

    while (DAT_GET_TYPE(status = dat_evd_dequeue(evd, &event)) == DAT_QUEUE_EMPTY)
        CHECK(dat_cno_wait(cno, timeout, &triggered));
    check(status, "dat_evd_dequeue");
    return event;
}

static DAT_EVENT expect(const struct side *side, DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER wanted,
                        DAT_TIMEOUT timeout)
{
    const DAT_EVENT event = side->cno == DAT_HANDLE_NULL ? wait_in_evd(evd, timeout)
                                                         : wait_in_cno(side->cno, evd, timeout);

    if (event.event_number != wanted)
        fail("%s came instead of %s", dat_event_name(event.event_number), dat_event_name(wanted));
    return event;
}

/* Every posted operation comes back once, as FLUSHED if the connection ends first. */
static void expect_transfer(const struct side *side, DAT_EVD_HANDLE evd, const void *memory)
{
    const DAT_EVENT event = expect(side, evd, DAT_DTO_COMPLETION_EVENT, PATIENCE);
    const DAT_DTO_COMPLETION_EVENT_DATA *done = &event.event_data.dto_completion_event_data;

    if (done->status != DAT_DTO_SUCCESS)
        fail("a transfer ended with %s", dat_dto_status_name(done->status));
    if (done->user_cookie.as_ptr != memory)
        fail("a completion is not that of the transfer that was posted");
}

/* ---- Both sides ---- */

static void open_side(struct side *side, const char *adapter, int has_cno,
                      DAT_MEM_PRIV_FLAGS privileges)
{
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL; /* asks for one; it ends with the adapter */
    DAT_REGION_DESCRIPTION region;

    memset(side, 0, sizeof *side);
    CHECK(dat_ia_open((DAT_NAME_PTR)adapter, QUEUE_LENGTH, &async_evd, &side->ia));
    CHECK(dat_pz_create(side->ia, &side->pz));

    side->cno = DAT_HANDLE_NULL;
    if (has_cno)
        CHECK(dat_cno_create(side->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &side->cno));
    CHECK(dat_evd_create(side->ia, QUEUE_LENGTH, side->cno, DAT_EVD_DTO_FLAG, &side->recv_evd));
    CHECK(dat_evd_create(side->ia, QUEUE_LENGTH, side->cno, DAT_EVD_DTO_FLAG, &side->request_evd));
    CHECK(dat_evd_create(side->ia, QUEUE_LENGTH, side->cno, DAT_EVD_CONNECTION_FLAG,
                         &side->conn_evd));
    CHECK(dat_ep_create(side->ia, side->pz, side->recv_evd, side->request_evd, side->conn_evd, NULL,
                        &side->ep));

    region.for_va = &side->memory;
    CHECK(dat_lmr_create(side->ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof side->memory, side->pz,
                         privileges, DAT_VA_TYPE_VA, &side->lmr, &side->lmr_context,
                         &side->rmr_context, NULL, NULL));
}

/* In the reverse order: what something else refers to cannot be freed. */
static void close_side(struct side *side)
{
    CHECK(dat_lmr_free(side->lmr));
    CHECK(dat_ep_free(side->ep));
    CHECK(dat_evd_free(side->conn_evd));
    CHECK(dat_evd_free(side->request_evd));
    CHECK(dat_evd_free(side->recv_evd));
    if (side->cno != DAT_HANDLE_NULL)
        CHECK(dat_cno_free(side->cno));
    CHECK(dat_pz_free(side->pz));
    CHECK(dat_ia_close(side->ia, DAT_CLOSE_GRACEFUL_FLAG));
}

/* A part of the region, as a segment of a transfer. */
static DAT_LMR_TRIPLET segment(const struct side *side, const void *memory, size_t length)
{
    DAT_LMR_TRIPLET triplet;

    memset(&triplet, 0, sizeof triplet);
    triplet.lmr_context = side->lmr_context;
    triplet.virtual_address = (DAT_VADDR)(uintptr_t)memory;
    triplet.segment_length = length;
    return triplet;
}

static void post_recv(struct side *side)
{
    DAT_LMR_TRIPLET local = segment(side, side->memory.incoming, sizeof side->memory.incoming);
    DAT_DTO_COOKIE cookie;

    cookie.as_ptr = side->memory.incoming;
    CHECK(dat_ep_post_recv(side->ep, 1, &local, cookie, DAT_COMPLETION_DEFAULT_FLAG));
}

static void send_text(struct side *side, const char *text)
{
    DAT_LMR_TRIPLET local;
    DAT_DTO_COOKIE cookie;

    snprintf(side->memory.outgoing, sizeof side->memory.outgoing, "%s", text);
    local = segment(side, side->memory.outgoing, strlen(side->memory.outgoing) + 1);
    cookie.as_ptr = side->memory.outgoing;
    CHECK(dat_ep_post_send(side->ep, 1, &local, cookie, DAT_COMPLETION_DEFAULT_FLAG));
    expect_transfer(side, side->request_evd, side->memory.outgoing);
}

static void receive_text(struct side *side)
{
    expect_transfer(side, side->recv_evd, side->memory.incoming);
    side->memory.incoming[sizeof side->memory.incoming - 1] =
        '\0'; /* the peer may have left it out */
    printf("received: %s\n", side->memory.incoming);
}

/* ---- The server ---- */

static void accept_client(struct side *side, DAT_CR_HANDLE request)
{
    const DAT_VADDR address = (DAT_VADDR)(uintptr_t)side->memory.greeting;
    struct offer offer;
    DAT_CR_PARAM param;

    CHECK(dat_cr_query(request, DAT_CR_FIELD_ALL, &param));
    if (param.private_data_size > 0)
        printf("a request by: %.*s\n", (int)param.private_data_size, (char *)param.private_data);

    offer.rmr_context = htonl(side->rmr_context);
    offer.length = htonl(sizeof side->memory.greeting);
    offer.address_high = htonl((uint32_t)(address >> 32));
    offer.address_low = htonl((uint32_t)address);
    post_recv(side); /* before the client can send */
    CHECK(dat_cr_accept(request, side->ep, sizeof offer, &offer));
    expect(side, side->conn_evd, DAT_CONNECTION_EVENT_ESTABLISHED, PATIENCE);
}

static void run_server(const char *adapter, DAT_CONN_QUAL port)
{
    static struct side side; /* static: the adapter accesses its memory */
    DAT_EVD_HANDLE cr_evd;
    DAT_PSP_HANDLE psp;
    DAT_EVENT event;

    open_side(&side, adapter, 1,
              DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG |
                  DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
    CHECK(dat_evd_create(side.ia, QUEUE_LENGTH, side.cno, DAT_EVD_CR_FLAG, &cr_evd));
    CHECK(dat_psp_create(side.ia, port, cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
    printf("waiting on port %d\n", (int)port);
    fflush(stdout);

    event = expect(&side, cr_evd, DAT_CONNECTION_REQUEST_EVENT, DAT_TIMEOUT_INFINITE);
    CHECK(dat_psp_free(psp)); /* one client is enough; the request stays valid */
    accept_client(&side, event.event_data.cr_arrival_event_data.cr_handle);

    receive_text(&side);
    /* What was written before the message was sent is here now. */
    side.memory.greeting[sizeof side.memory.greeting - 1] = '\0';
    printf("written: %s\n", side.memory.greeting);
    send_text(&side, "hello to you");

    expect(&side, side.conn_evd, DAT_CONNECTION_EVENT_DISCONNECTED, PATIENCE);
    CHECK(dat_evd_free(cr_evd));
    close_side(&side);
}

/* ---- The client ---- */

static void connect_to(struct side *side, const char *host, DAT_CONN_QUAL port)
{
    static char name[] = "the client of hello.c";
    DAT_IA_ATTR attributes;
    struct addrinfo hints, *found;
    int error;

    /* The adapter is of one address family. */
    CHECK(dat_ia_query(side->ia, NULL, DAT_IA_FIELD_IA_ADDRESS_PTR, &attributes, 0, NULL));
    memset(&hints, 0, sizeof hints);
    hints.ai_family = attributes.ia_address_ptr->sa_family;
    error = getaddrinfo(host, NULL, &hints, &found);
    if (error != 0)
        fail("%s: %s", host, gai_strerror(error));
    CHECK(dat_ep_connect(side->ep, found->ai_addr, port, PATIENCE, sizeof name, name,
                         DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
    freeaddrinfo(found);
}

/* Private data may be padded with zeros, and is the adapter's: the program takes a copy. */
static struct offer offer_in(const DAT_EVENT *established)
{
    const DAT_CONNECTION_EVENT_DATA *data = &established->event_data.connect_event_data;
    struct offer offer;

    if (data->private_data_size < (DAT_COUNT)sizeof offer)
        fail("the server is no server of hello.c");
    memcpy(&offer, data->private_data, sizeof offer);
    return offer;
}

static void write_greeting(struct side *side, const struct offer *offer, const char *text)
{
    DAT_LMR_TRIPLET local;
    DAT_RMR_TRIPLET remote;
    DAT_DTO_COOKIE cookie;

    snprintf(side->memory.greeting, sizeof side->memory.greeting, "%s", text);
    local = segment(side, side->memory.greeting, strlen(side->memory.greeting) + 1);
    if (local.segment_length > ntohl(offer->length))
        fail("the server has no room for \"%s\"", text);
    memset(&remote, 0, sizeof remote);
    remote.rmr_context = ntohl(offer->rmr_context);
    remote.virtual_address =
        (DAT_VADDR)ntohl(offer->address_high) << 32 | ntohl(offer->address_low);
    remote.segment_length = local.segment_length;
    cookie.as_ptr = side->memory.greeting;
    /* Suppressed: the send after it proves its success, and a failure comes anyway. */
    CHECK(
        dat_ep_post_rdma_write(side->ep, 1, &local, cookie, &remote, DAT_COMPLETION_SUPPRESS_FLAG));
}

static void run_client(const char *adapter, const char *host, DAT_CONN_QUAL port)
{
    static struct side side;
    DAT_EVENT established;
    struct offer offer;

    open_side(&side, adapter, 0, DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG);
    post_recv(&side); /* for the answer, before the server can send it */
    connect_to(&side, host, port);
    established = expect(&side, side.conn_evd, DAT_CONNECTION_EVENT_ESTABLISHED, PATIENCE);
    offer = offer_in(&established);

    write_greeting(&side, &offer, "hello, from the client to the server");
    send_text(&side, "I have written into your memory");
    receive_text(&side);

    CHECK(dat_ep_disconnect(side.ep, DAT_CLOSE_GRACEFUL_FLAG));
    expect(&side, side.conn_evd, DAT_CONNECTION_EVENT_DISCONNECTED, PATIENCE);
    close_side(&side);
}

/* ---- Arguments ---- */

static void misused(void)
{
    fputs(usage, stderr);
    exit(2);
}

static DAT_CONN_QUAL port_of(const char *text)
{
    char *end;
    long port;

    if (text == NULL)
        return DEFAULT_PORT;
    port = strtol(text, &end, 10);
    if (*end != '\0' || port < 1 || port > 65535)
        misused();
    return (DAT_CONN_QUAL)port;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        fputs(usage, stdout);
    else if ((argc == 3 || argc == 4) && strcmp(argv[1], "server") == 0)
        run_server(argv[2], port_of(argv[3]));
    else if ((argc == 4 || argc == 5) && strcmp(argv[1], "client") == 0)
        run_client(argv[2], argv[3], port_of(argv[4]));
    else
        misused();
    return 0;
}
