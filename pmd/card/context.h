// What all parts of the card share.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pmd/card/card.h"
#include "pmd/card/dma.h"
#include "pmd/card/interrupts.h"
#include "pmd/card/ptp_clock.h"

namespace mqnic::card {

struct Context {
  Context(const CardConfig& build, HostMemory& host)
      : config(build), dma(host, report), interrupts(build.interrupts), clock(build.ptp_update_ns) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// Adds a message, for what happens rarely. The number is limited, so that a host that provokes messages cannot fill
  /// the memory.
  void say(std::string text) {
    if (messages.size() < kMessagesMax) messages.push_back(std::move(text));
  }

  /// The timestamp of a completion; zeros in a build without a clock.
  PtpClock::Stamp stamp() { return config.ptp ? clock.stamp(now_ns) : PtpClock::Stamp{0, 0}; }

  static constexpr size_t kMessagesMax = 64;

  const CardConfig config;
  CardReport report;
  Dma dma;
  Interrupts interrupts;
  PtpClock clock;
  std::vector<std::string> messages;
  uint64_t now_ns = 0;
  bool host_blocked = false;  // the host takes no received frames
};

}  // namespace mqnic::card
