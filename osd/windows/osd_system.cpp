// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Above this layer text is UTF-8; Windows has UTF-16.
#include "osd_system.hpp"

#include "osd_errno.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <fcntl.h>
#include <io.h>
#include <iterator>
#include <memory>
#include <sys/stat.h>
#include <windows.h>

namespace osd {
namespace {

struct freed {
    void operator()(void *memory) const { std::free(memory); }
};
/// Null when there was no memory.
template <typename Character>
using text = std::unique_ptr<Character[], freed>;

template <typename Character>
text<Character> room_for(std::size_t length)
{
    return text<Character>(static_cast<Character *>(std::calloc(length, sizeof(Character))));
}

text<wchar_t> widened(const char *narrow)
{
    const int length = MultiByteToWideChar(CP_UTF8, 0, narrow, -1, nullptr, 0);
    auto wide = room_for<wchar_t>(static_cast<std::size_t>(length));
    if (wide != nullptr)
        MultiByteToWideChar(CP_UTF8, 0, narrow, -1, wide.get(), length);
    return wide;
}

text<char> narrowed(const wchar_t *wide)
{
    const int length = WideCharToMultiByte(CP_UTF8, 0, wide, -1, nullptr, 0, nullptr, nullptr);
    auto narrow = room_for<char>(static_cast<std::size_t>(length));
    if (narrow != nullptr)
        WideCharToMultiByte(CP_UTF8, 0, wide, -1, narrow.get(), length, nullptr, nullptr);
    return narrow;
}

/// The absolute path, with backslashes: the loader takes no other.
text<wchar_t> whole_path(const wchar_t *path)
{
    const DWORD size = GetFullPathNameW(path, 0, nullptr, nullptr);
    auto whole = room_for<wchar_t>(size);
    if (whole != nullptr)
        GetFullPathNameW(path, size, whole.get(), nullptr);
    return whole;
}

/// Neither the current folder nor PATH is searched: others may have write access to them.
HMODULE load(const wchar_t *name)
{
    if (std::wcspbrk(name, L"/\\:") == nullptr)
        return LoadLibraryExW(name, nullptr, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
    const auto whole = whole_path(name);
    return LoadLibraryExW(whole.get(), nullptr,
                          LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
}

/// What the system says of an error of its own; null when it says nothing.
text<char> system_text(DWORD cause)
{
    wchar_t wide[256] = L"";
    DWORD length = FormatMessageW(
        FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS | FORMAT_MESSAGE_MAX_WIDTH_MASK,
        nullptr, cause, 0, wide, static_cast<DWORD>(std::size(wide)), nullptr);
    while (length != 0 && (wide[length - 1] == L' ' || wide[length - 1] == L'.'))
        wide[--length] = L'\0'; // our text follows
    return length != 0 ? narrowed(wide) : nullptr;
}

void describe(DWORD cause, const char *path, char *error, std::size_t error_size)
{
    const auto reason = system_text(cause);
    std::snprintf(error, error_size, "%s: %s (error %lu)", path,
                  reason != nullptr ? reason.get() : "", cause);
}

} // namespace

void *library_open(const char *path, char *error, std::size_t error_size)
{
    const auto name = widened(path);
    DWORD before = 0;
    SetThreadErrorMode(SEM_FAILCRITICALERRORS, &before); // keeps a file that is no library from
                                                         // opening a window
    HMODULE library = load(name != nullptr ? name.get() : L"");
    const DWORD cause = GetLastError();
    SetThreadErrorMode(before, nullptr);
    if (library == nullptr)
        describe(cause, path, error, error_size);
    return library;
}

void *library_symbol(void *library, const char *name)
{
    return reinterpret_cast<void *>(GetProcAddress(static_cast<HMODULE>(library), name));
}

void library_close(void *library)
{
    FreeLibrary(static_cast<HMODULE>(library));
}

void *library_hold(const void *address)
{
    HMODULE library = nullptr;
    if (!GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS,
                            static_cast<const wchar_t *>(address), &library))
        return nullptr;
    return library;
}

const char *library_advice()
{
    return "what it needs must lie in its folder, the program's or the system's";
}

bool is_privileged()
{
    return false;
}

/// Reads the environment without getenv: the program's C library may be another than ours, with a
/// copy of its own.
char *environment(const char *name)
{
    const auto wide = widened(name);
    const DWORD size = wide != nullptr ? GetEnvironmentVariableW(wide.get(), nullptr, 0) : 0;
    if (size == 0)
        return nullptr;
    const auto value = room_for<wchar_t>(size);
    if (value == nullptr || GetEnvironmentVariableW(wide.get(), value.get(), size) >= size)
        return nullptr;
    return narrowed(value.get()).release();
}

bool config_path(unsigned choice, const char *name, char *path, std::size_t size)
{
    const text<char> folder(choice == 0 ? environment("ProgramData") : nullptr);
    if (folder == nullptr)
        return false;
    const int length = std::snprintf(path, size, "%s\\dapl\\%s", folder.get(), name);
    return static_cast<std::size_t>(length) < size;
}

namespace {

int open_to_read(const wchar_t *path)
{
    const int fd = _wopen(path, _O_RDONLY | _O_BINARY | _O_NOINHERIT);
    const DWORD attributes = fd < 0 ? GetFileAttributesW(path) : 0;
    if (attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0)
        errno = EISDIR; // a better reason than that it is not permitted
    return fd;
}

char *read_all(int fd, std::size_t limit, std::size_t *size)
{
    struct _stat64 info;
    if (_fstat64(fd, &info) != 0)
        return nullptr;
    const bool is_regular = (info.st_mode & _S_IFMT) == _S_IFREG;
    if (!is_regular || static_cast<std::uint64_t>(info.st_size) > limit) {
        errno = is_regular ? EFBIG : EINVAL;
        return nullptr;
    }
    auto all = room_for<char>(static_cast<std::size_t>(info.st_size) + 1);
    if (all == nullptr)
        return nullptr;
    const int got = _read(fd, all.get(), static_cast<unsigned>(info.st_size));
    if (got < 0)
        return nullptr;
    *size = static_cast<std::size_t>(got);
    return all.release();
}

} // namespace

char *read_file(const char *path, std::size_t limit, std::size_t *size)
{
    const auto name = widened(path);
    const int fd = open_to_read(name != nullptr ? name.get() : L"");
    if (fd < 0)
        return nullptr;
    char *all = read_all(fd, limit, size);
    const int cause = errno;
    _close(fd);
    errno = cause;
    return all;
}

void log_line(unsigned destinations, const char *identity, const char *text)
{
    char line[1200]; // written by one call, because the C library does not gather for stderr
    std::snprintf(line, sizeof line, "%s: %s\n", identity, text);
    if ((destinations & log_stdout) != 0) {
        std::fputs(line, stdout);
        std::fflush(stdout);
    }
    if ((destinations & log_syslog) != 0)
        OutputDebugStringA(line);
    if ((destinations & log_stderr) != 0)
        std::fputs(line, stderr);
}

/// The C library knows the numbers of its own alone, which are below those of Winsock.
error_text::error_text(int error)
{
    constexpr int first_of_winsock = 10000;
    const auto told = error >= first_of_winsock ? system_text(static_cast<DWORD>(error)) : nullptr;
    if (told != nullptr)
        std::snprintf(text, sizeof text, "%s (error %d)", told.get(), error);
    else if (error >= first_of_winsock)
        std::snprintf(text, sizeof text, "error %d", error);
    else
        std::snprintf(text, sizeof text, "%s", std::strerror(error));
}

limit_text::limit_text(int) {}

limit_text limit_text::of_locking(int error)
{
    return limit_text(error);
}

} // namespace osd
