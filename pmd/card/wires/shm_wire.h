// A cable between two processes, or between two cards in one process: memory that both share.
//
// The cable is a file in the runtime directory: locks on its first bytes say which ends are taken (and end with a
// process that is killed), and it contains two rings of frames, one for each direction. The user that leaves last
// removes it; after a crash the next user cleans it up.
//
// The two ends tell each other their positions in one word each, {tag, position}. The tag identifies the pair of users:
// it is the number of the one that came last. Positions with another tag are ignored, and an end does not write before
// the reader has shown the same tag, so that nothing from an earlier user is ever delivered.
//
// The peer is not trusted: positions and lengths are checked at every use. (It could still truncate the file; but it
// runs as the same user, who can kill this process anyway.)
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pmd/card/wire.h"
#include "pmd/card/wires/frame_ring.h"

namespace mqnic::card {

struct ShmWireMemory;

class ShmWire final : public Wire {
 public:
  /// Returns nullptr when that fails; `error` says why, and names the users when both ends are taken.
  static std::unique_ptr<Wire> open(const std::string& name, std::string& error);
  ~ShmWire() override;
  ShmWire(const ShmWire&) = delete;
  ShmWire& operator=(const ShmWire&) = delete;

  bool connected() override { return present_ && matched_; }
  unsigned end() const override { return end_; }
  std::span<uint8_t> reserve(size_t bytes) override;
  void commit(size_t bytes) override;
  std::span<const uint8_t> front() override;
  void pop() override { reader_.pop(); }
  std::span<const uint8_t> next() override {
    reader_.pop();
    return ShmWire::front();
  }
  void flush(uint64_t now_ns) override;

  std::string take_message() override;

 private:
  ShmWire(std::string path, int fd, unsigned end, ShmWireMemory* memory);
  static std::string prepare(int fd, const std::string& name, unsigned& end);

  void meet(uint32_t peer_number);
  void look_for_peer();
  void read_peer_tail();

  std::string path_;
  int fd_;
  unsigned end_;
  ShmWireMemory* memory_;
  FrameWriter writer_;
  FrameReader reader_;

  uint32_t own_number_;
  uint32_t peer_number_ = 0;  // as last seen
  uint32_t tag_ = 0;
  bool present_ = false;         // another user holds the other end
  bool matched_ = false;         // and that user has shown our tag
  uint32_t peer_tail_ = 0;       // how far the peer has read, as last seen
  uint32_t peer_head_ = 0;       // how far the peer has written, as last seen
  uint32_t published_head_ = 0;  // as last told to the peer
  uint32_t published_tail_ = 0;
  uint64_t next_look_ns_ = 0;
  uint64_t told_damages_ = 0;
  bool lost_ = false;  // the frame that is being written will be lost
  std::vector<uint8_t> scrap_;
};

}  // namespace mqnic::card
