// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A provider of adapters and protection zones only, right in these, and the ways to break it. One
// word in the instance data of dat.conf chooses:
//   crash, hang, exit      in dat_pz_create; a report of 100 lines comes before the exit
//   descriptor, thread     dat_pz_create leaves one behind
//   unsupported            dat_pz_create is MODEL_NOT_SUPPORTED
//   code                   dat_pz_create succeeds where it should refuse
//   once                   the same, the first time in a run of the suite
//   child                  dat_pz_create leaves a process behind, which ignores hangups
//   late_crash             when the process ends, if a zone was ever made
//   open_fails, open_hangs, open_crashes, open_sleeps   dat_ia_open (sleeps: one second)
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dat2/dat_registry.h>
#include <dat2/udat.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define BROKEN_EXPORT __attribute__((visibility("default")))

namespace {

struct object {
    const DAT_PROVIDER *vector; // first: the registry dispatches by it
    object *ia;                 // null: it is an adapter
    DAT_CONTEXT context;
};

DAT_PROVIDER vector;
DAT_PROVIDER_INFO info;
char fault[64];

bool has(const char *word)
{
    return std::strcmp(fault, word) == 0;
}

DAT_RETURN bad_arg(unsigned position)
{
    return DAT_CLASS_ERROR | DAT_INVALID_PARAMETER | (DAT_INVALID_ARG1 + position - 1);
}

object *make(object *ia)
{
    auto *made = static_cast<object *>(std::calloc(1, sizeof(object)));
    made->vector = &vector;
    made->ia = ia;
    return made;
}

/// Keeps the library loaded: faults that happen later must find its code.
void stay_loaded()
{
    Dl_info self{};
    ::dladdr(&vector, &self);
    (void)::dlopen(self.dli_fname, RTLD_NOW | RTLD_NODELETE);
}

[[noreturn]] void sleep_for_good()
{
    for (;;)
        ::pause();
}

[[noreturn]] void *sleeping(void *)
{
    sleep_for_good();
}

void start_thread()
{
    stay_loaded();
    pthread_t thread;
    pthread_create(&thread, nullptr, sleeping, nullptr);
    pthread_setname_np(thread, "forgotten");
}

/// Has much memory, so that its end takes a while.
void start_child()
{
    int ready[2];
    if (::pipe(ready) != 0 || ::fork() != 0) {
        char byte;
        (void)!::read(ready[0], &byte, 1);
        ::close(ready[0]);
        ::close(ready[1]);
        return;
    }
    ::prctl(PR_SET_NAME, "left_behind");
    ::signal(SIGHUP, SIG_IGN);
    (void)::mmap(nullptr, 256u << 20, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    (void)!::write(ready[1], "", 1);
    sleep_for_good();
}

void crash()
{
    ::raise(SIGSEGV);
}

DAT_RETURN ia_open(const DAT_NAME_PTR, DAT_COUNT, DAT_EVD_HANDLE *, DAT_IA_HANDLE *ia)
{
    if (has("open_fails"))
        return DAT_CLASS_ERROR | DAT_INSUFFICIENT_RESOURCES | DAT_RESOURCE_DEVICE;
    if (has("open_hangs"))
        sleep_for_good();
    if (has("open_crashes"))
        crash();
    if (has("open_sleeps"))
        ::sleep(1);
    *ia = make(nullptr);
    return DAT_SUCCESS;
}

DAT_RETURN ia_query(DAT_IA_HANDLE, DAT_EVD_HANDLE *, DAT_IA_ATTR_MASK mask, DAT_IA_ATTR *attr,
                    DAT_PROVIDER_ATTR_MASK provider_mask, DAT_PROVIDER_ATTR *provider)
{
    if (mask != 0)
        std::memset(static_cast<void *>(attr), 0, sizeof *attr);
    if (provider_mask == 0)
        return DAT_SUCCESS;
    std::memset(static_cast<void *>(provider), 0, sizeof *provider);
    std::strcpy(provider->provider_name, info.ia_name);
    provider->dapl_version_major = 2;
    provider->max_private_data_size = 64;
    provider->optimal_buffer_alignment = 1;
    return DAT_SUCCESS;
}

DAT_RETURN ia_close(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS)
{
    std::free(ia);
    return DAT_SUCCESS;
}

/// The folder for temporary files is one for all cases of a run.
bool is_first_time()
{
    char path[4096];
    std::snprintf(path, sizeof path, "%s/once", std::getenv("TMPDIR"));
    return ::mkdir(path, 0700) == 0;
}

DAT_RETURN pz_create(DAT_IA_HANDLE ia, DAT_PZ_HANDLE *pz)
{
    if (pz == nullptr)
        return has("code") || (has("once") && is_first_time()) ? DAT_RETURN{DAT_SUCCESS}
                                                               : bad_arg(2);
    if (has("unsupported"))
        return DAT_CLASS_ERROR | DAT_MODEL_NOT_SUPPORTED;
    if (has("crash"))
        crash();
    if (has("hang"))
        sleep_for_good();
    if (has("exit")) {
        for (int line = 1; line <= 100; ++line)
            std::fprintf(stderr, "line %d of a report\n", line);
        ::_exit(0);
    }
    if (has("descriptor"))
        (void)::open("/dev/null", O_RDONLY);
    if (has("thread"))
        start_thread();
    if (has("child"))
        start_child();
    if (has("late_crash")) {
        stay_loaded();
        std::atexit(crash);
    }
    *pz = make(static_cast<object *>(ia));
    return DAT_SUCCESS;
}

DAT_RETURN pz_query(DAT_PZ_HANDLE pz, DAT_PZ_PARAM_MASK mask, DAT_PZ_PARAM *param)
{
    if ((mask & ~DAT_PZ_FIELD_ALL) != 0)
        return bad_arg(2);
    if (param == nullptr)
        return bad_arg(3);
    return dats_get_ia_handle(static_cast<object *>(pz)->ia, &param->ia_handle);
}

DAT_RETURN pz_free(DAT_PZ_HANDLE pz)
{
    std::free(pz);
    return DAT_SUCCESS;
}

} // namespace

extern "C" BROKEN_EXPORT void dat_provider_init(const DAT_PROVIDER_INFO *mine, const char *instance)
{
    info = *mine;
    std::strncpy(fault, instance, sizeof fault - 1);
    vector.device_name = info.ia_name;
    vector.ia_open_func = ia_open;
    vector.ia_query_func = ia_query;
    vector.ia_close_func = ia_close;
    vector.pz_create_func = pz_create;
    vector.pz_query_func = pz_query;
    vector.pz_free_func = pz_free;
    dat_registry_add_provider(&vector, &info);
}

extern "C" BROKEN_EXPORT void dat_provider_fini(const DAT_PROVIDER_INFO *mine)
{
    dat_registry_remove_provider(&vector, mine);
}
