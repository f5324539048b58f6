/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A program whose standard output is its data: what the registry and the providers have to say must
 * not be in there.
 *
 * data_on_stdout ADAPTER LIBRARY: which lines are to be on standard error */
#include "life.h"

#include <unistd.h>

static int holds(FILE *file, const char *what)
{
    static char text[1 << 16];
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    return strstr(text, what) != NULL;
}

int main(int argc, char **argv)
{
    FILE *data = tmpfile();
    FILE *said = tmpfile();
    const int standard_error = dup(STDERR_FILENO);
    char beginning[64];
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia;

    expect(argc == 3, "usage: data_on_stdout ADAPTER LIBRARY");
    setenv("DAPL_DBG_TYPE", "0xffff", 1);
    setenv("DAT_DBG_TYPE", "0xff", 1);
    expect(dup2(fileno(data), STDOUT_FILENO) >= 0 && dup2(fileno(said), STDERR_FILENO) >= 0,
           "there are descriptors");
    live(argv[1], NULL);
    expect(dat_ia_open((char *)"there is none", 8, &async, &ia) != DAT_SUCCESS,
           "the name is wrong");
    fflush(NULL);
    dup2(standard_error, STDERR_FILENO);

    sprintf(beginning, "%s: ", argv[2]);
    expect(holds(said, beginning), "the provider speaks to standard error");
    expect(holds(said, "libdat2: "), "the registry speaks to standard error");
    expect(!holds(data, ": "), "the data are the program's");
    return 0;
}
