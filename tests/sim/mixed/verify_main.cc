// uroce-verify: mixed operations between two simulated hosts, every byte and every completion checked.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "sim/check/options.h"

namespace {

uroce::LossRecovery recovery_of(const char* word) {
  if (std::strcmp(word, "auto") == 0) return uroce::LossRecovery::kAuto;
  if (std::strcmp(word, "selective") == 0) return uroce::LossRecovery::kSelective;
  return uroce::LossRecovery::kGoBackN;
}

void usage() {
  std::printf(
      "uroce-verify [--type rc|uc|ud] [--ops N] [--seed S] [--seeds COUNT] [--loss P] [--reorder P] [--dup P]\n"
      "             [--corrupt P] [--span-us N] [--mtu M] [--qps K] [--max BYTES] [--small BYTES] [--trace]\n"
      "             [--recovery go-back-n|auto|selective] [--recovery-a ...] [--recovery-b ...]\n"
      "Probabilities are per frame. --mtu 0 draws one for each QP. --seeds runs COUNT seeds from --seed on.\n");
}

}  // namespace

int main(int argc, char** argv) {
  uroce::sim::MixedOptions options;
  uint64_t seeds = 1;
  auto& wrong = options.impairments;
  for (int i = 1; i < argc; i++) {
    const std::string name = argv[i];
    if (name == "--trace") {
      options.trace = true;
      continue;
    }
    if (name == "--help" || i + 1 == argc) {
      usage();
      return name == "--help" ? 0 : 2;
    }
    const char* value = argv[++i];
    const uint64_t number = std::strtoull(value, nullptr, 0);
    const double probability = std::strtod(value, nullptr);
    if (name == "--type") {
      options.type = std::strcmp(value, "uc") == 0   ? uroce::QpType::kUc
                     : std::strcmp(value, "ud") == 0 ? uroce::QpType::kUd
                                                     : uroce::QpType::kRc;
    } else if (name == "--ops") {
      options.ops = number;
    } else if (name == "--seed") {
      options.seed = number;
    } else if (name == "--seeds") {
      seeds = number;
    } else if (name == "--loss") {
      wrong.loss = probability;
    } else if (name == "--reorder") {
      wrong.reorder = probability;
    } else if (name == "--dup") {
      wrong.duplicate = probability;
    } else if (name == "--corrupt") {
      wrong.corrupt = probability;
    } else if (name == "--span-us") {
      wrong.reorder_span = uroce::microseconds(static_cast<int64_t>(number));
    } else if (name == "--mtu") {
      options.mtu = static_cast<uint32_t>(number);
    } else if (name == "--qps") {
      options.qps = static_cast<uint32_t>(number);
    } else if (name == "--max") {
      options.max_bytes = static_cast<uint32_t>(number);
    } else if (name == "--recovery") {
      options.recovery_a = options.recovery_b = recovery_of(value);
    } else if (name == "--recovery-a") {
      options.recovery_a = recovery_of(value);
    } else if (name == "--recovery-b") {
      options.recovery_b = recovery_of(value);
    } else if (name == "--small") {
      options.small_bytes = static_cast<uint32_t>(number);
    } else {
      usage();
      return 2;
    }
  }
  for (uint64_t n = 0; n < seeds; n++, options.seed++) {
    const auto report = uroce::sim::run_mixed(options);
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(options.seed), report.text().c_str());
    if (!report.failure.empty()) {
      std::printf("FAILED: %s\nrepeat with: %s\n", report.failure.c_str(), options.command().c_str());
      return 1;
    }
  }
  return 0;
}
