// The specifications of a flow, as ibv_create_flow gets them: one structure behind the other.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/big_endian.h"
#include "dpdk/log.h"
#include "raw.h"
#include "runtime.h"

namespace uroce::verbs {
namespace {

int refuse_flow(int error, const char* why) {
  log_message(LogLevel::kInfo, "ibv_create_flow: %s (%s)", why, error == EINVAL ? "EINVAL" : "EOPNOTSUPP");
  return error;
}

/// One field of a specification: the value to match, and the bits of it that count.
template <size_t N>
void want(uint8_t (&value)[N], uint8_t (&mask)[N], const void* v, const void* m) {
  std::memcpy(value, v, N);
  std::memcpy(mask, m, N);
  for (size_t i = 0; i < N; i++) value[i] &= mask[i];
}
void want(uint8_t& value, uint8_t& mask, uint8_t v, uint8_t m) {
  value = v & m;
  mask = m;
}

/// Requires a header. False when it was asked for already, or excludes one that was.
bool want_layer(FlowMatch& match, FlowLayer layer, uint8_t instead_of) {
  if ((match.value.layers & (layer | instead_of)) != 0) return false;
  match.value.layers |= layer;
  match.mask.layers |= layer;
  return true;
}

struct SpecReader {
  FlowRule& flow;
  std::vector<FlowCounters*>& counters;
  bool has_eth = false;
  bool has_tag = false;

  /// `bytes`: the length of the specification at `at`.
  int read(const uint8_t* at, ibv_flow_spec_type type, uint16_t bytes);

 private:
  template <typename Spec, typename Take>
  static int with(const uint8_t* at, uint16_t bytes, Take&& take) {
    if (bytes != sizeof(Spec)) return refuse_flow(EINVAL, "a specification is not of its type's size");
    Spec spec;
    std::memcpy(&spec, at, sizeof spec);
    return take(spec);
  }
  int take(const ibv_flow_spec_eth& spec);
  int take(const ibv_flow_spec_ipv4& spec);
  int take(const ibv_flow_spec_ipv4_ext& spec);
  int take(const ibv_flow_spec_ipv6& spec);
  int take_ports(const ibv_flow_spec_tcp_udp& spec, FlowLayer layer);
  int take(const ibv_flow_spec_tunnel& spec);
  int take(const ibv_flow_spec_action_tag& spec);
  int take(const ibv_flow_spec_counter_action& spec);
  static int twice() { return refuse_flow(EINVAL, "two specifications of one layer"); }
};

int SpecReader::take(const ibv_flow_spec_eth& spec) {
  if (std::exchange(has_eth, true)) return twice();
  FlowKey &v = flow.match.value, &m = flow.match.mask;
  want(v.dst_mac, m.dst_mac, spec.val.dst_mac, spec.mask.dst_mac);
  want(v.src_mac, m.src_mac, spec.val.src_mac, spec.mask.src_mac);
  want(v.ether_type, m.ether_type, &spec.val.ether_type, &spec.mask.ether_type);
  if (spec.mask.vlan_tag == 0) return 0;
  want(v.vlan_tag, m.vlan_tag, &spec.val.vlan_tag, &spec.mask.vlan_tag);
  return want_layer(flow.match, kFlowVlan, 0) ? 0 : twice();
}

int SpecReader::take(const ibv_flow_spec_ipv4& spec) {
  ibv_flow_spec_ipv4_ext all{};
  all.val.src_ip = spec.val.src_ip;
  all.val.dst_ip = spec.val.dst_ip;
  all.mask.src_ip = spec.mask.src_ip;
  all.mask.dst_ip = spec.mask.dst_ip;
  return take(all);
}

int SpecReader::take(const ibv_flow_spec_ipv4_ext& spec) {
  if (!want_layer(flow.match, kFlowIpv4, kFlowIpv6)) return twice();
  FlowKey &v = flow.match.value, &m = flow.match.mask;
  const auto address = [](uint8_t(&value)[16], uint8_t(&mask)[16], uint32_t wanted, uint32_t bits) {
    wanted &= bits;
    std::memcpy(value, &wanted, 4);
    std::memcpy(mask, &bits, 4);
  };
  address(v.src_ip, m.src_ip, spec.val.src_ip, spec.mask.src_ip);
  address(v.dst_ip, m.dst_ip, spec.val.dst_ip, spec.mask.dst_ip);
  want(v.protocol, m.protocol, spec.val.proto, spec.mask.proto);
  want(v.traffic_class, m.traffic_class, spec.val.tos, spec.mask.tos);
  want(v.hop_limit, m.hop_limit, spec.val.ttl, spec.mask.ttl);
  want(v.ip_flags, m.ip_flags, spec.val.flags, spec.mask.flags);
  return 0;
}

int SpecReader::take(const ibv_flow_spec_ipv6& spec) {
  if (!want_layer(flow.match, kFlowIpv6, kFlowIpv4)) return twice();
  FlowKey &v = flow.match.value, &m = flow.match.mask;
  want(v.src_ip, m.src_ip, spec.val.src_ip, spec.mask.src_ip);
  want(v.dst_ip, m.dst_ip, spec.val.dst_ip, spec.mask.dst_ip);
  want(v.flow_label, m.flow_label, &spec.val.flow_label, &spec.mask.flow_label);
  want(v.protocol, m.protocol, spec.val.next_hdr, spec.mask.next_hdr);
  want(v.traffic_class, m.traffic_class, spec.val.traffic_class, spec.mask.traffic_class);
  want(v.hop_limit, m.hop_limit, spec.val.hop_limit, spec.mask.hop_limit);
  return 0;
}

int SpecReader::take_ports(const ibv_flow_spec_tcp_udp& spec, FlowLayer layer) {
  if (!want_layer(flow.match, layer, kFlowTcp | kFlowUdp)) return twice();
  FlowKey &v = flow.match.value, &m = flow.match.mask;
  want(v.src_port, m.src_port, &spec.val.src_port, &spec.mask.src_port);
  want(v.dst_port, m.dst_port, &spec.val.dst_port, &spec.mask.dst_port);
  return 0;
}

int SpecReader::take(const ibv_flow_spec_tunnel& spec) {
  if (!want_layer(flow.match, kFlowVxlan, 0)) return twice();
  want(flow.match.value.tunnel_id, flow.match.mask.tunnel_id, &spec.val.tunnel_id, &spec.mask.tunnel_id);
  return 0;
}

int SpecReader::take(const ibv_flow_spec_action_tag& spec) {
  if (std::exchange(has_tag, true)) return refuse_flow(EINVAL, "two tags");
  flow.tag = spec.tag_id;
  return 0;
}

int SpecReader::take(const ibv_flow_spec_counter_action& spec) {
  if (spec.counters == nullptr) return refuse_flow(EINVAL, "no counters to count with");
  if (is_the_parents(spec.counters->context)) return refuse_to_child();
  counters.push_back(&ours(spec.counters));
  return 0;
}

int SpecReader::read(const uint8_t* at, ibv_flow_spec_type type, uint16_t bytes) {
  const auto take_any = [this](const auto& spec) { return take(spec); };
  switch (static_cast<uint32_t>(type)) {
    case IBV_FLOW_SPEC_ETH:
      return with<ibv_flow_spec_eth>(at, bytes, take_any);
    case IBV_FLOW_SPEC_IPV4:
      return with<ibv_flow_spec_ipv4>(at, bytes, take_any);
    case IBV_FLOW_SPEC_IPV4_EXT:
      return with<ibv_flow_spec_ipv4_ext>(at, bytes, take_any);
    case IBV_FLOW_SPEC_IPV6:
      return with<ibv_flow_spec_ipv6>(at, bytes, take_any);
    case IBV_FLOW_SPEC_TCP:
      return with<ibv_flow_spec_tcp_udp>(at, bytes, [this](const auto& spec) { return take_ports(spec, kFlowTcp); });
    case IBV_FLOW_SPEC_UDP:
      return with<ibv_flow_spec_tcp_udp>(at, bytes, [this](const auto& spec) { return take_ports(spec, kFlowUdp); });
    case IBV_FLOW_SPEC_VXLAN_TUNNEL:
      return with<ibv_flow_spec_tunnel>(at, bytes, take_any);
    case IBV_FLOW_SPEC_ACTION_TAG:
      return with<ibv_flow_spec_action_tag>(at, bytes, take_any);
    case IBV_FLOW_SPEC_ACTION_DROP:
      return with<ibv_flow_spec_action_drop>(at, bytes, [this](const auto&) {
        flow.drops = true;
        return 0;
      });
    case IBV_FLOW_SPEC_ACTION_COUNT:
      return with<ibv_flow_spec_counter_action>(at, bytes, take_any);
    case IBV_FLOW_SPEC_ESP:
    case IBV_FLOW_SPEC_GRE:
    case IBV_FLOW_SPEC_MPLS:
    case IBV_FLOW_SPEC_ACTION_HANDLE:
      return refuse_flow(EOPNOTSUPP, "ESP, GRE, MPLS and actions of other handles are not there");
    default:
      if ((type & IBV_FLOW_SPEC_INNER) != 0) return refuse_flow(EOPNOTSUPP, "nothing looks into tunnels");
      return refuse_flow(EINVAL, "a specification of no known type");
  }
}

int check_attr(const ibv_flow_attr& attr) {
  constexpr uint32_t kFlags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP | IBV_FLOW_ATTR_FLAGS_EGRESS;
  if (attr.comp_mask != 0) return refuse_flow(EINVAL, "comp_mask has bits that nobody knows");
  if (attr.type > IBV_FLOW_ATTR_SNIFFER) return refuse_flow(EINVAL, "no such type of flow");
  if (attr.port != 1) return refuse_flow(EINVAL, "there is one port, number 1");
  if ((attr.flags & ~kFlags) != 0) return refuse_flow(EINVAL, "flags that nobody knows");
  if ((attr.flags & IBV_FLOW_ATTR_FLAGS_EGRESS) != 0) return refuse_flow(EOPNOTSUPP, "what is sent has no flows");
  if ((attr.flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP) != 0 && attr.type != IBV_FLOW_ATTR_NORMAL)
    return refuse_flow(EINVAL, "only normal flows can let others see their frames");
  return 0;
}

}  // namespace

static_assert(static_cast<int>(FlowRuleKind::kNormal) == IBV_FLOW_ATTR_NORMAL &&
              static_cast<int>(FlowRuleKind::kAllDefault) == IBV_FLOW_ATTR_ALL_DEFAULT &&
              static_cast<int>(FlowRuleKind::kMulticastDefault) == IBV_FLOW_ATTR_MC_DEFAULT &&
              static_cast<int>(FlowRuleKind::kSniffer) == IBV_FLOW_ATTR_SNIFFER);

int flow_from(const ibv_flow_attr& attr, FlowRule& flow, std::vector<FlowCounters*>& counters) {
  if (const int error = check_attr(attr); error != 0) return error;
  flow.kind = static_cast<FlowRuleKind>(attr.type);
  flow.priority = attr.priority;
  flow.traps = (attr.flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP) == 0;
  SpecReader reader{flow, counters};
  // As in libibverbs, the number of specifications and the length of each say where they end. `size` of the attributes
  // does not: pyverbs leaves the specifications out of it.
  const auto* const begin = reinterpret_cast<const uint8_t*>(&attr);
  size_t at = sizeof attr;
  for (uint32_t i = 0; i < attr.num_of_specs; i++) {
    struct Head {
      ibv_flow_spec_type type;
      uint16_t size;
    } head;
    constexpr size_t kHeadBytes = offsetof(Head, size) + sizeof head.size;
    std::memcpy(&head, begin + at, kHeadBytes);
    if (head.size < kHeadBytes) return refuse_flow(EINVAL, "a specification is shorter than its own beginning");
    if (const int error = reader.read(begin + at, head.type, head.size); error != 0) return error;
    at += head.size;
  }
  const FlowKey none;
  if (flow.kind != FlowRuleKind::kNormal && std::memcmp(&flow.match.mask, &none, sizeof none) != 0)
    return refuse_flow(EINVAL, "default flows and sniffers take whatever there is, and look for nothing");
  if (flow.drops && reader.has_tag) return refuse_flow(EINVAL, "what is dropped has no tag");
  return 0;
}

}  // namespace uroce::verbs
