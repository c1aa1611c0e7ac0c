#include "congestion/algorithms.h"

#include <algorithm>

#include "base/check.h"
#include "congestion/dcqcn.h"
#include "congestion/swift.h"
#include "congestion/timely.h"

namespace uroce {
namespace {

template <class Control>
std::unique_ptr<CongestionControl> make(const CongestionConfig& config) {
  return std::make_unique<Control>(config);
}

std::unique_ptr<CongestionControl> make_none(const CongestionConfig& /*config*/) { return nullptr; }

}  // namespace

std::span<const CongestionAlgorithmRow> congestion_algorithms() {
  static const CongestionAlgorithmRow kRows[] = {
      {CongestionAlgorithm::kNone, "none", make_none, {}},
      {CongestionAlgorithm::kDcqcn, "dcqcn", make<Dcqcn>, Dcqcn::parameters()},
      {CongestionAlgorithm::kTimely, "timely", make<Timely>, Timely::parameters()},
      {CongestionAlgorithm::kSwift, "swift", make<Swift>, Swift::parameters()},
  };
  return kRows;
}

const CongestionAlgorithmRow& row_of(CongestionAlgorithm algorithm) {
  const auto rows = congestion_algorithms();
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const CongestionAlgorithmRow& row) { return row.algorithm == algorithm; });
  ensure(found != rows.end(), "each congestion control has a row");
  return *found;
}

bool parse_congestion_algorithm(std::string_view text, CongestionAlgorithm& algorithm) {
  for (const CongestionAlgorithmRow& row : congestion_algorithms()) {
    if (text != row.name) continue;
    algorithm = row.algorithm;
    return true;
  }
  return false;
}

std::string congestion_algorithm_names(const char* last) {
  std::string names;
  const auto rows = congestion_algorithms();
  for (size_t i = 0; i < rows.size(); i++) {
    if (i != 0) names += i + 1 == rows.size() ? last : ", ";
    names += rows[i].name;
  }
  return names;
}

std::unique_ptr<CongestionControl> make_congestion_control(const CongestionConfig& config) {
  return row_of(config.algorithm).make(config);
}

}  // namespace uroce
