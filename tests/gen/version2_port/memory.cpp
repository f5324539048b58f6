// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Protection domain and memory region of the acme port. Made by dapl-port; it is yours.
#include "port.hpp"

namespace dapl::acme {

// TODO(port) dapls_ib_pd_alloc: make a protection domain
// Control. Nothing refers to the pd when it is freed.
// (control, may block; shown by MEM-01)
status transport::dapls_ib_pd_alloc(hca &, pd &)
{
    return not_supported;
}

// TODO(port) dapls_ib_pd_free: free it
// Control. Nothing refers to the pd when it is freed.
// (control, may block; shown by MEM-02)
void transport::dapls_ib_pd_free(pd &) {}

// TODO(port) dapls_ib_mr_register: register memory, give out its keys
// Registers [address, address + length) with the given rights; remote reads and writes carry
// the plain virtual address. Memory that is not there, or cannot be used with these rights, is
// DAT_PROTECTION_VIOLATION: a device that pins notices, others ask osd::look_at_memory. What
// is unmapped later shall end operations, not the process. Control.
// DAT_INSUFFICIENT_RESOURCES, DAT_PRIVILEGES_VIOLATION, DAT_PROTECTION_VIOLATION.
// (control, may block; shown by MEM-03, MEM-05, MEM-06, MEM-08, MEM-14, MEM-15, MEM-16,
// MEM-17, DTO-20)
status transport::dapls_ib_mr_register(pd &, mr &, const mr_params &, mr_keys &)
{
    return not_supported;
}

// TODO(port) dapls_ib_mr_deregister: take the memory back; the remote key is dead
// No window is or will be bound to it. On return the remote key is dead. Control.
// (control, may block; shown by MEM-13, DTO-21)
void transport::dapls_ib_mr_deregister(mr &) {}

} // namespace dapl::acme
