// Many connections between two hosts by connection management, over a cable with faults: how fast they come up, and
// whether anything is left over. The engines, their queues for datagrams and their timers are the real ones.
#pragma once

#include <cstdint>
#include <string>

#include "cm/counters.h"
#include "sim/link.h"
#include "uroce/time.h"

namespace uroce::sim {

struct ConnectionsOptions {
  uint64_t seed = 1;
  uint32_t count = 10'000;
  uint64_t per_second = 0;  // connections begun per second; 0: as fast as datagrams leave
  LinkConfig link;
  Duration hold{};                           // how long they are established before the client disconnects
  Duration limit = milliseconds(3'600'000);  // of virtual time, for each of both halves
};

struct ConnectionsReport {
  uint32_t established = 0;  // at the client
  uint32_t failed = 0;       // unreachable, or rejected
  uint32_t half_open = 0;    // established on one side only in the end
  uint32_t left_over = 0;    // still known to one of the sides in the end
  Duration coming_up{};      // from the first request until all are established
  Duration median{};         // of one connection, from its request to its RTU
  Duration p99{};
  Duration longest{};
  Duration going_down{};  // from the first DREQ until neither side has any left
  cm::CmCounters client;
  cm::CmCounters server;
  uint64_t datagrams_without_room = 0;  // dropped in front of the wire, at both hosts
  uint64_t hash = 0;                    // of every frame and its time
  std::string failure;                  // empty: nothing went wrong

  double per_second() const;
};

ConnectionsReport run_connections(const ConnectionsOptions& options);

}  // namespace uroce::sim
