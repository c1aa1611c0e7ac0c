#include "nldev.h"

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "nldev_message.h"
#include "nldev_objects.h"
#include "transport/counters.h"

namespace uroce::verbs {

namespace {

constexpr uint8_t kNodeTypeCa = 1;
constexpr uint8_t kStateDown = 1;
constexpr uint8_t kStateActive = 4;
constexpr uint8_t kPhysDisabled = 3;
constexpr uint8_t kPhysLinkUp = 5;
constexpr char kDropPrefix[] = "rx_drop_";

/// What requests say of interest.
struct Asked {
  std::optional<uint32_t> device, port, statistics_of;
  std::optional<uint32_t> object;  // the number of the object that the command is about
  bool malformed = false;
};

/// `number_of_object`: the attribute that has it; 0: none.
Asked read_attributes(const char* at, size_t left, int number_of_object) {
  Asked asked;
  while (left >= sizeof(nlattr)) {
    nlattr header;
    std::memcpy(&header, at, sizeof header);
    if (header.nla_len < sizeof header || header.nla_len > left) break;
    const int type = header.nla_type & NLA_TYPE_MASK;
    std::optional<uint32_t>* const wanted = type == RDMA_NLDEV_ATTR_DEV_INDEX    ? &asked.device
                                            : type == RDMA_NLDEV_ATTR_PORT_INDEX ? &asked.port
                                            : type == RDMA_NLDEV_ATTR_STAT_RES   ? &asked.statistics_of
                                            : type == number_of_object           ? &asked.object
                                                                                 : nullptr;
    if (wanted != nullptr) {
      uint32_t value = 0;
      if (header.nla_len < sizeof header + sizeof value) {
        asked.malformed = true;
      } else {
        std::memcpy(&value, at + sizeof header, sizeof value);
        *wanted = value;
      }
    }
    const size_t step = NLA_ALIGN(header.nla_len);
    if (step > left) break;
    at += step;
    left -= step;
  }
  return asked;
}

void put_device(Message& message, const NldevFacts& facts) {
  message.put_number<uint32_t>(RDMA_NLDEV_ATTR_PORT_INDEX, kPortIndex);  // here: how many there are
  message.put_number(RDMA_NLDEV_ATTR_CAP_FLAGS, facts.cap_flags);
  message.put_text(RDMA_NLDEV_ATTR_FW_VERSION, facts.firmware);
  message.put_number(RDMA_NLDEV_ATTR_NODE_GUID, facts.guid);
  message.put_number(RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, facts.guid);
  message.put_number(RDMA_NLDEV_ATTR_DEV_NODE_TYPE, kNodeTypeCa);
  message.put_number<uint8_t>(RDMA_NLDEV_ATTR_DEV_DIM, 0);
  message.put_text(RDMA_NLDEV_ATTR_DEV_PROTOCOL, "roce");
}

/// A kernel gives LIDs and capabilities of a port for InfiniBand only.
void put_port(Message& message, const NldevFacts& facts) {
  message.put_number(RDMA_NLDEV_ATTR_PORT_INDEX, kPortIndex);
  message.put_number(RDMA_NLDEV_ATTR_PORT_STATE, facts.link_up ? kStateActive : kStateDown);
  message.put_number(RDMA_NLDEV_ATTR_PORT_PHYS_STATE, facts.link_up ? kPhysLinkUp : kPhysDisabled);
  if (facts.netdev_index == 0) return;
  message.put_number(RDMA_NLDEV_ATTR_NDEV_INDEX, facts.netdev_index);
  message.put_text(RDMA_NLDEV_ATTR_NDEV_NAME, facts.netdev.c_str());
}

/// Reasons to drop that never happened are left out, so that the message fits into a page.
void put_counters(Message& message, const NldevFacts& facts) {
  message.put_number(RDMA_NLDEV_ATTR_PORT_INDEX, kPortIndex);
  const size_t all = message.begin(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS | NLA_F_NESTED);
  const Counters counters = facts.objects != nullptr ? facts.objects->counters() : Counters{};
  for_each_counter(counters, [&](const char* name, uint64_t value) {
    if (value == 0 && std::strncmp(name, kDropPrefix, sizeof kDropPrefix - 1) == 0) return;
    const size_t needed = 3 * NLA_HDRLEN + NLA_ALIGN(std::strlen(name) + 1) + sizeof value;
    if (message.size() + needed > kPage) return;
    const size_t one = message.begin(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY | NLA_F_NESTED);
    message.put_text(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, name);
    message.put_number(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, value);
    message.end(one);
  });
  message.end(all);
}

bool changes_something(int op) {
  return op == RDMA_NLDEV_CMD_SET || op == RDMA_NLDEV_CMD_NEWLINK || op == RDMA_NLDEV_CMD_DELLINK ||
         op == RDMA_NLDEV_CMD_SYS_SET || op == RDMA_NLDEV_CMD_STAT_SET || op == RDMA_NLDEV_CMD_STAT_DEL;
}

/// One request, and where its answer goes.
struct Request {
  nlmsghdr header;
  int op;
  const ObjectCommand* object;  // nullptr: the command is about no kind of object
  Asked asked;
  uint32_t port;
  const NldevFacts& facts;
  const NldevReply& reply;

  bool is_dump() const { return (header.nlmsg_flags & NLM_F_DUMP) != 0; }
  bool names_device() const { return facts.exists && asked.device == 0u; }
  bool names_port() const { return names_device() && asked.port == kPortIndex; }
  Message message() const {
    return {header, port, header.nlmsg_type, static_cast<uint16_t>(is_dump() ? NLM_F_MULTI : 0)};
  }
};

void put_handle(Message& message, const NldevFacts& facts) {
  message.put_number<uint32_t>(RDMA_NLDEV_ATTR_DEV_INDEX, 0);
  message.put_text(RDMA_NLDEV_ATTR_DEV_NAME, facts.name);
}

/// Sends one message about the device, with what `fill` adds.
template <typename Fill>
int send_one(const Request& request, Fill&& fill) {
  Message message = request.message();
  put_handle(message, request.facts);
  fill(message, request.facts);
  return request.reply(message.finish()) ? 0 : -ENOBUFS;
}

void put_summary(Message& message, const NldevFacts& facts) { put_object_counts(message, facts.objects); }

/// The objects of a kind that are asked for, in as many messages as they take.
int send_list(const Request& request, const ObjectCommand& command) {
  if (!request.names_device()) return -EINVAL;
  if (request.asked.port.has_value() && request.asked.port != kPortIndex) return -EINVAL;
  if (request.facts.objects == nullptr) return 0;
  ObjectEntries entries(command.kind, *request.facts.objects);
  while (!entries.done()) {
    Message message = request.message();
    put_handle(message, request.facts);
    entries.fill(message);
    if (!request.reply(message.finish())) return -ENOBUFS;
  }
  return 0;
}

/// The one with a number.
int send_object(const Request& request, const ObjectCommand& command) {
  const Asked& asked = request.asked;
  if (!request.names_device() || !asked.object.has_value()) return -EINVAL;
  if (asked.port.has_value() ? asked.port != kPortIndex || !command.of_port : command.of_port) return -EINVAL;
  Message message = request.message();
  put_handle(message, request.facts);
  if (request.facts.objects == nullptr ||
      !put_object_with_number(message, command.kind, *asked.object, *request.facts.objects)) {
    return -ENOENT;
  }
  return request.reply(message.finish()) ? 0 : -ENOBUFS;
}

int answer_dump(const Request& request) {
  const Asked& asked = request.asked;
  switch (request.op) {
    case RDMA_NLDEV_CMD_GET:
      return request.facts.exists ? send_one(request, put_device) : 0;
    case RDMA_NLDEV_CMD_PORT_GET:
      return request.names_device() ? send_one(request, put_port) : -EINVAL;
    case RDMA_NLDEV_CMD_RES_GET:
      return request.facts.exists ? send_one(request, put_summary) : 0;
    case RDMA_NLDEV_CMD_STAT_GET:
      return asked.statistics_of.has_value() && request.names_device() ? 0 : -EINVAL;
    default:
      return request.object != nullptr ? send_list(request, *request.object) : -EINVAL;
  }
}

int answer_one(const Request& request) {
  switch (request.op) {
    case RDMA_NLDEV_CMD_SYS_GET: {
      Message message = request.message();
      message.put_number<uint8_t>(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 1);    // shared, as a kernel's default is
      message.put_number<uint8_t>(RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, 1);  // as ibv_is_fork_initialized says
      return request.reply(message.finish()) ? 0 : -ENOBUFS;
    }
    case RDMA_NLDEV_CMD_GET:
      return request.names_device() ? send_one(request, put_device) : -EINVAL;
    case RDMA_NLDEV_CMD_PORT_GET:
      return request.names_port() ? send_one(request, put_port) : -EINVAL;
    case RDMA_NLDEV_CMD_RES_GET:
      return request.names_device() ? send_one(request, put_summary) : -EINVAL;
    case RDMA_NLDEV_CMD_STAT_GET:
      if (request.asked.statistics_of.has_value()) return request.names_port() ? -ENOENT : -EINVAL;
      return request.names_port() ? send_one(request, put_counters) : -EINVAL;
    default:
      return request.object != nullptr ? send_object(request, *request.object) : -EINVAL;
  }
}

/// Ends a dump with `error` in its last message.
void end_dump(const Request& request, int error) {
  Message message(request.header, request.port, NLMSG_DONE, NLM_F_MULTI);
  message.append(&error, sizeof error);
  request.reply(message.finish());
}

/// Returns the error of the acknowledgement, or 1 when the answer was a list, which has none.
int answer(const Request& request) {
  const int type = request.header.nlmsg_type;
  if (RDMA_NL_GET_CLIENT(type) != RDMA_NL_NLDEV || request.op == RDMA_NLDEV_CMD_UNSPEC ||
      request.op >= RDMA_NLDEV_NUM_OPS) {
    return -EINVAL;
  }
  if (changes_something(request.op)) return -EOPNOTSUPP;
  const bool lists = request.op == RDMA_NLDEV_CMD_GET || request.op == RDMA_NLDEV_CMD_PORT_GET ||
                     request.op == RDMA_NLDEV_CMD_RES_GET || request.op == RDMA_NLDEV_CMD_STAT_GET ||
                     request.object != nullptr;
  if (!lists && request.op != RDMA_NLDEV_CMD_SYS_GET) return -EOPNOTSUPP;
  if (!request.is_dump()) return request.asked.malformed ? -EINVAL : answer_one(request);
  if (!lists) return -EINVAL;
  end_dump(request, request.asked.malformed ? -EINVAL : answer_dump(request));
  return 1;
}

/// An error comes with the request, success with its header, as from a kernel.
bool acknowledge(const nlmsghdr& header, const char* whole, uint32_t port, int error, const NldevReply& reply) {
  Message message(header, port, NLMSG_ERROR, static_cast<uint16_t>(error == 0 ? NLM_F_CAPPED : 0));
  message.append(&error, sizeof error);
  message.append(whole, error == 0 ? sizeof header : header.nlmsg_len);
  return reply(message.finish());
}

}  // namespace

void answer_nldev(const char* request, size_t bytes, uint32_t port, const NldevFacts& facts, const NldevReply& reply) {
  while (bytes >= sizeof(nlmsghdr)) {
    nlmsghdr header;
    std::memcpy(&header, request, sizeof header);
    if (header.nlmsg_len < sizeof header || header.nlmsg_len > bytes) return;
    int error = 0;
    // Only requests are answered, and no control messages.
    if ((header.nlmsg_flags & NLM_F_REQUEST) != 0 && header.nlmsg_type >= NLMSG_MIN_TYPE) {
      const int op = RDMA_NL_GET_OP(header.nlmsg_type);
      const ObjectCommand* const object = object_command(op);
      const Asked asked = read_attributes(request + sizeof header, header.nlmsg_len - sizeof header,
                                          object != nullptr ? object->number_attribute : 0);
      error = answer({header, op, object, asked, port, facts, reply});
    }
    const bool wanted = error < 0 || (error == 0 && (header.nlmsg_flags & NLM_F_ACK) != 0);
    if (wanted && !acknowledge(header, request, port, error, reply)) return;
    const size_t step = NLMSG_ALIGN(static_cast<size_t>(header.nlmsg_len));
    if (step >= bytes) return;
    request += step;
    bytes -= step;
  }
}

}  // namespace uroce::verbs
