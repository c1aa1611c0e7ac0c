#include "victim.h"

#include <poll.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <filesystem>
#include <fstream>

#include "engine/bring_up.h"
#include "engine/object_tables.h"
#include "members.h"
#include "sanitized.h"
#include "transport/completion_queue.h"
#include "transport/counters.h"
#include "transport/memory_table.h"
#include "transport/qp.h"
#include "transport/qp_init.h"

namespace uroce::segment::test {
namespace {

/// A victim that sleeps does so after this long without work.
constexpr Duration kAwake = microseconds(50);

Duration read_clock(clockid_t clock) {
  timespec ts{};
  clock_gettime(clock, &ts);
  return {int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec};
}

/// An Instant of 0 is then always in the past.
Instant now_is() { return Instant{1'000'000'000} + read_clock(CLOCK_MONOTONIC); }

uint32_t word_of(uint32_t from, uint32_t to, uint32_t message, size_t i) {
  const uint32_t x = from * 7919 + to * 104729 + message * 1299709 + static_cast<uint32_t>(i) * 2654435761u;
  return x ^ x >> 15;
}

/// Short messages, which lie in a slot, are among them, and those of one packet.
uint32_t words_of(uint32_t message) {
  static constexpr uint32_t kWords[] = {3000, 10, 1, 750};
  return kWords[message % std::size(kWords)];
}

size_t count_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

/// This process's own memory, in KiB.
uint64_t resident_kib() {
  std::ifstream status("/proc/self/status");
  uint64_t kib = 0;
  for (std::string word; status >> word;) {
    if (word == "RssAnon:") status >> kib;
  }
  return kib;
}

}  // namespace

void Victim::complain(const std::string& what) {
  if (trouble_.empty()) trouble_ = what;
}

void Victim::on_error_completion(const Qp& /*qp*/, const Completion& completion) {
  complain(std::string("a request failed: ") + cause_text(completion.cause));
}

bool Victim::open(const std::string& directory) {
  SegmentOptions options;
  options.directory = directory;
  options.record = card_of_victim(number_);
  options.warn = [this](const std::string& line) {
    // The only lines that a scribbler may cause, all of which are true.
    const bool true_of_it = line.find("gives memory that cannot be used") != std::string::npos ||
                            line.find("has another version") != std::string::npos;
    if (!true_of_it) complain("the log says: " + line);
  };
  std::string error;
  port_ = SegmentPort::join(options, error);
  if (!port_) {
    complain(error);
    return false;
  }
  EngineConfig config;
  config.mac = options.record.mac;
  config.addresses = options.record.addresses;
  config.max_frame_bytes = options.frame_bytes;
  config.max_qps = 16;
  config.max_regions = 64;
  config.qpn_blocks = this;
  engine_ = std::make_unique<Engine>(config, *port_, random_, *this);
  pd_ = engine_->objects().allocate_pd();
  cq_ = engine_->objects().create_cq(2 * kDepth * Board::kVictims, nullptr);
  return true;
}

void Victim::make_partner(uint32_t other) {
  Partner& partner = partners_[other];
  partner.memory.resize(2 * kDepth * kBytes / 4);
  partner.key = engine_->memory().register_region(pd_, partner.memory.data(), partner.memory.size() * 4,
                                                  reinterpret_cast<uint64_t>(partner.memory.data()), kLocalWrite);
  QpInit init;
  init.pd = pd_;
  init.send_cq = init.recv_cq = cq_;
  init.cap = {kDepth, kDepth, 1, 1, 0};
  partner.qp = engine_->create_qp(init, nullptr);
  if (partner.qp == nullptr || partner.key == 0) return complain("there is no room for a queue pair");
  me_.qpn[other] = partner.qp->qpn();
}

void Victim::connect(uint32_t other) {
  QpAttributes attributes;
  attributes.av.dgid = card_of_victim(other).addresses[0].ip;
  attributes.av.sgid_index = 1;
  attributes.dest_qpn = board_.victims[other].qpn[number_];
  attributes.path_mtu_bytes = 4096;
  // Long enough for a machine that is busy otherwise; only lost packets wait for it.
  attributes.timeout = 17;
  if (bring_up(*engine_, *partners_[other].qp, attributes, QpState::kRts, now_) != ModifyResult::kOk)
    return complain("a queue pair does not connect");
  for (uint32_t i = 0; i < kDepth; i++) post_receive(other, i);
}

void Victim::post_send(uint32_t other) {
  Partner& partner = partners_[other];
  uint32_t* const words = &partner.memory[partner.sent % kDepth * (kBytes / 4)];
  const uint32_t length = words_of(partner.sent);
  for (uint32_t i = 0; i < length; i++) words[i] = word_of(number_, other, partner.sent, i);
  const Sge sge{reinterpret_cast<uint64_t>(words), length * 4, partner.key};
  SendWr wr;
  wr.wr_id = other;
  wr.flags = kSendSignaled;
  wr.sges = &sge;
  wr.num_sge = 1;
  if (engine_->post_send(*partner.qp, wr, now_) != PostResult::kOk) complain("a send was refused");
  partner.sent++;
}

void Victim::post_receive(uint32_t other, uint32_t message) {
  Partner& partner = partners_[other];
  const uint32_t* const words = &partner.memory[(kDepth + message % kDepth) * (kBytes / 4)];
  const Sge sge{reinterpret_cast<uint64_t>(words), kBytes, partner.key};
  if (engine_->post_recv(*partner.qp, {other, &sge, 1}, now_) != PostResult::kOk) complain("a receive was refused");
}

void Victim::check_message(uint32_t other) {
  Partner& partner = partners_[other];
  const uint32_t message = partner.received++;
  const uint32_t* const words = &partner.memory[(kDepth + message % kDepth) * (kBytes / 4)];
  for (uint32_t i = 0; i < words_of(message); i++) {
    if (words[i] != word_of(other, number_, message, i))
      return complain("message " + std::to_string(message) + " of victim " + std::to_string(other) + " is wrong");
  }
  me_.verified++;
  post_receive(other, message + kDepth);
}

void Victim::on_completion(const Completion& completion) {
  if (completion.status != WcStatus::kSuccess) return complain("a completion has failed");
  const auto other = static_cast<uint32_t>(completion.wr_id);
  if (completion.opcode == WcOpcode::kRecv) return check_message(other);
  post_send(other);
}

void Victim::turn() {
  now_ = now_is();
  port_->on_turn(now_);
  const bool idle = engine_->turn(now_) == 0;
  Completion completions[16];
  const uint32_t count = cq_->poll(completions);
  for (uint32_t i = 0; i < count; i++) on_completion(completions[i]);
  if (!idle || count != 0) {
    busy_ = now_;
  } else {
    rest();
  }
}

void Victim::rest() {
  if (number_ % 2 == 0 || now_ - busy_ < kAwake || engine_->wants_transmit() || port_->tx_pending() ||
      !port_->sleep().arm()) {
    sched_yield();
    return;
  }
  const Duration until = std::min(engine_->next_timeout() - now_, milliseconds(20));
  pollfd entry{port_->sleep().fd(), POLLIN, 0};
  poll(&entry, 1, static_cast<int>(std::max<int64_t>(until.ns, 0) / 1'000'000));
  port_->sleep().disarm();
}

/// Nothing that a scribbler sends may be kept.
void Victim::check_resources() {
  static const size_t descriptors = count_descriptors();
  static const uint64_t resident = resident_kib();
  // Descriptors of a letter are open only while it is read; a lane that waits for an answer has one.
  if (const size_t now = count_descriptors(); now > descriptors + 4)
    complain(std::to_string(now) + " descriptors are open, at first it were " + std::to_string(descriptors));
  if (const uint64_t now = resident_kib(); !kSanitized && now > resident + 16'384)
    complain(std::to_string(now) + " KiB of memory are used, at first it were " + std::to_string(resident));
}

std::string Victim::run(const std::string& directory) {
  if (!open(directory)) return trouble_;
  const auto each_other = [this](auto f) {
    for (uint32_t other = 0; other < Board::kVictims; other++) {
      if (other != number_) f(other);
    }
  };
  each_other([this](uint32_t other) { make_partner(other); });
  me_.id = port_->registration().id();
  each_other([this](uint32_t other) {
    while (board_.victims[other].id == 0) usleep(100);
  });
  now_ = now_is();
  each_other([this](uint32_t other) { connect(other); });
  me_.connected = true;
  while (board_.phase == Phase::kConnect) usleep(100);
  each_other([this](uint32_t other) {
    for (uint32_t i = 0; i < kDepth; i++) post_send(other);
  });
  for (uint64_t turns = 0; board_.phase != Phase::kEnd && trouble_.empty(); turns++) {
    turn();
    if (turns % 64 == 0) me_.cpu_us = static_cast<uint64_t>(read_clock(CLOCK_PROCESS_CPUTIME_ID).ns / 1000);
    if (turns % 65536 == 0 && me_.verified > 100) check_resources();
  }
  check_resources();
  me_.nonsense = port_->counters().rx_nonsense;
  for_each_counter(engine_->counters(), [this](std::string_view name, uint64_t value) {
    if (name.starts_with("rx_drop")) me_.dropped += value;
  });
  return trouble_;
}

}  // namespace uroce::segment::test
