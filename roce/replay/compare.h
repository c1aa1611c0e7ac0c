// A recorded packet beside ours, field by field.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "replay/recording.h"
#include "replay/tolerances.h"

namespace uroce::replay {

enum class Role : uint8_t { kRequester, kResponder };

struct Row {
  std::string field;
  std::string recorded;
  std::string ours;
  bool same = true;
  const char* rule = "";  // what the field has to be
};

struct Difference {
  std::string title;
  uint64_t frame = 0;    // of the recorded packet; 0: there is none
  uint64_t because = 0;  // frame of the packet that ours answers; 0: none
  std::vector<Row> rows;
  std::vector<std::string> reasons;  // what our engine said
};

struct CompareContext {
  Role role = Role::kResponder;
  uint32_t own_qpn = 0;  // of our QP, where the recorded one was
  uint32_t recorded_qpn = 0;
  bool refused_send = false;           // a NAK of ours for a SEND that was too long
  bool duplicate = false;              // the answer to a request that was answered before
  bool reliable = true;                // the service: RC
  const Recorded* first = nullptr;     // packet of the recorded side: what its QP keeps
  const Recorded* original = nullptr;  // READ response with this PSN that was recorded before; nullptr: none
  std::optional<bool> gives_credits;   // as in the first ACK
};

/// All fields; those with a tolerance count as same and are counted in `used`.
std::vector<Row> compare(const CompareContext& context, const Recorded& recorded, const PacketView& ours,
                         ToleranceUse& used);
/// Of an ACK's AETH.
bool gives_credits(const Aeth& aeth);
bool all_same(const std::vector<Row>& rows);
/// One packet alone: for those that have no partner.
std::string summary(const PacketView& packet);

}  // namespace uroce::replay
