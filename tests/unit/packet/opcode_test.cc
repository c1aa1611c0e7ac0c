// The opcode table against a list written by hand from the specification's table of opcodes, not from the code.
#include "packet/opcode.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace uroce {
namespace {

struct Expected {
  const char* name;
  unsigned header_bytes;  // after the BTH
  bool payload;
  bool first;
  bool last;
  bool response;
};

const std::map<unsigned, Expected> kExpected = {
    {0x00, {"RC_SEND_FIRST", 0, true, true, false, false}},
    {0x01, {"RC_SEND_MIDDLE", 0, true, false, false, false}},
    {0x02, {"RC_SEND_LAST", 0, true, false, true, false}},
    {0x03, {"RC_SEND_LAST_IMM", 4, true, false, true, false}},
    {0x04, {"RC_SEND_ONLY", 0, true, true, true, false}},
    {0x05, {"RC_SEND_ONLY_IMM", 4, true, true, true, false}},
    {0x06, {"RC_WRITE_FIRST", 16, true, true, false, false}},
    {0x07, {"RC_WRITE_MIDDLE", 0, true, false, false, false}},
    {0x08, {"RC_WRITE_LAST", 0, true, false, true, false}},
    {0x09, {"RC_WRITE_LAST_IMM", 4, true, false, true, false}},
    {0x0a, {"RC_WRITE_ONLY", 16, true, true, true, false}},
    {0x0b, {"RC_WRITE_ONLY_IMM", 20, true, true, true, false}},
    {0x0c, {"RC_READ_REQUEST", 16, false, true, true, false}},
    {0x0d, {"RC_READ_RESPONSE_FIRST", 4, true, true, false, true}},
    {0x0e, {"RC_READ_RESPONSE_MIDDLE", 0, true, false, false, true}},
    {0x0f, {"RC_READ_RESPONSE_LAST", 4, true, false, true, true}},
    {0x10, {"RC_READ_RESPONSE_ONLY", 4, true, true, true, true}},
    {0x11, {"RC_ACKNOWLEDGE", 4, false, true, true, true}},
    {0x12, {"RC_ATOMIC_ACKNOWLEDGE", 12, false, true, true, true}},
    {0x13, {"RC_COMPARE_SWAP", 28, false, true, true, false}},
    {0x14, {"RC_FETCH_ADD", 28, false, true, true, false}},
    {0x16, {"RC_SEND_LAST_INV", 4, true, false, true, false}},
    {0x17, {"RC_SEND_ONLY_INV", 4, true, true, true, false}},
    {0x1c, {"RC_FLUSH", 20, false, true, true, false}},
    {0x1d, {"RC_ATOMIC_WRITE", 16, true, true, true, false}},

    {0x20, {"UC_SEND_FIRST", 0, true, true, false, false}},
    {0x21, {"UC_SEND_MIDDLE", 0, true, false, false, false}},
    {0x22, {"UC_SEND_LAST", 0, true, false, true, false}},
    {0x23, {"UC_SEND_LAST_IMM", 4, true, false, true, false}},
    {0x24, {"UC_SEND_ONLY", 0, true, true, true, false}},
    {0x25, {"UC_SEND_ONLY_IMM", 4, true, true, true, false}},
    {0x26, {"UC_WRITE_FIRST", 16, true, true, false, false}},
    {0x27, {"UC_WRITE_MIDDLE", 0, true, false, false, false}},
    {0x28, {"UC_WRITE_LAST", 0, true, false, true, false}},
    {0x29, {"UC_WRITE_LAST_IMM", 4, true, false, true, false}},
    {0x2a, {"UC_WRITE_ONLY", 16, true, true, true, false}},
    {0x2b, {"UC_WRITE_ONLY_IMM", 20, true, true, true, false}},

    {0x64, {"UD_SEND_ONLY", 8, true, true, true, false}},
    {0x65, {"UD_SEND_ONLY_IMM", 12, true, true, true, false}},

    {0x81, {"CNP", 16, false, true, true, false}},

    {0xa0, {"XRC_SEND_FIRST", 4, true, true, false, false}},
    {0xa1, {"XRC_SEND_MIDDLE", 4, true, false, false, false}},
    {0xa2, {"XRC_SEND_LAST", 4, true, false, true, false}},
    {0xa3, {"XRC_SEND_LAST_IMM", 8, true, false, true, false}},
    {0xa4, {"XRC_SEND_ONLY", 4, true, true, true, false}},
    {0xa5, {"XRC_SEND_ONLY_IMM", 8, true, true, true, false}},
    {0xa6, {"XRC_WRITE_FIRST", 20, true, true, false, false}},
    {0xa7, {"XRC_WRITE_MIDDLE", 4, true, false, false, false}},
    {0xa8, {"XRC_WRITE_LAST", 4, true, false, true, false}},
    {0xa9, {"XRC_WRITE_LAST_IMM", 8, true, false, true, false}},
    {0xaa, {"XRC_WRITE_ONLY", 20, true, true, true, false}},
    {0xab, {"XRC_WRITE_ONLY_IMM", 24, true, true, true, false}},
    {0xac, {"XRC_READ_REQUEST", 20, false, true, true, false}},
    {0xad, {"XRC_READ_RESPONSE_FIRST", 4, true, true, false, true}},
    {0xae, {"XRC_READ_RESPONSE_MIDDLE", 0, true, false, false, true}},
    {0xaf, {"XRC_READ_RESPONSE_LAST", 4, true, false, true, true}},
    {0xb0, {"XRC_READ_RESPONSE_ONLY", 4, true, true, true, true}},
    {0xb1, {"XRC_ACKNOWLEDGE", 4, false, true, true, true}},
    {0xb2, {"XRC_ATOMIC_ACKNOWLEDGE", 12, false, true, true, true}},
    {0xb3, {"XRC_COMPARE_SWAP", 32, false, true, true, false}},
    {0xb4, {"XRC_FETCH_ADD", 32, false, true, true, false}},
    {0xb6, {"XRC_SEND_LAST_INV", 8, true, false, true, false}},
    {0xb7, {"XRC_SEND_ONLY_INV", 8, true, true, true, false}},

    {0xc0, {"SACK", 4, true, true, true, true}},  // ours
};

TEST(Opcode, TableAgreesWithTheList) {
  for (unsigned opcode = 0; opcode < 256; opcode++) {
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(opcode));
    const auto at = kExpected.find(opcode);
    if (at == kExpected.end()) {
      EXPECT_EQ(info.operation, Operation::kReserved) << opcode;
      EXPECT_EQ(info.header_bytes, 0) << opcode;
      EXPECT_STREQ(opcode_name(static_cast<uint8_t>(opcode)), "RESERVED");
      continue;
    }
    const Expected& e = at->second;
    EXPECT_STREQ(opcode_name(static_cast<uint8_t>(opcode)), e.name);
    EXPECT_NE(info.operation, Operation::kReserved) << e.name;
    EXPECT_EQ(info.header_bytes, e.header_bytes) << e.name;
    EXPECT_EQ(info.has(kHasPayload), e.payload) << e.name;
    EXPECT_EQ(info.is_first(), e.first) << e.name;
    EXPECT_EQ(info.is_last(), e.last) << e.name;
    EXPECT_EQ(info.is_only(), e.first && e.last) << e.name;
    EXPECT_EQ(info.is_response(), e.response) << e.name;
  }
}

TEST(Opcode, ExtensionHeadersByName) {
  const std::map<unsigned, uint16_t> expected = {
      {0x03, kHasImm},
      {0x06, kHasReth},
      {0x0b, kHasReth | kHasImm},
      {0x0c, kHasReth},
      {0x0d, kHasAeth},
      {0x12, kHasAeth | kHasAtomicAckEth},
      {0x13, kHasAtomicEth},
      {0x16, kHasIeth},
      {0x1c, kHasFeth | kHasReth},
      {0x1d, kHasReth},
      {0x65, kHasDeth | kHasImm},
      {0xa4, kHasXrceth},
      {0xab, kHasXrceth | kHasReth | kHasImm},
      {0xb3, kHasXrceth | kHasAtomicEth},
      {0xb1, kHasAeth},
      {0xc0, kHasAeth},
  };
  constexpr uint16_t kHeaders =
      kHasReth | kHasAeth | kHasAtomicEth | kHasAtomicAckEth | kHasImm | kHasIeth | kHasDeth | kHasXrceth | kHasFeth;
  for (const auto& [opcode, bits] : expected) {
    EXPECT_EQ(opcode_info(static_cast<uint8_t>(opcode)).bits & kHeaders, bits) << opcode;
  }
}

TEST(Opcode, ServicesAndOperations) {
  EXPECT_EQ(opcode_info(0x04).service, Service::kRc);
  EXPECT_EQ(opcode_info(0x24).service, Service::kUc);
  EXPECT_EQ(opcode_info(0x64).service, Service::kUd);
  EXPECT_EQ(opcode_info(0x81).service, Service::kCnp);
  EXPECT_EQ(opcode_info(0xa4).service, Service::kXrc);
  EXPECT_EQ(opcode_info(0x0a).operation, Operation::kWrite);
  EXPECT_EQ(opcode_info(0x0c).operation, Operation::kReadRequest);
  EXPECT_EQ(opcode_info(0x0f).operation, Operation::kReadResponse);
  EXPECT_EQ(opcode_info(0x11).operation, Operation::kAcknowledge);
  EXPECT_EQ(opcode_info(0x12).operation, Operation::kAtomicAcknowledge);
  EXPECT_EQ(opcode_info(0x13).operation, Operation::kCompareSwap);
  EXPECT_EQ(opcode_info(0x14).operation, Operation::kFetchAdd);
  EXPECT_EQ(opcode_info(0x16).operation, Operation::kSend);
  EXPECT_EQ(opcode_info(0x1c).operation, Operation::kFlush);
  EXPECT_EQ(opcode_info(0x1d).operation, Operation::kAtomicWrite);
  EXPECT_EQ(opcode_info(0x81).operation, Operation::kCnp);
  EXPECT_EQ(opcode_info(0xc0).operation, Operation::kSelectiveAck);
  EXPECT_EQ(opcode_info(0xc0).service, Service::kRc);
  EXPECT_EQ(make_opcode(Service::kUd, kOpSendOnlyImm), 0x65);
  EXPECT_EQ(make_opcode(Service::kXrc, kOpFetchAdd), 0xb4);
}

}  // namespace
}  // namespace uroce
