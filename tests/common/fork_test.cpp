// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Forked children: they have the objects of their parent, and the locks as its threads held them.
#include "fixture.hpp"

#include <sys/wait.h>
#include <unistd.h>

using namespace test;

TEST_SUITE_BEGIN("fork");

TEST_CASE("LIFE-24: a child frees what it has inherited, whatever its parent's threads hold")
{
    consumer c(line::threadsafe);
    const DAT_EVD_HANDLE dtos = c.make_evd(DAT_EVD_DTO_FLAG);
    const DAT_EVD_HANDLE connects = c.make_evd(DAT_EVD_CONNECTION_FLAG);
    const DAT_EVD_HANDLE requests = c.make_evd(DAT_EVD_CR_FLAG);
    const DAT_PZ_HANDLE pz = c.make_pz();
    const DAT_PSP_HANDLE psp = c.make_psp(here, requests);
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    must(c.v.ep_create_func(c.ia, pz, dtos, dtos, connects, nullptr, &ep));
    std::atomic<bool> stop{false};
    std::thread busy([&] {
        while (!stop) {
            DAT_PZ_HANDLE made = DAT_HANDLE_NULL;
            if (c.v.pz_create_func(c.ia, &made) == DAT_SUCCESS)
                (void)c.v.pz_free_func(made);
        }
    });
    for (int i = 0; i < 100; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(10); // a hang is a failure, not a hang of the suite
            const DAT_RETURN all =
                c.v.psp_free_func(psp) | c.v.ep_disconnect_func(ep, DAT_CLOSE_ABRUPT_FLAG) |
                c.v.ep_free_func(ep) | c.v.evd_free_func(dtos) | c.v.pz_free_func(pz) |
                c.v.ia_close_func(c.ia, DAT_CLOSE_ABRUPT_FLAG);
            _exit(all == DAT_SUCCESS ? 0 : 1);
        }
        int how = -1;
        waitpid(child, &how, 0);
        CHECK_EQ(how, 0);
        if (how != 0)
            break;
    }
    stop = true;
    busy.join();
    CHECK_EQ(c.v.ep_free_func(ep), DAT_SUCCESS);
}

TEST_SUITE_END();
