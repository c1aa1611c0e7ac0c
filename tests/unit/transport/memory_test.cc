// Regions and windows that come and go while peers use them.
#include <gmock/gmock.h>

#include <set>

#include "rig.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Memory, DeregisteredInTheMiddleOfAWrite) {
  Rig rig;
  rig.arrive(write(kOpWriteFirst, 0x100, rig.remote_va(), rig.rkey(), 600, 256));
  rig.arrive(packet(kOpWriteMiddle, 0x101, 256));
  rig.sent();
  ASSERT_TRUE(rig.engine().memory().deregister(rig.rkey()));
  const uint8_t before = rig.remote()[512];
  rig.arrive(packet(kOpWriteLast, 0x102, 88));
  EXPECT_THAT(rig.sent(), ElementsAre("NAK 000102 remote access error msn 0"));
  EXPECT_EQ(rig.remote()[512], before);
  EXPECT_EQ(rig.qp().state(), QpState::kErr);
}

TEST(Memory, DeregisteredInTheMiddleOfAReadResponse) {
  Rig rig;
  rig.port().set_tx_room(0);
  rig.arrive(read(0x100, rig.remote_va(), rig.rkey(), 1000));
  rig.arrive(read(0x104, rig.remote_va(), rig.rkey(), 16));
  rig.port().set_tx_room(2);
  rig.engine().turn(rig.now());
  EXPECT_THAT(rig.sent(),
              ElementsAre("READ_RESPONSE_FIRST 000100 msn 1 bytes 256", "READ_RESPONSE_MIDDLE 000101 bytes 256"));
  ASSERT_TRUE(rig.engine().memory().deregister(rig.rkey()));
  rig.port().set_tx_room(64);
  rig.turn();
  // The NAK has the PSN of the missing response: at the peer that request is outstanding, those behind it are dropped.
  EXPECT_THAT(rig.sent(), ElementsAre("NAK 000102 remote operational error msn 0"));
  EXPECT_EQ(rig.qp().state(), QpState::kErr);
}

/// The same at the requester: the READ fails for that reason, not by a timeout.
TEST(Memory, AReadThatThePeerBreaksOff) {
  Rig rig;
  rig.post(rig.read_wr(1000, 1));
  rig.arrive(read_response(kOpReadResponseFirst, 0x200, 256));
  rig.arrive(nak(0x201, NakCode::kRemoteOperationalError));
  EXPECT_THAT(rig.completed(), ElementsAre("read 1: remote operation error"));
}

TEST(Memory, DeregisteredUnderASend) {
  Rig rig;
  const uint32_t key =
      rig.engine().memory().register_region(rig.pd(), rig.local(), 1024, rig.local_sge(0, 0).addr, kLocalWrite);
  const Sge sge{rig.local_sge(0, 0).addr, 600, key};
  const RecvWr wr{1, &sge, 1};
  ASSERT_EQ(rig.engine().post_recv(rig.qp(), wr, rig.now()), PostResult::kOk);
  rig.arrive(send(kOpSendFirst, 0x100, 256));
  ASSERT_TRUE(rig.engine().memory().deregister(key));
  rig.sent();
  rig.arrive(send(kOpSendLast, 0x101, 4));
  EXPECT_THAT(rig.sent(), ElementsAre("NAK 000101 remote operational error msn 0"));
  EXPECT_THAT(rig.completed(), ElementsAre("recv 1: local protection error"));
}

/// Programs round receives up: only bytes that arrive must lie in the region, also those of several packets.
TEST(Memory, AReceiveMayBeLongerThanItsRegion) {
  constexpr uint32_t kRoom = 300;  // bytes of the element that lie in the region, out of 4096
  const auto post = [](Rig& rig) {
    const Sge receive{rig.local_sge(Rig::kMemoryBytes - kRoom, 0).addr, 4096, rig.lkey()};
    ASSERT_EQ(rig.engine().post_recv(rig.qp(), {1, &receive, 1}, rig.now()), PostResult::kOk);
  };
  for (const uint32_t bytes : {uint32_t{1}, kRoom}) {
    Rig rig;
    post(rig);
    if (bytes > 256) rig.arrive(send(kOpSendFirst, 0x100, 256));
    rig.arrive(bytes > 256 ? send(kOpSendLast, 0x101, bytes - 256) : send(kOpSendOnly, 0x100, bytes));
    EXPECT_THAT(rig.completed(), ElementsAre(testing::HasSubstr("recv 1: success"))) << bytes;
    EXPECT_EQ(rig.qp().state(), QpState::kRts);
  }
  Rig rig;
  post(rig);
  rig.arrive(send(kOpSendFirst, 0x100, 256));
  rig.sent();
  rig.arrive(send(kOpSendLast, 0x101, kRoom - 256 + 1));
  EXPECT_THAT(rig.sent(), ElementsAre("NAK 000101 remote operational error msn 0"));
  EXPECT_THAT(rig.completed(), ElementsAre("recv 1: local protection error"));
  const uint32_t untouched = Rig::kMemoryBytes - 1;  // nothing of a packet that does not fit is stored
  EXPECT_EQ(rig.local()[untouched], static_cast<uint8_t>(untouched * 5 + 9));
}

/// One element reaches beyond the region but is not filled so far, the next is not reached; each is checked by itself.
TEST(Memory, OnlyElementsThatAreReachedAreLookedAt) {
  Rig rig;
  const Sge list[] = {rig.local_sge(0, 4),
                      {rig.local_sge(Rig::kMemoryBytes - 8, 0).addr, 100, rig.lkey()},
                      {0x1234, 100, rig.lkey() ^ 0x100}};
  for (const uint64_t id : {1, 2}) {
    ASSERT_EQ(rig.engine().post_recv(rig.qp(), {id, list, 3}, rig.now()), PostResult::kOk);
  }
  rig.arrive(send(kOpSendOnly, 0x100, 12));
  EXPECT_THAT(rig.completed(), ElementsAre(testing::HasSubstr("recv 1: success")));
  rig.arrive(send(kOpSendOnly, 0x101, 13));
  EXPECT_THAT(rig.completed(), ElementsAre("recv 2: local protection error"));
}

/// An address that wraps is invalid, even if a region lies at its other end.
TEST(Memory, AReceiveAtTheEndOfAllAddresses) {
  Rig rig;
  const uint32_t key = rig.engine().memory().register_region(rig.pd(), rig.local(), 512, 0, kLocalWrite);
  const Sge receive{~uint64_t{0} - 3, 600, key};
  ASSERT_EQ(rig.engine().post_recv(rig.qp(), {1, &receive, 1}, rig.now()), PostResult::kOk);
  rig.arrive(send(kOpSendOnly, 0x100, 8));
  EXPECT_THAT(rig.completed(), ElementsAre("recv 1: local protection error"));
}

/// Elements of SENDs and READs are used whole: nothing is sent when one reaches beyond its region.
TEST(Memory, ElementsOfRequestsThatLeaveTheirRegion) {
  for (const WrOpcode opcode : {WrOpcode::kSend, WrOpcode::kRdmaRead}) {
    Rig other;
    const Sge sge{other.local_sge(Rig::kMemoryBytes - 300, 0).addr, 301, other.lkey()};  // two packets
    SendWr wr = other.write_wr(0, 2);
    wr.opcode = opcode;
    wr.sges = &sge;
    other.post(wr);
    other.sent();
    if (opcode == WrOpcode::kRdmaRead) other.arrive(read_response(kOpReadResponseFirst, 0x200, 256));
    EXPECT_THAT(other.completed(), ElementsAre(testing::EndsWith(" 2: local protection error")));
  }
}

TEST(Memory, ReceiveWithoutLocalWrite) {
  Rig rig;
  const uint32_t key = rig.engine().memory().register_region(rig.pd(), rig.local(), 1024, rig.local_sge(0, 0).addr, 0);
  const Sge sge{rig.local_sge(0, 0).addr, 600, key};
  const RecvWr wr{1, &sge, 1};
  ASSERT_EQ(rig.engine().post_recv(rig.qp(), wr, rig.now()), PostResult::kOk);
  rig.arrive(send(kOpSendOnly, 0x100, 4));
  EXPECT_THAT(rig.sent(), ElementsAre("NAK 000100 remote operational error msn 0"));
}

TEST(Memory, ReregisteredRegionsObeyTheirNewRange) {
  Rig rig;
  ASSERT_TRUE(rig.engine().memory().reregister(rig.rkey(), rig.pd(), rig.remote(), 64, 0x5000, kRemoteRead));
  rig.arrive(read(0x100, 0x5000, rig.rkey(), 64));
  EXPECT_THAT(rig.sent(), ElementsAre("READ_RESPONSE_ONLY 000100 msn 1 bytes 64"));
  rig.arrive(read(0x101, 0x5000, rig.rkey(), 65));
  EXPECT_THAT(rig.sent(), ElementsAre("NAK 000101 remote access error msn 1"));
}

TEST(Memory, RegionsThatWrapAreRefused) {
  Rig rig;
  MemoryTable& memory = rig.engine().memory();
  EXPECT_EQ(memory.register_region(rig.pd(), rig.remote(), 65, ~uint64_t{0} - 63, 0), 0u);
  EXPECT_NE(memory.register_region(rig.pd(), rig.remote(), 64, ~uint64_t{0} - 63, 0), 0u);
  EXPECT_EQ(memory.register_region(rig.pd(), rig.remote(), ~uint64_t{0}, 0x1000, 0), 0u);
}

TEST(Memory, ZeroLengthRegion) {
  Rig rig;
  const uint32_t key = rig.engine().memory().register_region(rig.pd(), rig.remote(), 0, rig.remote_va(), 15);
  ASSERT_NE(key, 0u);
  rig.arrive(read(0x100, rig.remote_va(), key, 0));
  rig.arrive(read(0x101, rig.remote_va(), key, 1));
  EXPECT_THAT(rig.sent(),
              ElementsAre("READ_RESPONSE_ONLY 000100 msn 1 bytes 0", "NAK 000101 remote access error msn 1"));
}

// Windows.

class Windows : public testing::Test {
 protected:
  uint32_t bind(uint32_t window, uint32_t new_key, uint64_t offset, uint64_t length, uint32_t access,
                uint32_t extra = 0) {
    SendWr wr;
    wr.wr_id = 50;
    wr.opcode = WrOpcode::kBindMw;
    wr.flags = kSendSignaled;
    wr.bind = {window, new_key, rig_.rkey(), rig_.remote_va(offset), length, access | extra};
    EXPECT_EQ(rig_.post(wr), PostResult::kOk);
    return new_key;
  }
  uint32_t new_type2() {
    const uint32_t key = rig_.engine().memory().allocate_window(rig_.pd(), true);
    return key;
  }
  static uint32_t next(uint32_t key) { return (key & ~0xFFu) | ((key + 1) & 0xFF); }

  Rig rig_;
};

TEST_F(Windows, AnUnboundWindowGivesNothing) {
  const uint32_t key = new_type2();
  rig_.arrive(read(0x100, rig_.remote_va(), key, 4));
  EXPECT_THAT(rig_.sent(), ElementsAre("NAK 000100 remote access error msn 0"));
}

/// The bind was carried out before its turn, when it was first processed; but behind a failure everything is flushed.
TEST_F(Windows, ABindBehindAFailureIsFlushed) {
  rig_.post(rig_.write_wr(4, 1));
  const uint32_t window = new_type2();
  bind(window, next(window), 100, 50, kRemoteWrite);
  rig_.post(rig_.write_wr(4, 3));
  rig_.arrive(nak(0x200, NakCode::kRemoteAccessError));
  EXPECT_THAT(rig_.completed(), ElementsAre("write 1: remote access error", "bind 50: work request flushed",
                                            "write 3: work request flushed"));
}

TEST_F(Windows, Type2RangeAndRights) {
  const uint32_t window = new_type2();
  const uint32_t key = bind(window, next(window), 100, 50, kRemoteWrite);
  EXPECT_THAT(rig_.completed(), ElementsAre("bind 50: success"));
  rig_.arrive(write(kOpWriteOnly, 0x100, rig_.remote_va(100), key, 50, 50));
  EXPECT_THAT(rig_.sent(), ElementsAre("ACK 000100 msn 1"));
  rig_.arrive(write(kOpWriteOnly, 0x101, rig_.remote_va(101), key, 50, 50));
  EXPECT_THAT(rig_.sent(), ElementsAre("NAK 000101 remote access error msn 1"));
}

/// A window grants no more placement rights than its region.
TEST_F(Windows, NoRightToFlushThatTheRegionHasNot) {
  const uint32_t window = new_type2();
  bind(window, next(window), 0, 50, kRemoteWrite | kFlushPersistent);
  EXPECT_THAT(rig_.completed(), ElementsAre("bind 50: memory management error"));
}

TEST_F(Windows, Type2ReadThroughAWriteWindow) {
  const uint32_t window = new_type2();
  const uint32_t key = bind(window, next(window), 0, 50, kRemoteWrite);
  rig_.arrive(read(0x100, rig_.remote_va(), key, 4));
  EXPECT_THAT(rig_.sent(), ElementsAre("NAK 000100 remote access error msn 0"));
}

TEST_F(Windows, Type2BelongsToOneQp) {
  const uint32_t window = new_type2();
  MwBind other{window, next(window), rig_.rkey(), rig_.remote_va(), 50, kRemoteRead};
  ASSERT_NE(rig_.engine().memory().bind_window(other, rig_.pd(), rig_.qp().qpn() ^ 1), 0u);
  rig_.arrive(read(0x100, rig_.remote_va(), next(window), 4));
  EXPECT_THAT(rig_.sent(), ElementsAre("NAK 000100 remote access error msn 0"));
}

TEST_F(Windows, SendWithInvalidate) {
  const uint32_t window = new_type2();
  const uint32_t key = bind(window, next(window), 0, 50, kRemoteRead);
  rig_.receive(1);
  rig_.completed();
  rig_.arrive(send_inv(0x100, 4, key));
  EXPECT_THAT(rig_.completed(), ElementsAre("recv 1: success, 4 bytes, invalidated"));
  rig_.sent();
  rig_.arrive(read(0x101, rig_.remote_va(), key, 4));
  EXPECT_THAT(rig_.sent(), ElementsAre("NAK 000101 remote access error msn 1"));
}

TEST_F(Windows, InvalidateOfWhatIsNotAWindow) {
  rig_.receive(1);
  rig_.arrive(send_inv(0x100, 4, rig_.rkey()));
  EXPECT_THAT(rig_.sent(), IsEmpty());
  EXPECT_EQ(rig_.counted(), "resp_cqe_error 1, resp_remote_access_errors 1");
  EXPECT_THAT(rig_.completed(), ElementsAre("recv 1: local access error"));
  EXPECT_EQ(rig_.observer().responder_errors.at(0).cause, Cause::kRemoteInvalidate);
}

TEST_F(Windows, InvalidatedInTheMiddleOfAWrite) {
  const uint32_t window = new_type2();
  const uint32_t key = bind(window, next(window), 0, 1000, kRemoteWrite);
  rig_.arrive(write(kOpWriteFirst, 0x100, rig_.remote_va(), key, 300, 256));
  SendWr wr;
  wr.opcode = WrOpcode::kLocalInv;
  wr.imm_or_rkey = key;
  ASSERT_EQ(rig_.post(wr), PostResult::kOk);
  rig_.sent();
  rig_.arrive(packet(kOpWriteLast, 0x101, 44));
  EXPECT_THAT(rig_.sent(), ElementsAre("NAK 000101 remote access error msn 0"));
}

TEST_F(Windows, BindsThatAreRefused) {
  const uint32_t window = new_type2();
  struct Case {
    uint32_t new_key;
    uint64_t offset, length;
  };
  const Case cases[] = {{next(window) ^ 0x100, 0, 50},               // another window's key
                        {next(window), 0, 0},                        // type 2 cannot be unbound by a bind
                        {next(window), Rig::kMemoryBytes - 10, 11},  // beyond the region
                        {next(window), ~uint64_t{0}, 2}};            // wraps
  for (const Case& c : cases) {
    Rig rig;
    const uint32_t w = rig.engine().memory().allocate_window(rig.pd(), true);
    SendWr wr;
    wr.wr_id = 50;
    wr.opcode = WrOpcode::kBindMw;
    wr.bind = {
        w, (w & ~0xFFu) ^ (c.new_key ^ (window & ~0xFFu)), rig.rkey(), rig.remote_va(c.offset), c.length, kRemoteRead};
    rig.post(wr);
    EXPECT_THAT(rig.completed(), ElementsAre("bind 50: memory management error"));
    EXPECT_EQ(rig.qp().state(), QpState::kErr);
  }
}

/// The window stays as it was: it opens nothing new, and can be bound again or freed, and then its PD be freed.
TEST_F(Windows, ARefusedBindLeavesTheWindowAsItWas) {
  for (const bool type2 : {true, false}) {
    Rig rig;
    Engine& engine = rig.engine();
    const PdId pd = engine.objects().allocate_pd();
    const uint32_t window = engine.memory().allocate_window(rig.pd(), type2);
    SendWr wr;
    wr.opcode = WrOpcode::kBindMw;
    wr.bind = {window, next(window), rig.rkey(), rig.remote_va(Rig::kMemoryBytes - 10), 11, kRemoteRead};
    EXPECT_EQ(rig.post(wr), PostResult::kOk);
    EXPECT_THAT(rig.completed(), ElementsAre("bind 0: memory management error"));
    uint8_t* memory = nullptr;
    EXPECT_EQ(engine.memory().check(next(window), rig.pd(), rig.remote_va(), 1, kRemoteRead, rig.qp().qpn(), memory),
              AccessCheck::kBadKey);
    wr.bind.addr = rig.remote_va();
    EXPECT_EQ(engine.memory().bind_window(wr.bind, rig.pd(), rig.qp().qpn()), next(window));
    EXPECT_FALSE(engine.memory().free_window(window ^ 0x100)) << "another's key";
    EXPECT_TRUE(engine.memory().free_window(next(window)));
    EXPECT_TRUE(engine.objects().deallocate_pd(pd));
  }
}

/// The program may know only the key that the bind would have set.
TEST_F(Windows, ARefusedBindCanBeFreedUnderEitherKey) {
  const uint32_t window = new_type2();
  bind(window, next(window), Rig::kMemoryBytes - 10, 11, kRemoteRead);
  EXPECT_THAT(rig_.completed(), ElementsAre("bind 50: memory management error"));
  EXPECT_TRUE(rig_.engine().memory().free_window(next(window)));
  EXPECT_FALSE(rig_.engine().memory().free_window(window)) << "gone";
  const uint32_t other = new_type2();
  EXPECT_TRUE(rig_.engine().memory().free_window(other));
  EXPECT_TRUE(rig_.engine().memory().deregister(rig_.rkey()));
}

TEST_F(Windows, ARegionWithWindowsCannotGo) {
  const uint32_t window = new_type2();
  const uint32_t key = bind(window, next(window), 0, 50, kRemoteRead);
  MemoryTable& memory = rig_.engine().memory();
  EXPECT_FALSE(memory.deregister(rig_.rkey()));
  EXPECT_TRUE(memory.free_window(key));
  EXPECT_TRUE(memory.deregister(rig_.rkey()));
}

TEST_F(Windows, Type1MovesItsKeyAtEveryBind) {
  MemoryTable& memory = rig_.engine().memory();
  const uint32_t window = memory.allocate_window(rig_.pd(), false);
  const uint32_t first =
      memory.bind_window({window, next(window), rig_.rkey(), rig_.remote_va(), 64, kRemoteRead}, rig_.pd(), 0);
  ASSERT_NE(first, 0u);
  EXPECT_NE(first, window);
  rig_.arrive(read(0x100, rig_.remote_va(), first, 64));
  EXPECT_THAT(rig_.sent(), ElementsAre("READ_RESPONSE_ONLY 000100 msn 1 bytes 64"));
  const uint32_t second =
      memory.bind_window({first, next(first), rig_.rkey(), rig_.remote_va(64), 64, kRemoteRead}, rig_.pd(), 0);
  ASSERT_NE(second, 0u);
  rig_.arrive(read(0x101, rig_.remote_va(64), second, 64));
  EXPECT_THAT(rig_.sent(), ElementsAre("READ_RESPONSE_ONLY 000101 msn 2 bytes 64"));
  rig_.arrive(read(0x102, rig_.remote_va(), first, 64));
  EXPECT_THAT(rig_.sent(), ElementsAre("NAK 000102 remote access error msn 2"));
}

TEST_F(Windows, AreNamedByAnyOfTheirKeys) {
  MemoryTable& memory = rig_.engine().memory();
  const uint32_t window = memory.allocate_window(rig_.pd(), false);
  MwBind bind{window, window + 1, rig_.rkey(), rig_.remote_va(), 64, kRemoteRead};
  bind.new_rkey = window ^ 0x100;  // another window's
  EXPECT_EQ(memory.bind_window(bind, rig_.pd(), 0), 0u);
  bind.new_rkey = next(next(window));
  bind.mw_rkey = next(window);  // its key if an earlier bind had not been refused
  EXPECT_EQ(memory.bind_window(bind, rig_.pd(), 0), next(next(window)));
  ASSERT_NE(memory.window(window), nullptr);
  EXPECT_EQ(memory.window(window)->key, next(next(window)));
  EXPECT_EQ(memory.window(rig_.rkey()), nullptr) << "a region";
  EXPECT_FALSE(memory.free_window(rig_.rkey()));
  EXPECT_FALSE(memory.free_window(window ^ 0x100));
  EXPECT_TRUE(memory.free_window(window));
  EXPECT_FALSE(memory.free_window(window));
  EXPECT_EQ(memory.window(window), nullptr);
  bind.mw_rkey = window;
  EXPECT_EQ(memory.bind_window(bind, rig_.pd(), 0), 0u);
}

TEST(Keys, DomainsKnowTheirUsers) {
  SeededRandom random(5);
  MemoryTable table(8, random);
  uint8_t byte = 0;
  EXPECT_EQ(table.in_use_by(1), 0u);
  const uint32_t region = table.register_region(1, &byte, 1, 0, 0);
  const uint32_t window = table.allocate_window(1, true);
  EXPECT_EQ(table.in_use_by(1), 2u);
  EXPECT_EQ(table.in_use_by(2), 0u);
  ASSERT_TRUE(table.reregister(region, 2, &byte, 1, 0, 0));
  EXPECT_EQ(table.in_use_by(1), 1u);
  EXPECT_EQ(table.in_use_by(2), 1u);
  ASSERT_TRUE(table.free_window(window));
  ASSERT_TRUE(table.deregister(region));
  EXPECT_EQ(table.in_use_by(1), 0u);
  EXPECT_EQ(table.in_use_by(2), 0u);
}

TEST_F(Windows, ZeroBased) {
  const uint32_t window = new_type2();
  const uint32_t key = bind(window, next(window), 100, 50, kRemoteRead, kZeroBased);
  rig_.arrive(read(0x100, 0, key, 50));
  const auto frames = rig_.sent_frames();
  ASSERT_EQ(frames.size(), 1u);
  PacketView view;
  ASSERT_EQ(parse_frame(frames[0], view), ParseResult::kOk);
  EXPECT_TRUE(std::equal(view.payload, view.payload + 50, rig_.remote() + 100));
}

TEST_F(Windows, NoLocalKey) {
  const uint32_t window = new_type2();
  const uint32_t key = bind(window, next(window), 0, 50, kRemoteRead | kRemoteWrite);
  rig_.completed();
  const Sge sge{rig_.remote_va(), 4, key};
  SendWr wr = rig_.send_wr(0, 1);
  wr.sges = &sge;
  wr.num_sge = 1;
  rig_.post(wr);
  EXPECT_THAT(rig_.completed(), ElementsAre("send 1: local protection error"));
}

// Keys.

/// rxe's rkeys collided with those of its windows after 65536 registrations, and could be guessed.
TEST(Keys, UniqueUnpredictableAndNotReusedSoon) {
  SeededRandom random(5);
  MemoryTable table(64, random);
  uint8_t byte = 0;
  std::set<uint32_t> seen;
  uint32_t previous = 0;
  uint32_t neighbours = 0;
  for (uint32_t i = 0; i < 100'000; i++) {
    const uint32_t key = i % 3 == 0 ? table.allocate_window(1, true) : table.register_region(1, &byte, 1, 0, 0);
    ASSERT_NE(key, 0u);
    // A key may come back after 2^22 others at the earliest: 64 slots, 2^16 generations.
    ASSERT_TRUE(seen.insert(key).second) << "key reused after " << i;
    neighbours += (key >> 8) - (previous >> 8) <= 2 ? 1 : 0;
    previous = key;
    ASSERT_TRUE(i % 3 == 0 ? table.free_window(key) : table.deregister(key));
    ASSERT_FALSE(table.deregister(key));
  }
  EXPECT_LT(neighbours, 10u);
}

/// The arithmetic of SECURITY.md: a guess hits one of R regions with probability R / 2^32.
TEST(Keys, AGuessHitsAsOftenAsThereAreRegions) {
  constexpr uint32_t kRegions = 65536;
  constexpr uint32_t kGuesses = 10'000'000;
  SeededRandom random(11);
  MemoryTable table(kRegions, random);
  uint8_t byte = 0;
  for (uint32_t i = 0; i < kRegions; i++) ASSERT_NE(table.register_region(1, &byte, 1, 0, kRemoteWrite), 0u);
  uint32_t hits = 0;
  for (uint32_t i = 0; i < kGuesses; i++) {
    uint8_t* memory = nullptr;
    hits += table.check(random.next_u32(), 1, 0, 1, kRemoteWrite, 0, memory) == AccessCheck::kOk ? 1 : 0;
  }
  // 152.6 are expected; five standard deviations.
  EXPECT_GT(hits, 90u);
  EXPECT_LT(hits, 215u);
}

/// On a reliable connection a wrong guess costs the connection, whatever request it is in.
TEST(Keys, AWrongKeyEndsAReliableConnection) {
  for (int kind = 0; kind < 6; kind++) {
    Rig rig;
    rig.receive(1);
    const uint32_t key = rig.rkey() ^ 0x100;
    rig.arrive(kind == 0   ? write(kOpWriteOnly, 0x100, rig.remote_va(), key, 4, 4)
               : kind == 1 ? write(kOpWriteFirst, 0x100, rig.remote_va(), key, 300, 256)
               : kind == 2 ? read(0x100, rig.remote_va(), key, 4)
               : kind == 3 ? fetch_add(0x100, rig.remote_va(), key, 1)
               : kind == 4 ? compare_swap(0x100, rig.remote_va(), key, 0, 1)
                           : send_inv(0x100, 4, key));
    EXPECT_EQ(rig.qp().state(), QpState::kErr) << kind;
    EXPECT_EQ(rig.sent(), std::vector<std::string>(kind < 5, "NAK 000100 remote access error msn 0")) << kind;
    // No further guess is possible.
    rig.arrive(write(kOpWriteOnly, 0x100, rig.remote_va(), rig.rkey(), 4, 4));
    EXPECT_EQ(rig.remote()[0], 5) << kind;
    EXPECT_THAT(rig.sent(), IsEmpty()) << kind;
  }
}

TEST(Keys, AFullTableSaysSo) {
  SeededRandom random(5);
  MemoryTable table(4, random);
  uint8_t byte = 0;
  std::vector<uint32_t> keys;
  for (int i = 0; i < 4; i++) keys.push_back(table.register_region(1, &byte, 1, 0, 0));
  EXPECT_EQ(table.register_region(1, &byte, 1, 0, 0), 0u);
  EXPECT_EQ(table.allocate_window(1, true), 0u);
  ASSERT_TRUE(table.deregister(keys[2]));
  EXPECT_NE(table.register_region(1, &byte, 1, 0, 0), 0u);
}

}  // namespace
}  // namespace uroce::test
