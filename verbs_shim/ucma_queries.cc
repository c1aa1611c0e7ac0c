// What programs ask of an id: its addresses, its device, its path.
#include <cerrno>
#include <cstddef>
#include <optional>

#include "identity.h"
#include "later_abi.h"
#include "runtime.h"
#include "ucma.h"
#include "ucma_call.h"
#include "ucma_convert.h"

namespace uroce::verbs {

namespace {

/// What the answers to queries say of an id.
struct Described {
  bool has_device = false;
  cm::SocketAddress local;
  cm::SocketAddress remote;
  IpAddress sgid;
  IpAddress dgid;
};

/// To be called under an EngineLock if the id is with connection management.
Described describe(const UcmaId& id) {
  if (id.id == nullptr) return {false, id.bound_early, {}, {}, {}};
  Described d{id.id->has_device(), id.id->local(), id.id->remote(), id.id->local().ip, id.id->remote().ip};
  if (const cm::ResolvedRoute* way = id.id->way(); way != nullptr) {
    d.sgid = way->source.ip;
    d.dgid = way->av.dgid;
  }
  return d;
}

constexpr uint32_t kDeviceIndex = 0;  // what ibv_get_device_index says

uint64_t node_guid() { return guid_of(endpoint().identity().guid_mac()); }

void put_device(const Described& d, rdma_ucm_query_addr_resp& reply) {
  if (!d.has_device) return;
  reply.node_guid = node_guid();
  reply.port_num = 1;
  reply.pkey = kPkey;
  reply.ibdev_index = kDeviceIndex;
}

int query_addr(const UcmaCall& call, const UcmaId& id, uint64_t response) {
  if (call.out_bytes < offsetof(rdma_ucm_query_addr_resp, ibdev_index)) return ENOSPC;
  const Described d = describe(id);
  rdma_ucm_query_addr_resp reply{};
  put_device(d, reply);
  reply.src_size = address_to(d.local, &reply.src_addr);
  reply.dst_size = address_to(d.remote, &reply.dst_addr);
  return reply_with(call, response, reply);
}

int query_gid(const UcmaCall& call, const UcmaId& id, uint64_t response) {
  if (call.out_bytes < offsetof(rdma_ucm_query_addr_resp, ibdev_index)) return ENOSPC;
  const Described d = describe(id);
  rdma_ucm_query_addr_resp reply{};
  put_device(d, reply);
  reply.src_size = gid_to(d.local, d.sgid, reply.pkey, id.port_space, &reply.src_addr);
  reply.dst_size = gid_to(d.remote, d.dgid, reply.pkey, id.port_space, &reply.dst_addr);
  return reply_with(call, response, reply);
}

int query_path(const UcmaCall& call, const UcmaId& id, uint64_t response) {
  struct Reply {
    uint32_t num_paths;
    uint32_t reserved;
    ib_path_rec_data path;
  } reply{};
  constexpr size_t kHeadBytes = sizeof(rdma_ucm_query_path_resp);
  static_assert(offsetof(Reply, path) == kHeadBytes);
  if (call.out_bytes < kHeadBytes) return ENOSPC;
  const bool known = id.id != nullptr && id.id->way() != nullptr;
  if (known) path_to(*id.id, reply.path);
  reply.num_paths = known ? 1 : 0;
  const bool fits = known && call.out_bytes >= sizeof reply;
  return copy_to_program(response, &reply, fits ? sizeof reply : kHeadBytes) ? 0 : EFAULT;
}

}  // namespace

int query_ucma(const UcmaCall& call, const rdma_ucm_query& command) {
  int error;
  const UcmaId* const id = Ucma::get().find_id(call.file, command.id, error);
  if (id == nullptr) return error;
  std::optional<EngineLock> lock;
  if (id->id != nullptr) lock.emplace(endpoint());
  switch (command.option) {
    case RDMA_USER_CM_QUERY_ADDR:
      return query_addr(call, *id, command.response);
    case RDMA_USER_CM_QUERY_PATH:
      return query_path(call, *id, command.response);
    case RDMA_USER_CM_QUERY_GID:
      return query_gid(call, *id, command.response);
    case kUcmaQueryIbService:  // none was resolved
      return call.out_bytes < sizeof(UcmaIbServices) ? ENOSPC : ENODATA;
    default:
      return ENOSYS;
  }
}

int query_ucma_route(const UcmaCall& call, const rdma_ucm_query& command) {
  if (call.out_bytes < offsetof(rdma_ucm_query_route_resp, ibdev_index)) return ENOSPC;
  int error;
  const UcmaId* const id = Ucma::get().find_id(call.file, command.id, error);
  if (id == nullptr) return error;
  std::optional<EngineLock> lock;
  if (id->id != nullptr) lock.emplace(endpoint());
  const Described d = describe(*id);
  rdma_ucm_query_route_resp reply{};
  address_to(d.local, reply.src_addr);
  address_to(d.remote, reply.dst_addr);
  if (d.has_device) {
    reply.node_guid = node_guid();
    reply.port_num = 1;
    reply.ibdev_index = kDeviceIndex;
    if (id->id->way() != nullptr) {
      reply.num_paths = 1;
      path_to(*id->id, reply.ib_route[0]);
    }
  }
  return reply_with(call, command.response, reply);
}

}  // namespace uroce::verbs
