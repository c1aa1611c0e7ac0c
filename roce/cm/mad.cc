#include "cm/mad.h"

#include <algorithm>

#include "base/big_endian.h"

namespace uroce::cm {

namespace {

constexpr size_t kHeaderBytes = 24;
constexpr uint8_t kBaseVersion = 1;
constexpr uint8_t kCmClass = 7;
constexpr uint8_t kCmClassVersion = 2;
constexpr uint8_t kMethodSend = 3;

/// The message behind the header, read by the offsets of the specification's tables.
const uint8_t* body(MadView mad) { return mad.data() + kHeaderBytes; }
uint8_t* body(MadBytes& mad) { return mad.data() + kHeaderBytes; }

MadBytes start(Attribute attribute, uint64_t transaction_id, uint32_t modifier = 0) {
  MadBytes mad{};
  mad[0] = kBaseVersion;
  mad[1] = kCmClass;
  mad[2] = kCmClassVersion;
  mad[3] = kMethodSend;
  store_be64(&mad[8], transaction_id);
  store_be16(&mad[16], static_cast<uint16_t>(attribute));
  store_be32(&mad[20], modifier);
  return mad;
}

uint32_t modifier_of(MadView mad) { return load_be32(&mad[20]); }

PrivateData private_data_at(MadView mad, size_t offset, uint16_t bytes) {
  return PrivateData(std::span<const uint8_t>(body(mad) + offset, bytes));
}

void put_private_data(MadBytes& mad, size_t offset, uint16_t bytes, const PrivateData& data) {
  std::memcpy(body(mad) + offset, data.bytes.data(), std::min(bytes, data.length));
}

IpAddress gid_at(const uint8_t* p) {
  IpAddress gid;
  std::memcpy(gid.bytes.data(), p, gid.bytes.size());
  return gid;
}

ReqPath path_at(const uint8_t* p) {
  ReqPath path;
  path.local_lid = load_be16(p);
  path.remote_lid = load_be16(p + 2);
  path.local_gid = gid_at(p + 4);
  path.remote_gid = gid_at(p + 20);
  path.flow_label = load_be24(p + 36) >> 4;
  path.packet_rate = p[39] & 0x3f;
  path.traffic_class = p[40];
  path.hop_limit = p[41];
  path.sl = p[42] >> 4;
  path.subnet_local = (p[42] & 0x08) != 0;
  path.local_ack_timeout = p[43] >> 3;
  return path;
}

void put_path(uint8_t* p, const ReqPath& path) {
  store_be16(p, path.local_lid);
  store_be16(p + 2, path.remote_lid);
  std::memcpy(p + 4, path.local_gid.bytes.data(), 16);
  std::memcpy(p + 20, path.remote_gid.bytes.data(), 16);
  store_be24(p + 36, path.flow_label << 4);
  p[39] = path.packet_rate & 0x3f;
  p[40] = path.traffic_class;
  p[41] = path.hop_limit;
  p[42] = static_cast<uint8_t>((path.sl << 4) | (path.subnet_local ? 0x08 : 0));
  p[43] = static_cast<uint8_t>(path.local_ack_timeout << 3);
}

void put_ids(MadBytes& mad, uint32_t local_id, uint32_t remote_id) {
  store_be32(body(mad), local_id);
  store_be32(body(mad) + 4, remote_id);
}

MadBytes encode_confirmation(Attribute attribute, uint64_t transaction_id, const Confirmation& message) {
  MadBytes mad = start(attribute, transaction_id);
  put_ids(mad, message.local_id, message.remote_id);
  put_private_data(mad, 8, kRtuPrivateBytes, message.private_data);
  return mad;
}

}  // namespace

HeaderFault decode(MadView mad, MadHeader& header) {
  if (mad[0] != kBaseVersion || mad[1] != kCmClass || mad[2] != kCmClassVersion || mad[3] != kMethodSend) {
    return HeaderFault::kNotCm;
  }
  const uint16_t attribute = load_be16(&mad[16]);
  if (attribute < uint16_t(Attribute::kReq) || attribute > uint16_t(Attribute::kApr)) {
    return HeaderFault::kUnknownMessage;
  }
  header.attribute = static_cast<Attribute>(attribute);
  header.transaction_id = load_be64(&mad[8]);
  header.modifier = modifier_of(mad);
  return HeaderFault::kNone;
}

Req decode_req(MadView mad) {
  const uint8_t* p = body(mad);
  Req r;
  r.local_id = load_be32(p);
  r.ece = {.vendor_id = load_be24(p + 5), .attr_mod = modifier_of(mad)};
  r.service_id = load_be64(p + 8);
  r.ca_guid = load_be64(p + 16);
  r.qkey = load_be32(p + 28);
  r.qpn = load_be24(p + 32);
  r.responder_resources = p[35];
  r.initiator_depth = p[39];
  r.remote_response_timeout = p[43] >> 3;
  r.transport = (p[43] >> 1) & 3;
  r.flow_control = (p[43] & 1) != 0;
  r.starting_psn = Psn(load_be24(p + 44));
  r.local_response_timeout = p[47] >> 3;
  r.retry_count = p[47] & 7;
  r.pkey = load_be16(p + 48);
  r.path_mtu = p[50] >> 4;
  r.rdc_exists = (p[50] & 0x08) != 0;
  r.rnr_retry_count = p[50] & 7;
  r.max_cm_retries = p[51] >> 4;
  r.srq = (p[51] & 0x08) != 0;
  r.extended_transport = p[51] & 7;
  r.path = path_at(p + 52);
  const ReqPath alternate = path_at(p + 96);
  r.has_alternate_path = alternate.local_lid != 0 || !alternate.local_gid.is_zero();
  r.private_data = private_data_at(mad, 140, kReqPrivateBytes);
  return r;
}

MadBytes encode(uint64_t transaction_id, const Req& r) {
  MadBytes mad = start(Attribute::kReq, transaction_id, r.ece.attr_mod);
  uint8_t* p = body(mad);
  store_be32(p, r.local_id);
  store_be24(p + 5, r.ece.vendor_id);
  store_be64(p + 8, r.service_id);
  store_be64(p + 16, r.ca_guid);
  store_be32(p + 28, r.qkey);
  store_be24(p + 32, r.qpn);
  p[35] = r.responder_resources;
  p[39] = r.initiator_depth;
  p[43] = static_cast<uint8_t>((r.remote_response_timeout << 3) | ((r.transport & 3) << 1) | (r.flow_control ? 1 : 0));
  store_be24(p + 44, r.starting_psn.value());
  p[47] = static_cast<uint8_t>((r.local_response_timeout << 3) | (r.retry_count & 7));
  store_be16(p + 48, r.pkey);
  p[50] = static_cast<uint8_t>((r.path_mtu << 4) | (r.rdc_exists ? 0x08 : 0) | (r.rnr_retry_count & 7));
  p[51] = static_cast<uint8_t>((r.max_cm_retries << 4) | (r.srq ? 0x08 : 0) | (r.extended_transport & 7));
  put_path(p + 52, r.path);
  put_private_data(mad, 140, kReqPrivateBytes, r.private_data);
  return mad;
}

Rep decode_rep(MadView mad) {
  const uint8_t* p = body(mad);
  Rep r;
  r.local_id = load_be32(p);
  r.remote_id = load_be32(p + 4);
  r.ece.vendor_id = (uint32_t{p[15]} << 16) | (uint32_t{p[19]} << 8) | p[23];
  r.ece.attr_mod = modifier_of(mad);
  r.qkey = load_be32(p + 8);
  r.qpn = load_be24(p + 12);
  r.eecn = load_be24(p + 16);
  r.starting_psn = Psn(load_be24(p + 20));
  r.responder_resources = p[24];
  r.initiator_depth = p[25];
  r.target_ack_delay = p[26] >> 3;
  r.failover_accepted = (p[26] >> 1) & 3;
  r.flow_control = (p[26] & 1) != 0;
  r.rnr_retry_count = p[27] >> 5;
  r.srq = (p[27] & 0x10) != 0;
  r.ca_guid = load_be64(p + 28);
  r.private_data = private_data_at(mad, 36, kRepPrivateBytes);
  return r;
}

MadBytes encode(uint64_t transaction_id, const Rep& r) {
  MadBytes mad = start(Attribute::kRep, transaction_id, r.ece.attr_mod);
  uint8_t* p = body(mad);
  put_ids(mad, r.local_id, r.remote_id);
  store_be32(p + 8, r.qkey);
  store_be24(p + 12, r.qpn);
  store_be24(p + 16, r.eecn);
  p[15] = static_cast<uint8_t>(r.ece.vendor_id >> 16);
  p[19] = static_cast<uint8_t>(r.ece.vendor_id >> 8);
  store_be24(p + 20, r.starting_psn.value());
  p[23] = static_cast<uint8_t>(r.ece.vendor_id);
  p[24] = r.responder_resources;
  p[25] = r.initiator_depth;
  p[26] = static_cast<uint8_t>((r.target_ack_delay << 3) | ((r.failover_accepted & 3) << 1) | (r.flow_control ? 1 : 0));
  p[27] = static_cast<uint8_t>((r.rnr_retry_count << 5) | (r.srq ? 0x10 : 0));
  store_be64(p + 28, r.ca_guid);
  put_private_data(mad, 36, kRepPrivateBytes, r.private_data);
  return mad;
}

Confirmation decode_confirmation(MadView mad) {
  return {load_be32(body(mad)), load_be32(body(mad) + 4), private_data_at(mad, 8, kRtuPrivateBytes)};
}

MadBytes encode_rtu(uint64_t transaction_id, const Confirmation& rtu) {
  return encode_confirmation(Attribute::kRtu, transaction_id, rtu);
}

MadBytes encode_drep(uint64_t transaction_id, const Confirmation& drep) {
  return encode_confirmation(Attribute::kDrep, transaction_id, drep);
}

Mra decode_mra(MadView mad) {
  const uint8_t* p = body(mad);
  return {.local_id = load_be32(p),
          .remote_id = load_be32(p + 4),
          .answered = static_cast<Answered>(p[8] >> 6),
          .service_timeout = static_cast<uint8_t>(p[9] >> 3)};
}

MadBytes encode(uint64_t transaction_id, const Mra& mra) {
  MadBytes mad = start(Attribute::kMra, transaction_id);
  put_ids(mad, mra.local_id, mra.remote_id);
  body(mad)[8] = static_cast<uint8_t>(static_cast<uint8_t>(mra.answered) << 6);
  body(mad)[9] = static_cast<uint8_t>(mra.service_timeout << 3);
  return mad;
}

Rej decode_rej(MadView mad) {
  const uint8_t* p = body(mad);
  Rej r;
  r.local_id = load_be32(p);
  r.remote_id = load_be32(p + 4);
  r.answered = static_cast<Answered>(p[8] >> 6);
  r.ari_length = std::min<uint8_t>(p[9] >> 1, kAriBytes);
  r.reason = load_be16(p + 10);
  std::memcpy(r.ari.data(), p + 12, kAriBytes);
  r.private_data = private_data_at(mad, 84, kRejPrivateBytes);
  return r;
}

MadBytes encode(uint64_t transaction_id, const Rej& r) {
  MadBytes mad = start(Attribute::kRej, transaction_id);
  uint8_t* p = body(mad);
  put_ids(mad, r.local_id, r.remote_id);
  p[8] = static_cast<uint8_t>(static_cast<uint8_t>(r.answered) << 6);
  p[9] = static_cast<uint8_t>(r.ari_length << 1);
  store_be16(p + 10, r.reason);
  std::memcpy(p + 12, r.ari.data(), std::min<size_t>(r.ari_length, kAriBytes));
  put_private_data(mad, 84, kRejPrivateBytes, r.private_data);
  return mad;
}

Dreq decode_dreq(MadView mad) {
  const uint8_t* p = body(mad);
  return {load_be32(p), load_be32(p + 4), load_be24(p + 8), private_data_at(mad, 12, kDreqPrivateBytes)};
}

MadBytes encode(uint64_t transaction_id, const Dreq& dreq) {
  MadBytes mad = start(Attribute::kDreq, transaction_id);
  put_ids(mad, dreq.local_id, dreq.remote_id);
  store_be24(body(mad) + 8, dreq.remote_qpn);
  put_private_data(mad, 12, kDreqPrivateBytes, dreq.private_data);
  return mad;
}

SidrReq decode_sidr_req(MadView mad) {
  const uint8_t* p = body(mad);
  return {load_be32(p), load_be16(p + 4), load_be64(p + 8), private_data_at(mad, 16, kSidrReqPrivateBytes)};
}

MadBytes encode(uint64_t transaction_id, const SidrReq& request) {
  MadBytes mad = start(Attribute::kSidrReq, transaction_id);
  store_be32(body(mad), request.request_id);
  store_be16(body(mad) + 4, request.pkey);
  store_be64(body(mad) + 8, request.service_id);
  put_private_data(mad, 16, kSidrReqPrivateBytes, request.private_data);
  return mad;
}

SidrRep decode_sidr_rep(MadView mad) {
  const uint8_t* p = body(mad);
  SidrRep r;
  r.request_id = load_be32(p);
  r.status = p[4];
  r.ece.vendor_id = (uint32_t{load_be16(p + 6)} << 8) | p[11];
  r.ece.attr_mod = modifier_of(mad);
  r.qpn = load_be24(p + 8);
  r.service_id = load_be64(p + 12);
  r.qkey = load_be32(p + 20);
  r.private_data = private_data_at(mad, 96, kSidrRepPrivateBytes);
  return r;
}

MadBytes encode(uint64_t transaction_id, const SidrRep& r) {
  MadBytes mad = start(Attribute::kSidrRep, transaction_id, r.ece.attr_mod);
  uint8_t* p = body(mad);
  store_be32(p, r.request_id);
  p[4] = r.status;
  store_be16(p + 6, static_cast<uint16_t>(r.ece.vendor_id >> 8));
  store_be24(p + 8, r.qpn);
  p[11] = static_cast<uint8_t>(r.ece.vendor_id);
  store_be64(p + 12, r.service_id);
  store_be32(p + 20, r.qkey);
  put_private_data(mad, 96, kSidrRepPrivateBytes, r.private_data);
  return mad;
}

Lap decode_lap(MadView mad) {
  const uint8_t* p = body(mad);
  return {.local_id = load_be32(p), .remote_id = load_be32(p + 4), .remote_qpn = load_be24(p + 12)};
}

Apr decode_apr(MadView mad) {
  const uint8_t* p = body(mad);
  return {.local_id = load_be32(p), .remote_id = load_be32(p + 4), .status = p[9]};
}

MadBytes encode(uint64_t transaction_id, const Apr& apr) {
  MadBytes mad = start(Attribute::kApr, transaction_id);
  put_ids(mad, apr.local_id, apr.remote_id);
  body(mad)[9] = apr.status;
  return mad;
}

}  // namespace uroce::cm
