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
};

/// Empty, or what model and machine do not agree on.
std::string run_on(const Program& program, const Rules& rules, Machine& machine, Memory& memory,
                   Totals* totals = nullptr);

enum class Frames : uint8_t { kSilent, kShown };  // every frame to stderr

/// Engines in virtual time, and what the program begins with. All are given for as long as it lives.
std::unique_ptr<Machine> engines(const Program& program, Memory& memory);

/// On engines in virtual time.
std::string run_on_engines(const Program& program, const Rules& rules, Totals* totals = nullptr,
                           Frames frames = Frames::kSilent);

}  // namespace uroce::model
