// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// libdapl-am beside one-sided and two-sided MPI: two ranks of one job, which are ranks of both, and
// use them by turns.
#include "am_ranks.hpp"
#include "plot.hpp"
#include "program/command_line.hpp"
#include "program/json.hpp"
#include "statistics.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mpi.h>

namespace {

using bench::must;
using bench::seconds_of;
using bench::segment_of;

constexpr std::size_t largest = 1 << 20;
constexpr int batches = 61;
constexpr int large_puts = 16;

struct options {
    std::string json;
    std::uint32_t rounds = 100;
};

enum handler : int { ping = 1, pong, let_mpi };

std::atomic<std::uint64_t> pongs{0};
std::atomic<std::int32_t> round_trips_wanted{-1}; // through MPI, by rank 1
std::atomic<bool> ended{false};

void on_ping(dapl_am_token *token, void *, std::size_t, int, const std::int32_t *, void *)
{
    (void)dapl_am_reply_short(token, pong, 0, nullptr);
}

void on_pong(dapl_am_token *, void *, std::size_t, int, const std::int32_t *, void *)
{
    ++pongs;
}

void on_let_mpi(dapl_am_token *, void *, std::size_t, int, const std::int32_t *args, void *)
{
    if (args[0] < 0)
        ended = true;
    else
        round_trips_wanted = args[0];
}

DAPL_AM_HANDLER table[] = {
    {ping, DAPL_AM_SHORT | DAPL_AM_REQUEST, 0, on_ping, nullptr, "ping"},
    {pong, DAPL_AM_SHORT | DAPL_AM_REPLY, 0, on_pong, nullptr, "pong"},
    {let_mpi, DAPL_AM_SHORT | DAPL_AM_REQUEST, 1, on_let_mpi, nullptr, "let MPI"},
};

/// What rank 0 uses of MPI, and what rank 1 does meanwhile: MPI only moves data while it is called.
class mpi_side {
public:
    mpi_side()
    {
        MPI_Win_allocate(largest, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory_, &window_);
        MPI_Win_lock_all(0, window_);
    }
    ~mpi_side()
    {
        MPI_Win_unlock_all(window_);
        MPI_Win_free(&window_);
    }
    mpi_side(const mpi_side &) = delete;
    mpi_side &operator=(const mpi_side &) = delete;

    /// Complete at the target when it returns, as a put of libdapl-am.
    void put(int size, int count)
    {
        for (int i = 0; i < count; ++i)
            MPI_Put(memory_, size, MPI_BYTE, 1, 0, size, MPI_BYTE, window_);
        MPI_Win_flush(1, window_);
    }

    static void round_trip()
    {
        MPI_Send(nullptr, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(nullptr, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    /// Rank 1 leaves MPI after this many round trips and one more.
    static void answer(int round_trips)
    {
        for (int i = 0; i <= round_trips; ++i) {
            MPI_Recv(nullptr, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(nullptr, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
    }

private:
    void *memory_ = nullptr;
    MPI_Win window_ = MPI_WIN_NULL;
};

void call_rank_1(std::int32_t round_trips)
{
    must(dapl_am_request_short(1, let_mpi, 1, &round_trips, 0));
}

void repeat(std::uint32_t count, const std::function<void()> &once)
{
    for (std::uint32_t i = 0; i < count; ++i)
        once();
}

/// Measures, on rank 0.
class comparison {
public:
    explicit comparison(const options &o) : options_(o)
    {
        std::printf("%-16s %8s %14s %14s %10s\n", "", "size", "libdapl-am", "MPI", "ratio");
    }

    void compare(const char *kind, std::uint32_t size, double units, int round_trips,
                 const std::function<void()> &ours, const std::function<void()> &of_mpi)
    {
        std::vector<double> times, mpi_times;
        for (int i = 0; i < batches; ++i) {
            ours(); // warms up: anything idle is slow at first
            times.push_back(seconds_of(ours) / units);
            call_rank_1(2 * round_trips);
            of_mpi();
            mpi_times.push_back(seconds_of(of_mpi) / units);
            mpi_side::round_trip();
        }
        const double here = bench::median(times), there = bench::median(mpi_times);
        std::printf("%-16s %8s %14s %14s %10.2f\n", kind,
                    size > 0 ? bench::size_text(size).c_str() : "-",
                    bench::value_text(here, "s").c_str(), bench::value_text(there, "s").c_str(),
                    here / there);
        std::fflush(stdout);
        results_.push_back({{"kind", kind},
                            {"size", size},
                            {"libdapl-am", here},
                            {"mpi", there},
                            {"unit", "s"},
                            {"ratio", here / there}});
    }

    void all(mpi_side &mpi)
    {
        void *here = segment_of(0), *there = segment_of(1);
        const std::uint32_t many = options_.rounds;
        compare(
            "put", 8, many, 0, [&] { repeat(many, [&] { must(dapl_am_put(1, there, here, 8)); }); },
            [&] { repeat(many, [&] { mpi.put(8, 1); }); });
        compare(
            "round trip", 0, many, int(many), [&] { repeat(many, round_trip); },
            [&] { repeat(many, mpi_side::round_trip); });
        compare(
            "put", largest, large_puts, 0,
            [&] {
                repeat(large_puts, [&] { must(dapl_am_put_nbi_bulk(1, there, here, largest)); });
                dapl_am_wait_nbi();
            },
            [&] { mpi.put(largest, large_puts); });
        call_rank_1(-1);
    }

    void write() const
    {
        if (options_.json.empty())
            return;
        program::json root;
        root["adapter"] = dapl_am_adapter();
        root["origin"] = program::origin_json();
        root["results"] = results_;
        program::write_json(options_.json, root);
    }

private:
    static void round_trip()
    {
        const std::uint64_t before = pongs;
        must(dapl_am_request_short(1, ping, 0, nullptr, 0));
        while (pongs == before)
            (void)dapl_am_poll();
    }

    const options &options_;
    program::json results_ = program::json::array();
};

void answer()
{
    while (!ended) {
        (void)dapl_am_poll();
        if (const std::int32_t wanted = round_trips_wanted.exchange(-1); wanted >= 0)
            mpi_side::answer(wanted);
    }
}

/// One-sided MPI over TCP on the loopback, unless the environment chooses otherwise: a copy inside
/// the host would be compared with datagrams.
void choose_loopback()
{
    setenv("OMPI_MCA_pml", "ob1", 0);
    setenv("OMPI_MCA_btl", "tcp,self", 0);
    setenv("OMPI_MCA_btl_tcp_if_include", "lo", 0);
    setenv("OMPI_MCA_osc", "rdma,pt2pt", 0);
}

int run(const options &o)
{
    must(dapl_am_init(nullptr));
    must(dapl_am_attach(table, std::size(table), largest));
    if (dapl_am_size() != 2)
        throw program::failure("measures between two ranks; start it by a launcher: "
                               "mpirun -n 2 am-beside-mpi");
    choose_loopback();
    MPI_Init(nullptr, nullptr);
    {
        mpi_side mpi;
        must(dapl_am_barrier(0, DAPL_AM_ANONYMOUS));
        if (dapl_am_rank() == 0) {
            comparison measured(o);
            measured.all(mpi);
            measured.write();
        } else {
            answer();
        }
    }
    MPI_Finalize();
    must(dapl_am_barrier(1, DAPL_AM_ANONYMOUS)); // the end of one rank is the end of all
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    options o;
    program::command_line line("am-beside-mpi", "Puts and round trips of libdapl-am beside those "
                                                "of MPI, between two ranks; medians");
    line.number("--rounds", o.rounds, 10U, 100'000U, "small puts and round trips of each batch");
    line.text("--json", "FILE", o.json,
              "write the results as JSON to this file (- is standard output)");
    line.footer("DAPL_AM_ADAPTER names the adapter. Example:\n"
                "  DAPL_AM_ADAPTER=soft-lo mpirun -n 2 am-beside-mpi\n"
                "Open MPI uses TCP on the loopback, unless OMPI_MCA_btl and its like are set.");
    if (const auto status = line.parse(argc, argv))
        return *status;
    try {
        return run(o);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "am-beside-mpi: %s\n", e.what());
        return 1;
    }
}
