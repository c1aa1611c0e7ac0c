// Everything an endpoint sends and receives, as a pcapng file that Wireshark reads, also while the program runs.
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
  /// "%p" in `path` becomes the process id. nullptr and one line in `error` when the file cannot be made.
  /// `wall_offset_ns`: what to add to an Instant for the time of day.
  static std::unique_ptr<PcapngWriter> create(const std::string& path, const std::string& interface_name,
                                              int64_t wall_offset_ns, std::string& error);
  ~PcapngWriter() override;

  /// By the engine's owner.
  void on_frame(Direction direction, Instant now, std::span<const uint8_t> frame) override {
    on_frame_at(0, direction, now, frame);
  }

  /// One more interface in the file; its number, for `on_frame_at`. The one given to `create` is 0.
  uint32_t add_interface(const std::string& name);
  void on_frame_at(uint32_t interface, Direction direction, Instant now, std::span<const uint8_t> frame);

  /// By the engine's owner: sets aside what was captured.
  void begin_flush();
  /// By whoever called `begin_flush`, without owning the engine: writes what was set aside.
  void finish_flush();

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
  std::mutex writing_mutex_;  // file order: taken by whoever writes
  std::vector<uint8_t> writing_;
};

}  // namespace uroce
