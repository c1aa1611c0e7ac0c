// A UD queue pair for pings and answers, with receives that are posted again as soon as they have been looked at. For
// one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "message.h"
#include "owned.h"

namespace uroce::ping {

using Clock = std::chrono::steady_clock;

/// Where datagrams go.
struct Peer {
  ibv_ah* ah = nullptr;
  uint32_t qpn = 0;
  uint32_t qkey = 0;
};

class DatagramQp {
 public:
  /// Of a device's port. Null, with one line in `error`, when it cannot be made.
  static std::unique_ptr<DatagramQp> create(ibv_context* device, uint8_t port, std::string& error);

  uint32_t qpn() const { return qp_->qp_num; }
  ibv_pd* pd() const { return pd_.get(); }
  /// Bytes of the longest datagram: the MTU of the port.
  uint32_t longest() const { return longest_; }
  /// Can be waited for: readable when a datagram comes while nobody is in `next`.
  int fd() const { return channel_->fd; }

  /// Sends a datagram of that many bytes, which begins with the message; the others are zero. False, with one line in
  /// `error`, when the device did not send it.
  bool send(const Message& message, uint32_t bytes, const Peer& to, std::string& error);

  struct Arrival {
    Message message;
    uint32_t bytes = 0;         // of the datagram
    uint8_t traffic_class = 0;  // with which it came
    AddressHandle sender;       // with the traffic class that it had; none if the device cannot say where it is from
    uint32_t sender_qpn = 0;
  };
  /// The next ping or answer, as soon as it is there; nothing when it is `deadline`.
  std::optional<Arrival> next(Clock::time_point deadline);

 private:
  DatagramQp() = default;
  bool open(ibv_context* device, uint8_t port, std::string& error);
  bool to_ready_to_send(uint8_t port, std::string& error);
  bool post_receive(uint64_t index);
  std::optional<Arrival> take(ibv_wc& completion);
  /// Sleeps until there is a completion. False at `deadline`.
  bool wait(Clock::time_point deadline);

  uint8_t port_ = 0;
  uint32_t longest_ = 0;
  std::vector<uint8_t> memory_;  // the receives, and behind them what is sent
  Pd pd_;
  Region region_;
  CompletionChannel channel_;
  Cq receive_cq_;
  Cq send_cq_;
  Qp qp_;
};

}  // namespace uroce::ping
