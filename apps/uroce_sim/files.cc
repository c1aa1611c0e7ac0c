#include "files.h"

#include <cstdarg>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace uroce::simulate {

namespace {

// Block types and options of the pcapng format; words are in this machine's byte order.
constexpr uint32_t kSectionHeader = 0x0A0D0D0A;
constexpr uint32_t kByteOrderMagic = 0x1A2B3C4D;
constexpr uint32_t kInterface = 1;
constexpr uint32_t kEnhancedPacket = 6;
constexpr uint16_t kIfName = 2;
constexpr uint16_t kIfTimestampResolution = 9;
constexpr uint16_t kPacketFlags = 2;
constexpr uint32_t kLinkEthernet = 1;

constexpr size_t padded(size_t bytes) { return (bytes + 3) & ~size_t{3}; }

}  // namespace

OutputFile::~OutputFile() { close(); }

bool OutputFile::open(const std::string& path) {
  file_ = std::fopen(path.c_str(), "w");
  return file_ != nullptr;
}

void OutputFile::print(const char* format, ...) {
  if (file_ == nullptr) return;
  va_list arguments;
  va_start(arguments, format);
  good_ &= std::vfprintf(file_, format, arguments) >= 0;
  va_end(arguments);
}

void OutputFile::write(std::span<const uint8_t> bytes) {
  if (file_ != nullptr) good_ &= std::fwrite(bytes.data(), 1, bytes.size(), file_) == bytes.size();
}

bool OutputFile::close() {
  if (file_ != nullptr) good_ &= std::fclose(file_) == 0;
  file_ = nullptr;
  return good_;
}

void PcapngFile::put(const void* data, size_t bytes) {
  const auto* begin = static_cast<const uint8_t*>(data);
  block_.insert(block_.end(), begin, begin + bytes);
  block_.resize(padded(block_.size()));
}

void PcapngFile::put_option(uint16_t code, const void* data, size_t bytes) {
  const uint16_t head[2] = {code, static_cast<uint16_t>(bytes)};
  put(head, sizeof head);
  put(data, bytes);
}

bool PcapngFile::open(const std::string& path, const std::string& interface_name) {
  if (!file_.open(path)) return false;
  block_.clear();
  for (const uint32_t word : {kSectionHeader, 28u, kByteOrderMagic, 1u, 0xFFFFFFFFu, 0xFFFFFFFFu, 28u}) put_u32(word);
  const uint8_t nanoseconds = 9;
  const auto bytes = static_cast<uint32_t>(16 + 4 + padded(interface_name.size()) + 4 + 4 + 4 + 4);
  for (const uint32_t word : {kInterface, bytes, kLinkEthernet, 0u}) put_u32(word);
  put_option(kIfName, interface_name.data(), interface_name.size());
  put_option(kIfTimestampResolution, &nanoseconds, sizeof nanoseconds);
  put_u32(0);  // end of options
  put_u32(bytes);
  file_.write(block_);
  return true;
}

void PcapngFile::add(Instant now, bool inbound, std::span<const uint8_t> frame) {
  const auto bytes = static_cast<uint32_t>(28 + padded(frame.size()) + 8 + 4 + 4);
  const auto length = static_cast<uint32_t>(frame.size());
  const auto time = static_cast<uint64_t>(now.ns);
  const uint32_t flags = inbound ? 1 : 2;
  block_.clear();
  for (const uint32_t word :
       {kEnhancedPacket, bytes, 0u, static_cast<uint32_t>(time >> 32), static_cast<uint32_t>(time), length, length}) {
    put_u32(word);
  }
  put(frame.data(), frame.size());
  put_option(kPacketFlags, &flags, sizeof flags);
  put_u32(0);
  put_u32(bytes);
  file_.write(block_);
}

bool read_file(const std::string& path, std::string& text) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  std::ostringstream all;
  all << file.rdbuf();
  text = all.str();
  return !file.bad();
}

bool make_directory(const std::string& path) {
  std::error_code failed;
  std::filesystem::create_directories(path, failed);
  return !failed && std::filesystem::is_directory(path, failed);
}

}  // namespace uroce::simulate
