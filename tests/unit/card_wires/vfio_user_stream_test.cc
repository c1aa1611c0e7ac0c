// How messages follow each other on the socket: in pieces, many at once, without replies, and where the stream makes no
// sense.
#include <cerrno>

#include "vfio_user_rig.h"

namespace mqnic::card {
namespace {

class VfioUserStreamTest : public testing::Test {
 protected:
  static void introduce(RawClient& client) { ASSERT_FALSE(client.exchange(hello()).empty()); }

  RuntimeDirectory directory_;
  std::string path_ = directory_.path() + "/card.sock";
  ServerThread server_{path_};
};

TEST_F(VfioUserStreamTest, NoReplyWhereNoneIsWanted) {
  RawClient client(path_);
  introduce(client);
  ASSERT_TRUE(client.send(message(20, 13, {}, 0x10)));
  ASSERT_TRUE(client.send(message(21, 9, {}, 0x10)));  // an error gets no reply, either
  EXPECT_EQ(client.exchange(message(22, 13, {})), reply(22, 13, {}));
}

TEST_F(VfioUserStreamTest, MessagesInPiecesAndInHeaps) {
  RawClient client(path_);
  const Bytes first = hello();
  for (const uint8_t byte : first) {
    ASSERT_TRUE(client.send({byte}));
    std::this_thread::yield();
  }
  EXPECT_FALSE(client.receive().empty());
  Bytes heap;
  for (uint16_t id = 0; id < 500; id++) heap = heap + message(id, 13, {});
  ASSERT_TRUE(client.send(heap));
  for (uint16_t id = 0; id < 500; id++) ASSERT_EQ(client.receive(), reply(id, 13, {}));
}

TEST_F(VfioUserStreamTest, ConnectionEndsWhereTheStreamMakesNoSense) {
  const Bytes streams[] = {
      pack({{2, 1}, {2, 13}, {4, 15}, {4, 0}, {4, 0}}),          // shorter than its header
      pack({{2, 1}, {2, 13}, {4, 0}, {4, 0}, {4, 0}}),           //
      pack({{2, 1}, {2, 13}, {4, 16385}, {4, 0}, {4, 0}}),       // longer than any message
      pack({{2, 1}, {2, 13}, {4, 0xffffffff}, {4, 0}, {4, 0}}),  //
      message(1, 13, {}, 1),                                     // a reply to nothing
  };
  for (const Bytes& stream : streams) {
    RawClient client(path_);
    introduce(client);
    ASSERT_TRUE(client.send(stream));
    EXPECT_TRUE(client.closed());
  }
  RawClient client(path_);
  introduce(client);
}

TEST_F(VfioUserStreamTest, HalfAMessageDoesNotStopTheCardOrTheNextClient) {
  {
    RawClient client(path_);
    introduce(client);
    ASSERT_TRUE(client.send({1, 0, 13}));
  }
  RawClient client(path_);
  introduce(client);
  EXPECT_EQ(client.exchange(message(22, 13, {})), reply(22, 13, {}));
}

TEST_F(VfioUserStreamTest, DescriptorsThatNobodyAskedForAreClosed) {
  const auto open_fds = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  RawClient client(path_);
  introduce(client);
  EXPECT_EQ(client.exchange(message(22, 13, {})), reply(22, 13, {}));
  const auto before = open_fds();
  const std::vector<int> many(200, STDERR_FILENO);
  for (int i = 0; i < 5; i++) {
    EXPECT_EQ(client.exchange(message(22, 13, {}), many), reply(22, 13, {}));
  }
  EXPECT_EQ(client.exchange(message(22, 13, {})), reply(22, 13, {}));
  EXPECT_EQ(open_fds(), before);
}

}  // namespace
}  // namespace mqnic::card
