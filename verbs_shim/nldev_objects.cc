#include "nldev_objects.h"

#include <rdma/rdma_netlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "cm/values.h"
#include "ucma_convert.h"
#include "uroce/types.h"

namespace uroce::verbs {

namespace {

constexpr std::array kCommands{
    ObjectCommand{RDMA_NLDEV_CMD_RES_PD_GET, ObjectKind::kPd, RDMA_NLDEV_ATTR_RES_PDN, false, RDMA_NLDEV_ATTR_RES_PD,
                  RDMA_NLDEV_ATTR_RES_PD_ENTRY},
    ObjectCommand{RDMA_NLDEV_CMD_RES_CQ_GET, ObjectKind::kCq, RDMA_NLDEV_ATTR_RES_CQN, false, RDMA_NLDEV_ATTR_RES_CQ,
                  RDMA_NLDEV_ATTR_RES_CQ_ENTRY},
    ObjectCommand{RDMA_NLDEV_CMD_RES_QP_GET, ObjectKind::kQp, RDMA_NLDEV_ATTR_RES_LQPN, true, RDMA_NLDEV_ATTR_RES_QP,
                  RDMA_NLDEV_ATTR_RES_QP_ENTRY},
    ObjectCommand{RDMA_NLDEV_CMD_RES_CM_ID_GET, ObjectKind::kCmId, RDMA_NLDEV_ATTR_RES_CM_IDN, true,
                  RDMA_NLDEV_ATTR_RES_CM_ID, RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY},
    ObjectCommand{RDMA_NLDEV_CMD_RES_MR_GET, ObjectKind::kMr, RDMA_NLDEV_ATTR_RES_MRN, false, RDMA_NLDEV_ATTR_RES_MR,
                  RDMA_NLDEV_ATTR_RES_MR_ENTRY},
    ObjectCommand{RDMA_NLDEV_CMD_RES_CTX_GET, ObjectKind::kContext, RDMA_NLDEV_ATTR_RES_CTXN, false,
                  RDMA_NLDEV_ATTR_RES_CTX, RDMA_NLDEV_ATTR_RES_CTX_ENTRY},
    ObjectCommand{RDMA_NLDEV_CMD_RES_SRQ_GET, ObjectKind::kSrq, RDMA_NLDEV_ATTR_RES_SRQN, false,
                  RDMA_NLDEV_ATTR_RES_SRQ, RDMA_NLDEV_ATTR_RES_SRQ_ENTRY},
};

const ObjectCommand& command_of(ObjectKind kind) {
  return *std::find_if(kCommands.begin(), kCommands.end(), [kind](const ObjectCommand& c) { return c.kind == kind; });
}

// What a kernel tells of each, in its order.

void put_u32(Message& message, uint16_t type, uint64_t value) {
  message.put_number(type, static_cast<uint32_t>(value));
}
void put_u8(Message& message, uint16_t type, uint64_t value) { message.put_number(type, static_cast<uint8_t>(value)); }

void put_row(Message& message, const ContextRow& row, const QpsOfSrqs&) {
  put_u32(message, RDMA_NLDEV_ATTR_RES_CTXN, row.number);
}

void put_row(Message& message, const PdRow& row, const QpsOfSrqs&) {
  message.put_number(RDMA_NLDEV_ATTR_RES_USECNT, row.users);
  put_u32(message, RDMA_NLDEV_ATTR_RES_PDN, row.number);
  put_u32(message, RDMA_NLDEV_ATTR_RES_CTXN, row.context);
}

void put_row(Message& message, const CqRow& row, const QpsOfSrqs&) {
  put_u32(message, RDMA_NLDEV_ATTR_RES_CQE, row.capacity);
  message.put_number(RDMA_NLDEV_ATTR_RES_USECNT, row.users);
  put_u32(message, RDMA_NLDEV_ATTR_RES_CQN, row.number);
  put_u32(message, RDMA_NLDEV_ATTR_RES_CTXN, row.context);
}

void put_row(Message& message, const MrRow& row, const QpsOfSrqs&) {
  message.put_number(RDMA_NLDEV_ATTR_RES_MRLEN, row.length);
  put_u32(message, RDMA_NLDEV_ATTR_RES_MRN, row.number);
  put_u32(message, RDMA_NLDEV_ATTR_RES_PDN, row.pd);
}

void put_row(Message& message, const QpRow& row, const QpsOfSrqs&) {
  const auto type = static_cast<QpType>(row.type);
  const bool has_peer = type == QpType::kRc || type == QpType::kUc;
  put_u32(message, RDMA_NLDEV_ATTR_PORT_INDEX, kPortIndex);
  put_u32(message, RDMA_NLDEV_ATTR_RES_LQPN, row.number);
  if (has_peer) {
    put_u32(message, RDMA_NLDEV_ATTR_RES_RQPN, row.peer);
    put_u32(message, RDMA_NLDEV_ATTR_RES_RQ_PSN, row.rq_psn);
  }
  put_u32(message, RDMA_NLDEV_ATTR_RES_SQ_PSN, row.sq_psn);
  if (has_peer || type == QpType::kXrcSend || type == QpType::kXrcRecv) {
    put_u8(message, RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE, 0);  // migrated: there are no other paths
  }
  put_u8(message, RDMA_NLDEV_ATTR_RES_TYPE, row.type);
  put_u8(message, RDMA_NLDEV_ATTR_RES_STATE, row.state);
  if (row.pd != 0) put_u32(message, RDMA_NLDEV_ATTR_RES_PDN, row.pd);
}

void put_row(Message& message, const SrqRow& row, const QpsOfSrqs& qps) {
  constexpr size_t kEntry = NLA_HDRLEN + NLA_HDRLEN + sizeof(uint32_t);
  constexpr size_t kQpsMax = kPage / 2 / kEntry;  // as fit beside the rest
  put_u32(message, RDMA_NLDEV_ATTR_RES_SRQN, row.number);
  put_u8(message, RDMA_NLDEV_ATTR_RES_TYPE, row.type);
  put_u32(message, RDMA_NLDEV_ATTR_RES_PDN, row.pd);
  if (row.cq != 0) put_u32(message, RDMA_NLDEV_ATTR_RES_CQN, row.cq);
  const auto found = qps.find(row.number);
  if (found == qps.end()) return;
  const size_t table = message.begin(RDMA_NLDEV_ATTR_RES_QP | NLA_F_NESTED);
  for (size_t i = 0; i < std::min(found->second.size(), kQpsMax); i++) {
    const size_t entry = message.begin(RDMA_NLDEV_ATTR_RES_QP_ENTRY | NLA_F_NESTED);
    put_u32(message, RDMA_NLDEV_ATTR_RES_LQPN, found->second[i]);
    message.end(entry);
  }
  message.end(table);
}

void put_address(Message& message, uint16_t type, const AddressRow& row) {
  cm::SocketAddress address;
  if (row.family != static_cast<uint64_t>(cm::SocketAddress::Family::kV4) &&
      row.family != static_cast<uint64_t>(cm::SocketAddress::Family::kV6)) {
    return;
  }
  address.family = static_cast<cm::SocketAddress::Family>(row.family);
  std::memcpy(address.ip.bytes.data(), &row.high, sizeof row.high);
  std::memcpy(address.ip.bytes.data() + sizeof row.high, &row.low, sizeof row.low);
  address.port = static_cast<uint16_t>(row.port);
  address.scope_id = static_cast<uint32_t>(row.scope);
  sockaddr_storage storage{};
  address_to(address, &storage);
  message.put(type, &storage, sizeof storage);
}

void put_row(Message& message, const CmIdRow& row, const QpsOfSrqs&) {
  put_u32(message, RDMA_NLDEV_ATTR_PORT_INDEX, kPortIndex);
  if (row.qpn != 0) {
    put_u32(message, RDMA_NLDEV_ATTR_RES_LQPN, row.qpn);
    put_u8(message, RDMA_NLDEV_ATTR_RES_TYPE, row.type);
  }
  put_u32(message, RDMA_NLDEV_ATTR_RES_PS, row.port_space);
  put_u8(message, RDMA_NLDEV_ATTR_RES_STATE, row.state);
  put_address(message, RDMA_NLDEV_ATTR_RES_SRC_ADDR, row.local);
  put_address(message, RDMA_NLDEV_ATTR_RES_DST_ADDR, row.remote);
  put_u32(message, RDMA_NLDEV_ATTR_RES_CM_IDN, row.number);
}

template <typename Row>
void put_words(Message& message, const uint64_t* words, uint32_t pid, const QpsOfSrqs& qps) {
  Row row;
  std::memcpy(&row, words, sizeof row);
  put_row(message, row, qps);
  if (pid != 0) put_u32(message, RDMA_NLDEV_ATTR_RES_PID, pid);
}

using PutWords = void (*)(Message&, const uint64_t*, uint32_t, const QpsOfSrqs&);
struct RowFormat {
  size_t words;
  PutWords put;
};
template <typename Row>
constexpr RowFormat kFormat{kRowWords<Row>, put_words<Row>};

const RowFormat& format_of(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::kPd:
      return kFormat<PdRow>;
    case ObjectKind::kCq:
      return kFormat<CqRow>;
    case ObjectKind::kQp:
      return kFormat<QpRow>;
    case ObjectKind::kCmId:
      return kFormat<CmIdRow>;
    case ObjectKind::kMr:
      return kFormat<MrRow>;
    case ObjectKind::kSrq:
      return kFormat<SrqRow>;
    case ObjectKind::kContext:
      break;
  }
  return kFormat<ContextRow>;
}

QpsOfSrqs qps_of_srqs(ObjectKind kind, HostObjects& objects) {
  QpsOfSrqs found;
  if (kind != ObjectKind::kSrq) return found;
  for (const ProgramObjects& program : objects.list(ObjectKind::kQp, kRowWords<QpRow>)) {
    for (size_t at = 0; at < program.words.size(); at += kRowWords<QpRow>) {
      QpRow row;
      std::memcpy(&row, &program.words[at], sizeof row);
      if (row.srq != 0) found[row.srq].push_back(static_cast<uint32_t>(row.number));
    }
  }
  return found;
}

}  // namespace

const ObjectCommand* object_command(int op) {
  const auto found =
      std::find_if(kCommands.begin(), kCommands.end(), [op](const ObjectCommand& c) { return c.op == op; });
  return found != kCommands.end() ? &*found : nullptr;
}

ObjectEntries::ObjectEntries(ObjectKind kind, HostObjects& objects)
    : command_(command_of(kind)),
      row_words_(format_of(kind).words),
      all_(objects.list(kind, row_words_)),
      qps_of_srqs_(qps_of_srqs(kind, objects)) {}

void ObjectEntries::fill(Message& message) {
  const size_t table = message.begin(command_.table);
  for (bool first = true; !done(); first = false) {
    const ProgramObjects& program = all_[program_];
    const size_t before = message.size();
    const size_t entry = message.begin(command_.entry);
    format_of(command_.kind).put(message, &program.words[at_], program.pid, qps_of_srqs_);
    message.end(entry);
    if (message.size() > kPage && !first) {
      message.cut(before);
      break;
    }
    at_ += row_words_;
    if (at_ < program.words.size()) continue;
    program_++;
    at_ = 0;
  }
  message.end(table);
}

bool put_object_with_number(Message& message, ObjectKind kind, uint32_t number, HostObjects& objects) {
  const RowFormat& format = format_of(kind);
  for (const ProgramObjects& program : objects.list(kind, format.words)) {
    for (size_t at = 0; at < program.words.size(); at += format.words) {
      if (program.words[at] != number) continue;
      format.put(message, &program.words[at], program.pid, qps_of_srqs(kind, objects));
      return true;
    }
  }
  return false;
}

void put_object_counts(Message& message, HostObjects* objects) {
  constexpr std::array<const char*, kObjectKinds> kNames{"pd", "cq", "qp", "cm_id", "mr", "ctx", "srq"};
  const size_t all = message.begin(RDMA_NLDEV_ATTR_RES_SUMMARY);
  for (uint8_t kind = 0; kind < kObjectKinds; kind++) {
    const size_t one = message.begin(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY);
    message.put_text(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, kNames[kind]);
    const uint64_t count = objects != nullptr ? objects->count(static_cast<ObjectKind>(kind)) : 0;
    message.put_number(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, count);
    message.end(one);
  }
  message.end(all);
}

}  // namespace uroce::verbs
