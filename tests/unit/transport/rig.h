// One engine, one QP, and a peer that is a script: tests say packet by packet what arrives, and read what leaves.
//
//   Rig rig;
//   rig.receive(7);                                   // posts a receive with wr_id 7
//   rig.arrive(send(kOpSendOnly, 0x100, 16));
//   EXPECT_THAT(rig.sent(), ElementsAre("ACK 000100 msn 1"));
//   EXPECT_THAT(rig.completed(), ElementsAre("recv 7: success, 16 bytes"));
//   EXPECT_EQ(rig.counted(), "rx_sends 1, sent_acks 1");
//
// With UROCE_SCRIBBLE in the environment every frame arrives as from memory that others can write to
// (scribbled_port.h).
//
// Time stands still until the test advances it. `sent`, `completed`, `events` and `counted` give what is new since they
// were asked last.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/object_tables.h"
#include "packet/sack.h"
#include "roce_frame.h"
#include "scribbled_port.h"
#include "sim/recording_observer.h"
#include "sim/sim_port.h"
#include "sim/world.h"
#include "transport/completion_queue.h"
#include "transport/memory_table.h"
#include "transport/qp.h"
#include "transport/qp_init.h"
#include "transport/receive_queue.h"
#include "transport/requester.h"
#include "transport/send_queue.h"

namespace uroce::test {

/// A packet from the peer, valid unless a test changes it.
struct Packet {
  Bth bth;
  Bytes extension;
  Bytes payload;
  Packet& no_ack_request() { return bth.ack_req = false, *this; }
  Packet& solicited() { return bth.solicited = true, *this; }
};

// Requests. Byte i of a payload is payload_byte(psn, i).
uint8_t payload_byte(uint32_t psn, uint32_t i);
Bytes payload_of(uint32_t psn, uint32_t bytes);
Packet packet(uint8_t low, uint32_t psn, uint32_t bytes = 0, Service service = Service::kRc);
Packet send(uint8_t low, uint32_t psn, uint32_t bytes, Service service = Service::kRc);
Packet send_imm(uint8_t low, uint32_t psn, uint32_t bytes, uint32_t imm, Service service = Service::kRc);
Packet send_inv(uint32_t psn, uint32_t bytes, uint32_t rkey);
/// A first or only packet.
Packet write(uint8_t low, uint32_t psn, uint64_t va, uint32_t rkey, uint32_t dma_length, uint32_t bytes,
             Service service = Service::kRc);
Packet read(uint32_t psn, uint64_t va, uint32_t rkey, uint32_t dma_length);
Packet compare_swap(uint32_t psn, uint64_t va, uint32_t rkey, uint64_t compare, uint64_t swap);
Packet fetch_add(uint32_t psn, uint64_t va, uint32_t rkey, uint64_t add);
Packet datagram(uint32_t psn, uint32_t bytes, uint32_t qkey, uint32_t src_qp);
// Answers.
Packet ack(uint32_t psn, uint32_t msn, uint8_t credits = kCreditsInvalid);
/// `ranges`: first and last PSN of each.
Packet sack(uint32_t psn, uint32_t msn, const std::vector<std::pair<uint32_t, uint32_t>>& ranges);
Packet nak(uint32_t psn, NakCode code, uint32_t msn = 0);
Packet rnr_nak(uint32_t psn, uint8_t timer, uint32_t msn = 0);
Packet response(uint32_t psn, AethKind kind, uint8_t value, uint32_t msn);
Packet read_response(uint8_t low, uint32_t psn, uint32_t bytes, uint32_t msn = 0);
Packet atomic_ack(uint32_t psn, uint64_t original, uint32_t msn = 0);

struct RigOptions {
  QpType type = QpType::kRc;
  bool ipv6 = false;
  uint32_t mtu = 256;
  QpCapabilities cap{16, 16, 4, 4, 64};
  bool sq_sig_all = false;
  bool use_srq = false;  // an XRC target has one, which its peer names
  uint32_t tags = 0;     // receives that its tag list holds, with half as many operations; 0: no tag list
  uint32_t cq_capacity = 256;
  QpState state = QpState::kRts;  // RESET, INIT, RTR or RTS
  QpAttributes attributes;        // except the path, and the QP and packet numbers
  EngineConfig engine;
  uint64_t seed = 1;
  bool resolved = true;  // the peer's MAC is known at the start

  RigOptions();
};

class Rig {
 public:
  // Numbers that tests spell out.
  static constexpr uint32_t kPeerQpn = 0x000777;
  static constexpr uint32_t kTheirPsn = 0x000100;  // first request that we receive
  static constexpr uint32_t kOurPsn = 0x000200;    // first request that we send
  static constexpr uint32_t kQkey = 0x11111111;

  explicit Rig(const RigOptions& options = {});

  // Input.
  void arrive(const Packet& packet) { arrive(frame(packet)); }
  void arrive(const Bytes& frame);
  /// Several frames in one burst: one turn.
  void arrive(const std::vector<Packet>& packets);
  /// The whole frame from the peer to our QP.
  Bytes frame(const Packet& packet) const;
  Route path_from_peer() const { return from_peer_; }
  void set_path_from_peer(const Route& path) { from_peer_ = path; }
  void resolve_peer();

  // The program's calls.
  PostResult post(SendWr wr);
  PostResult receive(uint64_t wr_id, uint32_t bytes = 1024);
  SendWr send_wr(uint32_t bytes, uint64_t wr_id = 1);
  SendWr write_wr(uint32_t bytes, uint64_t wr_id = 1);
  SendWr read_wr(uint32_t bytes, uint64_t wr_id = 1);
  SendWr atomic_wr(WrOpcode opcode, uint64_t wr_id = 1);
  ModifyResult modify(QpState to);
  ModifyResult modify(const QpAttributes& attributes, uint32_t mask);

  // Time.
  void advance(Duration d);
  void turn();
  Instant now() const { return now_; }

  // Output since the last call. Sequence numbers and keys are hexadecimal.
  std::vector<std::string> sent();
  std::vector<Bytes> sent_frames();
  std::vector<std::string> completed();
  std::vector<std::string> events();
  /// Counters that changed: "name difference, name difference", without those of packets, bytes and neighbours.
  std::string counted();

  Engine& engine() { return *engine_; }
  Qp& qp() { return *qp_; }
  sim::SimPort& port() { return port_; }
  PdId pd() const { return pd_; }
  CompletionQueue& send_cq() { return *send_cq_; }
  CompletionQueue& recv_cq() { return *recv_cq_; }
  SharedReceiveQueue* srq() { return srq_; }
  XrcdId xrcd() const { return xrcd_; }
  sim::RecordingObserver& observer() { return observer_; }
  QpInit qp_init() const;

  /// `remote`: memory that peers may use in every way; `local`: that of our own requests. 64 KiB each, aligned, with
  /// fixed contents.
  uint8_t* remote() { return remote_.get(); }
  uint64_t remote_va(uint64_t offset = 0) const { return reinterpret_cast<uint64_t>(remote_.get()) + offset; }
  uint32_t rkey() const { return rkey_; }
  uint8_t* local() { return local_.get(); }
  uint32_t lkey() const { return lkey_; }
  Sge local_sge(uint32_t offset, uint32_t bytes) const {
    return {reinterpret_cast<uint64_t>(local_.get()) + offset, bytes, lkey_};
  }
  static constexpr uint32_t kMemoryBytes = 65536;

 private:
  struct Collector final : sim::FrameSink {
    std::vector<Bytes> frames;
    void deliver(sim::Frame&& frame) override { frames.emplace_back(frame.begin(), frame.end()); }
  };
  struct NoWaker final : sim::Waker {
    void wake() override {}
  };
  void bring_up();
  void drain(CompletionQueue& cq, std::vector<std::string>& lines);

  RigOptions options_;
  Instant now_{1'000'000'000};
  SeededRandom random_;
  sim::RecordingObserver observer_;
  NoWaker waker_;
  Collector collector_;
  sim::SimPort port_;
  std::unique_ptr<ScribbledPort> scribbled_;  // between the engine and `port_`
  std::unique_ptr<Engine> engine_;
  Route from_peer_;
  std::unique_ptr<uint8_t[]> remote_;
  std::unique_ptr<uint8_t[]> local_;
  uint32_t rkey_ = 0;
  uint32_t lkey_ = 0;
  PdId pd_ = 0;
  XrcdId xrcd_ = 0;  // of a target
  CompletionQueue* send_cq_ = nullptr;
  CompletionQueue* recv_cq_ = nullptr;
  SharedReceiveQueue* srq_ = nullptr;
  Qp* qp_ = nullptr;
  Counters seen_;
  size_t events_seen_ = 0;
  std::vector<Sge> sges_;  // of work requests made here, which point to them
};

/// One line for a sent frame, as in the example above.
std::string describe(const Bytes& frame);

}  // namespace uroce::test
