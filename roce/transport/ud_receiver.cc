#include <cstring>

#include "transport/datagram.h"

namespace uroce {

Outcome UdReceiver::on_request(const PacketView& packet, Instant now) {
  if (context_.state == QpState::kErr) return Outcome::kGoesOn;
  const Deth deth = packet.deth();
  if (deth.qkey != context_.attributes.qkey) {
    context_.counters().rx_drop_bad_qkey++;
    return Outcome::kGoesOn;
  }
  if (!padding_fits(packet)) {
    context_.counters().rx_drop_bad_pad++;
    return Outcome::kGoesOn;
  }
  if (packet.payload_bytes > context_.mtu) {
    context_.counters().rx_drop_ud_length++;
    return Outcome::kGoesOn;
  }
  if (receive_.active()) {
    receive_.restart();  // the datagram for which it was taken was longer
  } else if (receive_.available()) {
    receive_.take();
  } else {
    context_.counters().rx_drop_no_receive++;
    return Outcome::kGoesOn;
  }
  if (!receive_.fits(kGrhBytes + packet.payload_bytes)) return receive_.drop_too_long(now);
  // The receive begins with the 40 bytes of a GRH. RoCEv2 puts the IP header there: an IPv6 header fills it, an IPv4
  // header is its last 20 bytes.
  uint8_t grh[kGrhBytes] = {};
  if (packet.ipv6) {
    std::memcpy(grh, packet.l3, 40);
  } else {
    std::memcpy(grh + 20, packet.l3, 20);
  }
  Cause cause = receive_.append(grh, kGrhBytes);
  if (cause == Cause::kNone) cause = receive_.append(packet.payload, packet.payload_bytes);
  if (cause != Cause::kNone) {
    receive_.fail(WcStatus::kLocProtErr, cause, now);
    return Outcome::kFailed;
  }
  context_.counters().rx_sends++;
  Completion completion;
  completion.opcode = WcOpcode::kRecv;
  completion.byte_len = receive_.filled();
  completion.src_qp = deth.src_qp;
  completion.flags = kWcGrh;
  completion.sl = static_cast<uint8_t>(packet.ipv6 ? DatagramHeader::kIpv6 : DatagramHeader::kIpv4);
  if (packet.info->has(kHasImm)) {
    completion.flags |= kWcWithImm;
    completion.imm_or_rkey = packet.imm().imm;
  }
  return receive_.complete(completion, packet.bth.solicited, now);
}

}  // namespace uroce
