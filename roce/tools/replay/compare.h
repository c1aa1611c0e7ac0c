// Compares a recorded packet with ours, field by field.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "replay/recording.h"
#include "replay/tolerances.h"

namespace uroce::replay {

enum class Role : uint8_t { kRequester, kResponder };

struct FieldPair {
  std::string field;
  std::string recorded;
  std::string ours;
  bool same = true;
  const char* rule = "";  // the rule for this field
};

struct Difference {
  std::string title;
  uint64_t frame = 0;    // number of the recorded packet; 0: there is none
  uint64_t because = 0;  // number of the packet that our packet answers; 0: none
  std::vector<FieldPair> rows;
  std::vector<std::string> reasons;  // what our engine said
};

struct CompareContext {
  Role role = Role::kResponder;
  uint32_t own_qpn = 0;  // the number of our QP, which takes the place of recorded_qpn
  uint32_t recorded_qpn = 0;
  bool refused_send = false;           // our packet is a NAK for a SEND that was too long
  bool duplicate = false;              // our packet answers a request that was answered before
  bool reliable = true;                // the service: RC
  const Recorded* first = nullptr;     // first packet of the recorded side: its QP keeps some fields of it
  const Recorded* original = nullptr;  // the READ response with this PSN that was recorded before, or nullptr
  std::optional<bool> gives_credits;   // whether the first ACK gave credits
};

/// Compares all fields. Those with a tolerance count as the same, and the tolerance is counted in `used`.
std::vector<FieldPair> compare(const CompareContext& context, const Recorded& recorded, const PacketView& ours,
                               ToleranceUse& used);
/// True when the AETH of an ACK gives credits.
bool gives_credits(const Aeth& aeth);
bool all_same(const std::vector<FieldPair>& rows);
/// Describes one packet, for those that have no partner.
std::string summary(const PacketView& packet);

}  // namespace uroce::replay
