// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// What programs ask of the operating system; linux/ and windows/ have a file for it each.
// The questions of libraries are in osd/.
#pragma once

#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>

namespace program {

int process_id();
/// The system's number of the calling thread.
int thread_id();
/// Whether a thread of this process sleeps in the kernel; nothing where the system does not tell.
std::optional<bool> is_asleep(int thread);
/// Descriptors or handles that the process has open.
std::size_t open_descriptors();
/// Threads of the process. One that was joined may be among them for a moment.
std::size_t threads();
/// Name of the running program, without its folder.
std::string own_name();
/// Starts the program again in its place, with other variables. Returns the error as text.
std::string start_again(char **argv);
void set_variable(const char *name, const std::string &value);
void unset_variable(const char *name);

/// Value of a symbol in any library of the process; null if there is none.
void *find_symbol(const char *name);
/// Loads a library. Null, and why, where that fails.
void *load_library(const std::string &path, std::string &why);
void *symbol_in(void *library, const char *name);
/// The file that the code at this address comes from; empty if the loader cannot say.
std::string file_of(const void *address);

/// Columns of the terminal that is written to; 0 if it is none.
std::size_t terminal_width(std::FILE *out);
bool is_terminal(std::FILE *out);
/// Opens the null device in place of standard streams that are closed.
void open_closed_streams();
/// Lets readers of standard output have each line when it is complete.
void write_line_by_line();
/// 0, or the errno by which a file or folder cannot be written.
int write_obstacle(const std::string &path);

struct machine {
    std::string host;
    std::string kernel;      ///< "Linux 6.1.0-31-amd64 x86_64"
    std::string release;     ///< "6.1.0-31-amd64"
    std::string processor;   ///< model; empty where the system does not tell
    unsigned processors = 1; ///< number that this process may use
    double load = 0;         ///< processes that wanted a processor, in the last minute
};
machine this_machine();
/// Whether the process may start others as other users.
bool is_administrator();

using handler = void (*)(int);
/// Calls the handler when so many seconds have passed; 0 takes it back.
void set_alarm(unsigned seconds, handler called = nullptr);
/// Calls the handler when the process crashes. The handler is async-signal-safe.
void catch_crashes(handler called);
/// Calls the handler when the user or the system wants the program to end.
void catch_ends(handler called);

} // namespace program
