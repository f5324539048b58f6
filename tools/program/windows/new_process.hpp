// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Processes of Windows, which has no fork: a program starts itself again, and the new process
// inherits the handles that it is told of.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <winsock2.h>

#include <windows.h>

namespace program {

std::wstring widened(const std::string &text);
std::string narrowed(const std::wstring &text);
/// What the system says of an error, and its number.
std::string system_text(DWORD error);
/// "what: why", of the call that has just failed.
std::string last_error(const std::string &what);
std::string own_path();
/// A command line that the C library of the new process takes apart into these arguments.
std::wstring command_line_of(const std::vector<std::string> &arguments);

/// The exit status of a process that new_process::kill() has ended.
inline constexpr unsigned killed_status = 0x4b494c4c;

/// A handle that is closed with its owner.
class owned_handle {
public:
    explicit owned_handle(HANDLE handle = nullptr) : handle_(handle) {}
    owned_handle(owned_handle &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    owned_handle &operator=(owned_handle &&other) noexcept
    {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~owned_handle() { close(); }

    HANDLE get() const { return handle_; }
    explicit operator bool() const { return handle_ != nullptr; }
    void close()
    {
        if (handle_ != nullptr)
            CloseHandle(handle_);
        handle_ = nullptr;
    }

private:
    HANDLE handle_;
};

/// A process and its descendants: they all end with the owner of this object.
class new_process {
public:
    struct streams {
        HANDLE input = nullptr;
        HANDLE output = nullptr; ///< for errors, too
    };

    /// Starts this program with a command line. The process inherits the handles of `inherited`,
    /// and the streams if there are any. Returns nothing, or why it was not started.
    std::string start(const std::wstring &command_line, std::vector<HANDLE> inherited,
                      const streams &given);
    std::string start(const std::wstring &command_line, std::vector<HANDLE> inherited)
    {
        return start(command_line, std::move(inherited), {});
    }
    HANDLE process() const { return process_.get(); }
    /// Ends the process and its descendants.
    void kill();

private:
    owned_handle process_;
    owned_handle job_;
};

} // namespace program
