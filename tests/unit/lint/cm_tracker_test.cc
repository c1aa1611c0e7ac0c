// Connections in the messages that open and end them, one after the other and with the same ids.
#include "lint/cm_tracker.h"

#include <gtest/gtest.h>

#include "lint/finding.h"

namespace uroce::test {
namespace {

using namespace lint;
using Step = CmTracker::Step;

class CmTrackerTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kClientId = 0x11, kServerId = 0x22;
  static constexpr uint64_t kTransaction = 0x700;
  struct Of {
    CmAttribute attribute;
    bool active = true;
    uint64_t transaction = kTransaction;
    uint32_t local_id = kClientId;
    uint32_t remote_id = kServerId;
    uint32_t qpn = 0;
    uint64_t digest = 1;
    Answered answered = Answered::kRep;  // of a REJ: what it answers
  };
  CmTracker::Progress sent(const Of& of) {
    CmMessage message;
    message.attribute = of.attribute;
    message.transaction_id = of.transaction;
    message.local_id = of.local_id;
    message.remote_id = of.remote_id;
    message.qpn = of.qpn;
    message.digest = of.digest;
    if (of.attribute == CmAttribute::kRej) message.answered = of.answered;
    frame_++;
    const IpAddress& src = of.active ? client_ : server_;
    return tracker_.on_message({src, of.active ? server_ : client_, frame_, 0, Instant{int64_t(frame_)}}, message,
                               issues_);
  }
  CmTracker::Progress request(uint64_t digest, uint64_t transaction = kTransaction) {
    return sent(
        {.attribute = CmAttribute::kReq, .transaction = transaction, .remote_id = 0, .qpn = 5, .digest = digest});
  }
  CmTracker::Progress reply(uint32_t id, uint32_t qpn, uint64_t transaction = kTransaction) {
    return sent({.attribute = CmAttribute::kRep,
                 .active = false,
                 .transaction = transaction,
                 .local_id = id,
                 .remote_id = kClientId,
                 .qpn = qpn});
  }
  void refuse_request() {
    sent({.attribute = CmAttribute::kRej,
          .active = false,
          .local_id = 0,
          .remote_id = kClientId,
          .answered = Answered::kReq});
  }
  void ask_for_service(uint64_t transaction, uint64_t digest) {
    sent({.attribute = CmAttribute::kSidrReq, .transaction = transaction, .remote_id = 0, .digest = digest});
  }
  void answer_for_service(uint64_t transaction) {
    sent({.attribute = CmAttribute::kSidrRep,
          .active = false,
          .transaction = transaction,
          .local_id = 0,
          .remote_id = kClientId});
  }
  /// Ends the connection whose passive side has `id`, and whose queue pairs are 5 and `qpn`.
  void end(bool active, uint32_t id, uint32_t qpn, uint64_t transaction) {
    const uint32_t mine = active ? kClientId : id, theirs = active ? id : kClientId;
    const Of dreq{CmAttribute::kDreq, active, transaction, mine, theirs, active ? qpn : 5};
    EXPECT_EQ(sent(dreq).step, Step::kEnding);
    sent({CmAttribute::kDrep, !active, transaction, theirs, mine});
  }
  std::string found() const {
    std::string all;
    for (const Issue& issue : issues_) all += issue.text + "; ";
    return all;
  }

  const IpAddress client_ = IpAddress::v4(0x0a000001);
  const IpAddress server_ = IpAddress::v4(0x0a000002);
  CmTracker tracker_;
  std::vector<Issue> issues_;
  uint64_t frame_ = 0;
};

TEST_F(CmTrackerTest, ARequestThatComesAgainIsTheSameWhileItsConnectionLives) {
  request(1);
  request(1);
  EXPECT_EQ(found(), "");
  reply(kServerId, 6);
  request(2);
  EXPECT_EQ(found(), "REQ sent again with other content; expected the same; ");
}

/// Whichever side ended the old connection, one with the same ids and transaction is a new one.
TEST_F(CmTrackerTest, AnEndedConnectionsIdMayBeUsedAgain) {
  uint32_t id = kServerId, qpn = 6;
  uint64_t digest = 1, ending = 0x900;
  for (const bool by_active : {false, true, false, false}) {
    EXPECT_EQ(request(++digest).step, Step::kNothing);
    const CmTracker::Progress connected = reply(++id, ++qpn);
    ASSERT_EQ(connected.step, Step::kConnected) << digest;
    EXPECT_EQ(connected.connection->passive.qpn, qpn);
    EXPECT_EQ(connected.connection->passive.id, id);
    EXPECT_EQ(sent({.attribute = CmAttribute::kRtu, .remote_id = id}).step, Step::kConfirmed);
    end(by_active, id, qpn, ++ending);
    EXPECT_EQ(found(), "") << digest;
  }
  EXPECT_TRUE(tracker_.doubts().empty());
}

TEST_F(CmTrackerTest, NorDoesOneWithTheIdsOfAnotherTransactionGetTheOldOnesMessages) {
  uint32_t qpn = 6;
  for (uint64_t transaction = kTransaction; transaction < kTransaction + 4; transaction++) {
    request(transaction, transaction);
    ASSERT_EQ(reply(kServerId, ++qpn, transaction).step, Step::kConnected);
    EXPECT_EQ(sent({.attribute = CmAttribute::kRtu, .transaction = transaction}).step, Step::kConfirmed);
    end(transaction % 2 == 0, kServerId, qpn, transaction + 0x1000);
    EXPECT_EQ(found(), "") << transaction;
  }
}

TEST_F(CmTrackerTest, WhoRefusedAReplyMayAskAgain) {
  request(1);
  reply(kServerId, 6);
  sent({.attribute = CmAttribute::kRej});
  request(2);
  EXPECT_EQ(reply(kServerId + 1, 7).step, Step::kConnected);
  EXPECT_EQ(found(), "");
}

/// A side that refuses one of two requests, say for want of room, may accept the other.
TEST_F(CmTrackerTest, EachRequestIsRefusedOrAccepted) {
  request(1);
  request(1);
  refuse_request();
  EXPECT_EQ(reply(kServerId, 6).step, Step::kConnected);
  EXPECT_EQ(found(), "");
}

TEST_F(CmTrackerTest, WhoRefusedEveryRequestAcceptsNone) {
  request(1);
  request(1);
  refuse_request();
  refuse_request();
  reply(kServerId, 6);
  EXPECT_EQ(found(), "REP after every REQ was refused; ");
}

/// It tells nothing new, even if its content differs.
TEST_F(CmTrackerTest, AReplyThatComesAgainDoesNotConnectAgain) {
  request(1);
  EXPECT_EQ(reply(kServerId, 6).step, Step::kConnected);
  EXPECT_EQ(reply(kServerId, 6).step, Step::kNothing);
  EXPECT_EQ(found(), "");
  EXPECT_EQ(sent({CmAttribute::kRep, false, kTransaction, kServerId, kClientId, 7, 2}).step, Step::kNothing);
  EXPECT_EQ(found(), "REP sent again with other content; expected the same; ");
  issues_.clear();
  end(true, kServerId, 6, 0x900);
  EXPECT_EQ(found(), "");
}

/// A message with a transaction of its own belongs to the connection that has one of its ids.
TEST_F(CmTrackerTest, TheAcceptingSidesIdAloneNamesTheConnection) {
  request(1);
  reply(kServerId, 6);
  EXPECT_EQ(sent({CmAttribute::kDreq, true, 0x900, 0x99, kServerId, 6}).step, Step::kNothing);
  EXPECT_EQ(found(), "DREQ with local communication id 0x00000099; expected 0x00000011; ");
  issues_.clear();
  EXPECT_EQ(sent({CmAttribute::kDreq, false, 0x901, kServerId, 0x99, 5}).step, Step::kNothing);
  EXPECT_EQ(found(), "DREQ with remote communication id 0x00000099; expected 0x00000011; ");
}

/// An answer is compared with the newest question that has its id.
TEST_F(CmTrackerTest, AnIdMayAskForAnotherServiceLater) {
  ask_for_service(0x701, 1);
  answer_for_service(0x701);
  ask_for_service(0x702, 2);
  ask_for_service(0x702, 2);
  answer_for_service(0x702);
  EXPECT_EQ(found(), "");
  ask_for_service(0x702, 1);
  EXPECT_EQ(found(), "SIDR_REQ sent again with other content; expected the same; ");
  issues_.clear();
  answer_for_service(0x701);
  EXPECT_EQ(found(), "SIDR_REP of transaction 0x701; expected 0x702, that of the request; ");
}

}  // namespace
}  // namespace uroce::test
