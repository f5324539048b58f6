// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proof.hpp"

#include "osd_siphash.hpp"
#include "report.hpp"

#include <cerrno>
#include <cstring>
#include <sys/random.h>

namespace am {

bool secret::make()
{
    ssize_t got = -1;
    while (!is_made()) {
        got = getrandom(&words, sizeof words, 0);
        if (got != static_cast<ssize_t>(sizeof words) && !(got < 0 && errno == EINTR))
            break;
    }
    if (is_made())
        return true;
    report("getrandom: %s; the job needs a secret",
           got < 0 ? std::strerror(errno) : "too few bytes");
    return false;
}

proof prove(const secret &key, const statement &said)
{
    static_assert(sizeof said == 32);
    return osd::siphash({key.words[0], key.words[1]}).wide(&said, sizeof said);
}

bool is_proof(const secret &key, const statement &said, const proof &given)
{
    const proof right = prove(key, said);
    return ((right[0] ^ given[0]) | (right[1] ^ given[1])) == 0;
}

} // namespace am
