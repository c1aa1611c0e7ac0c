// Every packet of every kind of message lost, repeated or delayed in turn, once, twice and three times; and with it the
// NAK, the selective ACK, the probe or the repeated READ that the loss provokes. Nothing random: the name of a test
// that fails and the packet in its text are the whole case.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "packet/packet.h"
#include "sanitized.h"
#include "sim/testbed.h"
#include "transport/counters.h"
#include "transport/qp.h"

namespace uroce::sim {
namespace {

constexpr uint32_t kMtu = 256;
constexpr uint32_t kMessages = 3;
constexpr uint32_t kMany = some_of(64u);  // packets
constexpr uint32_t kImm = 0xABCD0000;

struct Message {
  WrOpcode opcode;
  uint32_t packets;

  bool atomic() const { return opcode == WrOpcode::kFetchAdd || opcode == WrOpcode::kCompareSwap; }
  bool receives() const {
    return opcode == WrOpcode::kSend || opcode == WrOpcode::kSendWithImm || opcode == WrOpcode::kSendWithInv ||
           opcode == WrOpcode::kRdmaWriteWithImm;
  }
  uint32_t bytes() const { return atomic() ? 8 : packets * kMtu - 3; }
};

struct Recovery {
  const char* name;
  LossRecovery a;
  LossRecovery b;
  bool selective() const { return a != LossRecovery::kGoBackN && b != LossRecovery::kGoBackN; }
};

constexpr Recovery kGoBackN{"GoBackN", LossRecovery::kGoBackN, LossRecovery::kGoBackN};
constexpr Recovery kSelective{"Selective", LossRecovery::kSelective, LossRecovery::kSelective};
constexpr Recovery kAuto{"Auto", LossRecovery::kAuto, LossRecovery::kAuto};

/// Names a packet across its retransmissions: what it is and where in the sequence.
struct PacketName {
  bool response;
  uint32_t psn;
  auto operator<=>(const PacketName&) const = default;
};

std::optional<PacketName> name_of(std::span<const uint8_t> frame) {
  PacketView view;
  if (parse_frame(frame, view) != ParseResult::kOk) return std::nullopt;
  return PacketName{view.info->is_response(), view.bth.psn.value()};
}

/// What follows a loss, and may get lost next.
enum class Second { kNone, kNak, kSelectiveAck, kRequestAgain, kCnp };

bool is_second(Second second, std::span<const uint8_t> frame) {
  PacketView view;
  if (parse_frame(frame, view) != ParseResult::kOk) return false;
  switch (second) {
    case Second::kNak:
      return view.info->operation == Operation::kAcknowledge && aeth_kind(view.aeth().syndrome) == AethKind::kNak;
    case Second::kSelectiveAck:
      return view.info->operation == Operation::kSelectiveAck;
    case Second::kRequestAgain:
      return !view.info->is_response();
    case Second::kCnp:
      return view.bth.opcode == kOpcodeCnp;
    default:
      return false;
  }
}

enum class Fault { kNone, kLose, kRepeat, kDelay };

EngineConfig engine_config(bool congestion) {
  EngineConfig config = simple_config(1);
  if (congestion) config.congestion.algorithm = CongestionAlgorithm::kDcqcn;
  return config;
}

/// Two messages of the same kind and one after them, so that a hole has something behind it.
class Exchange {
 public:
  /// `warm`: both have exchanged messages before, and know the round trip.
  explicit Exchange(const Message& message, const Recovery& recovery = kGoBackN, bool warm = false,
                    bool congestion = false)
      : message_(message), bed_(1, {}, engine_config(congestion)) {
    QpOptions options;
    options.attributes.path_mtu_bytes = kMtu;
    options.psn_a = Psn(0xFFFFFE);  // wraps on the way
    options.recovery_a = recovery.a;
    options.recovery_b = recovery.b;
    bed_.connect(a_, b_, options);
    near_ = a_.buffer(kMessages * kMtu * 64);
    far_ = b_.buffer(kMessages * kMtu * 64);
    fill();
    EXPECT_TRUE(bed_.world.run_until_idle());
    if (!warm) return;
    for (unsigned n = 0; n < 2; n++) {
      for (uint64_t i = 1; i <= kMessages; i++) post(i);
      EXPECT_TRUE(bed_.world.run_until_idle());
      EXPECT_EQ(a_.sent().size(), kMessages);
      b_.received();
    }
    fill();
  }

  /// Does `fault` to each frame with that name, from A or to A, the first `times` times.
  void arrange(Fault fault, bool from_a, const PacketName& name, unsigned times) {
    link(from_a).set_drop_rule([this, fault, name, from_a, left = times](std::span<const uint8_t> frame) mutable {
      if (fault == Fault::kNone) return false;
      if (from_a && second_due(true, frame)) return true;
      if (again_ || left == 0 || name_of(frame) != name) return false;
      left--;
      hits_++;
      if (fault == Fault::kLose) return true;
      // The copy goes straight to the other side, later than everything in flight now.
      later_.push_back({from_a, Frame(frame)});
      return fault == Fault::kDelay;
    });
  }
  /// Of what follows the loss, the first frame of kind `second` is lost, too.
  void arrange_second(Second second, bool lost_from_a) {
    second_ = second;
    const bool from_a = second == Second::kRequestAgain;
    if (from_a && lost_from_a) return;  // the same link: `arrange` asks for it
    link(from_a).set_drop_rule([this, from_a](std::span<const uint8_t> frame) { return second_due(from_a, frame); });
  }
  /// Marks the first copy of that request on its way.
  void mark(const PacketName& name) {
    fabric::FaultRule rule;
    rule.action = fabric::FaultRule::Action::kMark;
    rule.filter.psn = name.psn;
    fabric::ImpairmentConfig faults;
    faults.rules.push_back(rule);
    link(true).set_impairments(faults);
    hits_ = 1;
  }

  void run() {
    const Instant start = bed_.world.now();
    for (uint64_t i = 1; i <= kMessages; i++) post(i);
    // Late copies arrive when the first answers are back, and once more at the very end.
    if (!later_.empty() || hits_ == 0) bed_.world.run_for(microseconds(6));
    release();
    bed_.world.run_until([this] { return a_.send_cq->size() == kMessages; });
    took_ = bed_.world.now() - start;
    bed_.world.run_until_idle();
    release();
    bed_.world.run_until_idle();
  }

  void check() {
    const auto done = a_.sent();
    ASSERT_EQ(done.size(), kMessages);
    for (uint64_t i = 0; i < kMessages; i++) {
      EXPECT_EQ(done[i].wr_id, i + 1);
      EXPECT_EQ(done[i].status, WcStatus::kSuccess);
    }
    const auto received = b_.received();
    ASSERT_EQ(received.size(), message_.receives() ? kMessages : 0u);
    for (uint64_t i = 0; i < received.size(); i++) {
      EXPECT_EQ(received[i].wr_id, i + 1);
      EXPECT_EQ(received[i].byte_len, message_.bytes());
      const uint8_t flags = message_.opcode == WrOpcode::kSend          ? 0
                            : message_.opcode == WrOpcode::kSendWithInv ? kWcWithInv
                                                                        : kWcWithImm;
      EXPECT_EQ(received[i].flags, flags);
      if (flags != 0) {
        EXPECT_EQ(received[i].imm_or_rkey, carried_[i + 1]);
      }
    }
    EXPECT_EQ(a_.qp->state(), QpState::kRts);
    EXPECT_EQ(b_.qp->state(), QpState::kRts);
    if (!message_.atomic()) {
      EXPECT_EQ(std::memcmp(near_.data(), far_.data(), kMessages * message_.bytes()), 0);
      return;
    }
    uint64_t word;
    std::memcpy(&word, far_.data(), 8);
    EXPECT_EQ(word, kMessages);
    for (uint64_t i = 0; i < kMessages; i++) {
      std::memcpy(&word, near_.data() + i * 8, 8);
      EXPECT_EQ(word, i);
    }
  }

  /// Every packet of a run without faults.
  std::map<std::pair<bool, PacketName>, unsigned> packets() {
    std::map<std::pair<bool, PacketName>, unsigned> seen;
    for (const bool from_a : {true, false}) {
      link(from_a).set_drop_rule([&seen, from_a](std::span<const uint8_t> frame) {
        if (const auto name = name_of(frame)) seen[{from_a, *name}]++;
        return false;
      });
    }
    run();
    check();
    return seen;
  }
  unsigned hits() const { return hits_; }
  bool second_lost() const { return second_lost_; }
  /// From the first post to the last completion.
  Duration took() const { return took_; }
  const Counters& counters() { return a_.engine().counters(); }
  const Counters& peer_counters() { return b_.engine().counters(); }

 private:
  Link& link(bool from_a) { return from_a ? *bed_.cable.a_to_b : *bed_.cable.b_to_a; }

  void fill() {
    for (uint32_t i = 0; i < near_.size; i++) near_.data()[i] = static_cast<uint8_t>(i * 7 + i / 251);
    for (uint32_t i = 0; i < far_.size; i++) far_.data()[i] = static_cast<uint8_t>(i * 11 + i / 241 + 3);
    std::memset(far_.data(), 0, 8);  // the word that atomics change
  }

  bool second_due(bool from_a, std::span<const uint8_t> frame) {
    if (again_ || second_lost_ || hits_ == 0 || from_a != (second_ == Second::kRequestAgain)) return false;
    if (!is_second(second_, frame)) return false;
    return second_lost_ = true;
  }

  uint32_t new_window() {
    auto& memory = b_.engine().memory();
    const uint32_t window = memory.allocate_window(b_.pd, true);
    const uint32_t key = (window & ~0xFFu) | ((window + 1) & 0xFF);
    const MwBind bind{window, key, far_.key, far_.addr(), 64, kRemoteRead};
    EXPECT_NE(memory.bind_window(bind, b_.pd, b_.qp->qpn()), 0u);
    return key;
  }

  void post(uint64_t wr_id) {
    const auto offset = static_cast<uint32_t>(wr_id - 1) * message_.bytes();
    if (message_.receives()) {
      EXPECT_EQ(b_.receive(wr_id, far_.sge(offset, message_.bytes())), PostResult::kOk);
    }
    const Sge sge = near_.sge(offset, message_.bytes());
    SendWr wr;
    wr.wr_id = wr_id;
    wr.opcode = message_.opcode;
    wr.flags = kSendSignaled;
    wr.sges = &sge;
    wr.num_sge = 1;
    wr.remote_addr = message_.atomic() ? far_.addr() : far_.addr(offset);
    wr.rkey = far_.key;
    wr.compare_add = message_.opcode == WrOpcode::kFetchAdd ? 1 : wr_id - 1;
    wr.swap = wr_id;
    wr.imm_or_rkey = carried_[wr_id] =
        message_.opcode == WrOpcode::kSendWithInv ? new_window() : kImm + static_cast<uint32_t>(wr_id);
    EXPECT_EQ(a_.send(wr), PostResult::kOk);
  }

  void release() {
    again_ = true;
    for (const auto& [from_a, frame] : later_) link(from_a).deliver(Frame(frame));
    again_ = false;
  }

  Message message_;
  Testbed bed_;
  Side a_;
  Side b_;
  Buffer near_;
  Buffer far_;
  uint32_t carried_[kMessages + 1] = {};
  bool again_ = false;
  unsigned hits_ = 0;
  Second second_ = Second::kNone;
  bool second_lost_ = false;
  Duration took_{};
  std::vector<std::pair<bool, Frame>> later_;
};

using Case = std::tuple<Recovery, Message>;

class TargetedLoss : public testing::TestWithParam<Case> {
 protected:
  static const Recovery& recovery() { return std::get<0>(GetParam()); }
  static const Message& message() { return std::get<1>(GetParam()); }
  static bool read() { return message().opcode == WrOpcode::kRdmaRead; }

  /// Calls `work` for every packet of a run, and names the one that failed.
  template <typename Work>
  void for_each_packet(bool warm, Work&& work) {
    const auto packets = Exchange(message(), recovery(), warm).packets();
    // One-packet messages have three requests; answers may be fewer, as one acknowledges all before it.
    ASSERT_GE(packets.size(), read() ? 3 + message().packets : 4u);
    for (const auto& [key, count] : packets) {
      work(key.first, key.second);
      ASSERT_FALSE(HasFailure()) << (key.first ? "request" : "answer") << " with PSN " << key.second.psn;
    }
  }

  void each(Fault fault) {
    const unsigned most = fault != Fault::kLose && message().packets > 3 ? 1 : 3;
    for_each_packet(false, [&](bool request, const PacketName& name) {
      for (unsigned times = 1; times <= most && !HasFailure(); times++) {
        Exchange exchange(message(), recovery());
        exchange.arrange(fault, request, name, times);
        exchange.run();
        exchange.check();
        EXPECT_GE(exchange.hits(), fault == Fault::kLose && request ? times : 1);
        EXPECT_FALSE(HasFailure()) << times << " times";
      }
    });
  }

  /// The first loss provokes a frame, which is lost, too.
  void each_and(Second second) {
    unsigned lost = 0;
    for_each_packet(true, [&](bool request, const PacketName& name) {
      Exchange exchange(message(), recovery(), true);
      exchange.arrange(Fault::kLose, request, name, 1);
      exchange.arrange_second(second, request);
      exchange.run();
      exchange.check();
      lost += exchange.second_lost() ? 1 : 0;
    });
    const bool possible =
        second == Second::kRequestAgain || (second == Second::kSelectiveAck) == recovery().selective();
    EXPECT_EQ(lost != 0, possible);
  }
};

std::string case_name(const testing::TestParamInfo<Case>& info) {
  static constexpr const char* kNames[] = {"Write", "WriteImm", "Send", "SendImm", "Read", "Cas", "FetchAdd"};
  const Message& message = std::get<1>(info.param);
  const char* const name =
      message.opcode == WrOpcode::kSendWithInv ? "SendInv" : kNames[static_cast<int>(message.opcode)];
  return std::get<0>(info.param).name + std::string(name) + std::to_string(message.packets);
}

std::vector<Message> all_messages() {
  std::vector<Message> all;
  for (const WrOpcode opcode : {WrOpcode::kSend, WrOpcode::kSendWithImm, WrOpcode::kSendWithInv, WrOpcode::kRdmaWrite,
                                WrOpcode::kRdmaWriteWithImm, WrOpcode::kRdmaRead}) {
    for (const uint32_t packets : {1u, 2u, 3u, kMany}) all.push_back({opcode, packets});
  }
  all.push_back({WrOpcode::kFetchAdd, 1});
  all.push_back({WrOpcode::kCompareSwap, 1});
  return all;
}

/// The cases that `wanted` selects.
std::vector<Case> cases(bool (*wanted)(const Recovery&, const Message&)) {
  std::vector<Case> found;
  for (const Recovery& recovery :
       {kGoBackN, kSelective, kAuto, Recovery{"ToAStranger", LossRecovery::kAuto, LossRecovery::kGoBackN},
        Recovery{"FromAStranger", LossRecovery::kGoBackN, LossRecovery::kAuto}}) {
    for (const Message& message : all_messages()) {
      if (wanted(recovery, message)) found.emplace_back(recovery, message);
    }
  }
  return found;
}

/// Acknowledged by ACKs, not by a response of its own.
bool is_acknowledged(const Message& message) { return !message.atomic() && message.opcode != WrOpcode::kRdmaRead; }

class TargetedLossOfNaks : public TargetedLoss {};
class TargetedLossOfSelectiveAcks : public TargetedLoss {};
class TargetedLossOfCnps : public TargetedLoss {};
class TargetedLossSelective : public TargetedLoss {};

INSTANTIATE_TEST_SUITE_P(Messages, TargetedLoss,
                         testing::ValuesIn(cases([](const Recovery&, const Message&) { return true; })), case_name);
INSTANTIATE_TEST_SUITE_P(Messages, TargetedLossOfNaks,
                         testing::ValuesIn(cases([](const Recovery& recovery, const Message& message) {
                           return !recovery.selective() && is_acknowledged(message);
                         })),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Messages, TargetedLossOfSelectiveAcks,
                         testing::ValuesIn(cases([](const Recovery& recovery, const Message& message) {
                           return recovery.selective() && is_acknowledged(message);
                         })),
                         case_name);
// Both selective ones behave alike here: one is enough.
INSTANTIATE_TEST_SUITE_P(Messages, TargetedLossOfCnps,
                         testing::ValuesIn(cases([](const Recovery& recovery, const Message& message) {
                           return recovery.selective() == (recovery.a == LossRecovery::kSelective) &&
                                  is_acknowledged(message);
                         })),
                         case_name);
INSTANTIATE_TEST_SUITE_P(
    Messages, TargetedLossSelective,
    testing::ValuesIn(cases([](const Recovery& recovery, const Message&) { return recovery.selective(); })), case_name);

TEST_P(TargetedLoss, EachPacketLost) { each(Fault::kLose); }
TEST_P(TargetedLoss, EachPacketRepeatedLater) { each(Fault::kRepeat); }
TEST_P(TargetedLoss, EachPacketDelayed) { each(Fault::kDelay); }
TEST_P(TargetedLossOfNaks, EachPacketAndTheNakLost) { each_and(Second::kNak); }
TEST_P(TargetedLossOfSelectiveAcks, EachPacketAndTheSelectiveAckLost) { each_and(Second::kSelectiveAck); }
TEST_P(TargetedLoss, EachPacketAndTheNextRequestLost) { each_and(Second::kRequestAgain); }

/// Marked requests bring a CNP; whether it arrives must affect nothing but the rate.
TEST_P(TargetedLossOfCnps, EachRequestMarkedAndTheCnpLost) {
  for (const bool lose : {false, true}) {
    const auto packets = Exchange(message(), recovery(), false, true).packets();
    ASSERT_TRUE(std::any_of(packets.begin(), packets.end(), [](const auto& packet) { return packet.first.first; }));
    for (const auto& [key, count] : packets) {
      if (!key.first) continue;
      Exchange exchange(message(), recovery(), false, true);
      exchange.mark(key.second);
      if (lose) exchange.arrange_second(Second::kCnp, false);
      exchange.run();
      exchange.check();
      EXPECT_EQ(exchange.peer_counters().np_cnp_sent, 1u);
      EXPECT_EQ(exchange.counters().rp_cnp_handled, lose ? 0u : 1u);
      EXPECT_EQ(exchange.second_lost(), lose);
      ASSERT_FALSE(HasFailure()) << "request with PSN " << key.second.psn;
    }
  }
}

/// What one lost packet costs with selective repeat, wherever it is: no more than three round trips and 100 us.
TEST_P(TargetedLossSelective, RepeatIsPrompt) {
  Exchange clean(message(), recovery(), true);
  clean.packets();
  const int64_t round_trip = 4'000;
  int64_t most = 0;
  for_each_packet(true, [&](bool request, const PacketName& name) {
    Exchange exchange(message(), recovery(), true);
    exchange.arrange(Fault::kLose, request, name, 1);
    exchange.run();
    exchange.check();
    const int64_t cost = exchange.took().ns - clean.took().ns;
    most = std::max(most, cost);
    EXPECT_LE(cost, 3 * round_trip + 100'000);
    EXPECT_EQ(exchange.counters().local_ack_timeout_err, 0u);
  });
  RecordProperty("most_ns", static_cast<int>(most));
}

/// A hole with something behind it is found by the NAK, without waiting for the timer.
TEST(TargetedLossCost, AHoleInTheMiddleCostsNoTimeout) {
  for (const WrOpcode opcode : {WrOpcode::kSend, WrOpcode::kRdmaWrite, WrOpcode::kRdmaRead}) {
    Exchange exchange({opcode, 3});
    const bool read = opcode == WrOpcode::kRdmaRead;
    exchange.arrange(Fault::kLose, !read, {read, 0xFFFFFF}, 1);
    exchange.run();
    exchange.check();
    EXPECT_EQ(exchange.hits(), 1u);
    EXPECT_EQ(exchange.counters().local_ack_timeout_err, 0u) << static_cast<int>(opcode);
  }
}

/// The probe for a lost tail is lost as well: the next one finds it, long before the timer.
TEST(TargetedLossCost, ALostProbeIsFollowedByAnother) {
  for (const uint32_t packets : {1u, 2u, 3u, kMany}) {
    const Message message{WrOpcode::kRdmaWrite, packets};
    const auto all = Exchange(message, kSelective, true).packets();
    PacketName last{false, 0};
    for (const auto& [key, count] : all) {
      if (key.first && (last.psn == 0 || Psn(last.psn).before(Psn(key.second.psn)))) last = key.second;
    }
    Exchange exchange(message, kSelective, true);
    exchange.arrange(Fault::kLose, true, last, 2);
    exchange.run();
    exchange.check();
    EXPECT_EQ(exchange.hits(), 2u);
    EXPECT_GE(exchange.counters().tail_loss_probes, 2u);
    EXPECT_EQ(exchange.counters().local_ack_timeout_err, 0u);
  }
}

}  // namespace
}  // namespace uroce::sim
