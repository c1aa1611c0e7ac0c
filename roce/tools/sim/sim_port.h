// The engine's port in the simulator: a NIC. A queue of received frames, and either
//
//  - a small queue of frames to send in front of a link: as the wire drains, there is room again and the host is woken,
//    so that what the engine sends is paced by the wire and can be held back by pause frames; or
//  - anything that takes frames, at any rate: for tests that look at the engine alone.
//
// Priority flow control is done by the NIC, which holds back paused priorities, and pauses its neighbour when its
// receive queue exceeds a watermark; or the port does none, and then the engine sees the pause frames and asks for the
// backlog.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/ring.h"
#include "engine/priority_flow_control.h"
#include "packet/mac_control.h"
#include "sim/actor.h"
#include "sim/event_queue.h"
#include "sim/frame.h"
#include "sim/link.h"
#include "uroce/port.h"

namespace uroce::sim {

/// Is called when a frame has arrived, or when there is room to send again.
class Waker {
 public:
  virtual ~Waker() = default;
  virtual void wake() = 0;
};

struct NicConfig {
  uint32_t tx_frames = 0;    // in the queue, besides the one on the wire; 0: no queue, the port takes everything
  uint32_t tx_bytes = 8192;  // the queue takes no more when it holds so many
  bool obeys_pause = true;   // with a queue: pause frames hold back the frame at its head, by priority
  uint32_t rx_frames = 0;    // so many fit the receive queue, and further ones are lost; 0: no limit
  PfcConfig pfc{};           // with a queue: how it pauses its neighbour; without lossless priorities it does not
  MacAddress mac{};          // source of these pause frames
  std::optional<uint8_t> ack_dscp{};  // the DSCP of ACKs, if it is not that of data
};

struct NicCounters {
  uint64_t pauses_received = 0;  // frames that stop a priority
  uint64_t resumes_received = 0;
  uint64_t paused_ns = 0;    // how long the head of the queue was held back
  uint64_t rx_dropped = 0;   // the receive queue was full
  uint64_t rx_most = 0;      // the most frames that were in it
  uint64_t pauses_sent = 0;  // times that the NIC paused its neighbour, without the repetitions
};

class SimPort final : public Port, public FrameSink, public Actor<SimPort> {
 public:
  enum class Event : uint8_t {
    kWireFree,  // the wire can take the frame at the head of the queue
    kPauses,    // a pause of the neighbour is to be repeated or ended
  };

  SimPort(uint32_t max_frame_bytes, Waker& waker);

  /// Connects the port without a queue: it takes everything.
  void connect(FrameSink& to) { to_ = &to; }
  /// Connects the port to a link, as `config` says.
  void connect(EventQueue& events, Link& wire, const NicConfig& config);

  // Port
  uint32_t receive(RxFrame* frames, uint32_t max) override;
  void release_rx(RxFrame* frames, uint32_t count) override;
  /// A port without a queue of its own cannot tell.
  uint32_t rx_backlog() override { return wire_ != nullptr ? waiting() : kBacklogUnknown; }
  uint32_t acquire_tx(TxFrame* frames, uint32_t max) override;
  void send(TxFrame* frames, uint32_t count) override;

  // FrameSink
  void deliver(Frame&& frame) override;
  bool has_received() const { return first_ != received_.size(); }

  // Actor
  void on_event(Event event, Instant now);

  /// True when acquire_tx would give a buffer.
  bool has_room() const { return room() != 0; }
  /// The waker is called as soon as there is room.
  void wake_when_room() { wake_wanted_ = true; }
  /// From now on acquire_tx gives at most so many buffers per burst; with 0 the port takes nothing.
  void set_tx_room(uint32_t frames);
  /// From now on so many frames fit the receive queue, and further ones are lost. 0: no limit.
  void set_rx_frames(uint32_t frames) { config_.rx_frames = frames; }
  /// With `out`, frame buffers are used up: there are none to send, and frames that arrive are lost.
  void set_out_of_buffers(bool out);
  const NicCounters& counters() const { return counters_; }

 private:
  uint32_t room() const;
  uint32_t waiting() const { return static_cast<uint32_t>(received_.size() - first_); }
  bool take_pause(const Frame& frame);
  void drain();
  void on_wire_free(Instant now);
  /// The NIC's flow control for frames that arrive.
  struct Pauser {
    explicit Pauser(const NicConfig& config) : pfc(config.pfc, config.mac, counters) {}
    Counters counters;
    PriorityFlowControl pfc;
    Instant wakes_at = Instant::never();
  };
  void watch_backlog();
  void send_pauses(Instant now);
  void on_pauses(Instant now);

  Waker& waker_;
  FrameSink* to_ = nullptr;
  Link* wire_ = nullptr;  // nullptr when there is no queue
  EventQueue* events_ = nullptr;
  NicConfig config_;
  uint32_t max_frame_bytes_;
  uint32_t tx_room_ = kMaxBurst;
  bool out_of_buffers_ = false;
  std::vector<Frame> received_;
  size_t first_ = 0;   // index of the first frame in received_ that is still there
  uint32_t lent_ = 0;  // frames from there on that the engine has borrowed
  std::array<Frame, kMaxBurst> lent_tx_;
  Ring<Frame> queue_;
  uint32_t queued_bytes_ = 0;
  bool wake_wanted_ = false;
  Instant drains_at_ = Instant::never();  // when the scheduled event is due
  PauseClock pauses_;
  std::unique_ptr<Pauser> pauser_;
  Instant held_since_ = Instant::never();
  NicCounters counters_;
};

}  // namespace uroce::sim
