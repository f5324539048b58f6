// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi_link.hpp"

#include "program/failure.hpp"

#include <cstring>
#include <rdma/fi_errno.h>

namespace bench {

namespace {

constexpr auto api_version = FI_VERSION(1, 11);

fi_owned_info find(const std::string &provider, const std::string &node)
{
    const fi_owned_info hints(fi_allocinfo());
    hints->caps = FI_MSG | FI_RMA;
    const bool inside_host = provider == shared_memory;
    const bool layered = provider.find(';') != std::string::npos;
    hints->addr_format = inside_host ? FI_FORMAT_UNSPEC : FI_SOCKADDR_IN;
    hints->ep_attr->type = layered || inside_host ? FI_EP_RDM : FI_EP_MSG;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    if (layered || inside_host) { // the port without connections asks so
        hints->domain_attr->threading = FI_THREAD_DOMAIN;
        hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS | FI_ORDER_WAW;
    }
    hints->fabric_attr->prov_name = strdup(provider.c_str());
    fi_info *found = nullptr;
    fi_must("fi_getinfo", fi_getinfo(api_version, inside_host ? nullptr : node.c_str(), nullptr,
                                     inside_host ? 0 : FI_SOURCE, hints.get(), &found));
    return fi_owned_info(found);
}

fi_owned<fid_cq> make_cq(fid_domain *domain, std::size_t size, bool waits)
{
    fi_cq_attr attr{};
    attr.size = size;
    attr.format = FI_CQ_FORMAT_MSG;
    attr.wait_obj = waits ? FI_WAIT_FD : FI_WAIT_NONE;
    fid_cq *cq = nullptr;
    fi_must("fi_cq_open", fi_cq_open(domain, &attr, &cq, nullptr));
    return fi_owned<fid_cq>(cq);
}

} // namespace

void fi_must(const char *call, ssize_t result)
{
    if (result < 0)
        throw program::failure(std::string(call) + ": " + fi_strerror(static_cast<int>(-result)));
}

fi_link::fi_link(const std::string &provider, const std::string &node, std::uint32_t max_size)
    : max_size_(max_size), memory_(link_memory(std::size_t{max_size} * 2)),
      info_(find(provider, node))
{
    open_domain();
}

fi_link::~fi_link()
{
    if (ep_ && connects())
        fi_shutdown(ep_.get(), 0);
}

void fi_link::open_domain()
{
    fid_fabric *fabric = nullptr;
    fi_must("fi_fabric", fi_fabric(info_->fabric_attr, &fabric, nullptr));
    fabric_.reset(fabric);
    fi_eq_attr eq_attr{};
    eq_attr.wait_obj = FI_WAIT_UNSPEC;
    fid_eq *eq = nullptr;
    fi_must("fi_eq_open", fi_eq_open(fabric, &eq_attr, &eq, nullptr));
    eq_.reset(eq);
    fid_domain *domain = nullptr;
    fi_must("fi_domain", fi_domain(fabric, info_.get(), &domain, nullptr));
    domain_.reset(domain);
    fid_mr *mr = nullptr;
    constexpr auto access =
        FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    fi_must("fi_mr_reg", fi_mr_reg(domain, memory_.get(), std::size_t{max_size_} * 2, access, 0, 0,
                                   0, &mr, nullptr));
    mr_.reset(mr);
    descriptor_ = fi_mr_desc(mr);
    send_cq_.cq = make_cq(domain, request_depth + 1, waits());
    recv_cq_.cq = make_cq(domain, receive_pool + 1, waits());
}

void fi_link::open_endpoint(fi_info &info)
{
    info.tx_attr->size = request_depth;
    info.rx_attr->size = receive_pool;
    fid_ep *ep = nullptr;
    fi_must("fi_endpoint", fi_endpoint(domain_.get(), &info, &ep, nullptr));
    ep_.reset(ep);
    fi_must("fi_ep_bind", fi_ep_bind(ep, av_ ? &av_->fid : &eq_->fid, 0));
    fi_must("fi_ep_bind", fi_ep_bind(ep, &send_cq_.cq->fid, FI_TRANSMIT | FI_SELECTIVE_COMPLETION));
    fi_must("fi_ep_bind", fi_ep_bind(ep, &recv_cq_.cq->fid, FI_RECV));
    fi_must("fi_enable", fi_enable(ep));
    post_pool();
}

void fi_link::post_pool()
{
    for (int i = 0; i < receive_pool; ++i)
        post_receive();
}

sockaddr_storage fi_link::listen()
{
    fid_pep *pep = nullptr;
    fi_must("fi_passive_ep", fi_passive_ep(fabric_.get(), info_.get(), &pep, nullptr));
    pep_.reset(pep);
    fi_must("fi_pep_bind", fi_pep_bind(pep, &eq_->fid, 0));
    fi_must("fi_listen", fi_listen(pep));
    sockaddr_storage address{};
    std::size_t size = sizeof address;
    fi_must("fi_getname", fi_getname(&pep->fid, &address, &size));
    return address;
}

sockaddr_storage fi_link::open()
{
    fi_av_attr attr{};
    attr.type = FI_AV_TABLE;
    fid_av *av = nullptr;
    fi_must("fi_av_open", fi_av_open(domain_.get(), &attr, &av, nullptr));
    av_.reset(av);
    open_endpoint(*info_);
    sockaddr_storage address{};
    std::size_t size = sizeof address;
    fi_must("fi_getname", fi_getname(&ep_->fid, &address, &size));
    return address;
}

void fi_link::meet(const sockaddr_storage &peer)
{
    fi_addr_t known = FI_ADDR_UNSPEC;
    if (fi_av_insert(av_.get(), &peer, 1, &known, 0, nullptr) != 1 || known != 0)
        throw program::failure("fi_av_insert did not take the peer's address as its first");
}

std::uint32_t fi_link::next_event(patience &p, fi_eq_cm_entry &entry)
{
    p.progress();
    for (;;) {
        std::uint32_t event = 0;
        const ssize_t n = fi_eq_sread(eq_.get(), &event, &entry, sizeof entry, 100, 0);
        if (n >= 0)
            return event;
        if (n == -FI_EAVAIL) {
            fi_eq_err_entry error{};
            fi_eq_readerr(eq_.get(), &error, 0);
            fi_must("connecting", -error.err);
        }
        if (n != -FI_EAGAIN && n != -FI_ETIMEDOUT && n != -FI_EINTR)
            fi_must("fi_eq_sread", n);
        p.slept();
    }
}

void fi_link::await_connected(patience &p)
{
    fi_eq_cm_entry entry{};
    if (next_event(p, entry) != FI_CONNECTED)
        throw program::failure("the libfabric connection was not established");
}

fi_owned_info fi_link::await_request_for_connection(patience &p)
{
    fi_eq_cm_entry entry{};
    if (next_event(p, entry) != FI_CONNREQ)
        throw program::failure("no libfabric connection request came");
    return fi_owned_info(entry.info);
}

void fi_link::accept(patience &p)
{
    const fi_owned_info request = await_request_for_connection(p);
    open_endpoint(*request);
    fi_must("fi_accept", fi_accept(ep_.get(), nullptr, 0));
    await_connected(p);
}

void fi_link::connect(const sockaddr_storage &address, patience &p)
{
    open_endpoint(*info_);
    fi_must("fi_connect", fi_connect(ep_.get(), &address, nullptr, 0));
    await_connected(p);
}

std::pair<std::uint64_t, std::uint64_t> fi_link::memory() const
{
    const bool by_offset = (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) == 0;
    const auto base = by_offset ? 0 : reinterpret_cast<std::uint64_t>(memory_.get());
    return {base + max_size_, fi_mr_key(mr_.get())};
}

void fi_link::fail_completion(fid_cq *cq, ssize_t result)
{
    fi_cq_err_entry error{};
    if (result == -FI_EAVAIL && fi_cq_readerr(cq, &error, 0) == 1)
        throw program::failure(std::string("a libfabric operation failed: ") +
                               fi_strerror(error.err));
    throw program::failure(std::string("fi_cq_read: ") + fi_strerror(static_cast<int>(-result)));
}

} // namespace bench
