// Between the structures of the kernel's rdma_user_cm.h and the values of connection management.
#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "cm/rdma_cm.h"
#include "uroce/address.h"

namespace uroce::verbs {

/// The size of the address at `address` by its family, which is one of AF_INET, AF_INET6 and AF_IB; 0 for any other.
size_t address_bytes(uint16_t family);

/// `room` bytes are at `address`. Nothing: the family is none of ours, or the room is too small for it.
std::optional<cm::SocketAddress> address_from(const void* address, size_t room);
/// Writes the address, of at most sizeof(__kernel_sockaddr_storage) bytes, and returns its size; 0: it has no family.
uint16_t address_to(const cm::SocketAddress& from, void* to);
/// Where structures have room for no other family: AF_INET and AF_INET6.
void address_to(const cm::SocketAddress& from, sockaddr_in6& to);
/// The GID as an address of family AF_IB, as QUERY_GID tells it.
uint16_t gid_to(const cm::SocketAddress& from, const IpAddress& gid, uint16_t pkey, cm::PortSpace port_space, void* to);

cm::ConnParam conn_param_from(const rdma_ucm_conn_param& from);
void conn_param_to(const cm::ConnParam& from, rdma_ucm_conn_param& to);
void ud_param_to(const cm::UdParam& from, rdma_ucm_ud_param& to);
void qp_settings_to(const cm::QpSettings& from, QpState state, ib_uverbs_qp_attr& to);

/// The id's route as a path record, in the two forms in which programs are told it.
void path_to(const cm::Id& id, ib_user_path_rec& to);
void path_to(const cm::Id& id, ib_path_rec_data& to);

}  // namespace uroce::verbs
