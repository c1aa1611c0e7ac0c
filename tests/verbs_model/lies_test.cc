// Would the model notice? A machine that carries programs out well says one thing wrong: each field of a completion,
// each answer of a call. Every such program has to fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "sanitized.h"
#include "verbs_model/generate.h"
#include "verbs_model/run.h"

namespace uroce::model {
namespace {

bool received(const Completion& c) { return c.opcode >= WcOpcode::kRecv; }

/// Passes everything on; a subclass changes one thing once.
class Liar : public Machine {
 public:
  Liar(Machine& truth, const Program& program, Memory& memory) : truth_(truth), program_(program), memory_(memory) {}
  bool told() const { return told_; }

  uint32_t qpn(unsigned qp) const override { return truth_.qpn(qp); }
  QpState state(unsigned qp) const override { return truth_.state(qp); }
  bool modify(unsigned qp, QpState to) override { return truth_.modify(qp, to); }
  bool connect(unsigned qp) override { return truth_.connect(qp); }
  void destroy(unsigned qp) override { truth_.destroy(qp); }
  Answer post_send(unsigned qp, SendWr& wr, unsigned to) override { return truth_.post_send(qp, wr, to); }
  Answer post_receive(unsigned qp, const RecvWr& wr) override { return truth_.post_receive(qp, wr); }
  uint32_t poll(unsigned endpoint, unsigned cq, std::span<Completion> out) override {
    return truth_.poll(endpoint, cq, out);
  }
  bool overrun(unsigned endpoint, unsigned cq) const override { return truth_.overrun(endpoint, cq); }
  void register_region(unsigned endpoint, Region region) override { truth_.register_region(endpoint, region); }
  bool deregister(unsigned endpoint, Region region) override { return truth_.deregister(endpoint, region); }
  uint32_t key(unsigned endpoint, Region region) const override { return truth_.key(endpoint, region); }
  void begin_bind(unsigned endpoint, Region window, MwBind& bind) override {
    truth_.begin_bind(endpoint, window, bind);
  }
  void end_bind(unsigned endpoint, Region window) override { truth_.end_bind(endpoint, window); }
  bool free_window(unsigned endpoint, Region window) override { return truth_.free_window(endpoint, window); }
  bool free_rest() override { return truth_.free_rest(); }
  Instant now(unsigned endpoint) const override { return truth_.now(endpoint); }
  void befall(const Step& step) override { truth_.befall(step); }
  Duration ack_timeout() const override { return truth_.ack_timeout(); }
  const Counters* counters(unsigned endpoint) const override { return truth_.counters(endpoint); }
  std::optional<IpAddress> address(unsigned qp) const override { return truth_.address(qp); }
  std::string complaint() const override { return truth_.complaint(); }
  void run(Duration time) override { truth_.run(time); }
  bool settle() override { return truth_.settle(); }
  bool stuck() const override { return truth_.stuck(); }

 protected:
  /// True once, for the first that applies.
  bool once(bool applies) {
    const bool now = applies && !told_;
    told_ |= now;
    return now;
  }

  Machine& truth_;
  const Program& program_;
  Memory& memory_;
  bool told_ = false;
};

struct PostThatIsSaidToBeRefused : Liar {
  using Liar::Liar;
  Answer post_send(unsigned qp, SendWr& wr, unsigned to) override {
    const Answer answer = Liar::post_send(qp, wr, to);
    return once(answer == Answer::kOk) ? Answer::kFull : answer;
  }
};
struct RefusedPostThatIsSaidToBeTaken : Liar {
  using Liar::Liar;
  Answer post_send(unsigned qp, SendWr& wr, unsigned to) override {
    const Answer answer = Liar::post_send(qp, wr, to);
    return once(answer != Answer::kOk) ? Answer::kOk : answer;
  }
};
struct ReceiveThatIsSaidToBeRefused : Liar {
  using Liar::Liar;
  Answer post_receive(unsigned qp, const RecvWr& wr) override {
    const Answer answer = Liar::post_receive(qp, wr);
    return once(answer == Answer::kOk) ? Answer::kFull : answer;
  }
};
struct ChangeOfStateThatIsDenied : Liar {
  using Liar::Liar;
  bool modify(unsigned qp, QpState to) override {
    const bool done = Liar::modify(qp, to);
    return once(done && to == QpState::kErr) ? false : done;
  }
};
struct OverrunThatWasNone : Liar {
  using Liar::Liar;
  uint32_t poll(unsigned endpoint, unsigned cq, std::span<Completion> out) override {
    once(program_.endpoints[endpoint].cq_entries[cq] == 256);
    return Liar::poll(endpoint, cq, out);
  }
  bool overrun(unsigned endpoint, unsigned cq) const override {
    return (told_ && program_.endpoints[endpoint].cq_entries[cq] == 256) || Liar::overrun(endpoint, cq);
  }
};
struct WindowThatCannotBeFreed : Liar {
  using Liar::Liar;
  bool free_window(unsigned endpoint, Region window) override {
    const bool freed = Liar::free_window(endpoint, window);
    return once(freed) ? false : freed;
  }
};
struct LostCompletion : Liar {
  using Liar::Liar;
  /// Unreliable messages may always be lost, a shared queue may keep its receives, and a reset removes completions.
  bool must_come(const Completion& c) const {
    const bool resets = std::any_of(program_.steps.begin(), program_.steps.end(), [](const Step& step) {
      return (step.what >= Do::kModify && step.what <= Do::kDestroy) || step.what >= Do::kVanish;
    });
    if (resets) return false;
    unsigned qp = 0;
    while (qp < program_.qps.size() && truth_.qpn(qp) != c.qp_num) qp++;
    return c.opcode < WcOpcode::kRecv ||
           (qp < program_.qps.size() && program_.qps[qp].type == QpType::kRc && !program_.qps[qp].srq);
  }
  uint32_t poll(unsigned endpoint, unsigned cq, std::span<Completion> out) override {
    uint32_t got = Liar::poll(endpoint, cq, out);
    if (got != 0 && once(out[got - 1].status == WcStatus::kSuccess && must_come(out[got - 1]))) got--;
    return got;
  }
};
struct CompletionThatComesTwice : Liar {
  using Liar::Liar;
  uint32_t poll(unsigned endpoint, unsigned cq, std::span<Completion> out) override {
    const uint32_t got = Liar::poll(endpoint, cq, out);
    if (got == 0 || got == out.size() || !once(true)) return got;
    out[got] = out[got - 1];
    return got + 1;
  }
};
struct CompletionsInTheWrongOrder : Liar {
  using Liar::Liar;
  uint32_t poll(unsigned endpoint, unsigned cq, std::span<Completion> out) override {
    const uint32_t got = Liar::poll(endpoint, cq, out);
    const auto of_one_queue = [](const Completion& a, const Completion& b) {
      return a.qp_num == b.qp_num && (a.opcode < WcOpcode::kRecv) == (b.opcode < WcOpcode::kRecv);
    };
    for (uint32_t i = 1; i < got; i++) {
      if (!once(of_one_queue(out[i - 1], out[i]))) continue;
      std::swap(out[i - 1].wr_id, out[i].wr_id);
    }
    return got;
  }
};
struct ByteThatIsWrong : Liar {
  using Liar::Liar;
  uint32_t poll(unsigned endpoint, unsigned cq, std::span<Completion> out) override {
    const uint32_t got = Liar::poll(endpoint, cq, out);
    for (const Completion& c : out.first(got)) {
      const uint32_t grh = (c.flags & kWcGrh) != 0 ? kGrhBytes : 0;
      const auto& sges = program_.steps[c.wr_id].sges;
      if (c.opcode != WcOpcode::kRecv || sges.empty() || sges[0].length <= grh || c.byte_len <= grh) continue;
      if (once(c.status == WcStatus::kSuccess)) memory_.landing(endpoint)[sges[0].offset + grh] ^= 1;
    }
    return got;
  }
};

struct DatagramOfAnotherSender : Liar {
  using Liar::Liar;
  uint32_t poll(unsigned endpoint, unsigned cq, std::span<Completion> out) override {
    const uint32_t got = Liar::poll(endpoint, cq, out);
    for (const Completion& c : out.first(got)) {
      const auto& sges = program_.steps[c.wr_id].sges;
      const bool datagram = c.status == WcStatus::kSuccess && (c.flags & kWcGrh) != 0;
      if (!datagram || sges.empty() || sges[0].length < kGrhBytes || !once(true)) continue;
      uint8_t* grh = memory_.landing(endpoint) + sges[0].offset;
      grh[grh[0] >> 4 == 6 ? 23 : 35] ^= 1;  // the last byte of the sender's address
    }
    return got;
  }
};
struct UnreliableMessageThatIsLost : Liar {
  using Liar::Liar;
  uint32_t poll(unsigned endpoint, unsigned cq, std::span<Completion> out) override {
    uint32_t got = Liar::poll(endpoint, cq, out);
    if (got != 0 && once(received(out[got - 1]))) got--;
    return got;
  }
};
/// Claims that the timer is four times as slow, and that no NAK asked for anything.
struct PeerThatIsGivenUpTooEarly : Liar {
  using Liar::Liar;
  /// Because a port takes no frames, or a clock leaps.
  bool may_wait_longer() const {
    return std::any_of(program_.steps.begin(), program_.steps.end(),
                       [](const Step& step) { return step.what == Do::kTxRoom || step.what == Do::kLeap; });
  }
  Duration ack_timeout() const override { return Liar::ack_timeout() * (may_wait_longer() ? 1 : 4); }
  const Counters* counters(unsigned endpoint) const override {
    return may_wait_longer() ? Liar::counters(endpoint) : nullptr;
  }
  uint32_t poll(unsigned endpoint, unsigned cq, std::span<Completion> out) override {
    const uint32_t got = Liar::poll(endpoint, cq, out);
    for (const Completion& c : out.first(got))
      once(!may_wait_longer() && c.status == WcStatus::kRetryExcErr && c.cause == Cause::kTimeout);
    return got;
  }
};
/// Claims that frames are still in flight.
struct MachineThatNeverRests : Liar {
  using Liar::Liar;
  bool settle() override {
    Liar::settle();
    once(true);
    return false;
  }
};

/// Changes one field of the first completion that has it.
struct WrongField {
  const char* what;
  bool (*applies)(const Completion&);
  void (*tell)(Completion&);
};
class CompletionWithAWrongField : public Liar {
 public:
  CompletionWithAWrongField(const WrongField& lie, Machine& truth, const Program& program, Memory& memory)
      : Liar(truth, program, memory), lie_(lie) {}
  uint32_t poll(unsigned endpoint, unsigned cq, std::span<Completion> out) override {
    const uint32_t got = Liar::poll(endpoint, cq, out);
    for (Completion& completion : out.first(got))
      if (once(lie_.applies(completion))) lie_.tell(completion);
    return got;
  }

 private:
  const WrongField& lie_;
};

bool good(const Completion& c) { return c.status == WcStatus::kSuccess; }

const WrongField kLies[] = {
    {"another wr_id", [](const Completion&) { return true; }, [](Completion& c) { c.wr_id += 1000; }},
    {"another queue pair", [](const Completion&) { return true; }, [](Completion& c) { c.qp_num ^= 0x800000; }},
    {"a success that failed", good, [](Completion& c) { c.status = WcStatus::kGeneralErr; }},
    {"a failure that succeeded", [](const Completion& c) { return !good(c) && c.status != WcStatus::kWrFlushErr; },
     [](Completion& c) { c.status = WcStatus::kSuccess; }},
    {"a flushed one that succeeded", [](const Completion& c) { return c.status == WcStatus::kWrFlushErr; },
     [](Completion& c) { c.status = WcStatus::kSuccess; }},
    {"a success that was flushed", good, [](Completion& c) { c.status = WcStatus::kWrFlushErr; }},
    {"another opcode of a send", [](const Completion& c) { return good(c) && !received(c); },
     [](Completion& c) { c.opcode = c.opcode == WcOpcode::kSend ? WcOpcode::kRdmaWrite : WcOpcode::kSend; }},
    {"another opcode of a receive", [](const Completion& c) { return good(c) && received(c); },
     [](Completion& c) { c.opcode = c.opcode == WcOpcode::kRecv ? WcOpcode::kRecvRdmaWithImm : WcOpcode::kRecv; }},
    {"a byte more received", [](const Completion& c) { return good(c) && received(c); },
     [](Completion& c) { c.byte_len++; }},
    {"a byte more read",
     [](const Completion& c) {
       return good(c) &&
              (c.opcode == WcOpcode::kRdmaRead || c.opcode == WcOpcode::kFetchAdd || c.opcode == WcOpcode::kCompSwap);
     },
     [](Completion& c) { c.byte_len++; }},
    {"other immediate data", [](const Completion& c) { return good(c) && (c.flags & kWcWithImm) != 0; },
     [](Completion& c) { c.imm_or_rkey ^= 1; }},
    {"another invalidated key", [](const Completion& c) { return good(c) && (c.flags & kWcWithInv) != 0; },
     [](Completion& c) { c.imm_or_rkey ^= 1; }},
    {"immediate data or none", [](const Completion& c) { return good(c) && received(c); },
     [](Completion& c) { c.flags ^= kWcWithImm; }},
    {"a key or none", [](const Completion& c) { return good(c) && received(c); },
     [](Completion& c) { c.flags ^= kWcWithInv; }},
    {"a GRH or none", [](const Completion& c) { return good(c) && received(c); },
     [](Completion& c) { c.flags ^= kWcGrh; }},
    {"another sender", [](const Completion& c) { return good(c) && (c.flags & kWcGrh) != 0; },
     [](Completion& c) { c.src_qp ^= 0x800000; }},
    {"a time before it was posted", [](const Completion&) { return true; }, [](Completion& c) { c.timestamp_ns = -1; }},
    {"a time to come", [](const Completion&) { return true; },
     [](Completion& c) { c.timestamp_ns += 1'000'000'000'000; }},
    {"a failure without a cause", [](const Completion& c) { return !good(c); },
     [](Completion& c) { c.cause = Cause::kNone; }},
    {"a success with a cause", good, [](Completion& c) { c.cause = Cause::kTimeout; }},
};

/// Draws programs until the lie was told in 40 of them.
template <typename Make>
void expect_found(Make make) {
  Memory memory(4);
  unsigned told = 0;
  unsigned found = 0;
  uint64_t last = 0;
  for (uint64_t seed = 1; told < 40 && seed < 20'000; seed++) {
    const Program program = generate(seed, {.overruns = false});  // the contents of a queue that overran are not known
    memory.prepare();
    const std::unique_ptr<Machine> truth = engines(program, memory);
    auto liar = make(*truth, program, memory);
    const std::string failure = run_on(program, Rules{}, liar, memory);
    told += liar.told();
    found += liar.told() && !failure.empty();
    if (liar.told() && failure.empty()) last = seed;
    EXPECT_TRUE(liar.told() || failure.empty()) << "seed " << seed << ": " << failure;
  }
  EXPECT_EQ(told, 40u);
  EXPECT_EQ(found, told) << "not with seed " << last << ":\n" << to_cpp(generate(last, {.overruns = false}));
}

class WrongFields : public ::testing::TestWithParam<WrongField> {};

TEST_P(WrongFields, AreFoundEachTime) {
  expect_found([](Machine& truth, const Program& program, Memory& memory) {
    return CompletionWithAWrongField(GetParam(), truth, program, memory);
  });
}

INSTANTIATE_TEST_SUITE_P(All, WrongFields, ::testing::ValuesIn(kLies), [](const auto& each) {
  std::string name = each.param.what;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
});

template <typename T>
class WrongAnswers : public ::testing::Test {};
using Answers =
    ::testing::Types<PostThatIsSaidToBeRefused, RefusedPostThatIsSaidToBeTaken, ReceiveThatIsSaidToBeRefused,
                     ChangeOfStateThatIsDenied, OverrunThatWasNone, WindowThatCannotBeFreed, LostCompletion,
                     CompletionThatComesTwice, CompletionsInTheWrongOrder, ByteThatIsWrong, DatagramOfAnotherSender,
                     PeerThatIsGivenUpTooEarly, MachineThatNeverRests>;
TYPED_TEST_SUITE(WrongAnswers, Answers);

TYPED_TEST(WrongAnswers, AreFoundEachTime) {
  expect_found(
      [](Machine& truth, const Program& program, Memory& memory) { return TypeParam(truth, program, memory); });
}

/// On a clean cable, into a receive posted earlier, while a key of the sender changes.
TEST(Lies, AnUnreliableMessageThatIsLost) {
  for (const QpType type : {QpType::kUc, QpType::kUd}) {
    const Program program{.qps = {{.endpoint = 0, .type = type}, {.endpoint = 1, .type = type}},
                          .steps = {
                              {.what = Do::kReceive, .qp = 1, .sges = {{.region = Region::kLanding, .length = 100}}},
                              {.what = Do::kPost, .flags = kSendSignaled, .sges = {{.length = 10}}, .to = 1},
                              {.what = Do::kDeregister, .region = Region::kReadOnly},
                              {.what = Do::kSettle},
                              {.what = Do::kPoll, .endpoint = 1, .cq = 1, .count = 64},
                          }};
    Memory memory(2);
    EXPECT_EQ(run_on(program, Rules{}, *engines(program, memory), memory), "");
    memory.prepare();
    const std::unique_ptr<Machine> truth = engines(program, memory);
    UnreliableMessageThatIsLost liar(*truth, program, memory);
    EXPECT_NE(run_on(program, Rules{}, liar, memory).find("on a clean cable"), std::string::npos);
  }
}

}  // namespace
}  // namespace uroce::model
