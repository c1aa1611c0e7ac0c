// Hosts around one switch: senders that never stop, and one receiver behind the bottleneck.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "congestion/congestion_control.h"
#include "fabric/switch.h"
#include "sim/testbed.h"
#include "transport/qp.h"

namespace uroce::sim {

struct StarConfig {
  uint32_t senders = 2;
  uint64_t bits_per_second = 10'000'000'000;  // of every cable
  Duration cable_delay = microseconds(1);
  uint32_t mtu = 1024;
  CongestionConfig congestion;
  fabric::EcnConfig ecn{true, 5'000, 200'000, 0.01, 0};  // DCQCN's paper
  uint64_t seed = 1;
};

class Star final : private fabric::Switch::Listener {
 public:
  explicit Star(const StarConfig& config);
  ~Star() override;

  /// Every sender writes from now on, for as long as the simulation runs.
  void start();
  void run_for(Duration time) { world_.run_for(time); }
  /// The same, sampling the bottleneck's queue every microsecond; returns its mean in bytes.
  double mean_queue_bytes(Duration time);

  uint32_t senders() const { return static_cast<uint32_t>(qps_.size()); }
  /// Payload that sender `i` has acknowledged so far, in packets of one MTU.
  uint64_t acknowledged(uint32_t i) const;
  const CongestionControl& congestion(uint32_t i) const { return *qps_[i]->congestion(); }
  const Counters& receiver_counters() { return receiver_->engine().counters(); }
  Host& sender(uint32_t i) { return *hosts_[i]; }
  const fabric::SwitchPortCounters& bottleneck() const { return switch_->counters(receiver_port()); }
  uint64_t drops() const;

 private:
  class Pool final : public fabric::FramePool {
   public:
    fabric::FabricFrame allocate(uint32_t bytes) override;
    fabric::FabricFrame clone(const fabric::FabricFrame& frame) override;
    void release(const fabric::FabricFrame& frame) override { Frame::adopt(frame.token); }
  };
  /// The switch's end of a cable.
  struct End final : FrameSink, Actor<End> {
    struct Event {};  // the cable to the host is free
    Star* star = nullptr;
    fabric::PortId port = 0;
    std::unique_ptr<Link> to_switch;
    std::unique_ptr<Link> to_host;
    bool waits = false;  // for the cable to be free
    void deliver(Frame&& frame) override;
    void on_event(Event event, Instant now);
  };
  /// Samples the bottleneck's queue every microsecond.
  struct Sampler final : Actor<Sampler> {
    struct Event {};  // the next sample is due
    Star* star = nullptr;
    Instant until;
    uint64_t bytes = 0;
    uint64_t looks = 0;
    void on_event(Event event, Instant now);
  };
  fabric::PortId receiver_port() const { return static_cast<fabric::PortId>(ends_.size() - 1); }
  void on_port_ready(fabric::PortId port, Instant now) override { pump(*ends_[port], now); }
  void pump(End& end, Instant now);
  void add_host(uint8_t number);
  void connect_flow(uint32_t i);

  StarConfig config_;
  World world_;
  SeededRandom random_;
  Pool pool_;
  std::unique_ptr<fabric::Switch> switch_;
  std::vector<std::unique_ptr<End>> ends_;
  std::vector<Host*> hosts_;
  Host* receiver_ = nullptr;
  std::vector<Qp*> qps_;
  std::vector<Psn> first_psn_;
  std::vector<Sge> local_;
  std::vector<std::unique_ptr<uint8_t[]>> memory_;
  uint64_t remote_addr_ = 0;
  std::vector<uint32_t> rkeys_;
};

}  // namespace uroce::sim
