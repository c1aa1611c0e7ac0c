// Carries a program out, step by step, and lets the model judge it.
#pragma once

#include <memory>
#include <string>

#include "verbs_model/machine.h"
#include "verbs_model/memory.h"
#include "verbs_model/model.h"
#include "verbs_model/program.h"

namespace uroce::model {

struct Totals {
  uint64_t programs = 0;
  uint64_t posts = 0;
  uint64_t completions = 0;
  uint64_t errors = 0;  // of them
  uint64_t kept = 0;    // connections that went on after a round
  uint64_t renewed = 0;
  uint64_t sacks = 0;        // that were sent in courses
  uint64_t retransmits = 0;  // likewise
};

/// Empty, or what model and machine do not agree on.
std::string run_on(const Program& program, const Rules& rules, Machine& machine, Memory& memory,
                   Totals* totals = nullptr);

enum class Frames : uint8_t { kSilent, kShown };  // every frame to stderr

/// A course: so many rounds on the same machine, each judged by itself. Connections go on where all came to its end.
struct Course {
  uint64_t seed = 1;
  uint32_t rounds = 20;
  uint32_t without = 0;  // troubles
};
std::string run_course(const Course& course, const Rules& rules, Totals* totals = nullptr,
                       Frames frames = Frames::kSilent);

/// Engines in virtual time, and what the program begins with. All are given for as long as it lives.
std::unique_ptr<Machine> engines(const Program& program, Memory& memory, Frames frames = Frames::kSilent);

/// On engines in virtual time.
std::string run_on_engines(const Program& program, const Rules& rules, Totals* totals = nullptr,
                           Frames frames = Frames::kSilent);

}  // namespace uroce::model
