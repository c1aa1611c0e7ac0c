// What every example but the first needs: to say what failed, and end.
#pragma once

#include <uroce/uroce.h>

#include <cstdio>
#include <cstdlib>
#include <string>

inline void need(bool good, const std::string& what) {
  if (good) return;
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

/// The next completion, which must be a success.
inline uroce::Completion next(uroce::rdma::Endpoint& endpoint, uroce::rdma::CompletionQueue& cq) {
  uroce::Completion completion;
  need(endpoint.wait(cq, {&completion, 1}) == 1, "nothing completes");
  need(completion.status == uroce::WcStatus::kSuccess, cause_text(completion.cause));
  return completion;
}
