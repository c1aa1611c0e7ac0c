#include "pcap/reader.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/big_endian.h"
#include "capture/pcapng_format.h"

namespace uroce::pcap {
namespace {

constexpr uint32_t kPcapMicroseconds = 0xA1B2C3D4;
constexpr uint32_t kPcapNanoseconds = 0xA1B23C4D;
constexpr uint64_t kPcapHeaderBytes = 24;
constexpr uint64_t kPcapRecordBytes = 16;

/// Linux' cooked headers say by packet type 4 that the host sent the frame.
FrameDirection cooked_direction(LinkType link, std::span<const uint8_t> bytes) {
  unsigned type = 0;
  if (link == LinkType::kLinuxSll && bytes.size() >= 2) {
    type = load_be16(bytes.data());
  } else if (link == LinkType::kLinuxSll2 && bytes.size() >= 11) {
    type = bytes[10];
  } else {
    return FrameDirection::kUnknown;
  }
  return type == 4 ? FrameDirection::kSent : FrameDirection::kReceived;
}

}  // namespace

uint16_t CaptureReader::u16(uint64_t at) const {
  uint16_t v;
  std::memcpy(&v, file_.data() + at, sizeof v);
  return swapped_ ? __builtin_bswap16(v) : v;
}

uint32_t CaptureReader::u32(uint64_t at) const {
  uint32_t v;
  std::memcpy(&v, file_.data() + at, sizeof v);
  return swapped_ ? __builtin_bswap32(v) : v;
}

bool CaptureReader::fail(uint64_t offset, std::string text) {
  if (!error_) error_ = CaptureError{offset, std::move(text)};
  return false;
}

CaptureReader::CaptureReader(std::span<const uint8_t> file) : file_(file) {
  if (file_.size() < 4) {
    fail(file_.size(), file_.empty() ? "the file is empty" : "the file ends within its first four bytes");
    return;
  }
  const uint32_t magic = u32(0);
  if (magic == capture::pcapng::kSectionHeader) {
    kind_ = FileKind::kPcapng;
    return;
  }
  swapped_ = magic == __builtin_bswap32(kPcapMicroseconds) || magic == __builtin_bswap32(kPcapNanoseconds);
  begin_pcap(u32(0));
}

void CaptureReader::begin_pcap(uint32_t magic) {
  if (magic != kPcapMicroseconds && magic != kPcapNanoseconds) {
    fail(0, "neither pcap nor pcapng: the first bytes are those of no capture file");
    return;
  }
  kind_ = FileKind::kPcap;
  nanoseconds_ = magic == kPcapNanoseconds;
  if (file_.size() < kPcapHeaderBytes) {
    fail(file_.size(), "the file ends within the pcap header of 24 bytes");
    return;
  }
  if (u16(4) != 2) {
    fail(4, "pcap version " + std::to_string(u16(4)) + "." + std::to_string(u16(6)) + "; only version 2 is known");
    return;
  }
  pcap_link_ = static_cast<LinkType>(u32(20));  // the upper half says how long the frame check sequence is
  at_ = kPcapHeaderBytes;
}

bool CaptureReader::next(Frame& frame) {
  if (error_) return false;
  const bool found = kind_ == FileKind::kPcap ? next_pcap(frame) : next_pcapng(frame);
  if (!found) return false;
  frame.number = ++frames_;
  if (frame.direction == FrameDirection::kUnknown) frame.direction = cooked_direction(frame.link, frame.bytes);
  return true;
}

bool CaptureReader::next_pcap(Frame& frame) {
  if (left() == 0) return false;
  if (left() < kPcapRecordBytes) {
    return fail(at_, "the file ends within a packet record's header (" + std::to_string(left()) + " of 16 bytes)");
  }
  const uint32_t captured = u32(at_ + 8);
  if (captured > left() - kPcapRecordBytes) {
    return fail(at_, "a packet record of " + std::to_string(captured) + " bytes; the file has only " +
                         std::to_string(left() - kPcapRecordBytes) + " more");
  }
  frame = Frame{};
  frame.time = {int64_t{u32(at_)} * 1'000'000'000 + int64_t{u32(at_ + 4)} * (nanoseconds_ ? 1 : 1000)};
  frame.has_time = true;
  frame.bytes = file_.subspan(at_ + kPcapRecordBytes, captured);
  frame.original_bytes = std::max(captured, u32(at_ + 12));
  frame.link = pcap_link_;
  frame.file_offset = at_;
  at_ += kPcapRecordBytes + captured;
  return true;
}

}  // namespace uroce::pcap
