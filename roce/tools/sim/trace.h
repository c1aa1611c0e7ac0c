// Prints every frame that an engine receives and sends, to examine a seed that fails.
#pragma once

#include <cstdio>

#include "engine/capture.h"
#include "packet/packet.h"

namespace uroce::sim {

class Trace final : public Capture {
 public:
  explicit Trace(const char* host) : host_(host) {}

  void on_frame(Direction direction, Instant now, std::span<const uint8_t> frame) override {
    PacketView view;
    const ParseResult result = parse_frame(frame, view);
    std::fprintf(stderr, "%.6f %s %s ", static_cast<double>(now.ns) / 1e6, host_,
                 direction == Direction::kSent ? ">" : "<");
    if (result != ParseResult::kOk) {
      std::fprintf(stderr, "%s\n", parse_result_name(result));
      return;
    }
    std::fprintf(stderr, "QP %06x %s %06x%s bytes %u", view.bth.dest_qp, opcode_name(view.bth.opcode),
                 view.bth.psn.value(), view.bth.ack_req ? " ack" : "", view.payload_bytes);
    if (view.info->has(kHasAeth))
      std::fprintf(stderr, " syndrome %02x msn %06x", view.aeth().syndrome, view.aeth().msn);
    std::fprintf(stderr, "\n");
  }

 private:
  const char* host_;
};

}  // namespace uroce::sim
