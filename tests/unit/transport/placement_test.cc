// FLUSH and ATOMIC WRITE, on both sides.
#include <gmock/gmock.h>

#include <cstring>

#include "rig.h"

namespace uroce::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint8_t kGlobal = kFlushToGlobal;
constexpr uint8_t kPersistent = kFlushToPersistent;

Bytes extension(std::initializer_list<uint8_t> feth, const Reth& reth) {
  Bytes bytes(feth);
  bytes.resize(feth.size() + Reth::kBytes);
  reth.encode(bytes.data() + feth.size());
  return bytes;
}

Packet flush(uint32_t psn, uint8_t feth, uint64_t va, uint32_t rkey, uint32_t length) {
  Packet p = packet(kOpFlush, psn);
  p.extension = extension({0, 0, 0, feth}, {va, rkey, length});
  return p;
}

Packet atomic_write(uint32_t psn, uint64_t va, uint32_t rkey, uint64_t value, uint32_t announced = 8) {
  Packet p = packet(kOpAtomicWrite, psn, 8);
  p.extension = extension({}, {va, rkey, announced});
  std::memcpy(p.payload.data(), &value, 8);
  return p;
}

RigOptions with_access(uint32_t access) {
  RigOptions options;
  options.attributes.access = access;
  return options;
}

RigOptions for_flush() { return with_access(kRemoteWrite | kRemoteRead | kFlushGlobal); }

SendWr flush_wr(uint32_t length, FlushLevel level, uint64_t wr_id = 1) {
  SendWr wr;
  wr.opcode = WrOpcode::kFlush;
  wr.wr_id = wr_id;
  wr.flags = kSendSignaled;
  wr.remote_addr = 0x0102030405060708;
  wr.rkey = 0x0a0b0c0d;
  wr.flush = {length, kGlobal, level};
  return wr;
}

SendWr atomic_write_wr(uint64_t wr_id = 1) {
  SendWr wr = flush_wr(0, FlushLevel::kRange, wr_id);
  wr.opcode = WrOpcode::kAtomicWrite;
  std::memcpy(&wr.swap, "abcdefgh", 8);
  return wr;
}

uint64_t remote_word(Rig& rig, uint32_t offset) {
  uint64_t word;
  std::memcpy(&word, rig.remote() + offset, 8);
  return word;
}

/// From the BTH on, without the iCRC.
Bytes transport_bytes(const Bytes& frame) {
  PacketView view;
  EXPECT_EQ(parse_frame(frame, view), ParseResult::kOk);
  return {view.bth_bytes, view.l3 + view.l3_bytes - kIcrcBytes};
}

// The requester.

TEST(Placement, FlushOnTheWire) {
  Rig rig;
  EXPECT_EQ(rig.post(flush_wr(0x11121314, FlushLevel::kRegion)), PostResult::kOk);
  const auto frames = rig.sent_frames();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(transport_bytes(frames[0]),
            (Bytes{0x1c, 0x00, 0xff, 0xff, 0x00, 0x00, 0x07, 0x77, 0x80, 0x00, 0x02, 0x00,  // BTH
                   0x00, 0x00, 0x00, 0x11,                                                  // FETH
                   0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x0a, 0x0b, 0x0c, 0x0d,  // RETH
                   0x11, 0x12, 0x13, 0x14}));
}

TEST(Placement, AtomicWriteOnTheWire) {
  Rig rig;
  EXPECT_EQ(rig.post(atomic_write_wr()), PostResult::kOk);
  const auto frames = rig.sent_frames();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(transport_bytes(frames[0]),
            (Bytes{0x1d, 0x00, 0xff, 0xff, 0x00, 0x00, 0x07, 0x77, 0x80, 0x00, 0x02, 0x00,  // BTH
                   0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x0a, 0x0b, 0x0c, 0x0d,  // RETH
                   0x00, 0x00, 0x00, 0x08, 'a',  'b',  'c',  'd',  'e',  'f',  'g',  'h'}));
}

TEST(Placement, EndsWithItsResponseAndNotWithAnAck) {
  Rig rig;
  rig.post(flush_wr(8, FlushLevel::kRange, 1));
  rig.post(atomic_write_wr(2));
  rig.post(rig.send_wr(4, 3));
  rig.sent();
  rig.arrive(ack(0x202, 3));  // its first response was lost, so this acknowledges no more
  EXPECT_THAT(rig.completed(), IsEmpty());
  EXPECT_EQ(rig.sent().size(), 3u);
  rig.arrive(read_response(kOpReadResponseOnly, 0x200, 0, 1));
  EXPECT_THAT(rig.completed(), ElementsAre("flush 1: success"));
  rig.arrive(read_response(kOpReadResponseOnly, 0x201, 0, 2));
  rig.arrive(ack(0x202, 3));
  EXPECT_THAT(rig.completed(), ElementsAre("atomic write 2: success", "send 3: success"));
}

TEST(Placement, AResponseWithDataIsWrong) {
  Rig rig;
  rig.post(atomic_write_wr());
  rig.arrive(read_response(kOpReadResponseOnly, 0x200, 8, 1));
  EXPECT_THAT(rig.completed(), ElementsAre("atomic write 1: bad response"));
}

TEST(Placement, AnAtomicResponseIsNotItsResponse) {
  Rig rig;
  rig.post(flush_wr(8, FlushLevel::kRange));
  rig.arrive(atomic_ack(0x200, 0, 1));
  EXPECT_THAT(rig.completed(), IsEmpty());
  EXPECT_EQ(rig.qp().state(), QpState::kRts);
}

TEST(Placement, CountsAmongTheReadsInFlight) {
  RigOptions options;
  options.attributes.max_rd_atomic = 1;
  Rig rig(options);
  rig.post(atomic_write_wr(1));
  rig.post(flush_wr(8, FlushLevel::kRange, 2));
  EXPECT_EQ(rig.sent().size(), 1u);
  rig.arrive(read_response(kOpReadResponseOnly, 0x200, 0, 1));
  EXPECT_EQ(rig.sent().size(), 1u);
}

TEST(Placement, TakesNoElementsAndNoOtherType) {
  Rig rig;
  SendWr wr = atomic_write_wr();
  const Sge sge = rig.local_sge(0, 8);
  wr.sges = &sge;
  wr.num_sge = 1;
  EXPECT_EQ(rig.engine().post_send(rig.qp(), wr, rig.now()), PostResult::kTooManySges);
  EXPECT_FALSE(operation_allowed(WrOpcode::kFlush, QpType::kUc));
  EXPECT_FALSE(operation_allowed(WrOpcode::kAtomicWrite, QpType::kUd));
}

// The responder.

TEST(Placement, AtomicWriteIsStoredAndAnswered) {
  Rig rig;
  rig.arrive(atomic_write(0x100, rig.remote_va(16), rig.rkey(), 0x1122334455667788));
  EXPECT_THAT(rig.sent(), ElementsAre("READ_RESPONSE_ONLY 000100 msn 1 bytes 0"));
  EXPECT_EQ(remote_word(rig, 16), 0x1122334455667788u);
  EXPECT_EQ(rig.counted(), "rx_atomic_write_requests 1");
}

TEST(Placement, FlushIsAnswered) {
  Rig rig(for_flush());
  rig.arrive(write(kOpWriteOnly, 0x100, rig.remote_va(8), rig.rkey(), 4, 4));
  rig.arrive(flush(0x101, kGlobal, rig.remote_va(8), rig.rkey(), 4));
  rig.arrive(flush(0x102, 0x10 | kGlobal, 0, rig.rkey(), 0));
  EXPECT_THAT(rig.sent(), ElementsAre("ACK 000100 msn 1", "READ_RESPONSE_ONLY 000101 msn 2 bytes 0",
                                      "READ_RESPONSE_ONLY 000102 msn 3 bytes 0"));
  EXPECT_EQ(rig.counted(), "rx_write_requests 1, rx_flush_requests 2, sent_acks 1");
}

TEST(Placement, ADuplicateIsAnsweredAndNotCarriedOut) {
  Rig rig(for_flush());
  rig.arrive(atomic_write(0x100, rig.remote_va(), rig.rkey(), 1));
  rig.arrive(flush(0x101, kGlobal, rig.remote_va(), rig.rkey(), 8));
  rig.sent();
  rig.counted();
  const uint64_t later = 99;
  std::memcpy(rig.remote(), &later, 8);
  rig.arrive(atomic_write(0x100, rig.remote_va(), rig.rkey(), 1));
  rig.arrive(flush(0x101, kGlobal, rig.remote_va(), rig.rkey(), 8));
  EXPECT_THAT(rig.sent(),
              ElementsAre("READ_RESPONSE_ONLY 000100 msn 2 bytes 0", "READ_RESPONSE_ONLY 000101 msn 2 bytes 0"));
  EXPECT_EQ(remote_word(rig, 0), 99u);
  EXPECT_EQ(rig.counted(), "duplicate_request 2");
}

TEST(Placement, AnotherRequestWithAnOldNumberIsDropped) {
  Rig rig(for_flush());
  rig.arrive(atomic_write(0x100, rig.remote_va(), rig.rkey(), 1));
  rig.sent();
  rig.counted();
  rig.arrive(atomic_write(0x100, rig.remote_va(), rig.rkey(), 2));
  rig.arrive(atomic_write(0x100, rig.remote_va(8), rig.rkey(), 1));
  rig.arrive(flush(0x100, kGlobal, rig.remote_va(), rig.rkey(), 8));
  EXPECT_THAT(rig.sent(), IsEmpty());
  EXPECT_EQ(rig.counted(), "duplicate_request 3, rx_drop_bad_duplicate 3");
}

struct Refused {
  const char* what;
  uint32_t access;
  Packet packet;
  const char* nak;
};

void expect_refused(const RigOptions& options, const Packet& packet, const char* nak, const char* what) {
  Rig rig(options);
  const uint64_t before = remote_word(rig, 0);
  Packet there = packet;
  there.extension = packet.extension;
  Reth reth = Reth::decode(there.extension.data() + there.extension.size() - Reth::kBytes);
  reth.va += rig.remote_va();
  reth.rkey ^= rig.rkey();
  reth.encode(there.extension.data() + there.extension.size() - Reth::kBytes);
  rig.arrive(there);
  EXPECT_THAT(rig.sent(), ElementsAre(std::string("NAK 000100 ") + nak + " msn 0")) << what;
  EXPECT_EQ(rig.qp().state(), QpState::kErr) << what;
  EXPECT_EQ(remote_word(rig, 0), before) << what;
}

/// Addresses are offsets into the region, and keys are given as the bits that differ from the region's key.
TEST(Placement, Refusals) {
  constexpr uint32_t kAll = kRemoteWrite | kRemoteRead | kRemoteAtomic | kFlushGlobal | kFlushPersistent;
  constexpr uint32_t kEnd = Rig::kMemoryBytes;
  const Refused cases[] = {
      {"no right to write", kAll & ~kRemoteWrite, atomic_write(0x100, 0, 0, 1), "invalid request"},
      {"not aligned", kAll, atomic_write(0x100, 4, 0, 1), "invalid request"},
      {"announces four bytes", kAll, atomic_write(0x100, 0, 0, 1, 4), "invalid request"},
      {"behind the region", kAll, atomic_write(0x100, kEnd, 0, 1), "remote access error"},
      {"another key", kAll, atomic_write(0x100, 0, 0x5500, 1), "remote access error"},
      {"no right to flush", kRemoteWrite, flush(0x100, kGlobal, 0, 0, 8), "invalid request"},
      {"persistence is not enabled", kFlushGlobal, flush(0x100, kPersistent, 0, 0, 8), "invalid request"},
      {"no memory persists", kAll, flush(0x100, kPersistent, 0, 0, 8), "remote access error"},
      {"nor does it with both", kAll, flush(0x100, kGlobal | kPersistent, 0, 0, 8), "remote access error"},
      {"no placement", kAll, flush(0x100, 0, 0, 0, 8), "invalid request"},
      {"unknown placement", kAll, flush(0x100, 4 | kGlobal, 0, 0, 8), "invalid request"},
      {"unknown level", kAll, flush(0x100, 0x20 | kGlobal, 0, 0, 8), "invalid request"},
      {"range behind the region", kAll, flush(0x100, kGlobal, kEnd - 4, 0, 8), "remote access error"},
      {"another key for a region", kAll, flush(0x100, 0x10 | kGlobal, 0, 0x5500, 8), "remote access error"},
  };
  for (const Refused& c : cases) expect_refused(with_access(c.access), c.packet, c.nak, c.what);
}

TEST(Placement, MoreThanThePeerMayHaveInFlight) {
  RigOptions options = for_flush();
  options.attributes.max_dest_rd_atomic = 1;
  Rig rig(options);
  rig.port().set_tx_room(0);
  rig.arrive({flush(0x100, kGlobal, rig.remote_va(), rig.rkey(), 8), read(0x101, rig.remote_va(), rig.rkey(), 8)});
  rig.port().set_tx_room(64);
  rig.turn();
  EXPECT_THAT(rig.sent(), ElementsAre("READ_RESPONSE_ONLY 000100 msn 1 bytes 0", "NAK 000101 invalid request msn 1"));
}

TEST(Placement, ARegionWithoutTheRight) {
  Rig rig(for_flush());
  const uint32_t key =
      rig.engine().memory().register_region(rig.pd(), rig.remote(), 64, rig.remote_va(), kLocalWrite | kRemoteWrite);
  rig.arrive(flush(0x100, kGlobal, rig.remote_va(), key, 8));
  EXPECT_THAT(rig.sent(), ElementsAre("NAK 000100 remote access error msn 0"));
}

}  // namespace
}  // namespace uroce::test
