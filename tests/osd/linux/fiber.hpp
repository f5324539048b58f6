// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Fiber: a thread of execution that runs when another one switches to it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <ucontext.h>
#include <utility>

class fiber {
public:
    fiber() = default;
    fiber(const fiber &) = delete;
    fiber &operator=(const fiber &) = delete;

    /// Runs the body when it is switched to. The body never returns: at its end it switches to
    /// another fiber.
    void start(std::function<void()> body)
    {
        body_ = std::move(body);
        if (stack_ == nullptr)
            stack_.reset(new std::byte[stack_size]);
        getcontext(&context_);
        context_.uc_stack.ss_sp = stack_.get();
        context_.uc_stack.ss_size = stack_size;
        makecontext(&context_, &enter, 0);
    }
    /// The caller goes on when another fiber switches to this one.
    void switch_to(fiber &next)
    {
        running = &next;
        swapcontext(&context_, &next.context_);
    }

private:
    static constexpr std::size_t stack_size = 256 * 1024;
    static inline fiber *running = nullptr;
    static void enter() { running->body_(); }

    ucontext_t context_{};
    std::unique_ptr<std::byte[]> stack_;
    std::function<void()> body_;
};
