// Every packet of every kind of message lost, repeated or delayed in turn, once, twice and three times: nothing random.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "sim/check/testbed.h"
#include "wire/packet.h"

namespace uroce::sim {
namespace {

constexpr uint32_t kMtu = 256;

struct Message {
  WrOpcode opcode;
  uint32_t packets;
};

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

enum class Fault { kNone, kLose, kRepeat, kDelay };

/// Two messages of the same kind and one after them, so that a hole has something behind it.
class Exchange {
 public:
  explicit Exchange(const Message& message) : message_(message) {
    QpOptions options;
    options.attributes.path_mtu_bytes = kMtu;
    options.psn_a = Psn(0xFFFFFE);  // wraps on the way
    bed_.connect(a_, b_, options);
    near_ = a_.buffer(3 * kMtu * 64);
    far_ = b_.buffer(3 * kMtu * 64);
    for (uint32_t i = 0; i < near_.size; i++) near_.data()[i] = static_cast<uint8_t>(i * 7 + i / 251);
    for (uint32_t i = 0; i < far_.size; i++) far_.data()[i] = static_cast<uint8_t>(i * 11 + i / 241 + 3);
    std::memset(far_.data(), 0, 8);  // the word that atomics add to
    EXPECT_TRUE(bed_.world.run_until_idle());
  }

  /// Does this to every frame from A, or to A, with that name, the first `times` times.
  void arrange(Fault fault, bool from_a, const PacketName& name, unsigned times) {
    Link& link = from_a ? *bed_.cable.a_to_b : *bed_.cable.b_to_a;
    link.set_drop_rule([this, fault, name, from_a, left = times](std::span<const uint8_t> frame) mutable {
      if (fault == Fault::kNone) return false;
      if (again_ || left == 0 || name_of(frame) != name) return false;
      left--;
      hits_++;
      if (fault == Fault::kLose) return true;
      // The copy goes straight to the other side, later than everything that is under way now.
      later_.push_back({from_a, Frame(frame)});
      return fault == Fault::kDelay;
    });
  }

  void run() {
    for (uint64_t i = 1; i <= 3; i++) post(i);
    // Late copies arrive when the first answers are back, and once more at the very end.
    bed_.world.run_for(microseconds(6));
    release();
    bed_.world.run_until_idle();
    release();
    bed_.world.run_until_idle();
  }

  void check() {
    const auto done = a_.sent();
    ASSERT_EQ(done.size(), 3u);
    for (uint64_t i = 0; i < 3; i++) {
      EXPECT_EQ(done[i].wr_id, i + 1);
      EXPECT_EQ(done[i].status, WcStatus::kSuccess);
    }
    const bool receives = message_.opcode == WrOpcode::kSend || message_.opcode == WrOpcode::kRdmaWriteWithImm;
    EXPECT_EQ(b_.received().size(), receives ? 3u : 0u);
    EXPECT_EQ(a_.qp->state(), QpState::kRts);
    EXPECT_EQ(b_.qp->state(), QpState::kRts);
    if (message_.opcode == WrOpcode::kFetchAdd) {
      uint64_t word;
      std::memcpy(&word, far_.data(), 8);
      EXPECT_EQ(word, 3u);
      for (uint64_t i = 0; i < 3; i++) {
        std::memcpy(&word, near_.data() + i * bytes(), 8);
        EXPECT_EQ(word, i);
      }
    } else {
      EXPECT_EQ(std::memcmp(near_.data(), far_.data(), 3 * bytes()), 0);
    }
  }

  /// Every packet of a run without faults.
  std::map<std::pair<bool, PacketName>, unsigned> packets() {
    std::map<std::pair<bool, PacketName>, unsigned> seen;
    for (const bool from_a : {true, false}) {
      Link& link = from_a ? *bed_.cable.a_to_b : *bed_.cable.b_to_a;
      link.set_drop_rule([&seen, from_a](std::span<const uint8_t> frame) {
        if (const auto name = name_of(frame)) seen[{from_a, *name}]++;
        return false;
      });
    }
    run();
    check();
    return seen;
  }
  unsigned hits() const { return hits_; }
  uint64_t timeouts() { return a_.engine().counters().local_ack_timeout_err; }

 private:
  uint32_t bytes() const { return message_.opcode == WrOpcode::kFetchAdd ? 8 : message_.packets * kMtu - 3; }

  void post(uint64_t wr_id) {
    const auto offset = static_cast<uint32_t>(wr_id - 1) * bytes();
    if (message_.opcode == WrOpcode::kSend || message_.opcode == WrOpcode::kRdmaWriteWithImm) {
      EXPECT_EQ(b_.receive(wr_id, far_.sge(offset, bytes())), PostResult::kOk);
    }
    const Sge sge = near_.sge(offset, bytes());
    SendWr wr;
    wr.wr_id = wr_id;
    wr.opcode = message_.opcode;
    wr.flags = kSendSignaled;
    wr.sges = &sge;
    wr.num_sge = 1;
    wr.remote_addr = message_.opcode == WrOpcode::kFetchAdd ? far_.addr() : far_.addr(offset);
    wr.rkey = far_.key;
    wr.compare_add = 1;
    EXPECT_EQ(a_.send(wr), PostResult::kOk);
  }

  void release() {
    again_ = true;
    for (const auto& [from_a, frame] : later_) {
      Link& link = from_a ? *bed_.cable.a_to_b : *bed_.cable.b_to_a;
      link.deliver(Frame(frame));
    }
    again_ = false;
  }

  Message message_;
  Testbed bed_{1};
  Side a_;
  Side b_;
  Buffer near_;
  Buffer far_;
  bool again_ = false;
  unsigned hits_ = 0;
  std::vector<std::pair<bool, Frame>> later_;
};

class TargetedLoss : public testing::TestWithParam<Message> {
 protected:
  void each(Fault fault) {
    const auto packets = Exchange(GetParam()).packets();
    // One-packet messages have three requests; answers may be fewer, as one acknowledges all before it.
    ASSERT_GE(packets.size(), GetParam().opcode == WrOpcode::kRdmaRead ? 3 + GetParam().packets : 4u);
    for (const auto& [key, count] : packets) {
      for (unsigned times = 1; times <= 3; times++) {
        Exchange exchange(GetParam());
        exchange.arrange(fault, key.first, key.second, times);
        exchange.run();
        exchange.check();
        EXPECT_GE(exchange.hits(), fault == Fault::kLose && key.first ? times : 1);
        ASSERT_FALSE(HasFailure()) << (key.first ? "request" : "answer") << " with PSN " << key.second.psn << ", "
                                   << times << " times";
      }
    }
  }
};

std::string message_name(const testing::TestParamInfo<Message>& message) {
  static constexpr const char* kNames[] = {"Write", "WriteImm", "Send", "SendImm", "Read", "Cas", "FetchAdd"};
  return kNames[static_cast<int>(message.param.opcode)] + std::to_string(message.param.packets);
}

INSTANTIATE_TEST_SUITE_P(Messages, TargetedLoss,
                         testing::Values(Message{WrOpcode::kSend, 1}, Message{WrOpcode::kSend, 2},
                                         Message{WrOpcode::kSend, 3}, Message{WrOpcode::kSend, 64},
                                         Message{WrOpcode::kRdmaWrite, 1}, Message{WrOpcode::kRdmaWrite, 3},
                                         Message{WrOpcode::kRdmaWrite, 64}, Message{WrOpcode::kRdmaWriteWithImm, 3},
                                         Message{WrOpcode::kRdmaRead, 1}, Message{WrOpcode::kRdmaRead, 2},
                                         Message{WrOpcode::kRdmaRead, 3}, Message{WrOpcode::kRdmaRead, 64},
                                         Message{WrOpcode::kFetchAdd, 1}),
                         message_name);

TEST_P(TargetedLoss, EachPacketLost) { each(Fault::kLose); }
TEST_P(TargetedLoss, EachPacketRepeatedLater) { each(Fault::kRepeat); }
TEST_P(TargetedLoss, EachPacketDelayed) { each(Fault::kDelay); }

/// A hole with something behind it is found by the NAK, without waiting for the timer.
TEST(TargetedLossCost, AHoleInTheMiddleCostsNoTimeout) {
  for (const WrOpcode opcode : {WrOpcode::kSend, WrOpcode::kRdmaWrite, WrOpcode::kRdmaRead}) {
    Exchange exchange({opcode, 3});
    const bool read = opcode == WrOpcode::kRdmaRead;
    exchange.arrange(Fault::kLose, !read, {read, 0xFFFFFF}, 1);
    exchange.run();
    exchange.check();
    EXPECT_EQ(exchange.hits(), 1u);
    EXPECT_EQ(exchange.timeouts(), 0u) << static_cast<int>(opcode);
  }
}

}  // namespace
}  // namespace uroce::sim
