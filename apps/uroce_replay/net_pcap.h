// The player's port as a DPDK port with the driver net_pcap: delivered frames are written to the file from which
// the port receives, and what the engine sends is read back from the file that the port writes.
//
// net_pcap reads its file when it is asked for frames, so the file may grow while it is in use: a frame is appended,
// and the port is then asked for this one frame. Time is still that of the player.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "dpdk/dpdk_port.h"
#include "replay/player_port.h"

namespace uroce::replay_app {

/// Starts DPDK, which runs as long as this object exists.
class Eal {
 public:
  Eal(int argc, char** argv);
  ~Eal();
  Eal(const Eal&) = delete;
  Eal& operator=(const Eal&) = delete;
  /// How many of the arguments were EAL's; negative when it did not start, which was reported in one line on stderr.
  int used() const { return used_; }

 private:
  int used_;
};

/// Throws std::runtime_error when there is no such port, or when it loses a frame.
class NetPcap final : public replay::PlayerPort, private Port {
 public:
  /// Takes over a net_pcap port among EAL's arguments: `rx_pcap` is the capture, `tx_pcap` gets what is sent.
  NetPcap();
  /// The file from which the port was to receive according to EAL's arguments, or "".
  const std::string& capture() const { return capture_; }

  Port& port() override { return *this; }
  void deliver(std::span<const uint8_t> frame) override;
  void collect(std::deque<replay::Bytes>& sent) override;

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, CloseFile>;

  uint32_t receive(RxFrame* frames, uint32_t max) override;
  void release_rx(RxFrame* frames, uint32_t count) override { port_->release_rx(frames, count); }
  uint32_t acquire_tx(TxFrame* frames, uint32_t max) override { return port_->acquire_tx(frames, max); }
  void send(TxFrame* frames, uint32_t count) override;

  void take_over_port();
  void plug_in();

  std::string capture_;
  std::string rx_path_;
  std::string tx_path_;
  File rx_;
  File tx_;
  replay::Bytes read_;    // the header of the sent file, and what was not looked at yet
  uint32_t waiting_ = 0;  // frames that were delivered but not received yet
  uint64_t sent_ = 0;     // frames that were sent but not collected yet
  std::unique_ptr<DpdkPort> port_;
};

}  // namespace uroce::replay_app
