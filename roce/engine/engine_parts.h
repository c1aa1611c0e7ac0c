// The parts of an engine. Only engine.cc includes this: callers of an engine compile without its parts.
#pragma once

#include "base/random.h"
#include "engine/address_table.h"
#include "engine/engine_config.h"
#include "engine/frame_tap.h"
#include "engine/loopback.h"
#include "engine/management.h"
#include "engine/multicast_groups.h"
#include "engine/neighbours.h"
#include "engine/object_tables.h"
#include "engine/priority_flow_control.h"
#include "engine/qp_schedule.h"
#include "engine/queue_pairs.h"
#include "engine/receiver.h"
#include "engine/router.h"
#include "engine/steering.h"
#include "engine/transmitter.h"
#include "transport/counters.h"

namespace uroce {

struct EngineParts {
  EngineParts(const EngineConfig& config, Port& port, RandomSource& random, Observer& observer,
              NeighbourTable::Resolved on_resolved);

  Counters counters;
  AddressTable addresses;
  Neighbours neighbours;
  PriorityFlowControl pfc;
  Loopback loopback;
  FrameTap tap;
  Management management;
  MulticastGroups multicast;
  ObjectTables objects;
  QueuePairs qps;
  QpSchedule schedule;
  Router router;
  Steering steering;
  Receiver receiver;
  Transmitter transmitter;
};

}  // namespace uroce
