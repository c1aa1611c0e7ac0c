// A switch in the simulated network: that of the fabric, with a cable at each port.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "fabric/switch.h"
#include "sim/actor.h"
#include "sim/event_queue.h"
#include "sim/frame_pool.h"
#include "sim/link.h"

namespace uroce::sim {

class SimSwitch final : public Actor<SimSwitch>, private fabric::Switch::Listener {
 public:
  struct Event {
    enum class Kind : uint8_t {
      kWireFree,  // the cable at `port` can take the port's next frame
      kTimer,     // the fabric has something to do by itself
    };
    Kind kind;
    fabric::PortId port = 0;
  };

  /// `config` must have passed check_config, and have as many ports as will be connected.
  SimSwitch(EventQueue& events, const fabric::SwitchConfig& config, RandomSource& random);

  /// Where the cable to `port` ends; `connect` sets the cable that begins there.
  FrameSink& ingress(fabric::PortId port) { return *ports_[port]; }
  void connect(fabric::PortId port, Link& egress) { ports_[port]->egress = &egress; }

  fabric::Switch& fabric() { return switch_; }
  const fabric::Switch& fabric() const { return switch_; }
  void on_event(Event event, Instant now);

  /// The length of the queues of all priorities of a port.
  uint64_t queue_bytes(fabric::PortId port) const;

 private:
  struct SwitchPort final : FrameSink {
    SwitchPort(SimSwitch& switch_node, fabric::PortId id) : owner(switch_node), number(id) {}
    void deliver(Frame&& frame) override { owner.on_frame(number, std::move(frame)); }
    SimSwitch& owner;
    fabric::PortId number;
    Link* egress = nullptr;
    bool scheduled = false;  // an event for when the wire is free is scheduled
  };

  void on_port_ready(fabric::PortId port, Instant now) override { pump(*ports_[port], now); }
  void on_frame(fabric::PortId port, Frame&& frame);
  void pump(SwitchPort& port, Instant now);
  void on_wire_free(SwitchPort& port, Instant now);
  void on_timer(Instant now);
  void watch_time();

  EventQueue& events_;
  SimFramePool pool_;
  std::vector<std::unique_ptr<SwitchPort>> ports_;
  fabric::Switch switch_;
  Instant timer_at_ = Instant::never();
};

}  // namespace uroce::sim
