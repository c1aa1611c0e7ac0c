// Every message as literal bytes, against a server; what is wrong with a message, and what the answer is.
#include <sys/mman.h>

#include <cerrno>

#include "vfio_user_rig.h"

namespace mqnic::card {
namespace {

class VfioUserProtocolTest : public testing::Test {
 protected:
  static void introduce(RawClient& client) { ASSERT_FALSE(client.exchange(hello()).empty()); }

  RuntimeDirectory directory_;
  std::string path_ = directory_.path() + "/card.sock";
  ServerThread server_{path_};
};

TEST_F(VfioUserProtocolTest, VersionWithAndWithoutCapabilities) {
  const std::string json = R"({"capabilities":{"max_msg_fds":16,"max_data_xfer_size":4096,"pgsizes":4096}})";
  const Bytes want = {7, 0, 1, 0, static_cast<uint8_t>(16 + 4 + json.size() + 1), 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
                      0, 0, 1, 0};
  {
    RawClient client(path_);
    EXPECT_EQ(client.exchange({7, 0, 1, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}),
              want + text(json) + Bytes{0});
  }
  {
    RawClient client(path_);
    const Bytes capabilities =
        text(R"( {"capabilities" : {"max_msg_fds":8, "twin_socket":{"supported":true}, "x":[1,-2.5e3,"\"",null]}} )");
    EXPECT_EQ(client.exchange(message(7, 1, Bytes{0, 0, 9, 0} + capabilities + Bytes{0})),
              want + text(json) + Bytes{0});
  }
  {
    RawClient client(path_);  // an older one
    Bytes older = want;
    older[18] = 0;
    EXPECT_EQ(client.exchange(message(7, 1, {0, 0, 0, 0})), older + text(json) + Bytes{0});
  }
}

TEST_F(VfioUserProtocolTest, VersionsThatAreRefused) {
  const Bytes bodies[] = {{},
                          {0, 0},
                          {1, 0, 0, 0},                              // another major
                          Bytes{0, 0, 1, 0} + text("{}"),            // no NUL
                          Bytes{0, 0, 1, 0} + text("{") + Bytes{0},  // no JSON
                          Bytes{0, 0, 1, 0} + text("{\"a\":}") + Bytes{0},
                          Bytes{0, 0, 1, 0} + text("{\"a\" 1}") + Bytes{0},
                          Bytes{0, 0, 1, 0} + text("{} x") + Bytes{0},
                          Bytes{0, 0, 1, 0} + text("\"abc\\") + Bytes{0},
                          Bytes{0, 0, 1, 0} + text("[[[[[[[[[[[[]]]]]]]]]]]]") + Bytes{0}};
  for (const Bytes& body : bodies) {
    RawClient client(path_);
    EXPECT_EQ(client.exchange(message(3, 1, body)), error_reply(3, 1, EINVAL)) << testing::PrintToString(body);
    EXPECT_FALSE(client.exchange(hello()).empty()) << "it may try again";
  }
}

TEST_F(VfioUserProtocolTest, IntroductionComesFirstAndOnce) {
  RawClient client(path_);
  EXPECT_EQ(client.exchange(message(2, 4, pack({{4, 16}, {4, 0}, {4, 0}, {4, 0}}))), error_reply(2, 4, EINVAL));
  EXPECT_FALSE(client.exchange(hello()).empty());
  EXPECT_EQ(client.exchange(hello()), error_reply(1, 1, EINVAL));
}

TEST_F(VfioUserProtocolTest, DeviceInfo) {
  RawClient client(path_);
  introduce(client);
  EXPECT_EQ(client.exchange(
                {2, 0, 4, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}),
            (Bytes{2, 0, 4, 0, 32, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 3, 0, 0, 0, 10, 0, 0, 0, 5, 0, 0, 0}));
  EXPECT_EQ(client.exchange(message(2, 4, pack({{4, 8}, {4, 0}, {4, 0}, {4, 0}}))), error_reply(2, 4, EINVAL));
  EXPECT_EQ(client.exchange(message(2, 4, {})), error_reply(2, 4, EINVAL));
}

Bytes ask_region(uint32_t index, uint32_t argsz = 256) {
  return message(4, 5, pack({{4, argsz}, {4, 0}, {4, index}, {4, 0}, {8, 0}, {8, 0}}));
}

TEST_F(VfioUserProtocolTest, RegionInfo) {
  RawClient client(path_);
  introduce(client);
  const auto info = [](uint32_t index, uint32_t flags, uint64_t bytes) {
    return reply(4, 5, pack({{4, 32}, {4, flags}, {4, index}, {4, 0}, {8, bytes}, {8, 0}}));
  };
  EXPECT_EQ(client.exchange(ask_region(0)), info(0, 3, 16 << 20));
  for (const uint32_t absent : {1, 2, 3, 4, 5, 6, 8})
    EXPECT_EQ(client.exchange(ask_region(absent)), info(absent, 0, 0));
  EXPECT_EQ(client.exchange(ask_region(7)), info(7, 3, 4096));
  EXPECT_EQ(client.exchange(ask_region(10)), error_reply(4, 5, EINVAL));
  EXPECT_EQ(client.exchange(ask_region(0xffffffff)), error_reply(4, 5, EINVAL));
  EXPECT_EQ(client.exchange(ask_region(0, 31)), error_reply(4, 5, EINVAL));
  EXPECT_TRUE(client.received_fds.empty());
}

TEST_F(VfioUserProtocolTest, DoorbellRegionComesWithItsMemory) {
  RawClient client(path_);
  introduce(client);
  const Bytes sparse = pack({{2, 1}, {2, 1}, {4, 64}, {4, 1}, {4, 0}, {8, 0}, {8, 131072}});
  const Bytes type = pack({{2, 2}, {2, 1}, {4, 0}, {4, 0x80001234}, {4, 1}});
  EXPECT_EQ(client.exchange(ask_region(9)),
            reply(4, 5, pack({{4, 80}, {4, 0xf}, {4, 9}, {4, 32}, {8, 131072}, {8, 0}}) + sparse + type));
  ASSERT_EQ(client.received_fds.size(), 1u);
  EXPECT_EQ(lseek(client.received_fds[0].get(), 0, SEEK_END), 131072);
  EXPECT_NE(ftruncate(client.received_fds[0].get(), 0), 0) << "who can cut it off could crash the server";
  // A client that leaves no room learns how much it takes.
  EXPECT_EQ(client.exchange(ask_region(9, 32)),
            reply(4, 5, pack({{4, 80}, {4, 0xf}, {4, 9}, {4, 0}, {8, 131072}, {8, 0}})));
  // The same memory, read and written by messages.
  EXPECT_EQ(client.exchange(message(5, 10, pack({{8, 131068}, {4, 9}, {4, 4}, {4, 0x11223344}}))),
            reply(5, 10, pack({{8, 131068}, {4, 9}, {4, 4}})));
  uint32_t word = 0;
  EXPECT_EQ(pread(client.received_fds[0].get(), &word, 4, 131068), 4);
  EXPECT_EQ(word, 0x11223344u);
  EXPECT_EQ(client.exchange(message(6, 9, pack({{8, 131068}, {4, 9}, {4, 4}}))),
            reply(6, 9, pack({{8, 131068}, {4, 9}, {4, 4}, {4, 0x11223344}})));
}

TEST_F(VfioUserProtocolTest, IrqInfo) {
  RawClient client(path_);
  introduce(client);
  for (uint32_t index = 0; index < 5; index++) {
    EXPECT_EQ(client.exchange(message(5, 7, pack({{4, 16}, {4, 0}, {4, index}, {4, 0}}))),
              reply(5, 7, pack({{4, 16}, {4, index == 2 ? 1u : 0u}, {4, index}, {4, index == 2 ? 64u : 0u}})));
  }
  EXPECT_EQ(client.exchange(message(5, 7, pack({{4, 16}, {4, 0}, {4, 5}, {4, 0}}))), error_reply(5, 7, EINVAL));
}

Bytes set_irqs(uint32_t flags, uint32_t index, uint32_t start, uint32_t count, const Bytes& data = {}) {
  return message(6, 8, pack({{4, 20 + data.size()}, {4, flags}, {4, index}, {4, start}, {4, count}}) + data);
}

uint64_t take_count(int fd) {
  uint64_t count = 0;
  return read(fd, &count, sizeof count) == 8 ? count : 0;
}

TEST_F(VfioUserProtocolTest, SetIrqs) {
  RawClient client(path_);
  introduce(client);
  const vfio_user::UniqueFd a(eventfd(0, EFD_NONBLOCK));
  const vfio_user::UniqueFd b(eventfd(0, EFD_NONBLOCK));
  const Bytes good = reply(6, 8, {});
  const Bytes wrong = error_reply(6, 8, EINVAL);
  EXPECT_EQ(client.exchange(set_irqs(0x24, 2, 62, 2), {a.get(), b.get()}), good);
  // The client may trigger interrupts itself, to test them: all, or those with a byte that is not 0.
  EXPECT_EQ(client.exchange(set_irqs(0x21, 2, 62, 2)), good);
  EXPECT_EQ(take_count(a.get()), 1u);
  EXPECT_EQ(take_count(b.get()), 1u);
  EXPECT_EQ(client.exchange(set_irqs(0x22, 2, 62, 2, {0, 1})), good);
  EXPECT_EQ(take_count(a.get()), 0u);
  EXPECT_EQ(take_count(b.get()), 1u);
  EXPECT_EQ(client.exchange(set_irqs(0x24, 2, 63, 1)), good);  // without a descriptor: removed
  EXPECT_EQ(client.exchange(set_irqs(0x21, 2, 62, 2)), good);
  EXPECT_EQ(take_count(a.get()), 1u);
  EXPECT_EQ(take_count(b.get()), 0u);
  EXPECT_EQ(client.exchange(set_irqs(0x21, 2, 0, 0)), good);  // all removed
  EXPECT_EQ(client.exchange(set_irqs(0x21, 2, 62, 2)), good);
  EXPECT_EQ(take_count(a.get()), 0u);
  EXPECT_EQ(client.exchange(set_irqs(0x21, 0, 0, 0)), good) << "there are no INTx to switch off";

  EXPECT_EQ(client.exchange(set_irqs(0x24, 2, 63, 2), {a.get(), b.get()}), wrong) << "beyond the last vector";
  EXPECT_EQ(client.exchange(set_irqs(0x24, 2, 0xffffffff, 2), {a.get(), b.get()}), wrong);
  EXPECT_EQ(client.exchange(set_irqs(0x24, 2, 0, 2), {a.get()}), wrong) << "a descriptor is missing";
  EXPECT_EQ(client.exchange(set_irqs(0x24, 0, 0, 1), {a.get()}), wrong) << "there is no INTx";
  EXPECT_EQ(client.exchange(set_irqs(0x24, 5, 0, 1), {a.get()}), wrong);
  EXPECT_EQ(client.exchange(set_irqs(0x22, 2, 0, 2, {1})), wrong) << "a byte is missing";
  EXPECT_EQ(client.exchange(set_irqs(0x09, 2, 0, 1)), wrong) << "nothing can be masked";
  EXPECT_EQ(client.exchange(set_irqs(0x23, 2, 0, 1)), wrong) << "two kinds of data";
  EXPECT_EQ(client.exchange(set_irqs(0x61, 2, 0, 1)), wrong) << "an unknown flag";
  EXPECT_EQ(client.exchange(message(6, 8, {1, 2, 3})), wrong);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(client.exchange(set_irqs(0x24, 2, 0, 1), {ends[1]}), wrong) << "no eventfd: could block the server";
  close(ends[0]);
  close(ends[1]);
}

TEST_F(VfioUserProtocolTest, EventfdThatIsFullDoesNotStopTheServer) {
  RawClient client(path_);
  introduce(client);
  const vfio_user::UniqueFd event(eventfd(0, 0));
  const uint64_t nearly = UINT64_MAX - 1;
  ASSERT_EQ(write(event.get(), &nearly, sizeof nearly), 8);
  EXPECT_EQ(client.exchange(set_irqs(0x24, 2, 0, 1), {event.get()}), reply(6, 8, {}));
  EXPECT_EQ(client.exchange(set_irqs(0x21, 2, 0, 1)), reply(6, 8, {}));
}

Bytes read_region(uint32_t region, uint64_t offset, uint32_t count) {
  return message(8, 9, pack({{8, offset}, {4, region}, {4, count}}));
}
Bytes region_data(uint32_t region, uint64_t offset, const Bytes& data) {
  return reply(8, 9, pack({{8, offset}, {4, region}, {4, data.size()}}) + data);
}
Bytes write_region(uint32_t region, uint64_t offset, const Bytes& data) {
  return message(9, 10, pack({{8, offset}, {4, region}, {4, data.size()}}) + data);
}
Bytes written(uint32_t region, uint64_t offset, uint32_t count) {
  return reply(9, 10, pack({{8, offset}, {4, region}, {4, count}}));
}

TEST_F(VfioUserProtocolTest, ConfigSpace) {
  RawClient client(path_);
  introduce(client);
  EXPECT_EQ(client.exchange(read_region(7, 0, 16)),
            region_data(7, 0, {0x34, 0x12, 0x01, 0x10, 0, 0, 0x10, 0, 0, 0, 0, 0x02, 0, 0, 0, 0}));
  EXPECT_EQ(client.exchange(read_region(7, 0x2c, 4)), region_data(7, 0x2c, {0x34, 0x12, 0x01, 0x00}))
      << "subsystem: the board";
  EXPECT_EQ(client.exchange(read_region(7, 0x34, 1)), region_data(7, 0x34, {0x40}));
  EXPECT_EQ(client.exchange(read_region(7, 0x40, 12)),
            region_data(7, 0x40, {0x11, 0x70, 63, 0, 0, 0, 1, 0, 0, 0x80, 1, 0}))
      << "MSI-X: 64 vectors, table at BAR0+10000, PBA at BAR0+18000";
  // How large is BAR0? 16 MiB, 64 bits.
  EXPECT_EQ(client.exchange(write_region(7, 0x10, Bytes(8, 0xff))), written(7, 0x10, 8));
  EXPECT_EQ(client.exchange(read_region(7, 0x10, 8)), region_data(7, 0x10, {0x04, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff}));
  EXPECT_EQ(client.exchange(write_region(7, 0x00, Bytes(16, 0xff))), written(7, 0, 16)) << "identity is read-only";
  EXPECT_EQ(client.exchange(read_region(7, 0, 8)), region_data(7, 0, {0x34, 0x12, 0x01, 0x10, 0x46, 0x05, 0x10, 0}));
  EXPECT_EQ(client.exchange(write_region(7, 0x42, {0, 0x80})), written(7, 0x42, 2)) << "MSI-X enable";
  EXPECT_EQ(client.exchange(read_region(7, 0x42, 2)), region_data(7, 0x42, {63, 0x80}));
  EXPECT_EQ(client.exchange(message(13, 13, {})), reply(13, 13, {}));
  EXPECT_EQ(client.exchange(read_region(7, 0x42, 2)), region_data(7, 0x42, {63, 0}));
}

TEST_F(VfioUserProtocolTest, PciExpressCapability) {
  RawClient client(path_);
  introduce(client);
  const Bytes fresh = {
      0x10, 0x00, 0x02, 0x00,  // PCI Express, the last of the list; version 2, endpoint
      0x23, 0x80, 0x00, 0x00,  // payloads of 1024 bytes, extended tags, errors by role, no function-level reset
      0x10, 0x28, 0x00, 0x00,  // control: relaxed order, no snoop, payloads of 128 bytes, reads of 512; status
      0x03, 0x01, 0x40, 0x00,  // link: 8 GT/s, 16 lanes, no ASPM
      0x00, 0x00, 0x03, 0x11,  // control; status: 8 GT/s, 16 lanes, the slot's clock
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // no slot, no root
      0x12, 0x00, 0x00, 0x00,                          // completion time-outs of range B, or none
      0x00, 0x00, 0x00, 0x00,                          //
      0x0e, 0x00, 0x00, 0x00,                          // 2.5, 5 and 8 GT/s
      0x03, 0x00, 0x1e, 0x00,                          // the target is 8 GT/s; equalised
  };
  EXPECT_EQ(client.exchange(read_region(7, 0x70, 52)), region_data(7, 0x70, fresh));
  EXPECT_EQ(client.exchange(read_region(7, 0xa4, 4096 - 0xa4)), region_data(7, 0xa4, Bytes(4096 - 0xa4)))
      << "nothing else, and no extended capabilities";
  // What the host sets is kept until a reset, and all else is read-only.
  EXPECT_EQ(client.exchange(write_region(7, 0x70, Bytes(52, 0xff))), written(7, 0x70, 52));
  Bytes set = fresh;
  set[0x08] = 0xff;
  set[0x09] = 0x79;
  set[0x10] = 0xcb;
  set[0x28] = 0x1f;
  set[0x30] = 0x3f;
  EXPECT_EQ(client.exchange(read_region(7, 0x70, 52)), region_data(7, 0x70, set));
  EXPECT_EQ(client.exchange(message(13, 13, {})), reply(13, 13, {}));
  EXPECT_EQ(client.exchange(read_region(7, 0x70, 52)), region_data(7, 0x70, fresh));
}

TEST_F(VfioUserProtocolTest, RegistersOfBar0) {
  RawClient client(path_);
  introduce(client);
  EXPECT_EQ(client.exchange(read_region(0, 0, 8)), region_data(0, 0, {0xff, 0xff, 0xff, 0xff, 0x00, 0x01, 0, 0}));
  EXPECT_EQ(client.exchange(read_region(0, 5, 1)), region_data(0, 5, {1})) << "a part of a register";
  EXPECT_EQ(client.exchange(read_region(0, 2, 4)), region_data(0, 2, {0xff, 0xff, 0x00, 0x01}));
  // The MSI-X table can be written and read back.
  EXPECT_EQ(client.exchange(write_region(0, 0x10000 + 63 * 16, pack({{8, 0xfee00000}, {4, 33}, {4, 0}}))),
            written(0, 0x10000 + 63 * 16, 16));
  EXPECT_EQ(client.exchange(read_region(0, 0x10000 + 63 * 16, 16)),
            region_data(0, 0x10000 + 63 * 16, pack({{8, 0xfee00000}, {4, 33}, {4, 0}})));
  const Bytes wrong = error_reply(9, 10, EINVAL);
  EXPECT_EQ(client.exchange(write_region(0, 2, {1, 2, 3, 4})), wrong);
  EXPECT_EQ(client.exchange(write_region(0, 4, {1, 2})), wrong);
}

TEST_F(VfioUserProtocolTest, AccessesThatAreRefused) {
  RawClient client(path_);
  introduce(client);
  const Bytes wrong = error_reply(8, 9, EINVAL);
  EXPECT_EQ(client.exchange(read_region(0, 16 << 20, 4)), wrong);
  EXPECT_EQ(client.exchange(read_region(0, (16 << 20) - 4, 8)), wrong);
  EXPECT_EQ(client.exchange(read_region(0, UINT64_MAX - 3, 8)), wrong);
  EXPECT_EQ(client.exchange(read_region(0, 0, 0)), wrong);
  EXPECT_EQ(client.exchange(read_region(0, 0, 4097)), wrong);
  EXPECT_EQ(client.exchange(read_region(0, 0, 0xffffffff)), wrong);
  EXPECT_EQ(client.exchange(read_region(1, 0, 4)), wrong);
  EXPECT_EQ(client.exchange(read_region(7, 4093, 4)), wrong);
  EXPECT_EQ(client.exchange(read_region(0xffffffff, 0, 4)), wrong);
  EXPECT_EQ(client.exchange(message(8, 9, Bytes(15))), wrong);
  EXPECT_EQ(client.exchange(message(9, 10, pack({{8, 0}, {4, 0}, {4, 8}, {4, 1}}))), error_reply(9, 10, EINVAL));
  EXPECT_EQ(client.exchange(message(9, 10, pack({{8, 0}, {4, 0}, {4, 4}, {4, 1}, {4, 1}}))),
            error_reply(9, 10, EINVAL));
  EXPECT_EQ(client.exchange(read_region(0, 0, 4096)).size(), 16u + 16 + 4096);
}

Bytes dma_map(uint32_t flags, uint64_t offset, uint64_t address, uint64_t bytes, uint32_t argsz = 32) {
  return message(10, 2, pack({{4, argsz}, {4, flags}, {8, offset}, {8, address}, {8, bytes}}));
}
Bytes dma_unmap(uint64_t address, uint64_t bytes, uint32_t flags = 0) {
  return message(11, 3, pack({{4, 24}, {4, flags}, {8, address}, {8, bytes}}));
}

TEST_F(VfioUserProtocolTest, DmaMapAndUnmap) {
  RawClient client(path_);
  introduce(client);
  const vfio_user::UniqueFd file(memfd_create("dma", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), 1 << 20), 0);
  const Bytes good = reply(10, 2, {});
  const auto refused = [](int error) { return error_reply(10, 2, error); };
  EXPECT_EQ(client.exchange(dma_map(3, 0x1000, 0x40000000, 0x2000), {file.get()}), good);
  EXPECT_EQ(client.exchange(dma_map(3, 0, 0x40001000, 0x1000), {file.get()}), refused(EEXIST));
  EXPECT_EQ(client.exchange(dma_map(3, 0, 0x3ffff000, 0x2000), {file.get()}), refused(EEXIST));
  EXPECT_EQ(client.exchange(dma_map(1, 0, 0x50000000, 0x1000), {file.get()}), good) << "read-only";
  EXPECT_EQ(client.exchange(dma_map(3, 0, 0x60000000, 0x1000)), good) << "without a file: by messages";
  EXPECT_EQ(client.exchange(dma_map(3, 0, 0x60000000, 0x1000), {file.get()}), refused(EEXIST));
  EXPECT_EQ(client.exchange(dma_map(0, 0, 0x70000000, 0x1000), {file.get()}), refused(EINVAL)) << "no rights";
  EXPECT_EQ(client.exchange(dma_map(7, 0, 0x70000000, 0x1000), {file.get()}), refused(EINVAL));
  EXPECT_EQ(client.exchange(dma_map(3, 0, 0x70000000, 0), {file.get()}), refused(EINVAL));
  EXPECT_EQ(client.exchange(dma_map(3, 0, UINT64_MAX - 0xfff, 0x2000), {file.get()}), refused(EINVAL))
      << "wraps around";
  EXPECT_EQ(client.exchange(dma_map(3, 0x100, 0x70000000, 0x1000), {file.get()}), refused(EINVAL))
      << "not a page's start";
  EXPECT_EQ(client.exchange(dma_map(3, 0xff000, 0x70000000, 0x2000), {file.get()}), refused(EINVAL))
      << "beyond its end";
  EXPECT_EQ(client.exchange(dma_map(3, UINT64_MAX, 0x70000000, 0x1000), {file.get()}), refused(EINVAL));
  EXPECT_EQ(client.exchange(dma_map(3, 0, 0x70000000, 0x1000, 31), {file.get()}), refused(EINVAL));
  EXPECT_EQ(client.exchange(dma_map(3, 0, 0x70000000, 0x1000), {file.get(), file.get()}), refused(EINVAL));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(client.exchange(dma_map(3, 0, 0x70000000, 0x1000), {ends[0]}), refused(EINVAL)) << "no file";
  close(ends[0]);
  close(ends[1]);

  EXPECT_EQ(client.exchange(dma_unmap(0x50000000, 0x1000, 1)), error_reply(11, 3, EINVAL));
  EXPECT_EQ(client.exchange(dma_unmap(0, 0, 2)), reply(11, 3, pack({{4, 24}, {4, 2}, {8, 0}, {8, 0}}))) << "all";
  EXPECT_EQ(client.exchange(dma_map(3, 0, 0x40000000, 0x80000), {file.get()}), good) << "nothing is left";
}

// What QEMU does behind an IOMMU of its own: it unmaps ranges that it did not map as such.
TEST_F(VfioUserProtocolTest, UnmapTakesWhateverLiesInTheRange) {
  RawClient client(path_);
  introduce(client);
  const vfio_user::UniqueFd file(memfd_create("dma", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), 1 << 20), 0);
  const Bytes good = reply(10, 2, {});
  const auto map = [&](uint64_t address, uint64_t bytes) {
    return client.exchange(dma_map(3, 0, address, bytes), {file.get()});
  };
  const auto unmapped = [](uint64_t address, uint64_t bytes) {
    return reply(11, 3, pack({{4, 24}, {4, 0}, {8, address}, {8, bytes}}));
  };
  ASSERT_EQ(map(0x40000000, 0x2000), good);
  ASSERT_EQ(map(0x40002000, 0x1000), good);
  ASSERT_EQ(client.exchange(dma_map(3, 0, 0x40010000, 0x1000)), good) << "without a file";
  ASSERT_EQ(map(0x50000000, 0x1000), good);

  const auto cut = error_reply(11, 3, EINVAL);
  EXPECT_EQ(client.exchange(dma_unmap(0x40000000, 0x1000)), cut) << "the first half of a mapping";
  EXPECT_EQ(client.exchange(dma_unmap(0x40001000, 0x1000)), cut) << "the second half";
  EXPECT_EQ(client.exchange(dma_unmap(0x40001000, 0x2000)), cut) << "half of one, all of the next";
  EXPECT_EQ(client.exchange(dma_unmap(0x40002000, 0xf000)), unmapped(0x40002000, 0xf000)) << "two, and a gap";
  EXPECT_EQ(map(0x40000000, 0x1000), error_reply(10, 2, EEXIST)) << "what was refused is whole";
  EXPECT_EQ(map(0x40002000, 0x1000), good) << "what was unmapped is free";
  EXPECT_EQ(client.exchange(dma_unmap(0x60000000, 0x1000)), unmapped(0x60000000, 0x1000)) << "nothing is there";
  EXPECT_EQ(client.exchange(dma_unmap(0, 0x80000000)), unmapped(0, 0x80000000));
  EXPECT_EQ(map(0x40000000, 0x2000), good);
  EXPECT_EQ(map(0x50000000, 0x1000), good);
  EXPECT_EQ(client.exchange(dma_unmap(0, UINT64_MAX)), unmapped(0, UINT64_MAX)) << "as good as all";
  EXPECT_EQ(map(0x50000000, 0x1000), good);

  EXPECT_EQ(client.exchange(dma_unmap(0x50000000, 0)), cut) << "an empty range";
  EXPECT_EQ(client.exchange(dma_unmap(UINT64_MAX - 0xfff, 0x2000)), cut) << "wraps around";
  EXPECT_EQ(map(0x50000000, 0x1000), error_reply(10, 2, EEXIST));
}

TEST_F(VfioUserProtocolTest, ResetAndUnknownCommands) {
  RawClient client(path_);
  introduce(client);
  EXPECT_EQ(client.exchange({13, 0, 13, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}),
            (Bytes{13, 0, 13, 0, 16, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(client.exchange(message(13, 13, {1})), error_reply(13, 13, EINVAL));
  for (const uint16_t command : std::initializer_list<uint16_t>{0, 6, 11, 12, 14, 0xffff}) {
    EXPECT_EQ(client.exchange(message(1, command, Bytes(32))), error_reply(1, command, EOPNOTSUPP));
  }
}

TEST_F(VfioUserProtocolTest, ResetLeavesTheClientsMemoryAndVectors) {
  RawClient client(path_);
  introduce(client);
  const vfio_user::UniqueFd event(eventfd(0, EFD_NONBLOCK));
  ASSERT_EQ(client.exchange(set_irqs(0x24, 2, 3, 1), {event.get()}), reply(6, 8, {}));
  ASSERT_EQ(client.exchange(dma_map(3, 0, 0x40000000, 0x1000)), reply(10, 2, {}));
  ASSERT_EQ(client.exchange(write_region(7, 4, {6, 0})), written(7, 4, 2)) << "memory, bus master";
  ASSERT_EQ(client.exchange(write_region(0, 0x10000, pack({{8, 0xfee00000}, {4, 33}, {4, 0}}))),
            written(0, 0x10000, 16));
  ASSERT_EQ(client.exchange(write_region(9, 0x100, {1, 2, 3, 4})), written(9, 0x100, 4));
  EXPECT_EQ(client.exchange(message(13, 13, {})), reply(13, 13, {}));
  EXPECT_EQ(client.exchange(read_region(7, 4, 2)), region_data(7, 4, {0, 0}));
  EXPECT_EQ(client.exchange(read_region(0, 0x10000, 16)), region_data(0, 0x10000, Bytes(16)));
  EXPECT_EQ(client.exchange(read_region(9, 0x100, 4)), region_data(9, 0x100, Bytes(4))) << "doorbells";
  EXPECT_EQ(client.exchange(dma_map(3, 0, 0x40000000, 0x1000)), error_reply(10, 2, EEXIST)) << "still mapped";
  EXPECT_EQ(client.exchange(set_irqs(0x21, 2, 3, 1)), reply(6, 8, {}));
  EXPECT_EQ(take_count(event.get()), 1u) << "still wired";
}

TEST_F(VfioUserProtocolTest, MigrationIsRefused) {
  RawClient client(path_);
  const Bytes greeting = client.exchange(
      message(1, 1, Bytes{0, 0, 1, 0} + text(R"({"capabilities":{"migration":{"pgsize":4096}}})") + Bytes{0}));
  EXPECT_EQ(std::string(greeting.begin(), greeting.end()).find("migration"), std::string::npos)
      << "who does not say it cannot do it";
  // DEVICE_FEATURE, 24 bytes; argsz 8; is there GET of feature 1, VFIO_DEVICE_FEATURE_MIGRATION? ENOTTY.
  EXPECT_EQ(client.exchange({9, 0, 16, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 1, 0, 5, 0}),
            (Bytes{9, 0, 16, 0, 16, 0, 0, 0, 0x21, 0, 0, 0, 25, 0, 0, 0}));
  const auto feature = [&](uint32_t flags, const Bytes& data = {}) {
    return client.exchange(message(9, 16, pack({{4, 8 + data.size()}, {4, flags}}) + data));
  };
  EXPECT_EQ(feature(0x10001, Bytes(8)), error_reply(9, 16, ENOTTY)) << "get";
  EXPECT_EQ(feature(0x20002, pack({{4, 1}, {4, 0}})), error_reply(9, 16, ENOTTY)) << "stop the device";
  for (const uint32_t logging : {6, 7, 8}) {
    EXPECT_EQ(feature(0x60000 + logging), error_reply(9, 16, ENOTTY)) << "what is dirty";
  }
  EXPECT_EQ(client.exchange(message(9, 16, pack({{4, 7}, {4, 0x10001}}))), error_reply(9, 16, EINVAL));
  EXPECT_EQ(client.exchange(message(9, 16, {8, 0, 0, 0})), error_reply(9, 16, EINVAL));
  // MIG_DATA_READ, MIG_DATA_WRITE; DIRTY_PAGES of older clients: no such commands here.
  for (const uint16_t command : std::initializer_list<uint16_t>{14, 17, 18}) {
    EXPECT_EQ(client.exchange(message(9, command, pack({{4, 16}, {4, 8}}))), error_reply(9, command, EOPNOTSUPP));
  }
  EXPECT_EQ(client.exchange(dma_unmap(0x40000000, 0x1000, 1)), error_reply(11, 3, EINVAL)) << "with its dirty pages";
  for (uint32_t region = 0; region < 10; region++) {
    const Bytes info = client.exchange(ask_region(region));
    ASSERT_GE(info.size(), 48u);
    const Bytes migration = pack({{4, 3}, {4, 1}});
    EXPECT_EQ(std::search(info.begin() + 48, info.end(), migration.begin(), migration.end()), info.end())
        << "VFIO_REGION_TYPE_MIGRATION";
  }
  EXPECT_EQ(client.exchange(message(22, 13, {})), reply(22, 13, {})) << "and goes on";
}

}  // namespace
}  // namespace mqnic::card
