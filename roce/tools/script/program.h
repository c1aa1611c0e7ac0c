// The part of a script that plays the program: it posts work, changes QPs, and looks at its memory.
#pragma once

#include <cstdint>
#include <string>

#include "script/script.h"
#include "script/testbench.h"

namespace uroce::script {

class Program {
 public:
  explicit Program(Testbench& testbench) : testbench_(testbench) {}

  /// Carries out post, recv, modify, dereg, destroy, set or resolve. Returns what differs from what the statement
  /// expects, or an empty string.
  std::string act(const Statement& statement, int64_t round);
  /// Carries out a `memory` statement. Returns what differs, or an empty string.
  std::string check_memory(const Statement& statement, int64_t round);

 private:
  /// The QP that the statement names first. Throws ScriptError when it was destroyed.
  ScriptQp& live_qp(const Statement& statement, int64_t round);
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
