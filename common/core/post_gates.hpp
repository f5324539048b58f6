// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What lets posts through to an endpoint's two queues, or keeps them out.
#pragma once

#include "concurrent_posts.hpp"
#include "object.hpp"
#include "thread_safety.hpp"

namespace dapl::DAPL_TRANSPORT::core {

/// Whether posts of this adapter enter beside others in place of holding a lock.
template <class Safety>
inline constexpr bool posts_concurrently = Safety::locks &&claims.threadsafe_post;

struct post_gate {
    osd::mutex lock;
    concurrent_posts posts;
};

/// The gates of an endpoint lie ahead of it in its slot: they stay when the endpoint is freed.
struct alignas(64) post_gates {
    post_gate sends;
    post_gate recvs;

    /// Keeps all posts out for as long as it lives.
    class exclusion {
    public:
        explicit exclusion(post_gates &gates) OSD_UNCHECKED : gates_(gates)
        {
            for (post_gate *each : {&gates_.sends, &gates_.recvs}) {
                each->lock.lock();
                if constexpr (claims.threadsafe_post)
                    each->posts.close();
            }
        }
        exclusion(const exclusion &) = delete;
        exclusion &operator=(const exclusion &) = delete;
        ~exclusion() OSD_UNCHECKED
        {
            for (post_gate *each : {&gates_.sends, &gates_.recvs}) {
                if constexpr (claims.threadsafe_post)
                    each->posts.reopen();
                each->lock.unlock();
            }
        }

    private:
        post_gates &gates_;
    };
};

inline post_gates &gates_of(object &ep)
{
    return reinterpret_cast<post_gates *>(&ep)[-1];
}

/// The right to post on the slow path, beside other threads if the port allows that. A thread that
/// is kept out waits.
class entered_posts {
public:
    explicit entered_posts(post_gate &gate) : posts_(gate.posts)
    {
        osd::wait_while([this] { return !posts_.try_enter(); });
    }
    entered_posts(const entered_posts &) = delete;
    entered_posts &operator=(const entered_posts &) = delete;
    ~entered_posts() { posts_.leave(); }

private:
    concurrent_posts &posts_;
};
template <class Safety, bool concurrently = posts_concurrently<Safety>>
struct post_turn : entered_posts {
    using entered_posts::entered_posts;
};
template <class Safety>
struct post_turn<Safety, false> : post_guard<Safety> {
    explicit post_turn(post_gate &gate) : post_guard<Safety>(gate.lock) {}
};

} // namespace dapl::DAPL_TRANSPORT::core
