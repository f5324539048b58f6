// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// CNOs that programs poll, where the system has descriptors for that.
#include "fixture.hpp"

#include <fcntl.h>
#include <poll.h>

using namespace test;

namespace {

bool readable(DAT_FD fd)
{
    pollfd asked{fd, POLLIN, 0};
    return ::poll(&asked, 1, 0) == 1 && asked.revents == POLLIN;
}

bool is_open(DAT_FD fd)
{
    return ::fcntl(fd, F_GETFD) != -1;
}

} // namespace

TEST_SUITE_BEGIN("descriptor");

TEST_CASE("the descriptor of a CNO is readable while a trigger is pending")
{
    consumer c;
    DAT_FD fd = -1;
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    must(c.v.cno_fd_create_func(c.ia, &fd, &cno));
    const DAT_EVD_HANDLE e = c.make_evd(DAT_EVD_SOFTWARE_FLAG, 16, cno);
    DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
    for (int round = 0; round < 3; ++round) {
        CHECK_FALSE(readable(fd));
        CHECK_EQ(c.v.cno_trigger_func(cno, &by), DAT_QUEUE_EMPTY);
        must(c.post_se(e));
        must(c.post_se(e));
        CHECK(readable(fd));
        must(round == 1 ? c.v.cno_wait_func(cno, 0, &by) : c.v.cno_trigger_func(cno, &by));
        CHECK_EQ(by, e);
    }
    DAT_CNO_PARAM param{};
    must(c.v.cno_query_func(cno, DAT_CNO_FIELD_ALL, &param));
    CHECK_EQ(param.proxy_type, DAT_PROXY_TYPE_FD);
    CHECK_EQ(param.proxy.fd, fd);
}

TEST_CASE("a trigger outlives its EVD, and the descriptor ends with the CNO")
{
    consumer c;
    DAT_FD fd = -1;
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    must(c.v.cno_fd_create_func(c.ia, &fd, &cno));
    const DAT_EVD_HANDLE e = c.make_evd(DAT_EVD_SOFTWARE_FLAG, 4, cno);
    must(c.post_se(e));
    DAT_EVD_HANDLE by = DAT_HANDLE_NULL;
    must(c.v.evd_free_func(e));
    CHECK(readable(fd));
    must(c.v.cno_trigger_func(cno, &by));
    CHECK_EQ(by, DAT_HANDLE_NULL);
    CHECK(is_open(fd));
    must(c.v.cno_free_func(cno));
    CHECK_FALSE(readable(fd));
    CHECK_FALSE(is_open(fd));
}

TEST_CASE("CNOs with descriptors check their arguments")
{
    consumer c;
    DAT_FD fd = -1;
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    CHECK_EQ(c.v.cno_fd_create_func(DAT_HANDLE_NULL, &fd, &cno),
             error_code(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA));
    CHECK_EQ(c.v.cno_fd_create_func(c.ia, nullptr, &cno),
             error_code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    CHECK_EQ(c.v.cno_fd_create_func(c.ia, &fd, nullptr),
             error_code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    const DAT_CNO_HANDLE plain = c.make_cno();
    CHECK_EQ(c.v.cno_trigger_func(plain, nullptr),
             error_code(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    CHECK_EQ(c.v.cno_trigger_func(c.ia, &cno),
             error_code(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_CNO));
}

TEST_SUITE_END();
