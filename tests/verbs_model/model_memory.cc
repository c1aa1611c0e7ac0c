// Every byte: of targets, of words, of what READs and atomics returned.
#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "verbs_model/model.h"

namespace uroce::model {

/// Whether another WRITE, surely executed, came later: by the end, or by the time `reader` was executed.
bool Model::out_of_date(const Deed& deed, uint32_t at, const Send* reader) const {
  const Send& work = sends_[deed.id];
  for (const Deed& later : deeds_) {
    if (&later == &deed || !later.sure || later.endpoint != deed.endpoint) continue;
    if (at < later.offset || at - later.offset >= later.length) continue;
    const Send& other = sends_[later.id];
    const bool same_queue = work.qp == other.qp && work.generation == other.generation;
    if (deed.ended >= later.began && !(same_queue && later.order > deed.order)) continue;
    if (reader == nullptr) return true;
    const bool before_reader = reader->qp == other.qp && reader->generation == other.generation
                                   ? later.order < reader->order
                                   : later.ended < reader->began;
    if (before_reader) return true;
  }
  return false;
}

/// Whether the target may have this value there: now, or when `reader` was executed.
bool Model::could_hold(unsigned endpoint, uint32_t at, uint8_t value, const Send* reader) const {
  bool overwritten = false;
  for (const Deed& deed : deeds_) {
    if (deed.endpoint != endpoint || at < deed.offset || at - deed.offset >= deed.length) continue;
    const Send& work = sends_[deed.id];
    bool before_reader = reader == nullptr;
    if (reader != nullptr) {
      const bool same_queue = work.qp == reader->qp && work.generation == reader->generation;
      before_reader = same_queue ? deed.order < reader->order : deed.ended < reader->began;
      if (same_queue && deed.order > reader->order && deed.fenced) continue;
    }
    overwritten |= deed.sure && before_reader;
    if (work.payload[at - deed.offset] == value && !out_of_date(deed, at, reader)) return true;
  }
  return !overwritten && value == Memory::first_target()[at];
}

/// `partial`: it failed, so bytes may be unchanged.
void Model::compare_read(const Send& send, bool partial) {
  const Step& step = *send.step;
  const unsigned endpoint = queue(send.qp).spec.endpoint;
  const unsigned there = peer(send.qp).spec.endpoint;
  const bool known = step.region != Region::kWords && send.remote != Sure::kNo && send.local != Sure::kNo;
  uint32_t at = step.offset;
  for (const Element& element : step.sges) {
    const uint32_t begin = at;
    at += element.length;
    if (element.region != Region::kLanding || element.wrong_key || element.offset > kLandingBytes ||
        element.length > kLandingBytes - element.offset)
      continue;
    const uint8_t* bytes = memory_.landing(endpoint) + element.offset;
    for (uint32_t i = 0; i < element.length; i++) {
      if (partial && bytes[i] == Memory::kCanary) continue;
      if (send.remote != Sure::kNo && (!known || could_hold(there, begin + i, bytes[i], &send))) continue;
      return fail("step %td: byte %u of a READ that %s is 0x%02x", &send - sends_.data(), begin + i - step.offset,
                  partial ? "failed" : "succeeded", bytes[i]);
    }
  }
}

void Model::check_atomic(Send& send, bool done) {
  const Step& step = *send.step;
  const Queue& q = queue(send.qp);
  if (send.remote == Sure::kNo || send.reached == Sure::kNo) return;
  if (!done) return;
  uint8_t bytes[8];
  uint32_t at = 0;
  for (const Element& element : step.sges) {
    if (element.length == 0) continue;
    std::memcpy(bytes + at, memory_.landing(q.spec.endpoint) + element.offset, element.length);
    at += element.length;
  }
  uint64_t original = 0;
  std::memcpy(&original, bytes, sizeof original);
  if (step.opcode == WrOpcode::kCompareSwap) return check_swap(send, original);
  Side& there = side(peer(send.qp));
  const unsigned word = step.offset / 8;
  if (word == kCounterWord) return check_count(send, original);
  there.added[word] |= step.operand;
  const uint64_t possible = there.added[word] | there.maybe_added[word];
  if ((original & ~possible) != 0 || (original & step.operand) != 0 || (send.adds_before & ~original) != 0) {
    fail("step %td: FETCH_ADD returned 0x%" PRIx64, &send - sends_.data(), original);
  }
}

/// No two FETCH_ADDs of the counter return the same value.
void Model::check_count(const Send& send, uint64_t original) {
  Side& there = side(peer(send.qp));
  there.counted++;
  const bool possible = original >= send.adds_before && original < there.counts;
  if (possible && original >= there.returned.size()) there.returned.resize(original + 1);
  if (!possible || there.returned[original]) {
    return fail("step %td: FETCH_ADD of the counter returned %" PRIu64 " after %" PRIu64 " to %" PRIu64 " others%s",
                &send - sends_.data(), original, send.adds_before, there.counts - 1, possible ? ", again" : "");
  }
  there.returned[original] = true;
}

void Model::check_swap(const Send& send, uint64_t original) {
  const Step& step = *send.step;
  const Side& there = side(peer(send.qp));
  bool possible = original == 0;
  for (const uint32_t id : there.swaps[step.offset / 8]) {
    const Send& other = sends_[id];
    if (&other == &send) continue;
    possible |= other.step->operand == original;
    if (original != step.compare || other.step->compare != step.compare || !other.swapped) continue;
    return fail("step %td: COMPARE_SWAP found 0x%" PRIx64 ", which step %u had replaced", &send - sends_.data(),
                original, id);
  }
  if (!possible) fail("step %td: COMPARE_SWAP returned 0x%" PRIx64, &send - sends_.data(), original);
  sends_[static_cast<size_t>(&send - sends_.data())].swapped = original == step.compare;
}

void Model::check_words(unsigned endpoint) {
  for (unsigned word = 0; word < kWords; word++) {
    const Side& there = sides_[endpoint];
    const uint64_t value = memory_.words(endpoint)[word];
    bool good;
    if (word == kCounterWord) {
      good = value >= there.counted && value <= there.counts;
    } else if (word < kWords / 2) {
      const uint64_t possible = there.added[word] | there.maybe_added[word];
      good = (value & ~possible) == 0 && (there.added[word] & ~value) == 0;
    } else {
      // No operation stores 0 again, so one that found its comparand has left another value.
      bool swapped = false;
      good = false;
      for (const uint32_t id : there.swaps[word]) {
        good |= sends_[id].step->operand == value;
        swapped |= sends_[id].swapped;
      }
      good |= value == 0 && !swapped;
    }
    if (!good) fail("word %u of endpoint %u is 0x%" PRIx64, word, endpoint, value);
  }
}

void Model::check_memory() {
  if (!Memory::source_intact()) return fail("a byte of the source was changed");
  for (unsigned endpoint = 0; endpoint < sides_.size() && !failed(); endpoint++) {
    for (const Receive& receive : receives_) {
      if (receive.outstanding && queue(receive.qp).spec.endpoint == endpoint) settle_partial(receive);
    }
    const uint32_t wrong = memory_.first_difference(endpoint);
    if (wrong != kLandingBytes) {
      return fail("byte %u of the landing of endpoint %u was changed by nobody who may", wrong, endpoint);
    }
    check_words(endpoint);
    check_target(endpoint);
  }
}

/// Compares stretch by stretch; in each of them the same WRITEs overlap.
void Model::check_target(unsigned endpoint) {
  const uint8_t* target = memory_.target(endpoint);
  for (uint32_t at = 0, next; at < kTargetBytes && !failed(); at = next) {
    next = kTargetBytes;
    for (const Deed& deed : deeds_) {
      if (deed.endpoint != endpoint) continue;
      for (const uint32_t edge : {deed.offset, deed.offset + deed.length}) {
        if (edge > at) next = std::min(next, edge);
      }
    }
    if (holds_at_once(endpoint, at, next - at)) continue;
    for (uint32_t byte = at; byte < next && !failed(); byte++) {
      if (could_hold(endpoint, byte, target[byte], nullptr)) continue;
      fail("byte %u of the target of endpoint %u is 0x%02x", byte, endpoint, target[byte]);
    }
  }
}

/// Whether all of it is from one WRITE, or from none.
bool Model::holds_at_once(unsigned endpoint, uint32_t at, uint32_t bytes) const {
  const uint8_t* target = memory_.target(endpoint) + at;
  bool written = false;
  for (const Deed& deed : deeds_) {
    if (deed.endpoint != endpoint || at < deed.offset || at - deed.offset >= deed.length) continue;
    written |= deed.sure;
    const uint8_t* payload = sends_[deed.id].payload.data() + (at - deed.offset);
    if (std::memcmp(target, payload, bytes) == 0 && !out_of_date(deed, at, nullptr)) return true;
  }
  return !written && std::memcmp(target, Memory::first_target() + at, bytes) == 0;
}

}  // namespace uroce::model
