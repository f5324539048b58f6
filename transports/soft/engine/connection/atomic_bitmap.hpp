// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A bitmap that any thread sets bits in, and that one thread at a time scans. A summary with a bit
// for each word keeps the scan of a sparse bitmap short.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <new>

namespace soft_hca {

class atomic_bitmap {
public:
    static constexpr std::uint32_t capacity = 1u << 16;

    /// Returns false when out of memory.
    bool open()
    {
        words_.reset(new (std::nothrow) std::atomic<std::uint64_t>[capacity / 64]());
        return words_ != nullptr;
    }
    void set(std::uint32_t bit)
    {
        words_[bit / 64].fetch_or(std::uint64_t{1} << (bit % 64));
        summary_[bit / 4096].fetch_or(std::uint64_t{1} << (bit / 64 % 64));
    }
    void clear(std::uint32_t bit) { words_[bit / 64].fetch_and(~(std::uint64_t{1} << (bit % 64))); }
    bool test(std::uint32_t bit) const { return (words_[bit / 64].load() >> (bit % 64) & 1) != 0; }

    /// Clears all bits that are set and calls `each` with the number of every such bit.
    template <class Each>
    void drain(Each &&each)
    {
        for_words([](std::atomic<std::uint64_t> &word) { return word.exchange(0); },
                  static_cast<Each &&>(each));
    }
    /// Calls `each` for all bits that are set, and leaves them set.
    template <class Each>
    void visit(Each &&each)
    {
        for_words([](std::atomic<std::uint64_t> &word) { return word.load(); },
                  static_cast<Each &&>(each));
    }

private:
    static constexpr std::uint32_t summary_words = capacity / 4096;

    /// Clears the summary before it reads the words, and restores it for words that still have bits
    /// afterwards: a bit that is set concurrently is found now or by the next scan.
    template <class Read, class Each>
    void for_words(Read &&read, Each &&each)
    {
        for (std::uint32_t s = 0; s < summary_words; ++s) {
            if (summary_[s].load(std::memory_order_relaxed) == 0)
                continue;
            for (std::uint64_t left = summary_[s].exchange(0); left != 0; left &= left - 1) {
                const std::uint32_t w = s * 64 + static_cast<std::uint32_t>(std::countr_zero(left));
                for (std::uint64_t bits = read(words_[w]); bits != 0; bits &= bits - 1)
                    each(w * 64 + static_cast<std::uint32_t>(std::countr_zero(bits)));
                if (words_[w].load() != 0)
                    summary_[s].fetch_or(std::uint64_t{1} << (w % 64));
            }
        }
    }

    std::unique_ptr<std::atomic<std::uint64_t>[]> words_;
    std::atomic<std::uint64_t> summary_[summary_words] = {};
};

} // namespace soft_hca
