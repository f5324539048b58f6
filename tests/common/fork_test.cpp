// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Forked children: they have the objects of their parent, and the locks as its threads held them.
#include "fixture.hpp"

#include "dapl_debug.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

using namespace test;

namespace {

/// A thread that makes calls all the time.
class busy_thread {
public:
    explicit busy_thread(consumer &c)
        : thread_([this, &c] {
              while (!stop_) {
                  DAT_PZ_HANDLE made = DAT_HANDLE_NULL;
                  if (c.v.pz_create_func(c.ia, &made) == DAT_SUCCESS)
                      (void)c.v.pz_free_func(made);
              }
          })
    {}
    ~busy_thread()
    {
        stop_ = true;
        thread_.join();
    }

private:
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

/// Children, one after the other, end after these calls, all of which succeed.
void check_children(const std::function<DAT_RETURN()> &calls)
{
    int how = 0;
    for (int i = 0; i < 100 && how == 0; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(10); // a hang is a failure, not a hang of the suite
            _exit(calls() == DAT_SUCCESS ? 0 : 1);
        }
        waitpid(child, &how, 0);
    }
    CHECK_EQ(how, 0);
}

} // namespace

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
    {
        const busy_thread busy(c);
        check_children([&] {
            return c.v.psp_free_func(psp) | c.v.ep_disconnect_func(ep, DAT_CLOSE_ABRUPT_FLAG) |
                   c.v.ep_free_func(ep) | c.v.evd_free_func(dtos) | c.v.pz_free_func(pz) |
                   c.v.ia_close_func(c.ia, DAT_CLOSE_ABRUPT_FLAG);
        });
    }
    CHECK_EQ(c.v.ep_free_func(ep), DAT_SUCCESS);
}

TEST_CASE(
    "LIFE-27: a child makes no call on what it has inherited, whatever its parent's threads hold")
{
    consumer c(line::threadsafe);
    const DAT_EVD_HANDLE dtos = c.make_evd(DAT_EVD_DTO_FLAG);
    const DAT_EVD_HANDLE connects = c.make_evd(DAT_EVD_CONNECTION_FLAG);
    const DAT_EVD_HANDLE software = c.make_evd(DAT_EVD_SOFTWARE_FLAG);
    const DAT_PZ_HANDLE pz = c.make_pz();
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    must(c.v.cno_create_func(c.ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    must(c.v.ep_create_func(c.ia, pz, dtos, dtos, connects, nullptr, &ep));
    DAT_EVENT event{};
    event.event_number = DAT_SOFTWARE_EVENT;
    const auto post = [&] {
        return c.v.ep_post_recv_func(ep, 0, nullptr, {}, DAT_COMPLETION_DEFAULT_FLAG);
    };
    const auto refused = [](DAT_RETURN code) { return DAT_GET_TYPE(code) == DAT_INVALID_STATE; };
    {
        const busy_thread busy(c);
        check_children([&] {
            DAT_EVENT got{};
            DAT_COUNT more = 0;
            DAT_EVD_HANDLE which = DAT_HANDLE_NULL;
            DAT_PZ_HANDLE made = DAT_HANDLE_NULL;
            DAT_CONTEXT context{};
            const bool all = refused(post()) && refused(c.v.evd_dequeue_func(dtos, &got)) &&
                             refused(c.v.evd_wait_func(dtos, 0, 1, &got, &more)) &&
                             refused(c.v.cno_wait_func(cno, 0, &which)) &&
                             refused(c.v.evd_post_se_func(software, &event)) &&
                             refused(c.v.pz_create_func(c.ia, &made)) &&
                             refused(c.v.ep_reset_func(ep));
            const bool looks = c.v.get_consumer_context_func(ep, &context) == DAT_SUCCESS;
            return all && looks ? DAT_SUCCESS : DAT_INTERNAL_ERROR;
        });
    }
    must(post());
    must(c.v.evd_post_se_func(software, &event));
    must(c.v.evd_dequeue_func(software, &event));
}

TEST_CASE("a child's refused call is reported, and a bad handle is answered as in its parent")
{
    consumer c(line::threadsafe);
    const DAT_EVD_HANDLE dtos = c.make_evd(DAT_EVD_DTO_FLAG);
    const DAT_PZ_HANDLE pz = c.make_pz();
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    DAT_EP_HANDLE freed = DAT_HANDLE_NULL;
    must(c.v.ep_create_func(c.ia, pz, dtos, dtos, nullptr, nullptr, &ep));
    must(c.v.ep_create_func(c.ia, pz, dtos, dtos, nullptr, nullptr, &freed));
    must(c.v.ep_free_func(freed));
    const DAT_EVD_HANDLE freed_evd = c.make_evd(DAT_EVD_DTO_FLAG);
    must(c.v.evd_free_func(freed_evd));
    const auto post = [&](DAT_EP_HANDLE to) {
        return c.v.ep_post_recv_func(to, 0, nullptr, {}, DAT_COMPLETION_DEFAULT_FLAG);
    };
    const auto bad_handles = [&] {
        DAT_PZ_HANDLE made = DAT_HANDLE_NULL;
        DAT_EVENT got{};
        return std::vector<DAT_RETURN>{
            post(freed),
            c.v.ep_reset_func(freed),
            c.v.pz_create_func(DAT_HANDLE_NULL, &made),
            c.v.rmr_create_func(DAT_HANDLE_NULL, &made),
            c.v.evd_dequeue_func(freed_evd, &got),
            extended(c, freed, DAT_IB_FETCH_AND_ADD_OP, DAT_UINT64{1}, nullptr, cookie(1), nullptr,
                     DAT_COMPLETION_DEFAULT_FLAG),
        };
    };
    std::vector<DAT_RETURN> of_parent = bad_handles();
    CHECK_EQ(of_parent[0], error_code(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP));
    CHECK_EQ(of_parent[2], error_code(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA));
    of_parent[5] = error_code(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP); // claimed or not
    int how = 1;
    const std::string said = standard_error_of([&] {
        const pid_t child = fork();
        if (child == 0) {
            alarm(10);
            const bool same = bad_handles() == of_parent;
            debug_mask = DAPL_DBG_TYPE_ERR;
            for (int i = 0; i < 100; ++i)
                (void)post(ep);
            _exit(same ? 0 : 1);
        }
        waitpid(child, &how, 0);
    });
    CAPTURE(said);
    CHECK_EQ(how, 0);
    CHECK(said.find("dat_ep_post_recv: ") != std::string::npos);
    CHECK(said.find(" is refused, DAT_INVALID_STATE: it is of the process that has forked this "
                    "one") != std::string::npos);
    const auto lines = std::count(said.begin(), said.end(), '\n');
    CHECK(lines >= 1);
    CHECK(lines < 100);
}

TEST_CASE("a child of a child makes no call on it either, and uses an adapter of its own")
{
    consumer c(line::threadsafe);
    int how = 1;
    const pid_t child = fork();
    if (child == 0) {
        alarm(10);
        const pid_t inner = fork();
        if (inner == 0) {
            DAT_PZ_HANDLE made = DAT_HANDLE_NULL;
            const bool refused = DAT_GET_TYPE(c.v.pz_create_func(c.ia, &made)) == DAT_INVALID_STATE;
            char name[] = "programmable-lo";
            DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
            DAT_IA_HANDLE own = DAT_HANDLE_NULL;
            const bool works = c.v.ia_open_func(name, 8, &async, &own) == DAT_SUCCESS &&
                               c.v.pz_create_func(own, &made) == DAT_SUCCESS &&
                               c.v.ia_close_func(own, DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS;
            _exit(refused && works ? 0 : 1);
        }
        waitpid(inner, &how, 0);
        _exit(how == 0 ? 0 : 1);
    }
    waitpid(child, &how, 0);
    CHECK_EQ(how, 0);
}

TEST_CASE("a child opens and closes an adapter of its own, whatever its parent's threads hold")
{
    consumer c(line::threadsafe);
    const busy_thread busy(c);
    check_children([&] {
        char name[] = "programmable-lo";
        DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
        DAT_IA_HANDLE own = DAT_HANDLE_NULL;
        const DAT_RETURN opened = c.v.ia_open_func(name, 8, &async, &own);
        return opened == DAT_SUCCESS ? c.v.ia_close_func(own, DAT_CLOSE_ABRUPT_FLAG) : opened;
    });
}

TEST_CASE("a child asks for the attributes of an adapter, whose name is no handle")
{
    consumer c(line::threadsafe);
    check_children([&] {
        char name[] = "programmable-lo";
        DAT_IA_HANDLE query = DAT_HANDLE_NULL;
        DAT_IA_ATTR attributes;
        const DAT_RETURN opened =
            extended(c, name, DAT_IB_OPEN_QUERY_OP, &query, DAT_IA_ATTR_MASK{DAT_IA_FIELD_ALL},
                     &attributes, DAT_PROVIDER_ATTR_MASK{0}, nullptr);
        return opened == DAT_SUCCESS ? extended(c, query, DAT_IB_CLOSE_QUERY_OP) : opened;
    });
}

TEST_SUITE_END();
