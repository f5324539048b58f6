-- SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
--
-- A dissector for the datagrams of the software HCA, docs/soft-wire.md; Wireshark 4.0 and later.
--
--   tshark -X lua_script:softhca.lua -r FILE
--
-- It finds them on any port. The preference softhca.ports, a range, names ports where everything
-- is one: so sealed datagrams are shown of connections whose beginning was not captured.

local hca = Proto("softhca", "Software HCA")

local FIRST, CHECKED, SEALED = 1, 2, 3
local BASE_SIZE, CHECKSUM_SIZE, TAG_SIZE = 28, 4, 16
local MOST_PRIVATE_DATA, MOST_SACK_WORDS = 256, 8
local SMALLEST_DATAGRAM, LARGEST_DATAGRAM = 512, 65507

local kinds = {
    [1] = "Data", [2] = "Ack", [3] = "Probe", [4] = "Request", [5] = "Accept", [6] = "Reject",
    [7] = "Close", [8] = "Close ack", [9] = "Reset", [10] = "Retry", [11] = "Challenge",
    [12] = "Response", [14] = "Datagram",
}
-- The flags that a kind may have: receiver not ready, late acknowledgement, padded, not fetched,
-- exchange, solicited.
local flags_of = { [1] = 2, [2] = 1 + 8, [4] = 4 + 16, [5] = 4, [14] = 32 }
local opcodes = {
    [0] = "RDMA write", [1] = "RDMA read request", [2] = "RDMA read response", [3] = "Send",
    [4] = "Send with invalidate", [5] = "Send with solicited event",
    [6] = "Send with solicited event and invalidate", [8] = "Immediate data",
    [9] = "Immediate data with solicited event", [10] = "Atomic request",
    [11] = "Atomic response",
}
local queues = { [1] = 1, [10] = 1, [11] = 3 } -- of untagged messages, else 0
local atomics = { [0] = "FetchAdd", [2] = "CmpSwap" }
local reject_reasons = { [1] = "by the consumer", [2] = "no listener, or not accepted" }
local close_reasons = { [0] = "disconnect", [1] = "terminate" }
local faults = {
    [0xffff] = "none", [0x0000] = "local catastrophic error", [0x0100] = "invalid STag",
    [0x0101] = "base or bounds violation", [0x0102] = "access rights violation",
    [0x0103] = "STag not of this stream", [0x0104] = "TO wraps", [0x0206] = "unexpected opcode",
    [0x0207] = "catastrophic error of the stream", [0x0209] = "STag cannot be invalidated",
    [0x02ff] = "unspecific error", [0x1203] = "invalid MSN", [0x1204] = "invalid MO",
    [0x1205] = "message too long for the receive",
}
local handshakes = { [4] = true, [5] = true, [6] = true, [7] = true, [10] = true }

-- ------------------------------------------------------------------------------------- the fields

local f = {}
local function field(make, name, text, ...)
    f[name] = ProtoField[make]("softhca." .. name, text, ...)
end
field("uint8", "version", "Version")
field("uint8", "kind", "Kind", base.DEC, kinds)
field("uint16", "flags", "Flags", base.HEX)
field("bool", "flags.receiver_not_ready", "Receiver not ready", 16, nil, 1)
field("bool", "flags.late_ack", "Late acknowledgement", 16, nil, 2)
field("bool", "flags.padded", "Padded", 16, nil, 4)
field("bool", "flags.not_fetched", "Not fetched", 16, nil, 8)
field("bool", "flags.exchange", "Exchange of addresses", 16, nil, 16)
field("bool", "flags.solicited", "Solicited", 16, nil, 32)
field("uint32", "to", "To (receiver's connection id)", base.HEX)
field("uint32", "tag", "Tag (receiver's secret)", base.HEX)
field("uint32", "from", "From (sender's connection id)", base.HEX)
field("uint32", "psn", "Sequence number")
field("uint32", "ack", "Next expected")
field("uint32", "credit", "Credit")
field("uint32", "checksum", "CRC-32C", base.HEX)
field("bool", "segment.tagged", "Tagged", 8, nil, 0x80)
field("bool", "segment.last", "Last of its message", 8, nil, 0x40)
field("uint8", "segment.ddp_version", "DDP version", base.DEC, nil, 0x03)
field("uint8", "segment.rdmap_version", "RDMAP version", base.DEC, nil, 0xc0)
field("uint8", "segment.opcode", "Opcode", base.DEC, opcodes, 0x0f)
field("uint32", "segment.stag", "STag", base.HEX)
field("uint64", "segment.offset", "TO", base.HEX)
field("uint32", "segment.invalidate", "STag to be invalidated", base.HEX)
field("uint32", "segment.queue", "QN")
field("uint32", "segment.msn", "MSN")
field("uint32", "segment.message_offset", "MO")
field("uint32", "segment.sink_stag", "Sink STag", base.HEX)
field("uint64", "segment.sink_offset", "Sink TO", base.HEX)
field("uint32", "segment.read_size", "Read size")
field("uint32", "segment.source_stag", "Source STag", base.HEX)
field("uint64", "segment.source_offset", "Source TO", base.HEX)
field("uint32", "segment.atomic", "Atomic operation", base.DEC, atomics)
field("uint32", "segment.request_id", "Request id", base.HEX)
field("uint64", "segment.swap_or_add", "Add or swap data", base.HEX)
field("uint64", "segment.swap_or_add_mask", "Add or swap mask", base.HEX)
field("uint64", "segment.compare", "Compare data", base.HEX)
field("uint64", "segment.compare_mask", "Compare mask", base.HEX)
field("uint64", "segment.original", "Original value", base.HEX)
field("uint64", "segment.immediate", "Immediate data", base.HEX)
field("bytes", "segment.payload", "Payload")
field("uint8", "sack.words", "Words of the selective acknowledgement")
field("uint32", "sack", "Arrived", base.HEX)
field("uint64", "hello.qualifier", "Connection qualifier")
field("uint32", "hello.id", "Connection id", base.HEX)
field("uint32", "hello.tag", "Tag", base.HEX)
field("uint32", "hello.first_psn", "First sequence number")
field("uint32", "hello.max_datagram", "Largest datagram")
field("uint16", "hello.reads_out", "Reads out")
field("uint16", "hello.reads_in", "Reads in")
field("uint16", "private_size", "Size of the private data")
field("bytes", "private_data", "Private data")
field("bytes", "padding", "Padding")
field("uint8", "rejection", "Reason", base.DEC, reject_reasons)
field("uint8", "closing.code", "Reason", base.DEC, close_reasons)
field("uint16", "closing.why", "Fault", base.HEX, faults)
field("uint32", "closing.psn", "Sequence number of the refused datagram")
field("uint64", "token", "Token", base.HEX)
field("bytes", "message", "Message")
field("bool", "sealed", "Sealed (encrypted)")
field("bool", "sealed.odd_epoch", "Odd epoch", 16, nil, 1)
field("uint64", "sealed.number", "Number")
field("bytes", "sealed.salt", "Salt")
field("bytes", "sealed.tag", "Tag of the AEAD")
field("bytes", "sealed.ciphertext", "Ciphertext")

local all = {}
for _, each in pairs(f) do
    all[#all + 1] = each
end
hca.fields = all

local malformed = ProtoExpert.new("softhca.malformed", "Malformed", expert.group.MALFORMED,
                                  expert.severity.ERROR)
local cut = ProtoExpert.new("softhca.cut", "Captured in part only", expert.group.UNDECODED,
                            expert.severity.NOTE)
hca.experts = { malformed, cut }
hca.prefs.ports = Pref.range("UDP ports", "", "Ports where every datagram is one of these", 65535)

-- --------------------------------------------------------------------------------------- CRC-32C

local crc_table = {}
for i = 0, 255 do
    local value = i
    for _ = 1, 8 do
        local low = bit.band(value, 1)
        value = bit.rshift(value, 1)
        if low == 1 then
            value = bit.bxor(value, 0x82f63b78)
        end
    end
    crc_table[i] = value
end

local function crc32c(tvb, size)
    local bytes = tvb:range(0, size):bytes()
    local value = 0xffffffff
    for i = 0, size - 1 do
        local at = bit.band(bit.bxor(value, bytes:get_index(i)), 0xff)
        value = bit.bxor(crc_table[at], bit.rshift(value, 8))
    end
    return bit.bxor(value, 0xffffffff) % 0x100000000 -- bit has signed numbers
end

-- ----------------------------------------------------------------------------------- the packet

-- Reads one field after the other. `tree` is nil when a datagram is only tried. What is wrong first
-- is kept: nothing behind it is read.
local reader = {}
reader.__index = reader

function reader.new(tvb, size, tree)
    return setmetatable({ tvb = tvb, size = size, at = 0, tree = tree }, reader)
end

function reader:expect(holds, why)
    if not holds and not self.wrong then
        self.wrong = why
    end
    return not self.wrong
end

function reader:left()
    return self.size - self.at
end

-- The bytes; nil if there are none, or something was wrong before.
function reader:take(size)
    if not self:expect(size <= self:left(), "it is too short") or size == 0 then
        return nil
    end
    local range = self.tvb:range(self.at, size)
    self.at = self.at + size
    return range
end

function reader:show(name, range)
    if self.tree and range then
        self.tree:add(f[name], range)
    end
end

-- A number of up to 32 bits; 0 if it is missing.
function reader:number(name, size)
    local range = self:take(size)
    self:show(name, range)
    return range and range:uint() or 0
end

function reader:wide(name)
    self:show(name, self:take(8))
end

function reader:bytes(name, size)
    self:show(name, self:take(size))
end

function reader:zero(size)
    local range = self:take(size)
    self:expect(not range or range:uint() == 0, "a reserved field is not 0")
end

function reader:end_here()
    self:expect(self:left() == 0, "there are bytes behind it")
end

local function read_atomic_request(r)
    local operation = r:number("segment.atomic", 4)
    r:expect(atomics[operation], "an unknown atomic operation")
    r:number("segment.request_id", 4)
    r:number("segment.source_stag", 4)
    for _, name in ipairs({ "source_offset", "swap_or_add", "swap_or_add_mask", "compare",
                            "compare_mask" }) do
        r:wide("segment." .. name)
    end
end

local function read_read_request(r)
    r:number("segment.sink_stag", 4)
    r:wide("segment.sink_offset")
    r:number("segment.read_size", 4)
    r:number("segment.source_stag", 4)
    r:wide("segment.source_offset")
end

local function read_atomic_response(r)
    r:number("segment.request_id", 4)
    r:wide("segment.original")
end

local function read_immediate(r)
    r:wide("segment.immediate")
end

-- What is between DDP header and payload; these have no payload.
local rdmap = {
    [1] = read_read_request, [8] = read_immediate, [9] = read_immediate,
    [10] = read_atomic_request, [11] = read_atomic_response,
}

local function read_data(r)
    local control = r:take(2)
    if not control then
        r:expect(false, "it is too short")
        return
    end
    local ddp, opcode = control(0, 1):uint(), bit.band(control(1, 1):uint(), 0x0f)
    r:show("segment.tagged", control(0, 1))
    r:show("segment.last", control(0, 1))
    r:show("segment.ddp_version", control(0, 1))
    r:show("segment.rdmap_version", control(1, 1))
    r:show("segment.opcode", control(1, 1))
    local tagged, last = bit.band(ddp, 0x80) ~= 0, bit.band(ddp, 0x40) ~= 0
    r:expect(bit.band(ddp, 0x3f) == 1, "another DDP version, or a reserved bit")
    r:expect(bit.band(control(1, 1):uint(), 0xf0) == 0x40, "another RDMAP version, or a reserved bit")
    r:expect(opcodes[opcode], "an unknown opcode")
    r:expect(tagged == (opcode == 0 or opcode == 2), "tagged does not go with the opcode")
    r.info = opcodes[opcode]
    if tagged then
        r:number("segment.stag", 4)
        r:wide("segment.offset")
    else
        local invalidated = r:number("segment.invalidate", 4)
        r:expect(invalidated == 0 or opcode == 4 or opcode == 6, "this opcode invalidates nothing")
        local queue = r:number("segment.queue", 4)
        r:expect(queue == (queues[opcode] or 0), "the queue does not go with the opcode")
        r:number("segment.msn", 4)
        local offset = r:number("segment.message_offset", 4)
        if rdmap[opcode] then
            rdmap[opcode](r)
            r:expect(last and offset == 0, "a message without payload is one segment")
            r:end_here()
        end
    end
    r:expect(last or r:left() ~= 0, "it is empty, and not the last of its message")
    r:bytes("segment.payload", r:left())
end

local function read_ack(r)
    local words = r:number("sack.words", 1)
    r:zero(3)
    r:expect(words <= MOST_SACK_WORDS and r:left() == 4 * words, "the number of words is wrong")
    while not r.wrong and r:left() ~= 0 do
        r:number("sack", 4)
    end
end

local function read_private_data(r)
    local size = r:number("private_size", 2)
    r:expect(size <= MOST_PRIVATE_DATA, "too much private data")
    r:bytes("private_data", size)
    if not r.padded then
        return r:end_here()
    end
    local padding = r:take(r:left())
    r:show("padding", padding)
    r:expect(not padding or not padding:bytes():tohex():find("[^0]"), "the padding is not 0")
end

local function read_hello(r)
    local request = r.kind == 4
    if request then
        r:wide("hello.qualifier")
        r:expect(r.version == FIRST or r.ack == 1, "a later version was not named by a retry")
    end
    local id = r:number("hello.id", 4)
    r:expect(id == r.from, "the connection ids differ")
    r:number("hello.tag", 4)
    r:number("hello.first_psn", 4)
    local largest = r:number("hello.max_datagram", 4)
    r:expect(largest >= SMALLEST_DATAGRAM and largest <= LARGEST_DATAGRAM,
             "an impossible size of datagrams")
    r:number("hello.reads_out", 2)
    r:number("hello.reads_in", 2)
    r:zero(2)
    read_private_data(r)
end

local function read_reject(r)
    r:expect(reject_reasons[r:number("rejection", 1)], "an unknown reason")
    r:zero(1)
    read_private_data(r)
end

local function read_close(r)
    r:expect(close_reasons[r:number("closing.code", 1)], "an unknown reason")
    r:zero(1)
    r:number("closing.why", 2)
    r:number("closing.psn", 4)
    r:end_here()
end

local function read_retry(r)
    r:end_here()
    r:expect(r.version == FIRST, "a retry is of version 1")
    if r.wrong then
        return
    elseif r.ack == 0 then
        r:expect(r.credit == 0, "a checksum, and no versions")
    else
        r:expect(bit.band(r.ack, 1) == 0, "there is no version 0")
        r:expect(r.credit == crc32c(r.tvb, BASE_SIZE - 4), "the checksum of the versions is wrong")
    end
end

local function read_token(r)
    r:wide("token")
    r:end_here()
end

local function read_datagram(r)
    r:expect(r.psn == 0 and r.ack == 0 and r.credit == 0, "a number in a datagram")
    r:show("message", r:take(r:left()))
end

local bodies = {
    [1] = read_data, [2] = read_ack, [3] = reader.end_here, [4] = read_hello, [5] = read_hello,
    [6] = read_reject, [7] = read_close, [8] = reader.end_here, [9] = reader.end_here,
    [10] = read_retry, [11] = read_token, [12] = read_token,
    [14] = read_datagram,
}

local function read_flags(r)
    local range = r:take(2)
    if not range then
        return
    end
    r:show("flags", range)
    for _, name in ipairs({ "receiver_not_ready", "late_ack", "padded", "not_fetched", "exchange",
                              "solicited" }) do
        r:show("flags." .. name, range)
    end
    r.padded = bit.band(range:uint(), 4) ~= 0
    local strange = bit.band(range:uint(), bit.bnot(flags_of[r.kind] or 0))
    r:expect(strange == 0, "an unknown flag, or one of another kind")
end

local function read_open(r)
    r.version = r:number("version", 1)
    r:expect(r.version == FIRST or r.version == CHECKED, "an unknown version")
    r.kind = r:number("kind", 1)
    r.info = kinds[r.kind]
    r:expect(kinds[r.kind], "an unknown kind")
    read_flags(r)
    r:number("to", 4)
    r:number("tag", 4)
    r.from = r:number("from", 4)
    r.psn = r:number("psn", 4)
    r.ack = r:number("ack", 4)
    r.credit = r:number("credit", 4)
    if r.version == CHECKED and r:expect(r:left() >= CHECKSUM_SIZE, "it is too short") then
        r.size = r.size - CHECKSUM_SIZE
        local sum = r.tvb:range(r.size, CHECKSUM_SIZE)
        r:show("checksum", sum)
        r:expect(r.cut or sum:uint() == crc32c(r.tvb, r.size), "its checksum is wrong")
    end
    if not r.wrong then
        bodies[r.kind](r)
    end
end

-- The common fields of requests of all versions are at their places; the salt fills the others.
local function read_sealed_handshake(r)
    r:expect(handshakes[r.kind], "this kind is not sealed with the device's key")
    r:zero(4)
    local from = r:number("from", 4)
    r:bytes("sealed.salt", 12)
    r:bytes("sealed.salt", 8)
    local again = r:take(4)
    r:expect(not again or again:uint() == from, "the connection ids differ")
    r:bytes("sealed.salt", 4)
end

local function read_sealed(r)
    r:number("version", 1)
    r.kind = r:number("kind", 1)
    local flags = r:take(2)
    r:show("flags", flags)
    local value = flags and flags:uint() or 0
    r:number("to", 4)
    if r.kind == 0 then
        r.info = "Sealed, of a connection"
        r:show("sealed.odd_epoch", flags)
        r:expect(value <= 1, "an unknown flag")
        r:wide("sealed.number")
    else
        r.info = "Sealed " .. (kinds[r.kind] or "?")
        r:expect(value == 0, "an unknown flag")
        read_sealed_handshake(r)
    end
    r:bytes("sealed.tag", TAG_SIZE)
    r:bytes("sealed.ciphertext", r:left())
end

local function read_packet(tvb, tree)
    local size = tvb:captured_len()
    local r = reader.new(tvb, size, tree)
    r.cut = size < tvb:reported_len()
    if size ~= 0 and tvb:range(0, 1):uint() == SEALED then
        r.sealed = true
        read_sealed(r)
    else
        read_open(r)
    end
    return r
end

-- ------------------------------------------------------------------------------------ for Wireshark

local function text_of(r)
    local text = r.info or "?"
    if r.psn then
        text = string.format("%s, psn %.0f, ack %.0f", text, r.psn, r.ack)
    end
    return r.wrong and not r.cut and text .. " [malformed]" or text
end

function hca.dissector(tvb, pinfo, parent)
    pinfo.cols.protocol = "SOFT-HCA"
    local tree = parent:add(hca, tvb())
    local r = read_packet(tvb, tree)
    if r.sealed then
        tree:add(f.sealed, true):set_generated()
    end
    if r.cut then
        tree:add_proto_expert_info(cut)
    elseif r.wrong then
        tree:add_proto_expert_info(malformed, "Malformed: " .. r.wrong)
    end
    pinfo.cols.info = text_of(r)
    tree:append_text(", " .. text_of(r))
    return tvb:reported_len()
end

-- A sealed datagram of a connection has too little that is known: those that follow a handshake
-- between the same ports are.
local function guess(tvb, pinfo, tree)
    local r = read_packet(tvb, nil)
    if r.wrong or r.cut or (r.sealed and r.kind == 0) then
        return false
    end
    pinfo.conversation = hca
    hca.dissector(tvb, pinfo, tree)
    return true
end
hca:register_heuristic("udp", guess)

local ports = ""
function hca.prefs_changed()
    local udp = DissectorTable.get("udp.port")
    if ports ~= "" then
        udp:remove(ports, hca)
    end
    ports = hca.prefs.ports
    if ports ~= "" then
        udp:add(ports, hca)
    end
end
