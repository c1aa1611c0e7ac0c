#include "oracle/blackout.h"

#include <algorithm>

#include "base/check.h"

namespace uroce::oracle {

void Blackout::begin(RcPairs& pairs, Instant now) {
  ensure(!under_way(), "a cable is cut once at a time");
  cable_.set({.loss = 1});
  began_ = now;
  length_ = Duration{};
  for (size_t i = 0; i < pairs.size(); i++) length_ = std::max(length_, pairs.retry_budget(pairs[i].end(0).qp()));
  doomed_.clear();
}

void Blackout::step(RcPairs& pairs, Instant now) {
  ensure(under_way() && now >= began_, "it goes on from its beginning");
  if (doomed_.empty() && now >= began_ + kUnderWay) {
    for (unsigned s = 0; s < kSides; s++) {
      for (size_t i = 0; i < pairs.size(); i++) {
        if (pairs[i].end(s).waits()) doomed_.push_back(&pairs[i].end(s));
      }
    }
  }
  if (now >= began_ + kUnderWay + length_) end();
}

/// What was under way when the cable was cut has failed by now.
void Blackout::end() {
  for (const RcEnd* end : doomed_) {
    if (!end->broken()) verdict_.fail("no error within the retry budget: %s", end->state().c_str());
  }
  began_ = Instant::never();
  cable_.set(usual_);
}

}  // namespace uroce::oracle
