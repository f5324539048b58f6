// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the adapter offers, and that only those pay for it who ask for it.
#include <dat2/udat.h>

#include <cstdint>
#include <doctest/doctest.h>
#include <malloc.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/resource.h>

namespace {

struct adapter {
    adapter()
    {
        char name[] = "soft-lo";
        REQUIRE(dat_ia_open(name, 8, &async, &ia) == DAT_SUCCESS);
        REQUIRE(dat_ia_query(ia, nullptr, DAT_IA_FIELD_ALL, &attr, DAT_PROVIDER_FIELD_NONE,
                             nullptr) == DAT_SUCCESS);
        REQUIRE(dat_pz_create(ia, &pz) == DAT_SUCCESS);
        REQUIRE(dat_evd_create(ia, 64, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &connect) ==
                DAT_SUCCESS);
        REQUIRE(dat_evd_create(ia, 64, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &dto) == DAT_SUCCESS);
    }
    ~adapter() { dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG); }
    /// Bytes of memory that an endpoint takes.
    std::size_t cost(DAT_COUNT depth)
    {
        DAT_EP_ATTR wanted{};
        wanted.service_type = DAT_SERVICE_TYPE_RC;
        wanted.max_recv_dtos = wanted.max_request_dtos = depth;
        wanted.max_recv_iov = wanted.max_request_iov = 1;
        const auto used = [] {
            const struct mallinfo2 now = mallinfo2();
            return now.uordblks + now.hblkhd;
        };
        const std::size_t before = used();
        DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
        REQUIRE(dat_ep_create(ia, pz, dto, dto, connect, &wanted, &ep) == DAT_SUCCESS);
        const std::size_t after = used();
        REQUIRE(dat_ep_free(ep) == DAT_SUCCESS);
        return after - before;
    }
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_IA_ATTR attr{};
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE connect = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE dto = DAT_HANDLE_NULL;
};

} // namespace

TEST_CASE("queues of 65,536 requests are to be had")
{
    adapter a;
    CHECK(a.attr.max_dto_per_ep >= 65536);
    CHECK(a.attr.max_recv_per_srq >= 65536);
    CHECK(a.attr.max_evd_qlen >= 2 * 65536);
}

TEST_CASE("an adapter for which there are too few descriptors is out of resources")
{
    const adapter loads_the_provider;
    rlimit usual{};
    REQUIRE(getrlimit(RLIMIT_NOFILE, &usual) == 0);
    DAT_RETURN code = DAT_ABORT;
    for (rlim_t most = 4; code != DAT_SUCCESS; ++most) {
        CAPTURE(most);
        char name[] = "soft-lo";
        DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
        DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
        const rlimit few{most, usual.rlim_max};
        REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
        code = dat_ia_open(name, 8, &async, &ia);
        REQUIRE(setrlimit(RLIMIT_NOFILE, &usual) == 0);
        if (code == DAT_SUCCESS)
            dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
        else
            REQUIRE(DAT_GET_TYPE(code) == DAT_INSUFFICIENT_RESOURCES);
    }
}

TEST_CASE("a connect that cannot be timed fails, and does not last for ever")
{
    adapter a;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    REQUIRE(dat_ep_create(a.ia, a.pz, a.dto, a.dto, a.connect, nullptr, &ep) == DAT_SUCCESS);
    pthread_attr_t usual;
    pthread_attr_t huge; // no thread starts with it
    REQUIRE(pthread_getattr_default_np(&usual) == 0);
    REQUIRE(pthread_getattr_default_np(&huge) == 0);
    REQUIRE(pthread_attr_setstacksize(&huge, SIZE_MAX / 4) == 0);
    sockaddr_in nobody{};
    nobody.sin_family = AF_INET;
    nobody.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(pthread_setattr_default_np(&huge) == 0);
    const DAT_RETURN code =
        dat_ep_connect(ep, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&nobody), 9, 1000, 0, nullptr,
                       DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
    REQUIRE(pthread_setattr_default_np(&usual) == 0);
    CHECK(DAT_GET_TYPE(code) == DAT_INSUFFICIENT_RESOURCES);
    DAT_EP_STATE state{};
    REQUIRE(dat_ep_get_status(ep, &state, nullptr, nullptr) == DAT_SUCCESS);
    CHECK(state == DAT_EP_STATE_UNCONNECTED);
}

TEST_CASE("an endpoint takes memory for what it was made for")
{
    adapter a;
    (void)a.cost(16); // the first grows pools
    const std::size_t small = a.cost(16);
    const std::size_t large = a.cost(a.attr.max_dto_per_ep);
    MESSAGE("16 each way: ", small, " bytes; ", a.attr.max_dto_per_ep, ": ", large);
    CHECK(small < 64 * 1024);
    CHECK(large < 640u * static_cast<std::size_t>(a.attr.max_dto_per_ep));
}
