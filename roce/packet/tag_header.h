// The headers of tag matching, which stand at the beginning of each message to a queue that matches tags.
//
//   bytes 0        1..3       4..7      8..15                 tag matching header
//         operation reserved  context   tag
//   bytes 16..23   24..27     28..31                          rendezvous header, which follows it in a rendezvous
//   request
//         address  rkey       length
//
// All numbers are in network order. The reserved bytes are written as zeros and not looked at: programs build these
// headers themselves, and not all of them clear what they do not use.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/big_endian.h"

namespace uroce {

/// ibv_tmh_op.
enum class TagOperation : uint8_t {
  kNoTag = 0,       // an ordinary message
  kRendezvous = 1,  // a request to read the message from the sender's memory
  kFinished = 2,    // says to that sender that it was read
  kEager = 3,       // the message follows
};

struct TagHeader {
  static constexpr uint32_t kBytes = 16;

  TagOperation operation = TagOperation::kNoTag;
  uint32_t context = 0;  // the sender's own, comes back in kFinished
  uint64_t tag = 0;

  void encode(uint8_t* to) const {
    std::memset(to, 0, kBytes);
    to[0] = static_cast<uint8_t>(operation);
    store_be32(to + 4, context);
    store_be64(to + 8, tag);
  }
};

struct RendezvousHeader {
  static constexpr uint32_t kBytes = 16;

  uint64_t va = 0;
  uint32_t rkey = 0;
  uint32_t length = 0;
};

/// Both headers of a message, as far as it has them.
struct TaggedHeaders {
  TagHeader tag;
  RendezvousHeader rendezvous;  // only of TagOperation::kRendezvous
};

/// Reads the headers at the beginning of a message of which `bytes` are at `data`. False when they are cut short, or
/// the operation is unknown.
inline bool parse_tagged(const uint8_t* data, uint32_t bytes, TaggedHeaders& out) {
  uint8_t copy[TagHeader::kBytes + RendezvousHeader::kBytes] = {};  // others may write to a frame meanwhile
  if (bytes < TagHeader::kBytes) return false;
  std::memcpy(copy, data, bytes < sizeof copy ? bytes : sizeof copy);
  if (copy[0] > static_cast<uint8_t>(TagOperation::kEager)) return false;
  out.tag = {static_cast<TagOperation>(copy[0]), load_be32(copy + 4), load_be64(copy + 8)};
  if (out.tag.operation != TagOperation::kRendezvous) return true;
  if (bytes < sizeof copy) return false;
  out.rendezvous = {load_be64(copy + 16), load_be32(copy + 24), load_be32(copy + 28)};
  return true;
}

}  // namespace uroce
