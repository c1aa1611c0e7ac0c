#include "pmd/card/tx_engine.h"

#include <algorithm>
#include <string>

#include "pmd/card/checksum.h"
#include "pmd/card/descriptor_block.h"

namespace mqnic::card {

void TxEngine::take(uint16_t queue, uint8_t destination, TakenPacket& packet) {
  RingManager::Queue& ring = rings_->queue(queue);
  packet.pieces = static_cast<uint8_t>(fetch_block(context_->dma, ring, packet.block).size());
  packet.queue = queue;
  packet.index = ring.consumer++;
  packet.completion_queue = ring.completion_queue;
  packet.destination = destination;
}

bool TxEngine::send(const TakenPacket& packet, Port* port) {
  if (wedged_ || context_->dma.lost() || (port != nullptr && port->tx_held(context_->now_ns))) return false;
  if (packet.pieces == 0) {
    // A real card would send whatever its buffer contains. Here the packet is skipped, and reported.
    context_->say("TX queue " + std::to_string(packet.queue) +
                  ": descriptors are not in mapped memory, packet skipped");
    return true;
  }
  const std::span<const Descriptor> block(packet.block.data(), packet.pieces);
  uint64_t total = 0;
  for (const Descriptor& piece : block) total += piece.bytes;
  if (total == 0) {
    wedge(packet.queue);
    return false;
  }
  const auto bytes = static_cast<size_t>(std::min<uint64_t>(total, context_->config.max_frame_bytes));

  if (port != nullptr && port->wire() != nullptr) {
    const std::span<uint8_t> room = port->wire()->reserve(bytes);
    if (room.size() < bytes) return false;
    const std::span<uint8_t> frame = room.first(bytes);
    gather(block, frame);
    if (context_->dma.lost()) return false;
    insert_checksum(frame, block[0].tx_checksum);
    port->wire()->commit(bytes);
    ++context_->report.tx_frames;
    context_->report.tx_bytes += bytes;
  }
  complete(packet, bytes);
  return true;
}

uint32_t TxEngine::stream(uint16_t queue, uint8_t destination, Port& port, uint32_t most) {
  RingManager::Queue& ring = rings_->queue(queue);
  Wire* const wire = port.wire();
  if (wedged_ || wire == nullptr || ring.log2_block != 0 || port.tx_held(context_->now_ns)) return 0;
  const PtpClock::Stamp stamp = context_->stamp();
  Dma& dma = context_->dma;
  uint64_t bytes = 0;
  uint32_t done = 0;
  for (; done < most && !ring.empty(); ++done) {
    Descriptor piece;
    if (!dma.peek(ring.block_address(), sizeof(piece), piece) || piece.bytes == 0 ||
        piece.bytes > context_->config.max_frame_bytes)
      break;
    const std::span<uint8_t> room = wire->reserve(piece.bytes);
    if (room.size() < piece.bytes) break;
    dma.count_read(sizeof(piece));
    dma.read(piece.address, room.data(), piece.bytes);
    if (dma.lost()) [[unlikely]]
      break;
    if (piece.tx_checksum != 0) insert_checksum(room.first(piece.bytes), piece.tx_checksum);
    wire->commit(piece.bytes);
    bytes += piece.bytes;
    QueueEntry completion = completion_entry(queue, ring.consumer++, static_cast<uint16_t>(piece.bytes), stamp);
    set_hash_and_port(completion, 0, 0, destination);
    path_->complete(ring.completion_queue, completion);
  }
  context_->report.tx_frames += done;
  context_->report.tx_bytes += bytes;
  return done;
}

/// As observed with the RTL: the engine waits for data that never comes, and no register ends that. It goes on taking
/// packets from the rings, as it does for a port that is held.
void TxEngine::wedge(uint16_t queue) {
  wedged_ = true;
  ++context_->report.tx_wedged;
  context_->say("TX queue " + std::to_string(queue) +
                ": a packet of length zero. The TX engine of this interface is stuck until the card is reset");
}

void TxEngine::gather(std::span<const Descriptor> block, std::span<uint8_t> frame) {
  size_t done = 0;
  for (const Descriptor& piece : block) {
    const size_t count = std::min<size_t>(piece.bytes, frame.size() - done);
    if (count != 0) context_->dma.read(piece.address, frame.data() + done, count);
    done += count;
  }
}

void TxEngine::complete(const TakenPacket& packet, size_t bytes) {
  QueueEntry completion = completion_entry(packet.queue, packet.index, static_cast<uint16_t>(bytes), context_->stamp());
  set_hash_and_port(completion, 0, 0, packet.destination);
  path_->complete(packet.completion_queue, completion);
}

void insert_checksum(std::span<uint8_t> frame, uint16_t command) {
  if ((command & 0x8000) == 0) return;
  // tx_engine.v keeps only seven bits of the start, although the descriptor has eight.
  const size_t start = command & 0x7f;
  const size_t at = start + (command >> 8 & 0x7f);
  const uint16_t sum = start < frame.size() ? ones_complement_sum(frame.subspan(start)) : uint16_t{0};
  const auto inverted = static_cast<uint16_t>(~sum);
  if (at < frame.size()) frame[at] = static_cast<uint8_t>(inverted >> 8);
  if (at + 1 < frame.size()) frame[at + 1] = static_cast<uint8_t>(inverted);
}

}  // namespace mqnic::card
