// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Has records in the database of all providers, for the tests of dat-info: a record for each
// "ADAPTER COOKIE LENGTH" among its arguments, until its standard input ends.
#include "tested.hpp"

#include <cstdlib>
#include <vector>

int main(int argc, char **argv)
{
    using namespace test;
    static mrdb database{mrdb::file_of_all, mrdb::places_of_all};
    if (const char *wrong = database.init(); wrong != nullptr) {
        std::fprintf(stderr, "%s\n", wrong);
        return 1;
    }
    std::vector<mrdb::ticket> held;
    for (int i = 1; i + 2 < argc; i += 3) {
        mrdb::ticket made;
        if (!database
                 .insert(name_of(argv[i + 1], argv[i]), std::strtoull(argv[i + 2], nullptr, 10),
                         made)
                 .ok())
            return 1;
        database.update(made);
        held.push_back(made);
    }
    std::puts("held");
    std::fflush(stdout);
    while (std::getchar() != EOF)
        ;
    for (const mrdb::ticket &each : held)
        database.dec(each);
    database.exit();
}
