#include "script/program.h"

#include <algorithm>
#include <cstring>

#include "script/packets.h"
#include "script/text.h"
#include "script/vocabulary.h"
#include "transport/memory_table.h"
#include "transport/receive_queue.h"

namespace uroce::script {

namespace {

std::string refused(const Statement& statement, const std::string& actual) {
  const Option* option = statement.find("refused");
  const std::string expected = option == nullptr ? "accepted" : option->value.text;
  return expected == actual ? "" : "this should be " + expected + ", and is " + actual;
}

}  // namespace

uint8_t* Program::memory(const Value& value, int64_t round, uint64_t bytes) {
  if (value.object != Object::kMr) throw ScriptError(value.where, "memory is named mr1 or mr1+64");
  const Region& region = testbench_.region(value.id);
  const auto offset = static_cast<uint64_t>(value.number.at(round));
  if (offset > region.length || bytes > region.length - offset) {
    throw ScriptError(value.where, "that is not inside the region");
  }
  return region.memory + offset;
}

std::vector<Sge> Program::sges(const Statement& statement, int64_t round, size_t first, bool inline_data) {
  std::vector<Sge> list;
  for (size_t i = first; i + 1 < statement.args.size(); i += 2) {
    const Value& address = statement.args[i];
    const auto bytes = static_cast<uint32_t>(statement.args[i + 1].number.at(round));
    const Option* lkey = statement.find("lkey");
    Sge sge{address_of(testbench_, address, round), bytes,
            key_of(testbench_, lkey == nullptr ? address : lkey->value, round)};
    if (inline_data) sge.addr = reinterpret_cast<uint64_t>(memory(address, round, bytes));
    list.push_back(sge);
  }
  return list;
}

void Program::fill_bind(const Statement& statement, int64_t round, SendWr& wr) {
  const auto& args = statement.args;
  if (args.size() != 5 || args[2].object != Object::kMw || args[3].object != Object::kMr) {
    throw ScriptError(statement.where, "write: post 1 bind mw1 mr1+0 64 access write");
  }
  const uint32_t key = testbench_.window_key(args[2].id);
  const auto next = static_cast<uint32_t>(statement.number("key", (key & ~0xFFu) | ((key + 1) & 0xFFu), round));
  uint32_t access = 0;
  if (const Option* option = statement.find("access")) access = access_of(option->value.text).value_or(0);
  wr.bind = {key,
             next,
             testbench_.region(args[3].id).key,
             address_of(testbench_, args[3], round),
             static_cast<uint64_t>(args[4].number.at(round)),
             access};
  testbench_.window_key(args[2].id) = next;
}

ScriptQp& Program::live_qp(const Statement& statement, int64_t round) {
  ScriptQp& qp = testbench_.qp(statement.args[0].number.at(round));
  if (qp.qp == nullptr) throw ScriptError(statement.where, "this QP was destroyed");
  return qp;
}

std::string Program::post(const Statement& statement, int64_t round) {
  ScriptQp& qp = live_qp(statement, round);
  const auto number = [&](const char* name, int64_t otherwise = 0) { return statement.number(name, otherwise, round); };
  const auto key = [&](const char* name, uint32_t otherwise) {
    const Option* option = statement.find(name);
    return option == nullptr ? otherwise : key_of(testbench_, option->value, round);
  };
  SendWr wr;
  wr.opcode = *operation_of(statement.word);
  wr.wr_id = static_cast<uint64_t>(number("wrid"));
  wr.flags = static_cast<uint8_t>(
      (statement.has("unsignaled") ? 0 : kSendSignaled) | (statement.has("fence") ? kSendFence : 0) |
      (statement.has("solicited") ? kSendSolicited : 0) | (statement.has("inline") ? kSendInline : 0));
  std::vector<Sge> list;
  if (wr.opcode == WrOpcode::kBindMw) {
    fill_bind(statement, round, wr);
  } else {
    list = sges(statement, round, 2, statement.has("inline"));
  }
  wr.sges = list.data();
  wr.num_sge = static_cast<uint32_t>(list.size());
  const Option* where = statement.find(statement.has("from") ? "from" : "to");
  wr.remote_addr = where == nullptr ? kRemoteAddress : address_of(testbench_, where->value, round);
  wr.rkey = key("rkey", kRemoteKey);
  wr.imm_or_rkey = statement.has("imm") ? __builtin_bswap32(static_cast<uint32_t>(number("imm"))) : key("inv", 0);
  const bool swap = wr.opcode == WrOpcode::kCompareSwap;
  wr.compare_add = static_cast<uint64_t>(number(swap ? "compare" : "add"));
  wr.swap = static_cast<uint64_t>(number("swap"));
  const Feth feth = Feth::from(static_cast<uint32_t>(number("feth", kFlushToGlobal)));
  wr.flush = {static_cast<uint32_t>(number("len")), feth.placement, static_cast<FlushLevel>(feth.selectivity)};
  wr.ah = qp.ah.get();
  wr.remote_qpn = static_cast<uint32_t>(number("peer", qp.peer_qpn));
  wr.remote_qkey = static_cast<uint32_t>(number("qkey", kQkey));
  return refused(statement, post_result_name(testbench_.engine().post_send(*qp.qp, wr, testbench_.now())));
}

std::string Program::recv(const Statement& statement, int64_t round) {
  ScriptQp& qp = live_qp(statement, round);
  const std::vector<Sge> list = sges(statement, round, 1, false);
  const RecvWr wr{static_cast<uint64_t>(statement.number("wrid", 0, round)), list.data(),
                  static_cast<uint32_t>(list.size())};
  const PostResult result =
      qp.srq != nullptr ? qp.srq->post(wr) : testbench_.engine().post_recv(*qp.qp, wr, testbench_.now());
  return refused(statement, post_result_name(result));
}

std::string Program::modify(const Statement& statement, int64_t round) {
  ScriptQp& qp = live_qp(statement, round);
  const ModifyResult result = statement.word == "set" ? testbench_.set(qp, statement)
                                                      : testbench_.modify(qp, statement, *state_of(statement.word));
  return refused(statement, modify_result_name(result));
}

void Program::set_memory(const Statement& statement, int64_t round) {
  const auto bytes = static_cast<uint64_t>(statement.args[1].number.at(round));
  uint8_t* at = memory(statement.args[0], round, bytes);
  if (statement.has("u64")) {
    const int64_t value = statement.number("u64", 0, round);
    std::memcpy(at, &value, 8);
    return;
  }
  const auto data = pattern_bytes(statement.number("pattern", 0, round), statement.number("offset", 0, round), bytes);
  std::copy(data.begin(), data.end(), at);
}

std::string Program::act(const Statement& statement, int64_t round) {
  switch (statement.kind) {
    case Kind::kPost:
      return post(statement, round);
    case Kind::kRecv:
      return recv(statement, round);
    case Kind::kModify:
      return modify(statement, round);
    case Kind::kSet:
      set_memory(statement, round);
      return "";
    case Kind::kDereg: {
      const Value& value = statement.args[0];
      const uint32_t key = key_of(testbench_, value, round);
      const bool done = value.object == Object::kMw ? testbench_.engine().memory().free_window(key)
                                                    : testbench_.engine().memory().deregister(key);
      return done ? "" : "the engine refuses to deregister this";
    }
    case Kind::kDestroy:
      testbench_.destroy(live_qp(statement, round));
      return "";
    case Kind::kResolve:
      testbench_.resolve(live_qp(statement, round).from_peer);
      return "";
    default:
      throw ScriptError(statement.where, "this cannot stand here");
  }
}

std::string Program::check_memory(const Statement& statement, int64_t round) {
  const auto bytes = static_cast<uint64_t>(statement.args[1].number.at(round));
  const Value& place = statement.args[0];
  const uint8_t* actual = memory(place, round, bytes);
  std::vector<uint8_t> expected;
  if (statement.has("u64")) {
    const int64_t value = statement.number("u64", 0, round);
    int64_t there = 0;
    std::memcpy(&there, actual, 8);
    if (there == value) return "";
    return format("this memory differs: expected %lld, actual %lld", static_cast<long long>(value),
                  static_cast<long long>(there));
  }
  if (statement.has("untouched")) {
    expected = pattern_bytes(testbench_.region(place.id).fill, place.number.at(round), bytes);
  } else if (const Option* option = statement.find("bytes")) {
    expected = option->value.bytes;
    if (expected.size() != bytes) throw ScriptError(option->where, "not as many bytes as the statement names");
  } else if (statement.has("pattern")) {
    expected = pattern_bytes(statement.number("pattern", 0, round), statement.number("offset", 0, round), bytes);
  } else {
    throw ScriptError(statement.where, "say what the memory holds: pattern N, u64 N, bytes HEX or untouched");
  }
  for (uint64_t i = 0; i < bytes; i++) {
    if (actual[i] == expected[i]) continue;
    return format("this memory differs from byte %llu on: expected %02x, actual %02x",
                  static_cast<unsigned long long>(i), expected[i], actual[i]);
  }
  return "";
}

}  // namespace uroce::script
