#include "capture/pcapng_blocks.h"

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

}  // namespace

void append_section(std::vector<uint8_t>& bytes) {
  const auto block = static_cast<uint32_t>(28 + option_bytes(kApplication.size()) + 4);
  // Version 1.0, with the major number in the low half; the 64-bit length of the section is given as unknown.
  put_words(bytes, {pcapng::kSectionHeader, block, pcapng::kByteOrderMagic, 1, UINT32_MAX, UINT32_MAX});
  put_option(bytes, pcapng::kSectionApplication, kApplication.data(), kApplication.size());
  put_words(bytes, {kEndOfOptions, block});
}

void append_interface(std::vector<uint8_t>& bytes, std::string_view name) {
  const auto block = static_cast<uint32_t>(20 + option_bytes(name.size()) + option_bytes(sizeof kNanoseconds) + 4);
  put_words(bytes, {pcapng::kInterfaceDescription, block, kEthernet, 0});  // no limit on the length of a frame
  put_option(bytes, pcapng::kIfName, name.data(), name.size());
  put_option(bytes, pcapng::kIfTimeResolution, &kNanoseconds, sizeof kNanoseconds);
  put_words(bytes, {kEndOfOptions, block});
}

size_t packet_block_bytes(size_t frame_bytes) { return 32 + padded(frame_bytes) + option_bytes(4) + 4; }

void append_packet(std::vector<uint8_t>& bytes, const PcapngPacket& packet) {
  const auto block = static_cast<uint32_t>(packet_block_bytes(packet.frame.size()));
  const auto time = static_cast<uint64_t>(packet.time.ns);
  const auto length = static_cast<uint32_t>(packet.frame.size());
  const uint32_t flags = packet.inbound ? pcapng::kInbound : pcapng::kOutbound;
  put_words(bytes, {pcapng::kEnhancedPacket, block, packet.interface, static_cast<uint32_t>(time >> 32),
                    static_cast<uint32_t>(time), length, length});
  put(bytes, packet.frame.data(), packet.frame.size());
  put_option(bytes, pcapng::kEpbFlags, &flags, sizeof flags);
  put_words(bytes, {kEndOfOptions, block});
}

}  // namespace uroce::capture
