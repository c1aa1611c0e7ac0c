// The register space: every block at its place with its type and version, as the documentation and a shipped build have
// them, for one interface and for several.
#include <set>

#include "tests/unit/card/rig.h"

namespace mqnic::card::test {
namespace {

class CardLayout : public Rig {
 protected:
  struct Block {
    uint32_t type, version, at;
  };
  /// Walks a list of blocks as any driver does.
  std::vector<Block> walk(uint32_t region, uint32_t start) {
    std::vector<Block> blocks;
    std::set<uint32_t> seen;
    uint32_t at = start;
    do {
      if (!seen.insert(at).second) {
        ADD_FAILURE() << "a loop at " << at;
        break;
      }
      if (read(region + at) != 0) blocks.push_back({read(region + at), read(region + at + 4), region + at});
      at = read(region + at + 8);
    } while (at != 0);
    return blocks;
  }
  void expect_blocks(const std::vector<Block>& found, const std::vector<Block>& wanted) {
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].type, wanted[i].type) << i;
      EXPECT_EQ(found[i].version, wanted[i].version) << i;
      EXPECT_EQ(found[i].at, wanted[i].at) << i;
    }
  }
};

TEST_F(CardLayout, DeviceList) {
  expect_blocks(walk(0, 0), {{0xffffffff, 0x100, 0x00},
                             {0x0000c007, 0x100, 0x40},
                             {0x0000c000, 0x100, 0x50},
                             {0x0000c006, 0x100, 0x80},
                             {0x0000c080, 0x200, 0x100},
                             {0x0000c008, 0x100, 0x200}});
}

TEST_F(CardLayout, DeviceListHasAHoleForTheApplication) {
  EXPECT_EQ(read(0x58), 0x70u);
  EXPECT_EQ(read(0x70), 0u);
  EXPECT_EQ(read(0x78), 0x80u);
}

TEST_F(CardLayout, DeviceRegisters) {
  EXPECT_EQ(read(0x18), 0x12340001u) << "board ID";
  EXPECT_GT(read(0x20), 1688947200u) << "built after the generation's last change, 2023-07-10";
  EXPECT_EQ(read(0x4c), 10u) << "minimum interval of interrupts, us";
  EXPECT_EQ(read(0x5c), 0u);
  EXPECT_EQ(read(0x60), 1u);
  EXPECT_EQ(read(0x64), 0x1000000u);
  EXPECT_EQ(read(0x68), 0x80000u);
  EXPECT_EQ(read(0x8c), 0x20000u);
  EXPECT_EQ(read(0x90), 4096u);
  EXPECT_EQ(read(0x94), 8u);
  EXPECT_EQ(read(0x98), 0u);
  EXPECT_EQ(read(0x20c), 2u) << "a TX and an RX clock";
  EXPECT_EQ(read(0x21c), 250'000'000u);
  EXPECT_EQ(read(0x224), 322'265'625u);
}

TEST_F(CardLayout, InterruptIntervalHasSixteenBits) {
  write(0x4c, 0x12345);
  EXPECT_EQ(read(0x4c), 0x2345u);
}

TEST_F(CardLayout, InterfaceList) {
  expect_blocks(walk(0, 0x80000), {{0xc001, 0x400, 0x80000},
                                   {0xc010, 0x400, 0x80040},
                                   {0xc020, 0x400, 0x80060},
                                   {0xc030, 0x400, 0x80080},
                                   {0xc031, 0x400, 0x800a0},
                                   {0xc090, 0x200, 0x80100},
                                   {0xc002, 0x200, 0x81000},
                                   {0xc004, 0x300, 0x82000}});
  expect_blocks(walk(0, read(0x8100c)), {{0xc003, 0x300, 0x81010}});
  expect_blocks(walk(0, read(0x8200c)), {{0xc040, 0x100, 0x82010}});
}

TEST_F(CardLayout, InterfaceRegisters) {
  EXPECT_EQ(read(0x8000c), 0x1f11u) << "RSS, PTP, TX and RX checksum, RX hash, LFC, PFC";
  EXPECT_EQ(read(0x80010), 1u);
  EXPECT_EQ(read(0x80014), 1u);
  EXPECT_EQ(read(0x80020), 9214u);
  EXPECT_EQ(read(0x80024), 9214u);
  EXPECT_EQ(read(0x80028), 9214u);
  EXPECT_EQ(read(0x8002c), 9214u);
  EXPECT_EQ(read(0x80030), 32768u);
  EXPECT_EQ(read(0x80034), 131072u);
  const struct {
    uint32_t block, offset, count, stride;
  } managers[] = {{0x80040, 0x180000, 16, 16},
                  {0x80060, 0x200000, 128, 16},
                  {0x80080, 0x400000, 64, 32},
                  {0x800a0, 0x600000, 64, 32}};
  for (const auto& manager : managers) {
    EXPECT_EQ(read(manager.block + 0x0c), manager.offset);
    EXPECT_EQ(read(manager.block + 0x10), manager.count);
    EXPECT_EQ(read(manager.block + 0x14), manager.stride);
  }
  EXPECT_EQ(read(0x8010c), 0x0801u) << "one port, a table of 2^8";
  EXPECT_EQ(read(0x80110), 0x100000u);
  EXPECT_EQ(read(0x8101c), 7u) << "port: LFC, PFC, internal MAC control";
  EXPECT_EQ(read(0x8201c), 0x800000u);
  EXPECT_EQ(read(0x82020), 64u);
  EXPECT_EQ(read(0x82024), 4u);
  EXPECT_EQ(read(0x82028), 0u);
  EXPECT_EQ(read(0x8202c), 0u);
}

TEST_F(CardLayout, TwoInterfacesOfTwoPorts) {
  CardConfig config;
  config.interfaces = 2;
  config.ports_per_interface = 2;
  build(config);
  EXPECT_EQ(read(0x60), 2u);
  EXPECT_EQ(read(0x64), 0x800000u);
  EXPECT_EQ(read(0x68), 0x40000u);
  for (const uint32_t base : {0u, 0x800000u}) {
    std::vector<Block> wanted = {{0xc001, 0x400, base + 0x40000}, {0xc010, 0x400, base + 0x40040},
                                 {0xc020, 0x400, base + 0x40060}, {0xc030, 0x400, base + 0x40080},
                                 {0xc031, 0x400, base + 0x400a0}, {0xc090, 0x200, base + 0x40100},
                                 {0xc002, 0x200, base + 0x41000}, {0xc002, 0x200, base + 0x42000},
                                 {0xc004, 0x300, base + 0x43000}, {0xc004, 0x300, base + 0x44000}};
    expect_blocks(walk(base, 0x40000), wanted);
    EXPECT_EQ(read(base + 0x40110), 0x80000u);
    EXPECT_EQ(read(base + 0x40120), 0x80400u) << "the second port's table";
    EXPECT_EQ(read(base + 0x4401c), 0x500000u) << "the second scheduler's channels";
    EXPECT_EQ(read(base + 0x4402c), 0x10u) << "and its destination: port 1";
    EXPECT_EQ(read(base), 0xffffffffu) << "the device's list is in every interface's space";
    EXPECT_EQ(read(base + 0x60), 2u);
  }
}

TEST_F(CardLayout, TwoPortsSendEachThroughItsScheduler) {
  CardConfig config;
  config.ports_per_interface = 2;
  build(config);
  start_cq(at::kCq, kTxCq, 4);
  start_cq(at::kCq + 0x10, kRxCq, 4);
  start_ring(at::kTxq, kTxRing, 4, 0, 0);
  start_ring(at::kRxq, kRxRing, 4, 0, 1);
  const uint32_t port1 = 0x82020, scheduler1 = 0x84028, channels1 = 0xa00000;
  write(port1, 1);
  write(port1 + 4, 1);
  write(scheduler1, 1);
  write(channels1, 3);
  put_tx(0, plain_frame(60));
  ring(at::kTxq, 1);
  run();
  EXPECT_TRUE(wire(0).from_card.empty());
  ASSERT_EQ(wire(1).from_card.size(), 1u);
  EXPECT_EQ(host[kTxCq + 0x15], 0x10) << "the scheduler's destination";

  put_rx(0, 2048);
  ring(at::kRxq, 1);
  wire(1).to_card.push_back(plain_frame(60));
  run();
  EXPECT_EQ(host[kRxCq + 0x15], 1) << "the port";
}

TEST_F(CardLayout, WithoutPtpTheBlockIsAbsent) {
  CardConfig config;
  config.ptp = false;
  build(config);
  for (const Block& block : walk(0, 0)) EXPECT_NE(block.type, 0xc080u);
  EXPECT_EQ(read(0x8000c) & (1u << 4), 0u);
  bring_up();
  now_ns = 123456;
  put_rx(0, 2048);
  ring(at::kRxq, 1);
  wire().to_card.push_back(plain_frame(60));
  run();
  EXPECT_EQ(u32(kRxCq + 8), 0u);
}

TEST_F(CardLayout, MsixAreaIsPlainStorage) {
  for (uint32_t vector = 0; vector < 64; ++vector) {
    EXPECT_EQ(read(0x10000 + vector * 16 + 12), 1u) << "masked";
    for (uint32_t word = 0; word < 4; ++word) write(0x10000 + vector * 16 + word * 4, vector * 4 + word + 1000);
  }
  for (uint32_t i = 0; i < 256; ++i) EXPECT_EQ(read(0x10000 + i * 4), i + 1000);
  write(0x18000, 0xdeadbeef);
  write(0x18004, 0x01234567);
  EXPECT_EQ(read(0x18000), 0xdeadbeefu);
  EXPECT_EQ(read(0x18004), 0x01234567u);
  EXPECT_EQ(card->report().bad_register_writes, 0u);
}

TEST_F(CardLayout, StatisticsCountDma) {
  bring_up();
  const auto statistic = [&](uint32_t id) { return read(0x20000 + id * 8) | uint64_t{read(0x20004 + id * 8)} << 32; };
  const uint64_t reads = statistic(33), writes = statistic(49);
  put_tx(0, plain_frame(60));
  ring(at::kTxq, 1);
  run();
  EXPECT_EQ(statistic(33) - reads, 16u + 60u) << "descriptor and packet";
  EXPECT_EQ(statistic(49) - writes, 32u) << "completion";
  EXPECT_EQ(statistic(32), 2u);
  EXPECT_EQ(statistic(48), 1u);
  put_descriptor(kTxRing + 16, 60, 0x1234);
  put_descriptor(kRxRing, 2048, 0x1234);
  ring(at::kTxq, 2);
  ring(at::kRxq, 1);
  wire().to_card.push_back(plain_frame(60));
  run();
  EXPECT_EQ(statistic(35), 1u) << "read errors";
  EXPECT_EQ(statistic(51), 1u) << "write errors";
}

// "DMA statistics: ids 34, 36, 37, 50, 52, 53 count as well."
TEST_F(CardLayout, StatisticsCountRequestsAndLatencies) {
  bring_up();
  const auto statistic = [&](uint32_t id) { return read(0x20000 + id * 8) | uint64_t{read(0x20004 + id * 8)} << 32; };
  EXPECT_EQ(statistic(36), 0u);
  put_tx(0, plain_frame(1000));
  ring(at::kTxq, 1);
  run();
  EXPECT_EQ(statistic(36), 1u + 2u) << "descriptor, and a packet of two requests of 512 bytes";
  EXPECT_EQ(statistic(52), 1u) << "completion";
  for (const uint32_t id : {34u, 37u, 50u, 53u}) EXPECT_GT(statistic(id), 0u) << id;
  EXPECT_GT(statistic(37), statistic(34)) << "there are more requests than operations";
  const uint64_t before = statistic(50);
  put_rx(0, 2048);
  ring(at::kRxq, 1);
  wire().to_card.push_back(plain_frame(600));
  run();
  EXPECT_EQ(statistic(52), 1u + 3u + 1u) << "a frame of three requests of 256 bytes, and its completion";
  EXPECT_EQ(statistic(50), 3 * before) << "this host takes the same time each time";
  for (const uint32_t id : {38u, 47u, 54u, 63u}) EXPECT_EQ(statistic(id), 0u) << id;
}

TEST_F(CardLayout, OutsideTheBarReadsAllOnes) {
  EXPECT_EQ(read(0x1000000), 0xffffffffu);
  EXPECT_EQ(read(0xfffffffc), 0xffffffffu);
  EXPECT_EQ(read(0x2), 0xffffffffu) << "32-bit accesses only";
  write(0x1000000, 1);
  write(0x2, 1);
  EXPECT_EQ(card->report().bad_register_writes, 2u);
}

TEST_F(CardLayout, OverridesAreWhatReadsGive) {
  CardConfig config;
  config.overrides = {{0x80044, 0x300}, {0x8, 0x0}};
  build(config);
  EXPECT_EQ(read(0x80044), 0x300u);
  EXPECT_EQ(read(0x8), 0u);
  EXPECT_EQ(read(0x80064), 0x400u);
}

TEST_F(CardLayout, RssMaskReachesTheWholeTable) {
  write(at::kRssMask, 0xffffffff);
  EXPECT_EQ(read(at::kRssMask), 0xffu);
  for (uint32_t i = 0; i < 256; ++i) write(at::kTable + 4 * i, i);
  for (uint32_t i = 0; i < 256; ++i) EXPECT_EQ(read(at::kTable + 4 * i), i);
  write(0x80118, 0xffffffff);
  EXPECT_EQ(read(0x80118), 0x800000ffu) << "the application's mask, and its bit for direct queues";
  write(at::kTable + 4 * 256, 1);
  EXPECT_EQ(card->report().bad_register_writes, 1u);
}

TEST_F(CardLayout, LinkIsTheCables) {
  EXPECT_EQ(read(at::kTxControl), 0x03010000u) << "off, so held; link up";
  EXPECT_EQ(read(at::kRxControl), 0x03010000u);
  wire().plugged = false;
  EXPECT_EQ(read(at::kRxControl), 0x03000000u);
  write(at::kTxControl, 1);
  write(at::kRxControl, 1);
  EXPECT_EQ(read(at::kTxControl), 0x00000001u);
  EXPECT_EQ(read(at::kRxControl), 0x00000001u);
  EXPECT_TRUE(wire().receiving);
  write(at::kRxControl, 0x100);
  EXPECT_EQ(read(at::kRxControl), 0x03000100u);
  EXPECT_FALSE(wire().receiving);
}

TEST_F(CardLayout, ImpossibleBuildsAreRefused) {
  const auto refused = [&](auto change) {
    CardConfig config;
    change(config);
    EXPECT_THROW(Card(config, memory, {}), std::invalid_argument);
  };
  refused([](CardConfig& c) { c.interfaces = 0; });
  refused([](CardConfig& c) { c.bar_bytes = 3u << 20; });
  refused([](CardConfig& c) { c.tx_queues = 100000; });
  refused([](CardConfig& c) { c.completion_queues = 0; });
  refused([](CardConfig& c) { c.log2_block_max = 4; });
  refused([](CardConfig& c) { c.max_frame_bytes = 100000; });
}

}  // namespace
}  // namespace mqnic::card::test
