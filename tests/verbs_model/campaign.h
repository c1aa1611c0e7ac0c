// Many programs, in a process of their own: one that hangs or dies is a failure like any other, with its seed. A
// failure becomes a short program.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "verbs_model/generate.h"
#include "verbs_model/run.h"

namespace uroce::model {

/// What runs a program, and what is wrong then.
using Trial = std::function<std::string(const Program&, Totals*)>;

/// In a child process, for that long on the processor at most. Also "hangs" and "dies by signal N".
std::string try_apart(const Program& program, const Trial& trial, uint32_t limit_ms = 500);

/// Where the shorter programs are tried: what does not return or dies needs a process of its own.
enum class Place : uint8_t { kApart, kHere };

/// Leaves out steps and faults, and makes simple what is left, as long as it fails in the same way (hangs, dies, or is
/// judged wrong).
Program shrink(Program program, const Trial& trial, Place place = Place::kApart);

struct Campaign {
  uint64_t first = 1;
  uint64_t last = 1000;  // this one too
  Limits limits = {};
  bool shrinks = true;
};

struct Outcome {
  bool good = true;
  uint64_t seed = 0;    // that failed
  std::string failure;  // of the short program, if there is one
  Program program;      // the short one
  Totals totals;
  /// The seed, what is wrong, and the program as C++. Empty if nothing is.
  std::string text() const;
};

/// Ends with the first failure.
Outcome run_campaign(const Campaign& campaign, const Trial& trial);

}  // namespace uroce::model
