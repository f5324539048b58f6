// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "params.hpp"

#include "ia_params.hpp"

#include <cstring>

namespace dapl::soft {

namespace {

constexpr param_option<adapter_params> options[] = {
    {"family", &adapter_params::family, 4, 6},
    {"datagram", &adapter_params::datagram, 512, 65507},
    {"threads", &adapter_params::threads, 1, 16},
    {"spin_us", &adapter_params::spin_us, 0, 1'000'000},
    {"priority", &adapter_params::priority, 0, 20},
    {"connect_retry_ms", &adapter_params::connect_retry_ms},
    {"linger_ms", &adapter_params::linger_ms},
    {"keepalive_ms", &adapter_params::keepalive_ms, 1},
    {"retries", &adapter_params::retries, 1, 100},
    {"checksum", &adapter_params::checksum, 0, 1},
    {"path_mtu", &adapter_params::path_mtu, 0, 1},
    {"direct", &adapter_params::direct, 0, 1},
    {"rings", &adapter_params::rings, 0, 1},
    {"safe_copies", &adapter_params::safe_copies, 0, 1},
    {"tos_high_throughput", &adapter_params::high_throughput, 0, 255},
    {"tos_low_latency", &adapter_params::low_latency, 0, 255},
    {"tos_economy", &adapter_params::economy, 0, 255},
    {"tos_premium", &adapter_params::premium, 0, 255},
    {"loss", &adapter_params::loss, 0, 1000},
    {"reorder", &adapter_params::reorder, 0, 1000},
    {"duplicate", &adapter_params::duplicate, 0, 1000},
    {"corrupt", &adapter_params::corrupt, 0, 1000},
    {"largest", &adapter_params::largest, 0, 65507},
    {"delay_us", &adapter_params::delay_us, 0, 10'000'000},
    {"seed", &adapter_params::seed},
};

constexpr char key_file_is[] = "key_file=";

bool read_key_file(const char *word, adapter_params &params, bool &has_no_name)
{
    const std::size_t before = sizeof key_file_is - 1;
    if (std::strncmp(word, key_file_is, before) != 0)
        return false;
    const std::size_t length = std::strlen(word + before);
    has_no_name = length == 0 || length >= sizeof params.key_file;
    if (!has_no_name)
        std::memcpy(params.key_file, word + before, length + 1);
    return true;
}

} // namespace

status read_params(const char *text, adapter_params &params)
{
    ia_params words(text, "<interface or address> [key=value ...]");
    if (!words.next(params.interface))
        return words.refuse_word("no interface is named");
    bool has_no_name = false;
    const auto is_other = [&](const char *word) {
        std::uint32_t old = 0; // "<device> <port>" of old
        return read_number(word, old) || read_key_file(word, params, has_no_name);
    };
    constexpr std::size_t longest = sizeof key_file_is + sizeof params.key_file;
    const status read = words.read_options<longest>(options, params, is_other, "key_file");
    if (read.ok() && has_no_name)
        return words.refuse("key_file names no file");
    if (read.ok() && params.family == 5)
        return words.refuse("family is 4 or 6");
    return read;
}

} // namespace dapl::soft
