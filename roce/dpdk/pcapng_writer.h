// Writes all frames that an endpoint sends and receives to a pcapng file, which Wireshark can read even while the
// program runs.
//
// `on_frame` copies into a buffer; the background thread writes it out every 100 ms, so a killed program loses no more
// than that.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/capture.h"

namespace uroce {

class PcapngWriter final : public Capture {
 public:
  /// "%p" in `path` becomes the process id. Returns nullptr, with one line in `error`, when the file cannot be made, or
  /// has a writer already.
  /// `wall_offset_ns` is added to an Instant to get the time of day.
  static std::unique_ptr<PcapngWriter> create(const std::string& path, const std::string& interface_name,
                                              int64_t wall_offset_ns, std::string& error);
  ~PcapngWriter() override;

  /// To be called by the engine's owner.
  void on_frame(Direction direction, Instant now, std::span<const uint8_t> frame) override {
    on_frame_at(0, direction, now, frame);
  }

  /// Adds another interface to the file, and returns its number for `on_frame_at`. The one given to `create` is number
  /// 0.
  uint32_t add_interface(const std::string& name);
  void on_frame_at(uint32_t interface, Direction direction, Instant now, std::span<const uint8_t> frame);

  /// To be called by the engine's owner: sets aside the captured frames.
  void begin_flush();
  /// To be called by the thread that called `begin_flush`, without owning the engine: writes what was set aside.
  void finish_flush();

  /// In the child of a fork: gives up the file, which belongs to the parent.
  void abandon();

  const std::string& path() const { return path_; }

 private:
  PcapngWriter(int fd, std::string path, int64_t wall_offset_ns);
  void write_out(std::vector<uint8_t>& bytes);

  static constexpr size_t kBufferBytes = 4 << 20;

  int fd_;
  std::string path_;
  int64_t wall_offset_ns_;
  bool failed_ = false;
  uint32_t interfaces_ = 0;
  std::vector<uint8_t> active_;
  std::mutex writing_mutex_;  // keeps the order in the file: held while writing
  std::vector<uint8_t> writing_;
};

}  // namespace uroce
