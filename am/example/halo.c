/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Heat in a rod: each rank has a part of it, and one cell of each neighbour beside it. In every step
 * a rank puts its outer cells into the halos of its neighbours, and a barrier separates the steps.
 * At the end every rank sends what heat it has to rank 0, by an active message.
 *
 *   cc -std=c99 halo.c $(pkg-config --cflags --libs dapl-am) -lm -o halo
 *
 *   mpirun -n 4 halo [STEPS]
 */
#include <dapl_am.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELLS 1000 /* of one rank */

/* The segment of a rank: two fields, used in turn, each with a halo cell on both sides. */
struct rod {
    double field[2][CELLS + 2];
};

enum { HEAT = 1 };

static double total;
static int    parts;

static void on_heat(dapl_am_token *token, void *payload, size_t size, int count,
                    const int32_t *args, void *context)
{
    double part;

    (void)token, (void)size, (void)count, (void)args, (void)context;
    memcpy(&part, payload, sizeof part);
    total += part;
    ++parts;
}

static void must(int status)
{
    if (status != DAPL_AM_OK) {
        fprintf(stderr, "halo: %s\n", dapl_am_strerror(status));
        dapl_am_exit(1);
    }
}

static struct rod *rod_of(int rank)
{
    void  *address;
    size_t size;

    must(dapl_am_segment(rank, &address, &size));
    return address;
}

/* The outer cells go to the neighbours; the rod's ends are insulated. */
static void exchange(struct rod *mine, int side)
{
    const int left = dapl_am_rank() - 1, right = dapl_am_rank() + 1;
    double   *field = mine->field[side];

    if (left >= 0)
        must(dapl_am_put_nbi(left, &rod_of(left)->field[side][CELLS + 1], &field[1],
                             sizeof(double)));
    else
        field[0] = field[1];
    if (right < dapl_am_size())
        must(dapl_am_put_nbi(right, &rod_of(right)->field[side][0], &field[CELLS],
                             sizeof(double)));
    else
        field[CELLS + 1] = field[CELLS];
    dapl_am_wait_nbi_puts();
    must(dapl_am_barrier(0, DAPL_AM_ANONYMOUS));
}

int main(int argc, char **argv)
{
    DAPL_AM_HANDLER table[] = {
        {HEAT, DAPL_AM_MEDIUM | DAPL_AM_REQUEST, 0, on_heat, NULL, "heat"}};
    const int   steps = argc > 1 ? atoi(argv[1]) : 200;
    struct rod *mine;
    double      sum = 0;
    int         step, i;

    must(dapl_am_init(NULL));
    must(dapl_am_attach(table, 1, sizeof(struct rod)));
    mine = rod_of(dapl_am_rank());
    if (dapl_am_rank() == 0)
        mine->field[0][1] = 1000; /* hot at one end */
    must(dapl_am_barrier(0, DAPL_AM_ANONYMOUS));

    for (step = 0; step < steps; ++step) {
        const double *now = mine->field[step % 2];
        double       *then = mine->field[(step + 1) % 2];

        exchange(mine, step % 2);
        for (i = 1; i <= CELLS; ++i)
            then[i] = now[i] + 0.25 * (now[i - 1] - 2 * now[i] + now[i + 1]);
    }

    for (i = 1; i <= CELLS; ++i)
        sum += mine->field[steps % 2][i];
    must(dapl_am_request_medium(0, HEAT, &sum, sizeof sum, 0, NULL, 0));
    while (dapl_am_rank() == 0 && parts < dapl_am_size())
        (void)dapl_am_poll();
    if (dapl_am_rank() == 0)
        printf("%d ranks on %s, %d steps: the heat is %.6f\n", dapl_am_size(), dapl_am_adapter(),
               steps, total);
    must(dapl_am_barrier(0, DAPL_AM_ANONYMOUS));
    return fabs(total - 1000) < 1e-6 || dapl_am_rank() != 0 ? 0 : 1;
}
