#include "lint/reads.h"

#include <algorithm>

namespace uroce::lint {

const Read* Reads::find(Psn psn) const {
  for (size_t i = hint_; i < reads_.size() && i < hint_ + 2; i++) {
    if (reads_[i].contains(psn)) return &reads_[hint_ = i];
  }
  for (size_t i = reads_.size(); i-- > 0;) {
    if (reads_[i].contains(psn)) return &reads_[hint_ = i];
  }
  return nullptr;
}

void Reads::insert(const Read& read) {
  const auto after =
      std::find_if(reads_.begin(), reads_.end(), [&read](const Read& r) { return distance(read.psn, r.psn) > 0; });
  open_ = std::min(open_, static_cast<size_t>(after - reads_.begin()));
  reads_.insert(after, read);
}

void Reads::drop_oldest_half() {
  constexpr size_t kHalf = kMax / 2;
  reads_.erase(reads_.begin(), reads_.begin() + kHalf);
  hint_ = 0;
  open_ -= std::min(open_, kHalf);
}

std::span<Read> Reads::open() {
  while (open_ < reads_.size() && reads_[open_].done()) open_++;
  return std::span<Read>(reads_).subspan(open_);
}

uint32_t Reads::waiting() const {
  return static_cast<uint32_t>(std::count_if(reads_.begin(), reads_.end(),
                                             [](const Read& r) { return !r.done() && r.hole == Read::Hole::kNone; }));
}

std::optional<Psn> Reads::oldest_in_doubt(Psn acked) const {
  for (size_t i = open_; i < reads_.size(); i++) {
    const Read& read = reads_[i];
    if (!read.done() && distance(read.psn, acked) > 0) return read.psn + read.answered;
  }
  return std::nullopt;
}

}  // namespace uroce::lint
