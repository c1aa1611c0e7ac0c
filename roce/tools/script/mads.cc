#include "script/mads.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/big_endian.h"
#include "packet/icrc.h"
#include "packet/management_datagram.h"
#include "script/text.h"
#include "transport/frame_builder.h"

namespace uroce::script {

namespace {

constexpr uint8_t kClassCm = 7;
constexpr uint64_t kTcpSpace = uint64_t{0x0106} << 16;
constexpr uint64_t kUdpSpace = uint64_t{0x0111} << 16;
constexpr uint32_t kLocalGidAt = 56;
constexpr uint32_t kAriAt = 12;
constexpr uint32_t kAriRoom = 72;

std::string mad_hex(uint64_t value) { return format("0x%llx", static_cast<unsigned long long>(value)); }

/// The address header of a request: source and destination address.
void put_address_header(uint8_t* data, const IpAddress& src, const IpAddress& dst) {
  data[1] = dst.is_v4() ? 0x40 : 0x60;
  store_be16(data + 2, 0xbeef);
  for (const auto& [at, ip] : {std::pair{4, src}, std::pair{20, dst}}) {
    if (ip.is_v4()) {
      store_be32(data + at + 12, ip.v4_host_order());
    } else {
      std::memcpy(data + at, ip.bytes.data(), 16);
    }
  }
}

struct Given {
  std::string_view name;
  uint64_t value;
};

void put(uint8_t* message, MadKind kind, std::string_view name, uint64_t value) {
  if (const MadField* field = mad_field(kind, name)) set_field(message, *field, value);
}

/// A message's fields where the script gives none: those that Linux sends.
void put_defaults(uint8_t* message, MadKind kind, const Route& path) {
  static constexpr Given kOfReq[] = {{"guid", 0x0200'00ff'fe00'0002},
                                     {"qpn", 0x1001},
                                     {"resources", 1},
                                     {"depth", 1},
                                     {"psn", 200},
                                     {"response_timeout", 20},
                                     {"own_timeout", 20},
                                     {"retry_cnt", 7},
                                     {"pkey", 0xffff},
                                     {"mtu", 3},
                                     {"rnr_retry", 7},
                                     {"cm_retries", 15},
                                     {"hop_limit", 64},
                                     {"ack_timeout", 19}};
  static constexpr Given kOfRep[] = {{"guid", 0x0200'00ff'fe00'0002},
                                     {"qpn", 0x1001},
                                     {"resources", 1},
                                     {"depth", 1},
                                     {"psn", 200},
                                     {"ack_delay", 15},
                                     {"rnr_retry", 7}};
  put(message, kind, "id", kPeerId);
  put(message, kind, "peer", kOwnId);
  if (kind == MadKind::kReq) {
    for (const Given& given : kOfReq) put(message, kind, given.name, given.value);
    for (const uint32_t at : {52u, 54u}) store_be16(message + at, 0xffff);
    std::memcpy(message + kLocalGidAt, path.src_ip.bytes.data(), 16);
    std::memcpy(message + kLocalGidAt + 16, path.dst_ip.bytes.data(), 16);
  } else if (kind == MadKind::kRep) {
    for (const Given& given : kOfRep) put(message, kind, given.name, given.value);
  } else if (kind == MadKind::kSidrReq) {
    put(message, kind, "pkey", 0xffff);
  } else if (kind == MadKind::kSidrRep) {
    put(message, kind, "qpn", 0x1001);
    put(message, kind, "qkey", 0x01234567);
  } else if (kind == MadKind::kMra) {
    put(message, kind, "wait", 24);
  }
}

bool is_request(MadKind kind) { return kind == MadKind::kReq || kind == MadKind::kSidrReq; }
bool begins_transaction(MadKind kind) { return is_request(kind) || kind == MadKind::kDreq || kind == MadKind::kLap; }
/// SIDR_REP has only the request's ID, which the receiver of the message chose.
uint32_t id_in(const uint8_t* message, MadKind kind, std::string_view name) {
  const MadField* field = mad_field(kind, name);
  return field == nullptr ? 0 : static_cast<uint32_t>(get_field(message, *field));
}

void put_options(uint8_t* message, MadKind kind, const Statement& statement, int64_t round) {
  for (const Option& option : statement.options) {
    const MadField* field = mad_field(kind, option.name);
    if (field != nullptr) set_field(message, *field, fitting(statement, option.name, 0, round, field->bits));
  }
  if (const Option* gid = statement.find("src_gid")) {
    std::memcpy(message + kLocalGidAt, gid->value.ip.bytes.data(), 16);
  }
  if (const Option* gid = statement.find("dst_gid")) {
    std::memcpy(message + kLocalGidAt + 16, gid->value.ip.bytes.data(), 16);
  }
  if (const Option* ari = statement.find("ari")) {
    const std::vector<uint8_t> bytes = hex_word(ari->value);
    if (kind != MadKind::kRej || bytes.size() > kAriRoom) throw ScriptError(ari->where, "a REJ has 72 bytes of it");
    std::memcpy(message + kAriAt, bytes.data(), bytes.size());
    if (!statement.has("ari_bytes")) put(message, kind, "ari_bytes", bytes.size());
  }
  const uint64_t port = fitting(statement, "port", 7000, round, 16);
  if (!statement.has("service")) put(message, kind, "service", (kind == MadKind::kReq ? kTcpSpace : kUdpSpace) | port);
}

/// Where the program's own private data begins.
uint32_t data_at(MadKind kind, const Statement& statement) {
  return private_data_at(kind) + (is_request(kind) && !statement.has("bare") ? kAddressHeaderBytes : 0);
}

}  // namespace

std::string bytes_word(std::span<const uint8_t> bytes) {
  size_t used = bytes.size();
  while (used > 0 && bytes[used - 1] == 0) used--;
  std::string text;
  for (size_t i = 0; i < used; i++) text += format("%02x", bytes[i]);
  return text.empty() ? "none" : text;
}

uint64_t fitting(const Statement& statement, std::string_view name, uint64_t otherwise, int64_t round, unsigned bits) {
  const Option* option = statement.find(name);
  if (option == nullptr) return otherwise;
  const auto value = static_cast<uint64_t>(option->value.number.at(round));
  if (bits < 64 && value >> bits != 0) {
    throw ScriptError(option->where, "`" + option->name + "` does not fit: it has " + std::to_string(bits) + " bits");
  }
  return value;
}

std::vector<uint8_t> hex_word(const Value& value) {
  std::vector<uint8_t> bytes;
  if (value.text.size() % 2 != 0 || value.text.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) {
    throw ScriptError(value.where, "`" + value.text + "` are not bytes in hexadecimal, in one word");
  }
  for (size_t i = 0; i < value.text.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoul(value.text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

/// The transaction that a message with these IDs belongs to, from either side.
uint64_t Mads::transaction_for(MadKind kind, uint32_t id, uint32_t peer) const {
  const bool connects = ours_.contains(peer);
  if (!begins_transaction(kind) && connects) return ours_.at(peer);
  return 0x1000 + id;
}

Bytes Mads::build(const Statement& statement, int64_t round, const Route& path) {
  const MadKind kind = *mad_kind_of(statement.word);
  uint8_t mad[kManagementBytes] = {1, kClassCm, 2, 3};
  uint8_t* message = mad + kMadHeaderBytes;
  put_defaults(message, kind, path);
  put_options(message, kind, statement, round);
  if (is_request(kind) && !statement.has("bare")) {
    put_address_header(message + private_data_at(kind), path.src_ip, path.dst_ip);
  }
  const uint32_t data = data_at(kind, statement);
  if (const Option* bytes = statement.find("data")) {
    const std::vector<uint8_t> own = hex_word(bytes->value);
    if (own.size() > kManagementBytes - kMadHeaderBytes - data) throw ScriptError(bytes->where, "too long");
    std::memcpy(message + data, own.data(), own.size());
  }
  const uint32_t id = id_in(message, kind, "id");
  const uint64_t transaction = static_cast<uint64_t>(
      statement.number("tid", static_cast<int64_t>(transaction_for(kind, id, id_in(message, kind, "peer"))), round));
  if (begins_transaction(kind)) theirs_[id] = transaction;
  store_be64(mad + 8, transaction);
  store_be16(mad + 16, static_cast<uint16_t>(kFirstMadAttribute + static_cast<unsigned>(kind)));
  struct Spoiled {
    std::string_view name;
    uint32_t at;
  };
  for (const Spoiled& field : {Spoiled{"base", 0}, {"class", 1}, {"class_version", 2}, {"method", 3}}) {
    mad[field.at] = static_cast<uint8_t>(fitting(statement, field.name, mad[field.at], round, 8));
  }
  store_be16(mad + 16, static_cast<uint16_t>(fitting(statement, "attribute", load_be16(mad + 16), round, 16)));

  Bytes bytes(RouteHeader::kMaxBytes + Bth::kBytes + Deth::kBytes + kManagementBytes + kIcrcBytes);
  TxFrame frame{};
  frame.data = bytes.data();
  frame.capacity = static_cast<uint32_t>(bytes.size());
  Bth bth;
  bth.opcode = make_opcode(Service::kUd, kOpSendOnly);
  bth.pkey = kDefaultPkey;
  bth.dest_qp = kManagementQpn;
  const RouteHeader header(path);
  FrameBuilder builder(frame, header, bth, Deth::kBytes, kManagementBytes);
  Deth{static_cast<uint32_t>(fitting(statement, "packet_qkey", kManagementQkey, round, 32)),
       static_cast<uint32_t>(fitting(statement, "src_qp", kManagementQpn, round, 24))}
      .encode(builder.ext());
  builder.append(mad, kManagementBytes);
  builder.finish();
  bytes.resize(frame.bytes);
  if (statement.has("bad_icrc")) bytes.back() ^= 1;
  return bytes;
}

bool is_mad(const PacketView& view) {
  return view.info->service == Service::kUd && view.bth.dest_qp == kManagementQpn &&
         view.payload_bytes == kManagementBytes;
}

void Mads::on_sent(std::span<const uint8_t> frame) {
  PacketView view;
  if (parse_frame(frame, view) != ParseResult::kOk || !is_mad(view)) return;
  const auto kind = mad_kind_of(mad_name(load_be16(view.payload + 16)));
  if (!kind || !begins_transaction(*kind)) return;
  ours_[id_in(view.payload + kMadHeaderBytes, *kind, "id")] = load_be64(view.payload + 8);
}

void Mads::compare_transaction(const Statement& statement, int64_t round, const uint8_t* mad,
                               std::vector<FieldCheck>& rows) const {
  const MadKind kind = *mad_kind_of(statement.word);
  const uint8_t* message = mad + kMadHeaderBytes;
  const uint32_t id = id_in(message, kind, "id");
  const uint32_t peer = id_in(message, kind, "peer");
  if (!begins_transaction(kind)) {
    const bool of_ours = kind == MadKind::kRtu || !theirs_.contains(peer);
    const auto known = of_ours ? ours_.find(id) : theirs_.find(peer);
    const bool none = known == (of_ours ? ours_.end() : theirs_.end());
    const int64_t otherwise = none ? static_cast<int64_t>(load_be64(mad + 8)) : static_cast<int64_t>(known->second);
    const std::string expected = mad_hex(static_cast<uint64_t>(statement.number("tid", otherwise, round)));
    const std::string actual = mad_hex(load_be64(mad + 8));
    rows.push_back({"tid", expected, actual, expected == actual});
  }
}

std::vector<FieldCheck> Mads::compare(const Statement& statement, int64_t round, const Route& path,
                                      std::span<const uint8_t> frame) {
  std::vector<FieldCheck> rows;
  const auto row = [&](std::string_view field, const std::string& expected, const std::string& actual) {
    rows.push_back({std::string(field), expected, actual, expected == actual});
  };
  PacketView view;
  if (parse_frame(frame, view) != ParseResult::kOk || !is_mad(view)) {
    row("message", statement.word, "another packet");
    return rows;
  }
  const uint8_t* mad = view.payload;
  const uint8_t* message = mad + kMadHeaderBytes;
  row("message", statement.word, std::string(mad_name(load_be16(mad + 16))));
  if (!rows[0].same) return rows;
  const MadKind kind = *mad_kind_of(statement.word);
  uint8_t expected[kManagementBytes] = {};
  put(expected, kind, "id", kOwnId);
  put(expected, kind, "peer", kPeerId);
  put_options(expected, kind, statement, round);
  for (const MadField& field : mad_fields()) {
    if (field.kind != kind) continue;
    const bool always = field.name == "id" || field.name == "peer" || field.name == "reason" ||
                        field.name == "status" || field.name == "service" || field.name == "ari_bytes" ||
                        field.name == "transport" || field.name == "failover" || field.name == "answers";
    if (statement.has(field.name) || always) {
      row(field.name, mad_hex(get_field(expected, field)), mad_hex(get_field(message, field)));
    }
  }
  row("header", "1 7 2 3 status 0",
      format("%u %u %u %u status %u", mad[0], mad[1], mad[2], mad[3], load_be16(mad + 4)));
  compare_transaction(statement, round, mad, rows);
  if (kind == MadKind::kReq) {
    uint8_t gids[32];
    std::memcpy(gids, path.dst_ip.bytes.data(), 16);
    std::memcpy(gids + 16, path.src_ip.bytes.data(), 16);
    row("gids", bytes_word(gids), bytes_word({message + kLocalGidAt, 32}));
  }
  if (kind == MadKind::kRej && statement.has("ari")) {
    row("ari", bytes_word({expected + kAriAt, kAriRoom}), bytes_word({message + kAriAt, kAriRoom}));
  }
  if (kind != MadKind::kMra && kind != MadKind::kLap && kind != MadKind::kApr) {
    const Option* data = statement.find("data");
    const std::vector<uint8_t> own = data != nullptr ? hex_word(data->value) : std::vector<uint8_t>{};
    const uint32_t at = data_at(kind, statement);
    row("data", bytes_word(own), bytes_word({message + at, kManagementBytes - kMadHeaderBytes - at}));
  }
  const Deth deth = view.deth();
  if (deth.src_qp != kManagementQpn) row("src_qp", "0x1", mad_hex(deth.src_qp));
  if (deth.qkey != kManagementQkey) row("packet_qkey", mad_hex(kManagementQkey), mad_hex(deth.qkey));
  if (view.dst_ip != path.src_ip || view.src_ip != path.dst_ip) row("addresses", "the way back", "others");
  if (!icrc_matches(view)) row("icrc", "right", "wrong");
  return rows;
}

std::string describe_mad(const PacketView& view) {
  const uint8_t* mad = view.payload;
  const std::string_view name = mad_name(load_be16(mad + 16));
  const auto kind = mad_kind_of(name);
  if (mad[1] != kClassCm || !kind) return format("MAD of class %u, attribute 0x%x", mad[1], load_be16(mad + 16));
  std::string text = "mad " + std::string(name);
  for (const MadField& field : mad_fields()) {
    static constexpr std::string_view kShown[] = {"id", "peer", "qpn", "service", "reason", "answers", "status"};
    if (field.kind != *kind || std::find(std::begin(kShown), std::end(kShown), field.name) == std::end(kShown))
      continue;
    text += " " + std::string(field.name) + " " + mad_hex(get_field(mad + kMadHeaderBytes, field));
  }
  return text + " tid " + mad_hex(load_be64(mad + 8));
}

}  // namespace uroce::script
