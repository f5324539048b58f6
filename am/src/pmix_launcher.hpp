// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The launcher, through PMIx. Without one the job has one rank, and nothing here calls PMIx.
#pragma once

#include "launcher.hpp"

#include <pmix.h>

namespace am {

class ending;

/// The set-up thread and the ending thread take turns in PMIx; the latter keeps its turn. Otherwise
/// both might begin one exchange, and launchers may hang when a rank
/// leaves an exchange that the others are not in.
class pmix_launcher final : public launcher {
public:
    explicit pmix_launcher(ending &end) : end_(end) {}

    int start() override;
    int publish(const char *key, const void *data, std::size_t size) override;
    int exchange(const char *key, unsigned milliseconds) override;
    int lookup(int rank, const char *key, void *data, std::size_t size,
               unsigned milliseconds) override;
    void leave() override;
    void abort(int code, const char *message) override;

private:
    static constexpr int set_up_exchanges = 2; ///< one of locations, one of segments

    enum class turn { free, set_up, ending };

    pmix_proc_t process(pmix_rank_t rank) const;
    bool watch_server();
    bool read_number(const char *key, int &value) const;
    int report_failure(const char *call, pmix_status_t status) const;
    void report_missing(const char *key, unsigned milliseconds);
    void take_turn();
    void end_turn();
    void take_last_turn();
    bool begin_exchange();
    pmix_status_t get(int rank, const char *key, unsigned milliseconds, pmix_value_t *&found);

    ending &end_;
    pmix_proc_t own_{};
    bool present_ = false;
    std::atomic<turn> turn_{turn::free};
    std::atomic<int> exchanges_{0};
    std::atomic<pmix_status_t> exchanged_{PMIX_SUCCESS}; ///< the outcome of the last exchange
};

} // namespace am
