// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The shared libraries' substitute for the C++ run time. The program may have brought another
// one, of any age, and other operators. All memory comes from malloc and goes to free, the two
// functions that every allocator replaces together.
//
// Only functions that the libraries use are here: a missing one does not link. It goes into the
// shared libraries alone, whose version scripts keep it there.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>

#ifndef __has_feature
#define __has_feature(what) 0
#endif
// The address sanitizer has operators of its own, and tells a block of theirs from one of malloc's.
#if !defined(__SANITIZE_ADDRESS__) && !__has_feature(address_sanitizer)

const std::nothrow_t std::nothrow{};

/// Refuses what no object can have: the compiler asks for SIZE_MAX where the size of an array would
/// not fit, and warns where it sees that passed to malloc.
void *operator new(std::size_t size, const std::nothrow_t &) noexcept
{
    return size <= PTRDIFF_MAX ? std::malloc(size != 0 ? size : 1) : nullptr;
}

void *operator new[](std::size_t size, const std::nothrow_t &which) noexcept
{
    return ::operator new(size, which);
}

void operator delete(void *memory) noexcept
{
    std::free(memory);
}

void operator delete[](void *memory) noexcept
{
    std::free(memory);
}

void operator delete(void *memory, std::size_t) noexcept
{
    std::free(memory);
}

void operator delete[](void *memory, std::size_t) noexcept
{
    std::free(memory);
}

/// Allocates by malloc, since not every allocator has aligned_alloc or posix_memalign. The address
/// from malloc is kept in front: alignments of this kind are larger than a pointer.
void *operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t &) noexcept
{
    static_assert(__STDCPP_DEFAULT_NEW_ALIGNMENT__ >= sizeof(void *));
    const auto step = static_cast<std::size_t>(alignment);
    if (size > SIZE_MAX - step)
        return nullptr;
    void *const whole = std::malloc(size + step);
    if (whole == nullptr)
        return nullptr;
    const std::uintptr_t behind = reinterpret_cast<std::uintptr_t>(whole) + step;
    auto *const memory = reinterpret_cast<void **>(behind & ~(step - 1));
    memory[-1] = whole;
    return memory;
}

void *operator new[](std::size_t size, std::align_val_t alignment,
                     const std::nothrow_t &which) noexcept
{
    return ::operator new(size, alignment, which);
}

void operator delete(void *memory, std::align_val_t) noexcept
{
    if (memory != nullptr)
        std::free(static_cast<void **>(memory)[-1]);
}

void operator delete[](void *memory, std::align_val_t alignment) noexcept
{
    ::operator delete(memory, alignment);
}

void operator delete(void *memory, std::size_t, std::align_val_t alignment) noexcept
{
    ::operator delete(memory, alignment);
}

void operator delete[](void *memory, std::size_t, std::align_val_t alignment) noexcept
{
    ::operator delete(memory, alignment);
}

extern "C" {

/// A virtual function was called while its object was being made or destroyed.
[[noreturn]] void __cxa_pure_virtual()
{
    std::abort();
}

/// Ends the process in builds with _GLIBCXX_ASSERTIONS; std calls it by another name.
[[noreturn]] void dapl_assertion_failed(const char *file, int line, const char *function,
                                        const char *condition) noexcept
    __asm__("_ZSt21__glibcxx_assert_failPKciS0_S0_");

void dapl_assertion_failed(const char *file, int line, const char *function,
                           const char *condition) noexcept
{
    std::fprintf(stderr, "%s:%d: %s: %s is false\n", file, line, function, condition);
    std::abort();
}
}

#endif
