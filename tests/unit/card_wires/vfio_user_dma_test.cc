// A client's memory by messages: what the server asks, byte by byte, and what becomes of clients that answer wrong.
#include <cerrno>

#include "vfio_user_dma_rig.h"

namespace mqnic::card {
namespace {

Bytes ask_write(uint16_t id, uint64_t address, const Bytes& data) {
  return message(id, 12, pack({{8, address}, {8, data.size()}}) + data);
}

/// The server's commands without the data of writes: command, address and count.
std::vector<std::array<uint64_t, 3>> outline(const PrivateMemoryBus& bus) {
  std::vector<std::array<uint64_t, 3>> lines;
  for (const Bytes& command : bus.asked) {
    std::array<uint64_t, 3> line{command[2], 0, 0};
    std::memcpy(&line[1], command.data() + 16, 16);
    line[1] -= bus.base();
    lines.push_back(line);
  }
  return lines;
}
using Outline = std::vector<std::array<uint64_t, 3>>;

TEST_F(VfioUserDmaTest, OneFrameByteForByte) {
  PrivateMemoryBus bus(path_);
  TestHost host(bus);
  ASSERT_NO_FATAL_FAILURE(host.start());
  EXPECT_TRUE(bus.asked.empty()) << "nothing to do, nothing to ask";
  Frame frame(60);
  for (uint8_t i = 0; i < 14; i++) frame[i] = static_cast<uint8_t>(0xa0 + i);  // the rest is zeros, whose checksum is 0
  ASSERT_TRUE(host.send(frame));
  ASSERT_EQ(receive(bus, host), frame);
  const Bytes done = {0, 0, 0, 0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                      0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80};
  const uint64_t base = bus.base();
  EXPECT_EQ(bus.asked, (std::vector<Bytes>{
                           ask_read(1, base + kTxRing, 16),
                           ask_read(2, base + kTxBuffer, 60),
                           ask_write(3, base + kTxDone, done),
                           ask_read(4, base + kRxRing, 16),
                           ask_write(5, base + kRxBuffer, frame),
                           ask_write(6, base + kRxDone, done),
                       }));
  // One of these messages as it is on the socket: id 1, command 11, 32 bytes, a command, no error; address and count.
  Bytes literal = {1, 0, 11, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0};
  std::memcpy(literal.data() + 16, &base, sizeof base);
  EXPECT_EQ(bus.asked[0], literal);
}

TEST_F(VfioUserDmaTest, LongFramesInPiecesThatTheClientTakes) {
  const auto pieces = [](const PrivateMemoryBus& bus, uint64_t command, uint64_t from) {
    std::vector<uint64_t> sizes;
    for (const auto& [what, address, count] : outline(bus)) {
      if (what == command && address >= from && address < from + 10240) sizes.push_back(count);
    }
    return sizes;
  };
  using Sizes = std::vector<uint64_t>;
  {
    PrivateMemoryBus bus(path_);  // without capabilities it takes a megabyte at a time; we never send so much
    TestHost host(bus);
    ASSERT_NO_FATAL_FAILURE(host.start());
    ASSERT_TRUE(host.send(numbered_frame(1, 9214)));
    ASSERT_EQ(receive(bus, host), numbered_frame(1, 9214));
    EXPECT_EQ(pieces(bus, 11, kTxBuffer), (Sizes{4096, 4096, 1022}));
    EXPECT_EQ(pieces(bus, 12, kRxBuffer), (Sizes{4096, 4096, 1022}));
  }
  PrivateMemoryBus bus(path_, R"({"capabilities":{"max_data_xfer_size":500}})");
  TestHost host(bus);
  ASSERT_NO_FATAL_FAILURE(host.start());
  ASSERT_TRUE(host.send(numbered_frame(2, 1200)));
  ASSERT_EQ(receive(bus, host), numbered_frame(2, 1200));
  EXPECT_EQ(pieces(bus, 11, kTxBuffer), (Sizes{500, 500, 200}));
  EXPECT_EQ(pieces(bus, 12, kRxBuffer), (Sizes{500, 500, 200}));
}

TEST_F(VfioUserDmaTest, FramesGoRoundAndRoundTheRings) {
  PrivateMemoryBus bus(path_);
  TestHost host(bus);
  ASSERT_NO_FATAL_FAILURE(host.start());
  for (unsigned number = 0; number < 3 * TestHost::kEntries; number++) {
    const Frame frame = numbered_frame(number, 60 + number % 700);
    ASSERT_TRUE(host.send(frame)) << number;
    ASSERT_EQ(receive(bus, host), frame) << number;
  }
}

TEST_F(VfioUserDmaTest, OnlyWhatHasNoFileIsAskedFor) {
  PrivateMemoryBus bus(path_);
  bus.shared_bytes = 0x11000;  // the rings, and the first page of the first buffer
  TestHost host(bus);
  ASSERT_NO_FATAL_FAILURE(host.start());
  ASSERT_TRUE(host.send(numbered_frame(1, 9214)));
  ASSERT_EQ(receive(bus, host), numbered_frame(1, 9214));
  EXPECT_EQ(outline(bus), (Outline{{11, 0x11000, 4096},
                                   {11, 0x12000, 1022},
                                   {12, kRxBuffer, 4096},
                                   {12, kRxBuffer + 4096, 4096},
                                   {12, kRxBuffer + 8192, 1022}}));
}

TEST_F(VfioUserDmaTest, NothingIsAskedWithoutTheRight) {
  {
    PrivateMemoryBus bus(path_);
    bus.rights = 1;
    TestHost host(bus);
    ASSERT_NO_FATAL_FAILURE(host.start());
    ASSERT_TRUE(host.send(numbered_frame(1, 60)));
    ASSERT_NO_FATAL_FAILURE(wait_for_consumer(bus, host.card().rx_queues.at(0), 1));
    EXPECT_EQ(outline(bus), (Outline{{11, kTxRing, 16}, {11, kTxBuffer, 60}, {11, kRxRing, 16}}));
  }
  {
    PrivateMemoryBus bus(path_);
    bus.rights = 2;
    TestHost host(bus);
    ASSERT_NO_FATAL_FAILURE(host.start());
    ASSERT_TRUE(host.send(numbered_frame(1, 60)));
    ASSERT_NO_FATAL_FAILURE(wait_for_consumer(bus, host.card().tx_queues.at(0), 1));
    EXPECT_TRUE(bus.asked.empty());
  }
  EXPECT_EQ(server_.stop().dma_faults, 4u) << "two completions and a frame were not written, a descriptor was not read";
}

TEST_F(VfioUserDmaTest, NothingIsAskedOfAClientThatTakesNothing) {
  PrivateMemoryBus bus(path_, R"({"capabilities":{"max_data_xfer_size":0}})");
  TestHost host(bus);
  ASSERT_NO_FATAL_FAILURE(host.start());
  ASSERT_TRUE(host.send(numbered_frame(1, 60)));
  ASSERT_NO_FATAL_FAILURE(wait_for_consumer(bus, host.card().tx_queues.at(0), 1));
  EXPECT_TRUE(bus.asked.empty());
}

TEST_F(VfioUserDmaTest, NothingIsAskedForWhatWasUnmapped) {
  PrivateMemoryBus bus(path_);
  TestHost host(bus);
  ASSERT_NO_FATAL_FAILURE(host.start());
  bus.exchange(message(7, 3, pack({{4, 24}, {4, 2}, {8, 0}, {8, 0}})));
  ASSERT_TRUE(host.send(numbered_frame(1, 60)));
  ASSERT_NO_FATAL_FAILURE(wait_for_consumer(bus, host.card().tx_queues.at(0), 1));
  EXPECT_TRUE(bus.asked.empty());
  EXPECT_EQ(server_.stop().dma_faults, 1u);
}

TEST_F(VfioUserDmaTest, ClientMayRefuse) {
  PrivateMemoryBus bus(path_);
  TestHost host(bus);
  ASSERT_NO_FATAL_FAILURE(host.start());
  bus.twist = [](const Bytes& command, const Bytes& answer) {
    return command[2] == 11 && command.size() == 32 && command[24] == 60 ? error_reply(command[0], 11, EFAULT) : answer;
  };
  ASSERT_TRUE(host.send(numbered_frame(1, 60)));
  EXPECT_EQ(receive(bus, host), Frame(60)) << "what cannot be read is zeros";
  ASSERT_TRUE(host.send(numbered_frame(2, 61)));
  EXPECT_EQ(receive(bus, host), numbered_frame(2, 61)) << "and that is all";
  EXPECT_EQ(server_.stop().dma_faults, 1u);
}

TEST_F(VfioUserDmaTest, AcknowledgementOfFourBytesAsInTheSpecificationsText) {
  PrivateMemoryBus bus(path_);
  TestHost host(bus);
  ASSERT_NO_FATAL_FAILURE(host.start());
  bus.twist = [](const Bytes& command, Bytes answer) {
    if (command[2] == 12) answer = reply(command[0], 12, Bytes(answer.begin() + 16, answer.begin() + 28));
    return answer;
  };
  ASSERT_TRUE(host.send(numbered_frame(1, 60)));
  EXPECT_EQ(receive(bus, host), numbered_frame(1, 60));
}

TEST_F(VfioUserDmaTest, AnswersThatEndTheConnection) {
  using Twist = std::function<Bytes(Bytes)>;
  const auto set = [](size_t at, uint8_t value) -> Twist {
    return [=](Bytes answer) {
      answer[at] ^= value;
      return answer;
    };
  };
  const Twist twists[] = {
      set(0, 1),   // of another message
      set(2, 7),   // of another command
      set(16, 1),  // another address
      set(24, 1),  // another count
      [](Bytes) { return reply(1, 11, {}); },
      [](Bytes answer) { return reply(1, 11, Bytes(answer.begin() + 16, answer.end() - 1)); },
      [](Bytes answer) { return reply(1, 11, Bytes(answer.begin() + 16, answer.end()) + Bytes{0}); },
      [](Bytes answer) { return answer + answer; },  // twice: the second one answers nothing
  };
  for (const Twist& twist : twists) {
    PrivateMemoryBus bus(path_);
    TestHost host(bus);
    ASSERT_NO_FATAL_FAILURE(get_asked(bus, host));
    const Bytes answer = twist(bus.answer(bus.asked[0]));
    const bool right_at_first = answer.size() > bus.answer(bus.asked[0]).size() + 1;
    ASSERT_TRUE(bus.client().send(answer));
    if (right_at_first) {
      EXPECT_FALSE(bus.client().receive().empty()) << "what comes next was asked before the rest came";
    }
    expect_sent_away(bus);
    host.abandon();
  }
  next_client_is_served(path_);
}

TEST_F(VfioUserDmaTest, AnswersThatNobodyWaitsFor) {
  RawClient client(path_);
  ASSERT_FALSE(client.exchange(hello()).empty());
  ASSERT_TRUE(client.send(reply(1, 11, pack({{8, 0}, {8, 0}}))));
  EXPECT_TRUE(client.closed());
}

TEST_F(VfioUserDmaTest, CommandsThatComeMeanwhileAreKeptInOrder) {
  PrivateMemoryBus bus(path_);
  TestHost host(bus);
  ASSERT_NO_FATAL_FAILURE(get_asked(bus, host));
  for (uint16_t id = 1000; id < 1200; id++) {
    ASSERT_TRUE(bus.client().send(message(id, 9, pack({{8, 4}, {4, 0}, {4, 4}}))));
  }
  usleep(20'000);
  EXPECT_FALSE(bus.client().pending()) << "one thing after the other";
  bus.hold = false;
  ASSERT_TRUE(bus.client().send(bus.answer(bus.asked[0])));
  for (uint16_t id = 1000; id < 1200;) {
    const Bytes got = bus.client().receive();
    ASSERT_FALSE(got.empty());
    if ((got[8] & 0xf) == 0) {
      bus.take(got);
    } else {
      ASSERT_EQ(got, reply(id++, 9, pack({{8, 4}, {4, 0}, {4, 4}, {4, 0x100}})));
    }
  }
  EXPECT_EQ(receive(bus, host), numbered_frame(1, 60));
}

TEST_F(VfioUserDmaTest, TooManyCommandsMeanwhileEndTheConnection) {
  {
    PrivateMemoryBus bus(path_);
    TestHost host(bus);
    ASSERT_NO_FATAL_FAILURE(get_asked(bus, host));
    for (int i = 0; i < 257; i++) bus.client().send(message(1, 9, pack({{8, 4}, {4, 0}, {4, 4}})));
    expect_sent_away(bus);
    host.abandon();
  }
  PrivateMemoryBus bus(path_);
  TestHost host(bus);
  ASSERT_NO_FATAL_FAILURE(get_asked(bus, host));
  const std::vector<int> many(13, STDERR_FILENO);
  for (int i = 0; i < 5; i++) bus.client().send(message(1, 9, pack({{8, 4}, {4, 0}, {4, 4}})), many);
  expect_sent_away(bus);  // 65 descriptors: one too many
  host.abandon();
  next_client_is_served(path_);
}

/// The number of descriptors that wait is bounded. Those of commands that were carried out do not count, nor those of a
/// client that is gone.
TEST_F(VfioUserDmaTest, DescriptorsCountWhileTheyWait) {
  constexpr int kCommands = 4;  // with 13 each; 64 may wait
  const std::vector<int> many(13, STDERR_FILENO);
  const Bytes command = message(1, 9, pack({{8, 4}, {4, 0}, {4, 4}}));
  for (int client = 0; client < 3; client++) {
    PrivateMemoryBus bus(path_);
    TestHost host(bus);
    ASSERT_NO_FATAL_FAILURE(get_asked(bus, host));
    for (int round = 0; round < 3; round++) {
      for (int i = 0; i < kCommands; i++) ASSERT_TRUE(bus.client().send(command, many));
      if (round == client) break;  // the client goes while they wait
      bus.hold = false;
      ASSERT_TRUE(bus.client().send(bus.answer(bus.asked.back())));
      for (int carried_out = 0; carried_out < kCommands;) {
        const Bytes got = bus.client().receive();
        ASSERT_FALSE(got.empty()) << client << " was sent away in round " << round;
        (got[8] & 0xf) == 0 ? bus.take(got) : void(carried_out++);
      }
      EXPECT_FALSE(receive(bus, host).empty());
      bus.asked.clear();
      bus.hold = true;
      ASSERT_TRUE(host.send(numbered_frame(2, 60)));
      if (bus.asked.empty()) bus.take(bus.client().receive());
      ASSERT_EQ(bus.asked.size(), 1u);
    }
    usleep(20'000);  // until they have come
    EXPECT_FALSE(bus.client().pending());
    host.abandon();
  }
  next_client_is_served(path_);
}

TEST_F(VfioUserDmaTest, ResetAndUnmapComeAfterWhatIsUnderWay) {
  PrivateMemoryBus bus(path_);
  {
    TestHost host(bus);
    ASSERT_NO_FATAL_FAILURE(get_asked(bus, host));
    ASSERT_TRUE(bus.client().send(message(70, 13, {})));
    ASSERT_TRUE(bus.client().send(message(71, 3, pack({{4, 24}, {4, 2}, {8, 0}, {8, 0}}))));
    bus.hold = false;
    ASSERT_TRUE(bus.client().send(bus.answer(bus.asked[0])));
    Bytes got = bus.client().receive();
    for (; !got.empty() && (got[8] & 0xf) == 0; got = bus.client().receive()) bus.take(got);
    EXPECT_EQ(got, reply(70, 13, {}));
    EXPECT_EQ(bus.client().receive(), reply(71, 3, pack({{4, 24}, {4, 2}, {8, 0}, {8, 0}})));
    bus.asked.clear();
    bus.read32(4);
    EXPECT_TRUE(bus.asked.empty()) << "from then on nothing is asked";
  }
  TestHost host(bus);
  ASSERT_NO_FATAL_FAILURE(host.start());
  ASSERT_TRUE(host.send(numbered_frame(3, 300)));
  Frame frame = receive(bus, host);
  if (frame == numbered_frame(1, 60)) frame = receive(bus, host);  // may have been on the wire before the reset
  EXPECT_EQ(frame, numbered_frame(3, 300)) << "and the card works again";
}

TEST_F(VfioUserDmaTest, InterruptsDoNotOvertakeWhatTheyAreAbout) {
  PrivateMemoryBus bus(path_);
  TestHost host(bus);
  ASSERT_NO_FATAL_FAILURE(host.start(5));
  const vfio_user::UniqueFd event(eventfd(0, EFD_NONBLOCK));
  EXPECT_EQ(bus.exchange(message(8, 8, pack({{4, 20}, {4, 0x24}, {4, 2}, {4, 5}, {4, 1}})), {event.get()}),
            reply(8, 8, {}));
  host.arm_receive();
  bool event_written = false;
  bus.twist = [&](const Bytes& command, const Bytes& answer) {
    uint64_t count = 0, address = 0;
    std::memcpy(&address, command.data() + 16, sizeof address);
    EXPECT_TRUE(event_written || read(event.get(), &count, sizeof count) < 0) << "before its event was there";
    if (address == bus.base() + kEvents) {
      usleep(20'000);
      EXPECT_LT(read(event.get(), &count, sizeof count), 0);
      event_written = true;
    }
    return answer;
  };
  ASSERT_TRUE(host.send(numbered_frame(1, 60)));
  EXPECT_EQ(receive(bus, host), numbered_frame(1, 60));
  const auto end = std::chrono::steady_clock::now() + kSoon;
  uint64_t count = 0;
  while (read(event.get(), &count, sizeof count) < 0 && std::chrono::steady_clock::now() < end) bus.serve();
  EXPECT_TRUE(event_written);
  EXPECT_EQ(count, 1u);
}

}  // namespace
}  // namespace mqnic::card
