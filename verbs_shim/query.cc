// Queries about the device, its port and its tables.
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/address_table.h"
#include "engine/multicast_groups.h"
#include "engine/queue_pairs.h"
#include "identity.h"
#include "later_abi.h"
#include "operations.h"
#include "raw.h"
#include "runtime.h"
#include "tag_matching.h"

using namespace uroce;
using namespace uroce::verbs;

namespace {

constexpr uint32_t kPortPhysLinkUp = 5;
constexpr uint32_t kPortPhysDisabled = 3;

void fill_device(ibv_device_attr& attr) {
  attr = {};
  std::memcpy(attr.fw_ver, kFirmwareVersion, sizeof kFirmwareVersion);
  EngineConfig limits;
  {
    EngineLock lock(endpoint());
    limits.max_qps = lock->qps().table().capacity();
  }
  attr.node_guid = guid_of(endpoint().identity().guid_mac());
  attr.sys_image_guid = attr.node_guid;
  attr.max_mr_size = ~uint64_t{0};
  attr.page_size_cap = ~uint64_t{4095};
  attr.vendor_id = kVendorId;
  attr.vendor_part_id = kVendorPartId;
  attr.max_qp = static_cast<int>(limits.max_qps);
  attr.max_qp_wr = kMaxQpWr;
  attr.device_cap_flags = kDeviceCapFlags;
  attr.max_sge = kMaxSge;
  attr.max_sge_rd = kMaxSge;
  attr.max_cq = static_cast<int>(limits.max_cqs);
  attr.max_cqe = kMaxCqe;
  attr.max_mr = static_cast<int>(limits.max_regions);
  attr.max_pd = static_cast<int>(limits.max_pds);
  attr.max_qp_rd_atom = kMaxReads;
  attr.max_res_rd_atom = static_cast<int>(limits.max_qps * kMaxReads);
  attr.max_qp_init_rd_atom = kMaxReads;
  attr.atomic_cap = IBV_ATOMIC_HCA;
  attr.max_mw = static_cast<int>(limits.max_regions);
  attr.max_ah = static_cast<int>(limits.max_ahs);
  attr.max_srq = static_cast<int>(limits.max_srqs);
  attr.max_srq_wr = kMaxSrqWr;
  attr.max_srq_sge = kMaxSge;
  attr.max_pkeys = kPkeys;
  attr.max_raw_ethy_qp = attr.max_qp;
  attr.max_mcast_grp = GroupMembership::kGroupsMax;
  attr.max_mcast_qp_attach = MulticastGroups::kAttachedMax;
  attr.max_total_mcast_qp_attach = attr.max_mcast_grp * attr.max_mcast_qp_attach;
  attr.local_ca_ack_delay = 15;
  attr.phys_port_cnt = 1;
}

/// What ibv_device_attr lacks.
void fill_device_extension(ibv_device_attr_ex& attr) {
  // Page faults are the processor's, so each type of queue pair has all operations of its transport.
  constexpr uint32_t kMessages = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
  constexpr uint32_t kReliable = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
  attr.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
  attr.odp_caps.per_transport_caps.rc_odp_caps = kMessages | kReliable | kOdpSupportFlush | kOdpSupportAtomicWrite;
  attr.odp_caps.per_transport_caps.uc_odp_caps = kMessages | IBV_ODP_SUPPORT_WRITE;
  attr.odp_caps.per_transport_caps.ud_odp_caps = kMessages;
  attr.xrc_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_SRQ_RECV | kReliable;
  attr.completion_timestamp_mask = ~uint64_t{0};
  attr.hca_core_clock = 1000000;  // kHz: timestamps count nanoseconds
  attr.device_cap_flags_ex = attr.orig_attr.device_cap_flags | kDeviceFlushGlobal | kDeviceAtomicWrite;
  attr.packet_pacing_caps.qp_rate_limit_min = 1;
  attr.packet_pacing_caps.qp_rate_limit_max = kMaxRateKbps;
  attr.packet_pacing_caps.supported_qpts =
      (1u << IBV_QPT_RC) | (1u << IBV_QPT_UC) | (1u << IBV_QPT_UD) | (1u << IBV_QPT_RAW_PACKET);
  attr.rss_caps.supported_qpts = 1u << IBV_QPT_RAW_PACKET;
  attr.rss_caps.max_rwq_indirection_tables = kMaxIndirectionTables;
  attr.rss_caps.max_rwq_indirection_table_size = 1u << kMaxLogTable;
  attr.rss_caps.rx_hash_fields_mask = kRssFields;
  attr.rss_caps.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ;
  attr.max_wq_type_rq = static_cast<uint32_t>(attr.orig_attr.max_qp);
  attr.cq_mod_caps.max_cq_count = kMaxModeration;
  attr.cq_mod_caps.max_cq_period = kMaxModeration;
  attr.max_dm_size = kMaxDmBytes;
  fill_tag_caps(attr.tm_caps);
  attr.phys_port_cnt_ex = 1;
}

/// The number of rows that a program may ask for. Some are empty, for addresses that come later.
size_t gid_table_length(const Engine& engine) {
  return std::max<size_t>(engine.addresses().gids().size(), AddressTable::kGidsShown);
}

/// The present ibv_port_attr, and room for what later releases append.
struct PortAttr {
  ibv_port_attr v44;
  uint32_t active_speed_ex;
};
// How many bytes the symbol ibv_query_port may write: programs that use it have a structure of this size.
constexpr size_t kCompatPortBytes = 48;
static_assert(offsetof(ibv_port_attr, flags) == kCompatPortBytes - 1);

int fill_port(uint8_t port, PortAttr& out) {
  if (port != 1) return with_errno(EINVAL);
  out = {};
  ibv_port_attr& attr = out.v44;
  const bool up = endpoint().link_up();
  const LinkRate& rate = link_rate(endpoint().link_speed_mbps());
  attr.state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attr.max_mtu = IBV_MTU_4096;
  attr.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
  attr.max_msg_sz = kMaxMessageBytes;
  attr.pkey_tbl_len = kPkeys;
  attr.max_vl_num = 1;
  attr.active_width = rate.active_width;
  attr.active_speed = rate.active_speed;
  attr.phys_state = up ? kPortPhysLinkUp : kPortPhysDisabled;
  attr.link_layer = IBV_LINK_LAYER_ETHERNET;
  EngineLock lock(endpoint());
  attr.active_mtu = mtu_to_verbs(lock->qps().active_mtu_bytes());
  attr.gid_tbl_len = static_cast<int>(gid_table_length(lock.engine()));
  attr.lid = lock->addresses().lid();
  return 0;
}

/// Returns 0, or ENODATA when there is nothing at this index, or EINVAL when there is no such port or index; then `gid`
/// is zeros.
int read_gid(uint32_t port, uint32_t index, ibv_gid& gid) {
  gid = {};
  EngineLock lock(endpoint());
  const std::span<const LocalAddress> gids = lock->addresses().gids();
  if (port != 1 || index >= gid_table_length(lock.engine())) return EINVAL;
  if (index >= gids.size() || gids[index].ip.is_zero()) return ENODATA;
  std::memcpy(gid.raw, gids[index].ip.bytes.data(), sizeof gid.raw);
  return 0;
}

ibv_gid_entry gid_entry(uint32_t index, const ibv_gid& gid) {
  ibv_gid_entry entry{};
  entry.gid = gid;
  entry.gid_index = index;
  entry.port_num = 1;
  entry.gid_type = IBV_GID_TYPE_ROCE_V2;
  const std::string& netdev = endpoint().netdev_name();
  entry.ndev_ifindex = netdev.empty() ? 0 : if_nametoindex(netdev.c_str());
  return entry;
}

}  // namespace

namespace uroce::verbs {

int query_device_extended(ibv_context*, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attr,
                          size_t bytes) {
  if (input != nullptr && input->comp_mask != 0) return with_errno(EINVAL);
  if (bytes < sizeof attr->orig_attr) return with_errno(EINVAL);
  ibv_device_attr_ex all{};
  fill_device(all.orig_attr);
  fill_device_extension(all);
  std::memset(attr, 0, bytes);
  std::memcpy(attr, &all, std::min(bytes, sizeof all));
  return 0;
}

int query_port_extended(ibv_context*, uint8_t port, ibv_port_attr* attr, size_t bytes) {
  PortAttr all;
  const int error = fill_port(port, all);
  if (error != 0) return error;
  std::memset(attr, 0, bytes);
  std::memcpy(attr, &all, std::min(bytes, sizeof all));
  return 0;
}

}  // namespace uroce::verbs

UROCE_VERBS_EXPORT int ibv_query_device(ibv_context*, ibv_device_attr* attr) {
  fill_device(*attr);
  return 0;
}

UROCE_VERBS_EXPORT int ibv_query_port(ibv_context*, uint8_t port, _compat_ibv_port_attr* attr) {
  PortAttr all;
  const int error = fill_port(port, all);
  if (error == 0) std::memcpy(reinterpret_cast<uint8_t*>(attr), &all, kCompatPortBytes);
  return error;
}

/// New in rdma-core 60: the speed in units of 100 Mb/s; if it is not known, that of `active_speed`.
UROCE_VERBS_EXPORT int ibv_query_port_speed(ibv_context*, uint32_t port, uint64_t* speed) {
  if (port != 1) return with_errno(EINVAL);
  const uint64_t mbps = endpoint().link_speed_mbps();
  *speed = (mbps != 0 ? mbps : link_rate(0).mbps) / 100;
  return 0;
}

UROCE_VERBS_EXPORT int ibv_query_gid(ibv_context*, uint8_t port, int index, ibv_gid* gid) {
  // An empty row reads as zeros.
  const int error = index >= 0 ? read_gid(port, static_cast<uint32_t>(index), *gid) : EINVAL;
  if (error == 0 || error == ENODATA) return 0;
  errno = error;
  return -1;
}

UROCE_VERBS_EXPORT int _ibv_query_gid_ex(ibv_context*, uint32_t port, uint32_t index, ibv_gid_entry* entry,
                                         uint32_t flags, size_t entry_bytes) {
  if (flags != 0) return with_errno(EOPNOTSUPP);
  ibv_gid gid;
  if (const int error = read_gid(port, index, gid); error != 0) return with_errno(error);
  const ibv_gid_entry found = gid_entry(index, gid);
  std::memset(entry, 0, entry_bytes);
  std::memcpy(entry, &found, std::min(entry_bytes, sizeof found));
  return 0;
}

UROCE_VERBS_EXPORT ssize_t _ibv_query_gid_table(ibv_context*, ibv_gid_entry* entries, size_t entries_max,
                                                uint32_t flags, size_t entry_bytes) {
  if (flags != 0) return -with_errno(EOPNOTSUPP);
  auto* out = reinterpret_cast<uint8_t*>(entries);
  size_t count = 0;
  ibv_gid gid;
  for (uint32_t index = 0;; index++) {
    const int error = read_gid(1, index, gid);
    if (error == EINVAL) return static_cast<ssize_t>(count);
    if (error != 0) continue;
    if (count++ >= entries_max) return -with_errno(EINVAL);
    const ibv_gid_entry found = gid_entry(index, gid);
    std::memset(out, 0, entry_bytes);
    std::memcpy(out, &found, std::min(entry_bytes, sizeof found));
    out += entry_bytes;
  }
}

/// Private to rdma-core's tools: uses the kernel's numbers for GID types, where RoCE v2 is 1. An empty row reads as 0.
UROCE_VERBS_EXPORT int ibv_query_gid_type(ibv_context*, uint8_t port, unsigned index, int* type) {
  ibv_gid gid;
  const int error = read_gid(port, index, gid);
  if (error != 0 && error != ENODATA) {
    errno = error;
    return -1;
  }
  *type = error == 0 ? 1 : 0;
  return 0;
}
// Tools of releases since 25 and since 33 ask for the same function under another node.
#define UROCE_QUERY_GID_TYPE(node)                                                                              \
  UROCE_VERBS_EXPORT __attribute__((used)) int uroce_compat_gid_type_##node(ibv_context* context, uint8_t port, \
                                                                            unsigned index, int* type) {        \
    return ibv_query_gid_type(context, port, index, type);                                                      \
  }                                                                                                             \
  asm(".symver uroce_compat_gid_type_" #node ",ibv_query_gid_type@IBVERBS_PRIVATE_" #node)
UROCE_QUERY_GID_TYPE(25);
UROCE_QUERY_GID_TYPE(33);

UROCE_VERBS_EXPORT int ibv_query_pkey(ibv_context*, uint8_t port, int index, __be16* pkey) {
  if (port != 1 || index != 0) {
    errno = EINVAL;
    return -1;
  }
  *pkey = kPkey;
  return 0;
}

UROCE_VERBS_EXPORT int ibv_get_pkey_index(ibv_context*, uint8_t port, __be16 pkey) {
  // 0x7fff is the same partition, as a limited member.
  constexpr uint16_t kMembership = 0x0080;  // the top bit, in network order
  if (port == 1 && (pkey | kMembership) == kPkey) return 0;
  errno = EINVAL;
  return -1;
}
