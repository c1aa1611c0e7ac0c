// What both ends of a connection by address and port do.
#pragma once

#include <rdma/rdma_cma.h>

#include <functional>

namespace verbs_test {

/// Waits for the next event, which must be `wanted`, and acknowledges it. Returns 0, an errno, or kUnreached when none
/// or another one came. `id`: of a request, the new one. `patience` is called once, after a part of the time.
int await_event(rdma_event_channel* channel, rdma_cm_event_type wanted, const std::function<void()>& patience,
                rdma_cm_id** id = nullptr);
/// Connects to the port at this host's address. Returns 0, an errno, or kUnreached. The caller destroys `id`.
int connect_to(ibv_context* context, rdma_event_channel* channel, rdma_cm_id* id, uint16_t port,
               const std::function<void()>& patience);
int bind_to(rdma_cm_id* id, uint16_t port);
int give_queue_pair(rdma_cm_id* id);

}  // namespace verbs_test
