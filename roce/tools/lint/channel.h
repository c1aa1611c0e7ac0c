// One direction of a connected QP pair: the requests of one side, and what the other side answers.
//
// The channel sees what a wire tap saw, not what the two ends know: packets may be missing because they were lost
// before the tap or not captured, and a packet that was seen may be lost after it. So its judges wait: a gap is
// remembered, and becomes a finding only when the peer acknowledges what was never seen; a missing READ response
// becomes one only when the requester does not ask again. What is still open at the end of the capture is no finding.
//
// The channel passes each packet to the judges that it concerns, and records in the Conversation what was seen. Each
// judge knows one kind of rule, reads the Conversation, and returns its view of the packet; judges do not know each
// other.
#pragma once

#include <cstdint>

#include "lint/ack_judge.h"
#include "lint/channel_statistics.h"
#include "lint/content_judge.h"
#include "lint/conversation.h"
#include "lint/finding.h"
#include "lint/msn_judge.h"
#include "lint/packet.h"
#include "lint/read_judge.h"
#include "lint/refusal_judge.h"
#include "lint/reporter.h"
#include "lint/sack_judge.h"
#include "lint/sequence_judge.h"
#include "lint/unsent_judge.h"

namespace uroce::lint {

class Channel {
 public:
  /// `findings` outlives the channel.
  Channel(Findings& findings, uint32_t request_flow, Service service)
      : report_(findings, request_flow), seen_(service) {}
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// The connection's first PSN is known (CM), and how many READs and atomics the responder takes.
  void set_start(Psn psn, uint32_t read_limit);
  void set_response_flow(uint32_t flow) { report_.set_response_flow(flow); }
  /// Whether the requester and the responder sign their packets. Both trails outlive the channel.
  void set_signatures(const SignatureTrail* requests, const SignatureTrail* responses) {
    seen_.signatures = {requests, responses};
  }
  /// The capture says that it lost frames, so a jump in the PSNs proves nothing, even at the sender's own port.
  void set_lossy_capture() { seen_.lossy_capture = true; }

  /// `kRestarted`: the packet belongs to a later life of the same QP number; it was not taken.
  using Verdict = lint::Verdict;
  Verdict on_request(const Packet& packet);
  void on_response(const Packet& packet);
  /// True when the response answers something that waits for an answer here.
  bool could_answer(const Packet& packet) const;
  bool is_near(Psn psn) const { return seen_.numbers.started() && !seen_.numbers.is_far(psn); }
  /// The capture is over.
  void finish();

  const ChannelStatistics& statistics() const { return seen_.statistics; }
  uint32_t path_mtu() const { return seen_.sent.mtu(); }

 private:
  // Requests.
  Verdict on_far(const Packet& packet);
  void on_ahead(const Packet& packet);
  Verdict on_behind(const Packet& packet);
  Verdict on_read_range(const Packet& packet, Read& read);
  void go_back(const Packet& packet);
  void store(const Packet& packet, bool is_new);

  // Responses.
  bool was_sent(const Packet& packet);
  void on_ack(const Packet& packet);
  void on_positive_ack(const Packet& packet);
  void on_rnr_nak(const Packet& packet);
  void on_sequence_nak(const Packet& packet);
  void on_fatal_nak(const Packet& packet);
  void on_selective_ack(const Packet& packet);
  void on_read_response(const Packet& packet);
  void on_atomic_response(const Packet& packet);
  void advance(Psn psn, uint64_t frame);
  void acknowledge_packets(Psn psn, uint64_t frame);
  void acknowledge(Psn psn, uint64_t frame);

  Reporter report_;
  Conversation seen_;
  SequenceJudge sequence_{seen_, report_};
  ContentJudge contents_{seen_, report_};
  ReadJudge reads_{seen_, seen_.sent.reads(), report_};
  AckJudge acks_{seen_, report_};
  MsnJudge msn_{seen_, report_};
  RefusalJudge refusals_{seen_, report_};
  SackJudge sacks_{seen_, report_};
  UnsentJudge unsent_{seen_, report_};
};

}  // namespace uroce::lint
