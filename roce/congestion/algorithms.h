// All congestion controls, one row each: its name for users, its settings by name, how it is made. A new one is a class
// in a file of its own, its settings in config.h, and a row in algorithms.cc; command lines, the environment, the
// library and the errors of all three read this table.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "congestion/congestion_control.h"

namespace uroce {

/// A setting by its name. A Duration is given in microseconds, a bool as 0 or 1.
struct CongestionParameter {
  using Field = std::variant<uint32_t*, bool*, double*, Duration*>;

  const char* name;
  double least;
  double most;
  Field (*field)(CongestionConfig&);
};

// Greatest values of settings.
inline constexpr double kMostMicroseconds = 1'000'000;
inline constexpr double kMostMegabits = 4'000'000;
inline constexpr double kMostBytes = 4'000'000'000;

struct CongestionAlgorithmRow {
  CongestionAlgorithm algorithm;
  const char* name;
  std::unique_ptr<CongestionControl> (*make)(const CongestionConfig& config);
  std::span<const CongestionParameter> parameters;
};

/// In the order in which they are named to users; "none" is the first.
std::span<const CongestionAlgorithmRow> congestion_algorithms();
const CongestionAlgorithmRow& row_of(CongestionAlgorithm algorithm);

/// Takes a name of the table. Anything else returns false and changes nothing.
bool parse_congestion_algorithm(std::string_view text, CongestionAlgorithm& algorithm);
inline const char* congestion_algorithm_name(CongestionAlgorithm algorithm) { return row_of(algorithm).name; }
/// "none, dcqcn, ...", for sentences that say what may be given; the last one follows `last`.
std::string congestion_algorithm_names(const char* last = ", ");

}  // namespace uroce
