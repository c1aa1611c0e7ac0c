// How many instructions a message costs between two programs of a segment. Runs under callgrind, which it tells where a
// row begins and ends (instructions_test.py reads what comes out); by itself it prints nothing.
//
//   valgrind --tool=callgrind hop_count MESSAGES
#include <valgrind/callgrind.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "segment_program.h"

namespace uroce::bench {
namespace {

struct Row {
  const char* name;
  QpType type;
  uint32_t message_bytes;
  uint32_t burst;  // messages in flight at a time; 1: a ping-pong, whose answers carry the acknowledgements
};

constexpr Row kRows[] = {
    {"rc_8", QpType::kRc, 8, 1},
    {"uc_8", QpType::kUc, 8, 1},
    {"rc_4096", QpType::kRc, 4096, 1},
    {"uc_4096", QpType::kUc, 4096, 1},
    {"rc_8_burst", QpType::kRc, 8, 32},
    {"uc_8_burst", QpType::kUc, 8, 32},
    {"rc_4096_burst", QpType::kRc, 4096, 32},
    {"uc_4096_burst", QpType::kUc, 4096, 32},
};

void bursts(Program& from, Program& to, uint32_t messages, uint32_t burst) {
  for (uint32_t i = 0; i < messages; i += burst) {
    for (uint32_t n = 0; n < burst; n++) from.post_send();
    for (uint32_t received = 0, sent = 0; received < burst || sent < burst;) {
      to.turn();
      for (; to.receives() != 0; received++) to.receive_one();
      from.turn();
      while (from.sends() != 0) sent++;
    }
  }
}

void count(const Row& row, const std::string& directory, uint32_t messages) {
  bench_clock.steps = false;
  Program a(directory, 1, row.type, row.message_bytes);
  Program b(directory, 2, row.type, row.message_bytes);
  a.connect(b);
  b.connect(a);
  for (uint32_t i = 0; i < kDepth; i++) {
    a.receive_one();
    b.receive_one();
  }
  const auto run = [&] {
    if (row.burst == 1) return hops_on_one_thread(a, b, messages);
    bursts(a, b, messages, row.burst);
  };
  settle(a, b);
  bench_clock = {true, now()};
  run();  // for what happens only once
  CALLGRIND_ZERO_STATS;
  CALLGRIND_TOGGLE_COLLECT;
  run();
  CALLGRIND_TOGGLE_COLLECT;
  CALLGRIND_DUMP_STATS_AT(row.name);
}

int run(uint32_t messages) {
  for (const Row& row : kRows) {
    char directory[] = "/tmp/uroce-count-XXXXXX";
    if (mkdtemp(directory) == nullptr) return 1;
    count(row, directory, messages);
    std::filesystem::remove_all(directory);
  }
  return 0;
}

}  // namespace
}  // namespace uroce::bench

int main(int argc, char** argv) {
  return uroce::bench::run(argc > 1 ? static_cast<uint32_t>(std::strtoul(argv[1], nullptr, 0)) : 960);
}
