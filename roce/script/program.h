// What a script's program does: posts work, changes QPs, looks at its memory.
#pragma once

#include <cstdint>
#include <string>

#include "script/script.h"
#include "script/testbench.h"

namespace uroce::script {

class Program {
 public:
  explicit Program(Testbench& testbench) : testbench_(testbench) {}

  /// post, recv, modify, dereg, destroy, set, resolve. Says what went otherwise than the statement expects, or nothing.
  std::string act(const Statement& statement, int64_t round);
  /// The `memory` statement; says what differs.
  std::string check_memory(const Statement& statement, int64_t round);

 private:
  std::string post(const Statement& statement, int64_t round);
  std::string recv(const Statement& statement, int64_t round);
  std::string modify(const Statement& statement, int64_t round);
  void set_memory(const Statement& statement, int64_t round);
  void fill_bind(const Statement& statement, int64_t round, SendWr& wr);
  std::vector<Sge> sges(const Statement& statement, int64_t round, size_t first, bool inline_data);
  uint8_t* memory(const Value& value, int64_t round, uint64_t bytes);

  Testbench& testbench_;
};

}  // namespace uroce::script
