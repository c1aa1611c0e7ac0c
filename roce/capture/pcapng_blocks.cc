#include "capture/pcapng_blocks.h"

#include <algorithm>
#include <initializer_list>

#include "capture/pcapng_format.h"

namespace uroce::capture {

using namespace pcapng;

namespace {

constexpr std::string_view kApplication = "uroce";
constexpr uint32_t kEthernet = 1;
constexpr uint8_t kNanoseconds = 9;  // digits behind the point
constexpr uint32_t kEndOfOptions = 0;

constexpr size_t option_bytes(size_t bytes) { return 4 + padded(bytes); }
/// The size of an option that is left out when it would be empty.
constexpr size_t text_bytes(size_t bytes) { return bytes == 0 ? 0 : option_bytes(bytes); }

void put(std::vector<uint8_t>& to, const void* data, size_t bytes) {
  const auto* begin = static_cast<const uint8_t*>(data);
  to.insert(to.end(), begin, begin + bytes);
  to.resize(to.size() + padded(bytes) - bytes);
}

void put_words(std::vector<uint8_t>& to, std::initializer_list<uint32_t> words) {
  put(to, words.begin(), words.size() * sizeof(uint32_t));
}

void put_option(std::vector<uint8_t>& to, uint16_t code, const void* data, size_t bytes) {
  const uint16_t head[2] = {code, static_cast<uint16_t>(bytes)};
  put(to, head, sizeof head);
  put(to, data, bytes);
}

void put_text(std::vector<uint8_t>& to, uint16_t code, std::string_view text) {
  if (!text.empty()) put_option(to, code, text.data(), text.size());
}

}  // namespace

void append_section(std::vector<uint8_t>& bytes) {
  const auto block = static_cast<uint32_t>(28 + option_bytes(kApplication.size()) + 4);
  // Version 1.0, with the major number in the low half; the 64-bit length of the section is given as unknown.
  put_words(bytes, {pcapng::kSectionHeader, block, pcapng::kByteOrderMagic, 1, UINT32_MAX, UINT32_MAX});
  put_option(bytes, pcapng::kSectionApplication, kApplication.data(), kApplication.size());
  put_words(bytes, {kEndOfOptions, block});
}

void append_interface(std::vector<uint8_t>& bytes, std::string_view name, std::string_view description) {
  const auto block = static_cast<uint32_t>(20 + option_bytes(name.size()) + text_bytes(description.size()) +
                                           option_bytes(sizeof kNanoseconds) + 4);
  put_words(bytes, {pcapng::kInterfaceDescription, block, kEthernet, 0});  // no limit on the length of a frame
  put_option(bytes, pcapng::kIfName, name.data(), name.size());
  put_text(bytes, pcapng::kIfDescription, description);
  put_option(bytes, pcapng::kIfTimeResolution, &kNanoseconds, sizeof kNanoseconds);
  put_words(bytes, {kEndOfOptions, block});
}

size_t packet_block_bytes(size_t frame_bytes, size_t comment_bytes) {
  return 32 + padded(frame_bytes) + option_bytes(4) + text_bytes(comment_bytes) + 4;
}

void append_packet(std::vector<uint8_t>& bytes, const PcapngPacket& packet) {
  const auto block = static_cast<uint32_t>(packet_block_bytes(packet.frame.size(), packet.comment.size()));
  const auto time = static_cast<uint64_t>(packet.time.ns);
  const auto length = static_cast<uint32_t>(packet.frame.size());
  const uint32_t original = std::max(length, packet.original_bytes);
  const uint32_t flags = packet.inbound ? pcapng::kInbound : pcapng::kOutbound;
  put_words(bytes, {pcapng::kEnhancedPacket, block, packet.interface, static_cast<uint32_t>(time >> 32),
                    static_cast<uint32_t>(time), length, original});
  put(bytes, packet.frame.data(), packet.frame.size());
  put_option(bytes, pcapng::kEpbFlags, &flags, sizeof flags);
  put_text(bytes, pcapng::kOptionComment, packet.comment);
  put_words(bytes, {kEndOfOptions, block});
}

void append_statistics(std::vector<uint8_t>& bytes, const PcapngStatistics& statistics) {
  const auto block = static_cast<uint32_t>(20 + 2 * option_bytes(sizeof(uint64_t)) + 4 + 4);
  const auto time = static_cast<uint64_t>(statistics.time.ns);
  put_words(bytes, {pcapng::kInterfaceStatistics, block, statistics.interface, static_cast<uint32_t>(time >> 32),
                    static_cast<uint32_t>(time)});
  put_option(bytes, pcapng::kIsbInterfaceReceived, &statistics.received, sizeof statistics.received);
  put_option(bytes, pcapng::kIsbInterfaceDrop, &statistics.dropped, sizeof statistics.dropped);
  put_words(bytes, {kEndOfOptions, block});
}

}  // namespace uroce::capture
