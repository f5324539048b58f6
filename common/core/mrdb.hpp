// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The database of shared memory: which cookies have which length, and which regions they name. All
// processes of a user have it in common.
//
// It has no lock, which a process could die or be stopped with. Each region has a record that its
// process alone writes. The state of a record is one word, which names the process, so a record
// that a dead process left, at whatever instruction, is recognised and removed by the next process
// that meets it. A record counts for others before its process looks for theirs: of two processes
// whose records contradict one another, at least one sees that.
#pragma once

#include "dapl_status.hpp"
#include "osd_sharing.hpp"
#include "osd_sync.hpp"

#include <atomic>
#include <cstdint>

namespace dapl::DAPL_TRANSPORT::core {

/// What a region is called: the consumer's cookie, on one adapter.
struct shared_name {
    shared_name() = default;
    shared_name(const char (&cookie)[DAT_LMR_COOKIE_SIZE], const char *adapter);

    static constexpr unsigned words = DAT_LMR_COOKIE_SIZE / 8 + 1;
    std::uint64_t word[words] = {}; ///< the last one is a hash of the adapter's name
};

class mrdb {
public:
    /// The database of all providers. The number at the end of its name is the edition of the
    /// layout: databases of another one have another name.
    static constexpr char file_of_all[] = "dapl-mrdb-1";
    static constexpr unsigned places_of_all = 4096;

    /// All processes that open a database of this name agree on the number of records.
    constexpr mrdb(const char *name, unsigned places) : file_(name), places_(places) {}
    mrdb(const mrdb &) = delete;
    mrdb &operator=(const mrdb &) = delete;

    /// A record of this process.
    struct ticket {
        std::uint32_t place = 0;
        std::uint64_t state = 0; ///< 0: none
    };
    struct sharing {
        DAT_VLEN length = 0;
        unsigned owners = 0; ///< regions that update() was called for
    };
    /// A region as a record describes it, of a living process or a dead one.
    struct region {
        shared_name name;
        DAT_VLEN length = 0;
        std::uint32_t process = 0;
        bool is_owner_gone = false;
        bool is_registered = false;
    };

    /// Opens the database, before any other call. Calls are counted: exit() ends it after as many.
    /// Returns null, or why the database cannot be had.
    const char *init();
    void exit();

    /// Opens the database to look at it, which changes nothing and makes none: look() is the only
    /// call then. Returns null, or why it cannot be had.
    const char *view();
    /// Reads a record, unless it is free, does not count yet, or keeps changing.
    bool look(std::uint32_t place, region &out) const;

    /// A record for a region that is about to be registered. DAT_LENGTH_ERROR: a living process has
    /// that name for another length. DAT_INSUFFICIENT_RESOURCES: there is no record left, or
    /// the database is not whole.
    status insert(const shared_name &name, DAT_VLEN length, ticket &out);
    /// Notes that the region is registered.
    void update(ticket &mine);
    /// The regions of all processes that have that name.
    sharing query(const shared_name &name);
    /// Ends the record: the region is gone. With its last record, a name is free for any length.
    void dec(const ticket &mine);

    /// Removes all records of dead processes. The number of the others.
    unsigned sweep();

    unsigned places() const { return places_; }
    /// Returns false when a process of the user has cut its file off. Then nothing is read or
    /// written.
    bool is_whole() const { return pages_.is_whole(); }

private:
    struct record {
        std::atomic<std::uint64_t> name[shared_name::words];
        std::atomic<std::uint64_t> length;
        std::atomic<std::uint64_t> image; ///< image of the process_identity
    };

    std::size_t size() const;
    std::atomic<std::uint64_t> *states() const;
    record *records() const;
    bool claim(const osd::process_identity &self, ticket &out);
    void sweep_if_due();
    void advance(ticket &mine, std::uint64_t phase);
    bool reads(std::uint32_t place, const shared_name &name, std::uint64_t &state,
               DAT_VLEN &length) const;
    osd::process_identity owner_of(std::uint32_t place, std::uint64_t state) const;
    bool stands(std::uint32_t place, std::uint64_t state);
    bool is_contradicted(const ticket &mine, const shared_name &name, DAT_VLEN length);

    const char *const file_;
    const std::uint32_t places_;
    osd::mutex lock_;
    unsigned users_ OSD_GUARDED_BY(lock_) = 0;
    osd::shared_pages pages_; ///< stay as they are while there are users
    std::atomic<std::int64_t> sweep_due_ns_{INT64_MIN};
};

} // namespace dapl::DAPL_TRANSPORT::core
