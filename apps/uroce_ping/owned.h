// Objects of libibverbs and librdmacm, each with the call that ends it.
#pragma once

#include <rdma/rdma_cma.h>

#include <memory>

namespace uroce::ping {

template <auto kEnd>
struct EndsWith {
  template <typename T>
  void operator()(T* object) const {
    kEnd(object);
  }
};

using Pd = std::unique_ptr<ibv_pd, EndsWith<ibv_dealloc_pd>>;
using Region = std::unique_ptr<ibv_mr, EndsWith<ibv_dereg_mr>>;
using CompletionChannel = std::unique_ptr<ibv_comp_channel, EndsWith<ibv_destroy_comp_channel>>;
using Cq = std::unique_ptr<ibv_cq, EndsWith<ibv_destroy_cq>>;
using Qp = std::unique_ptr<ibv_qp, EndsWith<ibv_destroy_qp>>;
using AddressHandle = std::unique_ptr<ibv_ah, EndsWith<ibv_destroy_ah>>;
using EventChannel = std::unique_ptr<rdma_event_channel, EndsWith<rdma_destroy_event_channel>>;
using Id = std::unique_ptr<rdma_cm_id, EndsWith<rdma_destroy_id>>;
using Event = std::unique_ptr<rdma_cm_event, EndsWith<rdma_ack_cm_event>>;

}  // namespace uroce::ping
