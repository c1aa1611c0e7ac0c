// Reads capture files: classic pcap and pcapng, in both byte orders, as tcpdump, Wireshark and uroce write them.
//
// The caller provides the whole file in memory (or mapped); frames are views into it, and are valid as long as it is.
// Nothing is copied and nothing outside the given bytes is ever read, whatever they say.
//
//   CaptureReader reader(bytes);
//   for (Frame frame; reader.next(frame);) ...
//   if (reader.error()) ...   // damaged or cut short; every frame before the damage was returned
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pcap/frame.h"

namespace uroce::pcap {

struct CaptureError {
  uint64_t offset = 0;  // position in the file
  std::string text;     // without the position, which the caller adds ("byte 1234: ...")
};

enum class FileKind : uint8_t { kUnknown, kPcap, kPcapng };

class CaptureReader {
 public:
  explicit CaptureReader(std::span<const uint8_t> file);

  /// False at the end of the file and at damage; `error()` tells which.
  bool next(Frame& frame);

  const std::optional<CaptureError>& error() const { return error_; }
  FileKind kind() const { return kind_; }
  /// Frames that the capturing program says it lost (pcapng only).
  uint64_t lost_frames() const { return lost_frames_; }

 private:
  struct Interface {
    LinkType link = LinkType::kEthernet;
    uint32_t snap_bytes = 0;  // 0: no limit
    uint8_t resolution = 6;   // as the file has it: power of ten, or of two with the top bit
    int64_t offset_seconds = 0;
    uint64_t lost_frames = 0;
  };
  struct Block;

  bool fail(uint64_t offset, std::string text);
  uint16_t u16(uint64_t at) const;
  uint32_t u32(uint64_t at) const;
  uint64_t left() const { return file_.size() - at_; }

  void begin_pcap(uint32_t magic);
  bool next_pcap(Frame& frame);

  bool next_block(Block& block);
  bool begin_section(Block& block);
  bool next_pcapng(Frame& frame);
  bool on_interface(const Block& block);
  bool on_statistics(const Block& block);
  bool on_enhanced_packet(const Block& block, Frame& frame);
  bool on_simple_packet(const Block& block, Frame& frame);
  bool on_obsolete_packet(const Block& block, Frame& frame);
  bool set_packet(const Block& block, uint32_t interface, uint64_t data_at, uint32_t captured, uint32_t original,
                  Frame& frame);
  Instant time_of(const Interface& interface, uint64_t ticks) const;
  template <typename OnOption>
  bool for_each_option(const Block& block, uint64_t at, OnOption&& on_option);

  std::span<const uint8_t> file_;
  uint64_t at_ = 0;
  FileKind kind_ = FileKind::kUnknown;
  bool swapped_ = false;
  bool nanoseconds_ = false;                  // pcap
  LinkType pcap_link_ = LinkType::kEthernet;  // pcap
  std::vector<Interface> interfaces_;         // pcapng, of the current section
  uint64_t frames_ = 0;
  uint64_t lost_frames_ = 0;
  std::optional<CaptureError> error_;
};

}  // namespace uroce::pcap
