// The text form of faults. The grammar is in impairments.h.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "fabric/impairments.h"
#include "fabric/statements.h"

namespace uroce::fabric {
namespace {

struct ClassName {
  FrameClass what;
  std::string_view name;
};
constexpr ClassName kClasses[] = {
    {FrameClass::kAny, "any"},
    {FrameClass::kRoce, "roce"},
    {FrameClass::kRequest, "request"},
    {FrameClass::kResponse, "response"},
    {FrameClass::kData, "data"},
    {FrameClass::kSend, "send"},
    {FrameClass::kWrite, "write"},
    {FrameClass::kReadRequest, "read-request"},
    {FrameClass::kReadResponse, "read-response"},
    {FrameClass::kAtomic, "atomic"},
    {FrameClass::kAtomicAck, "atomic-ack"},
    {FrameClass::kAck, "ack"},
    {FrameClass::kNak, "nak"},
    {FrameClass::kRnrNak, "rnr-nak"},
    {FrameClass::kCnp, "cnp"},
};

struct ActionName {
  FaultRule::Action action;
  std::string_view name;
};
constexpr ActionName kActions[] = {
    {FaultRule::Action::kDrop, "drop"},           {FaultRule::Action::kDelay, "delay"},
    {FaultRule::Action::kDuplicate, "duplicate"}, {FaultRule::Action::kCorrupt, "corrupt"},
    {FaultRule::Action::kMark, "mark"},
};

bool read_double(std::string_view text, double& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

/// Decimal, or hexadecimal after 0x.
bool read_number(std::string_view text, uint64_t max, uint64_t& value) {
  int base = 10;
  if (text.starts_with("0x")) {
    base = 16;
    text.remove_prefix(2);
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size() && value <= max;
}

/// "1%", "0.01", "1e-2".
bool read_probability(std::string_view text, double& value) {
  const bool percent = text.ends_with('%');
  if (percent) text.remove_suffix(1);
  if (!read_double(text, value)) return false;
  if (percent) value /= 100;
  return value >= 0 && value <= 1;
}

constexpr double kLongest = 3.6e12;  // an hour, in nanoseconds: several may be added

/// "20us", "1.5ms".
bool read_duration(std::string_view text, Duration& value) {
  const size_t unit_at = text.find_first_not_of("0123456789.");
  if (unit_at == std::string_view::npos) return false;
  const std::string_view unit = text.substr(unit_at);
  double ns_per_unit = 0;
  if (unit == "ns") ns_per_unit = 1;
  if (unit == "us") ns_per_unit = 1e3;
  if (unit == "ms") ns_per_unit = 1e6;
  if (unit == "s") ns_per_unit = 1e9;
  double number = 0;
  if (ns_per_unit == 0 || !read_double(text.substr(0, unit_at), number)) return false;
  number = std::floor(number * ns_per_unit + 0.5);
  if (number > kLongest) return false;
  value = nanoseconds(static_cast<int64_t>(number));
  return true;
}

/// Reads one statement, word by word, and keeps the first error.
class Statement {
 public:
  explicit Statement(std::string_view text) : rest_(text) { advance(); }

  std::string_view word() const { return word_; }
  bool at_end() const { return word_.empty(); }
  void advance() { word_ = take_word(rest_); }
  const std::string& error() const { return error_; }
  void fail(const std::string& why) {
    if (error_.empty()) error_ = why;
  }

  void probability(double& value) {
    if (!read_probability(word_, value)) return wants("a probability (1%, 0.01)");
    advance();
  }
  void duration(Duration& value) {
    if (!read_duration(word_, value)) return wants("a duration (20us, 1.5ms)");
    advance();
  }
  /// `KEYWORD DURATION`, when the keyword is there.
  bool duration_after(std::string_view keyword, Duration& value) {
    if (word_ != keyword) return false;
    advance();
    duration(value);
    return true;
  }
  /// If the word begins with `key=`, returns the text after that and goes on to the next word.
  std::optional<std::string_view> value_of(std::string_view key) {
    if (word_.size() <= key.size() || !word_.starts_with(key) || word_[key.size()] != '=') return std::nullopt;
    const std::string_view value = word_.substr(key.size() + 1);
    advance();
    return value;
  }
  bool number_of(std::string_view key, uint64_t max, uint64_t& number) {
    const auto text = value_of(key);
    if (!text) return false;
    if (!read_number(*text, max, number)) {
      fail(std::string(key) + "=" + std::string(*text) + " is not a number up to " + std::to_string(max));
      number = 0;
    }
    return true;
  }
  bool probability_of(std::string_view key, double& value) {
    const auto text = value_of(key);
    if (!text) return false;
    if (!read_probability(*text, value)) fail(std::string(key) + "=" + std::string(*text) + " is not a probability");
    return true;
  }

 private:
  void wants(const std::string& what) {
    fail("'" + std::string(word_) + "' stands where " + what + " is wanted");
    word_ = {};
  }

  std::string_view rest_;
  std::string_view word_;
  std::string error_;
};

void parse_burst(Statement& in, BurstLoss& burst) {
  bool more = true;
  while (more && in.error().empty()) {
    more = in.probability_of("to-bad", burst.to_bad) || in.probability_of("to-good", burst.to_good) ||
           in.probability_of("bad", burst.loss_when_bad) || in.probability_of("good", burst.loss_when_good);
  }
}

void parse_interval(Statement& in, Interval& interval) {
  in.duration_after("from", interval.from);
  in.duration_after("for", interval.length);
  in.duration_after("every", interval.period);
}

void parse_storm(Statement& in, PauseStorm& storm) {
  uint64_t number = 0;
  if (in.number_of("prio", kPriorities - 1, number)) storm.priorities = priority_bit(static_cast<unsigned>(number));
  if (in.number_of("prios", 0xff, number)) storm.priorities = static_cast<uint8_t>(number);
  if (in.number_of("quanta", kMaxPauseQuanta, number)) storm.quanta = static_cast<uint16_t>(number);
  in.duration_after("from", storm.from);
  in.duration_after("for", storm.length);
  in.duration_after("every", storm.every);
  if (storm.every.ns == 0) in.fail("a pause storm of infinitely many frames");
}

/// "2", "2nd", "2-4", "2-". False when the word is none of these.
bool read_which(std::string_view word, FaultRule& rule) {
  const size_t digits = std::min(word.find_first_not_of("0123456789"), word.size());
  if (digits == 0 || !read_number(word.substr(0, digits), UINT64_MAX, rule.first)) return false;
  const std::string_view tail = word.substr(digits);
  rule.last = rule.first;
  if (tail.empty() || tail == "st" || tail == "nd" || tail == "rd" || tail == "th") return true;
  if (tail == "-") {
    rule.last = UINT64_MAX;
    return true;
  }
  return tail[0] == '-' && read_number(tail.substr(1), UINT64_MAX, rule.last);
}

void parse_which(Statement& in, FaultRule& rule) {
  if (in.word() == "all") {
    rule.last = UINT64_MAX;
    in.advance();
  } else if (in.word() == "every") {
    in.advance();
    if (!read_number(in.word(), UINT64_MAX, rule.every) || rule.every == 0) in.fail("every which?");
    in.advance();
  } else if (!in.at_end() && in.word()[0] >= '0' && in.word()[0] <= '9') {
    if (!read_which(in.word(), rule)) in.fail("'" + std::string(in.word()) + "' is no number of a frame");
    if (rule.first == 0 || rule.last < rule.first) in.fail("frames are counted from 1 upwards");
    in.advance();
  }
}

bool parse_filter_word(Statement& in, FrameFilter& filter) {
  uint64_t number = 0;
  if (in.number_of("psn", Psn::kMask, number)) {
    filter.psn = static_cast<uint32_t>(number);
    return true;
  }
  if (in.number_of("qp", 0xFFFFFF, number)) {
    filter.qp = static_cast<uint32_t>(number);
    return true;
  }
  if (in.number_of("opcode", 0xff, number)) {
    filter.what = FrameClass::kOpcode;
    filter.opcode = static_cast<uint8_t>(number);
    return true;
  }
  const auto* found =
      std::find_if(std::begin(kClasses), std::end(kClasses), [&in](const ClassName& c) { return c.name == in.word(); });
  if (found == std::end(kClasses)) return false;
  filter.what = found->what;
  in.advance();
  return true;
}

void parse_rule(Statement& in, FaultRule& rule) {
  parse_which(in, rule);
  while (in.error().empty() && parse_filter_word(in, rule.filter)) {
  }
  const bool late = in.duration_after("by", rule.delay);
  if (late && rule.action != FaultRule::Action::kDelay && rule.action != FaultRule::Action::kDuplicate) {
    in.fail("'by' is for delay and duplicate");
  }
  if (!late && rule.action == FaultRule::Action::kDelay) in.fail("delay by how much?");
}

/// `corrupt 1%` and `duplicate 1% within 5us` are chances, `corrupt 1 data` is a rule. What makes the difference is
/// that a chance contains a '.', an 'e' or a '%'.
bool is_chance(std::string_view word) {
  return !word.empty() && word[0] >= '0' && word[0] <= '9' && word.find_first_of(".e%") != std::string_view::npos;
}

void parse_statement(std::string_view text, ImpairmentConfig& config, std::string& error) {
  Statement in(text);
  if (in.at_end()) return;
  const std::string keyword(in.word());
  in.advance();
  if (keyword == "loss") {
    in.probability(config.loss);
  } else if (keyword == "burst-loss") {
    parse_burst(in, config.burst);
  } else if (keyword == "corrupt" && is_chance(in.word())) {
    in.probability(config.corrupt);
  } else if (keyword == "duplicate" && is_chance(in.word())) {
    in.probability(config.duplicate);
    in.duration_after("within", config.duplicate_span);
  } else if (keyword == "reorder") {
    in.probability(config.reorder);
    in.duration_after("within", config.reorder_span);
  } else if (keyword == "jitter") {
    in.duration(config.jitter);
  } else if (keyword == "active") {
    parse_interval(in, config.active);
  } else if (keyword == "down") {
    parse_interval(in, config.down.emplace_back());
  } else if (keyword == "pause-storm") {
    parse_storm(in, config.pause_storms.emplace_back());
  } else {
    const auto* found = std::find_if(std::begin(kActions), std::end(kActions),
                                     [&keyword](const ActionName& a) { return a.name == keyword; });
    if (found == std::end(kActions)) {
      in.fail("no such fault");
    } else {
      FaultRule& rule = config.rules.emplace_back();
      rule.action = found->action;
      parse_rule(in, rule);
    }
  }
  if (in.error().empty() && !in.at_end()) in.fail("'" + std::string(in.word()) + "' is not understood");
  if (!in.error().empty()) error = keyword + ": " + in.error();
}

std::string text_of(double value) {
  char buffer[64];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
  std::string text(buffer, end);
  // Without one of these characters the number would be read as the number of a frame.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string text_of(Duration value) { return std::to_string(value.ns) + "ns"; }

std::string text_of(const Interval& interval) {
  std::string text;
  if (interval.from.ns != 0) text += " from " + text_of(interval.from);
  if (interval.length.ns != INT64_MAX) text += " for " + text_of(interval.length);
  if (interval.period.ns != 0) text += " every " + text_of(interval.period);
  return text;
}

std::string text_of(const FaultRule& rule) {
  std::string text;
  for (const ActionName& action : kActions) {
    if (action.action == rule.action) text = action.name;
  }
  if (rule.every != 0) {
    text += " every " + std::to_string(rule.every);
  } else {
    text += " " + std::to_string(rule.first);
    if (rule.last != rule.first) text += "-" + (rule.last == UINT64_MAX ? "" : std::to_string(rule.last));
  }
  for (const ClassName& c : kClasses) {
    if (c.what == rule.filter.what && c.what != FrameClass::kAny) text += " " + std::string(c.name);
  }
  if (rule.filter.what == FrameClass::kOpcode) text += " opcode=" + std::to_string(rule.filter.opcode);
  if (rule.filter.psn) text += " psn=" + std::to_string(*rule.filter.psn);
  if (rule.filter.qp) text += " qp=" + std::to_string(*rule.filter.qp);
  const bool delays = rule.action == FaultRule::Action::kDelay || rule.action == FaultRule::Action::kDuplicate;
  if (delays) text += " by " + text_of(rule.delay);
  return text;
}

}  // namespace

std::string parse_impairment(std::string_view statement, ImpairmentConfig& config) {
  ImpairmentConfig result = config;
  std::string error;
  parse_statement(statement, result, error);
  if (error.empty()) config = std::move(result);
  return error;
}

std::string parse_impairments(std::string_view text, ImpairmentConfig& config) {
  ImpairmentConfig result = config;
  std::string error;
  for_each_statement(text, [&](size_t line, std::string_view statement) {
    parse_statement(statement, result, error);
    if (!error.empty()) error = "line " + std::to_string(line) + ": " + error;
    return error.empty();
  });
  if (error.empty()) config = std::move(result);
  return error;
}

std::string to_text(const ImpairmentConfig& config) {
  std::string text;
  const auto add = [&text](const std::string& statement) { text += (text.empty() ? "" : "; ") + statement; };
  if (config.loss > 0) add("loss " + text_of(config.loss));
  if (config.burst.to_bad > 0 || config.burst.loss_when_good > 0) {
    add("burst-loss to-bad=" + text_of(config.burst.to_bad) + " to-good=" + text_of(config.burst.to_good) +
        " bad=" + text_of(config.burst.loss_when_bad) + " good=" + text_of(config.burst.loss_when_good));
  }
  if (config.corrupt > 0) add("corrupt " + text_of(config.corrupt));
  if (config.duplicate > 0) {
    add("duplicate " + text_of(config.duplicate) + " within " + text_of(config.duplicate_span));
  }
  if (config.reorder > 0) add("reorder " + text_of(config.reorder) + " within " + text_of(config.reorder_span));
  if (config.jitter.ns > 0) add("jitter " + text_of(config.jitter));
  const std::string active = text_of(config.active);
  if (!active.empty()) add("active" + active);
  for (const Interval& down : config.down) add("down" + text_of(down));
  for (const PauseStorm& storm : config.pause_storms) {
    add("pause-storm prios=" + std::to_string(storm.priorities) + " quanta=" + std::to_string(storm.quanta) +
        text_of(Interval{storm.from, storm.length, storm.every}));
  }
  for (const FaultRule& rule : config.rules) add(text_of(rule));
  return text;
}

}  // namespace uroce::fabric
