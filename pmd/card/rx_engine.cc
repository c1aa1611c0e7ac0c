#include "pmd/card/rx_engine.h"

#include <algorithm>

#include "pmd/card/checksum.h"
#include "pmd/card/descriptor_block.h"

namespace mqnic::card {
namespace {
constexpr size_t kChecksumStart = 14;
}

void RxEngine::receive(std::span<const uint8_t> frame, uint8_t port, uint32_t mtu) {
  // Hash and checksum are those of the frame as it came in, before it is cut (mqnic_ingress.v).
  const FrameHash hash = hash_frame(frame);
  const uint16_t queue = map_->queue(port, hash.value);
  CardReport& report = context_->report;
  if (queue >= rings_->count() || !rings_->queue(queue).enabled) {
    ++report.rx_dropped_no_queue;
    return;
  }
  RingManager::Queue& ring = rings_->queue(queue);
  if (ring.empty()) {
    ++report.rx_dropped_no_descriptor;
    return;
  }

  const size_t limit = std::min(mtu, context_->config.max_frame_bytes);
  const std::span<const uint8_t> kept = frame.first(std::min(frame.size(), limit));
  if (kept.size() < frame.size()) ++report.rx_truncated_mtu;
  scatter(ring, kept);

  Completion completion{};
  completion.queue = queue;
  completion.index = ring.consumer;
  completion.bytes = static_cast<uint16_t>(kept.size());  // even if the buffers took only part of it
  if (context_->config.ptp) {
    const PtpClock::Stamp stamp = context_->clock.stamp(context_->now_ns);
    completion.timestamp_ns = stamp.ns;
    completion.timestamp_s = stamp.seconds;
  }
  if (frame.size() > kChecksumStart) completion.rx_checksum = ones_complement_sum(frame.subspan(kChecksumStart));
  completion.rx_hash = hash.value;
  completion.hash_type = hash.type;
  completion.port = port;
  ++ring.consumer;
  ++report.rx_frames;
  report.rx_bytes += kept.size();
  path_->complete(ring.completion_queue, completion);
}

void RxEngine::scatter(const RingManager::Queue& ring, std::span<const uint8_t> frame) {
  DescriptorBlock copy;
  const std::span<const Descriptor> block = fetch_block(context_->dma, ring, copy);
  if (block.empty()) context_->say("RX ring: descriptors are not in mapped memory");
  size_t done = 0;
  for (const Descriptor& piece : block) {
    const size_t count = std::min<size_t>(piece.bytes, frame.size() - done);
    if (count != 0) context_->dma.write(piece.address, frame.data() + done, count);
    done += count;
  }
  if (done < frame.size()) ++context_->report.rx_clamped_buffer;
}

}  // namespace mqnic::card
