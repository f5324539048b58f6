// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "host.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

namespace {

void redirect(const std::string &path, int fd)
{
    FILE *stream = std::fopen(path.c_str(), "a");
    dup2(fileno(stream), fd);
    std::fclose(stream);
}

} // namespace

int host::run_child(void (*body)(), const scenario::environment &variables,
                    const std::string &output, const std::string &messages)
{
    const pid_t child = fork();
    if (child == 0) {
        for (const auto &[name, value] : variables)
            setenv(name.c_str(), value.c_str(), 1);
        redirect(output, 1);
        redirect(messages, 2);
        body();
        std::exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

bool scenario::is_mapped(const std::string &part)
{
    std::ifstream maps("/proc/self/maps");
    for (std::string one; std::getline(maps, one);) {
        if (one.find(part) != std::string::npos)
            return true;
    }
    return false;
}
