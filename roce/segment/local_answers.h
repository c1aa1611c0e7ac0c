// Answers address resolution (ARP, neighbour solicitations) in the name of the segment's hosts.
//
// An engine asks with ARP and neighbour solicitations, as on any Ethernet. On a segment no program has to be woken for
// the answer, which is in the directory: so a host whose program is stopped is found all the same, and a broadcast does
// not go to a thousand programs.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "packet/host_frames.h"
#include "segment/peers.h"
#include "uroce/address.h"

namespace uroce::segment {

class LocalAnswers {
 public:
  static constexpr uint32_t kFrameBytes = 128;
  struct Answer {
    std::array<uint8_t, kFrameBytes> data;
    uint32_t bytes;
  };

  /// `warn` gets one line about each address that cannot be reached.
  LocalAnswers(Peers& peers, std::function<void(const std::string&)> warn) : peers_(peers), warn_(std::move(warn)) {}

  enum class Asked : uint8_t {
    kNothing,       // the frame is no such question
    kKnown,         // the answer is queued
    kUnknown,       // no host of the segment has the address
    kAnnouncement,  // the sender has the address, or probes whether another host has it
  };
  /// Takes a frame that is for no queue pair.
  Asked ask(std::span<const uint8_t> frame);
  /// Warns that the last question, for an unknown address, has no answer.
  void warn_of_no_way();
  /// The oldest queued answer, or nothing.
  std::optional<Answer> next();
  bool any() const { return count_ != 0; }

 private:
  static constexpr uint32_t kAnswersMax = 16;
  struct Question {
    IpAddress asker;
    IpAddress target;
    bool arp = false;
    bool announcement() const { return asker.is_zero() || asker == target; }
  };
  static std::optional<Question> question_of(const LinkFrame& link);

  std::optional<MacAddress> find(const IpAddress& ip);
  void answer(const Question& question, const MacAddress& mac, const LinkFrame& asked);

  Peers& peers_;
  const std::function<void(const std::string&)> warn_;
  std::set<std::string> warned_;
  IpAddress unknown_;  // the last address asked for that no host has
  std::array<Answer, kAnswersMax> answers_{};
  uint32_t head_ = 0;
  uint32_t count_ = 0;
};

}  // namespace uroce::segment
