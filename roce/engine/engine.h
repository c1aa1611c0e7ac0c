// One RoCEv2 endpoint: its objects, and the turn that moves everything forward. It joins its parts; what each does is
// in a header of its own.
//
//   our addresses            AddressTable
//   objects                  ObjectTables, QueuePairs
//   paths                    Router, which has MAC addresses from Neighbours
//   which QP has work        QpSchedule
//   frames                   Receiver, Transmitter; between them Loopback, beside them PriorityFlowControl, FrameTap
//   queue pair 1             Management
//   multicast                MulticastGroups, and GroupMembership that tells the network
//
// Sans-I/O: frames come from a `Port`, time is handed in, events go to an `Observer`. An engine has one owner at a
// time; every member function must be called by the current owner (roce/dpdk/endpoint.h has the lock that passes
// ownership between a program's threads).
//
// All tables are sized by `EngineConfig` when the engine is made. Creating a QP, a completion queue or a shared receive
// queue allocates its rings; nothing else does.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "engine/engine_config.h"
#include "engine/lock_check.h"
#include "packet/management_datagram.h"
#include "uroce/port.h"
#include "uroce/qp_attributes.h"
#include "uroce/time.h"
#include "uroce/work_request.h"

namespace uroce {

class AddressTable;
class Capture;
class ManagementSink;
class MemoryTable;
class MulticastGroups;
class Neighbours;
class ObjectTables;
class Observer;
class PriorityFlowControl;
class Qp;
class QueuePairs;
class RandomSource;
class SharedReceiveQueue;
class Steering;
struct AddressHandle;
struct Counters;
struct EngineParts;
struct QpInit;

enum class Announce : uint8_t { kNo, kYes };

class Engine {
 public:
  Engine(const EngineConfig& config, Port& port, RandomSource& random, Observer& observer);
  ~Engine();  // QPs and queues that still exist go with it
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Receives a burst, runs expired timers, transmits. Returns how much happened (frames in and out): 0 is idle.
  uint32_t turn(Instant now);
  /// Only the transmit half, so that a posted request leaves at once.
  uint32_t transmit(Instant now);
  /// The next instant at which a turn is needed even if no frame arrives; Instant::never() if none.
  Instant next_timeout() const;
  /// Whether something waits for the next turn: to be sent (a congested port, or more than one turn's worth), or to be
  /// received from ourselves.
  bool wants_transmit() const;
  /// The link: its speed, from which rates start (0: unknown), and how long frames may be, which is no more than the
  /// port was made for. Queue pairs that there are stay as they are.
  void set_link(uint64_t bits_per_second, uint32_t frame_bytes);
  void set_capture(Capture* capture);  // nullptr: off
  /// A caller that passes the engine between threads notes its owner in `owner`, which outlives the engine; calls of
  /// other threads are detected then. Threads that only read (addresses, counters, qps) need not own an idle engine.
  void set_owner(const LockHolder& owner) { owner_.follow(owner); }

  // Parts. Each has its header.
  const AddressTable& addresses() const;
  /// The port's addresses have changed. False: nothing new, or nothing that fits. `announce`: whether the network is to
  /// hear whose they are (gratuitous ARP, unsolicited neighbour advertisements), with the next turns.
  bool set_addresses(std::span<const LocalAddress> addresses, Announce announce = Announce::kNo);
  /// PDs, completion queues, shared receive queues.
  ObjectTables& objects();
  MemoryTable& memory();
  const QueuePairs& qps() const;
  /// See QueuePairs::own_block.
  std::optional<uint32_t> own_block();
  Neighbours& neighbours();
  PriorityFlowControl& flow_control();
  const Counters& counters() const;

  // Objects that have a path. Pointers are valid until destroyed; nullptr when a table is full.
  Qp* create_qp(const QpInit& init, void* user);
  /// Its completions leave the completion queues.
  void destroy_qp(Qp* qp, Instant now);
  /// A shared receive queue of either kind; false: QPs still use it.
  bool destroy_srq(SharedReceiveQueue* srq);
  ModifyResult modify_qp(Qp& qp, const QpAttributes& attributes, uint32_t mask, Instant now);
  /// nullptr: the address vector has no route, or `objects().ahs_full()`. Starts resolving the peer's MAC.
  std::unique_ptr<AddressHandle> create_ah(PdId pd, const AddressVector& av, Instant now);
  void destroy_ah(AddressHandle* ah);  // before it is deleted

  /// The groups that queue pairs are attached to, and those that the host wants.
  MulticastGroups& multicast();

  /// Flows of raw packets.
  Steering& steering();

  // Management datagrams.
  void set_management(ManagementSink* sink);  // nullptr: they are dropped
  /// Sends to queue pair 1 at the end of `av`, in one of the next turns, as soon as the peer's MAC is known. A datagram
  /// that cannot be sent is dropped and counted.
  void send_mad(const AddressVector& av, std::span<const uint8_t, kManagementBytes> mad, Instant now);

  // Work.
  PostResult post_send(Qp& qp, const SendWr& wr, Instant now) { return post_sends(qp, {&wr, 1}, now); }
  /// Posts all of them or, when one is refused, none.
  PostResult post_sends(Qp& qp, std::span<const SendWr> wrs, Instant now);
  PostResult post_recv(Qp& qp, const RecvWr& wr, Instant now);

 private:
  void run_timers(Instant now);
  void on_neighbour(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac);

  LockCheck owner_;
  RandomSource& random_;
  std::unique_ptr<EngineParts> parts_;  // never null
};

}  // namespace uroce
