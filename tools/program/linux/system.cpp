// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "program/system.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace program {

int process_id()
{
    return ::getpid();
}

int thread_id()
{
    return ::gettid();
}

/// The state stands behind the name in parentheses, which may have any characters.
std::optional<bool> is_asleep(int thread)
{
    std::string stat;
    std::getline(std::ifstream("/proc/self/task/" + std::to_string(thread) + "/stat"), stat);
    const std::size_t name_end = stat.rfind(')');
    return name_end != std::string::npos && stat.compare(name_end, 3, ") S") == 0;
}

namespace {

std::size_t entries_of(const char *folder)
{
    std::size_t count = 0;
    for ([[maybe_unused]] const auto &each : std::filesystem::directory_iterator(folder))
        ++count;
    return count;
}

} // namespace

/// The descriptor of the listing itself is among them.
std::size_t open_descriptors()
{
    return entries_of("/proc/self/fd") - 1;
}

std::size_t threads()
{
    return entries_of("/proc/self/task");
}

std::string own_name()
{
    return program_invocation_short_name;
}

std::string start_again(char **argv)
{
    ::execv("/proc/self/exe", argv);
    return std::strerror(errno);
}

void set_variable(const char *name, const std::string &value)
{
    ::setenv(name, value.c_str(), 1);
}

void unset_variable(const char *name)
{
    ::unsetenv(name);
}

void *find_symbol(const char *name)
{
    return ::dlsym(RTLD_DEFAULT, name);
}

void *load_library(const std::string &path, std::string &why)
{
    void *const loaded = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (loaded == nullptr)
        why = ::dlerror();
    return loaded;
}

void *symbol_in(void *library, const char *name)
{
    return ::dlsym(library, name);
}

std::string file_of(const void *address)
{
    Dl_info where{};
    if (::dladdr(address, &where) == 0 || where.dli_fname == nullptr)
        return "";
    return where.dli_fname;
}

std::size_t terminal_width(std::FILE *out)
{
    winsize size{};
    return ::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool is_terminal(std::FILE *out)
{
    return ::isatty(::fileno(out)) != 0;
}

void open_closed_streams()
{
    int opened;
    do {
        opened = ::open("/dev/null", O_RDWR);
    } while (opened >= 0 && opened <= STDERR_FILENO);
    if (opened >= 0)
        ::close(opened);
}

void write_line_by_line()
{
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
}

int write_obstacle(const std::string &path)
{
    const bool is_folder = std::filesystem::is_directory(path);
    return ::access(path.c_str(), is_folder ? W_OK | X_OK : W_OK) == 0 ? 0 : errno;
}

namespace {

/// The value of the first such line of /proc/cpuinfo, whose labels differ by architecture.
std::string processor_model()
{
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);) {
        const std::size_t colon = line.find(": ");
        if (colon != std::string::npos &&
            (line.starts_with("model name") || line.starts_with("cpu model")))
            return line.substr(colon + 2);
    }
    return "";
}

unsigned usable_processors()
{
    cpu_set_t usable;
    return ::sched_getaffinity(0, sizeof usable, &usable) == 0
               ? static_cast<unsigned>(CPU_COUNT(&usable))
               : 1;
}

} // namespace

machine this_machine()
{
    machine found;
    utsname system{};
    if (::uname(&system) == 0) {
        found.host = system.nodename;
        found.release = system.release;
        found.kernel = std::string(system.sysname) + " " + system.release + " " + system.machine;
    }
    found.processor = processor_model();
    found.processors = usable_processors();
    (void)::getloadavg(&found.load, 1);
    return found;
}

bool is_administrator()
{
    return ::geteuid() == 0;
}

void set_alarm(unsigned seconds, handler called)
{
    if (called != nullptr)
        std::signal(SIGALRM, called);
    ::alarm(seconds);
}

void catch_crashes(handler called)
{
    for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL})
        std::signal(signal, called);
}

void catch_ends(handler called)
{
    for (int signal : {SIGINT, SIGTERM, SIGHUP})
        std::signal(signal, called);
}

} // namespace program
