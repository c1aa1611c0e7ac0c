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
  uint64_t errors = 0;  // out of these
  uint64_t kept = 0;    // connections that survived a round
  uint64_t renewed = 0;
  uint64_t sacks = 0;        // sent in courses
  uint64_t retransmits = 0;  // likewise
};

/// Empty, or what model and machine disagree on.
std::string run_on(const Program& program, const Rules& rules, Machine& machine, Memory& memory,
                   Totals* totals = nullptr);

enum class Frames : uint8_t { kSilent, kShown };  // shown: every frame on stderr

/// A course: `rounds` rounds on the same machine, each checked by itself. Connections survive a round when all their
/// work completed.
struct Course {
  uint64_t seed = 1;
  uint32_t rounds = 20;
  uint32_t without = 0;  // troubles
};
std::string run_course(const Course& course, const Rules& rules, Totals* totals = nullptr,
                       Frames frames = Frames::kSilent);

/// Engines in virtual time, in the initial state of the program. All arguments must outlive them.
std::unique_ptr<Machine> engines(const Program& program, Memory& memory, Frames frames = Frames::kSilent);

/// The same on engines in virtual time.
std::string run_on_engines(const Program& program, const Rules& rules, Totals* totals = nullptr,
                           Frames frames = Frames::kSilent);

}  // namespace uroce::model
