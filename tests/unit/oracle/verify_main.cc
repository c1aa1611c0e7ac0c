// uroce-verify: mixed operations between two simulated hosts, every byte and every completion checked.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "oracle/options.h"

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
      "             [--drawn] [--without FAULT,...]\n"
      "--drawn draws the cable, the hosts and what befalls them from the seed; options behind it change that.\n"
      "Probabilities are per frame. --mtu 0 draws one for each QP. --seeds runs COUNT seeds from --seed on.\n");
}

/// What the rest changes: nothing, or what is drawn from the seed.
bool begin(int argc, char** argv, uroce::oracle::MixedOptions& options) {
  bool drawn = false;
  uint64_t seed = 1;
  uint32_t without = 0;
  for (int i = 1; i < argc; i++) {
    drawn = drawn || std::strcmp(argv[i], "--drawn") == 0;
    if (i + 1 == argc) break;
    if (std::strcmp(argv[i], "--seed") == 0) seed = std::strtoull(argv[i + 1], nullptr, 0);
    if (std::strcmp(argv[i], "--without") == 0 && !uroce::oracle::parse_faults(argv[i + 1], without)) return false;
  }
  if (drawn) options = uroce::oracle::draw_mixed(seed, without);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  uroce::oracle::MixedOptions options;
  uint64_t seeds = 1;
  if (!begin(argc, argv, options)) return 2;
  auto& wrong = options.impairments;
  for (int i = 1; i < argc; i++) {
    const std::string name = argv[i];
    if (name == "--trace" || name == "--drawn") {
      options.trace = options.trace || name == "--trace";
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
      options.seed = number;  // `begin` knows it
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
    } else if (name != "--without") {
      usage();
      return 2;
    }
  }
  for (uint64_t n = 0; n < seeds; n++, options.seed++) {
    const auto report = uroce::oracle::run_mixed(options);
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(options.seed), report.text().c_str());
    if (!report.failure.empty()) {
      std::printf("FAILED: %s\nrepeat with: %s\n", report.failure.c_str(), options.command().c_str());
      return 1;
    }
  }
  return 0;
}
