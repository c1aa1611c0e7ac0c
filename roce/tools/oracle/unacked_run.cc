// Runs over UC and UD: a message arrives whole or not at all, and on a clean cable it arrives.
#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "engine/address_table.h"
#include "oracle/random_bytes.h"
#include "oracle/receiver.h"
#include "oracle/run.h"

namespace uroce::oracle {

namespace {

constexpr uint32_t kDepth = 64;
constexpr uint32_t kSlots = 256;  // places that UC WRITEs go to, in turn
constexpr uint32_t kSlotBytes = 16 * 1024;

/// What message number `index` looks like: known to both ends.
struct Message {
  WrOpcode opcode;
  uint32_t bytes;
  uint32_t source_offset;
  bool signalled;
};

class UnackedEnd {
 public:
  UnackedEnd(const sim::Side& side, Receiver& receiver, const sim::Buffer& source, const MixedOptions& options,
             uint64_t seed, uint64_t ops, Verdict& verdict)
      : side_(side),
        receiver_(receiver),
        source_(source),
        seed_(seed),
        ops_(ops),
        verdict_(verdict),
        clean_(!options.loses() && options.keeps_order()),
        in_order_(options.keeps_order()),
        target_(side.buffer(kSlots * kSlotBytes)),
        heads_(side.buffer(2 * kDepth * 8)),
        random_(seed) {}

  void set_peer(UnackedEnd& peer, std::unique_ptr<AddressHandle> ah) {
    peer_ = &peer;
    ah_ = std::move(ah);
  }
  Qp& qp() { return *side_.qp; }
  uint64_t received() const { return received_; }
  bool sent_all() const { return posted_ == ops_ && completed_ == ops_; }
  /// On a clean cable nothing may be missing.
  bool done() const { return sent_all() && (!clean_ || peer_->received_ == expected_there_); }
  void post_some();
  void on_sent(const Completion& completion);
  void on_received(const Completion& completion);
  ~UnackedEnd() {
    if (ah_) side_.engine().destroy_ah(ah_.get());
  }

 private:
  bool ud() const { return side_.qp->type() == QpType::kUd; }
  Message message(uint64_t index) const;
  void post_one();
  bool content_holds(const Receiver::Slot& slot, const UnackedEnd& sender, uint64_t index, uint32_t grh) const;
  bool write_holds(const UnackedEnd& sender, uint64_t index) const;
  void check_datagram(const Completion& completion, const Receiver::Slot& slot);

  sim::Side side_;
  Receiver& receiver_;
  const sim::Buffer& source_;
  uint64_t seed_;
  uint64_t ops_;
  Verdict& verdict_;
  bool clean_;
  bool in_order_;
  sim::Buffer target_;
  sim::Buffer heads_;  // the first eight bytes of each message: its number
  SeededRandom random_;
  UnackedEnd* peer_ = nullptr;
  std::unique_ptr<AddressHandle> ah_;
  uint64_t posted_ = 0;
  uint64_t completed_ = 0;
  uint64_t received_ = 0;
  uint64_t expected_there_ = 0;  // messages posted that consume a receive
  uint64_t next_expected_ = 0;   // no message before this one may arrive any more, if the cable keeps order
};

Message UnackedEnd::message(uint64_t index) const {
  SeededRandom random(seed_ + index * 0x9E3779B97F4A7C15u);
  Message m{};
  const uint32_t mtu = side_.qp->mtu();
  uint32_t bytes = mtu * random.below(5) + random.below(3);
  if (random.below(2) == 0) bytes = random.below(600);
  const uint32_t most = ud() ? mtu : kSlotBytes;
  m.bytes = std::min(std::max(bytes, 8u), most);
  const uint32_t kind = random.below(4);
  m.opcode = ud()        ? (kind < 2 ? WrOpcode::kSend : WrOpcode::kSendWithImm)
             : kind == 0 ? WrOpcode::kSend
             : kind == 1 ? WrOpcode::kSendWithImm
             : kind == 2 ? WrOpcode::kRdmaWrite
                         : WrOpcode::kRdmaWriteWithImm;
  ensure(m.bytes >= 8 && m.bytes <= kSlotBytes, "a message has room for its number, and fits its place");
  // The first eight bytes name the message.
  m.source_offset = random.below(source_.size - m.bytes);
  m.signalled = random.below(2) == 0 || index + 1 == ops_ || index % 16 == 0;
  return m;
}

void UnackedEnd::post_one() {
  ensure(posted_ - completed_ < kDepth, "no more is posted than the queue holds");
  const uint64_t index = posted_++;
  const Message m = message(index);
  SendWr wr;
  wr.wr_id = index;
  wr.opcode = m.opcode;
  wr.flags = m.signalled ? kSendSignaled : 0;
  wr.imm_or_rkey = static_cast<uint32_t>(index);
  wr.ah = ah_.get();
  wr.remote_qpn = peer_->side_.qp->qpn();
  wr.remote_qkey = 0x11111111;
  wr.remote_addr = peer_->target_.addr((index % kSlots) * kSlotBytes);
  wr.rkey = peer_->target_.key;
  // At most kDepth are queued, so nobody reads this head any more.
  const uint64_t head = index % (2 * kDepth) * 8;
  std::memcpy(heads_.data() + head, &index, 8);
  const Sge sges[2] = {heads_.sge(head, 8), source_.sge(m.source_offset, m.bytes - 8)};
  wr.sges = sges;
  wr.num_sge = 2;
  const PostResult result = side_.engine().post_send(*side_.qp, wr, side_.host->now());
  if (result != PostResult::kOk) verdict_.fail("post_send refused %u bytes: %d", m.bytes, static_cast<int>(result));
  if (m.opcode != WrOpcode::kRdmaWrite) expected_there_++;
}

void UnackedEnd::post_some() {
  for (uint32_t count = random_.below(8); count > 0 && posted_ < ops_ && posted_ - completed_ < kDepth; count--) {
    // On a clean cable the only way to lose a message would be to outrun the receiver.
    if (clean_ && expected_there_ - peer_->received_ >= 16) return;
    post_one();
  }
}

void UnackedEnd::on_sent(const Completion& completion) {
  if (completion.status != WcStatus::kSuccess) return verdict_.fail("send failed: %s", cause_text(completion.cause));
  while (completed_ < completion.wr_id) {
    if (message(completed_).signalled) return verdict_.fail("message %" PRIu64 " never completed", completed_);
    completed_++;
  }
  if (completed_ != completion.wr_id || !message(completed_).signalled) {
    return verdict_.fail("message %" PRIu64 " completed twice or unasked", completion.wr_id);
  }
  completed_++;
}

bool UnackedEnd::content_holds(const Receiver::Slot& slot, const UnackedEnd& sender, uint64_t index,
                               uint32_t grh) const {
  const Message m = sender.message(index);
  for (uint32_t at = 8; at < m.bytes;) {
    const auto [got, room] = Receiver::find(slot, grh + at);
    const uint32_t n = std::min(room, m.bytes - at);
    if (n == 0 || std::memcmp(got, sender.source_.data() + m.source_offset + at - 8, n) != 0) return false;
    at += n;
  }
  return Receiver::rest_untouched(slot, grh + m.bytes, !ud());
}

bool UnackedEnd::write_holds(const UnackedEnd& sender, uint64_t index) const {
  const Message m = sender.message(index);
  const uint8_t* got = target_.data() + (index % kSlots) * kSlotBytes;
  return std::memcmp(got, &index, 8) == 0 &&
         std::memcmp(got + 8, sender.source_.data() + m.source_offset, m.bytes - 8) == 0;
}

void UnackedEnd::check_datagram(const Completion& completion, const Receiver::Slot& slot) {
  uint8_t grh[kGrhBytes];
  for (uint32_t i = 0; i < kGrhBytes; i++) grh[i] = *Receiver::find(slot, i).first;
  const bool v6 = (grh[0] >> 4) == 6;
  const IpAddress& from = peer_->ah_->path.src_ip;
  const bool source_there = v6 ? std::memcmp(grh + 8, from.bytes.data(), 16) == 0
                               : grh[20] == 0x45 && std::memcmp(grh + 32, from.bytes.data() + 12, 4) == 0;
  if (!source_there) verdict_.fail("the GRH area does not name the sender");
  if (completion.src_qp != peer_->side_.qp->qpn() || (completion.flags & kWcGrh) == 0) {
    verdict_.fail("src_qp is %06x", completion.src_qp);
  }
}

void UnackedEnd::on_received(const Completion& completion) {
  if (completion.status != WcStatus::kSuccess) return verdict_.fail("receive failed: %s", cause_text(completion.cause));
  Receiver::Slot* slot = receiver_.complete(completion.wr_id, verdict_);
  if (slot == nullptr) return;
  received_++;
  const uint32_t grh = ud() ? kGrhBytes : 0;
  const bool imm = (completion.flags & kWcWithImm) != 0;
  const bool write = completion.opcode == WcOpcode::kRecvRdmaWithImm;
  uint64_t index = completion.imm_or_rkey;
  if (!write) {
    uint8_t name[8];
    for (uint32_t i = 0; i < 8; i++) name[i] = *Receiver::find(*slot, grh + i).first;
    std::memcpy(&index, name, 8);
  }
  const Message m = peer_->message(index);
  const WrOpcode sent = write ? WrOpcode::kRdmaWriteWithImm : imm ? WrOpcode::kSendWithImm : WrOpcode::kSend;
  if (index >= peer_->posted_ || m.opcode != sent || completion.byte_len != m.bytes + grh ||
      (imm && completion.imm_or_rkey != static_cast<uint32_t>(index))) {
    return verdict_.fail("message %" PRIu64 ": received as %u bytes, flags %d", index, completion.byte_len,
                         completion.flags);
  }
  if (in_order_ && index < next_expected_) verdict_.fail("message %" PRIu64 " arrived twice or late", index);
  next_expected_ = index + 1;
  if (ud()) check_datagram(completion, *slot);
  const bool holds = !write ? content_holds(*slot, *peer_, index, grh) : !in_order_ || write_holds(*peer_, index);
  if (!holds) verdict_.fail("message %" PRIu64 " of %u bytes is not what was sent", index, m.bytes);
  receiver_.recycle(*slot, ud() ? completion.byte_len : kSlotBytes);
}

class UnackedRun {
 public:
  explicit UnackedRun(const MixedOptions& options) : options_(options), random_(options.seed) {
    bed_ = make_testbed(options, random_);
    for (uint32_t i = 0; i < options.qps; i++) make_pair();
    for (sim::Host* host : {&bed_->a, &bed_->b}) host->port().set_rx_frames(options.rx_frames);
    bed_->a.set_program([this] { program(0); });
    bed_->b.set_program([this] { program(1); });
  }

  MixedReport run() {
    const Instant start = bed_->world.now();
    for (auto& receiver : receivers_) receiver->post(true, verdict_);
    const auto done = [this] {
      return verdict_.failed() || std::all_of(ends_.begin(), ends_.end(), [](const auto& e) { return e->done(); });
    };
    if (!run_with_nudges(*bed_, done, [this] { return completions_; })) verdict_.fail("stuck, or messages are missing");
    if (!verdict_.failed() && !bed_->world.run_until_idle(milliseconds(10'000))) verdict_.fail("never became idle");
    MixedReport report = summarize(*bed_, verdict_, start);
    report.ops = ops_of_each_end(options_) * 2 * options_.qps;
    for (const auto& end : ends_) report.messages_received += end->received();
    return report;
  }

 private:
  void make_pair() {
    sim::QpOptions qp = draw_qp(options_, random_);
    qp.cap = {kDepth, 64, 4, 4, 0};
    sim::Side sides[2];
    bed_->connect(sides[0], sides[1], qp);
    for (sim::Side& side : sides) {
      sources_.push_back(std::make_unique<sim::Buffer>(side.buffer(64 * 1024)));
      fill_with_random_bytes(*sources_.back(), random_);
      receivers_.push_back(std::make_unique<Receiver>(side, nullptr, 48, kSlotBytes + kGrhBytes, random_));
      ends_.push_back(std::make_unique<UnackedEnd>(side, *receivers_.back(), *sources_.back(), options_,
                                                   random_.next_u64(), ops_of_each_end(options_), verdict_));
      sides_.push_back(side);
    }
    const size_t a = ends_.size() - 2;
    const auto handle = [&](const sim::Side& from, const sim::Side& to) {
      AddressVector av;
      av.sgid_index = qp.ipv6 ? 2 : 1;
      av.dgid = to.engine().addresses().gids()[av.sgid_index].ip;
      return from.engine().create_ah(from.pd, av, bed_->world.now());
    };
    ends_[a]->set_peer(*ends_[a + 1], handle(sides[0], sides[1]));
    ends_[a + 1]->set_peer(*ends_[a], handle(sides[1], sides[0]));
    // A datagram to a peer whose MAC is not known yet is lost; those are not what this is about.
    if (!bed_->world.run_until_idle()) verdict_.fail("address resolution never ended");
  }

  void program(size_t host) {
    for (size_t i = host; i < ends_.size(); i += 2) {
      for (const Completion& c : sides_[i].sent()) {
        completions_++;
        ends_[i]->on_sent(c);
      }
      for (const Completion& c : sides_[i].received()) ends_[i]->on_received(c);
      if (verdict_.failed()) return;
      receivers_[i]->post(!options_.loses() && options_.keeps_order(), verdict_);
      ends_[i]->post_some();
    }
  }

  MixedOptions options_;
  SeededRandom random_;
  Verdict verdict_;
  uint64_t completions_ = 0;
  std::unique_ptr<MixedBed> bed_;
  std::vector<std::unique_ptr<sim::Buffer>> sources_;
  std::vector<std::unique_ptr<Receiver>> receivers_;
  std::vector<sim::Side> sides_;
  std::vector<std::unique_ptr<UnackedEnd>> ends_;
};

}  // namespace

MixedReport run_unacked(const MixedOptions& options) { return UnackedRun(options).run(); }

}  // namespace uroce::oracle
