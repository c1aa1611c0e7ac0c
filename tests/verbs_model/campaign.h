// Many programs, in a process of their own: one that hangs or dies is a failure like any other, with its seed. A
// failure becomes a short program.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "verbs_model/generate.h"
#include "verbs_model/run.h"

namespace uroce::model {

/// Runs a program and returns what is wrong, or "".
using Trial = std::function<std::string(const Program&, Totals*)>;

/// Runs it in a child process with this much CPU time at most. May also return "hangs" and "dies by signal N".
std::string try_apart(const Program& program, const Trial& trial, uint32_t limit_ms = 500);

/// Where shorter programs are tried: those that hang or die need a process of their own.
enum class Place : uint8_t { kApart, kHere };

/// Leaves out steps and faults and simplifies the rest, as long as the program fails in the same way (hangs, dies, or
/// is found wrong).
Program shrink(Program program, const Trial& trial, Place place = Place::kApart);

struct Campaign {
  uint64_t first = 1;
  uint64_t last = 1000;  // included
  Limits limits = {};
  bool shrinks = true;
};

struct Outcome {
  bool good = true;
  uint64_t seed = 0;    // of the failed program
  std::string failure;  // of the shortened program, if there is one
  Program program;      // the shortened one
  Totals totals;
  /// The seed, the failure, and the program as C++. Empty when nothing failed.
  std::string text() const;
};

/// Ends at the first failure.
Outcome run_campaign(const Campaign& campaign, const Trial& trial);

}  // namespace uroce::model
