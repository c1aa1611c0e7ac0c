// Our engine as the responder of a recorded conversation.
#include <algorithm>
#include <cstring>
#include <memory>

#include "replay/answer_pairs.h"
#include "replay/player.h"
#include "replay/text.h"
#include "transport/memory_table.h"
#include "transport/packet_count.h"
#include "transport/responder.h"

namespace uroce::replay {

namespace {

constexpr uint64_t kRegionMax = uint64_t{1} << 30;
constexpr uint32_t kReceiveMax = 64u << 20;
constexpr uint32_t kReadDepth = 255;

/// The memory of one rkey. Bytes that the peer did not write are supplied from the recorded response when they are
/// read.
struct Memory {
  std::unique_ptr<uint8_t[]> storage;
  uint8_t* bytes = nullptr;   // the byte at address `begin`, with the same alignment as that address
  std::vector<bool> written;  // by the peer, which must read back what it wrote
  std::vector<bool> shown;    // by a READ response
  uint64_t begin = 0;
  uint64_t length = 0;
  uint32_t key = 0;

  bool covers(uint64_t va, uint64_t count) const {
    return va >= begin && va - begin <= length && count <= length - (va - begin);
  }
};

class ResponderReplay {
 public:
  ResponderReplay(const Conversation& conversation, const ReplayOptions& options, PlayerPort& player_port)
      : conversation_(conversation),
        packets_(conversation.packets),
        parameters_(options.parameters),
        player_port_(player_port),
        learned_(learn_responder(conversation, options.parameters)) {
    result_.used.withheld = options.withheld;
  }
  RoleResult run();

 private:
  bool set_up();
  bool add_memory(uint32_t rkey, const LearnedRegion& learned);
  bool refuse(std::string why);
  void step(size_t at);
  void prepare(size_t at);
  void post_receive(size_t at);
  void supply_read(size_t at, bool again);
  void supply_atomic(size_t at);
  void note_write(size_t at);
  void collect(size_t at, bool duplicate);
  void say_what_was_learned();
  uint32_t key_of(const PacketView& view) const;
  Memory* memory_of(uint32_t rkey);
  bool reliable() const { return conversation_.service == Service::kRc; }

  const Conversation& conversation_;
  const std::vector<Recorded>& packets_;
  const Parameters& parameters_;
  PlayerPort& player_port_;
  const LearnedResponder learned_;
  RoleResult result_;
  std::unique_ptr<uint8_t[]> receive_buffer_;
  std::map<uint32_t, Memory> memory_;
  uint32_t receive_key_ = 0;
  std::unique_ptr<Player> player_;  // declared after the memory that it uses
  std::vector<OurAnswer> ours_;
  MsnByPsn progress_;
  Memory* write_memory_ = nullptr;  // where the WRITE under way goes
  uint64_t write_va_ = 0;
};

bool ResponderReplay::refuse(std::string why) {
  result_.outcome = ReplayOutcome::kSkipped;
  result_.why = std::move(why);
  return false;
}

bool ResponderReplay::add_memory(uint32_t rkey, const LearnedRegion& learned) {
  Memory& memory = memory_[rkey];
  const bool empty = learned.begin == learned.end;  // the key was only ever invalidated
  memory.begin = learned.begin;
  memory.length = empty ? 64 : learned.end - learned.begin;
  if (memory.length > kRegionMax) return refuse(format("the addresses used with rkey 0x%x span more than 1 GiB", rkey));
  memory.storage.reset(new uint8_t[memory.length + 16]);
  const auto misaligned = reinterpret_cast<uintptr_t>(memory.storage.get()) & 7;
  memory.bytes = memory.storage.get() + (8 - misaligned) % 8 + (memory.begin & 7);
  std::memset(memory.bytes, 0, memory.length);
  memory.written.resize(memory.length);
  memory.shown.resize(memory.length);
  MemoryTable& table = player_->engine().memory();
  const uint32_t access = learned.access | kLocalWrite;
  memory.key = table.register_region(player_->pd(), memory.bytes, memory.length, memory.begin, access | kMwBind);
  if (memory.key == 0) return refuse("the engine has no room for another region");
  if (!learned.window) return true;
  MwBind bind;
  bind.mw_rkey = bind.new_rkey = table.allocate_window(player_->pd(), true);
  bind.mr_lkey = memory.key;
  bind.addr = memory.begin;
  bind.length = memory.length;
  bind.access = learned.access;
  memory.key = table.bind_window(bind, player_->pd(), player_->qp().qpn());
  return memory.key != 0 || refuse("the engine refuses a memory window");
}

bool ResponderReplay::set_up() {
  PlayerSetup setup;
  setup.type = reliable() ? QpType::kRc : conversation_.service == Service::kUc ? QpType::kUc : QpType::kUd;
  setup.own = conversation_.responder;
  setup.peer = conversation_.requester;
  QpAttributes& attributes = setup.attributes;
  learn_path(conversation_, true, attributes.av);
  attributes.access = learned_.access;
  attributes.path_mtu_bytes = result_.mtu = learned_.mtu;
  attributes.rq_psn = learned_.first_psn;
  attributes.dest_qpn = conversation_.requester_qpn.value_or(0);
  attributes.min_rnr_timer = static_cast<uint8_t>(learned_.rnr_timer);
  attributes.max_dest_rd_atomic = static_cast<uint8_t>(parameters_.read_depth.value_or(kReadDepth));
  for (const Recorded& packet : packets_) {
    if (packet.usable() && packet.info().has(kHasDeth)) {
      attributes.qkey = packet.view.deth().qkey;
      break;
    }
  }
  player_ = std::make_unique<Player>(setup, player_port_);
  if (!player_->error().empty()) return refuse(player_->error());
  for (const auto& [rkey, region] : learned_.regions) {
    if (!add_memory(rkey, region)) return false;
  }
  receive_buffer_.reset(new uint8_t[kReceiveMax]);
  receive_key_ =
      player_->engine().memory().register_region(player_->pd(), receive_buffer_.get(), kReceiveMax, 0, kLocalWrite);
  return true;
}

Memory* ResponderReplay::memory_of(uint32_t rkey) {
  const auto found = memory_.find(rkey);
  return found == memory_.end() ? nullptr : &found->second;
}

/// Our key for the key in the packet. For a key with which nothing was accepted, it is one that does not exist.
uint32_t ResponderReplay::key_of(const PacketView& view) const {
  uint32_t rkey = 0;
  if (view.info->has(kHasReth)) rkey = view.reth().rkey;
  if (view.info->has(kHasAtomicEth)) rkey = view.atomic_eth().rkey;
  if (view.info->has(kHasIeth)) rkey = view.ieth().rkey;
  const auto found = memory_.find(rkey);
  return found == memory_.end() ? 0 : found->second.key;
}

/// Posts a receive that is long enough for the message, or too short if the recorded one was too short.
void ResponderReplay::post_receive(size_t at) {
  if (learned_.notes[at].fate == Fate::kNotReady || player_->qp().receives_queued() != 0) return;
  uint32_t bytes = conversation_.service == Service::kUd ? kGrhBytes : 0;
  Psn expected = packets_[at].psn();
  bool refused = false;
  for (size_t i = at; i < packets_.size(); i++) {
    const Recorded& packet = packets_[i];
    if (packet.response || !packet.usable() || packet.psn() != expected) continue;
    if (packet.info().operation != Operation::kSend || learned_.notes[i].fate == Fate::kLost) continue;
    refused = learned_.notes[i].fate == Fate::kRefused && !packet.info().has(kHasIeth);
    if (refused) break;
    bytes += packet.view.payload_bytes;
    expected += 1;
    if (packet.info().is_last()) break;
  }
  if (!refused) bytes = kReceiveMax;
  const Sge sge{0, bytes, receive_key_};
  RecvWr wr;
  wr.sges = &sge;
  wr.num_sge = 1;
  player_->engine().post_recv(player_->qp(), wr, player_->now());
}

/// Stores the bytes of the recorded response where the peer has written nothing. When a READ is asked for again, only
/// bytes that no response has shown yet are stored.
void ResponderReplay::supply_read(size_t at, bool again) {
  const Reth reth = packets_[at].view.reth();
  Memory* memory = memory_of(reth.rkey);
  if (memory == nullptr || !memory->covers(reth.va, reth.dma_length)) return;
  const uint32_t count = packets_of(reth.dma_length, learned_.mtu);
  std::vector<bool> have(count);
  uint32_t missing = count;
  for (size_t i = at + 1; i < packets_.size() && missing != 0; i++) {
    const Recorded& packet = packets_[i];
    if (!packet.response || !packet.usable() || packet.info().operation != Operation::kReadResponse) continue;
    const int32_t index = distance(packets_[at].psn(), packet.psn());
    if (index < 0 || index >= static_cast<int32_t>(count) || have[static_cast<size_t>(index)]) continue;
    have[static_cast<size_t>(index)] = true;
    missing--;
    const uint64_t offset = reth.va - memory->begin + uint64_t{learned_.mtu} * static_cast<uint32_t>(index);
    for (uint64_t k = 0; k < packet.view.payload_bytes && offset + k < memory->length; k++) {
      const bool free = !memory->written[offset + k] && !(again && memory->shown[offset + k]);
      if (free) memory->bytes[offset + k] = packet.view.payload[k];
      memory->shown[offset + k] = true;
    }
  }
}

void ResponderReplay::supply_atomic(size_t at) {
  const AtomicEth eth = packets_[at].view.atomic_eth();
  Memory* memory = memory_of(eth.rkey);
  if (memory == nullptr || !memory->covers(eth.va, 8)) return;
  const uint64_t offset = eth.va - memory->begin;
  for (size_t i = at + 1; i < packets_.size() && !memory->written[offset]; i++) {
    const Recorded& packet = packets_[i];
    if (!packet.response || !packet.usable() || packet.psn() != packets_[at].psn()) continue;
    if (packet.info().operation != Operation::kAtomicAcknowledge) continue;
    const uint64_t original = packet.view.atomic_ack_eth().original;
    std::memcpy(memory->bytes + offset, &original, sizeof original);
    break;
  }
  for (uint64_t k = 0; k < 8; k++) memory->written[offset + k] = true;
}

void ResponderReplay::note_write(size_t at) {
  const PacketView& view = packets_[at].view;
  if (view.info->is_first()) {
    write_memory_ = memory_of(view.reth().rkey);
    write_va_ = view.reth().va;
  }
  if (write_memory_ != nullptr && write_memory_->covers(write_va_, view.payload_bytes)) {
    const auto from = write_memory_->written.begin() + static_cast<int64_t>(write_va_ - write_memory_->begin);
    std::fill(from, from + view.payload_bytes, true);
  }
  write_va_ += view.payload_bytes;
}

/// Called before a request that our responder will carry out: provides what the program would have prepared.
void ResponderReplay::prepare(size_t at) {
  const OpcodeInfo& info = packets_[at].info();
  switch (info.operation) {
    case Operation::kSend:
      if (info.is_first()) post_receive(at);
      break;
    case Operation::kWrite:
      if (info.has(kHasImm)) post_receive(at);
      note_write(at);
      break;
    case Operation::kAtomicWrite:
      note_write(at);
      break;
    case Operation::kReadRequest:
      supply_read(at, false);
      break;
    case Operation::kCompareSwap:
    case Operation::kFetchAdd:
      supply_atomic(at);
      break;
    default:
      break;
  }
}

void ResponderReplay::collect(size_t at, bool duplicate) {
  for (Bytes& bytes : player_->sent) {
    OurAnswer answer;
    answer.bytes = std::move(bytes);
    if (parse_frame(answer.bytes, answer.view) != ParseResult::kOk) continue;
    if (parameters_.msn && answer.view.info->has(kHasAeth)) {
      // Our MSN began to count at 0.
      uint8_t* const aeth = answer.bytes.data() + (answer.view.ext - answer.bytes.data());
      store_be24(aeth + 1, (answer.view.aeth().msn + *parameters_.msn) & 0xFFFFFF);
      Recorded whole;
      whole.bytes = answer.bytes;
      whole.parsed = whole.icrc_right = parse_frame(whole.bytes, whole.view) == ParseResult::kOk;
      answer.bytes = Player::readdressed(whole, answer.view.bth.dest_qp, 0);
      parse_frame(answer.bytes, answer.view);
    }
    answer.cause = at;
    answer.duplicate = duplicate;
    answer.reasons = player_->reasons;
    const std::string too_short = cause_text(Cause::kReceiveTooShort);
    answer.refused_send = std::find(answer.reasons.begin(), answer.reasons.end(), too_short) != answer.reasons.end();
    ours_.push_back(std::move(answer));
  }
  player_->sent.clear();
  player_->reasons.clear();
}

void ResponderReplay::step(size_t at) {
  const Recorded& packet = packets_[at];
  const bool lost = packet.usable() && learned_.notes[at].fate == Fate::kLost;
  if (lost && result_.used.grants(Tolerance::kLostRequest)) {
    result_.lost_frames.push_back(packet.frame);
    use(result_.used, Tolerance::kLostRequest);
    return;
  }
  const Psn expected = reliable() ? player_->qp().responder()->epsn() : packet.psn();
  const int32_t ahead = packet.parsed ? distance(expected, packet.psn()) : 0;
  if (packet.usable() && ahead == 0) prepare(at);
  if (packet.usable() && ahead < 0 && packet.info().operation == Operation::kReadRequest) supply_read(at, true);
  player_->deliver(Player::readdressed(packet, player_->qp().qpn(), packet.parsed ? key_of(packet.view) : 0));
  player_->turn(Player::kNoLimit);
  result_.injected++;
  if (reliable()) {
    const Responder& responder = *player_->qp().responder();
    progress_[(responder.epsn() - 1).value()] = (responder.msn() + parameters_.msn.value_or(0)) & Psn::kMask;
  }
  collect(at, ahead < 0);
}

void ResponderReplay::say_what_was_learned() {
  result_.learned.push_back(format("path MTU %u%s", learned_.mtu, learned_.mtu_proven ? "" : " (not proven)"));
  result_.learned.push_back(format("first PSN 0x%x", learned_.first_psn.value()));
  for (const auto& [rkey, region] : learned_.regions) {
    result_.learned.push_back(
        format("rkey 0x%x: 0x%llx, %llu bytes%s%s%s%s", rkey, static_cast<unsigned long long>(region.begin),
               static_cast<unsigned long long>(region.end - region.begin),
               (region.access & kRemoteRead) != 0 ? ", read" : "", (region.access & kRemoteWrite) != 0 ? ", write" : "",
               (region.access & kRemoteAtomic) != 0 ? ", atomic" : "", region.window ? ", a window" : ""));
  }
}

RoleResult ResponderReplay::run() {
  if (!set_up()) return std::move(result_);
  say_what_was_learned();
  const Instant start = player_->now();
  for (size_t at = 0; at < packets_.size(); at++) {
    if (packets_[at].response) continue;
    player_->set_time(start + (packets_[at].time - packets_.front().time));
    step(at);
  }
  pair_answers(conversation_, ours_, progress_, result_);
  return std::move(result_);
}

}  // namespace

RoleResult replay_responder(const Conversation& conversation, const ReplayOptions& options, PlayerPort& player_port) {
  return ResponderReplay(conversation, options, player_port).run();
}

}  // namespace uroce::replay
