// A run over reliable connections: makes them, lets what is drawn befall them, and goes on until everything is done.
#pragma once

#include <memory>

#include "oracle/incidents.h"
#include "oracle/rc_pairs.h"
#include "oracle/run.h"

namespace uroce::oracle {

class RcRun {
 public:
  explicit RcRun(const MixedOptions& options);
  MixedReport run();

 private:
  bool run_to_end();

  const MixedOptions options_;
  SeededRandom random_;
  Verdict verdict_;
  std::unique_ptr<MixedBed> bed_;
  RcPairs pairs_;
  Incidents incidents_;
};

}  // namespace uroce::oracle
