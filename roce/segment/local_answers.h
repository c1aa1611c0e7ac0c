// Answers to questions for MAC addresses, in the name of the segment's hosts.
//
// An engine asks with ARP and neighbour solicitations, as on any Ethernet. On a segment nobody has to be woken for the
// answer, which stands in the directory: so a program that is stopped does not keep its host from being found, and a
// thousand programs do not all get a broadcast.
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

  /// `warn` gets a line about every address to which there is no way, once each.
  LocalAnswers(Peers& peers, std::function<void(const std::string&)> warn) : peers_(peers), warn_(std::move(warn)) {}

  enum class Asked : uint8_t {
    kNothing,       // the frame is no such question
    kKnown,         // the answer waits
    kUnknown,       // no host of the segment has the address
    kAnnouncement,  // whoever asks has the address, or makes sure that nobody else has it
  };
  /// Takes a frame that is for no queue pair.
  Asked ask(std::span<const uint8_t> frame);
  /// Whoever asked last, for an unknown address, asked in vain.
  void warn_of_no_way();
  /// The oldest answer that waits, or nothing.
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
  IpAddress unknown_;  // what was asked for last, and nobody has
  std::array<Answer, kAnswersMax> answers_{};
  uint32_t head_ = 0;
  uint32_t count_ = 0;
};

}  // namespace uroce::segment
