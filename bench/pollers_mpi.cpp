// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "pollers.hpp"

#include "crowd.hpp"

#include <array>
#include <mpi.h>

namespace bench {

namespace {

using message = std::array<std::byte, crowd::message_size>;

class mpi_rank {
public:
    mpi_rank()
    {
        MPI_Init(nullptr, nullptr);
        MPI_Comm_size(MPI_COMM_WORLD, &size_);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
        received_.resize(static_cast<std::size_t>(size_));
    }
    ~mpi_rank() { MPI_Finalize(); }
    mpi_rank(const mpi_rank &) = delete;

    void exchange()
    {
        requests_.clear();
        for (int peer = 0; peer < size_; ++peer)
            if (peer != rank_)
                MPI_Irecv(received_[static_cast<std::size_t>(peer)].data(), crowd::message_size,
                          MPI_BYTE, peer, 0, MPI_COMM_WORLD, &requests_.emplace_back());
        for (int peer = 0; peer < size_; ++peer)
            if (peer != rank_)
                MPI_Isend(sent_.data(), crowd::message_size, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
                          &requests_.emplace_back());
        MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    }

private:
    int size_ = 0, rank_ = 0;
    message sent_{};
    std::vector<message> received_;
    std::vector<MPI_Request> requests_;
};

} // namespace

void be_mpi_rank(const std::string &port, seconds limit)
{
    mpi_rank self;
    channel leader =
        call_peer("127.0.0.1", static_cast<unsigned short>(std::stoi(port)), seconds(10));
    leader.send(mpi_word);
    serve_rounds(leader, limit, [&self] { self.exchange(); });
}

} // namespace bench
