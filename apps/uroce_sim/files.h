// The files that uroce-sim reads and writes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "uroce/time.h"

namespace uroce::simulate {

/// A file to write to, which reports at the end whether everything was written.
class OutputFile {
 public:
  OutputFile() = default;
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  bool open(const std::string& path);
  __attribute__((format(printf, 2, 3))) void print(const char* format, ...);
  void write(std::span<const uint8_t> bytes);
  bool is_open() const { return file_ != nullptr; }
  /// False when something could not be written.
  bool close();

 private:
  std::FILE* file_ = nullptr;
  bool good_ = true;
};

/// Writes both directions of a cable to a pcapng file with one interface.
class PcapngFile {
 public:
  bool open(const std::string& path, const std::string& interface_name);
  void add(Instant now, bool inbound, std::span<const uint8_t> frame);
  bool close() { return file_.close(); }

 private:
  OutputFile file_;
  std::vector<uint8_t> blocks_;
};

bool read_file(const std::string& path, std::string& text);
/// Makes the directory if it does not exist. False when that fails.
bool make_directory(const std::string& path);

}  // namespace uroce::simulate
