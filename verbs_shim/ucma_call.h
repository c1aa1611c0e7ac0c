// What the commands of ucma_commands.cc and ucma_queries.cc are given.
#pragma once

#include <rdma/rdma_user_cm.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "ucma.h"

namespace uroce::verbs {

/// A command with what surrounds it.
struct UcmaCall {
  UcmaFile& file;
  size_t out_bytes;  // room for the reply
};

template <typename Reply>
int reply_with(const UcmaCall& call, uint64_t where, const Reply& reply) {
  return copy_to_program(where, &reply, std::min(call.out_bytes, sizeof reply)) ? 0 : EFAULT;
}

/// QUERY and QUERY_ROUTE: 0 or an errno.
int query_ucma(const UcmaCall& call, const rdma_ucm_query& command);
int query_ucma_route(const UcmaCall& call, const rdma_ucm_query& command);

}  // namespace uroce::verbs
