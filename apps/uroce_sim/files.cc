#include "files.h"

#include <cstdarg>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "capture/pcapng_blocks.h"

namespace uroce::simulate {

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

bool PcapngFile::open(const std::string& path, const std::string& interface_name) {
  if (!file_.open(path)) return false;
  blocks_.clear();
  capture::append_section(blocks_);
  capture::append_interface(blocks_, interface_name);
  file_.write(blocks_);
  return true;
}

void PcapngFile::add(Instant now, bool inbound, std::span<const uint8_t> frame) {
  blocks_.clear();
  capture::append_packet(blocks_, {.time = now, .inbound = inbound, .frame = frame});
  file_.write(blocks_);
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
