// Writes one frame, front to back, in one pass over the payload: copy and iCRC are fused.
//
//   FrameBuilder builder(frame, path_header, bth, ext_bytes, payload_bytes);
//   reth.encode(builder.ext());
//   builder.begin_payload();
//   builder.append(piece, n);   // until payload_bytes are there
//   builder.finish();
#pragma once

#include <cstdint>

#include "base/check.h"
#include "base/guarded_memory.h"
#include "packet/crc32.h"
#include "packet/headers.h"
#include "packet/icrc.h"
#include "packet/path_header.h"
#include "uroce/port.h"

namespace uroce {

class FrameBuilder {
 public:
  FrameBuilder(TxFrame& frame, const PathHeader& path, Bth bth, uint32_t ext_bytes, uint32_t payload_bytes)
      : frame_(frame), path_(path), pad_bytes_(-payload_bytes & 3u) {
    const uint32_t udp_bytes = Bth::kBytes + ext_bytes + payload_bytes + pad_bytes_ + kIcrcBytes;
    ensure(path.bytes() + udp_bytes <= frame.capacity, "the frame has room for the packet");
    bth.pad_count = static_cast<uint8_t>(pad_bytes_);
    path.write(frame.data, udp_bytes, bth.psn);
    bth.encode(frame.data + path.bytes());
    ext_ = frame.data + path.bytes() + Bth::kBytes;
    at_ = ext_ + ext_bytes;
  }

  uint8_t* ext() { return ext_; }

  /// To be called when the extension headers have been written.
  void begin_payload() {
    crc_ = icrc_begin(frame_.data + path_.l3_offset(), path_.ipv6());
    if (at_ != ext_) crc_ = crc32_update(crc_, ext_, static_cast<size_t>(at_ - ext_));
  }

  void append(const uint8_t* data, uint32_t bytes) {
    crc_ = crc32_copy(crc_, at_, data, bytes);
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
    if (pad_bytes_ != 0) {
      static constexpr uint8_t kZeros[4] = {};
      append(kZeros, pad_bytes_);
    }
    icrc_store(at_, crc_);
    frame_.bytes = static_cast<uint32_t>(at_ + kIcrcBytes - frame_.data);
  }

 private:
  TxFrame& frame_;
  const PathHeader& path_;
  uint8_t* ext_;
  uint8_t* at_;
  uint32_t crc_ = kCrcInit;
  uint32_t pad_bytes_;
};

/// The most bytes that a frame needs beside its payload: headers, the longest extension headers, padding and iCRC.
inline constexpr uint32_t kMaxFrameOverhead = PathHeader::kMaxBytes + Bth::kBytes + 28 + 3 + kIcrcBytes;

}  // namespace uroce
