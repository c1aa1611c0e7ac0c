#include "oracle/shared_counter.h"

#include <cinttypes>
#include <cstring>

#include "base/check.h"

namespace uroce::oracle {

SharedCounter::SharedCounter(const sim::Side& side) : memory_(side.buffer(8)) { std::memset(memory_.data(), 0, 8); }

void SharedCounter::note_unsure(uint64_t adds) {
  unsure_ += adds;
  ensure(unsure_ <= adds_, "only what was added can be unsure");
}

void SharedCounter::check_result(uint64_t value, Verdict& verdict) {
  if (value >= adds_) {
    return verdict.fail("a FETCH_ADD of the shared counter returned %" PRIu64 " after %" PRIu64 " of them", value,
                        adds_);
  }
  if (value >= seen_.size()) seen_.resize(value + 1);
  if (seen_[value]) return verdict.fail("two FETCH_ADDs of the shared counter returned %" PRIu64, value);
  seen_[value] = true;
}

void SharedCounter::check_end(Verdict& verdict) const {
  uint64_t count;
  std::memcpy(&count, memory_.data(), 8);
  if (count > adds_ || count + unsure_ < adds_) {
    verdict.fail("the shared counter stands at %" PRIu64 " after %" PRIu64 " FETCH_ADDs, the end of %" PRIu64
                 " of which is not known",
                 count, adds_, unsure_);
  }
}

}  // namespace uroce::oracle
