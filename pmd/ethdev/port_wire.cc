#include "pmd/ethdev/port_wire.h"

#include <rte_ethdev.h>

#include <algorithm>
#include <cstring>

#include "pmd/card/wires/frame_ring.h"

namespace mqnic::ethdev {

namespace {

constexpr uint16_t kDescriptors = 512;
constexpr unsigned kMbufs = 2047;
constexpr uint64_t kLinkIntervalNs = 10'000'000;

std::string text(const char* what, int rc) { return std::string(what) + ": " + strerror(-rc); }

}  // namespace

std::unique_ptr<PortWire> PortWire::open(const std::string& port_name, std::string& error) {
  std::unique_ptr<PortWire> wire(new PortWire());
  error = wire->start(port_name);
  if (!error.empty()) return nullptr;
  return wire;
}

std::string PortWire::start(const std::string& port_name) {
  uint16_t port = 0;
  if (rte_eth_dev_get_port_by_name(port_name.c_str(), &port) != 0) {
    return "there is no DPDK port '" + port_name + "'; give its --vdev or -a before this one";
  }
  rte_eth_dev_owner owner{};
  int rc = rte_eth_dev_owner_new(&owner.id);
  snprintf(owner.name, sizeof(owner.name), "net_mqnic wire");
  if (rc == 0) rc = rte_eth_dev_owner_set(port, &owner);
  if (rc != 0) return text("the port belongs to somebody else", rc);
  port_ = port;
  owner_ = owner.id;
  joined_.resize(card::kFrameBytesMax);
  const std::string pool_name = "mqnic_wire_" + std::to_string(port);
  pool_ = rte_pktmbuf_pool_create(pool_name.c_str(), kMbufs, 250, 0, card::kFrameBytesMax + RTE_PKTMBUF_HEADROOM,
                                  rte_eth_dev_socket_id(port));
  if (pool_ == nullptr) return text("no memory for the wire's buffers", -rte_errno);

  rte_eth_dev_info info{};
  rte_eth_conf conf{};
  rc = rte_eth_dev_info_get(port, &info);
  // Uses frames as long as the port can take; some ports support only one MTU.
  conf.rxmode.mtu = rc != 0 || info.max_mtu < RTE_ETHER_MTU ? 0 : std::min<uint16_t>(info.max_mtu, 9196);
  if (rc == 0 && rte_eth_dev_configure(port, 1, 1, &conf) != 0) {
    conf.rxmode.mtu = 0;
    rc = rte_eth_dev_configure(port, 1, 1, &conf);
  }
  uint16_t rx = kDescriptors, tx = kDescriptors;
  if (rc == 0) rc = rte_eth_dev_adjust_nb_rx_tx_desc(port, &rx, &tx);
  if (rc == 0) rc = rte_eth_rx_queue_setup(port, 0, rx, static_cast<unsigned>(pool_->socket_id), nullptr, pool_);
  if (rc == 0) rc = rte_eth_tx_queue_setup(port, 0, tx, static_cast<unsigned>(pool_->socket_id), nullptr);
  if (rc == 0) rc = rte_eth_dev_start(port);
  if (rc != 0) return text("the port does not start", rc);
  started_ = true;
  rte_eth_promiscuous_enable(port);  // the card has no filter either
  return {};
}

PortWire::~PortWire() {
  rte_pktmbuf_free(open_);
  rte_pktmbuf_free_bulk(out_.data(), out_count_);
  for (; in_next_ < in_count_; ++in_next_) rte_pktmbuf_free(in_[in_next_]);
  const bool there = port_ != UINT16_MAX && rte_eth_dev_is_valid_port(port_) != 0;
  if (there && started_) {
    rte_eth_dev_stop(port_);
    // Its queues hold the wire's buffers, so it has to be closed before these are freed.
    rte_eth_dev_close(port_);
  } else if (there) {
    rte_eth_dev_owner_unset(port_, owner_);
  }
  // A port such as net_ring passes mbufs on, and whoever holds them still needs the pool.
  if (pool_ != nullptr && rte_mempool_in_use_count(pool_) == 0) rte_mempool_free(pool_);
}

std::span<uint8_t> PortWire::reserve(size_t bytes) {
  if (out_count_ == kBurst) send();
  if (out_count_ == kBurst || bytes > card::kFrameBytesMax) return {};
  if (open_ == nullptr) open_ = rte_pktmbuf_alloc(pool_);
  if (open_ == nullptr) return {};
  return {rte_pktmbuf_mtod(open_, uint8_t*), bytes};
}

void PortWire::commit(size_t bytes) {
  if (open_ == nullptr) return;
  open_->data_len = static_cast<uint16_t>(bytes);
  open_->pkt_len = static_cast<uint32_t>(bytes);
  out_[out_count_++] = open_;
  open_ = nullptr;
}

void PortWire::send() {
  const uint16_t sent = rte_eth_tx_burst(port_, 0, out_.data(), out_count_);
  std::move(out_.begin() + sent, out_.begin() + out_count_, out_.begin());
  out_count_ = static_cast<uint16_t>(out_count_ - sent);
  // Without a peer the frames are lost, as on any cable.
  if (!link_up_) {
    rte_pktmbuf_free_bulk(out_.data(), out_count_);
    out_count_ = 0;
  }
}

std::span<const uint8_t> PortWire::front() {
  while (true) {
    if (in_next_ == in_count_) {
      in_next_ = 0;
      in_count_ = rte_eth_rx_burst(port_, 0, in_.data(), kBurst);
      if (in_count_ == 0) return {};
    }
    const rte_mbuf* m = in_[in_next_];
    if (m->pkt_len != 0 && m->pkt_len <= joined_.size()) {
      const void* bytes = rte_pktmbuf_read(m, 0, m->pkt_len, joined_.data());
      if (bytes != nullptr) return {static_cast<const uint8_t*>(bytes), m->pkt_len};
    }
    pop();  // too long for any card
  }
}

void PortWire::pop() {
  if (in_next_ != in_count_) rte_pktmbuf_free(in_[in_next_++]);
}

void PortWire::flush(uint64_t now_ns) {
  if (link_seen_ns_ == 0 || now_ns - link_seen_ns_ >= kLinkIntervalNs) {
    rte_eth_link link{};
    link_up_ = rte_eth_link_get_nowait(port_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
    link_seen_ns_ = now_ns;
  }
  if (out_count_ != 0) send();
}

}  // namespace mqnic::ethdev
