// Reads a capture file, as the tests need it: classic pcap, little endian, Ethernet.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace uroce::test {

struct CapturedFrame {
  int64_t time_us = 0;
  std::vector<uint8_t> bytes;
};

/// Throws std::runtime_error when the file is missing or incomplete.
inline std::vector<CapturedFrame> read_pcap(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> data((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto word = [&](size_t at) {
    uint32_t v = 0;
    if (at + 4 > data.size()) throw std::runtime_error(path + ": cut short");
    std::memcpy(&v, data.data() + at, 4);
    return v;
  };
  if (!file.is_open() || word(0) != 0xa1b2c3d4 || word(20) != 1) {
    throw std::runtime_error(path + ": not a little-endian Ethernet pcap");
  }
  std::vector<CapturedFrame> frames;
  for (size_t at = 24; at < data.size();) {
    CapturedFrame frame;
    frame.time_us = int64_t{word(at)} * 1000000 + word(at + 4);
    const size_t bytes = word(at + 8);
    if (bytes != word(at + 12) || bytes > data.size() - at - 16) throw std::runtime_error(path + ": cut short");
    const auto begin = data.begin() + static_cast<std::ptrdiff_t>(at + 16);
    frame.bytes.assign(begin, begin + static_cast<std::ptrdiff_t>(bytes));
    frames.push_back(std::move(frame));
    at += 16 + bytes;
  }
  return frames;
}

}  // namespace uroce::test
