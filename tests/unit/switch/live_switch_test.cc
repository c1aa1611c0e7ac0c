// The whole switch between two segments, turn by turn, and what it says of itself.
#include "uroce_switch/live_switch.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "eal_test.h"
#include "node.h"
#include "uroce_switch/report.h"

namespace uroce::netswitch {
namespace {

using segment::test::Frames;
using segment::test::mac_of;
using segment::test::Node;
using segment::test::record_of;
using segment::test::roce_frame;

class LiveSwitchTest : public EalTest {
 protected:
  void SetUp() override {
    options_.specs = {"shmlan:left", "shmlan:right"};
    options_.frames = 64;
  }
  void TearDown() override {
    nodes_ = {};
    live_.reset();
    for (const char* name : {"left", "right", "third"}) std::filesystem::remove_all(place(name));
  }
  static std::filesystem::path place(const std::string& name) {
    return std::filesystem::path(std::getenv("UROCE_RUNTIME_DIR")) / ("shmlan." + name);
  }
  bool start() {
    std::vector<PlannedPort> ports;
    if (!plan_named_ports(options_, ports, error_)) return false;
    live_ = std::make_unique<LiveSwitch>(options_, lock_);
    const bool started = live_->start(ports, error_);
    TscClock clock;
    clock.start();
    now_ = clock.now();  // its faults are active since it started
    return started;
  }
  /// A program on either side, and the left one knows the way to the right one.
  void meet() {
    nodes_[0] = std::make_unique<Node>(place("left"), record_of("left", 1));
    nodes_[1] = std::make_unique<Node>(place("right"), record_of("right", 2));
    for (const auto& node : nodes_) node->qpn();
    settle();
  }
  void settle() {
    for (int i = 0; i < 6; i++) {
      lock_.acquire();
      live_->turn(now_ = now_ + milliseconds(3));
      lock_.release();
      for (const auto& node : nodes_) node->turn();
    }
  }
  std::vector<uint8_t> to_the_right(uint8_t seed) const { return roce_frame(mac_of(2), nodes_[1]->qpn(), 1000, seed); }
  void send_three() {
    for (uint8_t i = 0; i < 3; i++) ASSERT_TRUE(nodes_[0]->send(to_the_right(i)));
    settle();
  }
  /// The table's lines, split into words.
  std::vector<std::vector<std::string>> table() const {
    char* text = nullptr;
    size_t bytes = 0;
    FILE* const out = open_memstream(&text, &bytes);
    print_table(out, *live_);
    std::istringstream lines(std::string(text, bytes));
    std::vector<std::vector<std::string>> found;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      found.emplace_back(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
    }
    std::fclose(out);
    free(text);
    return found;
  }

  Options options_;
  EngineMutex lock_;
  std::unique_ptr<LiveSwitch> live_;
  std::array<std::unique_ptr<Node>, 2> nodes_;
  std::string error_;
  Instant now_;
};

using Words = std::vector<std::string>;

TEST_F(LiveSwitchTest, FramesPassAndTheTableCountsThem) {
  ASSERT_TRUE(start()) << error_;
  meet();
  send_three();
  EXPECT_EQ(nodes_[1]->receive(), (Frames{to_the_right(0), to_the_right(1), to_the_right(2)}));
  const auto lines = table();
  ASSERT_GE(lines.size(), 3u);
  EXPECT_EQ(lines[0].front(), "port");
  EXPECT_EQ(lines[1], (Words{"0", "shmlan:left", "up", "3", "3000", "0", "0", "0", "0"}));
  EXPECT_EQ(lines[2], (Words{"1", "shmlan:right", "up", "0", "0", "3", "3000", "0", "0"}));
  // Below, what else has happened, and nothing that has not.
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[3], (Words{"0", "flooded", "3,", "peers_met", "1"}));
  EXPECT_EQ(lines[4], (Words{"1", "prio0_max_queue_bytes", "3000,", "peers_met", "1"}));
}

TEST_F(LiveSwitchTest, FaultsOfOneDirectionAreNamedWithWhatTheyDid) {
  options_.impairments = {{0u, true, "loss 100%"}};
  ASSERT_TRUE(start()) << error_;
  meet();
  send_three();
  EXPECT_EQ(nodes_[1]->receive().size(), 0u);
  EXPECT_TRUE(nodes_[1]->receive().empty());
  bool counted = false;
  std::vector<Words> faults;
  for (const Words& line : table()) {
    if (line.size() > 1 && line[1] == "faults") faults.push_back(line);
    for (size_t i = 1; i + 1 < line.size(); i++) {
      counted |= line[0] == "0" && line[i] == "in_lost" && line[i + 1] == "3";
    }
  }
  EXPECT_TRUE(counted);
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0], (Words{"0", "faults", "in:", "loss", "1.0"}));
}

TEST_F(LiveSwitchTest, ACaptureNamesItsPortsAndOneThatCannotBeMadeEndsTheStart) {
  options_.pcap_file = (place("left").parent_path() / "none" / "frames.pcapng").string();
  EXPECT_FALSE(start());
  EXPECT_NE(error_.find(options_.pcap_file), std::string::npos) << error_;
  live_.reset();
  options_.pcap_file = (place("left").parent_path() / "frames.pcapng").string();
  ASSERT_TRUE(start()) << error_;
  live_.reset();
  std::ifstream file(options_.pcap_file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(bytes.substr(0, 4), "\x0A\x0D\x0D\x0A");
  for (const char* name : {"0 shmlan:left", "1 shmlan:right"}) EXPECT_NE(bytes.find(name), std::string::npos) << name;
  std::filesystem::remove(options_.pcap_file);
}

/// A second switch may share one segment with a first, and not two: frames would go round.
TEST_F(LiveSwitchTest, ASecondWayBetweenTwoSegmentsIsRefused) {
  ASSERT_TRUE(start()) << error_;
  meet();  // programs on both are no way
  std::vector<PlannedPort> ports;
  EXPECT_FALSE(plan_named_ports(options_, ports, error_));
  EXPECT_NE(error_.find("joins shmlan:left and shmlan:right already"), std::string::npos) << error_;
  for (const char* own : {"shmlan:left", "shmlan:right"}) {
    Options other;
    other.specs = {own, "shmlan:third"};
    ports.clear();
    EXPECT_TRUE(plan_named_ports(other, ports, error_)) << error_;
    EXPECT_EQ(ports.size(), 2u);
  }
}

TEST_F(LiveSwitchTest, OnePortLeadsNowhereAndOptionsNeedTheirPort) {
  options_.specs = {"shmlan:left"};
  EXPECT_FALSE(start());
  EXPECT_NE(error_.find("leads nowhere"), std::string::npos) << error_;
  live_.reset();
  options_.specs = {"shmlan:left", "shmlan:right"};
  options_.rates = {{2u, 1'000'000'000}};
  EXPECT_FALSE(start());
  EXPECT_NE(error_.find("2"), std::string::npos) << error_;
}

/// The loop calls back at its first turn and at most every 100 ms, without the lock, and ends when it is told to.
TEST_F(LiveSwitchTest, TheLoopCallsBackUntilItIsStopped) {
  ASSERT_TRUE(start()) << error_;
  const Duration before = live_->uptime();
  std::atomic<bool> stop{false};
  int calls = 0;
  live_->run(stop, [&] {
    lock_.acquire();  // another owner gets it here
    lock_.release();
    EXPECT_GE(live_->uptime().ns - before.ns, milliseconds(100).ns * calls);
    stop = ++calls == 3;
  });
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace uroce::netswitch
