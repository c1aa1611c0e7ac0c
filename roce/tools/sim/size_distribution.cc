#include "sim/size_distribution.h"

#include <algorithm>

#include "base/check.h"
#include "sim/portable_math.h"
#include "sim/topology.h"

namespace uroce::sim {

namespace {

constexpr SizeDistribution::Point kWebSearch[] = {
    {0, 0},        {10'000, 15},    {20'000, 20},    {30'000, 30},    {50'000, 40},     {80'000, 53},
    {200'000, 60}, {1'000'000, 70}, {2'000'000, 80}, {5'000'000, 90}, {10'000'000, 97}, {30'000'000, 100}};

constexpr SizeDistribution::Point kHadoop[] = {
    {0, 0},       {100, 1},      {200, 2},      {300, 5},          {350, 15},       {400, 20},        {500, 30},
    {600, 40},    {700, 50},     {1'000, 60},   {2'000, 67},       {7'000, 70},     {30'000, 72},     {50'000, 82},
    {80'000, 87}, {120'000, 90}, {300'000, 95}, {1'000'000, 97.5}, {2'000'000, 99}, {10'000'000, 100}};

/// Reads a percentage such as "12.5": a decimal number without a sign or exponent.
bool parse_percent(std::string_view text, double& percent) {
  uint64_t millionths = 0;  // parse_rate reads such decimals exactly, so the percentage is read as a rate in Mbit/s
  if (!parse_rate(std::string(text) + "M", millionths)) return false;
  percent = static_cast<double>(millionths) / 1e6;
  return percent <= 100;
}

}  // namespace

bool SizeDistribution::named(std::string_view name, SizeDistribution& distribution) {
  if (name == "websearch") {
    distribution.points_.assign(std::begin(kWebSearch), std::end(kWebSearch));
    return true;
  }
  if (name == "hadoop") {
    distribution.points_.assign(std::begin(kHadoop), std::end(kHadoop));
    return true;
  }
  uint64_t bytes = 0;
  if (!parse_bytes(name, bytes) || bytes == 0) return false;
  distribution.points_ = {{bytes, 0}, {bytes, 100}};
  return true;
}

SizeDistribution SizeDistribution::parse(std::string_view text, std::string& error) {
  SizeDistribution distribution;
  error.clear();
  constexpr std::string_view kSpace = " \t\r\n,;";
  while (error.empty()) {
    const size_t begin = text.find_first_not_of(kSpace);
    if (begin == std::string_view::npos) break;
    const size_t end = std::min(text.find_first_of(kSpace, begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    text = text.substr(end);
    const size_t colon = word.find(':');
    Point point{};
    if (colon == std::string_view::npos || !parse_bytes(word.substr(0, colon), point.bytes) ||
        !parse_percent(word.substr(colon + 1), point.percent)) {
      error = "'" + std::string(word) + "' is not BYTES:PERCENT";
    } else if (!distribution.points_.empty() && (point.bytes < distribution.points_.back().bytes ||
                                                 point.percent < distribution.points_.back().percent)) {
      error = "'" + std::string(word) + "' is less than what comes before it";
    }
    distribution.points_.push_back(point);
  }
  if (error.empty() && (distribution.points_.empty() || distribution.points_.back().percent != 100)) {
    error = "a distribution ends with BYTES:100";
  }
  return distribution;
}

double SizeDistribution::mean_bytes() const {
  double mean = static_cast<double>(points_.front().bytes) * points_.front().percent / 100;
  for (size_t i = 1; i < points_.size(); i++) {
    const double middle = (static_cast<double>(points_[i - 1].bytes) + static_cast<double>(points_[i].bytes)) / 2;
    mean += middle * (points_[i].percent - points_[i - 1].percent) / 100;
  }
  return mean;
}

uint64_t SizeDistribution::draw(RandomSource& random) const {
  ensure(!points_.empty() && points_.back().percent == 100, "a distribution was read to its end");
  const double percent = uniform(random) * 100;
  size_t i = 0;
  while (i + 1 < points_.size() && points_[i].percent < percent) i++;
  if (i == 0) return std::max<uint64_t>(points_[0].bytes, 1);
  const Point& low = points_[i - 1];
  const Point& high = points_[i];
  ensure(low.percent < percent && percent <= high.percent, "what is drawn lies between two points");
  const double part = (percent - low.percent) / (high.percent - low.percent);
  const double bytes = static_cast<double>(low.bytes) + part * static_cast<double>(high.bytes - low.bytes);
  return std::max<uint64_t>(static_cast<uint64_t>(bytes), 1);
}

}  // namespace uroce::sim
