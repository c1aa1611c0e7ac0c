#include "client.h"

#include <netdb.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "datagram_qp.h"
#include "errors.h"
#include "question.h"
#include "silence.h"

namespace uroce::ping {
namespace {

constexpr uint32_t kPingBytes = 64;
constexpr uint32_t kShortestPacket = 256;  // the smallest MTU that there is
constexpr int kTries = 3;                  // of a packet that the network may lose for other reasons than its length
/// DSCP 26 (AF31, which many networks give to RoCE) and ECT(0): whoever changes either is noticed.
constexpr uint8_t kMarked = 26 << 2 | 2;
constexpr uint8_t kEcn = 3;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// What was measured of pings.
class Times {
 public:
  void add(double ms) { ms_.push_back(ms); }
  uint32_t count() const { return static_cast<uint32_t>(ms_.size()); }
  void print(uint32_t sent) {
    std::printf("%u sent, %u answered", sent, count());
    std::sort(ms_.begin(), ms_.end());
    if (!ms_.empty())
      std::printf("; round trip %.3f ms at least, %.3f typically, %.3f at most", ms_.front(), ms_[ms_.size() / 2],
                  ms_.back());
    std::printf("\n");
  }

 private:
  std::vector<double> ms_;
};

class Client {
 public:
  explicit Client(const Options& options) : options_(options) {}
  int run();

 private:
  bool find(std::string& error);
  /// Asks for the n-th time; prints what it heard.
  std::optional<Answer> ask(uint32_t n, std::string& error);
  int when_nobody_serves(uint32_t answered);
  int when_served();
  bool open(std::string& error);
  /// Sends a ping and waits for its answer. Nothing if there is none, with one line in `error` if it was not even sent.
  std::optional<DatagramQp::Arrival> exchange(uint32_t bytes, const Peer& to, std::string& error);
  bool ping_often(std::string& error);
  bool find_lengths(std::string& error);
  bool find_marks(std::string& error);
  void wait_between(Clock::time_point last) const { std::this_thread::sleep_until(last + options_.interval); }

  const Options& options_;
  Address host_;
  std::unique_ptr<Question> question_;
  std::unique_ptr<DatagramQp> qp_;
  AddressHandle way_;
  uint32_t sequence_ = 0;
};

bool Client::find(std::string& error) {
  addrinfo* found = nullptr;
  if (const int result = getaddrinfo(options_.host.c_str(), nullptr, nullptr, &found); result != 0) {
    error = options_.host + ": " + gai_strerror(result);
    return false;
  }
  std::copy_n(reinterpret_cast<const char*>(found->ai_addr), found->ai_addrlen,
              reinterpret_cast<char*>(&host_.storage));
  freeaddrinfo(found);
  return true;
}

std::optional<Answer> Client::ask(uint32_t n, std::string& error) {
  question_ = std::make_unique<Question>();
  const Clock::time_point deadline = Clock::now() + options_.patience;
  if (!question_->resolve(host_, deadline, error)) {
    error = text_of(host_.get()) + ": " + error + "; " + why_silent(host_);
    return {};
  }
  if (n == 1) {
    rdma_cm_id& id = question_->id();
    ibv_port_attr port{};
    ibv_query_port(id.verbs, id.port_num, &port);
    std::printf("RoCE to %s from %s: %s, MTU %u\n", text_of(host_.get()).c_str(),
                text_of(rdma_get_local_addr(&id)).c_str(), ibv_get_device_name(id.verbs->device),
                128u << port.active_mtu);
    std::fflush(stdout);
  }
  return question_->ask(deadline, error);
}

/// How long an answer to a request takes says little of the network: whoever asks may ask more than once, in case
/// somebody is about to serve.
int Client::run() {
  std::string error;
  if (!find(error)) return fail(error);
  uint32_t answered = 0;
  for (uint32_t n = 1; n <= options_.count; n++) {
    const Clock::time_point start = Clock::now();
    const auto answer = ask(n, error);
    if (!answer) return fail(error);
    if (*answer == Answer::kServed) return when_served();
    if (*answer == Answer::kRoce) answered++;
    std::printf("request %u: %s\n", n, *answer == Answer::kRoce ? "answered" : error.c_str());
    std::fflush(stdout);
    if (n < options_.count) wait_between(start);
  }
  return when_nobody_serves(answered);
}

int Client::when_nobody_serves(uint32_t answered) {
  std::printf("%u sent, %u answered\n", options_.count, answered);
  if (answered == 0) return fail(text_of(host_.get()) + " does not answer; " + why_silent(host_));
  std::printf("RoCE gets through, both ways. For times, lengths and marks: uroce ping --serve there\n");
  return answered == options_.count ? 0 : 1;
}

bool Client::open(std::string& error) {
  rdma_cm_id& id = question_->id();
  qp_ = DatagramQp::create(id.verbs, id.port_num, error);
  if (!qp_) return false;
  ibv_ah_attr attr = question_->served_at().ah_attr;
  way_.reset(ibv_create_ah(qp_->pd(), &attr));
  if (!way_) error = "ibv_create_ah: the way there is not known any more";
  return bool(way_);
}

std::optional<DatagramQp::Arrival> Client::exchange(uint32_t bytes, const Peer& to, std::string& error) {
  const uint32_t sequence = ++sequence_;
  if (!qp_->send({.sequence = sequence}, bytes, to, error)) return {};
  const Clock::time_point deadline = Clock::now() + options_.patience;
  while (auto arrival = qp_->next(deadline)) {
    if (arrival->message.answer && arrival->message.sequence == sequence) return arrival;
  }
  return {};
}

int Client::when_served() {
  std::string error;
  if (!open(error)) return fail(error);
  const bool all = ping_often(error);
  if (!error.empty()) return fail(error);
  const bool long_ones = find_lengths(error);
  if (!error.empty()) return fail(error);
  const bool marks = find_marks(error);
  if (!error.empty()) return fail(error);
  return all && long_ones && marks ? 0 : 1;
}

bool Client::ping_often(std::string& error) {
  const Peer peer{way_.get(), question_->served_at().qp_num, question_->served_at().qkey};
  Times times;
  for (uint32_t n = 1; n <= options_.count; n++) {
    const Clock::time_point start = Clock::now();
    const bool answered = exchange(kPingBytes, peer, error).has_value();
    if (!error.empty()) return false;
    if (answered) {
      times.add(milliseconds_since(start));
      std::printf("%u bytes from %s: %.3f ms\n", kPingBytes, text_of(host_.get()).c_str(), milliseconds_since(start));
    } else {
      std::printf("ping %u: no answer in time\n", n);
    }
    std::fflush(stdout);
    if (n < options_.count) wait_between(start);
  }
  times.print(options_.count);
  if (times.count() == 0) error = text_of(host_.get()) + " answers requests, and none of the pings came back";
  return times.count() == options_.count;
}

/// Which of the MTUs up to that of this end's port get through, there and back.
bool Client::find_lengths(std::string& error) {
  const Peer peer{way_.get(), question_->served_at().qp_num, question_->served_at().qkey};
  uint32_t longest = 0;
  for (uint32_t bytes = kShortestPacket; bytes <= qp_->longest(); bytes *= 2) {
    bool answered = false;
    for (int i = 0; i < kTries && !answered && error.empty(); i++) answered = exchange(bytes, peer, error).has_value();
    if (!error.empty()) return false;
    if (!answered) break;
    longest = bytes;
  }
  if (longest == qp_->longest()) {
    std::printf("packets of all lengths get through, to MTU %u\n", longest);
    return true;
  }
  std::printf(
      "packets with %u bytes of data get through, with %u they do not: the other end or something on the way has "
      "a smaller MTU; give both ends one that fits (uroce run --mtu)\n",
      longest, std::max(2 * longest, kShortestPacket));
  return false;
}

/// What the network does to DSCP and ECN.
bool Client::find_marks(std::string& error) {
  ibv_ah_attr attr = question_->served_at().ah_attr;
  attr.grh.traffic_class = kMarked;
  const AddressHandle marked(ibv_create_ah(qp_->pd(), &attr));
  const Peer peer{marked.get(), question_->served_at().qp_num, question_->served_at().qkey};
  std::optional<DatagramQp::Arrival> answer;
  for (int i = 0; i < kTries && !answer && error.empty(); i++) answer = exchange(kPingBytes, peer, error);
  if (!error.empty()) return false;
  if (!answer) {
    std::printf("a packet with DSCP %u and ECT is not answered\n", kMarked >> 2);
    return false;
  }
  const uint8_t arrived = answer->message.traffic_class;
  std::printf("DSCP %u arrives as %u; ", kMarked >> 2, arrived >> 2);
  const uint8_t ecn = arrived & kEcn;
  std::printf("%s\n", ecn == (kMarked & kEcn) ? "ECT arrives: congestion can be marked"
                      : ecn == kEcn           ? "ECT arrives as CE: something on the way is congested"
                      : ecn == 0              ? "ECT is cleared on the way: no congestion control by marks"
                                              : "ECT arrives changed");
  return true;
}

}  // namespace

int ask_host(const Options& options) { return Client(options).run(); }

}  // namespace uroce::ping
