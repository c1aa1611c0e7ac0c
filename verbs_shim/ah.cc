// Address handles: where datagrams go.
#include <endian.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/immortal.h"
#include "dpdk/log.h"
#include "engine/address_table.h"
#include "engine/object_tables.h"
#include "engine/queue_pairs.h"
#include "operations.h"
#include "runtime.h"
#include "transport/address_handle.h"
#include "transport/qp.h"

using namespace uroce;
using namespace uroce::verbs;

namespace {

// How long a program waits for the peer's MAC address. As long as with rdma-core (NEIGH_GET_DEFAULT_TIMEOUT_MS in
// libibverbs/neigh.c), although there the peer's kernel answers and here its program, which may have to wait for a CPU.
constexpr Duration kResolvePatience = milliseconds(3000);

/// Deletes a handle, and takes it back from the engine first if the engine knows it.
struct GiveBack {
  void operator()(AddressHandle* handle) const {
    {
      EngineLock lock(endpoint());
      lock->destroy_ah(handle);
    }
    delete handle;
  }
};
using LentHandle = std::unique_ptr<AddressHandle, GiveBack>;

/// Makes a handle and waits until the peer has answered. Null, with errno, when there is no route or no answer.
LentHandle resolved_handle(PdId pd, const ibv_ah_attr& attr) {
  AddressVector av;
  if (!address_vector_from(attr, av)) {
    errno = EINVAL;
    return nullptr;
  }
  LentHandle handle;
  bool full;
  {
    EngineLock lock(endpoint());
    full = lock->objects().ahs_full();
    handle.reset(lock->create_ah(pd, av, endpoint().now()).release());
  }
  if (full) {
    errno = ENOMEM;
    return nullptr;
  }
  if (handle == nullptr) {
    log_message(LogLevel::kWarning, "address handle: no route to %s",
                av.is_global ? to_string(av.dgid).c_str() : ("LID " + std::to_string(av.dlid)).c_str());
    errno = EINVAL;
    return nullptr;
  }
  if (drive_until(kResolvePatience, [&](Engine&) { return handle->resolved; })) return handle;
  log_message(LogLevel::kWarning, "address handle: nobody answers for %s (ARP/ND)",
              to_string(handle->path.dst_ip).c_str());
  handle.reset();
  errno = ETIMEDOUT;
  return nullptr;
}

/// Handles that a program destroyed while datagrams that use them waited to be sent. To be used under an EngineLock.
std::vector<std::unique_ptr<AddressHandle>>& retired_handles() {
  static Immortal<std::vector<std::unique_ptr<AddressHandle>>> handles;
  return *handles;
}

void retire(Engine& engine, std::unique_ptr<AddressHandle> handle) {
  bool datagrams_wait = false;
  engine.qps().for_each([&](const Qp& qp) { datagrams_wait |= qp.type() == QpType::kUd && qp.sends_queued() != 0; });
  engine.destroy_ah(handle.get());
  if (!datagrams_wait) return retired_handles().clear();
  try {
    retired_handles().push_back(std::move(handle));
  } catch (const std::bad_alloc&) {
    static_cast<void>(handle.release());  // never freed, because datagrams may still use it
  }
}

/// The GRH area of a datagram: an IPv6 header, or an IPv4 header in its last 20 bytes.
bool is_ipv4_area(const uint8_t* area) {
  const uint8_t* ip = area + 20;
  if (ip[0] != 0x45) return false;
  uint32_t sum = 0;
  for (unsigned i = 0; i < 20; i += 2) sum += (uint32_t{ip[i]} << 8) | ip[i + 1];
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return sum == 0xffff;
}

struct GrhAddresses {
  IpAddress from;
  IpAddress to;
  uint8_t traffic_class = 0;
  uint32_t flow_label = 0;
};

bool read_grh(const ibv_grh& grh, GrhAddresses& out) {
  const auto* area = reinterpret_cast<const uint8_t*>(&grh);
  if (is_ipv4_area(area)) {
    uint32_t address;
    std::memcpy(&address, area + 32, 4);
    out.from = IpAddress::v4(be32toh(address));
    std::memcpy(&address, area + 36, 4);
    out.to = IpAddress::v4(be32toh(address));
    out.traffic_class = area[21];
    return true;
  }
  const uint32_t word = be32toh(grh.version_tclass_flow);
  if (word >> 28 != 6) return false;
  std::memcpy(out.from.bytes.data(), grh.sgid.raw, 16);
  std::memcpy(out.to.bytes.data(), grh.dgid.raw, 16);
  out.traffic_class = static_cast<uint8_t>(word >> 20);
  out.flow_label = word & IB_GRH_FLOWLABEL_MASK;
  return true;
}

/// The index of our GID to which a datagram was sent; for a multicast one, that of the first GID of its address family.
int gid_index_of(const IpAddress& ip) {
  EngineLock lock(endpoint());
  const std::span<const LocalAddress> gids = lock->addresses().gids();
  for (size_t i = 0; i < gids.size(); i++) {
    const bool same = ip.is_multicast() ? gids[i].ip.is_v4() == ip.is_v4() : gids[i].ip == ip;
    if (same) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

UROCE_VERBS_EXPORT ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) try {
  if (is_the_parents(pd->context)) {
    refuse_to_child();
    return nullptr;
  }
  if (!is_found(*pd)) {
    errno = ENOENT;
    return nullptr;
  }
  auto ah = std::make_unique<Ah>();
  LentHandle handle = resolved_handle(ours(pd).id, *attr);
  if (handle == nullptr) return nullptr;
  ah->context = pd->context;
  ah->pd = pd;
  identify(*ah, *ah, next_handle());
  ah->address.reset(handle.release());
  count_object(pd, 1);
  return ah.release();
} catch (const std::bad_alloc&) {
  errno = ENOMEM;
  return nullptr;
}

UROCE_VERBS_EXPORT int ibv_destroy_ah(ibv_ah* base) {
  if (is_the_parents(base->context)) return 0;
  if (!is_found(*base)) return with_errno(ENOENT);
  Ah& ah = ours(base);
  {
    EngineLock lock(endpoint());
    retire(lock.engine(), std::move(ah.address));
  }
  count_object(ah.pd, -1);
  delete &ah;
  return 0;
}

UROCE_VERBS_EXPORT int ibv_init_ah_from_wc(ibv_context* context, uint8_t port, ibv_wc* wc, ibv_grh* grh,
                                           ibv_ah_attr* attr) {
  if (is_the_parents(context)) {
    refuse_to_child();
    return -1;
  }
  *attr = {};
  attr->dlid = wc->slid;
  attr->sl = 0;  // wc->sl is the kind of IP header (DatagramHeader), not a priority
  attr->src_path_bits = wc->dlid_path_bits;
  attr->port_num = port;
  if ((wc->wc_flags & IBV_WC_GRH) == 0) return 0;
  GrhAddresses addresses;
  const int index = grh != nullptr && read_grh(*grh, addresses) ? gid_index_of(addresses.to) : -1;
  if (port != 1 || index < 0) {
    errno = EINVAL;
    return -1;
  }
  attr->is_global = 1;
  std::memcpy(attr->grh.dgid.raw, addresses.from.bytes.data(), 16);
  attr->grh.sgid_index = static_cast<uint8_t>(index);
  attr->grh.traffic_class = addresses.traffic_class;
  attr->grh.flow_label = addresses.flow_label;
  attr->grh.hop_limit = 64;
  return 0;
}

UROCE_VERBS_EXPORT ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, uint8_t port) {
  ibv_ah_attr attr;
  if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) != 0) return nullptr;
  return ibv_create_ah(pd, &attr);
}

UROCE_VERBS_EXPORT int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* attr,
                                                   uint8_t mac[ETHERNET_LL_SIZE], uint16_t* vlan) {
  if (is_the_parents(context)) return refuse_to_child();
  PdId pd;
  {
    EngineLock lock(endpoint());
    pd = lock->objects().allocate_pd();
  }
  if (pd == 0) return with_errno(ENOMEM);
  int error = 0;
  try {
    if (const LentHandle handle = resolved_handle(pd, *attr); handle == nullptr) {
      error = errno;
    } else {
      std::memcpy(mac, handle->path.dst_mac.bytes.data(), ETHERNET_LL_SIZE);
      constexpr uint16_t kNoVlan = 0xffff;
      if (vlan != nullptr) *vlan = handle->path.vlan_id != 0 ? handle->path.vlan_id : kNoVlan;
    }
  } catch (const std::bad_alloc&) {
    error = ENOMEM;
  }
  EngineLock lock(endpoint());
  lock->objects().deallocate_pd(pd);
  return with_errno(error);
}
