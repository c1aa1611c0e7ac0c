#include "ucma_convert.h"

#include <endian.h>
#include <infiniband/ib.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>

#include <bit>
#include <cstring>

#include "cm/cma_header.h"
#include "identity.h"

namespace uroce::verbs {

namespace {

using cm::SocketAddress;
using Family = SocketAddress::Family;

SocketAddress v4_from(const sockaddr_in& from) {
  SocketAddress to;
  to.family = Family::kV4;
  to.ip = IpAddress::v4(ntohl(from.sin_addr.s_addr));
  to.port = ntohs(from.sin_port);
  return to;
}

SocketAddress v6_from(const sockaddr_in6& from) {
  SocketAddress to;
  to.family = Family::kV6;
  std::memcpy(to.ip.bytes.data(), &from.sin6_addr, 16);
  to.port = ntohs(from.sin6_port);
  to.flow_info = from.sin6_flowinfo;
  to.scope_id = from.sin6_scope_id;
  return to;
}

SocketAddress ib_from(const sockaddr_ib& from) {
  SocketAddress to;
  to.family = Family::kIb;
  std::memcpy(to.ip.bytes.data(), &from.sib_addr, 16);
  to.service_id = be64toh(from.sib_sid);
  to.service_id_mask = be64toh(from.sib_sid_mask);
  to.pkey = be16toh(from.sib_pkey);
  return to;
}

template <typename T>
T copied(const void* from) {
  T to;
  std::memcpy(&to, from, sizeof to);
  return to;
}

/// The structure may lie unaligned.
template <typename T>
uint16_t put(const T& from, void* to) {
  std::memcpy(to, &from, sizeof from);
  return sizeof from;
}

void address_vector_to_kernel(const AddressVector& from, ib_uverbs_ah_attr& to) {
  std::memcpy(to.grh.dgid, from.dgid.bytes.data(), 16);
  to.grh.flow_label = from.flow_label;
  to.grh.sgid_index = from.sgid_index;
  to.grh.hop_limit = from.hop_limit;
  to.grh.traffic_class = from.traffic_class;
  to.dlid = from.dlid;
  to.sl = from.sl;
  to.static_rate = from.static_rate;
  to.is_global = from.is_global ? 1 : 0;
  to.port_num = from.port_num;
}

// Values of the fields of a path record that are the same for every path of ours.
constexpr uint8_t kExactly = 2;          // the selectors of MTU, rate and lifetime
constexpr uint8_t kRate10Gbps = 3;       // IBV_RATE_10_GBPS
constexpr uint8_t kPacketLifeTime = 18;  // 4.096 us * 2^18: about a second

}  // namespace

size_t address_bytes(uint16_t family) {
  switch (family) {
    case AF_INET:
      return sizeof(sockaddr_in);
    case AF_INET6:
      return sizeof(sockaddr_in6);
    case AF_IB:
      return sizeof(sockaddr_ib);
    default:
      return 0;
  }
}

std::optional<SocketAddress> address_from(const void* address, size_t room) {
  if (room < sizeof(uint16_t)) return std::nullopt;
  const auto family = copied<uint16_t>(address);
  const size_t bytes = address_bytes(family);
  if (bytes == 0 || bytes > room) return std::nullopt;
  if (family == AF_INET) return v4_from(copied<sockaddr_in>(address));
  if (family == AF_INET6) return v6_from(copied<sockaddr_in6>(address));
  return ib_from(copied<sockaddr_ib>(address));
}

uint16_t address_to(const SocketAddress& from, void* to) {
  switch (from.family) {
    case Family::kV4: {
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(from.port);
      address.sin_addr.s_addr = htonl(from.ip.v4_host_order());
      return put(address, to);
    }
    case Family::kV6: {
      sockaddr_in6 address{};
      address.sin6_family = AF_INET6;
      address.sin6_port = htons(from.port);
      address.sin6_flowinfo = from.flow_info;
      std::memcpy(&address.sin6_addr, from.ip.bytes.data(), 16);
      address.sin6_scope_id = from.scope_id;
      return put(address, to);
    }
    case Family::kIb: {
      sockaddr_ib address{};
      address.sib_family = AF_IB;
      address.sib_pkey = htobe16(from.pkey);
      std::memcpy(&address.sib_addr, from.ip.bytes.data(), 16);
      address.sib_sid = htobe64(from.service_id);
      address.sib_sid_mask = htobe64(from.service_id_mask);
      return put(address, to);
    }
    case Family::kNone:
      break;
  }
  return 0;
}

void address_to(const SocketAddress& from, sockaddr_in6& to) {
  if (from.family != Family::kIb) address_to(from, static_cast<void*>(&to));
}

uint16_t gid_to(const SocketAddress& from, const IpAddress& gid, uint16_t pkey, cm::PortSpace port_space, void* to) {
  if (from.family == Family::kIb) return address_to(from, to);
  sockaddr_ib address{};
  address.sib_family = AF_IB;
  address.sib_pkey = htobe16(pkey);
  std::memcpy(&address.sib_addr, gid.bytes.data(), 16);
  address.sib_sid = htobe64(cm::service_id_of(port_space, from.port));
  address.sib_sid_mask = ~uint64_t{0};
  return put(address, to);
}

cm::ConnParam conn_param_from(const rdma_ucm_conn_param& from) {
  cm::ConnParam to;
  to.private_data = cm::PrivateData(std::span(from.private_data, from.private_data_len));
  to.responder_resources = from.responder_resources;
  to.initiator_depth = from.initiator_depth;
  to.flow_control = from.flow_control;
  to.retry_count = from.retry_count;
  to.rnr_retry_count = from.rnr_retry_count;
  to.srq = from.srq != 0;
  to.qpn = from.qp_num & 0xffffff;
  to.qkey = from.qkey;
  return to;
}

void conn_param_to(const cm::ConnParam& from, rdma_ucm_conn_param& to) {
  const auto data = from.private_data.view();
  std::memcpy(to.private_data, data.data(), data.size());
  to.private_data_len = static_cast<uint8_t>(data.size() < 255 ? data.size() : 255);
  to.responder_resources = from.responder_resources;
  to.initiator_depth = from.initiator_depth;
  to.flow_control = from.flow_control;
  to.retry_count = from.retry_count;
  to.rnr_retry_count = from.rnr_retry_count;
  to.srq = from.srq ? 1 : 0;
  to.qp_num = from.qpn;
  to.qkey = from.qkey;
}

void ud_param_to(const cm::UdParam& from, rdma_ucm_ud_param& to) {
  const auto data = from.private_data.view();
  std::memcpy(to.private_data, data.data(), data.size());
  to.private_data_len = static_cast<uint8_t>(data.size() < 255 ? data.size() : 255);
  to.qp_num = from.qpn;
  to.qkey = from.qkey;
  address_vector_to_kernel(from.av, to.ah_attr);
}

void qp_settings_to(const cm::QpSettings& from, QpState state, ib_uverbs_qp_attr& to) {
  const QpAttributes& a = from.attributes;
  to.qp_attr_mask = from.mask;
  to.qp_state = static_cast<uint32_t>(state);
  to.cur_qp_state = static_cast<uint32_t>(a.cur_state);
  to.path_mtu = mtu_to_verbs(a.path_mtu_bytes);
  to.path_mig_state = IBV_MIG_MIGRATED;
  to.qkey = a.qkey;
  to.rq_psn = a.rq_psn.value();
  to.sq_psn = a.sq_psn.value();
  to.dest_qp_num = a.dest_qpn;
  to.qp_access_flags = a.access;
  address_vector_to_kernel(a.av, to.ah_attr);
  to.pkey_index = a.pkey_index;
  to.max_rd_atomic = a.max_rd_atomic;
  to.max_dest_rd_atomic = a.max_dest_rd_atomic;
  to.min_rnr_timer = a.min_rnr_timer;
  to.port_num = a.port_num;
  to.timeout = a.timeout;
  to.retry_cnt = a.retry_cnt;
  to.rnr_retry = a.rnr_retry;
}

void path_to(const cm::Id& id, ib_user_path_rec& to) {
  const cm::ResolvedRoute* way = id.way();
  if (way == nullptr) return;
  std::memcpy(to.dgid, way->av.dgid.bytes.data(), 16);
  std::memcpy(to.sgid, way->source.ip.bytes.data(), 16);
  to.flow_label = htobe32(way->av.flow_label);
  to.reversible = 1;
  to.mtu = mtu_to_verbs(way->mtu_bytes);
  to.pkey = htobe16(kPkey);
  to.hop_limit = way->av.hop_limit;
  to.traffic_class = way->av.traffic_class;
  to.numb_path = 1;
  to.sl = way->av.sl;
  to.mtu_selector = kExactly;
  to.rate_selector = kExactly;
  to.rate = kRate10Gbps;
  to.packet_life_time_selector = kExactly;
  to.packet_life_time = kPacketLifeTime;
}

// A PathRecord of the subnet administration, as bytes of the wire: service ID 0-7, DGID 8-23, SGID 24-39, LIDs 40-43,
// flow label and hop limit 44-47, traffic class 48, reversible and number of paths 49, P_Key 50-51, SL 52-53, then MTU,
// rate and packet lifetime, each with a selector in its upper two bits.
void path_to(const cm::Id& id, ib_path_rec_data& to) {
  const cm::ResolvedRoute* way = id.way();
  if (way == nullptr) return;
  to.flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
  auto* bytes = reinterpret_cast<uint8_t*>(to.path_rec);
  const uint64_t service = htobe64(cm::service_id_of(id.port_space(), id.remote().port));
  std::memcpy(bytes, &service, sizeof service);
  std::memcpy(bytes + 8, way->av.dgid.bytes.data(), 16);
  std::memcpy(bytes + 24, way->source.ip.bytes.data(), 16);
  const uint32_t flow_and_hops = htobe32((way->av.flow_label & 0xfffff) << 8 | way->av.hop_limit);
  std::memcpy(bytes + 44, &flow_and_hops, sizeof flow_and_hops);
  bytes[48] = way->av.traffic_class;
  bytes[49] = 0x80 | 1;
  bytes[50] = kPkey >> 8;
  bytes[51] = kPkey & 0xff;
  bytes[53] = way->av.sl & 0xf;
  bytes[54] = static_cast<uint8_t>(kExactly << 6 | mtu_to_verbs(way->mtu_bytes));
  bytes[55] = kExactly << 6 | kRate10Gbps;
  bytes[56] = kExactly << 6 | kPacketLifeTime;
}

}  // namespace uroce::verbs
