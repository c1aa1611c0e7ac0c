#include "pmd/card/rx_engine.h"

#include <algorithm>
#include <cstring>

#include "pmd/card/checksum.h"
#include "pmd/card/copy.h"
#include "pmd/card/descriptor_block.h"

namespace mqnic::card {
namespace {

constexpr size_t kChecksumStart = 14;

/// What the bytes in front of the checksum's first one add to a sum that begins with the frame's first byte.
uint64_t sum_of_ethernet_header(const uint8_t* frame) {
  uint32_t words[3];
  uint16_t half;
  std::memcpy(words, frame, sizeof(words));
  std::memcpy(&half, frame + sizeof(words), sizeof(half));
  static_assert(sizeof(words) + sizeof(half) == kChecksumStart);
  return uint64_t{words[0]} + words[1] + words[2] + half;
}

}  // namespace

/// Delivers the first `kept` bytes of a frame, and returns the checksum of all of it.
inline uint16_t RxEngine::deliver(const RingManager::Queue& ring, std::span<const uint8_t> frame, size_t kept) {
  Dma& dma = context_->dma;
  Descriptor first;
  const bool whole = kept == frame.size() && kept > kChecksumStart;
  const size_t block_bytes = sizeof(Descriptor) << ring.log2_block;
  if (whole && dma.peek(ring.block_address(), block_bytes, first) && first.bytes >= kept) [[likely]] {
    dma.count_read(block_bytes);
    // A whole frame that fits one buffer is read only once.
    const uint64_t sum = dma.write_and_sum(first.address, frame.data(), kept);
    return network_sum(sum - sum_of_ethernet_header(frame.data()));
  }
  DescriptorBlock copy;
  return scatter(fetch_block(dma, ring, copy), frame, kept);
}

void RxEngine::receive(std::span<const uint8_t> frame, uint8_t port, uint32_t mtu) {
  // Hash and checksum are those of the frame as it came in, before it is cut (mqnic_ingress.v).
  const FrameHash hash = hasher_.hash(frame);
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
  const uint16_t sum = deliver(ring, frame, kept.size());

  // The length is the frame's even if the buffers took only part of it.
  QueueEntry completion = completion_entry(queue, ring.consumer, static_cast<uint16_t>(kept.size()), context_->stamp());
  set_rx_checksum(completion, sum);
  set_hash_and_port(completion, hash.value, hash.type, port);
  ++ring.consumer;
  ++report.rx_frames;
  report.rx_bytes += kept.size();
  path_->complete(ring.completion_queue, completion);
}

uint16_t RxEngine::scatter(std::span<const Descriptor> block, std::span<const uint8_t> frame, size_t kept) {
  if (block.empty()) context_->say("RX ring: descriptors are not in mapped memory");
  size_t done = 0;
  for (const Descriptor& piece : block) {
    const size_t count = std::min<size_t>(piece.bytes, kept - done);
    if (count != 0) context_->dma.write(piece.address, frame.data() + done, count);
    done += count;
  }
  if (done < kept) ++context_->report.rx_clamped_buffer;
  return frame.size() > kChecksumStart ? ones_complement_sum(frame.subspan(kChecksumStart)) : uint16_t{0};
}

}  // namespace mqnic::card
