// The library's device, as a program uses it: what it makes, what it refuses, what it tells.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "uroce/uroce.h"

namespace uroce::rdma {
namespace {

constexpr uint32_t kBytes = 8192;
constexpr uint32_t kQkey = 0x11223344;

struct Heard final : EventListener {
  void on_qp_event(uint32_t qp_num, AsyncEvent event) override { events.emplace_back(qp_num, event); }
  void on_cq_error() override { cq_errors++; }
  void on_srq_limit() override { srq_limits++; }
  void on_error_completion(const Completion& completion) override { errors.push_back(completion.cause); }
  void on_refused_request(uint32_t qp_num, Cause cause) override { refused.emplace_back(qp_num, cause); }

  std::vector<std::pair<uint32_t, AsyncEvent>> events;
  std::vector<Cause> errors;
  std::vector<std::pair<uint32_t, Cause>> refused;
  int cq_errors = 0;
  int srq_limits = 0;
};

DeviceOptions options_of(uint8_t number) {
  DeviceOptions options;
  options.mac = MacAddress{{2, 0, 0, 0, 0, number}};
  options.addresses = {{IpAddress::v4(0xC0000200u + number), 24, 0}};
  options.seed = number;
  return options;
}

struct Host {
  explicit Host(uint8_t number, uint32_t completions = 64) {
    std::string error;
    device = Device::create(options_of(number), port, &heard, error);
    if (device == nullptr) ADD_FAILURE() << error;
    pd = device->allocate_pd();
    cq = device->create_cq(completions);
    region = device->register_memory(pd, memory.data(), kBytes, kLocalWrite | kRemoteWrite | kRemoteRead);
  }
  QueuePair make(QpType type, const SharedReceiveQueue* srq = nullptr) {
    QueuePairOptions options;
    options.type = type;
    options.pd = pd;
    options.send_cq = options.recv_cq = &cq;
    options.srq = srq;
    options.cap.max_send_wr = options.cap.max_recv_wr = 16;
    return device->create_qp(options);
  }
  std::vector<Completion> poll() {
    std::vector<Completion> completions(64);
    completions.resize(cq.poll(completions));
    return completions;
  }

  Heard heard;
  MemoryPort port;
  std::vector<uint8_t> memory = std::vector<uint8_t>(kBytes);
  std::unique_ptr<Device> device;
  PdId pd = 0;
  CompletionQueue cq;
  MemoryRegion region;
};

class LibraryDevice : public testing::Test {
 protected:
  void pass_time(int rounds = 200) {
    for (int i = 0; i < rounds; i++, now_ = now_ + microseconds(20)) {
      a_.device->turn(now_);
      b_.device->turn(now_);
      while (const auto frame = a_.port.take()) b_.port.deliver(*frame);
      while (const auto frame = b_.port.take()) a_.port.deliver(*frame);
    }
  }
  void connect(QueuePair& a, QueuePair& b) {
    ASSERT_EQ(a.connect(b.address()), ModifyResult::kOk);
    ASSERT_EQ(b.connect(a.address()), ModifyResult::kOk);
    pass_time();
    ASSERT_TRUE(a.path_resolved() && b.path_resolved());
  }
  SendWr write(uint64_t wr_id, const Sge& sge, uint32_t rkey) const {
    SendWr wr;
    wr.wr_id = wr_id;
    wr.opcode = WrOpcode::kRdmaWrite;
    wr.flags = kSendSignaled;
    wr.sges = &sge;
    wr.num_sge = 1;
    wr.remote_addr = b_.region.address();
    wr.rkey = rkey;
    return wr;
  }
  void post_receives(QueuePair& qp, const Host& host, int count) {
    for (int i = 0; i < count; i++) {
      const Sge sge = host.region.sge(0, 1024);
      ASSERT_EQ(qp.post_recv({.wr_id = 100, .sges = &sge, .num_sge = 1}), PostResult::kOk);
    }
  }

  Instant now_{0};
  Host a_{1};
  Host b_{2};
};

TEST_F(LibraryDevice, WritesIntoThePeersMemory) {
  QueuePair a = a_.make(QpType::kRc);
  QueuePair b = b_.make(QpType::kRc);
  connect(a, b);
  std::memset(a_.memory.data(), 0x5a, kBytes);
  const Sge sge = a_.region.sge(0, kBytes);
  ASSERT_EQ(a.post_send(write(7, sge, b_.region.rkey())), PostResult::kOk);
  EXPECT_EQ(a.send_slots_free(), 15u);
  pass_time();
  const auto completions = a_.poll();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].wr_id, 7u);
  EXPECT_EQ(completions[0].status, WcStatus::kSuccess);
  EXPECT_EQ(a_.memory, b_.memory);
  EXPECT_EQ(a.send_slots_free(), 16u);
}

TEST_F(LibraryDevice, ARefusedRequestIsExplainedOnBothSides) {
  QueuePair a = a_.make(QpType::kRc);
  QueuePair b = b_.make(QpType::kRc);
  connect(a, b);
  const Sge sge = a_.region.sge(0, 64);
  ASSERT_EQ(a.post_send(write(1, sge, b_.region.rkey() ^ 0x100)), PostResult::kOk);
  pass_time();
  const auto completions = a_.poll();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, WcStatus::kRemAccessErr);
  EXPECT_EQ(a_.heard.errors, std::vector{Cause::kNakRemoteAccess});
  EXPECT_EQ(b_.heard.refused, (std::vector{std::pair{b.qp_num(), Cause::kRemoteKey}}));
  EXPECT_EQ(b_.heard.events, (std::vector{std::pair{b.qp_num(), AsyncEvent::kQpAccessErr}}));
  EXPECT_EQ(a.state(), QpState::kErr);
}

TEST_F(LibraryDevice, DatagramsGoWhereTheDestinationSays) {
  QueuePair a = a_.make(QpType::kUd);
  QueuePair b = b_.make(QpType::kUd);
  ASSERT_EQ(a.activate(kQkey), ModifyResult::kOk);
  ASSERT_EQ(b.initialize(0), ModifyResult::kOk) << "to post receives first";
  ASSERT_EQ(b.activate(kQkey), ModifyResult::kOk);
  post_receives(b, b_, 1);
  AddressVector address;
  address.dgid = b.address().gid;
  address.sgid_index = 1;
  const Destination destination = a_.device->create_destination(a_.pd, address);
  ASSERT_TRUE(destination);
  EXPECT_FALSE(destination.resolved());
  pass_time();
  ASSERT_TRUE(destination.resolved());
  const Sge sge = a_.region.sge(0, 100);
  SendWr wr;
  wr.sges = &sge;
  wr.num_sge = 1;
  wr.ah = destination.handle();
  wr.remote_qpn = b.qp_num();
  wr.remote_qkey = kQkey;
  ASSERT_EQ(a.post_send(wr), PostResult::kOk);
  pass_time();
  const auto completions = b_.poll();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].byte_len, 100 + kGrhBytes);
  EXPECT_EQ(completions[0].src_qp, a.qp_num());
}

TEST_F(LibraryDevice, ADestinationNeedsASourceAddress) {
  AddressVector address;
  address.dgid = IpAddress::v4(0xC0000202);
  address.sgid_index = 9;
  EXPECT_FALSE(a_.device->create_destination(a_.pd, address));
}

TEST_F(LibraryDevice, ASharedReceiveQueueTellsOfItsLimit) {
  SharedReceiveQueue srq = b_.device->create_srq(b_.pd, 8, 1);
  ASSERT_TRUE(srq);
  QueuePair a = a_.make(QpType::kRc);
  QueuePair b = b_.make(QpType::kRc, &srq);
  connect(a, b);
  const Sge into = b_.region.sge(0, 1024);
  for (int i = 0; i < 3; i++) ASSERT_EQ(srq.post({.wr_id = 5, .sges = &into, .num_sge = 1}), PostResult::kOk);
  srq.set_limit(3);
  const Sge from = a_.region.sge(0, 8);
  SendWr wr;
  wr.sges = &from;
  wr.num_sge = 1;
  ASSERT_EQ(a.post_send(wr), PostResult::kOk);
  pass_time();
  EXPECT_EQ(b_.heard.srq_limits, 1);
  ASSERT_EQ(b_.poll().size(), 1u);
}

TEST_F(LibraryDevice, AQueueThatOverrunsSaysSo) {
  Host small(3, 1);
  QueuePair a = small.make(QpType::kRc);
  QueuePairAddress nobody;
  nobody.gid = IpAddress::v4(0xC0000209);
  ASSERT_EQ(a.connect(nobody), ModifyResult::kOk);
  const Sge sge = small.region.sge(0, 8);
  for (int i = 0; i < 2; i++) ASSERT_EQ(a.post_send(write(1, sge, 0)), PostResult::kOk);
  QpAttributes attributes;
  attributes.state = QpState::kErr;
  ASSERT_EQ(a.modify(attributes, kAttrState), ModifyResult::kOk);
  EXPECT_TRUE(small.cq.overrun());
  EXPECT_EQ(small.heard.cq_errors, 1);
}

TEST_F(LibraryDevice, ReceivesArePostedBeforeThePeerMaySend) {
  QueuePair b = b_.make(QpType::kRc);
  const Sge sge = b_.region.sge(0, 8);
  const RecvWr receive{.wr_id = 1, .sges = &sge, .num_sge = 1};
  EXPECT_EQ(b.post_recv(receive), PostResult::kBadState);
  ASSERT_EQ(b.initialize(kRemoteWrite), ModifyResult::kOk);
  EXPECT_EQ(b.initialize(0), ModifyResult::kBadTransition) << "what it was told first holds";
  EXPECT_EQ(b.post_recv(receive), PostResult::kOk);
  QueuePair a = a_.make(QpType::kRc);
  ASSERT_EQ(b.connect(a.address()), ModifyResult::kOk);
  EXPECT_EQ(b.state(), QpState::kRts);
  EXPECT_EQ(b.attributes().path_mtu_bytes, b_.device->active_mtu_bytes());
  EXPECT_EQ(b.attributes().dest_qpn, a.qp_num());
}

TEST_F(LibraryDevice, AConnectionThatCannotBeIsRefused) {
  QueuePair a = a_.make(QpType::kRc);
  QueuePairAddress v6;
  v6.gid = *parse_ip("2001:db8::1");  // the source address is IPv4
  EXPECT_EQ(a.connect(v6), ModifyResult::kNoRoute);
  EXPECT_EQ(a.state(), QpState::kInit);
  QueuePair b = b_.make(QpType::kRc);
  EXPECT_EQ(a.connect(b.address(), {.path_mtu_bytes = 1000}), ModifyResult::kBadValue);
  EXPECT_EQ(a.connect(b.address()), ModifyResult::kOk);
  EXPECT_EQ(a.connect(b.address()), ModifyResult::kBadTransition) << "it is connected already";
}

TEST_F(LibraryDevice, ObjectsMoveAndGo) {
  MemoryRegion moved = std::move(a_.region);
  EXPECT_TRUE(moved);
  EXPECT_FALSE(a_.region);  // NOLINT(bugprone-use-after-move): that is what is asked
  const uint32_t key = moved.rkey();
  moved = a_.device->register_memory(a_.pd, a_.memory.data(), 16, kLocalWrite);
  EXPECT_NE(moved.rkey(), key);
  EXPECT_EQ(moved.length(), 16u);
  EXPECT_FALSE(a_.device->deallocate_pd(a_.pd)) << "a region is in it";
  moved = {};
  EXPECT_TRUE(a_.device->deallocate_pd(a_.pd));
}

TEST_F(LibraryDevice, BetweenTurnsItIsTheTimeOfTheLastOne) {
  DeviceOptions options = options_of(3);
  options.start = Instant{} + milliseconds(5000);
  MemoryPort port;
  std::string error;
  const auto device = Device::create(options, port, nullptr, error);
  ASSERT_TRUE(device) << error;
  CompletionQueue cq = device->create_cq(4);
  QueuePair qp = device->create_qp({.pd = device->allocate_pd(), .send_cq = &cq, .recv_cq = &cq});
  ASSERT_EQ(qp.connect({a_.device->gids()[1].ip, 7, {}}), ModifyResult::kOk);
  QpAttributes attributes;
  attributes.state = QpState::kErr;
  ASSERT_EQ(qp.modify(attributes, kAttrState), ModifyResult::kOk);
  const auto time_of_flushed_post = [&] {
    EXPECT_EQ(qp.post_send(SendWr{}), PostResult::kOk);
    Completion completion;
    EXPECT_EQ(cq.poll({&completion, 1}), 1u);
    return Instant{completion.timestamp_ns};
  };
  EXPECT_EQ(time_of_flushed_post(), options.start);
  device->turn(options.start + milliseconds(1));
  EXPECT_EQ(time_of_flushed_post(), options.start + milliseconds(1));
  device->transmit(options.start + milliseconds(2));
  EXPECT_EQ(time_of_flushed_post(), options.start + milliseconds(2));
}

TEST_F(LibraryDevice, NoQueuePairWithoutCompletionQueues) {
  QueuePairOptions options;
  options.pd = a_.pd;
  EXPECT_FALSE(a_.device->create_qp(options));
  const CompletionQueue none;
  options.send_cq = options.recv_cq = &none;
  EXPECT_FALSE(a_.device->create_qp(options));
}

TEST_F(LibraryDevice, QueuesHaveALargestSize) {
  EXPECT_TRUE(a_.device->create_cq(kMaxCqEntries));
  EXPECT_FALSE(a_.device->create_cq(kMaxCqEntries + 1));
  EXPECT_FALSE(a_.device->create_cq(0));
  EXPECT_TRUE(a_.device->create_srq(a_.pd, kMaxQueueEntries, kMaxSges));
  EXPECT_FALSE(a_.device->create_srq(a_.pd, kMaxQueueEntries + 1, 1));
  EXPECT_FALSE(a_.device->create_srq(a_.pd, 1, kMaxSges + 1));
  EXPECT_FALSE(a_.device->create_srq(a_.pd, 0, 1));
  QueuePairOptions options;
  options.pd = a_.pd;
  options.send_cq = options.recv_cq = &a_.cq;
  options.cap = {kMaxQueueEntries, kMaxQueueEntries, kMaxSges, kMaxSges, kMaxInlineBytes};
  EXPECT_TRUE(a_.device->create_qp(options));
  for (uint32_t QpCapabilities::*const member :
       {&QpCapabilities::max_send_wr, &QpCapabilities::max_recv_wr, &QpCapabilities::max_send_sge,
        &QpCapabilities::max_recv_sge, &QpCapabilities::max_inline_data}) {
    QueuePairOptions larger = options;
    larger.cap.*member += 1;
    EXPECT_FALSE(a_.device->create_qp(larger));
  }
}

TEST_F(LibraryDevice, NothingIsMadeInADomainThatIsNotThere) {
  for (const PdId pd : {PdId{0}, a_.pd + 1, PdId{70'000}}) {
    EXPECT_FALSE(a_.device->register_memory(pd, a_.memory.data(), 8, kLocalWrite)) << pd;
    EXPECT_FALSE(a_.device->create_srq(pd, 8, 1)) << pd;
    EXPECT_FALSE(a_.device->create_destination(pd, {})) << pd;
    EXPECT_FALSE(a_.device->deallocate_pd(pd)) << pd;
    QueuePairOptions options;
    options.pd = pd;
    options.send_cq = options.recv_cq = &a_.cq;
    EXPECT_FALSE(a_.device->create_qp(options)) << pd;
  }
}

/// The library has no XRC domains.
TEST_F(LibraryDevice, QueuePairsOfXrcAreRefused) {
  for (const QpType type : {QpType::kXrcSend, QpType::kXrcRecv}) {
    QueuePairOptions options{.type = type, .pd = a_.pd, .send_cq = &a_.cq, .recv_cq = &a_.cq};
    EXPECT_FALSE(a_.device->create_qp(options));
  }
}

TEST_F(LibraryDevice, QueuesOfAnotherEngineAreNotTaken) {
  QueuePairOptions options;
  options.pd = a_.pd;
  options.send_cq = &a_.cq;
  options.recv_cq = &b_.cq;
  EXPECT_FALSE(a_.device->create_qp(options));
  options.recv_cq = &a_.cq;
  const SharedReceiveQueue foreign = b_.device->create_srq(b_.pd, 8, 1);
  options.srq = &foreign;
  EXPECT_FALSE(a_.device->create_qp(options));
  const SharedReceiveQueue none;
  options.srq = &none;
  EXPECT_FALSE(a_.device->create_qp(options)) << "it would have a receive queue that nobody asked for";
}

TEST_F(LibraryDevice, TheConnectionSaysWhatThePeerMayDo) {
  QueuePair a = a_.make(QpType::kRc);
  QueuePair b = b_.make(QpType::kRc);
  ASSERT_EQ(b.initialize(kRemoteWrite | kRemoteRead), ModifyResult::kOk);
  ASSERT_EQ(b.connect(a.address(), {.access = 0}), ModifyResult::kOk);
  ASSERT_EQ(a.connect(b.address()), ModifyResult::kOk);
  const Sge sge = a_.region.sge(0, 64);
  ASSERT_EQ(a.post_send(write(1, sge, b_.region.rkey())), PostResult::kOk);
  pass_time();
  EXPECT_EQ(a_.heard.errors.size(), 1u);
  EXPECT_EQ(b_.heard.refused, (std::vector{std::pair{b.qp_num(), Cause::kRequestNotEnabled}}));
}

TEST_F(LibraryDevice, NumbersRepeatWithTheSeed) {
  Host again(1);
  Host other(4);
  const QueuePair first = a_.make(QpType::kRc);
  const QueuePair second = again.make(QpType::kRc);
  const QueuePair third = other.make(QpType::kRc);
  EXPECT_EQ(first.qp_num(), second.qp_num());
  EXPECT_EQ(first.address().psn, second.address().psn);
  EXPECT_NE(first.qp_num(), third.qp_num());
}

TEST_F(LibraryDevice, CountersHaveNames) {
  QueuePair a = a_.make(QpType::kRc);
  QueuePair b = b_.make(QpType::kRc);
  connect(a, b);
  uint64_t asked = 0;
  for (const auto& [name, value] : a_.device->counters()) asked += name == "arp_tx" ? value : 0;
  EXPECT_GE(asked, 1u);
}

TEST_F(LibraryDevice, AStaticNeighbourIsNotAskedFor) {
  ASSERT_TRUE(a_.device->set_static_neighbour(b_.device->gids()[1].ip, b_.device->mac()));
  QueuePair a = a_.make(QpType::kRc);
  QueuePair b = b_.make(QpType::kRc);
  ASSERT_EQ(a.connect(b.address()), ModifyResult::kOk);
  EXPECT_TRUE(a.path_resolved());
}

struct BadOption {
  const char* name;
  void (*spoil)(DeviceOptions& options);
  const char* complaint;
};

class BadDeviceOptions : public testing::TestWithParam<BadOption> {};
INSTANTIATE_TEST_SUITE_P(
    Each, BadDeviceOptions,
    testing::Values(BadOption{"NoMac", [](DeviceOptions& o) { o.mac = {}; }, "mac"},
                    BadOption{"GroupMac", [](DeviceOptions& o) { o.mac = kBroadcastMac; }, "mac"},
                    BadOption{"SmallFrames", [](DeviceOptions& o) { o.max_frame_bytes = 300; }, "must be 369 or more"},
                    BadOption{"NoQps", [](DeviceOptions& o) { o.max_qps = 0; }, "max_qps"},
                    BadOption{"NoRegions", [](DeviceOptions& o) { o.max_regions = 0; }, "max_regions"},
                    BadOption{"ManyAddresses", [](DeviceOptions& o) { o.addresses.resize(256); }, "addresses"},
                    BadOption{"Prefix", [](DeviceOptions& o) { o.addresses[0].prefix_bits = 120; }, "192.0.2.1"},
                    BadOption{"Vlan", [](DeviceOptions& o) { o.addresses[0].vlan_id = 4095; }, "VLAN"},
                    BadOption{"Algorithm", [](DeviceOptions& o) { o.congestion = "cubic"; }, "cubic"},
                    BadOption{"Parameter", [](DeviceOptions& o) { o.congestion_parameters = {"speed=9"}; }, "speed"}),
    [](const auto& each) { return std::string(each.param.name); });

TEST_P(BadDeviceOptions, AreRefusedInOneLine) {
  DeviceOptions options = options_of(1);
  GetParam().spoil(options);
  MemoryPort port;
  std::string error;
  EXPECT_EQ(Device::create(options, port, nullptr, error), nullptr);
  EXPECT_NE(error.find(GetParam().complaint), std::string::npos) << error;
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

class BadEndpointOptions : public testing::Test {
 protected:
  void expect_refused(const EndpointOptions& options, const char* complaint) {
    std::string error;
    EXPECT_EQ(Endpoint::open(options, nullptr, error), nullptr);
    EXPECT_NE(error.find(complaint), std::string::npos) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
  EndpointOptions options_;
};

TEST_F(BadEndpointOptions, AnUnknownAlgorithm) {
  options_.congestion = "cubic";
  expect_refused(options_, "cubic");
}

TEST_F(BadEndpointOptions, AnMtuThatCarriesNoPacket) {
  options_.mtu = 300;
  expect_refused(options_, "mtu");
}

TEST_F(BadEndpointOptions, FaultsThatAreNone) {
  options_.faults = "loss 1%; explode";
  expect_refused(options_, "explode: no such fault");
}

TEST_F(BadEndpointOptions, MoreAddressesThanThereAreGids) {
  options_.addresses.resize(256);
  expect_refused(options_, "255 addresses");
}

}  // namespace
}  // namespace uroce::rdma
