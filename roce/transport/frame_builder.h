// Writes one frame, front to back, in one pass over the payload: copy and iCRC are fused. (Short pieces are copied
// first, and summed up with their neighbours.)
//
//   FrameBuilder builder(frame, route_header, bth, ext_bytes, payload_bytes);
//   reth.encode(builder.ext());
//   builder.append(piece, n);   // until payload_bytes are there
//   builder.finish();
#pragma once

#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/guarded_memory.h"
#include "packet/crc32.h"
#include "packet/headers.h"
#include "packet/icrc.h"
#include "packet/route_header.h"
#include "uroce/port.h"

namespace uroce {

class FrameBuilder {
 public:
  FrameBuilder(TxFrame& frame, const RouteHeader& path, Bth bth, uint32_t ext_bytes, uint32_t payload_bytes)
      : frame_(frame), pad_bytes_(-payload_bytes & 3u) {
    const uint32_t udp_bytes = Bth::kBytes + ext_bytes + payload_bytes + pad_bytes_ + kIcrcBytes;
    ensure(path.bytes() + udp_bytes <= frame.capacity, "the frame has room for the packet");
    bth.pad_count = static_cast<uint8_t>(pad_bytes_);
    const RouteHeader::Summed summed = path.write(frame.data, udp_bytes, bth);
    crc_ = summed.crc;
    summed_ = frame.data + path.bytes() + summed.bth_bytes;
    ext_ = frame.data + path.bytes() + Bth::kBytes;
    at_ = ext_ + ext_bytes;
  }

  uint8_t* ext() { return ext_; }

  /// The extension headers must have been written.
  void append(const uint8_t* data, uint32_t bytes) {
    if (bytes <= kShort) {  // the iCRC is computed with what stands beside it, at once
      guarded_copy(at_, data, bytes);
    } else {
      sum();
      crc_ = crc32_copy(crc_, at_, data, bytes);
      summed_ = at_ + bytes;
    }
    at_ += bytes;
  }

  /// `append` from registered memory. False when that memory is gone; the frame must not be used then.
  [[nodiscard]] bool append_registered(const uint8_t* data, uint32_t bytes) {
    try {
      append(data, bytes);
      return true;
    } catch (const MemoryFault&) {
      return false;
    }
  }

  void finish() {
    std::memset(at_, 0, kIcrcBytes);  // there is room for it, and no more padding than that
    at_ += pad_bytes_;
    sum();
    icrc_store(at_, crc_);
    frame_.bytes = static_cast<uint32_t>(at_ + kIcrcBytes - frame_.data);
  }

 private:
  static constexpr uint32_t kShort = 64;

  /// Brings the iCRC up to what is written.
  void sum() {
    if (at_ == summed_) return;
    crc_ = crc32_update(crc_, summed_, static_cast<size_t>(at_ - summed_));
    summed_ = at_;
  }

  TxFrame& frame_;
  uint8_t* summed_;  // the iCRC covers what stands before it
  uint8_t* ext_;
  uint8_t* at_;
  uint32_t crc_;
  uint32_t pad_bytes_;
};

/// The most bytes that a frame needs beside its payload: headers, the longest extension headers, padding and iCRC.
inline constexpr uint32_t kMaxFrameOverhead = RouteHeader::kMaxBytes + Bth::kBytes + 28 + 3 + kIcrcBytes;

}  // namespace uroce
