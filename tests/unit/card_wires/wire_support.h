// What the tests of wires share.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "pmd/card/wire.h"
#include "pmd/card/wires/frame_ring.h"
#include "pmd/card/wires/make_wire.h"

namespace mqnic::card {

using Frame = std::vector<uint8_t>;

/// A frame whose bytes depend on `number`.
inline Frame numbered_frame(uint32_t number, size_t bytes) {
  Frame frame(bytes);
  for (size_t i = 0; i < bytes; i++) frame[i] = static_cast<uint8_t>(number * 131 + i * 7);
  for (size_t i = 0; i < 4 && i < bytes; i++) frame[i] = static_cast<uint8_t>(number >> (8 * i));
  return frame;
}

inline uint32_t number_of(const Frame& frame) {
  uint32_t number = 0;
  for (size_t i = 0; i < 4 && i < frame.size(); i++) number |= uint32_t{frame[i]} << (8 * i);
  return number;
}

inline bool put(Wire& wire, const Frame& frame) {
  const std::span<uint8_t> room = wire.reserve(frame.size());
  if (room.empty()) return false;
  EXPECT_GE(room.size(), frame.size());
  std::copy(frame.begin(), frame.end(), room.begin());
  wire.commit(frame.size());
  return true;
}

/// Empty when nothing has arrived.
inline Frame take(Wire& wire) {
  const std::span<const uint8_t> front = wire.front();
  Frame frame(front.begin(), front.end());
  if (!frame.empty()) wire.pop();
  return frame;
}

inline std::unique_ptr<Wire> must_make(const std::string& text, const WireKnobs& knobs = {}) {
  std::string error;
  std::unique_ptr<Wire> wire = make_wire(text, knobs, error);
  EXPECT_NE(wire, nullptr) << error;
  return wire;
}

inline std::string refusal(const std::string& text) {
  std::string error;
  EXPECT_EQ(make_wire(text, {}, error), nullptr) << text;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  return error;
}

/// A runtime directory of the test's own, removed with it.
class RuntimeDirectory {
 public:
  RuntimeDirectory() {
    char name[] = "/dev/shm/card_wires.XXXXXX";
    path_ = mkdtemp(name);
    setenv("UROCE_RUNTIME_DIR", path_.c_str(), 1);
  }
  ~RuntimeDirectory() {
    unsetenv("UROCE_RUNTIME_DIR");
    std::filesystem::remove_all(path_);
  }
  RuntimeDirectory(const RuntimeDirectory&) = delete;
  RuntimeDirectory& operator=(const RuntimeDirectory&) = delete;
  const std::string& path() const { return path_; }
  bool empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::string path_;
};

}  // namespace mqnic::card
