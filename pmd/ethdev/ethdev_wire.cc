#include "pmd/ethdev/ethdev_wire.h"

#include <rte_errno.h>
#include <rte_ethdev.h>

#include <algorithm>

#include "pmd/card/wires/make_wire.h"
#include "pmd/ethdev/log.h"

namespace mqnic::ethdev {

namespace {

constexpr uint16_t kDescriptors = 512;
constexpr uint32_t kBuffers = 4096 - 1;
constexpr uint16_t kMtuMax = 9200;  // the card's longest frame without its header
constexpr uint64_t kLookIntervalNs = 20'000'000;

const bool g_registered = [] {
  card::register_wire_kind("port", EthdevWire::open);
  return true;
}();

std::string because(const std::string& what, int code) { return what + ": " + rte_strerror(code < 0 ? -code : code); }

/// Buffers that take any frame in one piece. They outlive the wire: the port keeps some until it is closed, and the
/// next wire to the same port takes them over.
rte_mempool* pool_for(uint16_t port, size_t frame_bytes_max) {
  const std::string name = "mqnic_wire_" + std::to_string(port);
  if (rte_mempool* const existing = rte_mempool_lookup(name.c_str()); existing != nullptr) return existing;
  return rte_pktmbuf_pool_create(name.c_str(), kBuffers, 128, 0,
                                 static_cast<uint16_t>(frame_bytes_max + RTE_PKTMBUF_HEADROOM),
                                 rte_eth_dev_socket_id(port));
}

}  // namespace

std::unique_ptr<card::Wire> EthdevWire::open(const std::string& port_name, std::string& error) {
  uint16_t port = 0;
  if (rte_eth_dev_get_port_by_name(port_name.c_str(), &port) != 0) {
    error = "there is no DPDK port '" + port_name + "': name it before this card on the command line";
    return nullptr;
  }
  rte_eth_dev_owner owner{};
  int result = rte_eth_dev_owner_new(&owner.id);
  port_name.copy(owner.name, sizeof owner.name - 1);
  if (result == 0) result = rte_eth_dev_owner_set(port, &owner);
  if (result != 0) {
    error = because("DPDK port '" + port_name + "' belongs to somebody else", result);
    return nullptr;
  }
  return std::unique_ptr<card::Wire>(new EthdevWire(port, owner.id, port_name));
}

EthdevWire::~EthdevWire() {
  rte_pktmbuf_free(open_);
  for (uint16_t i = 0; i < sent_count_; ++i) rte_pktmbuf_free(sent_[i]);
  for (uint16_t i = received_next_; i < received_count_; ++i) rte_pktmbuf_free(received_[i]);
  // At the end of a program the port may have gone before its card.
  rte_eth_dev_owner owner{};
  if (rte_eth_dev_owner_get(port_, &owner) != 0 || owner.id != owner_) return;
  if (started_) rte_eth_dev_stop(port_);
  rte_eth_dev_owner_unset(port_, owner_);
}

void EthdevWire::set_receiving(bool receiving) {
  if (!receiving || tried_) return;
  tried_ = true;
  if (const std::string why = start(); !why.empty()) {
    MQNIC_LOG(ERR, "wire port:%s stays down: %s", name_.c_str(), why.c_str());
  }
}

std::string EthdevWire::set_queues() {
  uint16_t rx = kDescriptors;
  uint16_t tx = kDescriptors;
  int result = rte_eth_dev_adjust_nb_rx_tx_desc(port_, &rx, &tx);
  if (result != 0) return because("its rings", result);
  const int socket = rte_eth_dev_socket_id(port_);
  const auto node = static_cast<unsigned>(socket);
  if (result = rte_eth_rx_queue_setup(port_, 0, rx, node, nullptr, pool_); result != 0)
    return because("its RX queue", result);
  if (result = rte_eth_tx_queue_setup(port_, 0, tx, node, nullptr); result != 0) return because("its TX queue", result);
  return "";
}

std::string EthdevWire::start() {
  pool_ = pool_for(port_, kFrameBytesMax);
  if (pool_ == nullptr) return because("no memory for its buffers", rte_errno);
  rte_eth_dev_info info{};
  if (const int result = rte_eth_dev_info_get(port_, &info); result != 0) return because("its properties", result);
  rte_eth_conf config{};
  // Most drivers say their largest MTU; a frame that does not fit is lost, as on a cable to such a card.
  const uint16_t mtu = std::min(kMtuMax, info.max_mtu);
  config.rxmode.mtu = mtu;
  if (rte_eth_dev_configure(port_, 1, 1, &config) != 0) {
    config.rxmode.mtu = RTE_ETHER_MTU;
    if (const int result = rte_eth_dev_configure(port_, 1, 1, &config); result != 0)
      return because("configuration", result);
  }
  if (std::string why = set_queues(); !why.empty()) return why;
  if (const int result = rte_eth_dev_start(port_); result != 0) return because("start", result);
  started_ = true;
  rte_eth_promiscuous_enable(port_);  // where a driver cannot, it needs not
  rte_eth_link link{};
  link_up_ = rte_eth_link_get_nowait(port_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
  return "";
}

std::span<uint8_t> EthdevWire::reserve(size_t bytes) {
  if (bytes > linear_.size()) return {};
  if (!started_) return {linear_.data(), bytes};  // lost
  if (sent_count_ == kBurst) send_waiting();
  if (sent_count_ == kBurst) return {};
  if (open_ == nullptr) open_ = rte_pktmbuf_alloc(pool_);
  if (open_ == nullptr) return {};
  return {rte_pktmbuf_mtod(open_, uint8_t*), bytes};
}

void EthdevWire::commit(size_t bytes) {
  if (open_ == nullptr) return;
  open_->data_len = static_cast<uint16_t>(bytes);
  open_->pkt_len = static_cast<uint32_t>(bytes);
  sent_[sent_count_++] = open_;
  open_ = nullptr;
}

void EthdevWire::send_waiting() {
  const uint16_t taken = rte_eth_tx_burst(port_, 0, sent_.data(), sent_count_);
  std::copy(sent_.begin() + taken, sent_.begin() + sent_count_, sent_.begin());
  sent_count_ = static_cast<uint16_t>(sent_count_ - taken);
}

std::span<const uint8_t> EthdevWire::front() {
  if (!started_) return {};
  if (received_next_ == received_count_) {
    received_count_ = rte_eth_rx_burst(port_, 0, received_.data(), kBurst);
    received_next_ = 0;
    if (received_count_ == 0) return {};
  }
  const rte_mbuf* const frame = received_[received_next_];
  const size_t bytes = std::min<size_t>(frame->pkt_len, linear_.size());
  const void* const data = rte_pktmbuf_read(frame, 0, static_cast<uint32_t>(bytes), linear_.data());
  return {static_cast<const uint8_t*>(data), bytes};
}

void EthdevWire::pop() {
  if (received_next_ != received_count_) rte_pktmbuf_free(received_[received_next_++]);
}

void EthdevWire::flush(uint64_t now_ns) {
  if (!started_) return;
  if (sent_count_ != 0) send_waiting();
  if (now_ns < next_look_ns_) return;
  next_look_ns_ = now_ns + kLookIntervalNs;
  rte_eth_link link{};
  link_up_ = rte_eth_link_get_nowait(port_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

}  // namespace mqnic::ethdev
