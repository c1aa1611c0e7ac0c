// A client that keeps its memory to itself, so that the server has to ask for every byte. It speaks in bytes, and
// answers only when it is told to, or while it waits for an answer itself.
#pragma once

#include <functional>

#include "pmd/hw/bus.h"
#include "vfio_user_rig.h"

namespace mqnic::card {

class PrivateMemoryBus final : public Bus {
 public:
  explicit PrivateMemoryBus(const std::string& path, const std::string& capabilities = "{}") : client_(path) {
    EXPECT_FALSE(client_.exchange(message(1, 1, Bytes{0, 0, 1, 0} + text(capabilities) + Bytes{0})).empty());
  }

  // To be set before the memory is mapped:
  size_t shared_bytes = 0;  // of its beginning, which comes with a file descriptor
  uint32_t rights = 3;      // of the rest: 1 read, 2 write

  std::vector<Bytes> asked;  // the server's commands, whole messages
  bool hold = false;         // no answers: the last of `asked` stays open
  /// Changes the right answer into what is sent.
  std::function<Bytes(const Bytes& command, Bytes answer)> twist = [](const Bytes&, Bytes answer) { return answer; };

  RawClient& client() { return client_; }
  uint64_t base() const { return reinterpret_cast<uint64_t>(memory_); }

  /// Answers all commands that have come from the server.
  void serve() {
    while (!hold && client_.pending()) {
      const Bytes command = client_.receive();
      if (command.empty()) return;
      ASSERT_EQ(command[8] & 0xf, 0) << "a reply to nothing";
      take(command);
    }
  }
  /// Notes one command, and answers it unless `hold` is set.
  void take(const Bytes& command) {
    asked.push_back(command);
    if (!hold) client_.send(twist(command, answer(command)));
  }
  /// The right answer to a command; a write is carried out.
  Bytes answer(const Bytes& command) {
    const uint16_t id = field<uint16_t>(command, 0), what = field<uint16_t>(command, 2);
    const uint64_t address = field<uint64_t>(command, 16), count = field<uint64_t>(command, 24);
    EXPECT_TRUE(address >= base() && count <= bytes_ && address - base() <= bytes_ - count) << address << " " << count;
    uint8_t* const at = memory_ + (address - base());
    const Bytes head = pack({{8, address}, {8, count}});
    if (what == 11) return reply(id, 11, head + Bytes(at, at + count));
    EXPECT_EQ(what, 12);
    EXPECT_EQ(command.size(), 32 + count);
    std::copy(command.begin() + 32, command.end(), at);
    return reply(id, 12, head);
  }
  Bytes exchange(const Bytes& request, const std::vector<int>& fds = {}) {
    if (!client_.send(request, fds)) return {};
    for (;;) {
      Bytes got = client_.receive();
      if (got.empty() || (got[8] & 0xf) == 1) return got;
      take(got);
    }
  }

  std::string name() const override { return "private"; }
  size_t bar_bytes() const override { return 16 << 20; }
  uint32_t read32(uint32_t offset) override {
    const Bytes got = exchange(message(2, 9, pack({{8, offset}, {4, 0}, {4, 4}})));
    return got.size() == 36 ? field<uint32_t>(got, 32) : 0xffffffff;
  }
  void write32(uint32_t offset, uint32_t value) override {
    exchange(message(3, 10, pack({{8, offset}, {4, 0}, {4, 4}, {4, value}})));
  }
  volatile uint32_t* doorbell_word(unsigned, QueueKind, unsigned, uint32_t) override { return nullptr; }
  int map_memory(void* address, size_t bytes, int fd, uint64_t) override {
    memory_ = static_cast<uint8_t*>(address);
    bytes_ = bytes;
    if (shared_bytes != 0) {
      EXPECT_EQ(exchange(message(4, 2, pack({{4, 32}, {4, 3}, {8, 0}, {8, base()}, {8, shared_bytes}})), {fd}),
                reply(4, 2, {}));
    }
    EXPECT_EQ(exchange(message(
                  5, 2, pack({{4, 32}, {4, rights}, {8, 0}, {8, base() + shared_bytes}, {8, bytes - shared_bytes}}))),
              reply(5, 2, {}));
    return 0;
  }
  int unmap_memory(void* address, size_t bytes) override {
    exchange(message(6, 3, pack({{4, 24}, {4, 0}, {8, reinterpret_cast<uint64_t>(address)}, {8, bytes}})));
    return 0;
  }

 private:
  template <typename T>
  static T field(const Bytes& bytes, size_t at) {
    T value{};
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
  }

  RawClient client_;
  uint8_t* memory_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace mqnic::card
