#include "engine/management.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "transport/frame_builder.h"

namespace uroce {

void Management::on_packet(const PacketView& packet, Instant now) {
  const Deth deth = packet.deth();
  if (deth.qkey != kManagementQkey) {
    counters_.rx_drop_bad_qkey++;
    return;
  }
  if (packet.payload_bytes != kManagementBytes) {
    counters_.rx_drop_mad_length++;
    return;
  }
  if (sink_ == nullptr) {
    counters_.rx_drop_mad_nobody++;
    return;
  }
  counters_.rx_mads++;
  // Memory of other programs may change while it is read: so it is read once.
  std::array<uint8_t, kManagementBytes> bytes;
  std::memcpy(bytes.data(), packet.payload, bytes.size());
  std::atomic_signal_fence(std::memory_order_acquire);
  sink_->on_mad(
      {packet.src_ip, packet.dst_ip, packet.vlan_id, deth.src_qp, packet.traffic_class, packet.hop_limit, bytes}, now);
}

bool Management::push(const Route& path, std::span<const uint8_t, kManagementBytes> mad, Instant now) {
  if (!queue_) {
    queue_ = std::make_unique<Queue>();
    std::iota(queue_->order.begin(), queue_->order.end(), uint8_t{0});
  }
  const bool resolved = !path.dst_mac.is_zero();
  if (count_ == kWaitingMax || (!resolved && count_ - ready_ == kUnresolvedMax)) {
    counters_.tx_drop_mad_full++;
    return false;
  }
  Entry& entry = this->entry(count_++);
  entry.path = path;
  entry.until = now + kPatience;
  std::copy(mad.begin(), mad.end(), entry.mad.begin());
  if (resolved) ready_++;
  return true;
}

void Management::on_resolved(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac) {
  for (uint32_t i = 0; i < count_; i++) {
    Route& path = entry(i).path;
    if (path.dst_ip != ip || path.vlan_id != vlan_id) continue;
    if (path.dst_mac.is_zero()) ready_++;
    path.dst_mac = mac;
  }
}

void Management::remove(uint32_t at) {
  if (!entry(at).path.dst_mac.is_zero()) {
    ensure(ready_ != 0, "a datagram that could be sent was counted");
    ready_--;
  }
  const auto first = queue_->order.begin() + at;
  std::rotate(first, first + 1, queue_->order.begin() + count_);
  count_--;
}

void Management::expire(Instant now) {
  while (count_ != 0 && entry(0).until <= now) {
    counters_.tx_drop_mad_unresolved++;
    remove(0);
  }
}

bool Management::poll_transmit(TxFrame& frame, uint8_t paused) {
  for (uint32_t i = 0; ready_ != 0 && i < count_; i++) {
    const Route& path = entry(i).path;
    if (path.dst_mac.is_zero() || (paused >> path.priority() & 1) != 0) continue;
    encode(frame, entry(i));
    remove(i);
    return true;
  }
  return false;
}

void Management::encode(TxFrame& frame, const Entry& entry) {
  Bth bth;
  bth.opcode = make_opcode(Service::kUd, kOpSendOnly);
  bth.pkey = kDefaultPkey;
  bth.dest_qp = kManagementQpn;
  bth.psn = psn_;
  psn_ += 1;
  const RouteHeader path(entry.path);
  FrameBuilder builder(frame, path, bth, Deth::kBytes, kManagementBytes);
  Deth{kManagementQkey, kManagementQpn}.encode(builder.ext());
  builder.append(entry.mad.data(), kManagementBytes);
  builder.finish();
  counters_.tx_mads++;
}

}  // namespace uroce
