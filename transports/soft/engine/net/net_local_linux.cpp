// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "net_local.hpp"

#include "osd_descriptor.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <linux/futex.h>
#include <memory>
#include <new>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE // older C libraries; the numbers are the kernel's
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

namespace soft_hca {

namespace {

/// The flags of process_vm_readv and process_vm_writev. syscall() is variadic and passes on a whole
/// register: of an int on the stack the upper half would be undefined.
constexpr unsigned long no_flags = 0;

constexpr int fd_of(waitable descriptor)
{
    return static_cast<int>(descriptor);
}

void close_fd(waitable &descriptor)
{
    if (descriptor >= 0)
        (void)syscall(SYS_close, fd_of(descriptor));
    descriptor = -1;
}

constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_GROW;

/// The file system of the memory files that this process creates, as stat(2) has it. Memory files
/// of huge pages are on another file system: when no huge page is left, a reader faults, whatever
/// seals the file has.
std::atomic<std::uint64_t> files_of_memory{0};

} // namespace

// ---------------------------------------------------------------------------------------- memory

bool shared_memory::identify()
{
    struct stat what {};
    if (fstat(fd_of(file_), &what) != 0)
        return false;
    device_ = what.st_dev;
    inode_ = what.st_ino;
    return what.st_size >= 0 && static_cast<std::uint64_t>(what.st_size) >= size_;
}

bool shared_memory::create(std::size_t size)
{
    rlimit limit{};
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < size)
        return false; // ftruncate() would raise SIGXFSZ
    size_ = size;
    file_ = osd::beyond_standard(memfd_create("soft-hca-board", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (file_ < 0 || ftruncate(fd_of(file_), static_cast<off_t>(size)) != 0) {
        close();
        return false;
    }
    void *const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_of(file_), 0);
    if (memory != MAP_FAILED)
        bytes_ = memory;
    // Sealed once we have mapped it: all later mappings are read-only.
    if (bytes_ == nullptr || !identify() ||
        fcntl(fd_of(file_), F_ADD_SEALS, size_seals | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0)
        close();
    files_of_memory.store(device_);
    return is_open();
}

bool shared_memory::map(waitable file, std::size_t size)
{
    size_ = size;
    file_ = file;
    const int seals = fcntl(fd_of(file), F_GET_SEALS);
    if (seals < 0 || (seals & size_seals) != size_seals || !identify() ||
        device_ != files_of_memory.load()) {
        close();
        return false;
    }
    void *const memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd_of(file), 0);
    if (memory != MAP_FAILED)
        bytes_ = memory;
    close_fd(file_);
    return is_open();
}

void shared_memory::close()
{
    if (bytes_ != nullptr)
        munmap(bytes_, size_);
    bytes_ = nullptr;
    close_fd(file_);
}

// ------------------------------------------------------------------------------ other processes

namespace {

/// The credentials of the process that connected, or called listen(), at the other end.
bool credentials_of(waitable socket, ucred &out)
{
    socklen_t size = sizeof out;
    return getsockopt(fd_of(socket), SOL_SOCKET, SO_PEERCRED, &out, &size) == 0;
}

/// Whether a process is in the namespace of this kind that we are in. False if it cannot be told.
bool shares_namespace(int process, const char *kind)
{
    char path[48];
    struct stat ours {};
    struct stat theirs {};
    (void)std::snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
    if (stat(path, &ours) != 0)
        return false;
    (void)std::snprintf(path, sizeof path, "/proc/%d/ns/%s", process, kind);
    return stat(path, &theirs) == 0 && ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

iovec remote_part(std::uint64_t at, std::size_t size)
{
    return {reinterpret_cast<void *>(static_cast<std::uintptr_t>(at)), size};
}

} // namespace

// ---------------------------------------------------------------------------------------- its end

namespace {

/// The kernel clears the owner's id in this word when the owner ends. It is the first of a mutex in
/// the C library of GNU; hold() verifies that.
std::uint32_t owner_word(const std::uint8_t *lock)
{
    return __atomic_load_n(reinterpret_cast<const std::uint32_t *>(lock), __ATOMIC_ACQUIRE);
}

bool make_robust(pthread_mutex_t &lock)
{
    pthread_mutexattr_t how;
    if (pthread_mutexattr_init(&how) != 0)
        return false;
    const bool made = pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED) == 0 &&
                      pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST) == 0 &&
                      pthread_mutex_init(&lock, &how) == 0;
    pthread_mutexattr_destroy(&how);
    return made;
}

} // namespace

bool life_mark::hold()
{
    static_assert(sizeof(pthread_mutex_t) <= sizeof lock_);
    auto &lock = *reinterpret_cast<pthread_mutex_t *>(lock_);
    if (!make_robust(lock) || pthread_mutex_lock(&lock) != 0)
        return false;
    const auto own = static_cast<std::uint32_t>(syscall(SYS_gettid));
    if ((owner_word(lock_) & FUTEX_TID_MASK) != own) {
        pthread_mutex_unlock(&lock);
        return false;
    }
    shown_.store(1, std::memory_order_release);
    return true;
}

bool life_mark::is_held() const
{
    return shown_.load(std::memory_order_acquire) == 1 && (owner_word(lock_) & FUTEX_TID_MASK) != 0;
}

// ------------------------------------------------------------------------------- other processes

local_obstacle local_process::obstacle_to(waitable socket)
{
    ucred peer{};
    if (!credentials_of(socket, peer))
        return local_obstacle::no_calls;
    if (peer.uid != geteuid())
        return local_obstacle::other_user;
    const bool is_seen =
        peer.pid > 0 && shares_namespace(peer.pid, "pid") && shares_namespace(peer.pid, "user");
    return is_seen ? local_obstacle::none : local_obstacle::other_pids;
}

local_obstacle local_process::open(waitable socket, const process_mark &mark)
{
    ucred peer{};
    if (!credentials_of(socket, peer))
        return local_obstacle::no_calls;
    id_ = peer.pid;
    mark_ = mark;
    return obstacle_to(socket);
}

/// A process that has the id but not the mark is another one, which reuses the id, or has executed
/// another program. The socket does not show that, since children may hold it open.
local_process::presence local_process::look() const
{
    std::uint8_t found[sizeof mark_.bytes];
    const iovec here{found, sizeof found};
    const iovec there = remote_part(mark_.at, sizeof found);
    const long size = syscall(SYS_process_vm_readv, id_, &here, 1, &there, 1, no_flags);
    if (size < 0 && errno != ESRCH && errno != EFAULT)
        return presence::hidden;
    const bool same = size == sizeof found && std::memcmp(found, mark_.bytes, sizeof found) == 0;
    return same ? presence::proven : presence::gone;
}

namespace {

constexpr std::uint32_t max_local_pieces = 8;
constexpr long forbidden = local_process::interrupted - 1;
#ifdef __x86_64__
constexpr bool copies_in_order = true;
#else
constexpr bool copies_in_order = false;
#endif

std::uint32_t list_pieces(iovec *to, const bytes_view *pieces, std::uint32_t count)
{
    const std::uint32_t some = count < max_local_pieces ? count : max_local_pieces;
    for (std::uint32_t i = 0; i < some; ++i)
        to[i] = {const_cast<void *>(pieces[i].at), pieces[i].size};
    return some;
}

/// Makes the last byte of the pieces a piece of its own, behind the others. Their number is at most
/// max_local_pieces before.
void part_last(iovec *pieces, std::uint32_t &count)
{
    iovec &last = pieces[count - 1];
    auto *const at = static_cast<char *>(last.iov_base) + --last.iov_len;
    if (last.iov_len == 0)
        --count;
    pieces[count++] = {at, 1};
}

bool stands(const local_guard &guard)
{
    return guard.word == nullptr || guard.word->load(std::memory_order_acquire) == guard.value;
}

/// The arguments of process_vm_readv and process_vm_writev.
struct copy_call {
    long number;
    long process;
    const iovec *here;
    std::uint32_t pieces;
    const iovec *there;
    std::uint32_t parts;
};

long copy_unguarded(const copy_call &c, const local_guard &guard)
{
    if (!stands(guard))
        return -ECANCELED;
    const long done = syscall(c.number, c.process, c.here, c.pieces, c.there, c.parts, no_flags);
    return done < 0 ? -errno : done;
}

#if defined __x86_64__ && defined __LP64__

extern "C" [[gnu::weak]] const std::ptrdiff_t __rseq_offset; // counted from the thread pointer
extern "C" [[gnu::weak]] const unsigned int __rseq_size;     // 0: the kernel has none

bool has_restartable_sequences()
{
    return &__rseq_offset != nullptr && &__rseq_size != nullptr && __rseq_size != 0;
}

/// A restartable sequence from label 1 to label 2, behind the system call instruction: a thread
/// that is preempted or gets a signal in between continues at label 4, and does not copy. The
/// kernel does not abort a thread that has entered the call: it returns to label 2.
long copy_guarded(const copy_call &c, const local_guard &guard)
{
    constexpr long offset_of_current = 8; // offset in struct rseq
    const std::ptrdiff_t current = __rseq_offset + offset_of_current;
    long result = c.number;
    // r10, r8 and r9 are loaded by the assembler code: a sanitizer could insert a function call
    // between loads in C++ and the system call.
    asm volatile(".pushsection __rseq_cs, \"aw\"\n\t"
                 ".balign 32\n"
                 "3:\t.long 0, 0\n\t"
                 ".quad 1f, 2f - 1f, 4f\n\t"
                 ".popsection\n\t"
                 "movq %[there], %%r10\n\t"
                 "movq %[parts], %%r8\n\t"
                 "xorl %%r9d, %%r9d\n\t"
                 "leaq 3b(%%rip), %%r11\n\t"
                 "movq %%r11, %%fs:(%[current])\n"
                 "1:\tcmpq %[value], (%[word])\n\t"
                 "jne 5f\n\t"
                 "syscall\n"
                 "2:\tmovq $0, %%fs:(%[current])\n\t"
                 "jmp 6f\n\t"
                 ".byte 0x0f, 0xb9, 0x3d\n\t" // the signature, as an invalid instruction
                 ".long 0x53053053\n"
                 "4:\n"
                 "5:\tmovq $0, %%fs:(%[current])\n\t"
                 "movq %[canceled], %%rax\n"
                 "6:\n"
                 : "+a"(result)
                 : [current] "r"(current), [value] "r"(guard.value), [word] "r"(guard.word),
                   [there] "rm"(c.there), [parts] "rm"(static_cast<long>(c.parts)),
                   [canceled] "i"(-ECANCELED), "D"(c.process), "S"(c.here),
                   "d"(static_cast<long>(c.pieces))
                 : "rcx", "r8", "r9", "r10", "r11", "memory", "cc");
    return result;
}

#else

bool has_restartable_sequences()
{
    return false;
}

long copy_guarded(const copy_call &c, const local_guard &guard)
{
    return copy_unguarded(c, guard);
}

#endif

long copy(const copy_call &c, const local_guard &guard)
{
    const long done = guard.word != nullptr && has_restartable_sequences()
                          ? copy_guarded(c, guard)
                          : copy_unguarded(c, guard);
    if (done >= 0 || done == -EFAULT)
        return done < 0 ? 0 : done;
    return done == -ECANCELED ? local_process::interrupted : forbidden;
}

} // namespace

namespace {

bool copies_work()
{
    std::uint64_t from = 1;
    std::uint64_t to = 0;
    const iovec a{&to, sizeof to};
    const iovec b{&from, sizeof from};
    const bool reads = syscall(SYS_process_vm_readv, getpid(), &a, 1, &b, 1, no_flags) == sizeof to;
    from = 2;
    const bool writes =
        syscall(SYS_process_vm_writev, getpid(), &b, 1, &a, 1, no_flags) == sizeof to;
    return reads && writes && to == 2;
}

/// Tries the calls for sockets that only direct access makes.
void try_sockets()
{
    const waitable listener = local_socket::listen({});
    (void)local_socket::accept(listener);
    (void)local_socket::connect({});
    (void)local_socket::send(listener, nullptr, 0);
    (void)shares_namespace(getpid(), "pid");
}

/// Whether this thread has a seccomp filter. Read from /proc: the filter may kill for prctl(2).
bool is_filtered()
{
    constexpr std::size_t longest = 4096;
    const std::unique_ptr<char[]> text(new (std::nothrow) char[longest]());
    if (text == nullptr)
        return true;
    waitable file = syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
    if (file >= 0)
        (void)syscall(SYS_read, fd_of(file), text.get(), longest - 1);
    close_fd(file);
    return std::strstr(text.get(), "\nSeccomp:\t0\n") == nullptr;
}

/// Whether the calls work in a child process. The child raises no signal at its end, so that no
/// wait() of the program returns it; it has one thread, and makes system calls only.
bool work_in_a_child()
{
    constexpr unsigned long no_signal = 0;
    const long child = syscall(SYS_clone, no_signal, 0, 0, 0, 0);
    if (child == 0) {
        (void)prctl(PR_SET_DUMPABLE, 0); // leaves no core
        try_sockets();
        syscall(SYS_exit_group, copies_work() ? 0 : 1);
    }
    int status = 1;
    while (child > 0 && syscall(SYS_wait4, child, &status, __WALL, nullptr) < 0 && errno == EINTR) {
    }
    return child > 0 && status == 0;
}

} // namespace

bool local_process::exists()
{
    return is_filtered() ? work_in_a_child() : copies_work();
}

std::ptrdiff_t local_process::fetch(const bytes_view *from, std::uint32_t from_count,
                                    const bytes_view *to, std::uint32_t to_count,
                                    const local_guard &guard) const
{
    iovec here[max_local_pieces];
    iovec there[max_local_pieces];
    const std::uint32_t pieces = list_pieces(here, to, to_count);
    const std::uint32_t parts = list_pieces(there, from, from_count);
    return copy({SYS_process_vm_readv, id_, here, pieces, there, parts}, guard);
}

std::ptrdiff_t local_process::fetch_proven(const bytes_view *from, std::uint32_t from_count,
                                           const bytes_view *to, std::uint32_t to_count,
                                           const local_guard &guard) const
{
    std::uint8_t found[sizeof mark_.bytes] = {};
    constexpr std::ptrdiff_t mark_size = sizeof found;
    iovec here[1 + max_local_pieces] = {{found, sizeof found}};
    iovec there[1 + max_local_pieces] = {remote_part(mark_.at, sizeof found)};
    const std::uint32_t pieces = 1 + list_pieces(here + 1, to, to_count);
    const std::uint32_t parts = 1 + list_pieces(there + 1, from, from_count);
    const long done = copy({SYS_process_vm_readv, id_, here, pieces, there, parts}, guard);
    if (done < 0)
        return done;
    const bool same = done >= mark_size && std::memcmp(found, mark_.bytes, sizeof found) == 0;
    return same ? done - mark_size : 0;
}

/// The kernel copies the pieces in order, by a copy each: the last byte is a piece of its own. A
/// part of its own in the other process would cost a look at that process's pages.
std::ptrdiff_t local_process::write(std::uint64_t to, const bytes_view *pieces, std::uint32_t count,
                                    std::size_t size, const local_guard &guard) const
{
    iovec here[max_local_pieces + 1];
    std::uint32_t some = list_pieces(here, pieces, count);
    part_last(here, some);
    const iovec there[] = {remote_part(to, size - 1), remote_part(to + size - 1, 1)};
    const iovec all = remote_part(to, size);
    if (copies_in_order || size == 1)
        return copy({SYS_process_vm_writev, id_, here, some, &all, 1}, guard);
    const long most = copy({SYS_process_vm_writev, id_, here, some - 1, &there[0], 1}, guard);
    if (most != static_cast<long>(size - 1))
        return most;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const long rest = copy({SYS_process_vm_writev, id_, &here[some - 1], 1, &there[1], 1}, guard);
    return rest < 0 ? rest : most + rest;
}

// --------------------------------------------------------------------------------------- sockets

namespace {

/// Makes a name in the abstract namespace: it belongs to the network namespace, as ports do, and is
/// free again when the socket is closed.
socklen_t make_name(sockaddr_un &out, const net_address &of)
{
    std::uint8_t host[16] = {};
    of.copy_host(host);
    out.sun_family = AF_UNIX;
    char *const text = out.sun_path + 1; // the name begins behind the zero that makes it abstract
    int size = std::snprintf(text, sizeof out.sun_path - 1, "soft-hca/%u/", of.port());
    for (const std::uint8_t byte : host)
        size += std::snprintf(text + size, 3, "%02x", byte);
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                  static_cast<std::size_t>(size));
}

/// A direct system call, as are all calls for these sockets: if ThreadSanitizer saw socket() but no
/// close(), it would take the next socket with that descriptor for this socket.
waitable new_socket()
{
    return osd::beyond_standard(static_cast<int>(
        syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
}

constexpr std::size_t most_files = 2;

struct some_files {
    alignas(cmsghdr) char bytes[CMSG_SPACE(most_files * sizeof(int))] = {};
};

/// The first two files of a message; closes all others.
void find_files(msghdr &m, waitable &first, waitable &second)
{
    first = second = -1;
    for (cmsghdr *c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int file = -1;
            std::memcpy(&file, CMSG_DATA(c) + i * sizeof file, sizeof file);
            waitable each = file;
            if (first < 0)
                first = each;
            else if (second < 0)
                second = each;
            else
                close_fd(each);
        }
    }
}

} // namespace

waitable local_socket::listen(const net_address &name)
{
    constexpr int backlog = 1024;
    sockaddr_un at{};
    const socklen_t size = make_name(at, name);
    waitable made = new_socket();
    (void)permit_files(made, false);
    if (made >= 0 && (bind(fd_of(made), reinterpret_cast<sockaddr *>(&at), size) != 0 ||
                      ::listen(fd_of(made), backlog) != 0))
        close_fd(made);
    return made;
}

waitable local_socket::connect(const net_address &name, local_obstacle &why)
{
    sockaddr_un at{};
    const socklen_t size = make_name(at, name);
    waitable made = new_socket();
    (void)permit_files(made, false);
    why = local_obstacle::no_answer;
    if (made >= 0 && syscall(SYS_connect, fd_of(made), &at, size) == 0)
        why = local_process::obstacle_to(made); // anybody can bind the name
    if (why != local_obstacle::none)
        close_fd(made);
    return made;
}

waitable local_socket::accept(waitable listener)
{
    waitable made = osd::beyond_standard(static_cast<int>(
        syscall(SYS_accept4, fd_of(listener), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)));
    if (made < 0)
        return errno == EMFILE || errno == ENFILE ? no_descriptor : none;
    return made;
}

void local_socket::shut(waitable listener)
{
    (void)shutdown(fd_of(listener), SHUT_RDWR);
}

bool local_socket::permit_files(waitable socket, bool permitted)
{
    const int value = permitted ? 1 : 0;
    return syscall(SYS_setsockopt, fd_of(socket), SOL_SOCKET, SO_PASSRIGHTS, &value,
                   sizeof value) == 0;
}

void local_socket::close(waitable socket)
{
    close_fd(socket);
}

bool local_socket::is_connected(waitable socket)
{
    pollfd watched{fd_of(socket), POLLRDHUP, 0};
    const timespec now{};
    return syscall(SYS_ppoll, &watched, 1, &now, nullptr, 0) == 0;
}

bool local_socket::send(waitable socket, const void *message, std::size_t size)
{
    return syscall(SYS_sendto, fd_of(socket), message, size, MSG_NOSIGNAL | MSG_DONTWAIT, nullptr,
                   0) == static_cast<long>(size);
}

bool local_socket::send(waitable socket, const void *message, std::size_t size, waitable file,
                        waitable another)
{
    const int numbers[most_files] = {fd_of(file), fd_of(another)};
    const std::size_t bytes = (another < 0 ? 1 : 2) * sizeof(int);
    iovec piece{const_cast<void *>(message), size};
    some_files control;
    msghdr m{};
    m.msg_iov = &piece;
    m.msg_iovlen = 1;
    m.msg_control = control.bytes;
    m.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr *head = CMSG_FIRSTHDR(&m);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(head), numbers, bytes);
    return syscall(SYS_sendmsg, fd_of(socket), &m, MSG_NOSIGNAL | MSG_DONTWAIT) ==
           static_cast<long>(size);
}

std::ptrdiff_t local_socket::receive(waitable socket, void *message, std::size_t size)
{
    iovec piece{message, size};
    msghdr m{};
    m.msg_iov = &piece;
    m.msg_iovlen = 1;
    const long got = syscall(SYS_recvmsg, fd_of(socket), &m, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN ? -1 : 0;
    return (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ? 0 : got;
}

std::ptrdiff_t local_socket::receive(waitable socket, void *message, std::size_t size,
                                     waitable &file, waitable &another)
{
    iovec piece{message, size};
    some_files control;
    msghdr m{};
    m.msg_iov = &piece;
    m.msg_iovlen = 1;
    m.msg_control = control.bytes;
    m.msg_controllen = sizeof control.bytes;
    file = another = -1;
    const long got = syscall(SYS_recvmsg, fd_of(socket), &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0)
        return errno == EAGAIN ? -1 : 0;
    find_files(m, file, another);
    const bool cut = (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
    if (cut) {
        close_fd(file);
        close_fd(another);
    }
    return cut ? 0 : got;
}

} // namespace soft_hca
