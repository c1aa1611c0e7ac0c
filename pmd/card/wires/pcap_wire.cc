#include "pmd/card/wires/pcap_wire.h"

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "pmd/card/wires/frame_ring.h"

namespace mqnic::card {
namespace {

constexpr uint32_t kMagicUs = 0xa1b2c3d4;
constexpr uint32_t kMagicNs = 0xa1b23c4d;
constexpr uint32_t kEthernet = 1;
constexpr uint32_t kRecordBytesMax = 1u << 18;  // the longest record that other tools accept

struct FileHeader {
  uint32_t magic = kMagicNs;
  uint16_t major = 2, minor = 4;
  uint32_t zone = 0, accuracy = 0;
  uint32_t snap_bytes = kRecordBytesMax;
  uint32_t link_type = kEthernet;
};
static_assert(sizeof(FileHeader) == 24);

struct RecordHeader {
  uint32_t seconds, fraction;
  uint32_t bytes, original_bytes;
};
static_assert(sizeof(RecordHeader) == 16);

}  // namespace

PcapWire::PcapWire() : played_(kRecordBytesMax), sent_(kFrameBytesMax) {}

std::unique_ptr<Wire> PcapWire::open(const std::string& argument, std::string& error) {
  const size_t colon = argument.find(':');
  const std::string in = argument.substr(0, colon);
  const std::string out = colon == std::string::npos ? "" : argument.substr(colon + 1);
  if (in.empty() && out.empty()) {
    error = "wire pcap: give a file to play, a file to record, or both: pcap:IN, pcap::OUT, pcap:IN:OUT";
    return nullptr;
  }
  std::unique_ptr<PcapWire> wire(new PcapWire());
  if (!in.empty() && !wire->open_input(in, error)) return nullptr;
  if (!out.empty() && !wire->open_output(out, error)) return nullptr;
  return wire;
}

uint32_t PcapWire::word(const uint8_t* at) const {
  uint32_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return swapped_ ? __builtin_bswap32(value) : value;
}

bool PcapWire::open_input(const std::string& path, std::string& error) {
  input_.reset(std::fopen(path.c_str(), "rbe"));
  if (input_ == nullptr) {
    error = "cannot read " + path + ": " + std::strerror(errno);
    return false;
  }
  uint8_t header[sizeof(FileHeader)] = {};
  const bool whole = std::fread(header, sizeof header, 1, input_.get()) == 1;
  const auto known = [&] { return word(header) == kMagicUs || word(header) == kMagicNs; };
  if (!known()) swapped_ = true;
  if (!whole || !known()) {
    error = path + " is no classic pcap file: convert it with `editcap -F pcap`";
    return false;
  }
  if ((word(header + 20) & 0xffff) != kEthernet) {
    error = path + " does not hold Ethernet frames";
    return false;
  }
  return true;
}

bool PcapWire::open_output(const std::string& path, std::string& error) {
  output_.reset(std::fopen(path.c_str(), "wbe"));
  const FileHeader header;
  if (output_ == nullptr || std::fwrite(&header, sizeof header, 1, output_.get()) != 1) {
    error = "cannot write " + path + ": " + std::strerror(errno);
    return false;
  }
  written_ = true;
  return true;
}

bool PcapWire::read_record() {
  uint8_t header[sizeof(RecordHeader)];
  const size_t got = std::fread(header, 1, sizeof header, input_.get());
  if (got == 0) return false;
  const uint32_t bytes = got == sizeof header ? word(header + 8) : 0;
  if (got != sizeof header || bytes > kRecordBytesMax || std::fread(played_.data(), 1, bytes, input_.get()) != bytes) {
    trouble_ = "the file that is played is damaged, or cut off";
    return false;
  }
  played_bytes_ = bytes;
  return true;
}

std::span<const uint8_t> PcapWire::front() {
  if (!receiving_) return {};
  while (played_bytes_ == 0 && input_ != nullptr) {
    if (!read_record()) input_.reset();
    if (played_bytes_ > kFrameBytesMax) played_bytes_ = 0;  // too long for a card, so it is skipped
  }
  return {played_.data(), played_bytes_};
}

std::span<uint8_t> PcapWire::reserve(size_t bytes) {
  if (bytes > sent_.size()) return {};
  return {sent_.data(), bytes};
}

void PcapWire::commit(size_t bytes) {
  if (output_ == nullptr) return;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const auto length = static_cast<uint32_t>(bytes);
  const RecordHeader header{static_cast<uint32_t>(now.tv_sec), static_cast<uint32_t>(now.tv_nsec), length, length};
  if (std::fwrite(&header, sizeof header, 1, output_.get()) != 1 ||
      std::fwrite(sent_.data(), 1, bytes, output_.get()) != bytes) {
    trouble_ = std::string("the recording has ended: ") + std::strerror(errno);
    output_.reset();
  }
  written_ = true;
}

void PcapWire::flush(uint64_t) {
  // Flushed, so that the file is complete even when the program is killed.
  if (written_ && output_ != nullptr) std::fflush(output_.get());
  written_ = false;
}

}  // namespace mqnic::card
