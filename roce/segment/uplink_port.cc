#include "segment/uplink_port.h"

#include <algorithm>
#include <cstring>

#include "segment/forwarding.h"
#include "segment/frame_address.h"

namespace uroce::segment {
namespace {

/// How long a program may save up its rate.
constexpr int64_t kBurstNs = 5'000'000;
constexpr Duration kRefill = microseconds(50);
/// A slow rate is refilled less often, since only whole bytes are added.
constexpr int64_t kWorthARefill = 256;
constexpr int64_t kSavedNsMost = 10'000'000'000;
constexpr size_t kSourceMac = 6;  // offset of the source MAC in a frame

int64_t bytes_in(uint64_t bits_per_second, int64_t ns) {
  return static_cast<int64_t>(static_cast<double>(bits_per_second) / 8e9 * static_cast<double>(ns));
}

}  // namespace

// From the wire.

uint32_t UplinkPort::receive(RxFrame* frames, uint32_t max) {
  const uint32_t count = wire_.receive(frames, max);
  uint32_t kept = 0;
  uint32_t taken = 0;
  for (uint32_t i = 0; i < count; i++) {
    const std::span<const uint8_t> bytes(frames[i].data, frames[i].bytes);
    const FrameAddress destination = address_of_frame(bytes);
    if (destination.mac == mac_ ? concerns_program(destination) : concerns_group(destination)) {
      taken_[taken++] = frames[i];
      continue;
    }
    if (destination.qpn == 0 && (concerns_programs(bytes) || asks_for_groups(bytes))) to_programs(&frames[i], 1);
    frames[kept++] = frames[i];
  }
  if (taken != 0) {
    to_programs(taken_.data(), taken);
    wire_.release_rx(taken_.data(), taken);
  }
  return kept;
}

bool UplinkPort::concerns_program(const FrameAddress& destination) {
  if (destination.qpn != kManagementQpn && !destination.management) return destination.qpn > 1;
  const bool looked = segment_.peers().refresh_for_frame(now_, Peers::kReadForManagement);
  // The engine rejects an ID that no program has, but only when that is certain now: a program may have taken its
  // numbers since the last look. Otherwise the segment drops the message, and the sender repeats it.
  if (destination.qpn != kManagementQpn) return !looked || segment_.peers().find(mac_, destination.qpn) != nullptr;
  if (destination.service_id) return segment_.peers().listener(mac_, *destination.service_id) != nullptr;
  bool listens = false;
  segment_.peers().for_each_program(mac_, [&](const Peer& peer) { listens = listens || !peer.listens.empty(); });
  return listens;
}

bool UplinkPort::concerns_group(const FrameAddress& destination) {
  if (destination.qpn != kMulticastQpn || !destination.mac.is_multicast()) return false;
  segment_.peers().refresh_for_frame(now_, Peers::kReadForUnknown);
  bool wanted = !segment_.peers().stations().empty();
  segment_.peers().for_each_program([&](const Peer& peer) { wanted = wanted || peer.in_group(destination.mac); });
  return wanted;
}

void UplinkPort::to_programs(const RxFrame* frames, uint32_t count) {
  TxFrame out[kMaxBurst];
  const uint32_t room = segment_.acquire_tx(out, count);
  for (uint32_t i = 0; i < room; i++) {
    if (frames[i].bytes > out[i].capacity) {
      counters_.uplink_rx_dropped_too_long++;
      continue;
    }
    std::memcpy(out[i].data, frames[i].data, frames[i].bytes);
    out[i].bytes = frames[i].bytes;
    counters_.uplink_rx_packets++;
  }
  counters_.uplink_rx_dropped_no_room += count - room;
  segment_.send(out, room);
  moved_ += count;
}

// To the wire.

void UplinkPort::on_turn(Instant now) {
  moved_ = 0;
  now_ = now;
  if (rate_ != 0 && now - refilled_ >= kRefill) refill(now);
  if (silent_ || !segment_.has_frames()) return;
  TxFrame out[kMaxBurst];
  RxFrame in[kMaxBurst];
  const uint32_t room = wire_.acquire_tx(out, kMaxBurst);
  const uint32_t count = room == 0 ? 0 : segment_.receive(in, room);
  for (uint32_t i = 0; i < count; i++) {
    if (fill(out[i], in[i])) counters_.uplink_tx_packets++;
  }
  if (room != 0) wire_.send(out, room);
  segment_.release_rx(in, count);
  moved_ += count;
}

/// A program's frames lie in its own memory, where they may change: so the copy is checked.
bool UplinkPort::fill(TxFrame& out, const RxFrame& in) {
  if (in.bytes > out.capacity) {
    counters_.uplink_tx_dropped_too_long++;
    return false;
  }
  const uint32_t headers = in.headers == nullptr ? 0 : std::min(in.bytes, RxFrame::kHeaderBytes);
  if (headers != 0) std::memcpy(out.data, in.headers, headers);
  std::memcpy(out.data + headers, in.data + headers, in.bytes - headers);
  if (in.bytes < kEthernetBytes || std::memcmp(out.data + kSourceMac, mac_.bytes.data(), mac_.bytes.size()) != 0) {
    counters_.uplink_tx_dropped_foreign++;
    return false;
  }
  out.bytes = in.bytes;
  if (rate_ != 0 && in.token != nullptr) charge(*static_cast<Peer*>(in.token), in.bytes);
  return true;
}

void UplinkPort::charge(Peer& peer, uint32_t bytes) {
  peer.allowance -= bytes;
  if (peer.allowance >= 0 || peer.held_back) return;
  peer.held_back = true;
  counters_.uplink_tx_held++;
}

void UplinkPort::refill(Instant now) {
  const int64_t bytes = bytes_in(rate_, std::min((now - refilled_).ns, kSavedNsMost));
  if (bytes < kWorthARefill) return;
  refilled_ = now;
  const int64_t most = std::max(bytes_in(rate_, kBurstNs), int64_t{kFrameBytes});
  for (Peer* peer : segment_.peers().in_contact()) {
    peer->allowance = std::min(peer->allowance + bytes, most);
    if (peer->allowance >= 0) peer->held_back = false;
  }
}

}  // namespace uroce::segment
