// Reads text as statements.
#include <algorithm>
#include <optional>
#include <set>

#include "mad/mad_fields.h"
#include "script/lexer.h"
#include "script/manager.h"
#include "script/script.h"
#include "script/text.h"
#include "script/vocabulary.h"

namespace uroce::script {

namespace {

class Parser {
 public:
  explicit Parser(Script& script) : script_(script) {}

  void line(uint32_t number, const std::string& text) {
    tokens_ = split_words(text, number);
    at_ = 0;
    if (tokens_.empty()) return;
    Statement statement;
    time(statement.when);
    const Token& keyword = next("a statement");
    const StatementSyntax* syntax = find_syntax(keyword.text);
    if (syntax == nullptr) throw ScriptError(keyword.where, "`" + keyword.text + "` is not a statement");
    statement.kind = syntax->kind;
    statement.where = keyword.where;
    shape(*syntax, statement);
    options(*syntax, statement);
    check(statement, keyword);
    script_.statements.push_back(std::move(statement));
  }

  void finish() {
    if (!open_.empty()) throw ScriptError(script_.statements[open_.back()].where, "this `repeat` has no `end`");
  }

 private:
  bool more() const { return at_ < tokens_.size(); }
  const Token& next(const char* what) {
    if (more()) return tokens_[at_++];
    const Where& last = tokens_.back().where;
    throw ScriptError({last.line, last.column + last.width + 1, 1}, std::string("missing: ") + what);
  }

  void time(When& when) {
    const Token& token = tokens_[at_];
    const char first = token.text[0];
    if (token.text == "&") {
      if (script_.statements.empty()) throw ScriptError(token.where, "nothing stands before this `&`");
      when.same_burst = true;
      at_++;
      return;
    }
    if (first != '+' && first != '@') return;
    at_++;
    when.absolute = first == '@';
    const std::string_view text = std::string_view(token.text).substr(1);
    const size_t dots = text.find("..");
    const auto earliest = to_duration(text.substr(0, dots));
    const auto latest = dots == std::string_view::npos ? earliest : to_duration(text.substr(dots + 2));
    if (!earliest || !latest) {
      throw ScriptError(token.where, "not a time: write +10us, +1.5ms..2ms, @3s (units ns, us, ms, s)");
    }
    if (*latest < *earliest) throw ScriptError(token.where, "this time ends before it begins");
    when.earliest = *earliest;
    when.latest = *latest;
  }

  Value number_value() {
    const Token& token = next("a number");
    const auto number = to_number(token.text);
    if (!number) throw ScriptError(token.where, "`" + token.text + "` is not a number");
    Value value;
    value.number = *number;
    value.where = token.where;
    value.text = token.text;
    return value;
  }

  /// Reads mr1, mr1+64, mw2 or a number.
  Value address_value() {
    const Token& token = next("an address");
    static constexpr std::pair<std::string_view, Object> kObjects[] = {{"mr", Object::kMr}, {"mw", Object::kMw}};
    for (const auto& [prefix, object] : kObjects) {
      std::string_view rest = token.text;
      if (!rest.starts_with(prefix)) continue;
      rest.remove_prefix(prefix.size());
      const auto id = take_integer(rest);
      Value value;
      value.where = token.where;
      value.text = token.text;
      value.object = object;
      if (id && !rest.empty() && (rest[0] == '+' || rest[0] == '-')) {
        const auto offset = to_number(rest[0] == '+' ? rest.substr(1) : rest);
        if (offset) {
          value.number = *offset;
          rest = {};
        }
      }
      if (!id || !rest.empty()) throw ScriptError(token.where, "not an address: write mr1, mr1+64 or a number");
      value.id = static_cast<uint32_t>(*id);
      if (!known_.contains({object, value.id})) {
        throw ScriptError(token.where, std::string(prefix) + std::to_string(*id) + " is not there yet");
      }
      return value;
    }
    at_--;
    return number_value();
  }

  Value ip_value() {
    const Token& token = next("an IP address");
    const auto ip = parse_ip(token.text);
    if (!ip) throw ScriptError(token.where, "`" + token.text + "` is not an IP address");
    Value value;
    value.ip = *ip;
    value.where = token.where;
    return value;
  }

  Value duration_value() {
    const Token& token = next("a time");
    const auto duration = to_duration(token.text);
    if (!duration) throw ScriptError(token.where, "`" + token.text + "` is not a time such as 20us");
    Value value;
    value.duration = *duration;
    value.where = token.where;
    return value;
  }

  Value bytes_value() {
    Value value;
    value.where = next("bytes in hexadecimal").where;
    at_--;
    std::string digits;
    while (more()) {
      const Token& token = tokens_[at_];
      for (const char c : token.text) {
        const bool good = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
        if (!good) throw ScriptError(token.where, "`" + token.text + "` are not bytes in hexadecimal");
      }
      digits += token.text;
      at_++;
    }
    if (digits.size() % 2 != 0) throw ScriptError(value.where, "an odd number of hexadecimal digits");
    for (size_t i = 0; i < digits.size(); i += 2) {
      value.bytes.push_back(static_cast<uint8_t>(std::stoul(digits.substr(i, 2), nullptr, 16)));
    }
    return value;
  }

  Value word_value() {
    const Token& token = next("a word");
    Value value;
    value.text = token.text;
    value.where = token.where;
    return value;
  }

  void shape(const StatementSyntax& syntax, Statement& statement) {
    for (const char part : syntax.shape) {
      switch (part) {
        case 'n':
          // In `memory mr1+8 u64 5` the length follows from the option.
          if ((syntax.kind == Kind::kMemory || syntax.kind == Kind::kSet) && more() && tokens_[at_].text == "u64") {
            Value eight;
            eight.number.base = 8;
            statement.args.push_back(eight);
            break;
          }
          statement.args.push_back(number_value());
          break;
        case 'w': {
          // In `completion 1 success` the kind was left out.
          if (syntax.kind == Kind::kCompletion && statement.word.empty() && more() &&
              !is_completion_kind(tokens_[at_].text)) {
            statement.word = "*";
            break;
          }
          Value word = word_value();
          if (statement.word.empty()) {
            statement.word = word.text;
          }
          statement.args.push_back(std::move(word));
          break;
        }
        case 'a':
          statement.args.push_back(address_value());
          break;
        default:
          while (more() && (tokens_[at_].text.starts_with("mr") || tokens_[at_].text.starts_with("mw"))) {
            Value address = address_value();
            const bool window = address.object == Object::kMw;
            statement.args.push_back(std::move(address));
            if (!window) statement.args.push_back(number_value());
          }
      }
    }
  }

  void options(const StatementSyntax& syntax, Statement& statement) {
    while (more()) {
      const Token& name = next("an option");
      const auto option = std::find_if(syntax.options.begin(), syntax.options.end(),
                                       [&](const OptionSyntax& o) { return o.name == name.text; });
      // A state may stand among a QP's options: `qp 1 rc rtr mtu 256`.
      if (option == syntax.options.end() && syntax.kind == Kind::kQp && state_of(name.text)) {
        at_--;
        statement.options.push_back({"state", word_value(), name.where});
        continue;
      }
      if (option == syntax.options.end()) {
        std::string known;
        for (const OptionSyntax& o : syntax.options) known += (known.empty() ? "" : " ") + std::string(o.name);
        throw ScriptError(name.where, "`" + name.text + "` does not belong to `" + std::string(syntax.keyword) + "`" +
                                          (known.empty() ? "" : "; it knows: " + known));
      }
      if (statement.has(name.text)) throw ScriptError(name.where, "`" + name.text + "` stands here twice");
      statement.options.push_back({name.text, argument(option->argument), name.where});
    }
  }

  Value argument(Argument kind) {
    switch (kind) {
      case Argument::kNumber:
        return number_value();
      case Argument::kAddress:
        return address_value();
      case Argument::kDuration:
        return duration_value();
      case Argument::kIp:
        return ip_value();
      case Argument::kWord:
        return word_value();
      case Argument::kBytes:
        return bytes_value();
      case Argument::kFlag:
        break;
    }
    return {};
  }

  void require(bool holds, const Where& where, const std::string& text) {
    if (!holds) throw ScriptError(where, text);
  }

  void define(Object object, const Value& value) {
    const bool fresh = known_.insert({object, static_cast<uint32_t>(value.number.base)}).second;
    require(fresh, value.where, "this number is taken");
  }

  void check_qp(const Value& value) {
    require(qps_.contains(value.number.base) || value.number.per_round != 0, value.where,
            "there is no qp " + value.text + " yet");
  }

  /// Checks what the table of words cannot express.
  void check(Statement& statement, const Token& keyword) {
    switch (statement.kind) {
      case Kind::kEngine:
        if (const Option* recovery = statement.find("recovery")) {
          require(recovery_of(recovery->value.text).has_value(), recovery->value.where, "go_back_n, auto or selective");
        }
        return require(script_.statements.empty(), keyword.where, "`engine` has to be the first statement");
      case Kind::kQp:
      case Kind::kMr:
      case Kind::kMw:
      case Kind::kSrq:
        return check_object(statement);
      case Kind::kInject:
      case Kind::kExpect:
        require(packet_name(statement.word).has_value(), statement.args[0].where, "not a packet's name");
        if (const Option* held = statement.find("held")) {
          require(to_ranges(held->value.text).has_value(), held->value.where, "not PSNs: write 3, 3..5 or 7,3..5");
        }
        return require(!qps_.empty(), keyword.where, "there is no qp yet");
      case Kind::kInjectMad:
      case Kind::kExpectMad:
        return check_mad(statement);
      case Kind::kRepeat:
        require(open_.empty(), keyword.where, "a `repeat` inside a `repeat`");
        open_.push_back(static_cast<uint32_t>(script_.statements.size()));
        return;
      case Kind::kEnd:
        require(!open_.empty(), keyword.where, "no `repeat` before this `end`");
        statement.partner = open_.back();
        script_.statements[open_.back()].partner = static_cast<uint32_t>(script_.statements.size());
        open_.pop_back();
        return;
      case Kind::kCounter:
        return require(is_counter(statement.word), statement.args[0].where, "there is no such counter");
      default:
        return check_words(statement);
    }
  }

  void check_mad(const Statement& statement) {
    const auto kind = mad_kind_of(statement.word);
    require(kind.has_value(), statement.args[0].where, "not a message of connection management");
    for (const Option& option : statement.options) {
      const bool is_field = std::any_of(mad_fields().begin(), mad_fields().end(),
                                        [&](const MadField& field) { return field.name == option.name; });
      require(!is_field || mad_field(*kind, option.name) != nullptr, option.where,
              "a " + statement.word + " has no such field");
    }
  }

  void check_object(const Statement& statement) {
    const auto& args = statement.args;
    if (statement.kind == Kind::kQp) {
      require(qp_type_of(statement.word).has_value(), args[1].where, "a QP is rc, uc or ud");
      return require(qps_.insert(args[0].number.base).second, args[0].where, "this number is taken");
    }
    if (statement.kind == Kind::kMw) {
      require(statement.word == "type1" || statement.word == "type2", args[1].where, "type1 or type2");
    }
    const Object object = statement.kind == Kind::kMr   ? Object::kMr
                          : statement.kind == Kind::kMw ? Object::kMw
                                                        : Object::kSrq;
    define(object, args[0]);
  }

  /// Checks statements that begin with the number of a QP, and those with a word from a list.
  void check_words(const Statement& statement) {
    const auto& args = statement.args;
    switch (statement.kind) {
      case Kind::kPost:
        check_qp(args[0]);
        return require(operation_of(statement.word).has_value(), args[1].where, "this cannot be posted");
      case Kind::kModify:
        check_qp(args[0]);
        return require(statement.word == "set" || state_of(statement.word), args[1].where, "not a QP state");
      case Kind::kState:
        check_qp(args[0]);
        return require(state_of(statement.word).has_value(), args[1].where, "not a QP state");
      case Kind::kEvent:
        check_qp(args[0]);
        return require(event_of(statement.word).has_value(), args[1].where, "not an event");
      case Kind::kCompletion:
        check_qp(args[0]);
        return require(status_of_name(args.back().text).has_value(), args.back().where, "not a completion status");
      case Kind::kCm:
        return require(is_cm_action(statement.word), args[1].where, "an id cannot do this");
      case Kind::kCmEvent:
        return require(cm_event_of(statement.word).has_value(), args[1].where, "not an event of an id");
      case Kind::kRecv:
      case Kind::kDestroy:
      case Kind::kResolve:
        return check_qp(args[0]);
      default:
        return;
    }
  }

  Script& script_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  std::set<std::pair<Object, uint32_t>> known_;
  std::set<int64_t> qps_;
  std::vector<uint32_t> open_;
};

}  // namespace

const Option* Statement::find(std::string_view name) const {
  for (const Option& option : options) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

int64_t Statement::number(std::string_view name, int64_t otherwise, int64_t round) const {
  const Option* option = find(name);
  return option == nullptr ? otherwise : option->value.number.at(round);
}

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

Script parse(const std::string& name, std::string_view text) {
  Script script;
  script.name = name;
  script.lines = split_lines(text);
  Parser parser(script);
  for (size_t i = 0; i < script.lines.size(); i++) parser.line(static_cast<uint32_t>(i) + 1, script.lines[i]);
  parser.finish();
  return script;
}

std::string explain(const std::string& name, const std::vector<std::string>& lines, const Where& where,
                    const std::string& text) {
  std::string result = format("%s:%u:%u: ", name.c_str(), where.line, where.column + 1) + text + "\n";
  if (where.line == 0 || where.line > lines.size()) return result;
  const std::string& line = lines[where.line - 1];
  const std::string margin = format("%5u | ", where.line);
  result += margin + line + "\n" + std::string(margin.size() - 2, ' ') + "| ";
  for (uint32_t i = 0; i < where.column; i++) result += i < line.size() && line[i] == '\t' ? '\t' : ' ';
  result += "^" + std::string(where.width > 1 ? where.width - 1 : 0, '~') + "\n";
  return result;
}

}  // namespace uroce::script
