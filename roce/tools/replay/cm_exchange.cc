#include "replay/cm_exchange.h"

#include <cstring>
#include <string>
#include <utility>

#include "lint/mad.h"
#include "replay/text.h"

namespace uroce::replay {

std::string describe(const CmExchange& exchange) {
  return to_string(exchange.active) + " -> " + to_string(exchange.passive) + format(" cm 0x%x", exchange.active_id);
}

bool CmSorter::add(const lint::Packet& packet) {
  if (!packet.whole || packet.view.payload_bytes != cm::kMadBytes) return false;
  const auto message = lint::decode_cm(packet.view.payload);
  if (!message) return false;
  const IpAddress& src = packet.view.src_ip;
  const IpAddress& dst = packet.view.dst_ip;
  CmMad mad;
  mad.frame = packet.frame;
  mad.time = packet.time;
  mad.attribute = static_cast<cm::Attribute>(kFirstMadAttribute + static_cast<unsigned>(message->attribute));
  std::memcpy(mad.bytes.data(), packet.view.payload, cm::kMadBytes);
  mad.traffic_class = packet.view.traffic_class;
  mad.hop_limit = packet.view.hop_limit;
  const bool opens = mad.attribute == cm::Attribute::kReq || mad.attribute == cm::Attribute::kSidrReq;
  auto found = by_active_.find({src.bytes, message->local_id});
  mad.from_active = found != by_active_.end() && (opens || exchanges_[found->second].passive == dst);
  if (!mad.from_active && !opens) {
    found = by_active_.find({dst.bytes, message->remote_id});
    if (found == by_active_.end()) {  // a REJ of a side that does not know the other's ID
      found = by_passive_.find({src.bytes, message->local_id});
      if (found == by_passive_.end()) return false;
    }
    if (exchanges_[found->second].passive != src) return false;
    if (message->local_id != 0) by_passive_[{src.bytes, message->local_id}] = found->second;
  }
  if (opens) {
    const bool again = found != by_active_.end() && exchanges_[found->second].mads[0].bytes == mad.bytes;
    if (!again) {
      by_active_[{src.bytes, message->local_id}] = exchanges_.size();
      exchanges_.push_back({src, dst, message->local_id, {}});
      seen_.emplace_back();
      found = by_active_.find({src.bytes, message->local_id});
    }
    mad.from_active = true;
  }
  CmExchange& exchange = exchanges_[found->second];
  std::string content(mad.bytes.begin(), mad.bytes.end());
  content += mad.from_active ? 'a' : 'p';
  mad.repeated = !seen_[found->second].insert(std::move(content)).second;
  exchange.mads.push_back(mad);
  return true;
}

}  // namespace uroce::replay
