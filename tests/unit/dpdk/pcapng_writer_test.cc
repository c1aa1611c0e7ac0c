#include "dpdk/pcapng_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "temporary_directory.h"

namespace uroce {
namespace {

struct Block {
  uint32_t type = 0;
  std::vector<uint8_t> body;  // between the two lengths
  uint32_t word(size_t index) const {
    uint32_t value = 0;
    std::memcpy(&value, body.data() + 4 * index, sizeof value);
    return value;
  }
};

/// Walks the file as a reader does, and checks that both lengths of every block agree.
std::vector<Block> read_blocks(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<Block> blocks;
  for (size_t at = 0; at < bytes.size();) {
    uint32_t head[2];
    std::memcpy(head, bytes.data() + at, sizeof head);
    uint32_t tail = 0;
    EXPECT_EQ(head[1] % 4, 0u);
    EXPECT_LE(at + head[1], bytes.size());
    std::memcpy(&tail, bytes.data() + at + head[1] - 4, sizeof tail);
    EXPECT_EQ(head[1], tail);
    if (tail != head[1] || tail < 12) break;
    blocks.push_back(
        {head[0], {bytes.begin() + static_cast<long>(at) + 8, bytes.begin() + static_cast<long>(at + tail) - 4}});
    at += tail;
  }
  return blocks;
}

class PcapngTest : public testing::Test {
 protected:
  std::string path() const { return (dir_.path() / "x.pcapng").string(); }
  TemporaryRuntimeDir dir_;
  std::string error_;
};

TEST_F(PcapngTest, AFileHasOneWriter) {
  auto writer = PcapngWriter::create(path(), "memif", 0, error_);
  ASSERT_TRUE(writer) << error_;
  EXPECT_EQ(PcapngWriter::create(path(), "memif", 0, error_), nullptr);
  EXPECT_EQ(error_,
            "the capture " + path() +
                " is being written already, by another program or for another endpoint of this one: name another "
                "file, or put %p into the name, which becomes the process id");
  EXPECT_EQ(read_blocks(path()).size(), 2u) << "the first one's";
  writer.reset();
  writer = PcapngWriter::create(path(), "memif", 0, error_);
  ASSERT_TRUE(writer) << error_;
  EXPECT_EQ(read_blocks(path()).size(), 2u) << "what was there before is gone";
}

/// A program may try each time that it opens its device.
TEST_F(PcapngTest, AFileThatCannotBeHadCostsNoDescriptor) {
  const auto next_descriptor = [] {
    const int fd = open("/", O_PATH | O_CLOEXEC);
    close(fd);
    return fd;
  };
  const auto writer = PcapngWriter::create(path(), "memif", 0, error_);
  ASSERT_TRUE(writer) << error_;
  const int cannot_be_emptied = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(cannot_be_emptied, 1), 0);
  ASSERT_EQ(fcntl(cannot_be_emptied, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  const int next = next_descriptor();
  EXPECT_EQ(PcapngWriter::create(path(), "memif", 0, error_), nullptr) << "another writes";
  EXPECT_EQ(next_descriptor(), next);
  const std::string sealed = "/proc/self/fd/" + std::to_string(cannot_be_emptied);
  EXPECT_EQ(PcapngWriter::create(sealed, "memif", 0, error_), nullptr);
  EXPECT_EQ(error_, "cannot write the capture " + sealed + ": Operation not permitted");
  EXPECT_EQ(next_descriptor(), next);
  close(cannot_be_emptied);
}

TEST_F(PcapngTest, HeadersAreThereAtOnce) {
  const auto writer = PcapngWriter::create(path(), "memif", 0, error_);
  ASSERT_TRUE(writer) << error_;
  const auto blocks = read_blocks(path());
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].type, 0x0A0D0D0Au);
  EXPECT_EQ(blocks[0].word(0), 0x1A2B3C4Du);
  EXPECT_EQ(blocks[1].type, 1u);
  EXPECT_EQ(blocks[1].word(0), 1u) << "Ethernet";
  EXPECT_EQ(std::string(blocks[1].body.begin() + 12, blocks[1].body.begin() + 17), "memif");
}

TEST_F(PcapngTest, FramesOfEveryLengthModuloFour) {
  constexpr int64_t kOffset = 1'700'000'000'000'000'000;
  std::vector<uint8_t> frame(70);
  for (size_t i = 0; i < frame.size(); i++) frame[i] = static_cast<uint8_t>(i);
  {
    const auto writer = PcapngWriter::create(path(), "p", kOffset, error_);
    ASSERT_TRUE(writer) << error_;
    for (size_t bytes = 60; bytes < 64; bytes++) {
      writer->on_frame(bytes % 2 == 0 ? Direction::kReceived : Direction::kSent, Instant{static_cast<int64_t>(bytes)},
                       {frame.data(), bytes});
    }
  }
  const auto blocks = read_blocks(path());
  ASSERT_EQ(blocks.size(), 6u);
  for (uint32_t i = 0; i < 4; i++) {
    const Block& block = blocks[2 + i];
    const uint32_t bytes = 60 + i;
    EXPECT_EQ(block.type, 6u);
    EXPECT_EQ((uint64_t{block.word(1)} << 32) | block.word(2), static_cast<uint64_t>(kOffset) + bytes);
    EXPECT_EQ(block.word(3), bytes);
    EXPECT_EQ(block.word(4), bytes);
    EXPECT_EQ(std::memcmp(block.body.data() + 20, frame.data(), bytes), 0);
    const size_t options = 5 + (bytes + 3) / 4;
    EXPECT_EQ(block.word(options), 2u | (4u << 16)) << "flags, four bytes";
    EXPECT_EQ(block.word(options + 1), bytes % 2 == 0 ? 1u : 2u) << "inbound, outbound";
  }
}

TEST_F(PcapngTest, SeveralInterfacesInOneFile) {
  const std::vector<uint8_t> frame(60);
  {
    const auto writer = PcapngWriter::create(path(), "first", 0, error_);
    ASSERT_TRUE(writer) << error_;
    EXPECT_EQ(writer->add_interface("second"), 1u);
    EXPECT_EQ(writer->add_interface("third"), 2u);
    writer->on_frame_at(2, Direction::kSent, Instant{1}, frame);
    writer->on_frame(Direction::kSent, Instant{2}, frame);
  }
  const auto blocks = read_blocks(path());
  ASSERT_EQ(blocks.size(), 6u);
  for (const size_t i : {1, 2, 3}) EXPECT_EQ(blocks[i].type, 1u);
  EXPECT_EQ(blocks[4].word(0), 2u);
  EXPECT_EQ(blocks[5].word(0), 0u);
}

TEST_F(PcapngTest, AFullBufferGoesToTheFileInOrder) {
  const std::vector<uint8_t> frame(9000, 0x5a);
  constexpr uint32_t kFrames = 1500;  // more than three buffers
  {
    const auto writer = PcapngWriter::create(path(), "p", 0, error_);
    ASSERT_TRUE(writer) << error_;
    for (uint32_t i = 0; i < kFrames; i++) {
      writer->on_frame(Direction::kSent, Instant{i}, frame);
      if (i % 100 == 50) writer->begin_flush();  // set aside, but not written yet when the buffer is full
      if (i % 300 == 99) writer->finish_flush();
    }
  }
  const auto blocks = read_blocks(path());
  ASSERT_EQ(blocks.size(), 2 + kFrames);
  for (uint32_t i = 0; i < kFrames; i++) EXPECT_EQ(blocks[2 + i].word(2), i);
}

TEST_F(PcapngTest, TheProcessIdInTheName) {
  const auto writer = PcapngWriter::create((dir_.path() / "x%p").string(), "p", 0, error_);
  ASSERT_TRUE(writer) << error_;
  EXPECT_EQ(writer->path(), (dir_.path() / ("x" + std::to_string(getpid()))).string());
}

TEST_F(PcapngTest, AFullDiskEndsTheCaptureAndNothingElse) {
  const std::vector<uint8_t> frame(9000, 0x5a);
  testing::internal::CaptureStderr();
  {
    const auto writer = PcapngWriter::create("/dev/full", "p", 0, error_);
    ASSERT_TRUE(writer) << error_;
    for (uint32_t i = 0; i < 600; i++) writer->on_frame(Direction::kSent, Instant{i}, frame);  // more than a buffer
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "uroce: the capture /dev/full ends here: No space left on device\n")
      << "said once";
}

TEST_F(PcapngTest, AFileThatCannotBeWritten) {
  EXPECT_FALSE(PcapngWriter::create((dir_.path() / "no" / "such").string(), "p", 0, error_));
  EXPECT_NE(error_.find("No such file"), std::string::npos) << error_;
}

}  // namespace
}  // namespace uroce
