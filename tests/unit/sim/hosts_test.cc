// Hosts that fare badly: an engine that is destroyed and made anew, a clock that leaps, a port without buffers; and
// packets that somebody forged.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "engine/address_table.h"
#include "engine/object_tables.h"
#include "packet/opcode.h"
#include "sim/testbed.h"
#include "transport/counters.h"
#include "transport/frame_builder.h"
#include "transport/qp.h"

namespace uroce::sim {
namespace {

constexpr uint32_t kBytes = 3000;
constexpr Duration kLate = microseconds(500);

class Hosts : public testing::Test {
 protected:
  explicit Hosts(QpType type = QpType::kRc) : bed(3, {.delay = kLate, .impairments = {}}) {
    options.type = type;
    options.attributes.path_mtu_bytes = 1024;
    options.attributes.timeout = 9;  // 2.1 ms; a round trip takes one
    bed.connect(a, b, options);
    near = a.buffer(kBytes);
    far = b.buffer(kBytes);
    std::memset(near.data(), 0x11, near.size);
    std::memset(far.data(), 0x22, far.size);
    EXPECT_TRUE(bed.world.run_until_idle());
  }

  void write(uint32_t rkey) {
    const Sge sge = near.sge();
    SendWr wr;
    wr.wr_id = 1;
    wr.opcode = WrOpcode::kRdmaWrite;
    wr.flags = kSendSignaled;
    wr.sges = &sge;
    wr.num_sge = 1;
    wr.remote_addr = far.addr();
    wr.rkey = rkey;
    EXPECT_EQ(a.send(wr), PostResult::kOk);
  }
  std::vector<WcStatus> ends() {
    EXPECT_TRUE(bed.world.run_until_idle());
    std::vector<WcStatus> all;
    for (const Completion& c : a.sent()) all.push_back(c.status);
    return all;
  }
  bool far_is(uint8_t byte) const {
    return std::all_of(far.data(), far.data() + far.size, [byte](uint8_t is) { return is == byte; });
  }

  QpOptions options;
  Testbed bed;
  Side a, b;
  Buffer near, far;
};

using Statuses = std::vector<WcStatus>;

/// The clock of the sender leaps `leaps` times while the first answer is under way.
class LeapingClock : public Hosts, public testing::WithParamInterface<unsigned> {};

TEST_P(LeapingClock, ALeapCostsOneRetryAtMost) {
  write(far.key);
  bed.world.run_for(microseconds(10));
  for (unsigned i = 0; i < GetParam(); i++) {
    bed.a.leap(milliseconds(5000));
    bed.world.run_for(microseconds(10));
  }
  const bool too_many = GetParam() > options.attributes.retry_cnt;
  EXPECT_EQ(ends(), Statuses{too_many ? WcStatus::kRetryExcErr : WcStatus::kSuccess});
  EXPECT_EQ(bed.a.engine().counters().local_ack_timeout_err, GetParam());
  EXPECT_TRUE(far_is(0x11));
}

INSTANTIATE_TEST_SUITE_P(Leaps, LeapingClock, testing::Values(0u, 1u, 7u, 8u));

/// A virtual machine that was suspended finds the answers in its port.
TEST_F(Hosts, WhatHasArrivedIsLookedAtBeforeTheTimers) {
  write(far.key);
  bed.world.run_for(microseconds(10));
  bed.a.set_turn_delay(milliseconds(100));
  while (!bed.a.port().has_received()) bed.world.events().step();
  bed.a.leap(milliseconds(5000));
  EXPECT_EQ(ends(), Statuses{WcStatus::kSuccess});
  EXPECT_EQ(bed.a.engine().counters().local_ack_timeout_err, 0u);
}

/// The receiver's engine is replaced while packets are on the way to it. In the new one all objects have the same
/// numbers.
TEST_F(Hosts, ANewEngineTakesNothingThatWasForTheOldOne) {
  const uint32_t qpn = b.qp->qpn();
  const uint32_t key = far.key;
  write(key);
  bed.world.run_for(microseconds(10));
  bed.b.restart_engine(true);
  b.pd = b.engine().objects().allocate_pd();
  b.send_cq = b.engine().objects().create_cq(16, nullptr);
  b.recv_cq = b.engine().objects().create_cq(16, nullptr);
  Testbed::make_qp(b, false, options);
  b.register_again(far);
  EXPECT_EQ(b.qp->qpn(), qpn);
  EXPECT_EQ(far.key, key);

  EXPECT_EQ(ends(), Statuses{WcStatus::kRetryExcErr});
  EXPECT_TRUE(far_is(0x22));
  EXPECT_GT(b.engine().counters().rx_drop_qp_state, 0u);

  options.psn_a += 0x100000;
  options.psn_b += 0x100000;
  EXPECT_EQ(a.modify(QpState::kReset), ModifyResult::kOk);
  bed.join(a, b, options);
  EXPECT_TRUE(bed.world.run_until_idle());
  write(far.key);
  EXPECT_EQ(ends(), Statuses{WcStatus::kSuccess});
  EXPECT_TRUE(far_is(0x11));
}

TEST_F(Hosts, APortWithoutBuffersLosesWhatArrivesAndSendsNothing) {
  bed.b.port().set_out_of_buffers(true);
  write(far.key);
  bed.world.run_for(milliseconds(1));
  EXPECT_EQ(bed.b.port().counters().rx_dropped, 3u);
  EXPECT_TRUE(far_is(0x22));
  bed.b.port().set_out_of_buffers(false);
  EXPECT_EQ(ends(), Statuses{WcStatus::kSuccess});
  EXPECT_TRUE(far_is(0x11));
}

TEST_F(Hosts, ASmallReceiveQueueOverruns) {
  bed.b.port().set_rx_frames(2);
  bed.b.set_turn_delay(microseconds(10));
  write(far.key);
  EXPECT_EQ(ends(), Statuses{WcStatus::kSuccess});
  EXPECT_GT(bed.b.port().counters().rx_dropped, 0u);
  EXPECT_TRUE(far_is(0x11));
}

/// A forger knows everything but the key. Its packet is taken for the peer's, and the specification then ends a
/// reliable QP; other QPs only drop the packet.
class WrongKey : public Hosts, public testing::WithParamInterface<QpType> {
 protected:
  WrongKey() : Hosts(GetParam()) {}

  void forge(uint8_t low, uint32_t key) {
    const bool ud = GetParam() == QpType::kUd;
    Bth bth;
    bth.opcode = make_opcode(ud ? Service::kUd : GetParam() == QpType::kUc ? Service::kUc : Service::kRc, low);
    bth.dest_qp = b.qp->qpn();
    bth.psn = options.psn_a;
    Route path = a.qp->path();
    if (ud) {
      path.src_mac = bed.a.engine().addresses().mac();
      path.dst_mac = bed.b.engine().addresses().mac();
      path.src_ip = bed.a.engine().addresses().gids()[1].ip;
      path.dst_ip = bed.b.engine().addresses().gids()[1].ip;
      path.udp_src_port = 0xC000;
    }
    uint8_t junk[64];
    std::memset(junk, 0x66, sizeof junk);
    Frame frame = Frame::with_capacity(1024);
    TxFrame out{frame.data(), 1024, 0, nullptr};
    const RouteHeader header(path);
    const OpcodeInfo& info = opcode_info(bth.opcode);
    const bool carries = info.has(kHasPayload);
    FrameBuilder builder(out, header, bth, info.header_bytes, carries ? sizeof junk : 0);
    if (info.has(kHasReth)) Reth{far.addr(), key, sizeof junk}.encode(builder.ext());
    if (info.has(kHasAtomicEth)) AtomicEth{far.addr(), key, 1, 1}.encode(builder.ext());
    if (info.has(kHasDeth)) Deth{key, a.qp->qpn()}.encode(builder.ext());
    if (carries) builder.append(junk, sizeof junk);
    builder.finish();
    frame.set_size(out.bytes);
    bed.b.port().deliver(std::move(frame));
    EXPECT_TRUE(bed.world.run_until_idle());
  }
};

INSTANTIATE_TEST_SUITE_P(Types, WrongKey, testing::Values(QpType::kRc, QpType::kUc, QpType::kUd), [](const auto& run) {
  return std::string(run.param == QpType::kRc ? "Rc" : run.param == QpType::kUc ? "Uc" : "Ud");
});

TEST_P(WrongKey, ChangesNoMemory) {
  const bool ud = GetParam() == QpType::kUd;
  const uint8_t low = ud ? kOpSendOnly : kOpWriteOnly;
  const uint32_t good = ud ? options.attributes.qkey : far.key;
  EXPECT_EQ(b.receive(1, far.sge()), PostResult::kOk);
  for (unsigned bit = 0; bit < 32 && b.qp->state() == QpState::kRts; bit++) forge(low, good ^ (1u << bit));
  EXPECT_TRUE(far_is(0x22));
  EXPECT_EQ(b.qp->state(), GetParam() == QpType::kRc ? QpState::kErr : QpState::kRts);
  for (const Completion& c : b.received()) EXPECT_NE(c.status, WcStatus::kSuccess);
  if (GetParam() == QpType::kRc) return;
  // With the right key it is as good as the peer's, so the forgeries above failed for their key only.
  forge(low, good);
  EXPECT_FALSE(far_is(0x22));
}

TEST_P(WrongKey, GivesNoByteAway) {
  const bool reliable = GetParam() == QpType::kRc;
  const uint64_t before = bed.cable.b_to_a->counters().bytes;
  forge(reliable ? kOpReadRequest : kOpSendOnly, far.key ^ 0x100);
  if (reliable) forge(kOpFetchAdd, far.key);
  EXPECT_TRUE(far_is(0x22));
  EXPECT_LT(bed.cable.b_to_a->counters().bytes - before, reliable ? 200u : 1u) << "more than a NAK";
}

}  // namespace
}  // namespace uroce::sim
