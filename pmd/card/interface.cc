#include "pmd/card/interface.h"

#include <algorithm>
#include <bit>

#include "pmd/card/block_header.h"
#include "pmd/hw/doorbell_page.h"
#include "pmd/hw/registers.h"

namespace mqnic::card {
namespace {

constexpr uint32_t kRingStride = queue_manager::kRingStride, kCqStride = queue_manager::kCompletionStride;
constexpr uint32_t kQueueBlockBytes = 0x20;

}  // namespace

Interface::Interface(Context& context, const Layout& layout, std::span<Wire* const> wires)
    : context_(&context),
      layout_(&layout),
      tx_(context.config.tx_queues, context.config.completion_queues, context.config.log2_block_max),
      rx_(context.config.rx_queues, context.config.completion_queues, context.config.log2_block_max),
      completions_(context.config.completion_queues, context.config.event_queues),
      events_(context.config.event_queues, context.config.interrupts),
      queue_map_(context.config.ports_per_interface, context.config.log2_rss_table, context.config.rx_queues),
      path_(context, completions_, events_),
      tx_engine_(context, path_, tx_),
      rx_engine_(context, path_, rx_, queue_map_),
      tx_mtu_(context.config.max_frame_bytes),
      rx_mtu_(context.config.max_frame_bytes) {
  const unsigned ports = context.config.ports_per_interface;
  schedulers_.reserve(ports);
  taken_.resize(ports);
  ports_.reserve(ports);
  for (unsigned i = 0; i < ports; ++i) {
    // A destination consists of a port and four bits of traffic class.
    schedulers_.emplace_back(context.config.tx_queues, static_cast<uint8_t>(i << 4));
    ports_.emplace_back(context.config, i < wires.size() ? wires[i] : nullptr, context.report);
  }
}

/// Like the RTL's `rst`: what is under way is forgotten, and ports and schedulers are off; but the queues' registers
/// are memory, which has no reset, so queues stay enabled with the addresses that they had.
void Interface::reset() {
  queue_map_.reset();
  for (Scheduler& scheduler : schedulers_) scheduler.reset();
  for (TakenPackets& taken : taken_) taken.clear();
  for (Port& port : ports_) port.reset();
  tx_engine_.reset();
  tx_mtu_ = rx_mtu_ = context_->config.max_frame_bytes;
  for (size_t i = 0; i < tx_.count(); ++i) forget_word(Kind::kTx, i);
  for (size_t i = 0; i < rx_.count(); ++i) forget_word(Kind::kRx, i);
  for (size_t i = 0; i < completions_.count(); ++i) forget_word(Kind::kCompletion, i);
  for (size_t i = 0; i < events_.count(); ++i) forget_word(Kind::kEvent, i);
}

// ---- Registers

/// The queue whose registers are at `offset` of a window; `at` becomes the offset among them. A queue number has only
/// as many bits as the number of queues needs, so one past the last may name a low one again.
size_t Interface::queue_at(Kind kind, uint32_t offset, uint32_t& at) const {
  const bool ring = kind == Kind::kTx || kind == Kind::kRx;
  const uint32_t stride = ring ? kRingStride : kCqStride;
  at = offset % stride;
  return offset / stride & (std::bit_ceil(queue_count(kind)) - 1);
}

size_t Interface::queue_count(Kind kind) const {
  const size_t counts[] = {tx_.count(), rx_.count(), completions_.count(), events_.count()};
  return counts[static_cast<size_t>(kind)];
}

uint32_t Interface::read_queue(Kind kind, uint32_t offset) const {
  uint32_t at = 0;
  const size_t queue = queue_at(kind, offset, at);
  if (queue >= queue_count(kind)) return 0;
  switch (kind) {
    case Kind::kTx:
      return tx_.read(queue, at);
    case Kind::kRx:
      return rx_.read(queue, at);
    case Kind::kCompletion:
      return completions_.read(queue, at);
    case Kind::kEvent:
      return events_.read(queue, at);
  }
  return 0;
}

uint32_t Interface::read(uint32_t offset) {
  if (offset < layout_->table_offset) return read_control(offset - layout_->csr_bytes);
  if (offset < layout_->event_offset) return queue_map_.read_table((offset - layout_->table_offset) / 4);
  if (offset < layout_->completion_offset) return read_queue(Kind::kEvent, offset - layout_->event_offset);
  if (offset < layout_->tx_offset) return read_queue(Kind::kCompletion, offset - layout_->completion_offset);
  if (offset < layout_->rx_offset) return read_queue(Kind::kTx, offset - layout_->tx_offset);
  if (offset < layout_->scheduler_offset) return read_queue(Kind::kRx, offset - layout_->rx_offset);
  const uint32_t scheduler = (offset - layout_->scheduler_offset) / layout_->scheduler_stride;
  const uint32_t channel = (offset - layout_->scheduler_offset) % layout_->scheduler_stride / 4;
  if (scheduler >= schedulers_.size() || channel >= tx_.count()) return 0;
  return schedulers_[scheduler].read_channel(channel);
}

bool Interface::write(uint32_t offset, uint32_t value) {
  if (offset < layout_->table_offset) return write_control(offset - layout_->csr_bytes, value);
  if (offset < layout_->event_offset) return queue_map_.write_table((offset - layout_->table_offset) / 4, value);
  if (offset < layout_->completion_offset) return write_queue(Kind::kEvent, offset - layout_->event_offset, value);
  if (offset < layout_->tx_offset) return write_queue(Kind::kCompletion, offset - layout_->completion_offset, value);
  if (offset < layout_->rx_offset) return write_queue(Kind::kTx, offset - layout_->tx_offset, value);
  if (offset < layout_->scheduler_offset) return write_queue(Kind::kRx, offset - layout_->rx_offset, value);
  const uint32_t scheduler = (offset - layout_->scheduler_offset) / layout_->scheduler_stride;
  const uint32_t channel = (offset - layout_->scheduler_offset) % layout_->scheduler_stride / 4;
  if (scheduler >= schedulers_.size() || channel >= tx_.count()) return false;
  return schedulers_[scheduler].write_channel(channel, value);
}

uint32_t Interface::read_control(uint32_t offset) {
  namespace reg = interface_control;
  const CardConfig& config = context_->config;
  const auto ports = static_cast<uint32_t>(ports_.size());
  if (offset >= kPortBlocks) {
    const uint32_t block = (offset - kPortBlocks) / kBlockStride, at = (offset - kPortBlocks) % kBlockStride;
    if (block < ports) return read_port_block(block, at);
    return block < 2 * ports ? read_scheduler_block(block - ports, at) : 0;
  }
  if (offset >= kQueueMapBlock) return read_queue_map(offset - kQueueMapBlock);
  if (offset >= kEventBlock) return read_queue_block(offset);
  switch (offset) {
    case kBlockType:
    case kBlockVersion:
    case kBlockNext:
      return block_header(BlockType::kInterfaceControl, version::kInterfaceControl, layout_->csr_bytes + kEventBlock,
                          offset);
    case reg::kFeatures:
      return reg::kRss | (config.ptp ? reg::kPtpTimestamps : 0) | reg::kTxChecksum | reg::kRxChecksum | reg::kRxHash |
             reg::kLinkFlowControl | reg::kPriorityFlowControl;
    case reg::kPortCount:
    case reg::kSchedulerCount:
      return ports;
    case reg::kMaxTxMtu:
    case reg::kMaxRxMtu:
      return config.max_frame_bytes;
    case reg::kTxMtu:
      return tx_mtu_;
    case reg::kRxMtu:
      return rx_mtu_;
    case reg::kTxFifoBytes:
      return config.tx_fifo_bytes;
    case reg::kRxFifoBytes:
      return config.rx_fifo_bytes;
    default:
      return 0;
  }
}

bool Interface::write_control(uint32_t offset, uint32_t value) {
  const auto ports = static_cast<uint32_t>(ports_.size());
  if (offset >= kPortBlocks) {
    const uint32_t block = (offset - kPortBlocks) / kBlockStride, at = (offset - kPortBlocks) % kBlockStride;
    if (block < ports) return write_port_block(block, at, value);
    return block < 2 * ports && write_scheduler_block(block - ports, at, value);
  }
  if (offset >= kQueueMapBlock + rx_queue_map::kPorts) {
    const uint32_t at = offset - kQueueMapBlock - rx_queue_map::kPorts;
    const uint32_t port = at / rx_queue_map::kPortStride;
    return port < ports && queue_map_.write(port, at % rx_queue_map::kPortStride, value);
  }
  if (offset == interface_control::kTxMtu) {
    tx_mtu_ = value & 0xffff;  // stored, but tx_engine.v does not use it
    return true;
  }
  if (offset == interface_control::kRxMtu) {
    rx_mtu_ = value & 0xffff;
    return true;
  }
  return false;
}

/// The four queue managers, 0x20 bytes each.
uint32_t Interface::read_queue_block(uint32_t offset) const {
  struct Block {
    BlockType type;
    uint32_t next, offset, count, stride;
  };
  const uint32_t list = layout_->csr_bytes;
  const Block blocks[] = {
      {BlockType::kEventQueues, list + kCompletionBlock, layout_->event_offset, context_->config.event_queues,
       kCqStride},
      {BlockType::kCompletionQueues, list + kTxBlock, layout_->completion_offset, context_->config.completion_queues,
       kCqStride},
      {BlockType::kTxQueues, list + kRxBlock, layout_->tx_offset, context_->config.tx_queues, kRingStride},
      {BlockType::kRxQueues, list + kQueueMapBlock, layout_->rx_offset, context_->config.rx_queues, kRingStride},
  };
  const uint32_t number = (offset - kEventBlock) / kQueueBlockBytes, at = (offset - kEventBlock) % kQueueBlockBytes;
  if (number >= std::size(blocks)) return 0;
  const Block& block = blocks[number];
  switch (at) {
    case queue_manager::kOffset:
      return block.offset;
    case queue_manager::kCount:
      return block.count;
    case queue_manager::kStride:
      return block.stride;
    default:
      return at < kBlockHeaderBytes ? block_header(block.type, version::kQueueManager, block.next, at) : 0;
  }
}

uint32_t Interface::read_queue_map(uint32_t offset) const {
  const auto ports = static_cast<uint32_t>(ports_.size());
  if (offset < kBlockHeaderBytes) {
    return block_header(BlockType::kRxQueueMap, version::kRxQueueMap, layout_->csr_bytes + kPortBlocks, offset);
  }
  if (offset == rx_queue_map::kConfig) return ports | context_->config.log2_rss_table << 8;
  const uint32_t port = (offset - rx_queue_map::kPorts) / rx_queue_map::kPortStride;
  if (port >= ports) return 0;
  return queue_map_.read(port, (offset - rx_queue_map::kPorts) % rx_queue_map::kPortStride, layout_->table_offset);
}

/// A port's block, followed by the port's own list of one block.
uint32_t Interface::read_port_block(unsigned port, uint32_t offset) {
  const uint32_t here = layout_->csr_bytes + kPortBlocks + port * kBlockStride;
  if (offset < kBlockHeaderBytes) return block_header(BlockType::kPort, version::kPort, here + kBlockStride, offset);
  if (offset == port::kListOffset) return here + kSubListOffset;
  const uint32_t at = offset - kSubListOffset;
  if (at < kBlockHeaderBytes) return block_header(BlockType::kPortControl, version::kPortControl, 0, at);
  uint32_t value = 0;
  return ports_[port].read(at, context_->now_ns, value) ? value : 0;
}

bool Interface::write_port_block(unsigned port, uint32_t offset, uint32_t value) {
  return offset >= kSubListOffset && ports_[port].write(offset - kSubListOffset, value);
}

uint32_t Interface::read_scheduler_block(unsigned scheduler, uint32_t offset) const {
  namespace reg = scheduler_round_robin;
  const auto count = static_cast<uint32_t>(ports_.size());
  const uint32_t here = layout_->csr_bytes + kPortBlocks + (count + scheduler) * kBlockStride;
  const uint32_t next = scheduler + 1 < count ? here + kBlockStride : 0;
  if (offset < kBlockHeaderBytes) return block_header(BlockType::kScheduler, version::kScheduler, next, offset);
  if (offset == scheduler::kListOffset) return here + kSubListOffset;
  const uint32_t at = offset - kSubListOffset;
  switch (at) {
    case reg::kOffset:
      return layout_->scheduler_offset + scheduler * layout_->scheduler_stride;
    case reg::kChannelCount:
      return context_->config.tx_queues;
    case reg::kChannelStride:
      return 4;
    case reg::kControl:
      return schedulers_[scheduler].enabled() ? reg::kEnable : 0;
    case reg::kDestination:
      return schedulers_[scheduler].destination();
    default:
      return at < kBlockHeaderBytes
                 ? block_header(BlockType::kSchedulerRoundRobin, version::kSchedulerRoundRobin, 0, at)
                 : 0;
  }
}

bool Interface::write_scheduler_block(unsigned scheduler, uint32_t offset, uint32_t value) {
  if (offset == kSubListOffset + scheduler_round_robin::kControl) {
    schedulers_[scheduler].set_enabled((value & scheduler_round_robin::kEnable) != 0);
    return true;
  }
  if (offset == kSubListOffset + scheduler_round_robin::kDestination) {
    // Four bits of traffic class, and as many of the port as there are ports.
    schedulers_[scheduler].set_destination(static_cast<uint8_t>(value & ((std::bit_ceil(ports_.size()) << 4) - 1)));
    return true;
  }
  return false;
}

// ---- Queues and their doorbells

bool Interface::write_queue(Kind kind, uint32_t window_offset, uint32_t value) {
  uint32_t offset = 0;
  const size_t queue = queue_at(kind, window_offset, offset);
  if (queue >= queue_count(kind)) return false;
  const auto number = static_cast<uint16_t>(queue);
  take_word(kind, number);  // its value is from before this write
  QueueWrite outcome;
  switch (kind) {
    case Kind::kTx:
      outcome = tx_.write(queue, offset, value);
      break;
    case Kind::kRx:
      outcome = rx_.write(queue, offset, value);
      break;
    case Kind::kCompletion:
      outcome = completions_.write(queue, offset, value);
      break;
    case Kind::kEvent:
      outcome = events_.write(queue, offset, value);
      break;
  }
  apply(kind, number, outcome);
  return outcome.accepted;
}

void Interface::apply(Kind kind, uint16_t queue, const QueueWrite& outcome) {
  if (kind == Kind::kTx) {
    if (outcome.doorbell) {
      for (Scheduler& scheduler : schedulers_) scheduler.doorbell(queue);
    } else if (outcome.enable_changed && tx_.queue(queue).enabled && !tx_.queue(queue).empty()) {
      ++context_->report.doorbells_lost;  // what is in the ring waits for another doorbell
    }
  }
  if (!outcome.event) return;
  if (kind == Kind::kCompletion) {
    path_.event(outcome.target, queue);
  } else {
    context_->interrupts.request(outcome.target, context_->now_ns);
  }
}

/// Takes a command out of a doorbell word, so that the same value written again is a doorbell again.
void Interface::take_word(Kind kind, uint16_t queue) {
  if (words_ == nullptr) return;
  volatile uint32_t* word = &words_[doorbell_page::word_index(0, static_cast<unsigned>(kind), queue)];
  if (*word == 0) return;
  const uint32_t command = __atomic_exchange_n(word, 0u, __ATOMIC_ACQUIRE);
  const uint32_t kind_of_command = command >> 16;
  QueueWrite outcome;
  if (kind == Kind::kTx || kind == Kind::kRx) {
    RingManager& rings = kind == Kind::kTx ? tx_ : rx_;
    if (kind_of_command == command::set_producer(0) >> 16) {
      outcome = rings.write(queue, ring_register::kCommand, command);
    }
  } else {
    CompletionManager& queues = kind == Kind::kCompletion ? completions_ : events_;
    if (kind_of_command == command::set_consumer(0) >> 16 ||
        kind_of_command == command::set_consumer_and_arm(0) >> 16) {
      outcome = queues.write(queue, cq_register::kCommand, command);
    }
  }
  if (!outcome.accepted) ++context_->report.bad_register_writes;
  apply(kind, queue, outcome);
}

void Interface::forget_word(Kind kind, size_t queue) {
  if (words_ == nullptr) return;
  words_[doorbell_page::word_index(0, static_cast<unsigned>(kind), static_cast<unsigned>(queue))] = 0;
}

void Interface::poll_doorbells() {
  if (words_ == nullptr) return;
  // Producers are taken first: the host acknowledges completions before it writes a new producer, so the consumers that
  // are read afterwards are at least as new. In the other order, completions could be lost in a completion queue that
  // looks full although the host has made room.
  for (const uint16_t queue : rx_.enabled()) take_word(Kind::kRx, queue);
  for (const uint16_t queue : tx_.enabled()) take_word(Kind::kTx, queue);
  for (const uint16_t queue : completions_.enabled()) take_word(Kind::kCompletion, queue);
  for (const uint16_t queue : events_.enabled()) take_word(Kind::kEvent, queue);
}

// ---- Frames

uint32_t Interface::run(uint32_t budget) {
  uint32_t done = 0;
  for (unsigned i = 0; i < schedulers_.size(); ++i) done += transmit(i, budget);
  for (unsigned i = 0; i < ports_.size(); ++i) {
    done += receive(i, budget);
    done += ports_[i].send_pause(context_->now_ns);
  }
  return done;
}

uint32_t Interface::transmit(unsigned number, uint32_t budget) {
  Scheduler& scheduler = schedulers_[number];
  TakenPackets& taken = taken_[number];
  const auto port_to = [this](uint8_t destination) {
    const size_t port = destination >> 4;
    return port < ports_.size() ? &ports_[port] : nullptr;
  };
  uint32_t done = 0;
  for (; done < budget && !taken.empty() && tx_engine_.send(taken.front(), port_to(taken.front().destination));
       ++done) {
    taken.pop();
  }
  TakenPacket packet;
  while (done < budget && !taken.full()) {
    const std::optional<uint16_t> queue = scheduler.front();
    if (!queue) break;
    if (!tx_.queue(*queue).enabled || tx_.queue(*queue).empty()) {
      scheduler.idle();
      continue;
    }
    // While only one queue waits, it is its turn again and again.
    Port* const port = port_to(scheduler.destination());
    if (taken.empty() && port != nullptr && scheduler.alone()) {
      const uint32_t sent = tx_engine_.stream(*queue, scheduler.destination(), *port, budget - done);
      done += sent;
      if (sent != 0) continue;
    }
    tx_engine_.take(*queue, scheduler.destination(), packet);
    scheduler.sent();
    if (!taken.empty() || !tx_engine_.send(packet, port_to(packet.destination))) taken.push(packet);
    ++done;
  }
  return done;
}

/// Moves frames from the FIFO ahead into the main one, from which the RX engine takes them.
uint32_t Interface::empty_fifos(Port& port, uint8_t number, uint32_t budget) {
  RxFifo &fifo = port.fifo(), &ahead = port.ahead();
  uint32_t done = 0;
  while (done < budget && !port.rx_held() && !(fifo.empty() && ahead.empty())) {
    if (!ahead.empty() && (port.take_control_frame(ahead.front(), context_->now_ns) || fifo.push(ahead.front()))) {
      ahead.pop();
      continue;
    }
    if (fifo.empty()) {  // even an empty FIFO is too small for this frame
      ahead.pop();
      ++context_->report.rx_dropped_fifo_full;
      continue;
    }
    if (context_->host_blocked) break;
    rx_engine_.receive(fifo.front(), number, rx_mtu_);
    fifo.pop();
    ++done;
  }
  return done;
}

uint32_t Interface::receive(unsigned number, uint32_t budget) {
  Port& port = ports_[number];
  const auto id = static_cast<uint8_t>(number);
  CardReport& report = context_->report;
  uint32_t done = empty_fifos(port, id, budget);
  Wire* const wire = port.wire();
  if (wire == nullptr) return done;
  const bool straight = !port.rx_held() && !context_->host_blocked;  // the FIFOs are empty, so frames bypass them
  if (done == budget) return done;
  for (std::span<const uint8_t> frame = wire->front(); !frame.empty(); frame = wire->next()) {
    if (straight) {
      if (!port.take_control_frame(frame, context_->now_ns)) rx_engine_.receive(frame, id, rx_mtu_);
    } else if (!port.rx_enabled()) {
      if (!port.keep(frame)) ++report.rx_dropped_port_off;
    } else if (port.take_control_frame(frame, context_->now_ns)) {
      // the port took it
    } else if (port.rx_held() || !port.ahead().empty() || !port.fifo().push(frame)) {
      if (!port.keep(frame)) ++report.rx_dropped_fifo_full;
    }
    if (++done == budget) {
      wire->pop();
      break;
    }
  }
  return done;
}

void Interface::flush_wires() {
  for (Port& port : ports_) {
    if (port.wire() != nullptr) port.wire()->flush(context_->now_ns);
  }
}

}  // namespace mqnic::card
