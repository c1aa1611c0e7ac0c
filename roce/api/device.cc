#include "uroce/device.h"

#include "api/device_core.h"
#include "api/options.h"
#include "engine/address_table.h"
#include "engine/neighbours.h"
#include "engine/object_tables.h"
#include "engine/queue_pairs.h"
#include "transport/frame_builder.h"
#include "transport/memory_table.h"
#include "transport/qp_init.h"

namespace uroce::rdma {

namespace {

constexpr uint32_t kFrameBytesMin = 256 + kMaxFrameOverhead;
constexpr uint32_t kMaxQps = 1u << 17;
constexpr uint32_t kMaxRegions = 1u << 16;

bool check(const DeviceOptions& options, std::string& error) {
  const auto complain = [&error](const char* what) { return error = what, false; };
  if (options.mac.is_zero() || options.mac.is_multicast())
    return complain("mac must be that of one host, and not zero");
  if (options.max_frame_bytes < kFrameBytesMin) {
    error = "max_frame_bytes must be " + std::to_string(kFrameBytesMin) + " or more";
    return false;
  }
  if (options.max_qps == 0 || options.max_qps > kMaxQps) return complain("max_qps must be 1 .. 131072");
  if (options.max_regions == 0 || options.max_regions > kMaxRegions) return complain("max_regions must be 1 .. 65536");
  return check_addresses(options.addresses, error);
}

bool possible(const QpCapabilities& cap) {
  return cap.max_send_wr <= kMaxQueueEntries && cap.max_recv_wr <= kMaxQueueEntries && cap.max_send_sge <= kMaxSges &&
         cap.max_recv_sge <= kMaxSges && cap.max_inline_data <= kMaxInlineBytes;
}

}  // namespace

Device::Device(std::unique_ptr<DeviceCore> core) : core_(std::move(core)) {}
Device::~Device() = default;

std::unique_ptr<Device> Device::create(const DeviceOptions& options, Port& port, EventListener* listener,
                                       std::string& error) {
  if (!check(options, error)) return nullptr;
  EngineConfig config;
  if (!congestion_from(options.congestion, options.congestion_parameters, config.congestion, error)) return nullptr;
  config.mac = options.mac;
  config.addresses = options.addresses;
  config.max_frame_bytes = options.max_frame_bytes;
  config.max_qps = options.max_qps;
  config.max_regions = options.max_regions;
  config.traffic_class = options.traffic_class;
  config.loss_recovery = options.loss_recovery;
  auto core = std::make_unique<DeviceCore>(listener);
  if (options.seed == 0) {
    core->random = std::make_unique<SystemRandom>();
  } else {
    core->random = std::make_unique<SeededRandom>(options.seed);
  }
  core->told = options.start;
  core->owned = std::make_unique<uroce::Engine>(config, port, *core->random, *core);
  core->engine = core->owned.get();
  return std::unique_ptr<Device>(new Device(std::move(core)));
}

uint32_t Device::turn(Instant now) { return core_->engine->turn(core_->told = now); }
uint32_t Device::transmit(Instant now) { return core_->engine->transmit(core_->told = now); }
Instant Device::next_timeout() const { return core_->engine->next_timeout(); }
bool Device::wants_transmit() const { return core_->engine->wants_transmit(); }
std::span<const LocalAddress> Device::gids() const { return core_->engine->addresses().gids(); }
const MacAddress& Device::mac() const { return core_->engine->addresses().mac(); }
uint32_t Device::active_mtu_bytes() const { return core_->engine->qps().active_mtu_bytes(); }

bool Device::set_static_neighbour(const IpAddress& ip, const MacAddress& mac) {
  return core_->engine->neighbours().set_static(ip, 0, mac);
}

PdId Device::allocate_pd() {
  const PdId pd = core_->engine->objects().allocate_pd();
  if (pd == 0) return 0;
  if (core_->pds.size() <= pd) core_->pds.resize(pd + 1);
  core_->pds[pd] = true;
  return pd;
}

bool Device::deallocate_pd(PdId pd) {
  if (!core_->has(pd) || !core_->engine->objects().deallocate_pd(pd)) return false;
  core_->pds[pd] = false;
  return true;
}

CompletionQueue Device::create_cq(uint32_t capacity, const CompletionChannel* channel) {
  CompletionQueue queue;
  if (capacity == 0 || capacity > kMaxCqEntries) return queue;
  if (channel != nullptr && !*channel) return queue;
  void* const told = channel != nullptr ? channel->held_.get() : nullptr;
  queue.queue_ = {held(core_->engine->objects().create_cq(capacity, told)), {core_.get()}};
  return queue;
}

SharedReceiveQueue Device::create_srq(PdId pd, uint32_t max_wr, uint32_t max_sge) {
  SharedReceiveQueue queue;
  if (!core_->has(pd) || max_wr == 0 || max_wr > kMaxQueueEntries || max_sge > kMaxSges) return queue;
  queue.queue_ = {held(core_->engine->objects().create_srq(pd, max_wr, max_sge, nullptr)), {core_.get()}};
  return queue;
}

MemoryRegion Device::register_memory(PdId pd, void* memory, uint64_t bytes, uint32_t access) {
  MemoryRegion region;
  if (!core_->has(pd) || (access & kFlushPersistent) != 0) return region;  // no memory persists
  const auto address = reinterpret_cast<uint64_t>(memory);
  region.key_ = core_->engine->memory().register_region(pd, memory, bytes, address, access);
  if (region.key_ == 0) return region;
  region.core_ = core_.get();
  region.address_ = address;
  region.length_ = bytes;
  return region;
}

QueuePair Device::create_qp(const QueuePairOptions& options) {
  QueuePair pair;
  const bool offered = options.type == QpType::kRc || options.type == QpType::kUc || options.type == QpType::kUd;
  if (!offered || !possible(options.cap) || !core_->has(options.pd)) return pair;
  for (const CompletionQueue* cq : {options.send_cq, options.recv_cq}) {
    if (cq == nullptr || !*cq || cq->queue_.get_deleter().core != core_.get()) return pair;
  }
  if (options.srq != nullptr && (!*options.srq || options.srq->queue_.get_deleter().core != core_.get())) return pair;
  QpInit init;
  init.type = options.type;
  init.pd = options.pd;
  init.send_cq = real(options.send_cq->queue_.get());
  init.recv_cq = real(options.recv_cq->queue_.get());
  init.srq = options.srq != nullptr ? real(options.srq->queue_.get()) : nullptr;
  init.cap = options.cap;
  init.sq_sig_all = options.sq_sig_all;
  init.loss_recovery = options.loss_recovery;
  pair.qp_ = {held(core_->engine->create_qp(init, nullptr)), {core_.get()}};
  pair.first_psn_ = Psn(core_->random->next_u32());
  return pair;
}

Destination Device::create_destination(PdId pd, const AddressVector& address) {
  Destination destination;
  if (!core_->has(pd)) return destination;
  destination.handle_ = {core_->engine->create_ah(pd, address, core_->now()).release(), {core_.get()}};
  return destination;
}

std::vector<std::pair<std::string, uint64_t>> Device::counters() const {
  std::vector<std::pair<std::string, uint64_t>> all;
  for_each_counter(core_->engine->counters(),
                   [&all](const char* name, uint64_t value) { all.emplace_back(name, value); });
  return all;
}

}  // namespace uroce::rdma
