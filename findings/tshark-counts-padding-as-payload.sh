#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# tshark 4.0.17-0+deb12u3 (Debian 12). RoCE v2 messages whose length is no multiple of four, which the sender
# fills up with zero bytes, as many as the pad count of the base transport header says.
# Guess: the data that tshark shows is the message without the filling, as it dissects the pad count, too.
# Seen: the filling belongs to the data: a message of 61 bytes has data.len 64; and an RDMA write of which the
# first packet announces 1,085 bytes has 1,088. So who adds up the bytes of a capture, or takes an
# application's messages out of it, has to subtract infiniband.bth.padcnt. 4.4.19 and 4.6.9 do the same.

set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root tshark=4.0.17-0+deb12u3 libwireshark16=4.0.17-0+deb12u3 \
    libwiretap13=4.0.17-0+deb12u3 libwsutil14=4.0.17-0+deb12u3 libwireshark-data=4.0.17-0+deb12u3 \
    libc-ares2 liblua5.2-0 libnghttp2-14 libsmi2ldbl libsnappy1v5 libbrotli1 libpcap0.8 libglib2.0-0
for package in ./*.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH=$PWD/usr/lib/x86_64-linux-gnu:$PWD/lib/x86_64-linux-gnu
export WIRESHARK_DATA_DIR=$PWD/usr/share/wireshark HOME=$PWD

cat >capture.py <<'PYTHON'
import struct


def roce(opcode, payload, number, extended=b""):
    """An Ethernet frame of RoCE v2. The ICRC stays 0: tshark shows it and checks nothing."""
    pad = -len(payload) % 4
    header = struct.pack("!BBHII", opcode, 0x40 | pad << 4, 0xFFFF, 0x11, number)
    packet = header + extended + payload + bytes(pad) + bytes(4)
    udp = struct.pack("!HHHH", 0xC000, 4791, 8 + len(packet), 0) + packet
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0x4000, 64, 17, 0,
                     bytes([192, 0, 2, 1]), bytes([192, 0, 2, 2]))
    return bytes.fromhex("020000000002 020000000001 0800") + ip + udp


write = struct.pack("!QII", 0x1000, 7, 1024 + 61)  # RETH: address, key, length of the message
frames = [roce(0x04, b"A" * 64, 1), roce(0x04, b"A" * 61, 2),
          roce(0x06, b"A" * 1024, 3, write), roce(0x08, b"A" * 61, 4)]
with open("capture.pcap", "wb") as file:
    file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    for time, frame in enumerate(frames):
        file.write(struct.pack("<IIII", time, 0, len(frame), len(frame)) + frame)
PYTHON
python3 capture.py

usr/bin/tshark -r capture.pcap -T fields -E header=y -E separator=, -e infiniband.bth.opcode \
    -e infiniband.bth.padcnt -e infiniband.reth.dmalen -e data.len 2>/dev/null | tee output
diff - output <<'SEEN'
infiniband.bth.opcode,infiniband.bth.padcnt,infiniband.reth.dmalen,data.len
4,0,,64
4,3,,64
6,0,1085,1024
8,3,,64
SEEN
echo "as seen before"
