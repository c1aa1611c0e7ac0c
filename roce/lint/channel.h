// One direction of a connected QP pair: the requests of one side, and what the other side answers.
//
// The channel sees what a wire tap saw, not what the two ends know: packets may be missing because they were lost in
// front of the tap or not captured, and a packet that was seen may be lost behind it. So it judges late: a gap is
// remembered and becomes a finding only when the peer acknowledges what was never seen; a missing READ response only
// when the requester does not ask again. What stays open at the end of the capture is no finding.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "lint/finding.h"
#include "lint/held_psns.h"
#include "lint/packet.h"
#include "lint/sent_log.h"
#include "lint/signature_trail.h"

namespace uroce::lint {

struct ChannelStatistics {
  uint64_t requests = 0;
  uint64_t retransmitted = 0;  // packets seen before
  uint64_t late = 0;           // packets that filled a gap
  uint64_t missing = 0;        // PSNs jumped over
  uint64_t acks = 0;
  uint64_t sacks = 0;
  std::array<uint64_t, 5> naks{};  // by code
  uint64_t rnr_naks = 0;
  // Times that the requester went back, by what made it.
  uint64_t back_for_nak = 0;
  uint64_t back_for_rnr = 0;
  uint64_t back_for_read = 0;  // missing READ responses
  uint64_t back_for_sack = 0;  // packets missing in front of what a SACK said is held
  uint64_t timeouts = 0;       // nothing that was seen
  int64_t timeout_min_ns = 0;  // the silence before
  int64_t timeout_max_ns = 0;
};

class Channel {
 public:
  Channel(Findings& findings, uint32_t request_flow, Service service);

  /// The connection's first PSN is known (CM), and how many READs and atomics the responder takes.
  void set_start(Psn psn, uint32_t read_limit);
  void set_response_flow(uint32_t flow) { response_flow_ = flow; }
  /// Who signs its packets: the requester, and the responder.
  void set_signatures(const SignatureTrail* requests, const SignatureTrail* responses) {
    requests_signed_ = requests;
    responses_signed_ = responses;
  }
  /// The capture says that it lost frames: a jump at the sender's own port proves nothing then.
  void set_lossy_capture() { lossy_capture_ = true; }

  /// `kRestarted`: the packet belongs to a later life of the same QP number; it was not taken.
  enum class Verdict : uint8_t { kTaken, kRestarted };
  Verdict on_request(const Packet& packet);
  void on_response(const Packet& packet);
  /// True when the response answers something that waits for an answer here.
  bool could_answer(const Packet& packet) const;
  bool is_near(Psn psn) const { return started_ && !is_far(psn); }
  void finish();

  const ChannelStatistics& statistics() const { return statistics_; }
  uint32_t path_mtu() const { return mtu_; }

 private:
  static constexpr uint64_t kFirstRequests = 64;
  struct Gap {
    Psn begin;
    uint32_t count = 0;
    uint64_t frame = 0;
    Rule rule = Rule::kPsnGap;
    bool young = false;
  };
  /// A READ or an atomic, and its responses so far.
  struct Read {
    Psn psn;
    uint32_t span = 1;
    bool span_known = true;
    bool span_late = false;    // learned after responses may have come that could not be told to be its own
    bool origin_known = true;  // false: only a repetition was seen, which may have started later
    bool atomic = false;
    uint32_t length = 0;
    uint32_t rkey = 0;
    uint64_t va = 0;
    uint64_t value = 0;       // atomic: the first response's
    uint32_t answered = 0;    // offsets below were seen
    uint64_t seen_ahead = 0;  // bit i: offset answered + i was seen
    uint32_t retries = 0;
    uint32_t newest = 0;                       // offset behind the newest response
    uint32_t steps_back = 0;                   // responses that did not come behind the one before
    std::array<SackRange, 16> retries_seen{};  // what the newest repetitions asked for
    uint64_t repeats_before = 0;               // retransmissions that were seen before it was sent
    uint64_t hole_frame = 0;                   // the response that jumped over ours
    uint64_t hole_count = 0;                   // `packets_` then
    bool asked_again = false;                  // since then
    bool contains(Psn p) const {
      const int32_t d = distance(psn, p);
      return d >= 0 && static_cast<uint32_t>(d) < span;
    }
    void add_retry(Psn from, Psn to) { retries_seen[retries++ % retries_seen.size()] = {from, to}; }
    /// One of the newest `count` repetitions started there, or ended.
    bool was_retried_from(Psn p, size_t count) const {
      for (size_t i = 0; i < std::min<size_t>(retries, count); i++) {
        if (retries_seen[(retries - 1 - i) % retries_seen.size()].first == p) return true;
      }
      return false;
    }
    bool was_retried_to(Psn p) const {
      for (size_t i = 0; i < std::min<size_t>(retries, retries_seen.size()); i++) {
        if (retries_seen[i].end == p) return true;
      }
      return false;
    }
    bool done() const { return span_known && answered >= span; }
    Psn end() const { return psn + span; }
  };
  struct Refusal {  // an open NAK or RNR NAK
    bool active = false;
    Psn psn;
    uint64_t frame = 0;
    Instant time{};
    bool has_time = false;
    uint8_t code = 0;
    Psn una;                     // oldest PSN in doubt when it came
    bool read_in_doubt = false;  // a READ or atomic in front of it waits for its response
    uint64_t late_frame = 0;     // a retransmission that started behind it
    Psn late_psn;
  };
  struct Held {  // a packet that does not fit yet
    bool active = false;
    Psn psn;
    uint64_t frame = 0;
    Instant time{};
    Psn newest;  // the newest request then
    uint8_t opcode = 0;
    Rule rule = Rule::kAckUnsent;
  };

  /// A gap in a young channel. Whether it is a fault will be known when both sides are.
  struct EarlyFinding {
    Rule rule{};
    uint64_t frame = 0;
    std::string text;
  };

  void add(Rule rule, uint64_t frame, std::string text) { findings_.add(rule, frame, request_flow_, std::move(text)); }
  void add_gap(Rule rule, uint64_t frame, std::string text, bool young) {
    if (!young) return add(rule, frame, std::move(text));
    early_.push_back({rule, frame, std::move(text)});
  }
  void add_response(Rule rule, uint64_t frame, std::string text) {
    findings_.add(rule, frame, response_flow_, std::move(text));
  }

  // channel.cc: order
  void start(Psn psn);
  bool is_far(Psn psn) const;
  Verdict on_far(const Packet& packet);
  void on_ahead(const Packet& packet);
  Verdict on_behind(const Packet& packet);
  Verdict on_uc_behind(const Packet& packet);
  bool fill_gap(Psn psn, uint32_t span);
  void go_back(const Packet& packet);
  bool goes_back_for(Refusal& refusal, const Packet& packet);
  void satisfy_refusals(const Packet& packet, uint32_t span);
  void check_held_response(const Packet* packet, uint32_t span);
  void count_timeout(const Packet& packet);
  void keep_in_half_circle();

  // requests.cc: content
  void store(const Packet& packet, bool is_new);
  Sent describe(const Packet& packet, const Sent* before) const;
  const Sent* before(Psn psn) const;
  bool is_over_gap(Psn psn) const;
  void check_sequence(const Packet& packet, const Sent& before);
  void check_lengths(const Packet& packet, const Sent& sent);
  bool same_request(const Packet& packet, const Sent& sent) const;
  uint32_t span_of(const Packet& packet) const;
  uint32_t longest_span_of(const Packet& packet) const;
  void add_read(const Packet& packet, uint32_t span, bool span_known, bool is_new);
  Verdict on_read_range(const Packet& packet, Read& read);
  void check_read_retry(const Packet& packet, const Read& read);
  void resolve_tip(Psn psn);
  void learn_mtu(uint32_t payload_bytes);
  const Read* find_read(Psn psn) const;
  Read* find_read(Psn psn) { return const_cast<Read*>(static_cast<const Channel*>(this)->find_read(psn)); }
  void judge(const Read& read);
  void retire_reads();

  // responses.cc
  void on_old_response(const Packet& packet);
  void on_ack(const Packet& packet);
  void on_positive_ack(const Packet& packet, const Aeth& aeth);
  bool leaves_out_reads(Psn psn) const;
  void on_rnr_nak(const Packet& packet, const Aeth& aeth);
  void on_sequence_nak(const Packet& packet, const Aeth& aeth);
  void on_fatal_nak(const Packet& packet, const Aeth& aeth);
  bool refuses_acknowledged(const Packet& packet);
  void on_read_response(const Packet& packet);
  void check_read_response(const Packet& packet, const Read& read);
  void mark_answered(Read& read, const Packet& packet);
  void check_response_order(Read& read, const Packet& packet, bool seen);
  bool was_overtaken(const Read& read) const;
  void on_atomic_response(const Packet& packet);
  void advance(Psn psn, uint64_t frame);
  void acknowledge(Psn psn, uint64_t frame, bool reads_answered = true);
  bool may_be_under_way(const Refusal& refusal) const;
  void settle(Refusal& refusal, Psn psn, uint64_t frame);
  void mark_holes(Psn psn, uint64_t frame);
  void check_order(Psn psn, uint64_t frame);
  void check_msn(const Packet& packet, Psn psn, uint32_t msn, bool through);
  void check_msn_range(const Packet& packet, const Read& read, uint32_t msn);
  Psn oldest_in_doubt() const;

  // selective.cc
  bool selective() const;
  /// A capture that begins in the middle has shown little so far: with selective repeat maybe only single packets that
  /// were sent again.
  bool is_young() const { return !beginning_known_ && statistics_.requests < kFirstRequests; }
  void learn_frontier(Psn end);
  bool check_sack_ends(const Packet& packet);
  void on_selective_ack(const Packet& packet);
  void check_sack_order(const Packet& packet, const std::vector<SackRange>& ranges);
  void check_seen(const Packet& packet, const SackRange& range);
  void note_expected(Psn psn);
  void forget_held();
  void on_sent_again(const Packet& packet, Psn end, bool answered_by_response);

  Findings& findings_;
  uint32_t request_flow_;
  uint32_t response_flow_ = kNoFlow;
  Service service_;
  bool lossy_capture_ = false;
  ChannelStatistics statistics_;

  bool started_ = false;
  bool start_known_ = false;  // CM said it, and no request came yet
  bool beginning_known_ = false;
  Psn first_;                   // PSNs before were sent before the capture
  Psn next_;                    // follows everything that was sent
  Psn position_;                // follows the newest packet
  Psn acked_;                   // everything before was acknowledged, as far as the capture shows
  bool acknowledged_ = false;   // something was
  bool behind_losses_ = false;  // packets were lost in front of the capture
  bool overtaken_ = false;      // a gap was filled: what came over it, up to `overtaken_end_`, has to come again
  Psn overtaken_end_;
  uint64_t packets_ = 0;
  Instant last_time_{};
  bool has_last_time_ = false;

  SentLog log_;
  Sent last_;  // the newest packet
  std::vector<Gap> gaps_;
  std::vector<Read> reads_;
  size_t open_reads_ = 0;  // index: those before are answered
  mutable size_t read_hint_ = 0;
  uint32_t read_limit_ = UINT32_MAX;
  bool tip_span_unknown_ = false;  // the newest request is a READ, and the path MTU is not known
  uint32_t mtu_ = 0;               // 0: not known yet
  uint32_t epoch_ = 0;
  uint32_t msn_epoch_ = 0;
  uint32_t msn_offset_ = 0;

  Refusal nak_;
  Refusal rnr_;
  uint64_t fatal_frame_ = 0;
  Held odd_;       // a request far from all others
  Held response_;  // a response to what was not sent

  const SignatureTrail* requests_signed_ = nullptr;
  const SignatureTrail* responses_signed_ = nullptr;
  std::vector<EarlyFinding> early_;
  HeldPsns held_;
  BackRuns back_runs_;
  std::vector<SackRange> sack_;  // the newest
  Instant sack_time_{};
};

}  // namespace uroce::lint
