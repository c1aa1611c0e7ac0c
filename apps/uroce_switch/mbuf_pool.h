// The fabric's frames in mbufs of one pool. A frame is one segment, and its token is the mbuf.
#pragma once

#include <cstring>

#include <rte_mbuf.h>

#include "fabric/frame.h"

namespace uroce::netswitch {

class MbufPool final : public fabric::FramePool {
 public:
  explicit MbufPool(rte_mempool* pool) : pool_(pool) {}

  fabric::FabricFrame allocate(uint32_t bytes) override {
    rte_mbuf* mbuf = rte_pktmbuf_alloc(pool_);
    if (mbuf == nullptr) return {};
    if (bytes > rte_pktmbuf_tailroom(mbuf)) {
      rte_pktmbuf_free(mbuf);
      return {};
    }
    mbuf->data_len = static_cast<uint16_t>(bytes);
    mbuf->pkt_len = bytes;
    return frame_of(mbuf);
  }
  fabric::FabricFrame clone(const fabric::FabricFrame& frame) override {
    const fabric::FabricFrame copy = allocate(frame.bytes);
    if (copy) std::memcpy(copy.data, frame.data, frame.bytes);
    return copy;
  }
  void release(const fabric::FabricFrame& frame) override { rte_pktmbuf_free(mbuf_of(frame)); }

  /// The frame of an mbuf, which must have a single segment.
  static fabric::FabricFrame frame_of(rte_mbuf* mbuf) {
    return {rte_pktmbuf_mtod(mbuf, uint8_t*), mbuf->data_len, mbuf};
  }
  static rte_mbuf* mbuf_of(const fabric::FabricFrame& frame) { return static_cast<rte_mbuf*>(frame.token); }

 private:
  rte_mempool* pool_;
};

}  // namespace uroce::netswitch
