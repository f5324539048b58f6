/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A program with a heap of its own, of the time before C11: it has no aligned_alloc, so blocks from
 * there are another heap's. No such block may come to its free().
 *
 * own_heap ADAPTER */
#include "life.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

enum { heap_size = 1 << 28, least = 16 };

static char *heap;
static size_t used;
static unsigned foreign;

struct head {
    size_t size;
    size_t unused;
};

static void *take(size_t alignment, size_t size)
{
    const size_t room = size + alignment + sizeof(struct head);
    size_t at;
    char *block;
    if (heap == NULL) { /* runs before there are threads */
        heap = mmap(NULL, heap_size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (heap == MAP_FAILED)
            abort();
    }
    if (size > heap_size ||
        (at = __atomic_fetch_add(&used, room, __ATOMIC_RELAXED)) + room > heap_size)
        return NULL;
    block = heap + at + sizeof(struct head);
    block += -(uintptr_t)block & (alignment - 1);
    ((struct head *)block)[-1].size = size;
    return block;
}

static int is_ours(void *block)
{
    return (char *)block >= heap && (char *)block < heap + heap_size;
}

void *malloc(size_t size)
{
    return take(least, size);
}

void *calloc(size_t count, size_t size)
{
    return size != 0 && count > heap_size / size ? NULL : take(least, count * size); /* zeros */
}

void free(void *block)
{
    if (block != NULL && !is_ours(block))
        __atomic_add_fetch(&foreign, 1, __ATOMIC_RELAXED);
}

void *realloc(void *block, size_t size)
{
    void *other = take(least, size);
    if (block != NULL && !is_ours(block))
        __atomic_add_fetch(&foreign, 1, __ATOMIC_RELAXED);
    else if (block != NULL && other != NULL) {
        const size_t before = ((struct head *)block)[-1].size;
        memcpy(other, block, before < size ? before : size);
    }
    return other;
}

void *memalign(size_t alignment, size_t size)
{
    return take(alignment < least ? least : alignment, size);
}

void *valloc(size_t size)
{
    return take(4096, size);
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
    *block = memalign(alignment, size);
    return *block != NULL ? 0 : ENOMEM;
}

int main(int argc, char **argv)
{
    int i;
    expect(argc == 2, "usage: own_heap ADAPTER");
    for (i = 0; i < 3; ++i)
        live(argv[1], NULL);
    printf("%u blocks of another heap came to free()\n", foreign);
    return foreign != 0;
}
