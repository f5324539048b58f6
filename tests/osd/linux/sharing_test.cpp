// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "descriptors.hpp"
#include "osd_memory.hpp"
#include "osd_sharing.hpp"
#include "osd_thread.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <pthread.h>
#include <set>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace fs = std::filesystem;
using osd::is_gone;
using osd::process_identity;

namespace {

constexpr std::size_t size = 8192;

/// A name that no other run uses, and its file in the system's folder.
struct fresh_name {
    fresh_name() : name("dapl-osd-test-" + std::to_string(getpid()))
    {
        osd::shared_pages first;
        REQUIRE(first.open(name.c_str(), size) == nullptr);
        first.close();
        for (const auto &each : fs::directory_iterator("/dev/shm"))
            if (each.path().filename().string().rfind(name + ".", 0) == 0)
                file = each.path();
        REQUIRE(!file.empty());
    }
    ~fresh_name()
    {
        std::error_code none;
        for (const fs::path &each : all())
            fs::remove(each, none);
    }
    /// The files under this name, and under names tried after it.
    std::vector<fs::path> all() const
    {
        std::vector<fs::path> found;
        for (const auto &each : fs::directory_iterator("/dev/shm"))
            if (each.path().filename().string().rfind(name + ".", 0) == 0)
                found.push_back(each.path());
        return found;
    }
    std::string name;
    fs::path file;
};

bool opens(const fresh_name &of)
{
    osd::shared_pages pages;
    const bool opened = pages.open(of.name.c_str(), size) == nullptr;
    pages.close();
    return opened;
}

/// A child process that does `work`, tells its identity, and stays until it is killed.
class child {
public:
    template <class Work>
    explicit child(Work work)
    {
        int ends[2];
        REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
        number = fork();
        if (number == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            const process_identity self = osd::this_process();
            (void)!write(ends[1], &self, sizeof self);
            work();
            for (;;)
                pause();
        }
        close(ends[1]);
        REQUIRE(read(ends[0], &identity, sizeof identity) == sizeof identity);
        close(ends[0]);
    }
    ~child()
    {
        kill(number, SIGKILL);
        waitpid(number, nullptr, 0);
    }
    pid_t number;
    process_identity identity;
};

bool becomes_gone(const process_identity &process)
{
    for (int i = 0; i < 2000; ++i) {
        if (is_gone(process))
            return true;
        usleep(5000);
    }
    return false;
}

char state_of(pid_t process)
{
    std::string line;
    std::getline(std::ifstream("/proc/" + std::to_string(process) + "/stat"), line);
    return line[line.rfind(')') + 2];
}

} // namespace

TEST_SUITE_BEGIN("sharing");

TEST_CASE("pages are zeros at first, and the same for all who open them")
{
    const fresh_name of;
    osd::shared_pages one, two;
    REQUIRE(one.open(of.name.c_str(), size) == nullptr);
    REQUIRE(two.open(of.name.c_str(), size) == nullptr);
    auto *bytes = static_cast<char *>(one.address());
    for (std::size_t i = 0; i < size; ++i)
        CHECK(bytes[i] == 0);
    std::strcpy(bytes + 5000, "here");
    CHECK(std::strcmp(static_cast<char *>(two.address()) + 5000, "here") == 0);
    one.close();
    two.close();
    REQUIRE(one.open(of.name.c_str(), size) == nullptr);
    CHECK(std::strcmp(static_cast<char *>(one.address()) + 5000, "here") == 0);
    one.close();
}

TEST_CASE("their file is for the user alone, and has all of its memory")
{
    const fresh_name of;
    struct stat info;
    REQUIRE(lstat(of.file.c_str(), &info) == 0);
    CHECK((info.st_mode & 07777) == 0600);
    CHECK(info.st_uid == geteuid());
    CHECK(info.st_size == static_cast<off_t>(size));
    CHECK(info.st_blocks * 512 >= static_cast<off_t>(size));
}

TEST_CASE("a file whose maker was killed before it had a size gets one")
{
    const fresh_name of;
    REQUIRE(truncate(of.file.c_str(), 0) == 0);
    CHECK(opens(of));
    CHECK(fs::file_size(of.file) == size);
}

TEST_CASE("a process that may make no file so large is told, and opens one that is there")
{
    const fresh_name of;
    rlimit before{};
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit small{size / 2, before.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
    CHECK(opens(of));
    REQUIRE(truncate(of.file.c_str(), 0) == 0);
    CHECK_FALSE(opens(of));
    REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK(opens(of));
}

TEST_CASE("what is no such file of the user's own is refused, and left as it is")
{
    const fresh_name of;
    const fs::path other = of.file.string() + "-other";
    SUBCASE("another size")
    {
        REQUIRE(truncate(of.file.c_str(), size / 2) == 0);
        CHECK_FALSE(opens(of));
        CHECK(fs::file_size(of.file) == size / 2);
    }
    SUBCASE("open to others")
    {
        for (mode_t mode : {0640, 0604, 0620, 0602}) {
            REQUIRE(chmod(of.file.c_str(), mode) == 0);
            CHECK_FALSE(opens(of));
        }
    }
    SUBCASE("another name of a file")
    {
        REQUIRE(truncate(of.file.c_str(), 0) == 0);
        fs::create_hard_link(of.file, other);
        CHECK_FALSE(opens(of));
        CHECK(fs::file_size(other) == 0);
        fs::remove(other);
    }
    SUBCASE("a pipe")
    {
        fs::remove(of.file);
        REQUIRE(mkfifo(of.file.c_str(), 0600) == 0);
        CHECK_FALSE(opens(of));
    }
}

namespace {

/// What another user can do to a name, where there is no file of ours under it.
void take_name(const fs::path &file, int kind)
{
    REQUIRE(unlink(file.c_str()) == 0);
    if (kind == 0)
        REQUIRE(symlink("/dev/shm/dapl-osd-test-nothing", file.c_str()) == 0);
    else if (kind == 1)
        REQUIRE(mkdir(file.c_str(), 0700) == 0);
    else if (kind == 2)
        REQUIRE((close(open(file.c_str(), O_CREAT | O_WRONLY, 0666)) == 0 &&
                 chmod(file.c_str(), 0666) == 0 && chown(file.c_str(), 12345, 12345) == 0));
    else
        REQUIRE((mkfifo(file.c_str(), 0666) == 0 && chown(file.c_str(), 12345, 12345) == 0));
}

} // namespace

TEST_CASE("a name that another user has taken is left alone, and all come to the same other one")
{
    const int kinds = geteuid() == 0 ? 4 : 2; // chown needs a privilege
    for (int kind = 0; kind < kinds; ++kind) {
        CAPTURE(kind);
        const fresh_name of;
        take_name(of.file, kind);
        struct stat taken, after;
        REQUIRE(lstat(of.file.c_str(), &taken) == 0);
        osd::shared_pages one, two, later;
        REQUIRE(one.open(of.name.c_str(), size) == nullptr);
        REQUIRE(two.open(of.name.c_str(), size) == nullptr);
        std::strcpy(static_cast<char *>(one.address()), "here");
        CHECK(std::strcmp(static_cast<char *>(two.address()), "here") == 0);
        REQUIRE(lstat(of.file.c_str(), &after) == 0);
        CHECK(after.st_ino == taken.st_ino);
        CHECK(after.st_size == taken.st_size);

        fs::remove(of.file); // gives the name back: a process that comes now comes to the others
        REQUIRE(later.open(of.name.c_str(), size) == nullptr);
        CHECK(std::strcmp(static_cast<char *>(later.address()), "here") == 0);
        CHECK(of.all().size() == 1);
        for (osd::shared_pages *each : {&one, &two, &later})
            each->close();
    }
    CHECK_FALSE(fs::exists("/dev/shm/dapl-osd-test-nothing")); // no link is followed
}

TEST_CASE("who has taken all names is said to have")
{
    const fresh_name of;
    fs::remove(of.file);
    constexpr int more_than_are_tried = 100;
    for (int i = 0; i < more_than_are_tried; ++i)
        fs::create_directory(of.file.string() + (i == 0 ? "" : "." + std::to_string(i)));
    osd::shared_pages pages;
    const char *const wrong = pages.open(of.name.c_str(), size);
    REQUIRE(wrong != nullptr);
    CHECK(std::strcmp(wrong, "other users have taken all names for the file in /dev/shm") == 0);
}

TEST_CASE("who views pages sees what others write, and makes none")
{
    const fresh_name of;
    osd::shared_pages written, viewed;
    SUBCASE("there are none")
    {
        fs::remove(of.file);
        CHECK(viewed.view(of.name.c_str(), size) == nullptr);
        CHECK(viewed.address() == nullptr);
        CHECK(of.all().empty());
    }
    SUBCASE("they are not filled yet")
    {
        REQUIRE(truncate(of.file.c_str(), 0) == 0);
        CHECK(viewed.view(of.name.c_str(), size) == nullptr);
        CHECK(viewed.address() == nullptr);
        CHECK(fs::file_size(of.file) == 0);
    }
    SUBCASE("there are some")
    {
        REQUIRE(written.open(of.name.c_str(), size) == nullptr);
        REQUIRE(viewed.view(of.name.c_str(), size) == nullptr);
        static_cast<char *>(written.address())[size - 1] = 'x';
        CHECK(static_cast<const char *>(viewed.address())[size - 1] == 'x');
        CHECK(viewed.is_whole());
        REQUIRE(truncate(of.file.c_str(), size / 2) == 0);
        CHECK_FALSE(viewed.is_whole());
        CHECK(viewed.view(of.name.c_str(), size) != nullptr);
    }
    written.close();
    viewed.close();
}

TEST_CASE("pages that were cut off are known to be, removed ones are there")
{
    const fresh_name of;
    osd::shared_pages pages;
    REQUIRE(pages.open(of.name.c_str(), size) == nullptr);
    CHECK(pages.is_whole());
    SUBCASE("cut off")
    {
        REQUIRE(truncate(of.file.c_str(), size / 2) == 0);
        CHECK_FALSE(pages.is_whole());
    }
    SUBCASE("removed")
    {
        fs::remove(of.file);
        CHECK(pages.is_whole());
        std::ofstream(of.file) << "another";
        CHECK(pages.is_whole());
    }
    pages.close();
}

namespace {

const std::string offered_name = "dapl-osd-test-offered";

/// The open file of this process that has offered pages, by its name; -1 if there is none.
int offered_file()
{
    for (const int each : descriptors()) {
        std::error_code none;
        if (fs::read_symlink("/proc/self/fd/" + std::to_string(each), none) ==
            "/memfd:" + offered_name + " (deleted)")
            return each;
    }
    return -1;
}

} // namespace

TEST_CASE("offered pages are zeros at first, and others read by their name what is written")
{
    osd::offered_pages pages;
    REQUIRE(pages.open(offered_name.c_str(), size) == nullptr);
    auto *const bytes = static_cast<char *>(pages.address());
    CHECK(std::string(bytes, size) == std::string(size, '\0'));
    const int file = offered_file();
    REQUIRE(file > STDERR_FILENO);
    CHECK((fcntl(file, F_GETFD) & FD_CLOEXEC) != 0);
    struct stat info;
    REQUIRE(fstat(file, &info) == 0);
    CHECK(info.st_blocks * 512 >= static_cast<off_t>(size));

    bytes[size - 1] = 'x';
    const int reader =
        open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_RDONLY | O_CLOEXEC);
    char read = 0;
    CHECK(pread(reader, &read, 1, size - 1) == 1);
    CHECK(read == 'x');
    close(reader);
    pages.close();
    CHECK(pages.address() == nullptr);
    CHECK(offered_file() == -1);
}

TEST_CASE("offered pages end with their object")
{
    const std::set<int> before = descriptors();
    {
        osd::offered_pages pages;
        REQUIRE(pages.open(offered_name.c_str(), size) == nullptr);
        CHECK(descriptors().size() == before.size() + 1);
    }
    CHECK(descriptors() == before);
}

TEST_CASE("nobody can change the size of offered pages")
{
    osd::offered_pages pages;
    REQUIRE(pages.open(offered_name.c_str(), size) == nullptr);
    const int file = offered_file();
    for (const std::size_t other : {std::size_t{0}, size / 2, 2 * size}) {
        CHECK(ftruncate(file, static_cast<off_t>(other)) != 0);
        CHECK(errno == EPERM);
    }
    CHECK(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE) != 0);
}

TEST_CASE("a process that may make no file so large offers no pages, and goes on")
{
    rlimit before{};
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit small{size / 2, before.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
    osd::offered_pages pages;
    const char *const wrong = pages.open(offered_name.c_str(), size);
    CHECK(offered_file() == -1);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
    REQUIRE(wrong != nullptr);
    CHECK(std::string(wrong) == std::strerror(EFBIG));
    CHECK(pages.address() == nullptr);
}

TEST_CASE("a process is there until it is dead, waited for or not")
{
    CHECK_FALSE(is_gone(osd::this_process()));
    child one([] {});
    CHECK(one.identity.number == static_cast<std::uint32_t>(one.number));
    CHECK(one.identity.start != 0);
    CHECK_FALSE(is_gone(one.identity));
    kill(one.number, SIGSTOP);
    CHECK_FALSE(is_gone(one.identity));
    kill(one.number, SIGKILL);
    CHECK(becomes_gone(one.identity));
    CHECK(state_of(one.number) == 'Z');
    waitpid(one.number, nullptr, 0);
    CHECK(is_gone(one.identity));
}

TEST_CASE("a later process of the same number is another")
{
    child one([] {});
    process_identity earlier = one.identity;
    earlier.start ^= 2;
    CHECK(is_gone(earlier));
    earlier.start = 0; // stands for an unknown start
    CHECK_FALSE(is_gone(earlier));
}

TEST_CASE("a process that becomes another program is gone")
{
    int looked[2]; // a byte says that this process has
    REQUIRE(pipe(looked) == 0);
    child one([&] {
        char byte;
        (void)!read(looked[0], &byte, 1);
        execl("/bin/sleep", "sleep", "1000", nullptr);
    });
    CHECK_FALSE(is_gone(one.identity));
    REQUIRE(write(looked[1], "", 1) == 1);
    CHECK(becomes_gone(one.identity));
    CHECK(kill(one.number, 0) == 0);
    process_identity unknown = one.identity;
    unknown.image = 0;
    CHECK_FALSE(is_gone(unknown));
    close(looked[0]);
    close(looked[1]);
}

TEST_CASE("a process whose first thread has ended is there")
{
    child one([] {
        pthread_t other;
        pthread_create(
            &other, nullptr,
            [](void *) -> void * {
                for (;;)
                    pause();
            },
            nullptr);
        syscall(SYS_exit, 0); // this thread alone
    });
    for (int i = 0; i < 1000 && state_of(one.number) != 'Z'; ++i)
        usleep(5000);
    CHECK(state_of(one.number) == 'Z');
    CHECK_FALSE(is_gone(one.identity));
    kill(one.number, SIGKILL);
    CHECK(becomes_gone(one.identity));
}

TEST_CASE("memory may be shared that is not known to be private")
{
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const auto map = [page](void *at, std::size_t pages, int kind) {
        return static_cast<char *>(mmap(at, pages * page, PROT_READ | PROT_WRITE,
                                        kind | MAP_ANONYMOUS | (at != nullptr ? MAP_FIXED : 0), -1,
                                        0));
    };
    char *at = map(nullptr, 6, MAP_SHARED);
    REQUIRE(at != MAP_FAILED);
    REQUIRE(map(at + 4 * page, 1, MAP_PRIVATE) != MAP_FAILED);
    REQUIRE(map(at + 2 * page, 1, MAP_SHARED) != MAP_FAILED); // another mapping
    CHECK(osd::may_be_shared(at, 4 * page));
    CHECK(osd::may_be_shared(at + 100, 3 * page));
    CHECK_FALSE(osd::may_be_shared(at, 4 * page + 1));
    CHECK_FALSE(osd::may_be_shared(at + 4 * page, 8));
    CHECK(osd::may_be_shared(at + 5 * page, page));
    CHECK_FALSE(osd::may_be_shared(&at, sizeof at));
    munmap(at, 6 * page);
}

TEST_SUITE_END();
