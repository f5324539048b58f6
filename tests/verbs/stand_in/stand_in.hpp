// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A device without hardware: the calls of libibverbs and librdmacm that the verbs port makes,
// within one process. Linked to a test program or preloaded, they come before the libraries'. The
// device, `standin0`, is an InfiniBand one behind the loopback addresses. It lacks nothing unless
// the settings take it away, and it fails when it is told to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stand_in {

/// Tells what the device has. Read when an adapter opens, or when an object is made.
struct settings {
    int vectors = 4;
    std::uint32_t max_inline = 512;
    bool on_demand_paging = true;
    bool relaxed_ordering = true;
    bool windows_of_one_peer = true; ///< type 2, and messages that close them
    bool traffic_classes = true;
    std::uint16_t most_moderated = 512; ///< completions of an event that CQs make; 0: it has none
    bool ethernet = false; ///< RoCE behind the loopback interface, with three GIDs; see way
    /// Lengths of sent messages in completions, which real devices leave undefined.
    std::uint32_t length_of_sent = 0xdeadbeef;
};
settings &device();

// --- what happened

/// The completion vectors of the CQs that there are, in the order in which they were made.
std::vector<int> vectors_in_use();
/// Access rights of the regions that there are, in the order in which they were made.
std::vector<unsigned> rights_of_regions();
/// How many posted requests carried their bytes themselves.
std::size_t inline_posts();
/// How many queue pairs there are.
std::size_t queue_pairs();
/// The traffic class of the route that was resolved last.
std::uint8_t class_of_newest_route();
/// How the queue pair that was connected last reaches its peer. Of the GIDs with `ethernet` the
/// first and the last are of 127.0.0.1, the last two of RoCE v2.
struct way {
    bool by_gid;
    int gid_index;
    int traffic_class;
    int service_level;
    int path_mtu; ///< an ibv_mtu
};
way newest_way();
/// How many queue pairs were connected with this traffic class, since the program began.
std::size_t ways_of_class(int traffic_class);
/// How many identifiers of the connection manager there are.
std::size_t identifiers();
/// How often a CQ was to be armed, with or without success.
std::size_t times_armed();
/// How many events CQs have made.
std::size_t cq_events();

// --- what shall happen

/// Memory at `address` cannot be read by a processor; the device finds it at `behind`.
void add_device_memory(void *address, std::size_t size, void *behind);
void forget_device_memory();

/// The device fails: IBV_EVENT_DEVICE_FATAL. Nothing completes or is flushed from now on.
void fail();
/// Brings the device back, for contexts that are opened from now on.
void restore();

/// Raises an event of the first port, in all contexts: an ibv_event_type.
void raise_port_event(int type);
/// From now on CQs can be armed, or not: ibv_req_notify_cq fails.
void let_arm(bool allowed);
/// From now on the moderation of CQs can be changed, or not: ibv_modify_cq fails.
void let_moderate(bool allowed);
/// The shared receive queue that was made last fails: IBV_EVENT_SRQ_ERR.
void fail_newest_srq();

} // namespace stand_in
