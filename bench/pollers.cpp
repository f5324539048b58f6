// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// pollers: what becomes of processes that only post and dequeue when there are more than
// processors. In a round each process of a group sends a message to each other one, and has theirs.
#include "pollers.hpp"

#include "crowd.hpp"
#include "forked_peer.hpp"
#include "program/command_line.hpp"
#include "program/json.hpp"
#include "statistics.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <memory>
#include <spawn.h>
#include <sys/wait.h>
#include <unordered_map>

namespace {

using namespace bench;

constexpr seconds limit{120};
constexpr const char *mpi_name = "MPI";

struct options {
    std::vector<std::string> adapters = {"soft-lo"};
    std::vector<std::uint32_t> counts = {2, 3, 8};
    std::string json, mpi_port;
    bool mpi = false;
    std::uint32_t rounds = 1000, batches = 9;
};

// ------------------------------------------------------------------- a process of a group

/// A process that polls, with a connection to each other one of its group.
class rank {
public:
    rank(dat_adapter &adapter, std::uint32_t peers, channel &leader)
        : listener_(adapter, 0), peers_(adapter, peers), patience_(leader, limit)
    {
        leader.send(invitation{adapter.address(), listener_.qualifier()});
        const auto lower = leader.receive<std::uint32_t>(limit);
        for (std::uint32_t i = 0; i < lower; ++i) {
            const auto to = leader.receive<invitation>(limit);
            peers_.connect(i, to.address, to.qualifier, patience_);
        }
        for (std::uint32_t i = lower; i < peers; ++i)
            peers_.accept(i, listener_.next_request(patience_), patience_);
        leader.send('c');
    }

    /// A peer may be one round ahead.
    void exchange()
    {
        ++round_;
        for (std::size_t i = 0; i < peers_.size(); ++i)
            peers_.send(peers_.endpoint(i));
        std::size_t unsent = peers_.size();
        behind_ += peers_.size();
        for (patience_.progress(); unsent != 0 || behind_ != 0;) {
            if (unsent != 0 && peers_.take_sent())
                --unsent;
            else if (!take_message())
                patience_.spin();
        }
        behind_ -= ahead_;
        ahead_ = 0;
    }

private:
    bool take_message()
    {
        DAT_EP_HANDLE const from = peers_.take_message();
        if (from == DAT_HANDLE_NULL)
            return false;
        if (++received_[from] > round_)
            ++ahead_;
        else
            --behind_;
        return true;
    }

    dat_listener listener_;
    crowd peers_;
    patience patience_;
    std::unordered_map<DAT_EP_HANDLE, std::uint64_t> received_;
    std::uint64_t round_ = 0;
    std::size_t behind_ = 0; ///< messages that this round still lacks
    std::size_t ahead_ = 0;  ///< messages of the next round
};

// --------------------------------------------------------------- the process that measures

/// What a batch took: a round, and the slowest round of a process.
struct batch {
    double round = 0, slowest = 0;
};

/// Processes of one kind that exchange messages.
class group {
public:
    virtual ~group() = default;
    group(const group &) = delete;

    /// The rounds that are not counted show each process that all others are there.
    batch measure(std::uint32_t rounds)
    {
        constexpr std::size_t warm_up = 20;
        for (channel &each : members_)
            each.send(std::uint32_t(rounds + warm_up));
        batch all;
        for (channel &each : members_) {
            round_times times(rounds + warm_up);
            each.receive_bytes(times.data(), times.size() * sizeof times[0], limit);
            times.erase(times.begin(), times.begin() + warm_up);
            all.round = std::max(all.round, mean(times));
            all.slowest = std::max(all.slowest, *std::max_element(times.begin(), times.end()));
        }
        return all;
    }
    void end()
    {
        for (channel &each : members_)
            each.send(std::uint32_t{0});
    }
    const std::string name;
    const std::uint32_t count;
    std::vector<batch> batches;

protected:
    group(std::string of, std::uint32_t size) : name(std::move(of)), count(size) {}
    std::deque<channel> members_;
};

class dat_group : public group {
public:
    dat_group(const std::string &adapter_name, std::uint32_t size) : group(adapter_name, size)
    {
        for (std::uint32_t i = 0; i < size; ++i) {
            auto [process, link] = forked_peer::start([&](channel &leader) {
                dat_adapter adapter(adapter_name);
                rank self(adapter, size - 1, leader);
                serve_rounds(leader, limit, [&self] { self.exchange(); });
            });
            processes_.push_back(std::move(process));
            members_.push_back(std::move(link));
        }
        std::vector<invitation> all;
        for (channel &each : members_)
            all.push_back(each.receive<invitation>(limit));
        for (std::uint32_t i = 0; i < size; ++i) {
            members_[i].send(i);
            for (std::uint32_t lower = 0; lower < i; ++lower)
                members_[i].send(all[lower]);
        }
        for (channel &each : members_)
            (void)each.receive<char>(limit);
    }

private:
    std::vector<forked_peer> processes_;
};

/// Ranks of MPI: the program again, started by mpirun.
class mpi_group : public group {
public:
    explicit mpi_group(std::uint32_t size) : group(mpi_name, size), listener_(0, "127.0.0.1")
    {
        launch();
        const auto judge = [](channel &, std::span<const char> words) {
            return std::string(words.empty() || words[0] == mpi_word ? "" : "it is no rank");
        };
        for (std::uint32_t i = 0; i < size; ++i) {
            char word = 0;
            members_.push_back(listener_.accept(&word, 1, judge, seconds(30)));
        }
    }
    ~mpi_group() override
    {
        members_.clear(); // a rank that still waits for orders ends
        waitpid(mpirun_, nullptr, 0);
    }

private:
    void launch()
    {
        const std::string ranks = std::to_string(count), port = std::to_string(listener_.port());
        std::vector<std::string> words{"mpirun",
                                       "--allow-run-as-root",
                                       "--oversubscribe",
                                       "--bind-to",
                                       "none",
                                       "-n",
                                       ranks,
                                       std::filesystem::read_symlink("/proc/self/exe"),
                                       "--mpi-rank",
                                       port};
        std::vector<char *> arguments;
        for (std::string &word : words)
            arguments.push_back(word.data());
        arguments.push_back(nullptr);
        const int error =
            posix_spawnp(&mpirun_, "mpirun", nullptr, nullptr, arguments.data(), environ);
        if (error != 0)
            throw program::failure(std::string("mpirun: ") + std::strerror(error));
    }

    peer_listener listener_;
    pid_t mpirun_ = 0;
};

using groups = std::vector<std::unique_ptr<group>>;

groups start(const options &o)
{
    groups all;
    for (const std::string &name : o.adapters)
        for (const std::uint32_t count : o.counts)
            all.push_back(std::make_unique<dat_group>(name, count));
    if (o.mpi)
        for (const std::uint32_t count : o.counts)
            all.push_back(std::make_unique<mpi_group>(count));
    return all;
}

void measure(groups &all, const options &o)
{
    for (std::uint32_t i = 0; i < o.batches; ++i)
        for (std::size_t turn = 0; turn < all.size(); ++turn) {
            group &next = *all[i % 2 == 0 ? turn : all.size() - 1 - turn];
            next.batches.push_back(next.measure(o.rounds));
        }
    for (const auto &each : all)
        each->end();
}

double median_of(const group &of, double batch::*what)
{
    std::vector<double> values;
    for (const batch &each : of.batches)
        values.push_back(each.*what);
    return median(values);
}

/// The median of the ratios of batches that ran one after the other.
double ratio(const group &here, const group &there)
{
    std::vector<double> values;
    for (std::size_t i = 0; i < here.batches.size(); ++i)
        values.push_back(here.batches[i].round / there.batches[i].round);
    return median(values);
}

const group *find(const groups &all, const std::string &name, std::uint32_t count)
{
    for (const auto &each : all)
        if (each->name == name && each->count == count)
            return each.get();
    return nullptr;
}

/// Nothing beside itself, and beside what is not measured.
std::string ratio_text(const group &here, const group *there)
{
    if (there == nullptr || there == &here)
        return "";
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", ratio(here, *there));
    return text;
}

program::json print(const groups &all, const options &o)
{
    std::printf("%-16s %8s %14s %16s %14s %14s\n", "", "pollers", "round",
                ("beside " + std::to_string(o.counts[0])).c_str(), "beside MPI", "slowest");
    program::json results = program::json::array();
    for (const auto &each : all) {
        const double round = median_of(*each, &batch::round),
                     slowest = median_of(*each, &batch::slowest);
        std::printf("%-16s %8u %11.2f us %16s %14s %11.2f ms\n", each->name.c_str(), each->count,
                    round * 1e6, ratio_text(*each, find(all, each->name, o.counts[0])).c_str(),
                    ratio_text(*each, find(all, mpi_name, each->count)).c_str(), slowest * 1e3);
        results.push_back({{"stack", each->name},
                           {"pollers", each->count},
                           {"round_s", round},
                           {"slowest_s", slowest}});
    }
    return results;
}

int run(const options &o)
{
    if (!o.mpi_port.empty()) {
#ifdef BENCH_MPI
        be_mpi_rank(o.mpi_port, limit);
#endif
        return 0;
    }
    groups all = start(o);
    measure(all, o);
    program::json results = print(all, o);
    if (!o.json.empty())
        program::write_json(o.json, {{"origin", program::origin_json()}, {"results", results}});
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    options o;
    program::command_line line("pollers", "Rounds of messages, all with all, between processes "
                                          "that only post and dequeue");
    line.positionals("adapters", o.adapters, "adapter names in dat.conf");
    line.sizes("--pollers", o.counts, 64, "processes of a group; the first is the measure");
    line.number("--rounds", o.rounds, 1u, 1'000'000u, "rounds of a batch");
    line.number("--batches", o.batches, 1u, 10'000u, "batches of each group, interleaved");
#ifdef BENCH_MPI
    line.flag("--mpi", o.mpi, "groups of MPI ranks, too, by mpirun");
#endif
    line.internal("--mpi-rank", o.mpi_port);
    line.text("--json", "FILE", o.json,
              "write the results as JSON to this file (- is standard output)");
    if (const auto status = line.parse(argc, argv))
        return *status;
    try {
        return run(o);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "pollers: %s\n", e.what());
        return 1;
    }
}
