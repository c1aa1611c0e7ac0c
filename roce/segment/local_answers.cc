#include "segment/local_answers.h"

#include "packet/host_frames.h"

namespace uroce::segment {
namespace {

constexpr size_t kWarningsMax = 64;  // different addresses; more are not worth a line each

struct Question {
  IpAddress asker;
  IpAddress target;
  bool arp = false;
};

std::optional<Question> question_of(const LinkFrame& link) {
  if (const auto arp = decode_arp(link)) {
    // Whoever asks for itself announces itself, and whoever has no address yet makes sure that nobody else has it.
    if (arp->operation != Arp::kRequest || arp->sender_ip == arp->target_ip) return std::nullopt;
    return Question{arp->sender_ip, arp->target_ip, true};
  }
  const auto icmp = decode_icmp(link);
  const auto message = icmp ? decode_neighbour_message(*icmp) : std::nullopt;
  if (!message || message->advertisement || message->src_ip.is_zero()) return std::nullopt;
  return Question{message->src_ip, message->target, false};
}

}  // namespace

std::optional<MacAddress> LocalAnswers::find(const IpAddress& ip) {
  auto mac = peers_.mac_of(ip);
  if (!mac) {
    peers_.refresh();
    mac = peers_.mac_of(ip);
  }
  return mac;
}

bool LocalAnswers::ask(std::span<const uint8_t> frame) {
  const auto link = decode_link(frame);
  const auto question = link ? question_of(*link) : std::nullopt;
  if (!question) return false;
  const auto mac = find(question->target);
  if (!mac) {
    const std::string name = to_string(question->target);
    if (warned_.size() < kWarningsMax && warned_.insert(name).second)
      warn_("there is no way to " + name + ": no program of this machine has that address");
    return true;
  }
  if (count_ == kAnswersMax) return true;  // it will be asked again
  Answer& answer = answers_[(head_ + count_) % kAnswersMax];
  const LinkAddress ends{own_mac_, *mac, link->vlan_id};
  if (question->arp) {
    Arp reply;
    reply.operation = Arp::kReply;
    reply.sender_mac = *mac;
    reply.sender_ip = question->target;
    reply.target_mac = own_mac_;
    reply.target_ip = question->asker;
    answer.bytes = encode_arp(answer.data, ends, reply);
  } else {
    NeighbourMessage reply;
    reply.advertisement = reply.solicited = reply.override_cache = true;
    reply.src_ip = reply.target = question->target;
    reply.dst_ip = question->asker;
    reply.link_layer = *mac;
    answer.bytes = encode_neighbour_message(answer.data, ends, reply);
  }
  if (answer.bytes != 0) count_++;
  return true;
}

std::optional<LocalAnswers::Answer> LocalAnswers::next() {
  if (count_ == 0) return std::nullopt;
  const Answer answer = answers_[head_];
  head_ = (head_ + 1) % kAnswersMax;
  count_--;
  return answer;
}

}  // namespace uroce::segment
