// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Tells when a network interface was removed, without a look at it in between. Not every system
// can.
#pragma once

#include "packet_io.hpp"

namespace soft_hca {

class interface_watch {
public:
    ~interface_watch() { close(); }
    /// Begins to watch the interface of this name, if that can be done.
    void open(const char *name);
    void close();
    /// Readable when interfaces have changed; negative if none is watched.
    waitable descriptor() const { return descriptor_; }
    /// Takes what has come. True once the interface is no more, whatever has its name now.
    bool is_gone();

private:
    waitable descriptor_ = -1;
    unsigned index_ = 0; ///< of the interface, which no other gets
};

} // namespace soft_hca
