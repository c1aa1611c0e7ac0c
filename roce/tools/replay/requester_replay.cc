// Our engine as the requester of a recorded conversation.
//
// The two sides keep in step: for each recorded request our engine may send one packet, which is compared with it.
#include <algorithm>
#include <cstring>
#include <memory>

#include "replay/learned_responder.h"
#include "replay/player.h"
#include "replay/replay.h"
#include "replay/text.h"
#include "transport/memory_table.h"
#include "transport/send_queue.h"
#include "transport/timing.h"

namespace uroce::replay {

namespace {

constexpr uint64_t kReadMax = uint64_t{1} << 30;
constexpr unsigned kTimersMax = 4;  // how many timers may run out before one packet

/// A work request, put together from the packets that carried it.
struct Message {
  size_t first = 0;     // index of its first packet
  uint64_t offset = 0;  // of its payload, in the arena
  uint64_t length = 0;
  bool open = false;  // its last packet is not in the capture
  SendWr wr;
};

class RequesterReplay {
 public:
  RequesterReplay(const Conversation& conversation, const ReplayOptions& options, PlayerPort& player_port)
      : conversation_(conversation),
        packets_(conversation.packets),
        parameters_(options.parameters),
        player_port_(player_port) {
    result_.mtu = learn_mtu(conversation, parameters_, mtu_proven_);
    result_.used.withheld = options.withheld;
  }
  RoleResult run();

 private:
  bool refuse(std::string why);
  bool reconstruct();
  bool add_packet(size_t at);
  void begin_message(size_t at);
  bool set_up();
  void post(const Message& message);
  void on_response(size_t at);
  void hand_in();
  void on_request(size_t at);
  void check_rnr_wait(const Recorded& recorded);
  bool send_one(const Recorded& recorded, bool again);
  void at_end();
  bool reliable() const { return conversation_.service == Service::kRc; }

  const Conversation& conversation_;
  const std::vector<Recorded>& packets_;
  const Parameters& parameters_;
  PlayerPort& player_port_;
  RoleResult result_;
  bool mtu_proven_ = false;
  Psn first_psn_;
  Psn next_psn_;
  bool any_ = false;
  std::vector<Message> messages_;
  Bytes arena_;
  uint64_t read_max_ = 8;
  std::unique_ptr<uint8_t[]> sink_;
  uint32_t arena_key_ = 0;
  uint32_t sink_key_ = 0;
  std::unique_ptr<Player> player_;
  const Recorded* first_of_path_ = nullptr;
  size_t next_message_ = 0;
  std::vector<size_t> pending_;        // answers that were not delivered yet
  bool holding_ = false;               // one of them makes our engine go back
  const Recorded* rnr_nak_ = nullptr;  // the newest RNR NAK
  Psn sent_until_;
  Psn continues_at_;
  Instant start_{0};
};

bool RequesterReplay::refuse(std::string why) {
  result_.outcome = ReplayOutcome::kSkipped;
  result_.why = std::move(why);
  return false;
}

void RequesterReplay::begin_message(size_t at) {
  const PacketView& view = packets_[at].view;
  const OpcodeInfo& info = *view.info;
  Message message;
  message.first = at;
  message.offset = arena_.size();
  switch (info.operation) {
    case Operation::kSend:
      message.wr.opcode = WrOpcode::kSend;
      break;
    case Operation::kWrite:
      message.wr.opcode = WrOpcode::kRdmaWrite;
      break;
    case Operation::kReadRequest:
      message.wr.opcode = WrOpcode::kRdmaRead;
      message.length = view.reth().dma_length;
      read_max_ = std::max(read_max_, message.length);
      break;
    case Operation::kFlush: {
      const Feth feth = view.feth();
      message.wr.opcode = WrOpcode::kFlush;
      message.wr.flush = {view.reth().dma_length, feth.placement, static_cast<FlushLevel>(feth.selectivity)};
      break;
    }
    case Operation::kAtomicWrite:
      message.wr.opcode = WrOpcode::kAtomicWrite;
      break;
    default:
      message.wr.opcode = info.operation == Operation::kFetchAdd ? WrOpcode::kFetchAdd : WrOpcode::kCompareSwap;
      message.length = 8;
  }
  if (info.has(kHasReth)) {
    message.wr.remote_addr = view.reth().va;
    message.wr.rkey = view.reth().rkey;
  } else if (info.has(kHasAtomicEth)) {
    const AtomicEth eth = view.atomic_eth();
    const bool add = info.operation == Operation::kFetchAdd;
    message.wr.remote_addr = eth.va;
    message.wr.rkey = eth.rkey;
    message.wr.compare_add = add ? eth.swap_add : eth.compare;
    message.wr.swap = add ? 0 : eth.swap_add;
  }
  if (info.has(kHasDeth)) {
    message.wr.remote_qpn = view.bth.dest_qp;
    message.wr.remote_qkey = view.deth().qkey;
  }
  message.open = true;
  messages_.push_back(message);
}

/// Takes a packet that was never sent before: the next of the message under way, or the first of a new one.
bool RequesterReplay::add_packet(size_t at) {
  const PacketView& view = packets_[at].view;
  const OpcodeInfo& info = *view.info;
  const bool inside = !messages_.empty() && messages_.back().open;
  if (info.is_first() == inside) {
    return refuse(format("frame %llu does not go on as its message began: no requester of ours sends that",
                         static_cast<unsigned long long>(packets_[at].frame)));
  }
  if (!inside) begin_message(at);
  Message& message = messages_.back();
  if (info.has(kHasPayload)) {
    arena_.insert(arena_.end(), view.payload, view.payload + view.payload_bytes);
    message.length += view.payload_bytes;
  }
  if (!info.is_last()) return true;
  message.open = false;
  if (view.bth.solicited) message.wr.flags |= kSendSolicited;
  if (info.has(kHasImm)) {
    message.wr.imm_or_rkey = view.imm().imm;
    message.wr.opcode = message.wr.opcode == WrOpcode::kSend ? WrOpcode::kSendWithImm : WrOpcode::kRdmaWriteWithImm;
  } else if (info.has(kHasIeth)) {
    message.wr.imm_or_rkey = view.ieth().rkey;
    message.wr.opcode = WrOpcode::kSendWithInv;
  }
  return true;
}

bool RequesterReplay::reconstruct() {
  for (size_t at = 0; at < packets_.size(); at++) {
    const Recorded& packet = packets_[at];
    if (packet.response) continue;
    const auto frame = static_cast<unsigned long long>(packet.frame);
    if (!packet.parsed) return refuse(format("frame %llu is malformed: no requester of ours sends that", frame));
    if (!packet.icrc_right) {
      return refuse(format("frame %llu has a wrong iCRC: no requester of ours sends that", frame));
    }
    if (!any_) first_psn_ = next_psn_ = packet.psn();
    any_ = true;
    const int32_t ahead = distance(next_psn_, packet.psn());
    if (ahead > 0) {
      return refuse(
          format("frame %llu is %d PSNs ahead of the sequence: the capture lacks packets, or the requester "
                 "breaks the rules",
                 frame, ahead));
    }
    if (ahead < 0) continue;
    if (packet.view.bth.pkey != kDefaultPkey) return refuse(format("frame %llu has another P_Key than ours", frame));
    if (!add_packet(at)) return false;
    next_psn_ = end_of(packet.view, result_.mtu);
  }
  if (!any_) return refuse("there are no requests");
  // Completes a message that lacks its end, so that the packets that were seen are not its last.
  if (!messages_.empty() && messages_.back().open) {
    Message& last = messages_.back();
    const OpcodeInfo& info = packets_[last.first].info();
    const uint64_t whole = info.has(kHasReth) ? packets_[last.first].view.reth().dma_length : last.length + result_.mtu;
    if (whole > kReadMax) return refuse("a message is longer than 1 GiB");
    arena_.resize(arena_.size() + (whole > last.length ? whole - last.length : 0));
    last.length = std::max(whole, last.length);
  }
  if (read_max_ > kReadMax) return refuse("a READ is longer than 1 GiB");
  return true;
}

bool RequesterReplay::set_up() {
  PlayerSetup setup;
  setup.type = reliable() ? QpType::kRc : conversation_.service == Service::kUc ? QpType::kUc : QpType::kUd;
  setup.own = conversation_.requester;
  setup.peer = conversation_.responder;
  setup.send_work_requests = static_cast<uint32_t>(std::min<size_t>(messages_.size() + 1, 1 << 16));
  QpAttributes& attributes = setup.attributes;
  first_of_path_ = learn_path(conversation_, false, attributes.av);
  attributes.path_mtu_bytes = result_.mtu;
  attributes.sq_psn = first_psn_;
  attributes.dest_qpn = conversation_.responder_qpn;
  attributes.max_rd_atomic = static_cast<uint8_t>(parameters_.read_depth.value_or(255));
  attributes.timeout = 14;
  if (!messages_.empty()) attributes.qkey = messages_.front().wr.remote_qkey;
  player_ = std::make_unique<Player>(setup, player_port_);
  if (!player_->error().empty()) return refuse(player_->error());
  MemoryTable& table = player_->engine().memory();
  arena_.resize(arena_.size() + 1);
  sink_.reset(new uint8_t[read_max_]);
  arena_key_ = table.register_region(player_->pd(), arena_.data(), arena_.size(), 0, kLocalWrite);
  sink_key_ = table.register_region(player_->pd(), sink_.get(), read_max_, 0, kLocalWrite);
  sent_until_ = continues_at_ = first_psn_;
  start_ = player_->now();
  result_.learned.push_back(format("path MTU %u%s", result_.mtu, mtu_proven_ ? "" : " (not proven)"));
  result_.learned.push_back(format("first PSN 0x%x", first_psn_.value()));
  result_.learned.push_back(format("%zu work requests", messages_.size()));
  return true;
}

void RequesterReplay::post(const Message& message) {
  SendWr wr = message.wr;
  const bool fetches =
      wr.opcode == WrOpcode::kRdmaRead || wr.opcode == WrOpcode::kCompareSwap || wr.opcode == WrOpcode::kFetchAdd;
  const Sge sge{fetches ? 0 : message.offset, static_cast<uint32_t>(message.length), fetches ? sink_key_ : arena_key_};
  wr.sges = &sge;
  wr.num_sge = message.length == 0 || is_placement(wr.opcode) ? 0 : 1;
  if (wr.opcode == WrOpcode::kAtomicWrite && message.length == sizeof wr.swap) {
    std::memcpy(&wr.swap, arena_.data() + message.offset, sizeof wr.swap);
  }
  wr.ah = player_->address_handle();
  wr.flags |= kSendSignaled;
  const PostResult posted = player_->engine().post_send(player_->qp(), wr, player_->now());
  if (posted == PostResult::kOk) return;
  Difference difference{"our engine refuses the work request", packets_[message.first].frame, 0, {}, {}};
  difference.rows.push_back({"post", "sent", format("refused, code %u", static_cast<unsigned>(posted)), false, ""});
  result_.differences.push_back(std::move(difference));
}

/// Recorded answers are delivered as they come. From a NAK on they are held back until the recorded requester goes
/// back.
void RequesterReplay::on_response(size_t at) {
  pending_.push_back(at);
  const Recorded& packet = packets_[at];
  if (packet.usable() && packet.info().operation == Operation::kAcknowledge) {
    const AethKind kind = aeth_kind(packet.view.aeth().syndrome);
    holding_ |= kind != AethKind::kAck;
    if (kind == AethKind::kRnrNak) rnr_nak_ = &packet;
  }
  if (!holding_) hand_in();
}

void RequesterReplay::hand_in() {
  for (const size_t at : pending_) {
    player_->deliver(Player::readdressed(packets_[at], player_->qp().qpn(), 0));
    player_->turn(0);
    result_.injected++;
  }
  pending_.clear();
  holding_ = false;
}

/// Lets our engine send one packet. A packet that is sent again may have waited for a timer.
bool RequesterReplay::send_one(const Recorded& recorded, bool again) {
  player_->turn(1);
  for (unsigned i = 0; i < kTimersMax && again && player_->sent.empty(); i++) {
    const Instant next = player_->qp().next_timeout();
    if (next == Instant::never()) break;
    player_->set_time(next);
    player_->turn(1);
  }
  if (!player_->sent.empty()) return true;
  Difference difference{"the recorded requester sends, we do not", recorded.frame, 0, {}, player_->reasons};
  difference.rows.push_back({"packet", summary(recorded.view), "none", false,
                             again ? "what was not acknowledged is sent again" : "what is posted is sent"});
  result_.differences.push_back(std::move(difference));
  return false;
}

/// Checks that our engine waits at least as long as the RNR NAK said.
void RequesterReplay::check_rnr_wait(const Recorded& recorded) {
  if (rnr_nak_ == nullptr || rnr_nak_->psn() != recorded.psn()) return;
  const Duration wait = rnr_delay(aeth_value(rnr_nak_->view.aeth().syndrome));
  const Duration waited = recorded.time - rnr_nak_->time;
  if (waited < wait) {
    Difference difference{"the recorded requester does not wait", recorded.frame, rnr_nak_->frame, {}, {}};
    difference.rows.push_back({"rnr_wait", format("%.3f us", static_cast<double>(waited.ns) / 1000),
                               format("%.3f us at least", static_cast<double>(wait.ns) / 1000), false,
                               "what an RNR NAK names is sent again when the time that it names is over"});
    result_.differences.push_back(std::move(difference));
  }
  rnr_nak_ = nullptr;
}

void RequesterReplay::on_request(size_t at) {
  const Recorded& recorded = packets_[at];
  const bool again = recorded.psn().before(sent_until_);
  if (again) check_rnr_wait(recorded);
  if (recorded.psn() != continues_at_) hand_in();  // it went back, so it had received the reason for that
  if (next_message_ < messages_.size() && messages_[next_message_].first == at) post(messages_[next_message_++]);
  const bool sends = send_one(recorded, again);
  continues_at_ = end_of(recorded.view, result_.mtu);
  if (sent_until_.before(continues_at_)) sent_until_ = continues_at_;
  if (!sends) return;
  const Bytes bytes = std::move(player_->sent.front());
  player_->sent.clear();
  PacketView ours;
  if (parse_frame(bytes, ours) != ParseResult::kOk) return;
  CompareContext context;
  context.role = Role::kRequester;
  context.own_qpn = player_->qp().qpn();
  context.recorded_qpn = conversation_.requester_qpn.value_or(0);
  context.reliable = reliable();
  context.first = first_of_path_;
  std::vector<FieldPair> rows = compare(context, recorded, ours, result_.used);
  result_.compared++;
  if (all_same(rows)) return;
  result_.differences.push_back({"a request differs", recorded.frame, 0, std::move(rows), player_->reasons});
}

/// After the last answer our engine must have nothing left to send at once.
void RequesterReplay::at_end() {
  const bool held = holding_;
  hand_in();
  if (held) return;  // the capture ends before the recorded requester went back
  player_->turn(Player::kNoLimit);
  for (const Bytes& bytes : player_->sent) {
    PacketView view;
    if (parse_frame(bytes, view) != ParseResult::kOk) continue;
    Difference difference{"we send, the recorded requester does not", 0, packets_.back().frame, {}, {}};
    difference.rows.push_back({"packet", "none", summary(view), false, "nothing is sent that nobody posted"});
    result_.differences.push_back(std::move(difference));
  }
}

RoleResult RequesterReplay::run() {
  if (!reconstruct() || !set_up()) return std::move(result_);
  for (size_t at = 0; at < packets_.size(); at++) {
    // No timer of our engine runs out by itself; see the tolerance `time`.
    const Instant due = player_->qp().next_timeout();
    Instant now = start_ + (packets_[at].time - packets_.front().time);
    if (due != Instant::never() && now >= due) now = due + nanoseconds(-1);
    player_->set_time(now);
    packets_[at].response ? on_response(at) : on_request(at);
  }
  at_end();
  return std::move(result_);
}

}  // namespace

RoleResult replay_requester(const Conversation& conversation, const ReplayOptions& options, PlayerPort& player_port) {
  return RequesterReplay(conversation, options, player_port).run();
}

}  // namespace uroce::replay
