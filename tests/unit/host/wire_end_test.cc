#include "host/wire_end.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "temporary_directory.h"

namespace uroce {
namespace {

/// Another process, which takes an end and keeps it until it is killed.
class Neighbour {
 public:
  using Take = std::optional<WireEnd> (*)(const std::string&, std::string&);
  static std::optional<WireEnd> take_wire(const std::string& name, std::string& error) {
    return take_wire_end(name, error);
  }

  explicit Neighbour(const std::string& wire, Take take = take_wire) {
    int fds[2];
    EXPECT_EQ(pipe(fds), 0);
    pid_ = fork();
    if (pid_ == 0) {
      leave_wire_ends();  // inherited from the parent
      std::string error;
      const auto end = take(wire, error);
      const char number = end ? static_cast<char>('0' + end->number) : 'x';
      if (write(fds[1], &number, 1) != 1) _exit(1);
      pause();
      _exit(0);
    }
    EXPECT_EQ(read(fds[0], &number_, 1), 1);
    close(fds[0]);
    close(fds[1]);
  }
  ~Neighbour() { end(); }
  void end() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  char number() const { return number_; }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
  char number_ = 0;
};

class WireEndTest : public testing::Test {
 protected:
  void TearDown() override { leave_wire_ends(); }
  TemporaryRuntimeDir dir_;
  std::string error_;
};

TEST_F(WireEndTest, TheFirstHasOneEndTheSecondTheOther) {
  Neighbour first("near");
  EXPECT_EQ(first.number(), '0');
  const auto end = take_wire_end("near", error_);
  ASSERT_TRUE(end) << error_;
  EXPECT_EQ(end->number, 1u);
  EXPECT_EQ(to_string(end->address), "198.18.0.2/24");
  EXPECT_EQ(end->place, "");
}

TEST_F(WireEndTest, AskedAgainItIsTheSameEnd) {
  const auto one = take_wire_end("near", error_);
  const auto two = take_wire_end("near", error_);
  ASSERT_TRUE(one && two);
  EXPECT_EQ(one->number, two->number);
  EXPECT_EQ(one->mac, two->mac);
}

TEST_F(WireEndTest, TheThirdIsToldWhoIsThere) {
  const Neighbour first("near");
  const Neighbour second("near");
  EXPECT_FALSE(take_wire_end("near", error_));
  EXPECT_NE(error_.find("process " + std::to_string(first.pid())), std::string::npos) << error_;
  EXPECT_NE(error_.find("process " + std::to_string(second.pid())), std::string::npos) << error_;
  EXPECT_NE(error_.find("wire=shm:NAME"), std::string::npos) << error_;
  EXPECT_TRUE(take_wire_end("other", error_)) << error_;
}

TEST_F(WireEndTest, WhoIsThereIsListedAsPeopleWrite) {
  const Neighbour first("near");
  const Neighbour second("near");
  const std::string one = "process " + std::to_string(first.pid());
  const std::string two = "process " + std::to_string(second.pid());
  EXPECT_FALSE(take_wire_end("near", error_));
  EXPECT_NE(error_.find("are taken, by " + one + " and " + two + "; stop one of them"), std::string::npos) << error_;
  SwitchSign sign;
  ASSERT_TRUE(sign.put_up("lab", 3, "note", error_)) << error_;
  const Neighbour ports[] = {Neighbour("lab", take_switch_port), Neighbour("lab", take_switch_port),
                             Neighbour("lab", take_switch_port)};
  std::string who;
  for (const int i : {0, 1, 2}) {
    who += std::string(i == 0 ? "" : i == 1 ? ", " : " and ") + "process " + std::to_string(ports[i].pid());
  }
  EXPECT_FALSE(take_switch_port("lab", error_));
  EXPECT_NE(error_.find("are taken, by " + who + "; stop one of them"), std::string::npos) << error_;
}

TEST_F(WireEndTest, TheThirdIsToldOfTheSwitch) {
  const Neighbour first("near");
  const Neighbour second("near");
  EXPECT_FALSE(take_wire_end("near", error_));
  EXPECT_NE(error_.find("uroce-switch"), std::string::npos) << error_;
  EXPECT_NE(error_.find("--port switch"), std::string::npos) << error_;
}

TEST_F(WireEndTest, WhoLooksTakesNothing) {
  const auto seen = look_at_wire_end("near", error_);
  ASSERT_TRUE(seen) << error_;
  EXPECT_EQ(seen->number, 0u);
  const Neighbour first("near");
  EXPECT_EQ(first.number(), '0') << "it was only looked at";
  EXPECT_EQ(look_at_wire_end("near", error_)->number, 1u);
  const auto taken = take_wire_end("near", error_);
  ASSERT_TRUE(taken) << error_;
  EXPECT_EQ(taken->number, 1u);
  EXPECT_EQ(to_string(look_at_wire_end("near", error_)->address), "198.18.0.2/24") << "the one that it has";
}

TEST_F(WireEndTest, AFullWireCanBeLookedAt) {
  const Neighbour first("near");
  const Neighbour second("near");
  const auto seen = look_at_wire_end("near", error_);
  ASSERT_TRUE(seen) << error_;
  EXPECT_EQ(to_string(seen->address), "198.18.0.3/24") << "neither of those that are taken";
}

TEST_F(WireEndTest, LookingAtASwitchTakesNoPort) {
  EXPECT_FALSE(look_at_switch_port("lab", error_));
  EXPECT_NE(error_.find("no switch 'lab' is running"), std::string::npos) << error_;
  SwitchSign sign;
  ASSERT_TRUE(sign.put_up("lab", 1, "note", error_)) << error_;
  EXPECT_EQ(look_at_switch_port("lab", error_)->number, 0u);
  EXPECT_EQ(Neighbour("lab", take_switch_port).number(), '0');
}

TEST_F(WireEndTest, AKilledProcessLeavesItsEnd) {
  Neighbour first("near");
  const Neighbour second("near");
  EXPECT_EQ(second.number(), '1');
  first.end();
  const auto end = take_wire_end("near", error_);
  ASSERT_TRUE(end) << error_;
  EXPECT_EQ(end->number, 0u);
}

TEST_F(WireEndTest, AChildThatLeavesDoesNotGiveUpItsParentsEnd) {
  ASSERT_TRUE(take_wire_end("near", error_));
  const Neighbour child("near");  // gives up what it inherited, then takes its own
  EXPECT_EQ(child.number(), '1');
}

TEST_F(WireEndTest, ASwitchThatDoesNotRunIsAClearError) {
  EXPECT_FALSE(take_switch_port("lab", error_));
  EXPECT_NE(error_.find("no switch 'lab' is running"), std::string::npos) << error_;
  {
    SwitchSign ended;
    ASSERT_TRUE(ended.put_up("lab", 4, "note", error_));
  }
  EXPECT_FALSE(take_switch_port("lab", error_)) << "it has ended";
  SwitchSign kernel_only;
  ASSERT_TRUE(kernel_only.put_up("lab", 0, "note", error_));
  EXPECT_FALSE(take_switch_port("lab", error_));
  EXPECT_NE(error_.find("--ports"), std::string::npos) << error_;
}

TEST_F(WireEndTest, ASwitchHasAnEndForEachPort) {
  SwitchSign sign;
  ASSERT_TRUE(sign.put_up("lab", 2, "note", error_)) << error_;
  const auto end = take_switch_port("lab", error_);
  ASSERT_TRUE(end) << error_;
  EXPECT_EQ(end->number, 0u);
  EXPECT_EQ(end->place, sign.port_place(0));
  EXPECT_EQ(to_string(end->address), "198.18.0.1/24");
  const auto wire = take_wire_end("lab", error_);
  ASSERT_TRUE(wire) << "a wire of the same name is something else: " << error_;
  EXPECT_FALSE(wire->mac == end->mac);

  const Neighbour second("lab", take_switch_port);
  EXPECT_EQ(second.number(), '1');
  const Neighbour third("lab", take_switch_port);
  EXPECT_EQ(third.number(), 'x');
}

TEST_F(WireEndTest, AnEndThatTheSwitchHasNoMoreIsNotTakenAgain) {
  std::optional<SwitchSign> sign(std::in_place);
  ASSERT_TRUE(sign->put_up("lab", 2, "note", error_)) << error_;
  const auto low = take_switch_port("lab", error_);
  ASSERT_TRUE(low) << error_;
  occupy_wire_end(*low);
  const auto high = take_switch_port("lab", error_);
  ASSERT_TRUE(high) << error_;
  EXPECT_EQ(high->number, 1u);
  vacate_wire_end(*high);
  sign.emplace();  // the switch is started again
  ASSERT_TRUE(sign->put_up("lab", 1, "note", error_)) << error_;
  EXPECT_EQ(look_at_switch_port("lab", error_)->number, 1u) << "one beyond the last, as of any full switch";
  EXPECT_FALSE(take_switch_port("lab", error_)) << "it has one port only, and that is taken";
  EXPECT_NE(error_.find("all 1 ports"), std::string::npos) << error_;
  vacate_wire_end(*low);
  EXPECT_EQ(take_switch_port("lab", error_)->number, 0u);
  sign.emplace();
  occupy_wire_end(*low);
  ASSERT_TRUE(sign->put_up("lab", 2, "note", error_)) << error_;
  EXPECT_EQ(take_switch_port("lab", error_)->number, 1u) << "the end was kept meanwhile";
}

TEST_F(WireEndTest, TheSecondSwitchOfANameIsRefused) {
  SwitchSign first;
  ASSERT_TRUE(first.put_up("lab", 2, "note", error_));
  SwitchSign second;
  EXPECT_FALSE(second.put_up("lab", 2, "note", error_));
  EXPECT_NE(error_.find("running already (process " + std::to_string(getpid())), std::string::npos) << error_;
  SwitchSign other;
  EXPECT_TRUE(other.put_up("lab2", 3, "note", error_));
  const Neighbour plugged("lab", take_switch_port);  // its files have similar names
  const auto running = running_switches();
  ASSERT_EQ(running.size(), 2u);
  EXPECT_EQ(running[0].name, "lab");
  EXPECT_EQ(running[1].name, "lab2");
  EXPECT_EQ(running[1].ports, 3u);
}

TEST_F(WireEndTest, NamesWithDotsAreNamesLikeOthers) {
  SwitchSign sign;
  ASSERT_TRUE(sign.put_up("lab", 2, "note", error_));
  const Neighbour plugged("lab", take_switch_port);
  EXPECT_EQ(plugged.number(), '0');
  // Names of files that the first one would have.
  for (const char* name : {"lab.end0", "lab.end1", "lab.port0.sock"}) {
    SwitchSign other;
    EXPECT_TRUE(other.put_up(name, 2, "note", error_)) << error_;
  }
  const Neighbour next("lab", take_switch_port);
  EXPECT_EQ(next.number(), '1') << "the first one still has its end";
  EXPECT_EQ(running_switches().size(), 1u);
}

TEST_F(WireEndTest, MacAddressesAreStableLocalAndDifferent) {
  const MacAddress a = stable_mac("x", 1);
  EXPECT_EQ(a, stable_mac("x", 1));
  EXPECT_FALSE(a == stable_mac("y", 1));
  EXPECT_FALSE(a == stable_mac("x", 2));
  EXPECT_EQ(a.bytes[0] & 3, 2) << "locally administered, not multicast";
}

TEST_F(WireEndTest, ADirectoryThatCannotBeIsAClearError) {
  setenv("UROCE_RUNTIME_DIR", "/proc/nowhere/uroce", 1);
  EXPECT_EQ(runtime_dir(error_), "");
  EXPECT_NE(error_.find("UROCE_RUNTIME_DIR"), std::string::npos);
}

}  // namespace
}  // namespace uroce
