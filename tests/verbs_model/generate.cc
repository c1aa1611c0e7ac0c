#include "verbs_model/generate.h"

#include <algorithm>
#include <array>

#include "base/random.h"

namespace uroce::model {

namespace {

constexpr uint32_t kOverhang = 100;  // bytes at most of an element that reaches beyond its region

class Generator {
 public:
  // The factor is not SplitMix64's own, or each program would be drawn from the numbers of the previous one.
  Generator(uint64_t seed, const Limits& limits) : limits_(limits), random_(seed * 0xD1342543DE82EF95u + 1) {
    program_.seed = seed;
    program_.endpoints.clear();
    program_.qps.clear();
  }

  Program draw_round(uint32_t round) {
    round_ = round;
    lazy_ = one_in(5);
    draw_endpoints();
    for (Endpoint& endpoint : program_.endpoints) endpoint.srq_wrs = endpoint.srq_limit = 0;
    const unsigned pairs = 1 + (one_in(3) ? below(3) : 0);
    for (unsigned i = 0; i < pairs; i++) draw_pair();
    for (QueuePair& qp : program_.qps) {
      qp.srq = false;
      qp.retries = 7;
      qp.access = QueuePair{}.access;
      if (pairs == 1 && one_in(2)) qp.send_wrs = qp.recv_wrs = 64;
    }
    random_ = SeededRandom((program_.seed << 20) + round);
    const unsigned count = 20 + below(60);
    while (program_.steps.size() < count) draw_step();
    if (limits_.faults) draw_troubles(program_, program_.seed, limits_.without, round);
    return std::move(program_);
  }

  Program draw() {
    mistakes_ = one_in(2) ? 0 : 2 + below(12);
    windows_ = one_in(5);
    lifecycle_ = one_in(3);
    lazy_ = one_in(5);
    draw_endpoints();
    const unsigned pairs = 1 + (one_in(3) ? below(3) : 0);
    for (unsigned i = 0; i < pairs; i++) draw_pair();
    if (limits_.faults && one_in(3)) draw_faults();
    const unsigned count = one_in(8) ? 40 + below(40) : 4 + below(22);
    while (program_.steps.size() < count) draw_step();
    if (limits_.faults) draw_troubles(program_, program_.seed, limits_.without);
    return std::move(program_);
  }

 private:
  uint32_t below(uint32_t bound) { return random_.below(bound); }
  bool one_in(uint32_t n) { return below(n) == 0; }
  bool mistake() { return mistakes_ != 0 && below(100) < mistakes_; }
  template <typename T>
  void shuffle_in(std::initializer_list<T> values, T& to) {
    to = *(values.begin() + below(static_cast<uint32_t>(values.size())));
  }
  uint8_t any_qp() { return static_cast<uint8_t>(below(static_cast<uint32_t>(program_.qps.size()))); }

  void draw_endpoints() {
    const unsigned count = one_in(10) ? 1 : one_in(5) ? 3 + below(2) : 2;
    const bool tiny = limits_.overruns && round_ == 0 && one_in(6);
    for (unsigned i = 0; i < count; i++) {
      Endpoint endpoint;
      for (uint32_t& entries : endpoint.cq_entries) entries = tiny ? 1 + below(12) : 256;
      if (one_in(4)) endpoint.srq_wrs = 1 + below(16);
      if (endpoint.srq_wrs != 0 && one_in(2)) endpoint.srq_limit = below(endpoint.srq_wrs);
      program_.endpoints.push_back(endpoint);
    }
  }

  void draw_pair() {
    QueuePair both;
    const uint32_t type = below(10);
    both.type = type < 7 ? QpType::kRc : type < 9 ? QpType::kUc : QpType::kUd;
    both.mtu = std::min(one_in(2) ? 256u : one_in(2) ? 1024u : 4096u, limits_.port_mtu);
    both.reads = static_cast<uint8_t>(1 + below(round_ != 0 ? 16 : 4));
    if (both.type == QpType::kRc && one_in(3)) {
      both.recovery = one_in(2) ? LossRecovery::kAuto : LossRecovery::kSelective;
    }
    both.retries = static_cast<uint8_t>(one_in(5) ? below(4) : 7);
    if (!limits_.few_retries) both.retries = 7;
    both.rnr_retries = static_cast<uint8_t>(one_in(4) ? below(3) : 7);
    const auto endpoints = static_cast<uint32_t>(program_.endpoints.size());
    const uint32_t first = below(endpoints);
    for (unsigned i = 0; i < 2; i++) {
      QueuePair qp = both;
      qp.endpoint =
          static_cast<uint8_t>(i == 0 || endpoints == 1 ? first : (first + 1 + below(endpoints - 1)) % endpoints);
      qp.srq = program_.endpoints[qp.endpoint].srq_wrs != 0 && one_in(2);
      qp.signal_all = one_in(5);
      qp.send_cq = static_cast<uint8_t>(one_in(4) ? 1 : 0);
      qp.recv_cq = static_cast<uint8_t>(one_in(4) ? 0 : 1);
      if (one_in(4)) qp.send_wrs = 1 + below(6);
      if (one_in(4)) qp.recv_wrs = 1 + below(6);
      qp.sges = 1 + below(4);
      qp.inline_bytes = one_in(3) ? 16 : 16 + below(200);  // 16: the minimum of verbs
      if (one_in(8)) qp.access = below(8) << 1;
      program_.qps.push_back(qp);
    }
  }

  void draw_faults() {
    if (one_in(8)) {
      Fault cut;
      cut.endpoint = static_cast<uint8_t>(below(static_cast<uint32_t>(program_.endpoints.size())));
      cut.text = "down from " + std::to_string(below(60)) + "us";
      if (one_in(2)) cut.text += " for " + std::to_string(1 + below(12000)) + "us";
      program_.faults.push_back(cut);
      return;
    }
    for (unsigned count = 1 + below(5); count > 0; count--) {
      Fault fault;
      fault.endpoint = static_cast<uint8_t>(below(static_cast<uint32_t>(program_.endpoints.size())));
      const std::string number = std::to_string(1 + below(one_in(2) ? 6 : 40));
      switch (below(5)) {
        case 0:
          fault.text = "delay " + number + " any by " + std::to_string(1 + below(80)) + "us";
          break;
        case 1:
          fault.text = "duplicate " + number + " any by " + std::to_string(1 + below(80)) + "us";
          break;
        case 2:
          fault.text = "corrupt " + number + " any";
          break;
        default:
          fault.text = "drop " + number + " any";
          break;
      }
      program_.faults.push_back(fault);
    }
  }

  void draw_step() {
    const uint32_t what = below(100);
    if (what < 40) return draw_post();
    if (what < 58) return draw_receive();
    if (what < 72) return draw_run();
    if (what < 90) return draw_poll();
    if (what < 92 && one_in(2)) return add({.what = Do::kSettle});
    if (lifecycle_) return draw_lifecycle();
    if (mistakes_ != 0 && one_in(4)) return draw_key_change();
  }

  void add(Step step) { program_.steps.push_back(std::move(step)); }

  void draw_run() {
    const uint32_t ranges[] = {100, 2'000, 10'000, 100'000, 2'000'000};
    add({.what = Do::kRun, .count = 1 + below(ranges[below(one_in(4) ? 5 : 3)])});
  }

  void draw_poll() {
    if (lazy_ && !one_in(8)) return;
    const auto endpoints = static_cast<uint32_t>(program_.endpoints.size());
    add({.what = Do::kPoll,
         .endpoint = static_cast<uint8_t>(below(endpoints)),
         .cq = static_cast<uint8_t>(below(2)),
         .count = one_in(3) ? 1 + below(3) : 64});
  }

  void draw_lifecycle() {
    const uint8_t qp = any_qp();
    switch (below(8)) {
      case 0:
      case 1:
        return add({.what = Do::kModify, .qp = qp, .state = QpState::kErr});
      case 2:
        return add({.what = Do::kModify, .qp = qp, .state = QpState::kReset});
      case 3:
        return add({.what = Do::kModify, .qp = qp, .state = QpState::kSqd});
      case 4:
        return add({.what = Do::kModify, .qp = qp, .state = QpState::kRts});
      case 5:
        if (one_in(2)) return add({.what = Do::kDestroy, .qp = qp});
        return;
      default:
        return add({.what = Do::kConnect, .qp = static_cast<uint8_t>(qp & ~1u)});
    }
  }

  void draw_key_change() {
    const auto endpoint = static_cast<uint8_t>(below(static_cast<uint32_t>(program_.endpoints.size())));
    Region region = Region::kTarget;
    shuffle_in({Region::kSource, Region::kTarget, Region::kReadOnly, Region::kLanding}, region);
    bool& gone = gone_[endpoint][static_cast<unsigned>(region)];
    // A region with a window may refuse to be deregistered; registering needs one that was deregistered.
    if (!gone && windows_ && region == Region::kTarget) return;
    add({.what = gone ? Do::kRegister : Do::kDeregister, .endpoint = endpoint, .region = region});
    gone = !gone;
  }

  uint32_t draw_length(const QueuePair& qp) {
    switch (below(8)) {
      case 0:
        return 0;
      case 1:
        return 1 + below(16);
      case 2:
        return qp.mtu;
      case 3:
        return qp.mtu + below(3) - 1;
      case 4:
        return std::min(qp.mtu * (1 + below(40)), 12'000u);
      default:
        return 1 + below(one_in(3) ? 6000 : 600);
    }
  }

  /// Makes an element invalid.
  void spoil(Element& element) {
    switch (below(6)) {
      case 0:
        element.wrong_key = true;
        break;
      case 1:
        element.region = Region::kForeign;
        break;
      case 2:
        element.region = Region::kWindow;
        break;
      case 3:
        element.length = one_in(2) ? 0x80000000u : 0x7FFFFF00u;
        break;
      default:
        element.offset = end_of(element.region) - std::min(element.length / 2, kOverhang);
        break;
    }
  }
  /// A receive that reaches beyond its region gets the region's last bytes, which no other uses, and takes what fits.
  /// Further ones get none.
  void keep_apart(unsigned endpoint, Element& element) {
    if (element.region != Region::kLanding || element.length <= kLandingBytes - element.offset) return;
    element.offset = kLandingBytes - (overhangs_[endpoint] ? 0 : std::min(element.length / 2, kOverhang));
    overhangs_[endpoint] = true;
  }
  static uint32_t end_of(Region region) { return region == Region::kLanding ? kLandingBytes : kSourceBytes; }

  std::vector<Element> draw_source(const QueuePair& qp, uint32_t bytes) {
    std::vector<Element> elements;
    const uint32_t count = 1 + below(qp.sges + (mistake() ? 1 : 0));
    for (uint32_t i = 0; i < count && (bytes != 0 || i == 0); i++) {
      const uint32_t length = i + 1 == count ? bytes : one_in(8) ? 0 : below(bytes + 1);
      elements.push_back({.offset = below(kSourceBytes - length + 1), .length = length});
      bytes -= length;
    }
    if (bytes == 0 && one_in(3) && elements[0].length == 0) elements.clear();
    return elements;
  }

  /// Gives each receive memory of its own; false when none is left.
  bool draw_landing(const QueuePair& qp, uint32_t bytes, std::vector<Element>& elements) {
    uint32_t& used = landing_used_[qp.endpoint];
    if (used + bytes + 64 > kLandingBytes - kOverhang) return false;
    const uint32_t count = 1 + below(qp.sges);
    for (uint32_t i = 0; i < count && (bytes != 0 || i == 0); i++) {
      const uint32_t length = i + 1 == count ? bytes : below(bytes + 1);
      elements.push_back({.region = Region::kLanding, .offset = used, .length = length});
      used += length + below(12);
      bytes -= length;
    }
    return true;
  }

  void draw_receive() {
    const uint8_t number = any_qp();
    const QueuePair& qp = program_.qps[number];
    for (uint32_t count = one_in(3) ? 1 + below(6) : 1; count > 0; count--) {
      Step step{.what = Do::kReceive, .qp = number};
      const uint32_t grh = qp.type == QpType::kUd ? 40 : 0;
      const uint32_t bytes = grh + (one_in(4) ? draw_length(qp) : one_in(2) ? 700 : 12'000);
      if (!draw_landing(qp, qp.type == QpType::kUd ? std::min(bytes, 4200u) : bytes, step.sges)) return;
      if (mistake()) {
        Element& element = step.sges[below(static_cast<uint32_t>(step.sges.size()))];
        if (one_in(3)) {
          element.region = Region::kSource;
          element.offset = 0;
        } else if (element.length != 0) {
          spoil(element);
          keep_apart(qp.endpoint, element);
        }
      }
      add(std::move(step));
    }
  }

  void draw_post() {
    const uint8_t number = any_qp();
    for (uint32_t count = one_in(4) ? 2 + below(5) : 1; count > 0; count--) draw_one_post(number);
  }

  void draw_one_post(uint8_t number) {
    const QueuePair& qp = program_.qps[number];
    Step step{.what = Do::kPost, .qp = number};
    step.flags = static_cast<uint8_t>((one_in(4) ? 0 : kSendSignaled) | (one_in(5) ? kSendSolicited : 0) |
                                      (one_in(8) ? kSendFence : 0));
    step.imm = random_.next_u32();
    if (windows_ && qp.type != QpType::kUd && one_in(4)) return draw_window_work(std::move(step), qp);
    step.opcode = draw_opcode(qp);
    const bool atomic = step.opcode == WrOpcode::kCompareSwap || step.opcode == WrOpcode::kFetchAdd;
    for (uint32_t count = !atomic ? 0 : one_in(3) ? 1 + below(8) : 1; count > 0; count--) draw_atomic(step, qp);
    if (atomic) return;
    if (is_placement(step.opcode)) return draw_placement(std::move(step));
    uint32_t bytes = draw_length(qp);
    if (qp.type == QpType::kUd) {
      bytes = std::min(bytes, limits_.port_mtu + (mistake() ? 1u : 0u));
      step.to = number;
      while (step.to == number || program_.qps[step.to].type != QpType::kUd) step.to = any_qp();
      if (one_in(2)) step.to = number ^ 1;
    }
    if (step.opcode == WrOpcode::kRdmaRead) {
      if (!draw_landing(qp, bytes, step.sges)) return;
    } else {
      step.sges = draw_source(qp, bytes);
      if (bytes <= qp.inline_bytes + (mistake() ? 1 : 0) && one_in(2)) step.flags |= kSendInline;
    }
    step.offset = below(kTargetBytes - bytes + 1);
    if (one_in(2)) step.offset = std::min(step.offset, 512 * below(4));  // so that they overlap
    if (step.opcode == WrOpcode::kRdmaRead && one_in(3)) step.region = Region::kReadOnly;
    draw_mistakes(step, bytes);
    if (round_ != 0 && !one_in(16)) receive_first(step, bytes);
    add(std::move(step));
  }

  void receive_first(const Step& step, uint32_t bytes) {
    const bool takes = step.opcode == WrOpcode::kSend || step.opcode == WrOpcode::kSendWithImm ||
                       step.opcode == WrOpcode::kRdmaWriteWithImm;
    const bool datagram = program_.qps[step.qp].type == QpType::kUd;
    Step receive{.what = Do::kReceive, .qp = datagram ? step.to : static_cast<uint8_t>(step.qp ^ 1u)};
    if (!takes || !draw_landing(program_.qps[receive.qp], bytes + (datagram ? 40 : 0), receive.sges)) return;
    add(std::move(receive));
  }

  void draw_mistakes(Step& step, uint32_t bytes) {
    if (mistake() && !step.sges.empty() && (step.flags & kSendInline) == 0) {
      Element& element = step.sges[below(static_cast<uint32_t>(step.sges.size()))];
      if (element.length != 0) spoil(element);
    }
    const bool remote = step.opcode == WrOpcode::kRdmaWrite || step.opcode == WrOpcode::kRdmaWriteWithImm ||
                        step.opcode == WrOpcode::kRdmaRead;
    if (windows_ && remote && one_in(2))
      shuffle_in({Region::kWindow, Region::kWindow2, Region::kOldWindow}, step.region);
    if (!remote || !mistake()) return;
    switch (below(4)) {
      case 0:
        step.wrong_rkey = true;
        break;
      case 1:
        shuffle_in({Region::kForeign, Region::kReadOnly, Region::kSource, Region::kWindow2}, step.region);
        break;
      default:
        step.offset = kTargetBytes - std::min(bytes, below(200));
        break;
    }
  }

  void draw_placement(Step step) {
    step.offset = 8 * below(kTargetBytes / 8);
    if (one_in(2)) step.offset %= 64;  // so that they overlap
    if (step.opcode == WrOpcode::kAtomicWrite) {
      step.operand = random_.next_u64();
    } else {
      step.count = below(2);
      step.length = below(kTargetBytes - step.offset + 1);
      if (mistake()) step.length += kTargetBytes;
    }
    if (mistake()) step.offset += 1 + below(7);
    if (mistake()) step.wrong_rkey = true;
    if (mistake()) shuffle_in({Region::kForeign, Region::kReadOnly, Region::kSource}, step.region);
    add(std::move(step));
  }

  WrOpcode draw_opcode(const QueuePair& qp) {
    WrOpcode opcode = WrOpcode::kSend;
    if (mistake()) {
      shuffle_in({WrOpcode::kRdmaRead, WrOpcode::kFetchAdd, WrOpcode::kRdmaWrite}, opcode);
      return opcode;
    }
    switch (qp.type) {
      case QpType::kUd:
        shuffle_in({WrOpcode::kSend, WrOpcode::kSendWithImm}, opcode);
        break;
      case QpType::kUc:
        shuffle_in({WrOpcode::kSend, WrOpcode::kSendWithImm, WrOpcode::kRdmaWrite, WrOpcode::kRdmaWriteWithImm},
                   opcode);
        break;
      default:  // RC; XRC is not in the model
        if (limits_.placements && one_in(10)) {
          shuffle_in({WrOpcode::kFlush, WrOpcode::kAtomicWrite, WrOpcode::kAtomicWrite}, opcode);
          break;
        }
        shuffle_in({WrOpcode::kSend, WrOpcode::kSend, WrOpcode::kSendWithImm, WrOpcode::kRdmaWrite,
                    WrOpcode::kRdmaWrite, WrOpcode::kRdmaWriteWithImm, WrOpcode::kRdmaRead, WrOpcode::kRdmaRead,
                    WrOpcode::kFetchAdd, WrOpcode::kCompareSwap},
                   opcode);
        break;
    }
    return opcode;
  }

  void draw_atomic(Step step, const QueuePair& qp) {
    if (!draw_landing(qp, 8, step.sges)) return;
    step.region = Region::kWords;
    const unsigned there = program_.qps[step.qp ^ 1u].endpoint;
    const uint32_t word = one_in(3) ? kCounterWord : below(kWords / 2);
    if (step.opcode == WrOpcode::kFetchAdd) {
      // Each adds a bit of its own, so that the sum shows which were executed; or 1, like all others on the counter.
      const bool counts = word == kCounterWord;
      if (!counts && adds_[there] == 60) return;
      step.offset = word * 8;
      step.operand = counts ? 1 : uint64_t{1} << adds_[there]++;
    } else {
      auto& swaps = swaps_[there][word];
      step.offset = (kWords / 2 + word) * 8;
      step.operand = 0x1000 + program_.steps.size();
      const auto known = static_cast<uint32_t>(swaps.size());
      step.compare = one_in(8) ? 0xDEAD : known == 0 || one_in(3) ? 0 : swaps[known - 1 - below(std::min(known, 2u))];
      swaps.push_back(step.operand);
    }
    if (mistake()) step.offset += 1 + below(7);
    if (mistake()) step.wrong_rkey = true;
    if (mistake()) spoil(step.sges[0]);
    add(std::move(step));
  }

  void draw_window_work(Step step, const QueuePair& qp) {
    shuffle_in({Region::kWindow, Region::kWindow, Region::kWindow2, Region::kOldWindow}, step.window);
    if (!limits_.old_windows && step.window == Region::kOldWindow) return;
    step.wrong_rkey = mistake();
    const uint32_t what = below(qp.type == QpType::kRc ? 6 : 5);
    if (what == 5) {
      step.opcode = WrOpcode::kSendWithInv;
      if (step.window != Region::kOldWindow && one_in(2)) prepare_invalidation(step);
      step.sges = draw_source(qp, below(300));
    } else if (what == 4) {
      step.opcode = WrOpcode::kLocalInv;
    } else {
      step.opcode = WrOpcode::kBindMw;
      step.length = 1 + below(kTargetBytes);
      step.offset = below(kTargetBytes - step.length + 1);
      if (step.window == Region::kOldWindow && one_in(4)) step.length = 0;
      step.access = one_in(3) ? kRemoteRead : kRemoteRead | kRemoteWrite;
      if (mistake()) step.length += kTargetBytes;
      if (mistake()) shuffle_in({Region::kForeign, Region::kReadOnly, Region::kSource, Region::kWindow2}, step.region);
    }
    add(std::move(step));
  }

  /// Prepares for an invalidation by the peer, which rarely succeeds by chance: a bind on its own end of the
  /// connection, whose completion was polled, so that the program knows the key; and a receive.
  void prepare_invalidation(const Step& invalidation) {
    const auto there = static_cast<uint8_t>(invalidation.qp ^ 1u);
    const QueuePair& qp = program_.qps[there];
    Step receive{.what = Do::kReceive, .qp = there};
    if (!draw_landing(qp, 300, receive.sges)) return;
    add({.what = Do::kPost,
         .qp = there,
         .opcode = WrOpcode::kBindMw,
         .flags = kSendSignaled,
         .window = invalidation.window,
         .length = 1 + below(kTargetBytes),
         .access = kRemoteRead | kRemoteWrite});
    add({.what = Do::kSettle});
    for (uint8_t cq = 0; cq < 2; cq++) add({.what = Do::kPoll, .endpoint = qp.endpoint, .cq = cq, .count = 64});
    add(std::move(receive));
  }

  const Limits limits_;
  SeededRandom random_;
  Program program_;
  uint32_t round_ = 0;     // of a course
  uint32_t mistakes_ = 0;  // per cent
  bool windows_ = false;
  bool lifecycle_ = false;
  bool lazy_ = false;
  std::array<uint32_t, 4> landing_used_ = {};
  std::array<bool, 4> overhangs_ = {};
  std::array<uint32_t, 4> adds_ = {};
  std::array<std::array<std::vector<uint64_t>, kWords>, 4> swaps_;
  bool gone_[4][kRegions] = {};
};

}  // namespace

Program generate(uint64_t seed, const Limits& limits) { return Generator(seed, limits).draw(); }

Program generate_round(uint64_t seed, uint32_t round, const Limits& limits) {
  return Generator(seed, limits).draw_round(round);
}

}  // namespace uroce::model
