// Two devices in one process, and a program that carries the packets between them by hand: no port, no DPDK, no clock.
//
// One side WRITEs into the other's memory, READs it back and sends a message. Every seventh packet is lost on the way;
// what the program reads at the end is whole all the same.
#include <uroce/uroce.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

using namespace uroce;
using namespace uroce::rdma;

namespace {

constexpr uint32_t kBytes = 100'000;
constexpr uint32_t kWireTimeUs = 5;

void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "two_devices: %s\n", what);
  std::exit(1);
}

struct Side {
  explicit Side(uint8_t number) : memory(kBytes) {
    DeviceOptions options;
    options.mac = MacAddress{{2, 0, 0, 0, 0, number}};
    options.addresses = {*parse_local_address("192.0.2." + std::to_string(number) + "/24")};
    options.seed = number;
    std::string error;
    device = Device::create(options, port, nullptr, error);
    require(device != nullptr, error.c_str());
    pd = device->allocate_pd();
    cq = device->create_cq(64);
    region = device->register_memory(pd, memory.data(), memory.size(), kLocalWrite | kRemoteWrite | kRemoteRead);
    qp = device->create_qp({.pd = pd, .send_cq = &cq, .recv_cq = &cq});
    require(cq && region && qp, "the device has no room");
  }

  MemoryPort port;
  std::vector<uint8_t> memory;
  std::unique_ptr<Device> device;
  PdId pd = 0;
  CompletionQueue cq;
  MemoryRegion region;
  QueuePair qp;
};

class World {
 public:
  World() {
    require(near_.qp.connect(far_.qp.address()) == ModifyResult::kOk, "near does not connect");
    require(far_.qp.connect(near_.qp.address()) == ModifyResult::kOk, "far does not connect");
  }

  Side& near_side() { return near_; }
  Side& far_side() { return far_; }
  uint32_t lost() const { return lost_; }

  /// Advances time and passes packets until `side` has a completion.
  Completion completion_of(Side& side) {
    Completion completion;
    for (int rounds = 0; rounds < 1'000'000; rounds++) {
      if (side.cq.poll({&completion, 1}) == 1) {
        require(completion.status == WcStatus::kSuccess, cause_text(completion.cause));
        return completion;
      }
      near_.device->turn(now_);
      far_.device->turn(now_);
      carry(near_.port, far_.port);
      carry(far_.port, near_.port);
      now_ = now_ + microseconds(kWireTimeUs);
    }
    require(false, "nothing completes");
    return completion;
  }

 private:
  void carry(MemoryPort& from, MemoryPort& to) {
    while (const auto frame = from.take()) {
      if (++carried_ % 7 == 0) {
        lost_++;
      } else {
        to.deliver(*frame);
      }
    }
  }

  Side near_{1};
  Side far_{2};
  Instant now_{0};
  uint32_t carried_ = 0;
  uint32_t lost_ = 0;
};

void transfer(World& world, WrOpcode opcode) {
  Side& near = world.near_side();
  const Sge sge = near.region.sge(0, kBytes);
  SendWr wr;
  wr.opcode = opcode;
  wr.flags = kSendSignaled;
  wr.sges = &sge;
  wr.num_sge = 1;
  wr.remote_addr = world.far_side().region.address();
  wr.rkey = world.far_side().region.rkey();
  require(near.qp.post_send(wr) == PostResult::kOk, "a post was refused");
  world.completion_of(near);
}

void send_message(World& world) {
  Side& near = world.near_side();
  Side& far = world.far_side();
  const Sge into = far.region.sge(0, kBytes);
  RecvWr receive;
  receive.wr_id = 7;
  receive.sges = &into;
  receive.num_sge = 1;
  require(far.qp.post_recv(receive) == PostResult::kOk, "a receive was refused");
  std::memcpy(near.memory.data(), "hello, far side", 16);
  const Sge from = near.region.sge(0, 16);
  SendWr wr;
  wr.opcode = WrOpcode::kSendWithImm;
  wr.imm_or_rkey = 42;
  wr.sges = &from;
  wr.num_sge = 1;
  require(near.qp.post_send(wr) == PostResult::kOk, "a send was refused");
  const Completion received = world.completion_of(far);
  require(received.wr_id == 7 && received.byte_len == 16 && received.imm_or_rkey == 42, "the wrong message came");
  require(std::memcmp(far.memory.data(), "hello, far side", 16) == 0, "the message is not what was sent");
}

}  // namespace

int main() {
  World world;
  std::vector<uint8_t>& near = world.near_side().memory;
  std::vector<uint8_t>& far = world.far_side().memory;
  for (uint32_t i = 0; i < kBytes; i++) near[i] = static_cast<uint8_t>(i * 31 >> 3);
  const std::vector<uint8_t> sent = near;
  transfer(world, WrOpcode::kRdmaWrite);
  require(far == sent, "the WRITE left other bytes");
  std::memset(near.data(), 0, near.size());
  transfer(world, WrOpcode::kRdmaRead);
  require(near == sent, "the READ brought other bytes");
  send_message(world);
  require(world.lost() > 0, "nothing was lost");
  std::printf("two_devices: %u bytes written, read and compared, %u packets lost on the way\n", kBytes, world.lost());
  return 0;
}
