#include "segment/local_answers.h"

namespace uroce::segment {
namespace {

constexpr size_t kWarningsMax = 64;  // different addresses; more are not worth a line each

}  // namespace

std::optional<LocalAnswers::Question> LocalAnswers::question_of(const LinkFrame& link) {
  if (const auto arp = decode_arp(link)) {
    if (arp->operation != Arp::kRequest) return std::nullopt;
    return Question{arp->sender_ip, arp->target_ip, true};
  }
  const auto icmp = decode_icmp(link);
  const auto message = icmp ? decode_neighbour_message(*icmp) : std::nullopt;
  if (!message || message->advertisement) return std::nullopt;
  return Question{message->src_ip, message->target, false};
}

std::optional<MacAddress> LocalAnswers::find(const IpAddress& ip) {
  auto mac = peers_.mac_of(ip);
  if (!mac) {
    peers_.refresh();
    mac = peers_.mac_of(ip);
  }
  return mac;
}

LocalAnswers::Asked LocalAnswers::ask(std::span<const uint8_t> frame) {
  const auto link = decode_link(frame);
  const auto question = link ? question_of(*link) : std::nullopt;
  if (!question) return Asked::kNothing;
  if (question->announcement()) return Asked::kAnnouncement;
  if (const auto mac = find(question->target)) {
    answer(*question, *mac, *link);
    return Asked::kKnown;
  }
  unknown_ = question->target;
  return Asked::kUnknown;
}

void LocalAnswers::warn_of_no_way() {
  const std::string name = to_string(unknown_);
  if (warned_.size() < kWarningsMax && warned_.insert(name).second)
    warn_("there is no way to " + name + ": no program of this machine has that address; where it is another " +
          "machine's, say over which interface: --port net_af_packet0,iface=eth0, or run uroced");
}

void LocalAnswers::answer(const Question& question, const MacAddress& mac, const LinkFrame& asked) {
  if (count_ == kAnswersMax) return;  // the sender will ask again
  Answer& answer = answers_[(head_ + count_) % kAnswersMax];
  // The answer goes to the frame's source: behind a bridge, that is not the bridge.
  answer.bytes =
      encode_neighbour_answer(answer.data, {asked.src_mac, mac, asked.vlan_id}, question.target, question.asker);
  if (answer.bytes != 0) count_++;
}

std::optional<LocalAnswers::Answer> LocalAnswers::next() {
  if (count_ == 0) return std::nullopt;
  const Answer answer = answers_[head_];
  head_ = (head_ + 1) % kAnswersMax;
  count_--;
  return answer;
}

}  // namespace uroce::segment
