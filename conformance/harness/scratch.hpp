// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string>

namespace conformance {

/// A temporary folder, which the children take for the system's; removed with the object. Of a run
/// that was killed the next one removes it.
class scratch {
public:
    scratch();
    scratch(const scratch &) = delete;
    scratch &operator=(const scratch &) = delete;
    ~scratch();

private:
    bool make();

    std::string path_;
    int lock_ = -1; ///< held as long as one of our processes lives
    int owner_;
};

} // namespace conformance
