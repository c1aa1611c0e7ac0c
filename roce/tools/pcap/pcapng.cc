// The pcapng half of the reader: it reads sections, interfaces and three kinds of packets, and skips every other block.
#include <algorithm>
#include <cstring>
#include <limits>

#include "capture/pcapng_format.h"
#include "pcap/reader.h"

namespace uroce::pcap {

using namespace capture::pcapng;

namespace {

constexpr uint64_t kBlockHeaderBytes = 8;
constexpr uint64_t kBlockMinBytes = 12;

using Wide = __int128;

/// Ticks as nanoseconds; the resolution's top bit chooses powers of two.
Wide nanoseconds_of(uint64_t ticks, uint8_t resolution) {
  const unsigned exponent = resolution & 0x7f;
  Wide value = static_cast<Wide>(ticks);
  if ((resolution & 0x80) != 0) return exponent >= 96 ? 0 : value * 1'000'000'000 >> exponent;
  for (unsigned i = exponent; i < 9; i++) value *= 10;
  for (unsigned i = 9; i < exponent && value != 0; i++) value /= 10;
  return value;
}

}  // namespace

/// A block whose two lengths agree and lie within the file.
struct CaptureReader::Block {
  uint32_t type = 0;
  uint64_t begin = 0;
  uint64_t body = 0;  // first byte after type and length
  uint64_t end = 0;   // where the body ends
  bool holds(uint64_t at, uint64_t bytes) const { return at >= body && at <= end && bytes <= end - at; }
};

template <typename OnOption>
bool CaptureReader::for_each_option(const Block& block, uint64_t at, OnOption&& on_option) {
  while (block.holds(at, 4)) {
    const uint16_t code = u16(at);
    const uint16_t bytes = u16(at + 2);
    if (code == kOptionEnd) return true;
    if (!block.holds(at + 4, bytes)) return fail(at, "an option that is longer than its block");
    on_option(code, at + 4, bytes);
    at += 4 + padded(bytes);
  }
  return true;
}

bool CaptureReader::begin_section(Block& block) {
  if (left() < kBlockHeaderBytes + 4) return fail(at_, "the file ends within a section header");
  swapped_ = false;
  const uint32_t magic = u32(at_ + 8);
  if (magic != kByteOrderMagic && magic != __builtin_bswap32(kByteOrderMagic)) {
    return fail(at_ + 8, "a section header whose byte order magic is wrong");
  }
  swapped_ = magic != kByteOrderMagic;
  if (block.type != kSectionHeader) return fail(at_, "not a section header");
  interfaces_.clear();
  return true;
}

bool CaptureReader::next_block(Block& block) {
  if (left() == 0) return false;
  if (left() < kBlockMinBytes) return fail(at_, "the file ends within a block's header");
  block.type = u32(at_);
  if (block.type == kSectionHeader && !begin_section(block)) return false;
  const uint64_t bytes = u32(at_ + 4);
  if (bytes < kBlockMinBytes || bytes % 4 != 0) {
    return fail(at_ + 4, "a block length of " + std::to_string(bytes) + ", which no block has");
  }
  if (bytes > left()) {
    return fail(
        at_, "a block of " + std::to_string(bytes) + " bytes; the file has only " + std::to_string(left()) + " more");
  }
  if (u32(at_ + bytes - 4) != bytes) return fail(at_ + bytes - 4, "a block whose two lengths differ");
  block.begin = at_;
  block.body = at_ + kBlockHeaderBytes;
  block.end = at_ + bytes - 4;
  if (block.type == kSectionHeader) {
    if (!block.holds(block.body, 16)) return fail(at_, "a section header that is too short");
    if (u16(block.body + 4) != 1) return fail(block.body + 4, "a pcapng version other than 1");
  }
  at_ += bytes;
  return true;
}

bool CaptureReader::next_pcapng(Frame& frame) {
  for (Block block; next_block(block);) {
    switch (block.type) {
      case kInterfaceDescription:
        if (!on_interface(block)) return false;
        break;
      case kInterfaceStatistics:
        if (!on_statistics(block)) return false;
        break;
      case kEnhancedPacket:
        return on_enhanced_packet(block, frame);
      case kSimplePacket:
        return on_simple_packet(block, frame);
      case kObsoletePacket:
        return on_obsolete_packet(block, frame);
      default:
        break;
    }
  }
  return false;
}

bool CaptureReader::on_interface(const Block& block) {
  if (!block.holds(block.body, 8)) return fail(block.begin, "an interface description that is too short");
  Interface interface;
  interface.link = static_cast<LinkType>(u16(block.body));
  interface.snap_bytes = u32(block.body + 4);
  const bool fine = for_each_option(block, block.body + 8, [&](uint16_t code, uint64_t at, uint16_t bytes) {
    if (code == kIfTimeResolution && bytes >= 1) interface.resolution = file_[at];
    if (code == kIfTimeOffset && bytes >= 8) {
      const uint64_t halves[2] = {u32(at), u32(at + 4)};
      interface.offset_seconds =
          static_cast<int64_t>(swapped_ ? (halves[0] << 32 | halves[1]) : (halves[1] << 32 | halves[0]));
    }
  });
  if (fine) interfaces_.push_back(interface);
  return fine;
}

bool CaptureReader::on_statistics(const Block& block) {
  if (!block.holds(block.body, 12)) return fail(block.begin, "interface statistics that are too short");
  const uint32_t index = u32(block.body);
  if (index >= interfaces_.size()) return fail(block.body, "statistics of an interface that was not described");
  uint64_t lost = 0;
  const bool fine = for_each_option(block, block.body + 12, [&](uint16_t code, uint64_t at, uint16_t bytes) {
    if ((code != kIsbInterfaceDrop && code != kIsbSystemDrop) || bytes < 8) return;
    const uint64_t halves[2] = {u32(at), u32(at + 4)};
    lost += swapped_ ? (halves[0] << 32 | halves[1]) : (halves[1] << 32 | halves[0]);
  });
  // Statistics are totals: a later block of the same interface replaces the earlier one.
  Interface& interface = interfaces_[index];
  lost_frames_ += lost - std::min(lost, interface.lost_frames);
  interface.lost_frames = std::max(lost, interface.lost_frames);
  return fine;
}

Instant CaptureReader::time_of(const Interface& interface, uint64_t ticks) const {
  const Wide ns =
      nanoseconds_of(ticks, interface.resolution) + static_cast<Wide>(interface.offset_seconds) * 1'000'000'000;
  constexpr Wide kMax = std::numeric_limits<int64_t>::max() / 2;
  return {static_cast<int64_t>(std::clamp(ns, -kMax, kMax))};
}

bool CaptureReader::set_packet(const Block& block, uint32_t interface, uint64_t data_at, uint32_t captured,
                               uint32_t original, Frame& frame) {
  if (interface >= interfaces_.size()) {
    return fail(block.begin, "a packet of interface " + std::to_string(interface) + ", which was not described");
  }
  if (!block.holds(data_at, captured)) return fail(block.begin, "a packet that is longer than its block");
  frame = Frame{};
  frame.bytes = file_.subspan(data_at, captured);
  frame.original_bytes = std::max(captured, original);
  frame.link = interfaces_[interface].link;
  frame.interface = interface;
  frame.file_offset = block.begin;
  return true;
}

bool CaptureReader::on_enhanced_packet(const Block& block, Frame& frame) {
  if (!block.holds(block.body, 20)) return fail(block.begin, "a packet block that is too short");
  const uint32_t interface = u32(block.body);
  const uint32_t captured = u32(block.body + 12);
  if (!set_packet(block, interface, block.body + 20, captured, u32(block.body + 16), frame)) return false;
  frame.time = time_of(interfaces_[interface], uint64_t{u32(block.body + 4)} << 32 | u32(block.body + 8));
  frame.has_time = true;
  return for_each_option(block, block.body + 20 + padded(captured), [&](uint16_t code, uint64_t at, uint16_t bytes) {
    if (code != kEpbFlags || bytes < 4) return;
    const uint32_t direction = u32(at) & 3;
    if (direction == 1) frame.direction = FrameDirection::kReceived;
    if (direction == 2) frame.direction = FrameDirection::kSent;
  });
}

bool CaptureReader::on_simple_packet(const Block& block, Frame& frame) {
  if (!block.holds(block.body, 4)) return fail(block.begin, "a packet block that is too short");
  const uint32_t original = u32(block.body);
  const uint32_t snap_bytes = interfaces_.empty() ? 0 : interfaces_[0].snap_bytes;
  const uint32_t captured = snap_bytes == 0 ? original : std::min(original, snap_bytes);
  return set_packet(block, 0, block.body + 4, captured, original, frame);
}

bool CaptureReader::on_obsolete_packet(const Block& block, Frame& frame) {
  if (!block.holds(block.body, 20)) return fail(block.begin, "a packet block that is too short");
  const uint32_t interface = u16(block.body);
  if (!set_packet(block, interface, block.body + 20, u32(block.body + 12), u32(block.body + 16), frame)) return false;
  frame.time = time_of(interfaces_[interface], uint64_t{u32(block.body + 4)} << 32 | u32(block.body + 8));
  frame.has_time = true;
  return true;
}

}  // namespace uroce::pcap
