// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "work_queue.hpp"

#include "binding.hpp"

namespace dapl::DAPL_TRANSPORT {

work_queue::~work_queue()
{
    for (std::uint32_t i = 0; bindings_ != nullptr && i <= mask; ++i)
        if (bindings_[i] != nullptr)
            bindings_[i]->let_go();
    if (draws_from != nullptr)
        draws_from->let_go();
}

void work_queue::let_go()
{
    if (holders_.fetch_sub(1, std::memory_order_acq_rel) != 1)
        return;
    if (shared)
        delete static_cast<shared_work_queue *>(this);
    else
        delete this;
}

bool work_queue::make_room_for_bindings()
{
    if (bindings_ == nullptr)
        bindings_.reset(new (std::nothrow) binding *[mask + 1]());
    return bindings_ != nullptr;
}

void work_queue::note_binding(std::uint32_t sequence, binding *posted)
{
    if (binding *before = std::exchange(bindings_[sequence & mask], posted); before != nullptr)
        before->let_go();
}

} // namespace dapl::DAPL_TRANSPORT
