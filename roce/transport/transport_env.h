// The engine's side of a queue pair. One for all queue pairs of an engine.
#pragma once

#include <cstdint>

#include "congestion/config.h"
#include "uroce/time.h"
#include "uroce/types.h"

namespace uroce {

class DirectCopy;
class MemoryTable;
class Observer;
class ReorderPool;
class XrcQueues;
struct Counters;

struct TransportEnv {
  MemoryTable& memory;
  Counters& counters;
  Observer& observer;
  uint32_t window_packets = 128;
  uint32_t ack_every = 32;
  Duration ack_delay = microseconds(20);
  bool grant_credits = true;  // tell the peer in ACKs how many receives are posted
  CongestionConfig congestion = {};
  LossRecovery loss_recovery = LossRecovery::kGoBackN;
  ReorderPool* reorder_pool = nullptr;    // needed unless loss_recovery is kGoBackN
  const XrcQueues* xrc_queues = nullptr;  // needed by XRC targets
  DirectCopy* direct = nullptr;           // nullptr: everything goes in frames
};

}  // namespace uroce
