// The text form of a link's faults. The grammar is in link_faults.h.
#include "fabric/link_faults.h"

#include <charconv>
#include <utility>

#include "fabric/quantities.h"
#include "fabric/statements.h"

namespace uroce::fabric {
namespace {

std::optional<uint64_t> read_number(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

class LinkFaultsReader {
 public:
  /// Returns an empty string, or what is wrong.
  std::string read(std::string_view text) {
    for_each_statement(text, [this](size_t /*line*/, std::string_view statement) {
      error_ = read_statement(statement);
      return error_.empty();
    });
    if (!error_.empty()) return error_;
    if (faults_.bits_per_second == 0 && faults_.ecn) return "ecn marks what waits for a rate: name that, too";
    if (faults_.bits_per_second == 0 && queue_given_) return "a queue is one in front of a rate: name that, too";
    if (faults_.empty()) return "no fault is named";
    // The thresholds of the switch fit 32 bits; those that grow with the rate have to as well.
    if (faults_.ecn && ecn_kmax(*faults_.ecn, faults_.bits_per_second) > UINT32_MAX) return "ecn: kmax is above 4G";
    return "";
  }
  LinkFaults take() { return std::move(faults_); }

 private:
  /// Takes "in:" or "out:" off the front.
  void read_direction(std::string_view& statement) {
    statement.remove_prefix(std::min(statement.find_first_not_of(kBlanks), statement.size()));
    for (const bool in : {true, false}) {
      const std::string_view word = in ? "in:" : "out:";
      if (!statement.starts_with(word)) continue;
      statement.remove_prefix(word.size());
      in_ = in;
      return;
    }
  }

  std::string read_statement(std::string_view statement) {
    read_direction(statement);
    std::string_view rest = statement;
    const std::string keyword(take_word(rest));
    rest = rest.substr(0, rest.find_last_not_of(kBlanks) + 1);
    const std::string value(rest);
    if (keyword == "frames") return read_frames(value);
    if (keyword == "seed") return read_seed(value);
    const bool about_the_queue = keyword == "rate" || keyword == "queue" || keyword == "ecn";
    if (!about_the_queue) return parse_impairment(statement, in_ ? faults_.in : faults_.out);
    if (in_) return keyword + ": only for what is sent (out:)";
    return keyword == "rate" ? read_rate(value) : keyword == "queue" ? read_queue(value) : read_ecn(value);
  }

  std::string read_rate(const std::string& value) {
    const auto rate = parse_rate(value);
    if (!rate) return "rate: '" + value + "' stands where bits a second (1G, 500M; at least 1K) are wanted";
    faults_.bits_per_second = *rate;
    return "";
  }
  std::string read_queue(const std::string& value) {
    const auto bytes = parse_bytes(value);
    if (!bytes || *bytes == 0) return "queue: '" + value + "' stands where bytes (100K, 1.5M) are wanted";
    faults_.queue_bytes = *bytes;
    queue_given_ = true;
    return "";
  }
  std::string read_ecn(const std::string& value) {
    const std::string why = parse_ecn(value, faults_.ecn);
    return why.empty() ? "" : "ecn: " + why;
  }
  std::string read_frames(const std::string& value) {
    const auto frames = read_number(value);
    if (!frames || *frames == 0 || *frames > LinkFaults::kMostFrames) {
      return "frames: '" + value + "' stands where a number from 1 to " + std::to_string(LinkFaults::kMostFrames) +
             " is wanted";
    }
    faults_.frames = static_cast<uint32_t>(*frames);
    return "";
  }
  std::string read_seed(const std::string& value) {
    faults_.seed = read_number(value);
    return faults_.seed ? "" : "seed: '" + value + "' stands where a number is wanted";
  }

  LinkFaults faults_;
  std::string error_;
  bool in_ = false;
  bool queue_given_ = false;
};

/// With as few digits as give the same number again.
std::string text_of_number(double value) {
  char buffer[64];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
  return {buffer, end};
}

std::string text_of_ecn(const EcnConfig& ecn) {
  if (ecn.per_bits_per_second != 0) return "ecn on";
  return "ecn kmin=" + std::to_string(ecn.kmin_bytes) + ",kmax=" + std::to_string(ecn.kmax_bytes) +
         ",pmax=" + text_of_number(ecn.pmax);
}

}  // namespace

std::string parse_link_faults(std::string_view text, LinkFaults& faults) {
  LinkFaultsReader reader;
  std::string error = reader.read(text);
  if (error.empty()) faults = reader.take();
  return error;
}

std::string to_text(const LinkFaults& faults) {
  std::string text;
  const auto add = [&text](const std::string& statement) {
    if (!statement.empty()) text += (text.empty() ? "" : "; ") + statement;
  };
  const LinkFaults defaults;
  if (faults.bits_per_second != 0) {
    add("rate " + std::to_string(faults.bits_per_second));
    if (faults.queue_bytes != defaults.queue_bytes) add("queue " + std::to_string(faults.queue_bytes));
    if (faults.ecn) add(text_of_ecn(*faults.ecn));
  }
  add(to_text(faults.out));
  if (faults.frames != defaults.frames) add("frames " + std::to_string(faults.frames));
  if (faults.seed) add("seed " + std::to_string(*faults.seed));
  if (const std::string in = to_text(faults.in); !in.empty()) add("in: " + in);
  return text;
}

}  // namespace uroce::fabric
