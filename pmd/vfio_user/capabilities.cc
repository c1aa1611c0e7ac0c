#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

#include "pmd/vfio_user/channel.h"

namespace mqnic::vfio_user {
namespace {

/// Parses the JSON of VERSION messages: objects, arrays, strings (whose escapes do not matter here), numbers and words.
/// Checks that everything is JSON, and keeps the two numbers that are needed.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  bool parse(Capabilities& found) {
    found_ = &found;
    return value("", 0) && (skip_space(), at_ == text_.size());
  }

 private:
  static constexpr int kDepthMax = 8;

  void skip_space() {
    while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_]) != nullptr) at_++;
  }
  bool next_is(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    at_++;
    return true;
  }
  bool string(std::string_view& out) {
    if (!next_is('"')) return false;
    const size_t start = at_;
    for (; at_ < text_.size() && text_[at_] != '"'; at_++) {
      if (text_[at_] == '\\') at_++;
    }
    if (at_ >= text_.size()) return false;
    out = text_.substr(start, at_++ - start);
    return true;
  }
  bool object(int depth) {
    if (next_is('}')) return true;
    do {
      std::string_view key;
      if (!string(key) || !next_is(':') || !value(key, depth + 1)) return false;
    } while (next_is(','));
    return next_is('}');
  }
  bool array(int depth) {
    if (next_is(']')) return true;
    do {
      if (!value("", depth + 1)) return false;
    } while (next_is(','));
    return next_is(']');
  }
  bool scalar(std::string_view key) {
    const size_t end = std::min(text_.find_first_of(" \t\r\n,]}", at_), text_.size());
    const std::string_view word = text_.substr(at_, end - at_);
    at_ = end;
    if (word == "true" || word == "false" || word == "null") return true;
    double number = 0;
    const auto [last, wrong] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (wrong != std::errc{} || last != word.data() + word.size()) return false;
    if (!(number >= 0) || number > 1e18) return true;
    if (key == "max_msg_fds") found_->message_fds_max = static_cast<uint64_t>(number);
    if (key == "max_data_xfer_size") found_->data_bytes_max = static_cast<uint64_t>(number);
    return true;
  }
  bool value(std::string_view key, int depth) {
    if (depth > kDepthMax) return false;
    skip_space();
    if (at_ >= text_.size()) return false;
    std::string_view ignored;
    if (text_[at_] == '"') return string(ignored);
    if (next_is('{')) return object(depth);
    if (next_is('[')) return array(depth);
    return scalar(key);
  }

  std::string_view text_;
  size_t at_ = 0;
  Capabilities* found_ = nullptr;
};

}  // namespace

std::string version_json() {
  return "{\"capabilities\":{\"max_msg_fds\":" + std::to_string(kMessageFdsMax) +
         ",\"max_data_xfer_size\":" + std::to_string(kDataBytesMax) + ",\"pgsizes\":4096}}";
}

std::optional<Capabilities> parse_version_json(std::span<const uint8_t> text) {
  Capabilities found;
  if (text.empty()) return found;
  const auto end = std::find(text.begin(), text.end(), uint8_t{0});
  if (end == text.end()) return std::nullopt;
  const std::string_view json(reinterpret_cast<const char*>(text.data()), static_cast<size_t>(end - text.begin()));
  if (!Parser(json).parse(found)) return std::nullopt;
  return found;
}

}  // namespace mqnic::vfio_user
