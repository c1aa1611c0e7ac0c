#include "dpdk/dpdk_port.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "base/check.h"
#include "dpdk/interrupt_guard.h"
#include "dpdk/log.h"
#include "dpdk/packet_pool.h"
#include "host/port_driver.h"

namespace uroce {
namespace {

constexpr uint16_t kDescriptors = 256;
// Few buffers, so that they are used again while they are still in the cache; more for a driver that keeps long rings
// full (AF_XDP).
constexpr unsigned kPoolMbufs = 2047;
constexpr unsigned kPoolMbufsLongRings = 8191;

constexpr Duration kCheckUp = milliseconds(100);
constexpr Duration kCheckDown = milliseconds(10);
// A peer that is stopped or waits for a CPU keeps its ring full, and frames for it wait. Meanwhile the transport's
// timers go on and may end in an error, and services without retransmission lose nothing because of a busy machine.
constexpr unsigned kStuckChecks = 100;

// The longest ring that net_af_packet has unless the user asks for a longer one.
constexpr uint32_t kPacketSocketRingMax = 4096;

/// net_af_packet opens its socket before it binds it to the interface. In between, its ring receives frames of all
/// interfaces of the machine, from which a switch would learn that all their senders are behind this port.
void discard_frames_of_other_interfaces(uint16_t port_id) {
  rte_eth_dev_info info{};
  if (rte_eth_dev_info_get(port_id, &info) != 0 || !port_driver(info.driver_name).hears_others) return;
  std::array<rte_mbuf*, Port::kMaxBurst> mbufs{};
  for (uint32_t discarded = 0; discarded < kPacketSocketRingMax;) {
    const uint16_t count = rte_eth_rx_burst(port_id, 0, mbufs.data(), mbufs.size());
    if (count == 0) return;
    rte_pktmbuf_free_bulk(mbufs.data(), count);
    discarded += count;
  }
}

/// DPDK's ports receive every VLAN unless a filter is asked for. virtio cards differ: when their driver can name VLANs,
/// and DPDK's does so whenever possible, they drop all others.
bool must_name_vlans(const rte_eth_dev_info& info) {
  return port_driver(info.driver_name).names_vlans && (info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_VLAN_FILTER) != 0;
}

void name_vlans(uint16_t port_id, const std::vector<uint16_t>& vlans) {
  rte_eth_dev_info info{};
  if (rte_eth_dev_info_get(port_id, &info) != 0 || !must_name_vlans(info)) return;
  rte_eth_dev_vlan_filter(port_id, 0, 1);  // frames that have a priority and no VLAN
  for (const uint16_t vlan : vlans) {
    if (rte_eth_dev_vlan_filter(port_id, vlan, 1) != 0)
      log_message(LogLevel::kWarning, "port: the card does not take VLAN %u", vlan);
  }
}

void await_link(DpdkPort& port, Duration patience, const DpdkPort::Rest& rest) {
  port.read_link();
  for (int64_t ns = 0; !port.link_up() && ns < patience.ns; ns += kCheckDown.ns) {
    if (rest) {
      rest(kCheckDown);
    } else {
      rte_delay_us_sleep(static_cast<unsigned>(kCheckDown.ns / 1000));
    }
    port.read_link();
  }
  if (!port.link_up() && patience.ns != 0)
    log_message(LogLevel::kWarning, "port: no link yet: is the cable in, and the other end up?");
}

/// A hint that the driver's own error lacks.
std::string remedy(uint16_t port_id) {
  rte_eth_dev_info info{};
  if (rte_eth_dev_info_get(port_id, &info) != 0) return "";
  const std::string needs = port_driver(info.driver_name).needs;
  return needs.empty() ? "" : "; " + needs;
}

/// The first checks without a link follow each other quickly, kCheckDown apart.
constexpr unsigned kHurriedChecks = 1000;

/// At which checks without a link an attempt to connect is given up: after 80 ms, then after twice the time each, up to
/// 1.3 s; then every 1.3 s, later every 1.6 s.
bool gives_up_connecting(unsigned checks) {
  constexpr unsigned kFirst = 8, kMost = 128, kMostSlow = 16;
  if (checks >= kHurriedChecks) return checks % kMostSlow == 0;
  return checks >= kMost ? checks % kMost == 0 : checks >= kFirst && std::has_single_bit(checks);
}

}  // namespace

std::unique_ptr<DpdkPort> DpdkPort::start(const DpdkPortOptions& options, std::string& error, const Rest& rest) {
  const QuietDpdk quiet;
  std::unique_ptr<DpdkPort> port(new DpdkPort(options));
  port->scratch_ = std::make_unique<uint8_t[]>(size_t{kMaxBurst} * options.frame_bytes);
  if (!port->make_pool(error) || !port->configure(error)) {
    if (const std::string why = quiet.first_error(); !why.empty()) error += " (" + why + ")";
    error += remedy(options.port_id);
    return nullptr;
  }
  if (!port->begin() && !options.connects) {
    error = std::string("DPDK cannot start the port: ") + rte_strerror(rte_errno);
    return nullptr;
  }
  await_link(*port, options.link_patience, rest);
  return port;
}

bool DpdkPort::make_pool(std::string& error) {
  pool_ = options_.pool;
  if (pool_ != nullptr) return true;
  rte_eth_dev_info info{};
  rte_eth_dev_info_get(options_.port_id, &info);
  // A driver that states no limits uses its own number of descriptors, whatever it is asked for.
  const bool own_rings = info.rx_desc_lim.nb_max == UINT16_MAX;
  const bool long_rings = own_rings && info.default_rxportconf.ring_size + info.default_txportconf.ring_size > 1024;
  PacketPoolShape shape;
  shape.name = "uroce" + std::to_string(options_.port_id);
  shape.mbufs = long_rings ? kPoolMbufsLongRings : kPoolMbufs;
  shape.frame_bytes = options_.frame_bytes;
  shape.dma = port_uses_dma(options_.port_id);
  pool_ = make_packet_pool(shape, error);
  return pool_ != nullptr;
}

bool DpdkPort::configure(std::string& error) {
  const uint16_t id = options_.port_id;
  rte_eth_dev_info info{};
  int rc = rte_eth_dev_info_get(id, &info);
  rte_eth_conf conf{};
  // Some drivers state a limit that they do not have, or none at all; their MTU is left alone.
  if (options_.mtu != 0 && info.max_mtu != 0 && info.max_mtu != UINT16_MAX) {
    conf.rxmode.mtu = std::min<uint32_t>(options_.mtu, info.max_mtu);
  }
  if (rc == 0) conf.intr_conf.rxq = port_driver(info.driver_name).wakes ? 1 : 0;
  if (rc == 0 && must_name_vlans(info)) conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_VLAN_FILTER;
  // With a shared pool, mbufs that are sent may come from the pools of other ports, which FAST_FREE does not allow.
  if (options_.pool == nullptr) conf.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
  if (rc == 0) rc = rte_eth_dev_configure(id, 1, 1, &conf);
  uint16_t rx_descriptors = kDescriptors;
  uint16_t tx_descriptors = kDescriptors;
  if (rc == 0) rc = rte_eth_dev_adjust_nb_rx_tx_desc(id, &rx_descriptors, &tx_descriptors);
  const auto socket = static_cast<unsigned>(std::max(0, rte_eth_dev_socket_id(id)));
  if (rc == 0) rc = rte_eth_rx_queue_setup(id, 0, rx_descriptors, socket, nullptr, pool_);
  if (rc == 0) rc = rte_eth_tx_queue_setup(id, 0, tx_descriptors, socket, nullptr);
  if (rc != 0) {
    error = std::string("DPDK cannot configure the port: ") + rte_strerror(-rc);
    return false;
  }
  if (options_.mtu != 0 && conf.rxmode.mtu == 0) {
    rc = rte_eth_dev_set_mtu(id, static_cast<uint16_t>(options_.mtu));
    if (rc != 0 && rc != -ENOTSUP) {
      error = "the port does not take an MTU of " + std::to_string(options_.mtu) + ": " + rte_strerror(-rc);
      return false;
    }
  }
  return true;
}

bool DpdkPort::begin() {
  const ImpatientConnects to_whoever_has_no_time;
  started_ = rte_eth_dev_start(options_.port_id) == 0;
  // Neighbour discovery needs multicast. A failure is ignored: a driver without such a filter receives multicast
  // anyway.
  if (started_ && !options_.wire) rte_eth_allmulticast_enable(options_.port_id);
  if (started_ && options_.promiscuous) rte_eth_promiscuous_enable(options_.port_id);
  if (started_) name_vlans(options_.port_id, options_.vlans);
  if (started_) discard_frames_of_other_interfaces(options_.port_id);
  return started_;
}

uint32_t DpdkPort::rx_backlog() {
  const int count = rte_eth_rx_queue_count(options_.port_id, 0);
  return count < 0 ? kBacklogUnknown : static_cast<uint32_t>(count);
}

bool DpdkPort::pause_in_hardware(uint8_t priorities) {
  if (priorities == 0) return false;
  for (uint8_t priority = 0; priority < 8; priority++) {
    if ((priorities >> priority & 1) == 0 || set_hardware_pauses(priority, true)) continue;
    // All of them or none: if device and software both sent pauses for a priority, each would cancel those of the
    // other.
    for (uint8_t done = 0; done < priority; done++) {
      if ((priorities >> done & 1) != 0) set_hardware_pauses(done, false);
    }
    return false;
  }
  return true;
}

bool DpdkPort::set_hardware_pauses(uint8_t priority, bool on) {
  rte_eth_pfc_conf config{};
  config.fc.mode = on ? RTE_ETH_FC_FULL : RTE_ETH_FC_NONE;
  config.fc.pause_time = 0xFFFF;
  config.priority = priority;
  return rte_eth_dev_priority_flow_ctrl_set(options_.port_id, &config) == 0;
}

DpdkPort::~DpdkPort() {
  drop_pending(counters_.tx_dropped_no_link);
  if (stock_count_ != 0) rte_pktmbuf_free_bulk(stock_.data(), stock_count_);
  if (started_) rte_eth_dev_stop(options_.port_id);
  rte_eth_dev_info info{};
  if (options_.unplug && rte_eth_dev_info_get(options_.port_id, &info) == 0) {
    rte_dev_remove(info.device);
    if (options_.pool == nullptr) rte_mempool_free(pool_);
  }  // otherwise the queues still use the pool
}

uint32_t DpdkPort::receive_mbufs(rte_mbuf** mbufs, uint32_t max) {
  if (!started_) return 0;
  const uint16_t count = rte_eth_rx_burst(options_.port_id, 0, mbufs, static_cast<uint16_t>(max));
  for (uint16_t i = 0; i < count; i++) {
    // If the driver took the tag off, it is put back, because VLANs are read from the frame.
    if ((mbufs[i]->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED) != 0 && rte_vlan_insert(&mbufs[i]) == 0) {
      mbufs[i]->ol_flags &= ~static_cast<uint64_t>(RTE_MBUF_F_RX_VLAN_STRIPPED);
    }
  }
  return count;
}

uint32_t DpdkPort::receive(RxFrame* frames, uint32_t max) {
  rte_mbuf* mbufs[kMaxBurst];
  const uint32_t count = receive_mbufs(mbufs, max);
  for (uint32_t i = 0; i < count; i++) {
    rte_mbuf* mbuf = mbufs[i];
    frames[i].token = mbuf;
    if (mbuf->nb_segs == 1) {
      frames[i].data = rte_pktmbuf_mtod(mbuf, const uint8_t*);
      frames[i].bytes = mbuf->data_len;
    } else {
      linearize(frames[i], mbuf, i);
    }
  }
  return count;
}

void DpdkPort::linearize(RxFrame& frame, const rte_mbuf* mbuf, uint32_t slot) {
  // A frame that is longer than frame_bytes is cut, and the engine counts it as truncated.
  uint8_t* out = scratch_.get() + size_t{slot} * options_.frame_bytes;
  frame.bytes = std::min(mbuf->pkt_len, options_.frame_bytes);
  frame.data = static_cast<const uint8_t*>(rte_pktmbuf_read(mbuf, 0, frame.bytes, out));
  if (frame.data == nullptr) frame = {rte_pktmbuf_mtod(mbuf, const uint8_t*), mbuf->data_len, frame.token};
  counters_.rx_linearized++;
}

void DpdkPort::release_rx(RxFrame* frames, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) rte_pktmbuf_free(static_cast<rte_mbuf*>(frames[i].token));
}

uint32_t DpdkPort::acquire_tx(TxFrame* frames, uint32_t max) {
  if (pending_count_ != 0) {
    send_pending();
    // A frame sent now would have to wait behind these, so it waits in the engine instead.
    if (pending_count_ != 0) return 0;
  }
  if (stock_count_ < max) {
    const uint32_t wanted = kMaxBurst - stock_count_;
    if (rte_pktmbuf_alloc_bulk(pool_, stock_.data() + stock_count_, wanted) == 0) stock_count_ += wanted;
  }
  const uint32_t count = std::min(max, stock_count_);
  for (uint32_t i = 0; i < count; i++) {
    rte_mbuf* mbuf = stock_[--stock_count_];
    frames[i] = {rte_pktmbuf_mtod(mbuf, uint8_t*), std::min<uint32_t>(rte_pktmbuf_tailroom(mbuf), options_.frame_bytes),
                 0, mbuf};
  }
  return count;
}

void DpdkPort::send(TxFrame* frames, uint32_t count) {
  if (count == 0) return;  // others may still be pending
  ensure(pending_count_ == 0 && count <= kMaxBurst, "`acquire_tx` left nothing pending");
  pending_head_ = 0;
  for (uint32_t i = 0; i < count; i++) {
    auto* mbuf = static_cast<rte_mbuf*>(frames[i].token);
    if (frames[i].bytes == 0) {
      ensure(stock_count_ < kMaxBurst, "a buffer that comes back was lent");
      stock_[stock_count_++] = mbuf;
      continue;
    }
    mbuf->data_len = static_cast<uint16_t>(frames[i].bytes);
    mbuf->pkt_len = frames[i].bytes;
    pending_[pending_count_++] = mbuf;
  }
  if (pending_count_ != 0) send_pending();
}

bool DpdkPort::ready_to_send() {
  if (pending_count_ != 0) send_pending();
  return pending_count_ == 0;
}

void DpdkPort::send_mbufs(rte_mbuf* const* mbufs, uint32_t count) {
  if (count == 0) return;
  ensure(pending_count_ == 0 && count <= kMaxBurst, "`ready_to_send` said so");
  pending_head_ = 0;
  pending_count_ = count;
  std::copy_n(mbufs, count, pending_.begin());
  send_pending();
}

void DpdkPort::send_pending() {
  const uint16_t sent = !started_ ? uint16_t{0}
                                  : rte_eth_tx_burst(options_.port_id, 0, pending_.data() + pending_head_,
                                                     static_cast<uint16_t>(pending_count_));
  pending_head_ += sent;
  pending_count_ -= sent;
  if (sent != 0) {
    accepted_since_check_ = true;
    stuck_ = false;
  }
  // When nothing is at the other end the frames are lost, as with an unplugged cable, and the transport's timers run.
  if (pending_count_ != 0 && options_.wire) read_link();
  if (pending_count_ != 0 && !link_up()) drop_pending(counters_.tx_dropped_no_link);
  if (pending_count_ != 0 && stuck_) drop_pending(counters_.tx_dropped_stuck);
}

void DpdkPort::drop_pending(uint64_t& counter) {
  if (pending_count_ != 0) rte_pktmbuf_free_bulk(pending_.data() + pending_head_, pending_count_);
  counter += pending_count_;
  pending_count_ = 0;
}

void DpdkPort::check(Instant now) {
  read_link();
  if (!link_up() && options_.connects) reconnect();
  // A peer that is stopped keeps its ring full. If frames were held back for ever, so would be the retries that end in
  // an error; so after some time frames are dropped instead.
  stuck_checks_ = pending_count_ != 0 && !accepted_since_check_ ? stuck_checks_ + 1 : 0;
  accepted_since_check_ = false;
  if (stuck_checks_ >= kStuckChecks) {
    // The peer on a wire may be stopped on purpose; a device that stops sending is a fault.
    const LogLevel level = options_.wire ? LogLevel::kInfo : LogLevel::kWarning;
    if (!stuck_) log_message(level, "port: has taken no frame for a second; what it does not take at once is lost");
    stuck_ = true;
    drop_pending(counters_.tx_dropped_stuck);
  }
  const bool soon = pending_count_ != 0 || (!link_up() && connect_attempts_ < kHurriedChecks);
  next_check_ = now + (soon ? kCheckDown : kCheckUp);
}

void DpdkPort::read_link() {
  rte_eth_link link{};
  const bool up = started_ && rte_eth_link_get_nowait(options_.port_id, &link) == 0 && link.link_status != 0;
  link_speed_mbps_ = link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : link.link_speed;
  if (up == link_up()) return;
  link_up_ = up;
  if (up) counters_.link_ups++;
  if (up) connect_attempts_ = 0;
  log_message(LogLevel::kInfo, options_.wire ? (up ? "wire: the peer is there" : "wire: the peer left")
                                             : (up ? "port: link up" : "port: link down"));
}

void DpdkPort::reconnect() {
  // net_memif's client connects only when the port is started. While it connects, the port is started but down, for a
  // moment or for longer: on a busy machine each of its messages waits for a CPU, at either end. A client that starts
  // again too early never gets there, so each attempt is given more time.
  connect_attempts_++;
  if (started_ && !gives_up_connecting(connect_attempts_)) return;
  if (started_) rte_eth_dev_stop(options_.port_id);
  begin();
}

}  // namespace uroce
