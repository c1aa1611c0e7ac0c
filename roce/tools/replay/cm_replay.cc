#include "replay/cm_replay.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/big_endian.h"
#include "mad/mad_fields.h"
#include "replay/cm_player.h"
#include "replay/text.h"

namespace uroce::replay {

namespace {

constexpr const char* kFieldRule =
    "what the program asked for, or what the specification says, as the other end read it";

std::string name_of(const cm::MadBytes& bytes) { return std::string(mad_name(load_be16(&bytes[16]))); }

std::string content_of(const cm::MadBytes& bytes) { return {bytes.begin(), bytes.end()}; }

std::string hex(uint64_t value) { return format("0x%llx", static_cast<unsigned long long>(value)); }

std::string hex_bytes(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t byte : bytes) text += format("%02x", byte);
  return text;
}

/// The field of the message to which the byte belongs, for bytes that no field of a number covers.
std::string place_of(size_t at, MadKind kind) {
  if (at < kMadHeaderBytes) return format("header byte %zu", at);
  const size_t behind = at - kMadHeaderBytes;
  if (kind == MadKind::kReq && behind >= 56 && behind < 88) return behind < 72 ? "local_gid" : "remote_gid";
  return behind >= private_data_at(kind) ? "private_data" : format("byte %zu", behind);
}

std::vector<FieldPair> compare_mads(MadKind kind, const cm::MadBytes& expected, const cm::MadBytes& ours) {
  std::vector<FieldPair> rows;
  const auto add = [&](const std::string& field, const std::string& recorded, const std::string& actual) {
    rows.push_back({field, recorded, actual, recorded == actual, kFieldRule});
  };
  add("message", name_of(expected), name_of(ours));
  if (!rows[0].same) return rows;
  add("tid", hex(load_be64(&expected[8])), hex(load_be64(&ours[8])));
  cm::MadBytes left = expected;  // bytes that no row shows
  std::copy_n(&ours[8], 8, &left[8]);
  for (const MadField& field : mad_fields()) {
    if (field.kind != kind) continue;
    const uint64_t actual = get_field(ours.data() + kMadHeaderBytes, field);
    add(std::string(field.name), hex(get_field(expected.data() + kMadHeaderBytes, field)), hex(actual));
    set_field(left.data() + kMadHeaderBytes, field, actual);
  }
  for (size_t at = 0; at < left.size(); at++) {
    if (left[at] == ours[at]) continue;
    const size_t begin = at - at % 4;
    add(place_of(at, kind), hex_bytes({&expected[begin], 4}), hex_bytes({&ours[begin], 4}));
    at = begin + 3;
  }
  return rows;
}

class CmReplay {
 public:
  CmReplay(const CmExchange& exchange, Role role, const ReplayOptions& options)
      : exchange_(exchange), active_(role == Role::kRequester), player_(exchange, active_) {
    result_.used.withheld = options.withheld;
  }
  RoleResult run();

 private:
  bool is_own(const CmMad& mad) const { return mad.from_active == active_; }
  std::vector<CmMad> as_seen() const;
  void on_own(const CmMad& mad);
  void remember(const cm::MadBytes& bytes) { earlier_.insert(content_of(bytes)); }
  void drop_repetitions();
  void drop_answers(const CmMad* next);
  void differ(const std::string& title, uint64_t frame, std::vector<FieldPair> rows = {},
              const std::string& reason = {});

  const CmExchange& exchange_;
  const bool active_;
  CmPlayer player_;
  std::unordered_set<std::string> earlier_;  // of ours
  uint64_t because_ = 0;
  RoleResult result_;
};

void CmReplay::differ(const std::string& title, uint64_t frame, std::vector<FieldPair> rows,
                      const std::string& reason) {
  Difference difference{title, frame, because_, std::move(rows), {}};
  if (!reason.empty()) difference.reasons.push_back(reason);
  result_.differences.push_back(std::move(difference));
}

/// Drops our repetitions, which equal the originals; the recorded end repeats at its own times.
void CmReplay::drop_repetitions() {
  std::erase_if(player_.sent, [&](const cm::MadBytes& bytes) {
    const bool again = earlier_.contains(content_of(bytes));
    if (again) use(result_.used, Tolerance::kCmRepetition);
    return again;
  });
}

/// Drops answers to repetitions. Whether one is answered again depends on whether the program has decided meanwhile.
void CmReplay::drop_answers(const CmMad* next) {
  while (!player_.sent.empty()) {
    const bool wanted = next != nullptr && is_own(*next) &&
                        load_be16(&player_.sent.front()[16]) == static_cast<uint16_t>(next->attribute);
    if (wanted) return;
    remember(player_.sent.front());
    player_.sent.pop_front();
    use(result_.used, Tolerance::kCmRepetition);
  }
}

void CmReplay::on_own(const CmMad& mad) {
  if (mad.repeated) {
    use(result_.used, Tolerance::kCmRepetition);
    return;
  }
  const std::string why = player_.act(mad);
  drop_repetitions();
  if (player_.sent.empty()) {
    const std::string name(mad_name(static_cast<uint16_t>(mad.attribute)));
    return differ("the recorded end sends a " + name + ", ours does not", mad.frame, {}, why);
  }
  const cm::MadBytes ours = player_.sent.front();
  player_.sent.pop_front();
  remember(ours);
  const auto kind = static_cast<MadKind>(static_cast<unsigned>(mad.attribute) - kFirstMadAttribute);
  std::vector<FieldPair> rows = compare_mads(kind, player_.expected(mad, ours), ours);
  result_.compared++;
  if (!all_same(rows)) differ("a message differs", mad.frame, std::move(rows));
}

/// The messages as this end saw them. A DREQ does not answer a DREQ: two in a row crossed, and ours was sent first.
std::vector<CmMad> CmReplay::as_seen() const {
  std::vector<CmMad> mads = exchange_.mads;
  for (size_t i = 1; i < mads.size(); i++) {
    const bool crossed = mads[i].attribute == cm::Attribute::kDreq && is_own(mads[i]) &&
                         mads[i - 1].attribute == cm::Attribute::kDreq && !is_own(mads[i - 1]);
    if (crossed) std::swap(mads[i], mads[i - 1]);
  }
  return mads;
}

RoleResult CmReplay::run() {
  const std::vector<CmMad> mads = as_seen();
  const auto last_own = std::find_if(mads.rbegin(), mads.rend(), [&](const CmMad& mad) { return is_own(mad); });
  if (last_own == mads.rend()) {
    result_.outcome = ReplayOutcome::kSkipped;
    result_.why = "the capture has no message of this end";
    return result_;
  }
  for (const CmMad& mad : mads) {
    player_.advance(mad.time);
    drop_repetitions();
    if (is_own(mad)) {
      on_own(mad);
    } else {
      player_.deliver(mad);
      because_ = mad.frame;
      result_.injected++;
      drop_repetitions();
      if (mad.repeated) drop_answers(&mad == &mads.back() ? nullptr : &mad + 1);
    }
    const bool goes_on = &mad < &*last_own;
    const bool awaits = goes_on && is_own(*(&mad + 1));
    if (!awaits && goes_on && !player_.sent.empty()) {
      differ("ours sends a " + name_of(player_.sent.front()) + ", the recorded end does not", 0);
      for (const cm::MadBytes& bytes : player_.sent) remember(bytes);
      player_.sent.clear();
    }
  }
  if (result_.used.count(Tolerance::kCmRepetition) != 0 && !result_.used.grants(Tolerance::kCmRepetition)) {
    differ("messages are sent again, and that tolerance is withheld", 0);
  }
  result_.outcome = result_.differences.empty() ? ReplayOutcome::kSame : ReplayOutcome::kDifferent;
  return result_;
}

}  // namespace

RoleResult replay_cm(const CmExchange& exchange, Role role, const ReplayOptions& options) {
  if (exchange.active == exchange.passive) {
    RoleResult result;
    result.outcome = ReplayOutcome::kSkipped;
    result.why = "both ends have the same address";
    return result;
  }
  return CmReplay(exchange, role, options).run();
}

}  // namespace uroce::replay
