// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// All that cases use.
#pragma once

#include "harness/adapter.hpp"
#include "harness/codes.hpp"
#include "harness/endpoint.hpp"
#include "harness/events.hpp"
#include "harness/expectations.hpp"
#include "harness/helper_thread.hpp"
#include "harness/judge.hpp"
#include "harness/region.hpp"
#include "harness/settings.hpp"
#include "native_socket.hpp"

#include <doctest/doctest.h>

#include <dat2/udat.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>
