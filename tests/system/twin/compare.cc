#include "compare.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "packet/packet.h"

namespace uroce::twin {

namespace {

std::string number(const char* name, uint32_t value) {
  char text[48];
  std::snprintf(text, sizeof text, " %s 0x%" PRIx32, name, value);
  return text;
}

/// Describes the packet at `at` of each list, and where their bytes first differ.
std::string first_difference(const std::vector<std::vector<uint8_t>>& simulated,
                             const std::vector<std::vector<uint8_t>>& live) {
  size_t at = 0;
  while (at < simulated.size() && at < live.size() && simulated[at] == live[at]) at++;
  std::string text = "packet " + std::to_string(at) + " of " + std::to_string(simulated.size()) + " and " +
                     std::to_string(live.size()) + "\n";
  const auto line = [at](const std::vector<std::vector<uint8_t>>& list) {
    return at < list.size() ? describe(list[at]) : "none";
  };
  text += "    simulator: " + line(simulated) + "\n    switch:    " + line(live) + "\n";
  if (at < simulated.size() && at < live.size()) {
    const auto& one = simulated[at];
    const auto& other = live[at];
    const auto where = std::mismatch(one.begin(), one.end(), other.begin(), other.end()).first - one.begin();
    text += "    from byte " + std::to_string(where) + " on\n";
  }
  return text;
}

std::string compare_frames(const Seen& simulated, const Seen& live) {
  auto lists = simulated.frames;
  lists.insert(live.frames.begin(), live.frames.end());
  std::string text;
  for (const auto& [key, unused] : lists) {
    const auto of = [&key = key](const Seen& seen) {
      const auto found = seen.frames.find(key);
      return found == seen.frames.end() ? std::vector<std::vector<uint8_t>>() : found->second;
    };
    const auto one = of(simulated);
    const auto other = of(live);
    if (one == other) continue;
    text += "  " + std::string(key.sent ? "sent" : "received") + number("to QP", key.dest_qp) + ": ";
    text += first_difference(one, other);
  }
  return text;
}

}  // namespace

std::string describe(const std::vector<uint8_t>& frame) {
  PacketView packet;
  const ParseResult result = parse_frame(frame, packet);
  if (result != ParseResult::kOk) return std::string("not a packet: ") + parse_result_name(result);
  std::string text = opcode_name(packet.bth.opcode);
  text += number("psn", packet.bth.psn.value());
  if (packet.bth.ack_req) text += " ack_req";
  if (packet.info->has(kHasAeth)) text += number("syndrome", packet.aeth().syndrome) + number("msn", packet.aeth().msn);
  return text + ", payload " + std::to_string(packet.payload_bytes) + ", ECN " +
         std::to_string(packet.traffic_class & 3);
}

std::string compare(const Outcome& simulated, const Outcome& live) {
  std::string text;
  for (size_t host = 0; host < simulated.size(); host++) {
    const std::string name = host == 0 ? "A " : "B ";
    if (const std::string frames = compare_frames(simulated[host], live[host]); !frames.empty()) text += name + frames;
    if (simulated[host].completions != live[host].completions) text += name + "has other completions\n";
    if (simulated[host].memory != live[host].memory) text += name + "has other memory\n";
  }
  return text;
}

}  // namespace uroce::twin
