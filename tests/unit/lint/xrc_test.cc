// XRC is judged as RC is: the same numbers, the same answers.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "lint/linter.h"
#include "roce_frame.h"

namespace uroce {
namespace {

using test::append;
using test::Bytes;

class XrcLintTest : public testing::Test {
 protected:
  static constexpr uint32_t kTarget = 0x222;
  static constexpr uint32_t kInitiator = 0x111;

  void put(const Route& path, Bth bth, const Bytes& extension, const Bytes& payload) {
    const Bytes bytes = test::frame_of(path, bth, extension, payload);
    pcap::Frame frame;
    frame.number = ++frames_;
    frame.bytes = bytes;
    frame.original_bytes = static_cast<uint32_t>(bytes.size());
    linter_.on_frame(frame);
  }
  void ask(uint32_t psn) {
    Bth bth{.opcode = 0xa4, .pkey = kDefaultPkey, .dest_qp = kTarget, .psn = Psn(psn)};
    bth.ack_req = true;
    put(test::ipv4_path(), bth, {0, 0, 0, 9}, {1, 2, 3, 4});
  }
  void answer(uint32_t psn, uint32_t msn) {
    Route back = test::ipv4_path();
    std::swap(back.src_ip, back.dst_ip);
    std::swap(back.src_mac, back.dst_mac);
    Bytes extension;
    append(extension, Aeth{make_syndrome(AethKind::kAck, kCreditsInvalid), msn});
    put(back, {.opcode = 0xb1, .pkey = kDefaultPkey, .dest_qp = kInitiator, .psn = Psn(psn)}, extension, {});
  }
  std::set<std::string> rules() {
    linter_.finish();
    std::set<std::string> names;
    for (const lint::Finding& finding : linter_.findings().kept()) names.insert(lint::rule_info(finding.rule).id);
    return names;
  }

  lint::Linter linter_;
  uint64_t frames_ = 0;
};

TEST_F(XrcLintTest, NothingIsWrongWithGoodPackets) {
  for (uint32_t i = 0; i < 8; i++) {
    ask(100 + i);
    answer(100 + i, i + 1);
  }
  EXPECT_EQ(rules(), std::set<std::string>{});
}

TEST_F(XrcLintTest, AGapThatIsAcknowledgedIsFound) {
  for (uint32_t i = 0; i < 8; i++) {
    ask(100 + i);
    answer(100 + i, i + 1);
  }
  ask(112);
  answer(112, 9);
  EXPECT_EQ(rules(), std::set<std::string>{"psn-gap"});
}

}  // namespace
}  // namespace uroce
