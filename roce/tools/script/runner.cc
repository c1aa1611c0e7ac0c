// Keeps the script's clock, and carries out its statements one after the other.
#include "script/runner.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "base/check.h"
#include "script/config.h"
#include "script/ledger.h"
#include "script/mads.h"
#include "script/packets.h"
#include "script/program.h"
#include "script/testbench.h"
#include "script/text.h"
#include "script/vocabulary.h"
#include "transport/frame_builder.h"
#include "transport/qp.h"

namespace uroce::script {

namespace {

constexpr size_t kTimelineMax = 400;

/// Thrown when the engine did something else than the script expects.
struct Mismatch {
  Where where;
  std::string text;
  std::vector<FieldCheck> rows;
};

struct Event {
  Duration at;
  bool is_frame = false;
  bool sent = false;
  std::string text;
  Bytes frame;
};

bool is_roce(std::span<const uint8_t> frame) {
  PacketView view;
  return parse_frame(frame, view) != ParseResult::kNotRoce;
}

std::string completion_text(const ScriptQp& qp, const Completion& c) {
  std::string text = format("completion %u ", qp.id) + completion_kind_name(c.opcode) + " " + status_name(c.status) +
                     format(" wrid %llu", static_cast<unsigned long long>(c.wr_id));
  if (c.status != WcStatus::kSuccess) return text + " cause " + cause_name(c.cause);
  if (c.opcode >= WcOpcode::kRecv) text += format(" bytes %u", c.byte_len);
  if ((c.flags & kWcWithImm) != 0) text += format(" imm 0x%x", __builtin_bswap32(c.imm_or_rkey));
  if ((c.flags & kWcWithInv) != 0) text += format(" inv 0x%x", c.imm_or_rkey);
  if ((c.flags & kWcGrh) != 0) text += format(" grh src_qp 0x%x", c.src_qp);
  return text;
}

class Runner {
 public:
  Runner(const Script& script, bool keep_frames)
      : script_(script),
        keep_frames_(keep_frames),
        testbench_(config_of(script)),
        program_(testbench_),
        last_(kStart) {}

  Result run();

 private:
  void execute(const Statement& s);
  void input(const Statement& s);
  void act(const Statement& s);
  void define(const Statement& s);
  void inject(const Statement& s, Bytes frame);
  void check(const Statement& s);
  void expect_packet(const Statement& s);
  void expect_completion(const Statement& s);
  void expect_cm_event(const Statement& s);
  void expect_event(const Statement& s);
  void check_time(const Statement& s, Instant at, std::vector<FieldCheck> rows, const char* what);
  void check_memory(const Statement& s);
  void check_state(const Statement& s, ScriptQp& qp);
  void require_quiet(const Where& where);
  void advance(const Statement& s, Instant to);
  void at_end();

  ScriptQp& qp_named(const Statement& s);
  Instant earliest(const Statement& s) const { return (s.when.absolute ? kStart : last_) + s.when.earliest; }
  Instant latest(const Statement& s) const { return (s.when.absolute ? kStart : last_) + s.when.latest; }
  void take_sent();
  void note(Event event);
  std::string line_of(const Statement& s) const;
  std::string report(const Mismatch& mismatch);
  std::vector<std::string> timeline();

  const Script& script_;
  const bool keep_frames_;
  Testbench testbench_;
  Program program_;
  Ledger ledger_;
  Mads mads_;
  Instant last_;  // when the previous statement took place
  int64_t round_ = 0;
  std::deque<SentFrame> unmatched_;
  std::deque<Event> events_;
  std::vector<TimelineFrame> frames_;
};

/// Puts everything that the engine sent into the timeline, except ARP and the like.
void Runner::take_sent() {
  auto& sent = testbench_.sent();
  for (; !sent.empty(); sent.pop_front()) {
    SentFrame& one = sent.front();
    ledger_.on_sent(testbench_, one.frame);
    mads_.on_sent(one.frame);
    if (!is_roce(one.frame)) continue;
    note({one.at - kStart, true, true, "", one.frame});
    unmatched_.push_back(std::move(one));
  }
}

void Runner::note(Event event) {
  if (keep_frames_ && event.is_frame) frames_.push_back({event.at, event.sent, event.frame});
  if (events_.size() == kTimelineMax) events_.pop_front();
  events_.push_back(std::move(event));
}

std::string Runner::line_of(const Statement& s) const { return script_.lines[s.where.line - 1].substr(s.where.column); }

ScriptQp& Runner::qp_named(const Statement& s) {
  const int64_t id = s.number("qp", testbench_.qps().contains(1) ? 1 : testbench_.qps().begin()->first, round_);
  if (!testbench_.qps().contains(static_cast<uint32_t>(id)))
    throw ScriptError(s.find("qp")->where, "there is no such qp");
  return testbench_.qp(id);
}

/// Nothing may be left over when the script goes on: neither packets nor completions.
void Runner::require_quiet(const Where& where) {
  take_sent();
  if (!unmatched_.empty()) {
    const SentFrame& first = unmatched_.front();
    throw Mismatch{where,
                   "sent although the script does not expect it, at " + to_text(first.at - kStart) + ":\n    > " +
                       describe(testbench_, first.frame, true),
                   {}};
  }
  for (const auto& [id, qp] : testbench_.qps()) {
    if (qp->completions.empty()) continue;
    const SeenCompletion& first = qp->completions.front();
    throw Mismatch{where,
                   "completed although the script does not expect it, at " + to_text(first.at - kStart) + ":\n    " +
                       completion_text(*qp, first.completion),
                   {}};
  }
  if (!testbench_.manager().events().empty()) {
    const Manager::Seen& first = testbench_.manager().events().front();
    throw Mismatch{where,
                   "happened although the script does not expect it, at " + to_text(first.at - kStart) + ":\n    " +
                       cm_event_text(first.event, testbench_.manager()),
                   {}};
  }
  if (testbench_.stuck()) throw Mismatch{where, "the engine never comes to rest", {}};
}

void Runner::advance(const Statement& s, Instant to) {
  require_quiet(s.where);
  while (testbench_.step(to)) require_quiet(s.where);
}

void Runner::execute(const Statement& s) {
  switch (s.kind) {
    case Kind::kEngine:
      return;
    case Kind::kExpect:
    case Kind::kExpectMad:
      return expect_packet(s);
    case Kind::kCmEvent:
      return expect_cm_event(s);
    case Kind::kCompletion:
      return expect_completion(s);
    case Kind::kState:
    case Kind::kCounter:
    case Kind::kMemory:
    case Kind::kEvent:
    case Kind::kNothing:
      return check(s);
    default:
      return input(s);
  }
}

/// What the program, the peer or the port does. Statements joined by `&` happen before the engine's next turn.
void Runner::input(const Statement& s) {
  if (!s.when.same_burst) {
    if (s.when.latest != s.when.earliest) throw ScriptError(s.where, "only what is expected can have a time span");
    advance(s, earliest(s));
    last_ = testbench_.now();
  }
  act(s);
  const auto index = static_cast<size_t>(&s - script_.statements.data());
  const bool joined = index + 1 < script_.statements.size() && script_.statements[index + 1].when.same_burst;
  if (joined) return;
  testbench_.turn();
  take_sent();
}

void Runner::inject(const Statement& s, Bytes frame) {
  ledger_.on_injected();
  note({testbench_.now() - kStart, true, false, s.kind == Kind::kRaw ? line_of(s) : "", frame});
  if (!testbench_.port().deliver(frame)) {
    throw ScriptError(s.where,
                      "the port has no room for this: it is longer than `max_frame`, or one of too many at once");
  }
}

void Runner::act(const Statement& s) {
  if (s.kind == Kind::kInject) return inject(s, build_frame(testbench_, qp_named(s), s, round_));
  if (s.kind == Kind::kInjectMad) {
    Route path = testbench_.peer_path(s.has("ipv6"));
    if (const Option* src = s.find("src_ip")) path.src_ip = src->value.ip;
    return inject(s, mads_.build(s, round_, path));
  }
  if (s.kind == Kind::kRaw) {
    const Option* hex = s.find("hex");
    if (hex == nullptr) throw ScriptError(s.where, "write: raw hex 0200...");
    return inject(s, hex->value.bytes);
  }
  note({testbench_.now() - kStart, false, false, line_of(s), {}});
  switch (s.kind) {
    case Kind::kQp:
    case Kind::kMr:
    case Kind::kMw:
    case Kind::kSrq:
      define(s);
      break;
    case Kind::kCm: {
      const Route& path = testbench_.peer_path(s.has("ipv6"));
      const std::string wrong = testbench_.manager().act(s, round_, testbench_.qps(), path.src_ip, testbench_.now());
      if (!wrong.empty()) throw Mismatch{s.where, wrong, {}};
      break;
    }
    case Kind::kPort:
      if (s.word != "full" && s.word != "free") throw ScriptError(s.where, "a port is full or free");
      testbench_.port().set_congested(s.word == "full");
      break;
    default: {
      const std::string wrong = program_.act(s, round_);
      if (!wrong.empty()) throw Mismatch{s.where, wrong, {}};
    }
  }
}

void Runner::define(const Statement& s) {
  const std::string wrong = s.kind == Kind::kQp   ? testbench_.add_qp(s)
                            : s.kind == Kind::kMr ? testbench_.add_mr(s)
                            : s.kind == Kind::kMw ? testbench_.add_mw(s)
                                                  : testbench_.add_srq(s);
  if (!wrong.empty()) throw ScriptError(s.where, wrong);
}

void Runner::check_time(const Statement& s, Instant at, std::vector<FieldCheck> rows, const char* what) {
  const Instant from = earliest(s);
  const Instant to = latest(s);
  const bool in_time = at >= from && at <= to;
  if (!in_time) {
    std::string span = to_text(from - kStart);
    if (to != from) span += ".." + to_text(to - kStart);
    rows.insert(rows.begin(), {"time", span, to_text(at - kStart), false});
  }
  const bool same = std::all_of(rows.begin(), rows.end(), [](const FieldCheck& row) { return row.same; });
  if (!same) throw Mismatch{s.where, std::string("this ") + what + " differs", std::move(rows)};
  last_ = std::max(last_, at);
}

void Runner::expect_packet(const Statement& s) {
  const Instant until = latest(s);
  take_sent();
  while (unmatched_.empty() && testbench_.step(until)) take_sent();
  if (unmatched_.empty()) {
    throw Mismatch{s.where, "expected, but nothing was sent until " + to_text(until - kStart), {}};
  }
  const SentFrame sent = std::move(unmatched_.front());
  unmatched_.pop_front();
  if (s.kind == Kind::kExpectMad) {
    const Route& path = testbench_.peer_path(s.has("ipv6"));
    return check_time(s, sent.at, mads_.compare(s, round_, path, sent.frame), "message");
  }
  check_time(s, sent.at, compare(testbench_, qp_named(s), s, round_, sent.frame), "packet");
}

void Runner::expect_completion(const Statement& s) {
  ScriptQp& qp = testbench_.qp(s.args[0].number.at(round_));
  const Instant until = latest(s);
  while (qp.completions.empty() && testbench_.step(until)) {
  }
  if (qp.completions.empty()) {
    throw Mismatch{s.where, "expected, but nothing completed until " + to_text(until - kStart), {}};
  }
  const auto [at, c] = qp.completions.front();
  qp.completions.pop_front();
  ledger_.on_completion(c);
  note({at - kStart, false, true, completion_text(qp, c), {}});
  std::vector<FieldCheck> rows;
  const auto row = [&](const char* field, const std::string& expected, const std::string& actual) {
    rows.push_back({field, expected, actual, expected == actual});
  };
  const auto number = [&](const char* field, int64_t actual) {
    if (s.has(field)) row(field, std::to_string(s.number(field, 0, round_)), std::to_string(actual));
  };
  if (s.word != "*") row("kind", s.word, completion_kind_name(c.opcode));
  row("status", s.args.back().text, status_name(c.status));
  number("wrid", static_cast<int64_t>(c.wr_id));
  number("bytes", c.byte_len);
  number("src_qp", c.src_qp);
  if (c.status == WcStatus::kSuccess) {
    row("immediate", s.has("imm") ? "yes" : "no", (c.flags & kWcWithImm) != 0 ? "yes" : "no");
    row("invalidated", s.has("inv") ? "yes" : "no", (c.flags & kWcWithInv) != 0 ? "yes" : "no");
    row("grh", s.has("grh") ? "yes" : "no", (c.flags & kWcGrh) != 0 ? "yes" : "no");
  }
  number("imm", __builtin_bswap32(c.imm_or_rkey));
  if (s.has("inv"))
    row("inv", std::to_string(key_of(testbench_, s.find("inv")->value, round_)), std::to_string(c.imm_or_rkey));
  if (s.has("cause")) row("cause", s.find("cause")->value.text, cause_name(c.cause));
  if (qp.qp != nullptr) row("qp_num", std::to_string(qp.qp->qpn()), std::to_string(c.qp_num));
  check_time(s, at, std::move(rows), "completion");
}

/// Events of Ids come in order; of a request, `cm_event` gives the new Id its number.
void Runner::expect_cm_event(const Statement& s) {
  Manager& manager = testbench_.manager();
  const Instant until = latest(s);
  while (manager.events().empty() && testbench_.step(until)) {
  }
  if (manager.events().empty()) {
    throw Mismatch{s.where, "expected, but nothing happened until " + to_text(until - kStart), {}};
  }
  const auto [at, event] = manager.events().front();
  manager.events().pop_front();
  const auto number = static_cast<uint32_t>(s.args[0].number.at(round_));
  if (event.type == cm::EventType::kConnectRequest && s.word == "request") {
    if (manager.has(number)) throw ScriptError(s.args[0].where, "this number is taken");
    manager.name(number, event.id);
  }
  note({at - kStart, false, true, cm_event_text(event, manager), {}});
  check_time(s, at, compare_cm_event(s, round_, event, manager), "event");
}

void Runner::check(const Statement& s) {
  if (s.when.same_burst) throw ScriptError(s.where, "`&` joins what is done, not what is checked");
  const Instant at = earliest(s);
  if (s.kind == Kind::kNothing || at > testbench_.now()) advance(s, at);
  if (s.kind == Kind::kNothing) require_quiet(s.where);
  last_ = std::max(last_, at);
  switch (s.kind) {
    case Kind::kState:
      return check_state(s, testbench_.qp(s.args[0].number.base));
    case Kind::kCounter: {
      const int64_t expected = s.args[1].number.at(round_);
      const auto actual = static_cast<int64_t>(ledger_.counter(testbench_, s.word));
      ledger_.on_mentioned(s.word, expected);
      if (expected != actual) {
        throw Mismatch{
            s.where, "this counter differs", {{s.word, std::to_string(expected), std::to_string(actual), false}}};
      }
      return;
    }
    case Kind::kMemory:
      return check_memory(s);
    case Kind::kEvent:
      return expect_event(s);
    default:
      return;
  }
}

void Runner::check_state(const Statement& s, ScriptQp& qp) {
  qp.expected_state = *state_of(s.word);
  const std::string actual = qp.qp == nullptr ? "destroyed" : state_name(qp.qp->state());
  if (actual != s.word) throw Mismatch{s.where, "this QP's state differs", {{"state", s.word, actual, false}}};
}

/// Events that a script does not mention are ignored; those that it mentions must come in its order.
void Runner::expect_event(const Statement& s) {
  auto& events = testbench_.qp(s.args[0].number.base).events;
  std::string seen;
  while (!events.empty()) {
    const std::string name = event_name(events.front());
    events.pop_front();
    if (name == s.word) return;
    seen += (seen.empty() ? "" : ", ") + name;
  }
  throw Mismatch{s.where, "this event did not come", {{"event", s.word, seen.empty() ? "none" : seen, false}}};
}

void Runner::check_memory(const Statement& s) {
  const std::string wrong = program_.check_memory(s, round_);
  if (!wrong.empty()) throw Mismatch{s.where, wrong, {}};
}

void Runner::at_end() {
  const Where end{static_cast<uint32_t>(script_.lines.size()), 0, 1};
  require_quiet(end);
  for (const auto& [id, qp] : testbench_.qps()) {
    if (qp->qp == nullptr || qp->qp->state() == qp->expected_state) continue;
    throw Mismatch{end,
                   format("qp %u changed its state although the script does not expect it", id),
                   {{"state", state_name(qp->expected_state), state_name(qp->qp->state()), false}}};
  }
  std::vector<FieldCheck> rows = ledger_.differences(testbench_);
  if (!rows.empty()) {
    throw Mismatch{end, "at the end of the script, a counter says what the timeline does not", std::move(rows)};
  }
}

std::vector<std::string> Runner::timeline() {
  std::vector<std::string> lines;
  if (events_.size() == kTimelineMax) lines.emplace_back("(earlier events left out)");
  for (const Event& event : events_) {
    std::string line = format("%12s  ", to_text(event.at).c_str());
    if (event.is_frame) {
      line += event.sent ? "> " : "< ";
      line += event.text.empty() ? describe(testbench_, event.frame, event.sent) : event.text;
    } else {
      line += event.text;
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string Runner::report(const Mismatch& mismatch) {
  std::string text = explain(script_.name, script_.lines, mismatch.where, mismatch.text);
  if (round_ != 0)
    text += format("in round %lld of `repeat` (i = %lld)\n", static_cast<long long>(round_) + 1,
                   static_cast<long long>(round_));
  if (!mismatch.rows.empty()) {
    size_t width = 8;
    for (const FieldCheck& row : mismatch.rows) width = std::max(width, row.expected.size());
    text += format("    %-12s %-*s  %s\n", "", static_cast<int>(width), "expected", "actual");
    for (const FieldCheck& row : mismatch.rows) {
      text += format("  %s %-12s %-*s  ", row.same ? " " : "*", row.field.c_str(), static_cast<int>(width),
                     row.expected.c_str()) +
              row.actual + "\n";
    }
  }
  text += "the timeline so far:\n";
  for (const std::string& line : timeline()) text += "  " + line + "\n";
  const std::string counted = ledger_.nonzero(testbench_);
  text += "counters: " + (counted.empty() ? "none" : counted) + "\n";
  for (const std::string& reason : testbench_.reasons()) text += "the engine says " + reason + "\n";
  return text;
}

Result Runner::run() {
  Result result;
  try {
    const auto& statements = script_.statements;
    std::optional<int64_t> rounds;
    for (size_t at = 0; at < statements.size(); at++) {
      const Statement& s = statements[at];
      if (s.kind == Kind::kRepeat) {
        ensure(statements[s.partner].kind == Kind::kEnd, "a `repeat` that was read has its `end`");
        rounds = s.args[0].number.base;
        round_ = 0;
        if (*rounds <= 0) at = s.partner;
      } else if (s.kind == Kind::kEnd) {
        ensure(rounds.has_value(), "an `end` that was read has its `repeat`");
        if (++round_ < *rounds) {
          at = s.partner;
        } else {
          round_ = 0;
        }
      } else {
        execute(s);
      }
    }
    at_end();
    result.passed = true;
  } catch (const Mismatch& mismatch) {
    result.report = report(mismatch);
  }
  result.timeline = timeline();
  result.frames = std::move(frames_);
  return result;
}

}  // namespace

Result run(const Script& script, bool keep_frames) { return Runner(script, keep_frames).run(); }

}  // namespace uroce::script
