// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// libfabric as a device without connections: one endpoint, one completion queue, one address
// vector.
#include "params.hpp"
#include "port.hpp"
#include "providers.hpp"

#include "dapl_debug.hpp"
#include "errno_status.hpp"
#include "interface_search.hpp"
#include "osd_address.hpp"
#include "osd_descriptor.hpp"
#include "osd_memory.hpp"
#include "osd_system.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/random.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

namespace dapl::libfabric_rdm {

using namespace unconnected;
using ofi::adapter_params;
using ofi::api_version;

namespace {

constexpr std::size_t queue_size = 256; ///< asked of providers whose queues take much memory
constexpr std::uint32_t largest_datagram = 16384 - 256; ///< below the buffers of ofi_rxm
constexpr std::uint32_t receives = 256;
constexpr unsigned batch = 16;
constexpr unsigned most_peers_of_shm = 256; ///< shm gives the place of another to one more

/// An operation of libfabric. Providers keep data in `context` while it is posted.
struct operation {
    fi_context2 context{};
    enum class kind : std::uint8_t { send, access, receive } is{};
    void *cookie = nullptr;
    std::uint8_t *bytes = nullptr; ///< memory of a receive
    operation *next = nullptr;
};

template <class Fid>
void close_fid(Fid *&object, const char *what)
{
    const int error = object != nullptr ? fi_close(&object->fid) : 0;
    if (error != 0)
        dapl_log(DAPL_DBG_TYPE_ERR, "fi_close of the %s failed: %s", what, fi_strerror(-error));
    object = nullptr;
}

/// What libfabric has made for an adapter, and memory that it uses.
struct ofi_objects {
    ofi_objects() = default;
    ofi_objects(const ofi_objects &) = delete;
    ofi_objects &operator=(const ofi_objects &) = delete;
    ~ofi_objects()
    {
        close_fid(endpoint, "endpoint");
        close_fid(receive_region, "region of receives");
        close_fid(completions, "completion queue");
        close_fid(peers, "address vector");
        close_fid(domain, "domain");
        close_fid(fabric, "fabric");
        fi_freeinfo(info);
    }

    fi_info *info = nullptr;
    fid_fabric *fabric = nullptr;
    fid_domain *domain = nullptr;
    fid_av *peers = nullptr;
    fid_cq *completions = nullptr;
    fid_ep *endpoint = nullptr;
    fid_mr *receive_region = nullptr;
    std::unique_ptr<std::uint8_t[], free_memory> receive_memory;
    std::unique_ptr<operation[]> operations;
    bool counted = false; ///< in late_closings
    std::int64_t unused_since_ns = 0;
    ofi_objects *next = nullptr;
};

/// Keeps endpoints of shm for a moment while others are open. shm reaches an endpoint of its own
/// process in the memory of that endpoint, also when that was closed: a peer that takes its last
/// events would end the process.
class late_closings {
public:
    void opened(ofi_objects &objects)
    {
        osd::lock_guard hold(lock_);
        objects.counted = true;
        ++open_;
    }
    void close(std::unique_ptr<ofi_objects> objects)
    {
        const std::int64_t now = osd::now_ns();
        objects->unused_since_ns = now;
        osd::lock_guard hold(lock_);
        objects->next = newest_;
        newest_ = objects.release();
        ofi_objects **place = &newest_;
        if (--open_ != 0)
            while (*place != nullptr && now - (*place)->unused_since_ns < stay_ns)
                place = &(*place)->next;
        while (ofi_objects *const due = *place) {
            *place = due->next;
            delete due;
        }
    }

private:
    static constexpr std::int64_t stay_ns = 2'000'000'000;

    osd::mutex lock_;
    std::uint32_t open_ OSD_GUARDED_BY(lock_) = 0;
    ofi_objects *newest_ OSD_GUARDED_BY(lock_) = nullptr;
};

late_closings closings;

void close_objects(std::unique_ptr<ofi_objects> objects)
{
    if (objects != nullptr && objects->counted)
        closings.close(std::move(objects));
}

bool has_provider(const ofi_objects &objects, const char *name)
{
    return std::strcmp(objects.info->fabric_attr->prov_name, name) == 0;
}

bool is_shm(const ofi_objects &objects)
{
    return has_provider(objects, "shm");
}

/// The operations of sends and accesses.
class operation_pool {
public:
    void open(operation *first, std::uint32_t count)
    {
        first_ = first;
        end_ = first + count;
        for (operation *each = first_; each != end_; ++each)
            give(*each);
    }
    /// Returns null when all operations are in use.
    operation *take(operation::kind is, void *cookie)
    {
        operation *const o = free_;
        if (o == nullptr)
            return nullptr;
        free_ = o->next;
        o->is = is;
        o->cookie = cookie;
        return o;
    }
    void give(operation &o)
    {
        o.cookie = nullptr;
        o.next = free_;
        free_ = &o;
    }
    /// Takes an operation back that has ended, and returns its event for the layer.
    fabric_event end(operation &o, int error)
    {
        fabric_event out;
        out.what =
            o.is == operation::kind::send ? fabric_event::kind::sent : fabric_event::kind::accessed;
        out.error = error;
        out.cookie = o.cookie;
        give(o);
        return out;
    }
    /// Finds the operation in use that has this cookie; null if there is none.
    operation *find(const void *cookie) const
    {
        for (operation *each = first_; each != end_; ++each)
            if (each->cookie == cookie)
                return each;
        return nullptr;
    }

private:
    operation *first_ = nullptr;
    operation *end_ = nullptr;
    operation *free_ = nullptr;
};

/// A result of libfabric as the layer takes it.
int error_of(ssize_t result)
{
    return static_cast<int>(-result);
}

class ofi_fabric final : public fabric {
public:
    explicit ofi_fabric(const adapter_params &params) : params_(params) {}
    ~ofi_fabric() override { close_objects(std::move(own_)); }

    /// Zero or an errno; `step` names the call that failed.
    int open(const sockaddr_storage &address, const char *&step);

    /// What moves the data of long writes and reads.
    const char *accesses_by() const
    {
        if (traits_.accesses)
            return "fi_writemsg, fi_readmsg";
        return params_.accesses == 0
                   ? "datagrams: accesses=0"
                   : "datagrams: the provider has no FI_RMA with FI_DELIVERY_COMPLETE";
    }

    fabric_traits traits() const override { return traits_; }
    int own_name(fabric_name &out) override
    {
        std::size_t size = sizeof out.bytes;
        const int error = fi_getname(&own_->endpoint->fid, out.bytes, &size);
        out.size = static_cast<std::uint32_t>(size);
        return -error;
    }
    int peer_of(const fabric_name &name, fabric_peer &out) override
    {
        fi_addr_t found = FI_ADDR_UNSPEC;
        if (is_shm(*own_) && shm_peers_ == most_peers_of_shm)
            return ENOSPC;
        if (fi_av_insert(own_->peers, name.bytes, 1, &found, 0, nullptr) != 1)
            return EADDRNOTAVAIL;
        shm_peers_ += is_shm(*own_);
        out = found;
        return 0;
    }
    /// shm frees the memory of a peer that it forgets, also where the peer sends to it later.
    bool forget(fabric_peer peer) override
    {
        fi_addr_t address = peer;
        return !is_shm(*own_) && fi_av_remove(own_->peers, &address, 1, 0) == 0;
    }

    int register_memory(void *address, std::uint64_t length, memory_rights rights, void *&handle,
                        fabric_key &key) override;
    void deregister_memory(void *handle) override
    {
        (void)fi_close(&static_cast<fid_mr *>(handle)->fid);
    }
    int send(fabric_peer to, const void *bytes, std::size_t size, void *handle,
             void *cookie) override;
    int access(const fabric_access &what) override;
    void cancel(void *cookie) override;

    bool next(fabric_event &out) override;
    void give_back(void *buffer) override { post_receive(*static_cast<operation *>(buffer)); }

    int descriptor() const override { return descriptor_; }
    bool may_sleep() override
    {
        fid *queues[] = {&own_->completions->fid};
        return found_ == taken_ && unposted_ == nullptr && descriptor_ >= 0 &&
               fi_trywait(own_->fabric, queues, 1) == 0;
    }

private:
    int open_queue();
    int open_endpoint();
    int post_receives();
    void post_receive(operation &);
    void post_kept();
    int send_in_place(fabric_peer to, const void *bytes, std::size_t size, void *handle,
                      void *cookie) OSD_NOINLINE;
    bool read_queue(fabric_event &out) OSD_NOINLINE;
    bool take_error(const fi_cq_err_entry &entry, fabric_event &out);
    bool take(const fi_cq_msg_entry &entry, fabric_event &out);

    const adapter_params params_;
    fabric_traits traits_;
    std::unique_ptr<ofi_objects> own_;
    operation_pool pool_;
    // These are in `own_`, too; each message needs them.
    fid_ep *endpoint_ = nullptr;
    fid_cq *completions_ = nullptr;
    void *receive_descriptor_ = nullptr;
    std::size_t inject_size_ = 0;
    operation *unposted_ = nullptr; ///< receives that the provider did not take
    int descriptor_ = -1;
    unsigned shm_peers_ = 0;
    // Completions that were read, from the next one on.
    const fi_cq_msg_entry *taken_ = entries_;
    const fi_cq_msg_entry *found_ = entries_;
    fi_cq_msg_entry entries_[batch];
};

// ------------------------------------------------------------------------------------------ open

/// Makes a name that no process has had. shm would take the number of the process, which opens
/// nothing where an earlier process with that number was killed.
template <std::size_t size>
void name_for_shm(char (&out)[size])
{
    std::snprintf(out, size, "%ld-%llx", osd::process_id(),
                  static_cast<unsigned long long>(osd::now_ns()));
}

fi_info *query(const adapter_params &params, const sockaddr_storage *address, std::uint64_t order,
               bool accesses)
{
    fi_info *hints = fi_allocinfo();
    if (hints == nullptr)
        return nullptr;
    hints->caps = FI_MSG | (accesses ? FI_RMA : 0);
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = ofi::memory_modes;
    hints->domain_attr->threading = FI_THREAD_DOMAIN; // one lock is held at all calls
    hints->fabric_attr->prov_name = osd::copy_text(params.provider);
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = order;
    hints->tx_attr->op_flags = accesses ? FI_DELIVERY_COMPLETE : 0;
    if (address != nullptr) {
        const auto *from = reinterpret_cast<const sockaddr *>(address);
        hints->addr_format = from->sa_family == AF_INET ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6;
        hints->src_addrlen = osd::address::size_of(from);
        hints->src_addr = std::calloc(1, hints->src_addrlen);
        if (hints->src_addr != nullptr)
            std::memcpy(hints->src_addr, from, hints->src_addrlen);
    }
    fi_info *found = nullptr;
    char name[48];
    const bool is_named = std::strcmp(params.provider, "shm") == 0;
    name_for_shm(name);
    if (fi_getinfo(api_version, is_named ? name : nullptr, nullptr, is_named ? FI_SOURCE : 0, hints,
                   &found) != 0)
        found = nullptr;
    fi_freeinfo(hints);
    return found;
}

/// Asks for as much as the provider may have: an address of this interface, accesses whose end says
/// that the target sees them, and order.
fi_info *find(const adapter_params &params, const sockaddr_storage &address, bool &with_accesses)
{
    const sockaddr_storage *const addresses[] = {&address, nullptr};
    const bool accesses[] = {params.accesses != 0, false};
    const std::uint64_t orders[] = {FI_ORDER_SAS | FI_ORDER_WAW, FI_ORDER_SAS, 0};
    for (const sockaddr_storage *from : addresses)
        for (const bool with : accesses)
            for (const std::uint64_t order : orders)
                if (fi_info *const found = query(params, from, order, with)) {
                    with_accesses = with;
                    return found;
                }
    return nullptr;
}

fabric_traits traits_of(const fi_info &info, bool accesses)
{
    fabric_traits out;
    out.accesses = accesses;
    // What a provider injects it copies at once, which is cheapest where that is enough.
    const std::size_t inject = info.tx_attr->inject_size;
    const std::size_t datagram = inject >= 4096 ? inject : largest_datagram;
    out.max_datagram = static_cast<std::uint32_t>(
        std::min({datagram, info.ep_attr->max_msg_size, std::size_t{largest_datagram}}));
    const std::size_t depth = std::min(info.tx_attr->size, queue_size);
    out.send_depth = static_cast<std::uint32_t>(std::max<std::size_t>(depth / 2, 8));
    out.ordered = (info.tx_attr->msg_order & FI_ORDER_SAS) != 0;
    out.max_access = static_cast<std::uint32_t>(
        std::min<std::size_t>(info.ep_attr->max_msg_size, out.max_access));
    out.writes_in_order = (info.tx_attr->msg_order & FI_ORDER_WAW) != 0 &&
                          info.ep_attr->max_order_waw_size >= out.max_access;
    return out;
}

int ofi_fabric::open_queue()
{
    fi_cq_attr attr{};
    attr.format = FI_CQ_FORMAT_MSG;
    attr.size = 2 * traits_.send_depth + receives;
    attr.wait_obj = FI_WAIT_FD;
    int error = fi_cq_open(own_->domain, &attr, &own_->completions, nullptr);
    if (error == 0 && fi_control(&own_->completions->fid, FI_GETWAIT, &descriptor_) == 0)
        return 0;
    if (error == 0)
        close_fid(own_->completions, "completion queue");
    descriptor_ = -1;
    attr.wait_obj = FI_WAIT_NONE;
    return fi_cq_open(own_->domain, &attr, &own_->completions, nullptr);
}

int ofi_fabric::open_endpoint()
{
    fi_av_attr attr{};
    attr.type = FI_AV_UNSPEC;
    int error = fi_av_open(own_->domain, &attr, &own_->peers, nullptr);
    if (error == 0)
        error = fi_endpoint(own_->domain, own_->info, &own_->endpoint, nullptr);
    if (error == 0)
        error = fi_ep_bind(own_->endpoint, &own_->peers->fid, 0);
    if (error == 0)
        error = fi_ep_bind(own_->endpoint, &own_->completions->fid, FI_TRANSMIT | FI_RECV);
    if (error == 0)
        error = fi_enable(own_->endpoint);
    return error;
}

int ofi_fabric::post_receives()
{
    const std::uint32_t room =
        std::min<std::uint32_t>(receives, static_cast<std::uint32_t>(own_->info->rx_attr->size));
    const std::size_t size = traits_.max_datagram;
    const std::uint32_t sends = 2 * traits_.send_depth;
    own_->receive_memory.reset(static_cast<std::uint8_t *>(std::calloc(room, size)));
    own_->operations.reset(new (std::nothrow) operation[room + sends]);
    if (own_->receive_memory == nullptr || own_->operations == nullptr)
        return -FI_ENOMEM;
    pool_.open(own_->operations.get(), sends);
    void *handle = nullptr;
    fabric_key unused;
    if (const int error = register_memory(own_->receive_memory.get(), room * size,
                                          {true, false, false}, handle, unused);
        error != 0)
        return -error;
    own_->receive_region = static_cast<fid_mr *>(handle);
    endpoint_ = own_->endpoint;
    completions_ = own_->completions;
    receive_descriptor_ = fi_mr_desc(own_->receive_region);
    for (std::uint32_t i = 0; i < room; ++i) {
        operation &each = own_->operations[sends + i];
        each.is = operation::kind::receive;
        each.bytes = own_->receive_memory.get() + i * size;
        post_receive(each);
    }
    return 0;
}

int ofi_fabric::open(const sockaddr_storage &address, const char *&step)
{
    step = "fi_getinfo";
    own_.reset(new (std::nothrow) ofi_objects);
    if (own_ == nullptr)
        return ENOMEM;
    bool accesses = false;
    own_->info = find(params_, address, accesses);
    if (own_->info == nullptr)
        return ENODATA;
    own_->info->tx_attr->size = std::min(own_->info->tx_attr->size, queue_size);
    own_->info->rx_attr->size = std::min(own_->info->rx_attr->size, queue_size);
    // Sends say themselves how they complete.
    own_->info->tx_attr->op_flags = 0;
    traits_ = traits_of(*own_->info, accesses);
    inject_size_ = own_->info->tx_attr->inject_size;
    step = "fi_fabric";
    int error = fi_fabric(own_->info->fabric_attr, &own_->fabric, nullptr);
    if (error == 0) {
        step = "fi_domain";
        error = fi_domain(own_->fabric, own_->info, &own_->domain, nullptr);
    }
    if (error == 0) {
        step = "fi_cq_open";
        error = open_queue();
    }
    if (error == 0) {
        step = "fi_endpoint";
        error = open_endpoint();
    }
    if (error == 0) {
        step = "fi_mr_reg";
        error = post_receives();
    }
    if (error == 0 && is_shm(*own_))
        closings.opened(*own_);
    return -error;
}

// ---------------------------------------------------------------------------------------- memory

/// libfabric's rights; a provider without accesses knows none for them.
std::uint64_t ofi_rights(memory_rights rights, bool accesses)
{
    std::uint64_t out = FI_SEND;
    if (rights.local_write)
        out |= FI_RECV;
    if (!accesses)
        return out;
    out |= FI_WRITE;
    if (rights.local_write)
        out |= FI_READ;
    if (rights.remote_read)
        out |= FI_REMOTE_READ;
    if (rights.remote_write)
        out |= FI_REMOTE_WRITE;
    return out;
}

/// Registers under a random key, at which nobody guesses; providers that choose keys ignore it.
int register_region(const ofi_objects &by, void *address, std::uint64_t length,
                    std::uint64_t rights, fid_mr *&made)
{
    constexpr int tries = 64; // enough to find a key that no other region has
    const std::size_t key_size = std::clamp<std::size_t>(by.info->domain_attr->mr_key_size, 1, 8);
    int error = -FI_ENOKEY;
    for (int i = 0; i < tries && error == -FI_ENOKEY; ++i) {
        std::uint64_t key = 0;
        if (getrandom(&key, key_size, GRND_NONBLOCK) != static_cast<ssize_t>(key_size))
            return -FI_EAGAIN;
        error = fi_mr_reg(by.domain, address, length, rights, 0, key, 0, &made, nullptr);
    }
    return error;
}

int ofi_fabric::register_memory(void *address, std::uint64_t length, memory_rights rights,
                                void *&handle, fabric_key &key)
{
    fid_mr *made = nullptr;
    int error = register_region(*own_, address, length, ofi_rights(rights, traits_.accesses), made);
    if (error != 0)
        return -error;
    const int mode = own_->info->domain_attr->mr_mode;
    if ((mode & FI_MR_ENDPOINT) != 0) {
        error = fi_mr_bind(made, &own_->endpoint->fid, 0);
        if (error == 0)
            error = fi_mr_enable(made);
    }
    const std::uint64_t wide = fi_mr_key(made);
    if (error != 0 || wide == FI_KEY_NOTAVAIL) {
        close_fid(made, "region");
        return error != 0 ? -error : ENOTSUP;
    }
    handle = made;
    key.base = (mode & FI_MR_VIRT_ADDR) != 0 ? reinterpret_cast<std::uintptr_t>(address) : 0;
    key.size = sizeof wide;
    std::memcpy(key.bytes, &wide, sizeof wide);
    return 0;
}

// ------------------------------------------------------------------------------------ operations

int ofi_fabric::send(fabric_peer to, const void *bytes, std::size_t size, void *handle,
                     void *cookie)
{
    if (size > inject_size_)
        return send_in_place(to, bytes, size, handle, cookie);
    const ssize_t result = fi_inject(endpoint_, bytes, size, to);
    return result == 0 ? sent_at_once : error_of(result);
}

/// Sends bytes that the provider reads until the operation ends.
int ofi_fabric::send_in_place(fabric_peer to, const void *bytes, std::size_t size, void *handle,
                              void *cookie)
{
    operation *const o = pool_.take(operation::kind::send, cookie);
    if (o == nullptr)
        return EAGAIN;
    const iovec piece{const_cast<void *>(bytes), size};
    void *descriptor = fi_mr_desc(static_cast<fid_mr *>(handle));
    fi_msg message{};
    message.msg_iov = &piece;
    message.desc = &descriptor;
    message.iov_count = 1;
    message.addr = to;
    message.context = &o->context;
    const ssize_t result = fi_sendmsg(own_->endpoint, &message, FI_COMPLETION);
    if (result != 0)
        pool_.give(*o);
    return error_of(result);
}

int ofi_fabric::access(const fabric_access &what)
{
    operation *const o = pool_.take(operation::kind::access, what.cookie);
    if (o == nullptr)
        return EAGAIN;
    std::uint64_t key = 0;
    std::memcpy(&key, what.key->bytes, sizeof key);
    const iovec here{what.local, what.length};
    const fi_rma_iov there{what.remote, what.length, key};
    void *descriptor = fi_mr_desc(static_cast<fid_mr *>(what.handle));
    fi_msg_rma message{};
    message.msg_iov = &here;
    message.desc = &descriptor;
    message.iov_count = 1;
    message.addr = what.peer;
    message.rma_iov = &there;
    message.rma_iov_count = 1;
    message.context = &o->context;
    const ssize_t result =
        what.writes ? fi_writemsg(own_->endpoint, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE)
                    : fi_readmsg(own_->endpoint, &message, FI_COMPLETION);
    if (result != 0)
        pool_.give(*o);
    return error_of(result);
}

/// Looks for the operation, since few are cancelled. Most providers cancel receives only; opx ends
/// the process where its progress is automatic.
void ofi_fabric::cancel(void *cookie)
{
    if (has_provider(*own_, "opx"))
        return;
    if (operation *const o = pool_.find(cookie))
        (void)fi_cancel(&own_->endpoint->fid, &o->context);
}

/// Posts a receive, or keeps it until the provider takes it.
void ofi_fabric::post_receive(operation &o)
{
    const ssize_t result = fi_recv(endpoint_, o.bytes, traits_.max_datagram, receive_descriptor_,
                                   FI_ADDR_UNSPEC, &o.context);
    if (result == 0)
        return;
    o.next = unposted_;
    unposted_ = &o;
}

// --------------------------------------------------------------------------------------- events

bool ofi_fabric::take(const fi_cq_msg_entry &entry, fabric_event &out)
{
    auto *const o = static_cast<operation *>(entry.op_context);
    if (o == nullptr)
        return false;
    if (o->is != operation::kind::receive) {
        out = pool_.end(*o, 0);
        return true;
    }
    out.what = fabric_event::kind::arrived;
    out.bytes = o->bytes;
    out.size = entry.len;
    out.buffer = o;
    return true;
}

/// False for an error that is of no operation, or of a receive, which is posted again.
bool ofi_fabric::take_error(const fi_cq_err_entry &entry, fabric_event &out)
{
    auto *const o = static_cast<operation *>(entry.op_context);
    if (o == nullptr)
        return false;
    if (o->is == operation::kind::receive) {
        post_receive(*o);
        return false;
    }
    out = pool_.end(*o, entry.err != 0 ? entry.err : EIO);
    return true;
}

bool ofi_fabric::next(fabric_event &out)
{
    while (taken_ != found_)
        if (take(*taken_++, out))
            return true;
    return read_queue(out);
}

/// Posts receives again that the provider did not take.
void ofi_fabric::post_kept()
{
    while (operation *const o = unposted_) {
        unposted_ = o->next;
        post_receive(*o);
        if (unposted_ == o)
            return;
    }
}

/// Takes the next event where none of those that were read is left.
bool ofi_fabric::read_queue(fabric_event &out)
{
    post_kept();
    for (;;) {
        const ssize_t count = fi_cq_read(completions_, entries_, batch);
        if (count == -FI_EAVAIL) {
            fi_cq_err_entry error{};
            if (fi_cq_readerr(completions_, &error, 0) == 1) {
                if (take_error(error, out))
                    return true;
                continue;
            }
        }
        if (count <= 0)
            return false;
        taken_ = entries_;
        found_ = entries_ + count;
        while (taken_ != found_)
            if (take(*taken_++, out))
                return true;
    }
}

// ---------------------------------------------------------------------------------------- opening

status find_source(const fabric_setup &setup, sockaddr_storage &out)
{
    port_support::interface_search search(setup.interface, setup.family);
    if (search.error() != 0)
        return status_of_errno(search.error());
    const bool named = search.kind() != port_support::interface_search::named::other;
    const ifaddrs *const found = named ? search.next() : nullptr;
    if (found != nullptr)
        port_support::copy_address(out, found->ifa_addr);
    return success; // the layer reports an interface without an address
}

status refuse(const adapter_params &params, const char *step, int error)
{
    if (error == ENODATA) {
        dapl_log(DAPL_DBG_TYPE_ERR,
                 "fi_getinfo has no endpoints without connections (FI_EP_RDM) of provider \"%s\"; "
                 "others: %s",
                 params.provider, ofi::other_providers(params.provider).text);
        return status::error(DAT_INVALID_PARAMETER);
    }
    dapl_log(DAPL_DBG_TYPE_ERR, "%s: %s failed: %s%s", params.provider, step, fi_strerror(error),
             osd::limit_text(error).text);
    return status_of_errno(error);
}

} // namespace

} // namespace dapl::libfabric_rdm

namespace dapl::libfabric_rdm::unconnected {

status make_fabric(const char *text, fabric_setup &out)
{
    if (osd::is_privileged()) { // its user names a folder by FI_PROVIDER_PATH
        dapl_log(DAPL_DBG_TYPE_ERR,
                 "not opened: this program has more rights than its user (set-user-ID, "
                 "capabilities), and libfabric loads libraries from folders that the user names");
        return status::error(DAT_INTERNAL_ERROR);
    }
    osd::occupy_standard();
    adapter_params params;
    if (const status read = ofi::read_params(text, params, out); !read.ok())
        return read;
    sockaddr_storage address{};
    if (const status found = find_source(out, address); !found.ok())
        return found;
    std::unique_ptr<ofi_fabric> made(new (std::nothrow) ofi_fabric(params));
    if (made == nullptr)
        return out_of_memory;
    const char *step = "";
    const int error = made->open(address, step);
    if (error != 0)
        return refuse(params, step, error);
    dapl_log(DAPL_DBG_TYPE_UTIL, "FI_EP_RDM of provider %s is used; others: %s", params.provider,
             ofi::other_providers(params.provider).text);
    out.vendor = "libfabric";
    out.named[0] = {"LIBFABRIC_ENDPOINT", "FI_EP_RDM"};
    out.named[1] = {"LIBFABRIC_ACCESSES", made->accesses_by()};
    std::snprintf(out.provider, sizeof out.provider, "%s", params.provider);
    out.device = std::move(made);
    return success;
}

} // namespace dapl::libfabric_rdm::unconnected
