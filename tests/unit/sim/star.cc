#include "star.h"

#include <cstdlib>
#include <cstring>

#include "engine/address_table.h"
#include "engine/bring_up.h"
#include "engine/object_tables.h"
#include "transport/memory_table.h"
#include "transport/qp_init.h"
#include "transport/requester.h"

namespace uroce::sim {

namespace {

constexpr uint32_t kMessageBytes = 1 << 20;
constexpr uint32_t kOfAHost = 4096;

void require(bool holds) {
  if (!holds) std::abort();
}

fabric::FabricFrame to_fabric(Frame&& frame) {
  fabric::FabricFrame result{frame.data(), static_cast<uint32_t>(frame.size()), nullptr};
  result.token = frame.detach();
  return result;
}

}  // namespace

fabric::FabricFrame Star::Pool::allocate(uint32_t bytes) { return to_fabric(Frame(bytes)); }

fabric::FabricFrame Star::Pool::clone(const fabric::FabricFrame& frame) { return to_fabric(Frame(frame.view())); }

void Star::End::deliver(Frame&& frame) {
  star->switch_->on_frame(port, to_fabric(std::move(frame)), star->world_.now());
}

void Star::End::on_event(Event /*event*/, Instant now) {
  waits = false;
  star->pump(*this, now);
}

void Star::Sampler::on_event(Event /*event*/, Instant now) {
  looks++;
  for (unsigned i = 0; i < kPriorities; i++) bytes += star->switch_->queue_bytes(star->receiver_port(), i);
  if (now + microseconds(1) < until) star->world_.events().schedule(*this, now + microseconds(1), Event{});
}

/// Sends frames on a cable as long as it is free.
void Star::pump(End& end, Instant now) {
  while (!end.waits) {
    if (end.to_host->ready_at() > now) {
      end.waits = true;
      world_.events().schedule(end, end.to_host->ready_at(), End::Event{});
      return;
    }
    const fabric::FabricFrame frame = switch_->poll_transmit(end.port, now);
    if (!frame) return;
    end.to_host->deliver(Frame::adopt(frame.token));
  }
}

Star::Star(const StarConfig& config) : config_(config), world_(config.seed), random_(config.seed + 1) {
  fabric::SwitchConfig sw;
  sw.ports.resize(config.senders + 1);
  for (fabric::PortConfig& port : sw.ports) {
    port.bits_per_second = config.bits_per_second;
    port.cable_delay = config.cable_delay;
  }
  for (fabric::PriorityConfig& priority : sw.priorities) priority.ecn = config.ecn;
  require(fabric::check_config(sw).empty());
  switch_.reset(new fabric::Switch(sw, pool_, random_, this));
  for (uint32_t i = 0; i <= config.senders; i++) add_host(static_cast<uint8_t>(i + 1));
  receiver_ = hosts_.back();
  memory_.push_back(std::make_unique<uint8_t[]>(kMessageBytes));
  for (uint32_t i = 0; i < config.senders; i++) connect_flow(i);
}

Star::~Star() = default;

void Star::add_host(uint8_t number) {
  EngineConfig engine = simple_config(number);
  engine.congestion = config_.congestion;
  engine.congestion.link_bits_per_second = config_.bits_per_second;
  Host& host = world_.add_host(engine);
  auto end = std::make_unique<End>();
  end->star = this;
  end->port = static_cast<fabric::PortId>(ends_.size());
  LinkConfig link;
  link.delay = config_.cable_delay;
  link.bits_per_second = config_.bits_per_second;
  end->to_switch = std::make_unique<Link>(world_.events(), random_, *end, link);
  end->to_host = std::make_unique<Link>(world_.events(), random_, host.port(), link);
  NicConfig nic;
  nic.tx_frames = 4;
  host.port().connect(world_.events(), *end->to_switch, nic);
  ends_.push_back(std::move(end));
  hosts_.push_back(&host);
}

void Star::connect_flow(uint32_t i) {
  const auto make = [](Host& host) {
    QpInit init;
    init.pd = host.engine().objects().allocate_pd();
    init.send_cq = host.engine().objects().create_cq(16, nullptr);
    init.recv_cq = host.engine().objects().create_cq(16, nullptr);
    init.cap = {kOfAHost, 1, 1, 1, 0};
    return host.engine().create_qp(init, nullptr);
  };
  Host& from = *hosts_[i];
  Qp* a = make(from);
  Qp* b = make(*receiver_);
  require(a != nullptr && b != nullptr);
  QpAttributes attributes;
  attributes.access = kRemoteWrite;
  attributes.path_mtu_bytes = config_.mtu;
  attributes.rq_psn = attributes.sq_psn = Psn(0x100 * (i + 1));
  attributes.timeout = 14;
  attributes.av.sgid_index = 1;
  attributes.av.dgid = receiver_->engine().addresses().gids()[1].ip;
  attributes.dest_qpn = b->qpn();
  require(bring_up(from.engine(), *a, attributes, QpState::kRts, world_.now()) == ModifyResult::kOk);
  attributes.av.dgid = from.engine().addresses().gids()[1].ip;
  attributes.dest_qpn = a->qpn();
  require(bring_up(receiver_->engine(), *b, attributes, QpState::kRts, world_.now()) == ModifyResult::kOk);
  uint8_t* const target = memory_.front().get();
  remote_addr_ = reinterpret_cast<uint64_t>(target);
  const uint32_t rkey = receiver_->engine().memory().register_region(b->init().pd, target, kMessageBytes, remote_addr_,
                                                                     kLocalWrite | kRemoteWrite);
  memory_.push_back(std::make_unique<uint8_t[]>(kMessageBytes));
  const auto local = reinterpret_cast<uint64_t>(memory_.back().get());
  const uint32_t lkey =
      from.engine().memory().register_region(a->init().pd, memory_.back().get(), kMessageBytes, local, kLocalWrite);
  local_.push_back({local, kMessageBytes, lkey});
  rkeys_.push_back(rkey);
  qps_.push_back(a);
  first_psn_.push_back(attributes.sq_psn);
}

void Star::start() {
  for (uint32_t i = 0; i < senders(); i++) {
    for (uint32_t m = 0; m < kOfAHost; m++) {
      SendWr wr;
      wr.opcode = WrOpcode::kRdmaWrite;
      wr.sges = &local_[i];
      wr.num_sge = 1;
      wr.remote_addr = remote_addr_;
      wr.rkey = rkeys_[i];
      require(hosts_[i]->engine().post_send(*qps_[i], wr, world_.now()) == PostResult::kOk);
    }
    hosts_[i]->wake();
  }
}

double Star::mean_queue_bytes(Duration time) {
  Sampler sampler;
  sampler.star = this;
  sampler.until = world_.now() + time;
  world_.events().schedule(sampler, world_.now(), Sampler::Event{});
  world_.run_for(time);
  return static_cast<double>(sampler.bytes) / static_cast<double>(sampler.looks);
}

uint64_t Star::drops() const {
  uint64_t sum = 0;
  for (const auto& end : ends_) sum += switch_->counters(end->port).dropped();
  return sum;
}

uint64_t Star::acknowledged(uint32_t i) const {
  return static_cast<uint64_t>((qps_[i]->requester()->window().una().value() - first_psn_[i].value()) & Psn::kMask);
}

}  // namespace uroce::sim
