// A packet script as it was read: statements with their times, arguments and options. doc/scripts.md describes the
// language.
//
// Reading is separate from running: `parse` finds everything that is wrong with the text itself, so that what `run`
// (runner.h) reports is about the engine.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "uroce/address.h"
#include "uroce/time.h"

namespace uroce::script {

/// A place in the text. Lines count from 1, columns from 0.
struct Where {
  uint32_t line = 0;
  uint32_t column = 0;
  uint32_t width = 0;
};

/// The script itself is wrong.
class ScriptError : public std::runtime_error {
 public:
  ScriptError(const Where& where, const std::string& text) : std::runtime_error(text), where_(where) {}
  const Where& where() const { return where_; }

 private:
  Where where_;
};

/// A number that may depend on the round of the `repeat` around it: base + per_round * i.
struct Number {
  int64_t base = 0;
  int64_t per_round = 0;
  int64_t at(int64_t round) const { return base + per_round * round; }
};

enum class Object : uint8_t { kNone, kMr, kMw, kSrq };

/// One word of a statement: a number, an address such as `mr1+64`, a name, an IP address, a duration.
struct Value {
  Object object = Object::kNone;
  uint32_t id = 0;  // of the object
  Number number;
  Duration duration;
  IpAddress ip;
  std::vector<uint8_t> bytes;
  std::string text;
  Where where;
};

struct Option {
  std::string name;
  Value value;
  Where where;
};

enum class Kind : uint8_t {
  // objects
  kEngine,
  kQp,
  kMr,
  kMw,
  kSrq,
  // what the program does
  kPost,
  kRecv,
  kModify,
  kDereg,
  kDestroy,
  kSet,
  kCm,
  // what the peer and the port do
  kInject,
  kInjectMad,
  kRaw,
  kResolve,
  kPort,
  // what must be seen
  kExpect,
  kExpectMad,
  kCmEvent,
  kCompletion,
  kState,
  kCounter,
  kMemory,
  kEvent,
  kNothing,
  // control
  kRepeat,
  kEnd,
};

struct When {
  bool absolute = false;    // @T: since the beginning; otherwise since the statement before
  bool same_burst = false;  // &: together with the statement before, in one turn of the engine
  Duration earliest;
  Duration latest;
};

struct Statement {
  Kind kind = Kind::kNothing;
  When when;
  Where where;
  std::string word;         // what follows the keyword: operation, state, opcode, counter
  std::vector<Value> args;  // the numbers and addresses after it, in order
  std::vector<Option> options;
  uint32_t partner = 0;  // for `repeat` the index of its `end`, and the other way round

  const Option* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// The option's number in this round, or `otherwise`.
  int64_t number(std::string_view name, int64_t otherwise, int64_t round) const;
};

struct Script {
  std::string name;
  std::vector<std::string> lines;
  std::vector<Statement> statements;
};

/// Throws ScriptError.
Script parse(const std::string& name, std::string_view text);

/// "file:line:column: text", the line, and a caret below the place.
std::string explain(const std::string& name, const std::vector<std::string>& lines, const Where& where,
                    const std::string& text);
std::vector<std::string> split_lines(std::string_view text);

}  // namespace uroce::script
