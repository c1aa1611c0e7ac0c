// One RoCEv2 endpoint: objects, demultiplexing, timers, and the turn that moves everything forward.
//
// Sans-I/O: frames come from a `Port`, time is handed in, events go to an `Observer`. An engine has one owner at a
// time; every member function must be called by whoever owns it then (roce/dpdk/endpoint.h has the lock that passes
// ownership between a program's threads).
//
// All tables are sized by `EngineConfig` when the engine is made. Creating a QP, a completion queue or a shared receive
// queue allocates its rings; nothing else does.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/owner.h"
#include "base/random.h"
#include "base/ring.h"
#include "congestion/config.h"
#include "engine/capture.h"
#include "engine/neighbours.h"
#include "engine/priority_flow_control.h"
#include "engine/qp_queue.h"
#include "engine/qp_table.h"
#include "engine/timer_queue.h"
#include "transport/address_handle.h"
#include "transport/completion_queue.h"
#include "transport/counters.h"
#include "transport/memory_table.h"
#include "transport/observer.h"
#include "transport/qp.h"
#include "transport/receive_queue.h"
#include "uroce/port.h"
#include "uroce/time.h"

namespace uroce {

struct EngineConfig {
  MacAddress mac;
  std::vector<LocalAddress> addresses;    // GIDs 1.. in this order; GID 0 is the link-local address of `mac`
  uint32_t max_frame_bytes = 4096 + 128;  // the port's: bounds active_mtu
  uint32_t max_qps = 4096;
  uint32_t max_regions = 65536;  // and windows
  uint32_t max_pds = 4096;
  uint32_t max_cqs = 16384;
  uint32_t max_srqs = 4096;
  uint32_t max_ahs = 65536;
  uint32_t window_packets = 128;         // most packets of one QP in flight
  uint32_t ack_every = 32;               // packets of one message without an ACK request, at most
  Duration ack_hold = microseconds(20);  // how long an ACK may wait for a request to travel with; 0: never
  bool grant_credits = true;             // tell peers how many receives are posted
  uint8_t traffic_class = 0;    // of QPs and address handles that ask for none: DSCP and ECN, as the IPv4 TOS octet
  PfcConfig pfc;                // off unless there are lossless priorities
  CongestionConfig congestion;  // how senders react to congestion; none unless an algorithm is set
  LossRecovery loss_recovery = LossRecovery::kGoBackN;
  uint32_t reorder_packets = 1024;  // kept out of order by all QPs together, in either direction
};

struct EngineStatus {
  uint32_t qps = 0;
  uint32_t regions = 0;
};

class Engine {
 public:
  Engine(const EngineConfig& config, Port& port, RandomSource& random, Observer& observer);
  ~Engine();  // QPs and queues that still exist go with it
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Receives a burst, runs expired timers, transmits. Returns how much happened (frames in and out): 0 is idle.
  uint32_t turn(Instant now);
  /// Only the transmit half: what a post needs to leave at once.
  uint32_t transmit(Instant now);
  /// The next instant at which a turn is needed even if no frame arrives; Instant::never() if none.
  Instant next_timeout() const;
  /// Something waits for the next turn: to be sent (a congested port, or more than one turn's worth), or to be received
  /// from ourselves.
  bool wants_transmit() const;
  /// Where rates start from; 0: unknown.
  void set_link_speed(uint64_t bits_per_second) { env_.congestion.link_bits_per_second = bits_per_second; }
  /// What pauses are measured in; 0: as before.
  void set_pause_speed(uint64_t bits_per_second) { pfc_.set_link_speed(bits_per_second); }
  void set_capture(Capture* capture) { capture_ = capture; }  // nullptr: off
  /// Whoever passes the engine between threads notes in `owner` who has it; calls of another thread are found out then.
  /// Lookers (gids, counters, status, for_each_qp) need not own it, if nobody drives meanwhile. `owner` outlives the
  /// engine.
  void set_owner(const Owner& owner) { owner_ = &owner; }

  // Addresses.
  /// The GID table: row i is gids()[i]; an address of zeros is a hole. All are RoCE v2.
  std::span<const LocalAddress> gids() const { return gids_; }
  /// The port's addresses have changed. Rows keep their numbers: what went leaves a hole, what came takes the first.
  /// GID 0 stays. False: nothing new, or nothing that fits kGidsMax.
  bool set_addresses(std::span<const LocalAddress> addresses);
  static constexpr uint32_t kGidsMax = 32;
  /// The largest RoCE MTU (256..4096) whose packets fit the port's frames.
  uint32_t active_mtu_bytes() const { return active_mtu_; }
  uint16_t lid() const;  // see doc/adr: the low 16 bits of the first IPv4 address
  const MacAddress& mac() const { return config_.mac; }

  // Objects. Pointers are valid until destroyed. Create functions give nullptr (or 0) when a table is full.
  PdId allocate_pd();
  bool deallocate_pd(PdId pd);  // false: still in use
  CompletionQueue* create_cq(uint32_t capacity, void* user);
  bool destroy_cq(CompletionQueue* cq);  // false: QPs use it
  SharedReceiveQueue* create_srq(PdId pd, uint32_t max_wr, uint32_t max_sge, void* user);
  bool destroy_srq(SharedReceiveQueue* srq);  // false: QPs use it
  Qp* create_qp(const QpInit& init, void* user);
  /// Its completions leave the completion queues.
  void destroy_qp(Qp* qp, Instant now);
  /// nullptr: the address vector has no route, or `ahs_full()`. Starts resolving the peer's MAC.
  std::unique_ptr<AddressHandle> create_ah(PdId pd, const AddressVector& av, Instant now);
  void destroy_ah(AddressHandle* ah);  // before it is deleted
  bool ahs_full() const { return ahs_.size() >= config_.max_ahs; }
  MemoryTable& memory() { return memory_; }

  // Work.
  ModifyResult modify_qp(Qp& qp, const QpAttributes& attributes, uint32_t mask, Instant now);
  PostResult post_send(Qp& qp, const SendWr& wr, Instant now) { return post_sends(qp, {&wr, 1}, now); }
  /// All of them or, when one is refused, none.
  PostResult post_sends(Qp& qp, std::span<const SendWr> wrs, Instant now);
  PostResult post_recv(Qp& qp, const RecvWr& wr, Instant now);
  PostResult post_srq_recv(SharedReceiveQueue& srq, const RecvWr& wr) { return srq.post(wr); }
  /// True when the QP's (or handle's) peer has a known MAC address; asks for it if not.
  bool resolved(const Qp& qp) const { return qp.path_resolved(); }

  const Counters& counters() const { return counters_; }
  EngineStatus status() const;
  /// For explaining: every live QP.
  template <typename F>
  void for_each_qp(F&& f) {
    qps_.for_each(f);
  }
  Neighbours& neighbours() { return neighbours_; }
  const PriorityFlowControl& flow_control() const { return pfc_; }

 private:
  void check_owner() const {
    ensure(owner_ == nullptr || owner_->is_me(), "an engine is used by the thread that owns it");
  }

  // engine_receive.cc
  uint32_t receive(Instant now);
  void note_backlog(Instant now);
  void process(std::span<const RxFrame> frames, Instant now);
  void on_packet(const PacketView& packet, Instant now);
  void on_unparsed(ParseResult result, std::span<const uint8_t> frame, Instant now);
  Qp* find_receiver(const PacketView& packet);
  void on_marked(Qp& qp, Instant now);
  bool addressed_to_us(const PacketView& packet) const;

  // engine_transmit.cc
  uint32_t transmit_burst(uint32_t size, Instant now);
  bool blocked(uint8_t priority) const { return (pfc_.paused() >> priority & 1) != 0; }
  void unpark();
  uint32_t send_cnps(TxFrame* frames, uint32_t count, Instant now);
  uint32_t send_host_frames(TxFrame* frames, uint32_t count, Instant now);
  uint32_t send_qp_frames(TxFrame* frames, uint32_t count, Instant now);
  bool transmit_one(Qp& qp, TxFrame& frame, Instant now);
  bool divert(TxFrame& frame, Instant now);
  uint32_t drain_loopback(Instant now);
  void run_timers(Instant now);
  void update(Qp& qp);

  void on_neighbour(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac);
  std::optional<PathSpec> route(const AddressVector& av, uint32_t flow);
  bool is_own(const IpAddress& ip, uint16_t vlan_id) const;
  void ask_for(const PathSpec& path, uint8_t sgid_index);

  EngineConfig config_;
  Port& port_;
  RandomSource& random_;
  Observer& observer_;
  Capture* capture_ = nullptr;
  const Owner* owner_ = nullptr;  // none: nobody says
  Counters counters_;
  std::vector<LocalAddress> gids_;
  uint32_t active_mtu_ = 1024;
  MemoryTable memory_;
  Neighbours neighbours_;
  ReorderPool reorder_pool_;
  QpTable qps_;
  TimerQueue timers_;
  TransportEnv env_;
  std::vector<bool> pds_;  // which PD numbers are given out
  std::vector<std::unique_ptr<CompletionQueue>> cqs_;
  std::vector<std::unique_ptr<SharedReceiveQueue>> srqs_;
  std::vector<AddressHandle*> ahs_;
  QpQueue ready_;               // QPs that have something to send
  QpQueue parked_;              // the ones whose priority was found paused: not in ready_ then
  uint8_t parked_pauses_ = 0;   // the pauses of that moment
  uint32_t full_receives_ = 0;  // turns in a row that received all they may
  PriorityFlowControl pfc_;
  QpQueue cnps_;    // QPs whose peers are to be told of congestion
  Instant now_{0};  // of the latest turn
  /// Frames to ourselves: made when the first path to one of our own addresses is.
  struct Loopback;
  std::unique_ptr<Loopback> loopback_;
};

}  // namespace uroce
