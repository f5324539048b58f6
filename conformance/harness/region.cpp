// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "harness/region.hpp"

#include "harness/judge.hpp"

namespace conformance {

region::region(const adapter &ia, DAT_PZ_HANDLE pz, std::size_t size, DAT_MEM_PRIV_FLAGS rights)
    : bytes(size), ia_(ia)
{
    DAT_REGION_DESCRIPTION where{};
    where.for_va = bytes.data();
    MUST(dat_lmr_create(ia.handle, DAT_MEM_TYPE_VIRTUAL, where, size, pz, rights, DAT_VA_TYPE_VA,
                        &lmr, &lmr_context, &rmr_context, nullptr, nullptr));
}

region::~region()
{
    free();
}

/// Deregisters before the memory is freed, so that the device cannot access it afterwards.
void region::free()
{
    if (lmr != DAT_HANDLE_NULL && ia_.is_open())
        (void)dat_lmr_free(lmr);
    lmr = DAT_HANDLE_NULL;
}

DAT_LMR_TRIPLET region::local(std::size_t offset, std::size_t length) const
{
    return {reinterpret_cast<DAT_VADDR>(bytes.data() + offset), static_cast<DAT_SEG_LENGTH>(length),
            lmr_context};
}

DAT_RMR_TRIPLET region::remote(std::size_t offset, std::size_t length) const
{
    return {reinterpret_cast<DAT_VADDR>(bytes.data() + offset), static_cast<DAT_SEG_LENGTH>(length),
            rmr_context};
}

namespace {

std::uint8_t pattern(std::size_t position, unsigned seed)
{
    return static_cast<std::uint8_t>(position * 131 + position / 251 + seed * 89 + 1);
}

} // namespace

DEVICE_MEMORY void region::set_all(std::uint8_t value)
{
    for (std::uint8_t &byte : bytes)
        byte = value;
}

DEVICE_MEMORY void region::fill(std::size_t offset, std::size_t length, unsigned seed)
{
    for (std::size_t i = 0; i < length; ++i)
        bytes[offset + i] = pattern(i, seed);
}

DEVICE_MEMORY std::vector<std::uint8_t> region::copy() const
{
    std::vector<std::uint8_t> copied(bytes.size());
    for (std::size_t i = 0; i < bytes.size(); ++i)
        copied[i] = bytes[i];
    return copied;
}

DEVICE_MEMORY bool region::holds(std::size_t offset, std::size_t length, unsigned seed) const
{
    for (std::size_t i = 0; i < length; ++i)
        if (bytes[offset + i] != pattern(i, seed))
            return false;
    return true;
}

} // namespace conformance
