// Formats: what Linux sent, and literal bytes for what it did not send in any capture.

#include "cm/mad.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "captured_mads.h"
#include "cm/cma_header.h"

namespace uroce::cm::test {
namespace {

constexpr uint64_t kTransaction = 0x00000002a04e30d1;

IpAddress ip(const char* text) { return parse_ip(text).value(); }

TEST(MadTest, TheReqOfAKernel) {
  const MadBytes mad = from_hex(kKernelReq);
  MadHeader header;
  ASSERT_EQ(decode(mad, header), HeaderFault::kNone);
  EXPECT_EQ(header.attribute, Attribute::kReq);
  EXPECT_EQ(header.transaction_id, kTransaction);
  const Req req = decode_req(mad);
  EXPECT_EQ(req.local_id, 0xd1304ea0u);
  EXPECT_EQ(req.service_id, 0x01061c06u);
  EXPECT_EQ(req.ca_guid, 0x505400fffe770002u);
  EXPECT_EQ(req.qpn, 0x9fu);
  EXPECT_EQ(req.responder_resources, 1);
  EXPECT_EQ(req.initiator_depth, 1);
  EXPECT_EQ(req.remote_response_timeout, 20);
  EXPECT_EQ(req.local_response_timeout, 20);
  EXPECT_EQ(req.transport, kTransportRc);
  EXPECT_EQ(req.starting_psn, Psn(0x248993));
  EXPECT_EQ(req.retry_count, 7);
  EXPECT_EQ(req.pkey, 0xffff);
  EXPECT_EQ(req.path_mtu, 5);
  EXPECT_EQ(req.rnr_retry_count, 7);
  EXPECT_EQ(req.max_cm_retries, 15);
  EXPECT_FALSE(req.srq);
  EXPECT_EQ(req.path.local_gid, ip("192.168.77.3"));
  EXPECT_EQ(req.path.remote_gid, ip("192.168.77.2"));
  EXPECT_EQ(req.path.flow_label, 0xa5595u);
  EXPECT_EQ(req.path.hop_limit, 64);
  EXPECT_EQ(req.path.local_ack_timeout, 19);
  EXPECT_FALSE(req.has_alternate_path);
  const auto addresses = decode_cma_header(req.private_data.view());
  ASSERT_TRUE(addresses);
  EXPECT_EQ(addresses->src, ip("192.168.77.3"));
  EXPECT_EQ(addresses->dst, ip("192.168.77.2"));
  EXPECT_EQ(addresses->src_port, 0xd891);
  EXPECT_EQ(encode(header.transaction_id, req), mad);
}

TEST(MadTest, TheReqOfAKernelOverIpv6) {
  const MadBytes mad = from_hex(kKernelReqV6);
  const Req req = decode_req(mad);
  EXPECT_EQ(req.path.local_gid, ip("fd77::3"));
  EXPECT_EQ(req.path.remote_gid, ip("fd77::2"));
  const auto addresses = decode_cma_header(req.private_data.view());
  ASSERT_TRUE(addresses);
  EXPECT_EQ(addresses->src, ip("fd77::3"));
  EXPECT_EQ(addresses->dst, ip("fd77::2"));
  EXPECT_EQ(encode(0x00000002a04e30d0, req), mad);
}

TEST(MadTest, TheRepOfAKernel) {
  const MadBytes mad = from_hex(kKernelRep);
  const Rep rep = decode_rep(mad);
  EXPECT_EQ(rep.local_id, 0x7521b665u);
  EXPECT_EQ(rep.remote_id, 0xd1304ea0u);
  EXPECT_EQ(rep.qpn, 0x9fu);
  EXPECT_EQ(rep.starting_psn, Psn(0xe36a4d));
  EXPECT_EQ(rep.responder_resources, 1);
  EXPECT_EQ(rep.initiator_depth, 1);
  EXPECT_EQ(rep.target_ack_delay, 15);
  EXPECT_EQ(rep.failover_accepted, 0);
  EXPECT_EQ(rep.rnr_retry_count, 7);
  EXPECT_EQ(rep.ca_guid, 0x505400fffe770001u);
  EXPECT_EQ(encode(kTransaction, rep), mad);
}

TEST(MadTest, RtuDreqAndDrepOfAKernel) {
  const Confirmation rtu = decode_confirmation(from_hex(kKernelRtu));
  EXPECT_EQ(rtu.local_id, 0xd1304ea0u);
  EXPECT_EQ(rtu.remote_id, 0x7521b665u);
  EXPECT_EQ(encode_rtu(kTransaction, rtu), from_hex(kKernelRtu));
  const Dreq dreq = decode_dreq(from_hex(kKernelDreq));
  EXPECT_EQ(dreq.local_id, 0xd1304ea0u);
  EXPECT_EQ(dreq.remote_id, 0x7521b665u);
  EXPECT_EQ(dreq.remote_qpn, 0x9fu);
  EXPECT_EQ(encode(kTransaction, dreq), from_hex(kKernelDreq));
  const Confirmation drep = decode_confirmation(from_hex(kKernelDrep));
  EXPECT_EQ(drep.local_id, 0x7521b665u);
  EXPECT_EQ(encode_drep(kTransaction, drep), from_hex(kKernelDrep));
}

TEST(MadTest, SidrOfAKernel) {
  const SidrReq req = decode_sidr_req(from_hex(kKernelSidrReq));
  EXPECT_EQ(req.request_id, 0xd5304ea0u);
  EXPECT_EQ(req.pkey, 0xffff);
  EXPECT_EQ(req.service_id, 0x01111c06u);
  EXPECT_EQ(decode_cma_header(req.private_data.view())->src_port, 0x914f);
  EXPECT_EQ(encode(0x00000002a04e30d5, req), from_hex(kKernelSidrReq));
  const SidrRep rep = decode_sidr_rep(from_hex(kKernelSidrRep));
  EXPECT_EQ(rep.request_id, 0xd5304ea0u);
  EXPECT_EQ(rep.status, 0);
  EXPECT_EQ(rep.qpn, 0xa3u);
  EXPECT_EQ(rep.qkey, 0x01234567u);
  EXPECT_EQ(rep.service_id, 0x01111c06u);
  EXPECT_EQ(encode(0x00000002a04e30d5, rep), from_hex(kKernelSidrRep));
}

TEST(MadTest, RejCarriesReasonInformationAndPrivateData) {
  Rej rej{.local_id = 0x11223344, .remote_id = 0x55667788, .answered = Answered::kRep, .reason = 4, .ari_length = 8};
  for (uint8_t i = 0; i < 8; i++) rej.ari[i] = static_cast<uint8_t>(0xa0 + i);
  const uint8_t why[] = {'w', 'h', 'y'};
  rej.private_data = PrivateData(why);
  MadBytes expected = from_hex(
      "0107020300000000"
      "0102030405060708"
      "0012000000000000"
      "11223344"
      "55667788"
      "4010"
      "0004"
      "a0a1a2a3a4a5a6a7");
  expected[24 + 84] = 'w';
  expected[24 + 85] = 'h';
  expected[24 + 86] = 'y';
  EXPECT_EQ(encode(0x0102030405060708, rej), expected);
  const Rej back = decode_rej(expected);
  EXPECT_EQ(back.local_id, 0x11223344u);
  EXPECT_EQ(back.answered, Answered::kRep);
  EXPECT_EQ(back.reason, 4);
  EXPECT_EQ(back.ari_length, 8);
  EXPECT_EQ(back.ari, rej.ari);
  EXPECT_EQ(back.private_data.length, 148);
}

/// Fields that are 0 in every capture.
TEST(MadTest, FieldsThatLinuxLeavesZero) {
  Req req;
  req.qkey = 0x11223344;
  req.flow_control = true;
  req.srq = true;
  req.rdc_exists = true;
  req.pkey = 0x1234;
  req.rnr_retry_count = 5;
  req.retry_count = 6;
  req.extended_transport = 1;
  req.transport = 1;
  req.path = {.local_lid = 0x1122,
              .remote_lid = 0x3344,
              .packet_rate = 0x2a,
              .traffic_class = 0x68,
              .sl = 5,
              .subnet_local = true};
  const MadBytes mad = encode(1, req);
  const auto bytes = [&](size_t first, size_t count) {
    const auto begin = mad.begin() + 24 + static_cast<ptrdiff_t>(first);
    return std::vector<uint8_t>(begin, begin + static_cast<ptrdiff_t>(count));
  };
  EXPECT_EQ(bytes(28, 4), (std::vector<uint8_t>{0x11, 0x22, 0x33, 0x44}));
  EXPECT_EQ(bytes(43, 1), (std::vector<uint8_t>{0x03}));
  EXPECT_EQ(bytes(47, 5), (std::vector<uint8_t>{0x06, 0x12, 0x34, 0x0d, 0x09}));
  EXPECT_EQ(bytes(52, 4), (std::vector<uint8_t>{0x11, 0x22, 0x33, 0x44}));
  EXPECT_EQ(bytes(91, 4), (std::vector<uint8_t>{0x2a, 0x68, 0x00, 0x58}));
  const Req back = decode_req(mad);
  EXPECT_EQ(back.qkey, 0x11223344u);
  EXPECT_EQ(back.pkey, 0x1234);
  EXPECT_EQ(back.rnr_retry_count, 5);
  EXPECT_EQ(back.retry_count, 6);
  EXPECT_TRUE(back.flow_control && back.srq && back.rdc_exists && back.path.subnet_local);
  EXPECT_EQ(back.extended_transport, 1);
  EXPECT_EQ(back.transport, 1);
  EXPECT_EQ(back.path.local_lid, 0x1122);
  EXPECT_EQ(back.path.remote_lid, 0x3344);
  EXPECT_EQ(back.path.packet_rate, 0x2a);
  EXPECT_EQ(back.path.traffic_class, 0x68);
  EXPECT_EQ(back.path.sl, 5);
  MadBytes bit{};
  bit[24 + 94] = 0x07;  // the bits beside the flag
  EXPECT_FALSE(decode_req(bit).path.subnet_local);
  bit[24 + 91] = 0xff;
  EXPECT_EQ(decode_req(bit).path.packet_rate, 0x3f);
  bit[24 + 98] = 1;  // of the alternate path the remote LID alone, which we could not use
  EXPECT_FALSE(decode_req(bit).has_alternate_path);
  bit[24 + 100] = 1;
  EXPECT_TRUE(decode_req(bit).has_alternate_path);
}

TEST(MadTest, FieldsOfRepliesThatLinuxLeavesZero) {
  const Rep rep{.qkey = 0x11223344, .failover_accepted = 2, .flow_control = true, .srq = true};
  const MadBytes rep_mad = encode(1, rep);
  EXPECT_EQ(rep_mad[24 + 8], 0x11);
  EXPECT_EQ(rep_mad[24 + 26], 0x05);
  EXPECT_EQ(rep_mad[24 + 27], 0x10);
  EXPECT_EQ(decode_rep(rep_mad).qkey, 0x11223344u);
  EXPECT_EQ(decode_rep(rep_mad).failover_accepted, 2);
  EXPECT_TRUE(decode_rep(rep_mad).srq && decode_rep(rep_mad).flow_control);
  const SidrReq sidr{.request_id = 1, .pkey = 0x1234};
  EXPECT_EQ(encode(1, sidr)[24 + 4], 0x12);
  EXPECT_EQ(decode_sidr_req(encode(1, sidr)).pkey, 0x1234);
}

/// Private data begins at its place, and all of it is there.
TEST(MadTest, PrivateDataOfEachMessage) {
  PrivateData data;
  data.length = 256;
  for (size_t i = 0; i < 256; i++) data.bytes[i] = static_cast<uint8_t>(i + 1);
  const auto expect = [&](const MadBytes& mad, const PrivateData& back, size_t offset) {
    EXPECT_EQ(back.length, 232 - offset);
    EXPECT_EQ(mad[24 + offset], 1);
    EXPECT_EQ(mad[255], static_cast<uint8_t>(232 - offset));
    EXPECT_TRUE(std::equal(back.view().begin(), back.view().end(), data.bytes.begin()));
  };
  const MadBytes req = encode(1, Req{.private_data = data}), rep = encode(1, Rep{.private_data = data});
  expect(req, decode_req(req).private_data, 140);
  expect(rep, decode_rep(rep).private_data, 36);
  const MadBytes rtu = encode_rtu(1, {1, 2, data}), drep = encode_drep(1, {1, 2, data});
  expect(rtu, decode_confirmation(rtu).private_data, 8);
  expect(drep, decode_confirmation(drep).private_data, 8);
  const MadBytes dreq = encode(1, Dreq{1, 2, 3, data}), rej = encode(1, Rej{.private_data = data});
  expect(dreq, decode_dreq(dreq).private_data, 12);
  expect(rej, decode_rej(rej).private_data, 84);
  const MadBytes ask = encode(1, SidrReq{.private_data = data}), answer = encode(1, SidrRep{.private_data = data});
  expect(ask, decode_sidr_req(ask).private_data, 16);
  expect(answer, decode_sidr_rep(answer).private_data, 96);
}

TEST(MadTest, ALengthBeyondItsFieldIsCut) {
  MadBytes mad = from_hex("010702030000000000000000000000000012");
  mad[24 + 9] = 0xff;
  EXPECT_EQ(decode_rej(mad).ari_length, 72);
}

TEST(MadTest, Mra) {
  const MadBytes expected = from_hex(
      "0107020300000000"
      "0102030405060708"
      "0011000000000000"
      "11223344"
      "55667788"
      "40c0");
  EXPECT_EQ(encode(0x0102030405060708, Mra{0x11223344, 0x55667788, Answered::kRep, 24}), expected);
  const Mra mra = decode_mra(expected);
  EXPECT_EQ(mra.local_id, 0x11223344u);
  EXPECT_EQ(mra.remote_id, 0x55667788u);
  EXPECT_EQ(mra.answered, Answered::kRep);
  EXPECT_EQ(mra.service_timeout, 24);
}

TEST(MadTest, LapAndApr) {
  const Lap lap =
      decode_lap(from_hex("0107020300000000"
                          "0000000000000000"
                          "0019000000000000"
                          "11223344"
                          "55667788"
                          "00000000"
                          "abcdef00"));
  EXPECT_EQ(lap.local_id, 0x11223344u);
  EXPECT_EQ(lap.remote_id, 0x55667788u);
  EXPECT_EQ(lap.remote_qpn, 0xabcdefu);
  const MadBytes apr = from_hex(
      "0107020300000000"
      "0000000000000009"
      "001a000000000000"
      "11223344"
      "55667788"
      "0002");
  EXPECT_EQ(encode(9, Apr{0x11223344, 0x55667788, 2}), apr);
  EXPECT_EQ(decode_apr(apr).status, 2);
}

/// The vendor ID takes three bytes, which lie apart in REP; the options are in the header's attribute modifier.
TEST(MadTest, EnhancedConnectionEstablishment) {
  const Ece ece{.vendor_id = 0x0015b3, .attr_mod = 0x12345678};
  Req req;
  req.ece = ece;
  const MadBytes req_mad = encode(1, req);
  EXPECT_EQ(req_mad[20], 0x12);
  EXPECT_EQ(req_mad[23], 0x78);
  EXPECT_EQ(req_mad[24 + 5], 0x00);
  EXPECT_EQ(req_mad[24 + 6], 0x15);
  EXPECT_EQ(req_mad[24 + 7], 0xb3);
  EXPECT_EQ(decode_req(req_mad).ece.vendor_id, 0x15b3u);
  Rep rep;
  rep.ece = {.vendor_id = 0xaabbcc, .attr_mod = 1};
  rep.qpn = 0x123456;
  rep.starting_psn = Psn(0x789abc);
  const MadBytes rep_mad = encode(1, rep);
  EXPECT_EQ(rep_mad[24 + 15], 0xaa);
  EXPECT_EQ(rep_mad[24 + 19], 0xbb);
  EXPECT_EQ(rep_mad[24 + 23], 0xcc);
  const Rep back = decode_rep(rep_mad);
  EXPECT_EQ(back.ece.vendor_id, 0xaabbccu);
  EXPECT_EQ(back.ece.attr_mod, 1u);
  EXPECT_EQ(back.qpn, 0x123456u);
  EXPECT_EQ(back.starting_psn, Psn(0x789abc));
  SidrRep sidr;
  sidr.ece = {.vendor_id = 0xaabbcc, .attr_mod = 2};
  const MadBytes sidr_mad = encode(1, sidr);
  EXPECT_EQ(sidr_mad[24 + 6], 0xaa);
  EXPECT_EQ(sidr_mad[24 + 7], 0xbb);
  EXPECT_EQ(sidr_mad[24 + 11], 0xcc);
  EXPECT_EQ(decode_sidr_rep(sidr_mad).ece.vendor_id, 0xaabbccu);
}

TEST(MadTest, WhatIsNotOfThisClassIsNotDecoded) {
  MadHeader header;
  for (const size_t byte : {0, 1, 2, 3}) {
    MadBytes mad = from_hex(kKernelReq);
    mad[byte] ^= 0x80;
    EXPECT_EQ(decode(mad, header), HeaderFault::kNotCm) << byte;
  }
  for (const int attribute : {0x0f, 0x1b, 0x110, 0x0001}) {
    MadBytes mad = from_hex(kKernelReq);
    mad[16] = static_cast<uint8_t>(attribute >> 8);
    mad[17] = static_cast<uint8_t>(attribute);
    EXPECT_EQ(decode(mad, header), HeaderFault::kUnknownMessage) << attribute;
  }
}

/// Whatever the bits, the decoded values fit their fields: encoded and decoded again they are the same.
TEST(MadTest, EveryPatternIsSomeValue) {
  SeededRandom random(7);
  for (int i = 0; i < 10'000; i++) {
    MadBytes mad;
    for (uint8_t& byte : mad) byte = static_cast<uint8_t>(random.next_u32());
    const MadBytes req = encode(1, decode_req(mad)), rep = encode(1, decode_rep(mad)), rej = encode(1, decode_rej(mad));
    ASSERT_EQ(encode(1, decode_req(req)), req);
    ASSERT_EQ(encode(1, decode_rep(rep)), rep);
    ASSERT_EQ(encode(1, decode_rej(rej)), rej);
    ASSERT_TRUE(std::equal(mad.begin() + 24 + 140, mad.end(), req.begin() + 24 + 140));
  }
}

TEST(CmaHeaderTest, OnlyVersionsThatExist) {
  const Req req = decode_req(from_hex(kKernelReq));
  PrivateData data = req.private_data;
  data.bytes[0] = 1;
  EXPECT_FALSE(decode_cma_header(data.view()));
  data = req.private_data;
  data.bytes[1] = 0x50;
  EXPECT_FALSE(decode_cma_header(data.view()));
  data = req.private_data;
  data.bytes[4] = 1;  // the first 12 bytes of an IPv4 address must be 0
  EXPECT_FALSE(decode_cma_header(data.view()));
  EXPECT_FALSE(decode_cma_header(req.private_data.view().first(35)));
}

TEST(CmaHeaderTest, ServiceIdsOfPortSpaces) {
  EXPECT_EQ(service_id_of(PortSpace::kTcp, 7174), 0x01061c06u);
  EXPECT_EQ(service_id_of(PortSpace::kUdp, 7174), 0x01111c06u);
  EXPECT_EQ(service_id_of(PortSpace::kIb, 1), 0x013f0001u);
  EXPECT_TRUE(is_port_service(0x01061c06));
  EXPECT_FALSE(is_port_service(0x1000000001061c06));
  EXPECT_FALSE(is_port_service(0x01071c06));
}

}  // namespace
}  // namespace uroce::cm::test
