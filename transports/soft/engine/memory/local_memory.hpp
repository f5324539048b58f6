// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The memory that the connection of a queue pair may use: regions and windows of the device, in the
// protection domain of the queue pair.
#pragma once

#include "memory_table.hpp"
#include "memory_windows.hpp"
#include "net/packet_io.hpp"

namespace soft_hca {

class local_memory {
public:
    /// Gives a queue pair its device's memory. All arguments outlive this object.
    void attach(memory_table &table, memory_windows &windows, packet_io &io,
                protection_domain *domain)
    {
        table_ = &table;
        windows_ = &windows;
        io_ = &io;
        domain_ = domain;
    }
    /// Begins a connection, with a number that no other connection has ever had.
    void begin_connection(std::uint64_t number) { connection_ = number; }
    protection_domain *domain() const { return domain_; }

    grant access(std::uint32_t key, std::uint32_t rights, std::uint64_t address,
                 std::uint64_t size) const
    {
        return table_->check_access(key, domain_, rights, address, size, connection_);
    }
    /// Whether the local segments of a request may be used.
    bool may_use(const request &r, std::uint32_t rights) const;

    /// Stores received bytes at an address; the last byte after all others if `last_byte_last`.
    /// False when memory is not mapped there any more.
    [[nodiscard]] bool place(std::uint64_t address, const std::uint8_t *from, std::uint32_t size,
                             bool last_byte_last) const
    {
        return io_->place(pointer_to(address), from, size, last_byte_last);
    }
    /// Stores received bytes at an offset of the local memory of a request.
    work_status scatter(const request &r, std::uint32_t offset, const std::uint8_t *from,
                        std::uint32_t size) const;
    /// As scatter(), by the processor: the thread gets a fault where memory is not mapped any more.
    work_status copy_in(const request &r, const std::uint8_t *from, std::uint32_t size) const;
    /// Lists where scatter() would store bytes: at most max_segments pieces.
    work_status list(const request &r, std::uint32_t offset, std::uint32_t size, bytes_view *out,
                     std::uint32_t &pieces) const;
    /// Stores received bytes like scatter(), where a key that opens memory to peers names the local
    /// memory.
    work_status scatter_to_window(const request &r, std::uint32_t offset, const std::uint8_t *from,
                                  std::uint32_t size) const;

    /// Executes a bind. False when the queue pair may not bind this window to this memory.
    bool bind(request &r) const { return windows_->execute(r, connection_); }
    /// Drops a bind that will not be executed.
    void cancel_bind(request &r) const { windows_->cancel(r); }
    /// Takes a key away from the peer. False when it opens no window to this connection.
    bool invalidate(std::uint32_t key) const
    {
        return windows_->invalidate(key, *domain_, connection_);
    }

private:
    template <std::uint32_t right, class Place>
    work_status scatter_with(const request &r, std::uint32_t offset, const std::uint8_t *from,
                             std::uint32_t size, Place &&place_part) const;

    memory_table *table_ = nullptr;
    memory_windows *windows_ = nullptr;
    packet_io *io_ = nullptr;
    protection_domain *domain_ = nullptr;
    std::uint64_t connection_ = 0;
};

} // namespace soft_hca
