// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Shared libraries, environment, files and log destinations.
#pragma once

#include <cstddef>
#include <cstdint>

namespace osd {

/// A shared library opened at run time, from a path or by a name that the system's loader finds.
/// The text of a failure lands in `error`. What the program does about signals stays as it is, here
/// and in library_close, though the library's constructors and destructors may change it.
void *library_open(const char *path, char *error, std::size_t error_size);
void *library_symbol(void *library, const char *name);
void library_close(void *library);
/// Keeps the library that `address` lies in loaded until library_close; null where that fails.
void *library_hold(const void *address);
/// The command that shows why a library does not load on this system.
const char *library_advice();

/// A copy to be released with std::free, or null. Not strdup: the C library may allocate elsewhere
/// than a program that has an allocator of its own.
char *copy_text(const char *text);

/// Whether the program has more rights than its user, as a set-user-ID program has. Nothing that
/// its user chooses is to be used then.
bool is_privileged();

/// The value of an environment variable, to be released with std::free, or null; always null in a
/// set-user-id program.
char *environment(const char *name);
/// Reads a whole text as a number (decimal, 0x…, 0…). False, and no change, for any other text.
[[nodiscard]] bool read_number(const char *text, std::uint64_t &number);
/// A variable of the environment as a number (decimal, 0x…, 0…); `fallback` when unset or not
/// wholly a number.
std::uint64_t environment_number(const char *name, std::uint64_t fallback);

/// The path at which the system's administrator keeps the file `name`. There may be several places:
/// they are numbered from 0, the first to be looked at; false when there are no more.
bool config_path(unsigned choice, const char *name, char *path, std::size_t size);

/// The whole file as a null-terminated buffer to be released with std::free, or null with errno
/// set. Refuses anything that is not a regular file or is larger than `limit` bytes, and with
/// EPERM, in a set-user-id program, what others than root and its owner can write.
char *read_file(const char *path, std::size_t limit, std::size_t *size);

/// The limit that a call ran into which failed with this errno, and what raises it, as the end of a
/// line; empty where it is no limit of the process.
struct limit_text {
    explicit limit_text(int error);
    /// The text of an error of a call that locks memory, as calls do that give memory or queues to
    /// a device.
    static limit_text of_locking(int error);
    char text[160] = "";
};

/// Destinations of log lines; log_syslog is the system's log, whatever its name.
enum log_destination : unsigned { log_stdout = 1, log_syslog = 2, log_stderr = 4 };
/// Writes one line, whole, to each destination in the mask.
void log_line(unsigned destinations, const char *identity, const char *text);

} // namespace osd
