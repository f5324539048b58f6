#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Make a port out of a new skeleton: each numbered place is filled in with device calls.

The device is that of tests/memory_port. What is written here is what an author writes.
"""

import argparse
import pathlib
import re
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "gen"))
sys.dont_write_bytecode = True

import skeleton  # noqa: E402

PORT = skeleton.Port("filled", "memory", "GPL-2.0-only OR BSD-2-Clause", keys="table")
DEVICE = ROOT / "tests/memory_port"
LIMITS = {
    "max_eps": "4096", "max_dto_per_ep": "4096", "max_rdma_read_per_ep_in": "16",
    "max_rdma_read_per_ep_out": "16", "max_cqs": "4096", "max_iov_per_dto": "8",
    "max_iov_per_rdma_read": "8", "max_iov_per_rdma_write": "8", "max_pds": "4096",
    "max_mrs": "65536", "max_mr_size": "~DAT_VLEN{0} >> 1", "max_message_size": "1u << 30",
    "max_rdma_size": "1u << 30",
}

# By place: file, what the skeleton has, what an author makes of it.
FILLS: dict[str, list[tuple[str, str, str]]] = {
    "device": [
        ("port.hpp", '#include "dapls_ib.hpp"\n', '#include "dapls_ib.hpp"\n#include "device.hpp"\n'),
        ("port.hpp", '#include "tcp_cm.hpp"\n', '#include "tcp_cm.hpp"\n\n#include <optional>\n'),
        ("port.hpp", "        int fd = -1;  ",
         "        std::optional<memory_device::completion_queue> queue;\n        int fd = -1;  "),
        ("port.hpp", "struct wr : work_request {};",
         "struct wr : work_request {\n        memory_device::operation posted;\n    };"),
        ("port.hpp", "        hca *device = nullptr;\n        pd *domain",
         "        std::optional<memory_device::queue_pair> pair;\n"
         "        hca *device = nullptr;\n        pd *domain"),
        ("port.hpp", "        std::uint32_t key = 0; ",
         "        wide_key wide = 0;\n        std::uint32_t key = 0; "),
        # The fabric is one inside the process: any adapter has to find the keys of the others.
        ("port.hpp", "        port_support::key_table<wide_key> keys;",
         "        static inline port_support::key_table<wide_key> keys;"),
    ],
    "dapls_ib_open_hca": [],
    "dapls_ib_close_hca": [],
    "dapls_ib_query_hca": [
        *(("hca.cpp", f"attr.{name} = 0;", f"attr.{name} = {value};")
          for name, value in LIMITS.items()),
        ("hca.cpp", "attr.max_cq_depth = 1024;", "attr.max_cq_depth = 65536;"),
    ],
    "dapls_ib_pd_alloc": [
        ("memory.cpp", "    zone.device = &device;\n    return not_supported;",
         "    zone.device = &device;\n    return success;"),
    ],
    "dapls_ib_pd_free": [],
    "wide_key": [],
    "dapls_ib_mr_register": [
        ("memory.cpp", "    const wide_key made{}; // the device registers here, with the rights in"
         " params.privileges\n    const status registered = not_supported;\n", """\
    using namespace memory_device;
    const auto has = [&](unsigned right) { return (params.privileges & right) != 0; };
    const wide_key made =
        add_region(&zone, params.address, params.length,
                   (has(DAT_MEM_PRIV_LOCAL_READ_FLAG) ? unsigned{local_read} : 0u) |
                       (has(DAT_MEM_PRIV_LOCAL_WRITE_FLAG) ? unsigned{local_write} : 0u) |
                       (has(DAT_MEM_PRIV_REMOTE_READ_FLAG) ? unsigned{remote_read} : 0u) |
                       (has(DAT_MEM_PRIV_REMOTE_WRITE_FLAG) ? unsigned{remote_write} : 0u));
    const status registered = success;
    region.wide = made;
"""),
    ],
    "dapls_ib_mr_deregister": [
        ("memory.cpp", "    // The device takes the memory back here.",
         "    memory_device::remove_region(region.wide);"),
    ],
    "dapls_ib_cq_alloc": [
        ("cq.cpp", "    const status made = not_supported; // the device makes its queue here, and"
         " sets c.fd\n", """\
    c.queue.emplace();
    c.fd = c.queue->descriptor();
    const status made = success;
"""),
    ],
    "dapls_ib_cq_free": [("cq.cpp", "    // The device frees its queue here.", "    c.queue.reset();")],
    "dapls_ib_completion_poll": [
        ("port.hpp", "dapls_ib_completion_poll(cq &, completion &) { return false; }", """\
dapls_ib_completion_poll(cq &c, completion &out)
    {
        static constexpr DAT_DTO_COMPLETION_STATUS statuses[] = {
            DAT_DTO_SUCCESS,           DAT_DTO_ERR_FLUSHED,
            DAT_DTO_ERR_LOCAL_LENGTH,  DAT_DTO_ERR_LOCAL_PROTECTION,
            DAT_DTO_ERR_REMOTE_ACCESS, DAT_DTO_ERR_REMOTE_RESPONDER,
        };
        memory_device::completion done;
        if (!c.queue->poll(done))
            return false;
        out = {};
        out.wr = static_cast<wr *>(done.id);
        out.length = done.length;
        out.status = statuses[static_cast<unsigned>(done.status)];
        return true;
    }"""),
    ],
    "dapls_ib_completion_notify": [
        ("port.hpp", "dapls_ib_completion_notify(cq &, notify_on) {}",
         "dapls_ib_completion_notify(cq &c, notify_on) { c.queue->arm(); }"),
    ],
    "take_notification": [
        ("hca.cpp", "take_notification(cq &) {}",
         "take_notification(cq &c)\n{\n    c.queue->clear();\n}"),
    ],
    "dapls_ib_qp_alloc": [
        ("qp.cpp", "    return not_supported; // the device makes its queue pair here",
         "    return dapls_ib_qp_reset(q);"),
    ],
    "dapls_ib_qp_free": [
        ("qp.cpp", "    // The device frees its queue pair here.", "    q.pair.reset();"),
    ],
    "dapls_ib_qp_reset": [
        ("qp.cpp", "    return not_supported; // the device makes its queue pair anew here", """\
    q.pair.emplace(q.domain, q.send_cq == nullptr ? nullptr : &*q.send_cq->queue,
                   q.recv_cq == nullptr ? nullptr : &*q.recv_cq->queue);
    return success;"""),
    ],
    "local_address": [
        ("cm.cpp", "#include <utility>", "#include <cstring>\n#include <utility>"),
        ("cm.cpp", "tcp_cm_address local_address(const transport::qp &)\n{\n    return {0, {}};", """\
struct peer_address {
    long process;
    std::uint32_t number;
};

tcp_cm_address local_address(const transport::qp &q)
{
    const peer_address mine{osd::process_id(), q.pair->number()};
    tcp_cm_address out;
    out.size = sizeof mine;
    std::memcpy(out.bytes, &mine, sizeof mine);
    return out;"""),
    ],
    "bring_up": [
        ("cm.cpp", "bring_up(tcp_connection & /*c*/, const tcp_cm_address & /*peer*/)",
         "bring_up(tcp_connection &c, const tcp_cm_address &peer)"),
        ("cm.cpp", "    // qp &q = static_cast<qp &>(c);\n    return false;", """\
    qp &q = static_cast<qp &>(c);
    peer_address there{};
    if (peer.size != sizeof there)
        return false;
    std::memcpy(&there, peer.bytes, sizeof there);
    return there.process == process && q.pair->connect(there.number);"""),
    ],
    "tear_down": [
        ("cm.cpp", "tear_down(tcp_connection &) {}", """\
tear_down(tcp_connection &c)
{
    if (c.phase() == connection_phase::idle)
        static_cast<qp &>(c).pair->flush();
    else
        static_cast<qp &>(c).pair->disconnect();
}"""),
    ],
    "is_drained": [
        ("cm.cpp", "is_drained(tcp_connection &)\n{\n    return true;",
         "is_drained(tcp_connection &c)\n{\n    return !static_cast<qp &>(c).pair->has_sends();"),
    ],
    "dapls_ib_post_send": [
        ("port.hpp", """\
dapls_ib_post_send(qp &, wr &, DAT_COUNT /*segments*/,
                                     const DAT_LMR_TRIPLET * /*local*/,
                                     const DAT_RMR_TRIPLET * /*remote*/,
                                     DAT_COMPLETION_FLAGS /*flags*/)
    {
        return not_supported;
    }""", """\
dapls_ib_post_send(qp &q, wr &request, DAT_COUNT segments,
                                     const DAT_LMR_TRIPLET *local, const DAT_RMR_TRIPLET *remote,
                                     DAT_COMPLETION_FLAGS flags)
    {
        using memory_device::opcode;
        return post(q, request,
                    request.operation == DAT_DTO_SEND         ? opcode::send
                    : request.operation == DAT_DTO_RDMA_WRITE ? opcode::write
                                                              : opcode::read,
                    segments, local, remote, flags);
    }
    static status post(qp &q, wr &request, memory_device::opcode what, DAT_COUNT segments,
                       const DAT_LMR_TRIPLET *local, const DAT_RMR_TRIPLET *remote,
                       DAT_COMPLETION_FLAGS flags)
    {
        memory_device::operation &op = request.posted;
        op.id = &request;
        op.what = what;
        op.silent = (flags & DAT_COMPLETION_SUPPRESS_FLAG) != 0;
        op.segments = static_cast<std::size_t>(segments);
        std::size_t left = SIZE_MAX; // a read brings no more than the remote segment has
        if (what == memory_device::opcode::read)
            left = remote->segment_length;
        for (std::size_t i = 0; i < op.segments; ++i) {
            const std::size_t length = std::min<std::size_t>(local[i].segment_length, left);
            op.local[i] = {reinterpret_cast<void *>(local[i].virtual_address), length, 0};
            left -= length;
            (void)q.device->keys.find(local[i].lmr_context, op.local[i].key);
        }
        if (remote != nullptr) {
            op.remote_address = remote->virtual_address;
            op.remote_key = 0;
            (void)q.remote_key(remote->rmr_context, op.remote_key);
        }
        if (!q.pair->post(op))
            q.device->cm.fail(q);
        return success;
    }"""),
    ],
    "dapls_ib_post_recv": [
        ("port.hpp", """\
dapls_ib_post_recv(qp &, wr &, DAT_COUNT /*segments*/,
                                     const DAT_LMR_TRIPLET * /*local*/)
    {
        return not_supported;
    }""", """\
dapls_ib_post_recv(qp &q, wr &request, DAT_COUNT segments,
                                     const DAT_LMR_TRIPLET *local)
    {
        return post(q, request, memory_device::opcode::receive, segments, local, nullptr,
                    DAT_COMPLETION_DEFAULT_FLAG);
    }"""),
    ],
    "remote_key": [
        ("qp.cpp", "remote_key(DAT_RMR_CONTEXT /*key*/, wide_key & /*out*/)\n{\n    return false;",
         "remote_key(DAT_RMR_CONTEXT key, wide_key &out)\n{\n    return device->keys.find(key, out);"),
    ],
}


def lines_of(text: str) -> int:
    return len([line for line in text.split("\n") if line.strip()])


def fill(files: dict[str, str], name: str) -> int:
    """Fill in a place; how many lines of it are new."""
    for file, old, new in FILLS[name]:
        if files[file].count(old) != 1:
            sys.exit(f"{name}: the skeleton's {file} has no place that begins\n{old}")
        files[file] = files[file].replace(old, new)
    mark = rf"// TODO\(port\) \d+ {name}:"
    files.update({file: re.sub(mark, f"// {name}:", text) for file, text in files.items()})
    return sum(lines_of(new) for _, _, new in FILLS[name])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path, required=True, metavar="FOLDER")
    parser.add_argument("--up-to", metavar="PLACE", help="leave what comes after it as it is")
    options = parser.parse_args()

    kit = skeleton.Kit(ROOT)
    files = skeleton.files_of(kit, PORT)
    made = sum(lines_of(text) for text in files.values())
    places = list(skeleton.places(kit, PORT))
    if wrong := set(places) ^ set(FILLS):
        sys.exit(f"not both in the skeleton and here: {', '.join(sorted(wrong))}")
    last = places.index(options.up_to) + 1 if options.up_to else len(places)
    new = sum(fill(files, name) for name in places[:last])
    if not options.up_to and skeleton.MARK + " 1" in "".join(files.values()):
        sys.exit("a place is still open")
    for name, text in files.items():
        if not name.startswith(("README", "meson")):
            (options.output / name).write_text(text)
    for name in ("device.hpp", "device.cpp"):
        shutil.copy(DEVICE / name, options.output)
    print(f"{made} lines made by dapl-port, {new} by the author, in {last} places")


if __name__ == "__main__":
    main()
