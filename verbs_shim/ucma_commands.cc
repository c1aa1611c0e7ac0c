// The commands of rdma_user_cm.h, each as far as its errno. What is checked, in which order, and with which errno, is
// as in the kernel; but a command that is shorter than its structure is EINVAL, where the kernel reads what lies behind
// it.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <optional>

#include "dpdk/endpoint_cm.h"
#include "dpdk/log.h"
#include "later_abi.h"
#include "runtime.h"
#include "ucma.h"
#include "ucma_call.h"
#include "ucma_convert.h"

namespace uroce::verbs {

namespace {

using cm::SocketAddress;

constexpr uint32_t kBacklogMax = 1024;  // what a kernel allows by default
constexpr uint8_t kConsumerReject = 28;
constexpr uint8_t kVendorOptionReject = 35;

/// The engine for one command. At the end of the scope the messages of the command are sent, and the background thread
/// takes over waiting for the answer.
class OnEngine {
 public:
  OnEngine() { lock_.emplace(endpoint()); }
  ~OnEngine() {
    endpoint().drive();
    lock_.reset();
    endpoint().wake_thread();
  }
  OnEngine(const OnEngine&) = delete;
  OnEngine& operator=(const OnEngine&) = delete;
  cm::RdmaCm* operator->() { return &endpoint().connections().manager(); }

 private:
  std::optional<EngineLock> lock_;
};

Instant now() { return endpoint().now(); }

/// Opens the device for an id, and gives connection management what the program has said of it so far. 0 or an errno.
int bring_to_device(UcmaId& id) {
  if (id.id != nullptr) return 0;
  if (!Runtime::get().open()) return errno;
  EngineLock lock(endpoint());
  endpoint().connections().set_events(&Ucma::get());
  cm::RdmaCm& manager = endpoint().connections().manager();
  id.id = manager.create_id(id.port_space, id.qp_type, &id);
  if (id.id == nullptr) return ENOMEM;
  return id.bound_early.family != SocketAddress::Family::kNone ? manager.bind(*id.id, id.bound_early) : 0;
}

/// The id that a command names. Null, with the errno in `error`, when there is none or the device cannot be opened.
UcmaId* id_on_device(const UcmaCall& call, uint32_t number, int& error) {
  UcmaId* const id = Ucma::get().find_id(call.file, number, error);
  if (id != nullptr) error = bring_to_device(*id);
  return error == 0 ? id : nullptr;
}

/// The id that a command names, which has to be bound to the device already (EINVAL otherwise).
UcmaId* bound_id(const UcmaCall& call, uint32_t number, int& error) {
  UcmaId* const id = Ucma::get().find_id(call.file, number, error);
  if (id == nullptr) return nullptr;
  error = EINVAL;
  if (id->id == nullptr) return nullptr;
  EngineLock lock(endpoint());
  if (!id->id->has_device()) return nullptr;
  error = 0;
  return id;
}

std::optional<QpType> qp_type_for(uint16_t port_space, uint8_t asked) {
  switch (static_cast<cm::PortSpace>(port_space)) {
    case cm::PortSpace::kTcp:
      return QpType::kRc;
    case cm::PortSpace::kUdp:
    case cm::PortSpace::kIpoib:
      return QpType::kUd;
    case cm::PortSpace::kIb:
      if ((asked >= 2 && asked <= 4) || asked == IBV_QPT_XRC_SEND || asked == IBV_QPT_XRC_RECV)
        return static_cast<QpType>(asked);
      break;
  }
  return std::nullopt;
}

int create_id(const UcmaCall& call, const rdma_ucm_create_id& command) {
  if (call.out_bytes < sizeof(rdma_ucm_create_id_resp)) return ENOSPC;
  const auto qp_type = qp_type_for(command.ps, command.qp_type);
  if (!qp_type.has_value()) return EINVAL;
  UcmaId& id = Ucma::get().add_id(call.file, static_cast<cm::PortSpace>(command.ps), *qp_type);
  id.uid = command.uid;
  const int error = reply_with(call, command.response, rdma_ucm_create_id_resp{id.number});
  if (error != 0) Ucma::get().destroy(id);
  return error;
}

int destroy_id(const UcmaCall& call, const rdma_ucm_destroy_id& command) {
  if (call.out_bytes < sizeof(rdma_ucm_destroy_id_resp)) return ENOSPC;
  int error;
  UcmaId* const id = Ucma::get().find_id(call.file, command.id, error);
  if (id == nullptr) return error;
  return reply_with(call, command.response, rdma_ucm_destroy_id_resp{Ucma::get().destroy(*id)});
}

/// librdmacm binds an id to "any address" of family AF_IB in order to find out whether the kernel knows that family,
/// whenever a program makes its first channel. The device is not opened for that.
bool can_wait(const UcmaId& id, const SocketAddress& address) {
  return id.id == nullptr && address.family == SocketAddress::Family::kIb && address.ip.is_zero() &&
         id.port_space == cm::PortSpace::kIb && id.bound_early.family == SocketAddress::Family::kNone;
}

int bind_to(const UcmaCall& call, uint32_t number, const std::optional<SocketAddress>& address) {
  if (!address.has_value()) return EINVAL;
  int error;
  UcmaId* id = Ucma::get().find_id(call.file, number, error);
  if (id == nullptr) return error;
  if (can_wait(*id, *address)) {
    id->bound_early = *address;
    return 0;
  }
  id = id_on_device(call, number, error);
  return id != nullptr ? OnEngine()->bind(*id->id, *address) : error;
}

int bind_ip(const UcmaCall& call, const rdma_ucm_bind_ip& command) {
  return bind_to(call, command.id, address_from(&command.addr, sizeof command.addr));
}

/// An address that comes with its size.
std::optional<SocketAddress> sized_address(const __kernel_sockaddr_storage& address, size_t bytes) {
  if (bytes == 0 || bytes != address_bytes(address.ss_family)) return std::nullopt;
  return address_from(&address, sizeof address);
}

int bind(const UcmaCall& call, const rdma_ucm_bind& command) {
  if (command.reserved != 0) return EINVAL;
  return bind_to(call, command.id, sized_address(command.addr, command.addr_size));
}

int resolve(const UcmaCall& call, uint32_t number, const SocketAddress* src, const SocketAddress& dst,
            uint32_t timeout_ms) {
  int error;
  UcmaId* const id = id_on_device(call, number, error);
  if (id == nullptr) return error;
  return OnEngine()->resolve_addr(*id->id, src, dst, milliseconds(timeout_ms), now());
}

int resolve_ip(const UcmaCall& call, const rdma_ucm_resolve_ip& command) {
  const auto src = address_from(&command.src_addr, sizeof command.src_addr);
  const auto dst = address_from(&command.dst_addr, sizeof command.dst_addr);
  if (!dst.has_value() || (command.src_addr.sin6_family != 0 && !src.has_value())) return EINVAL;
  return resolve(call, command.id, src.has_value() ? &*src : nullptr, *dst, command.timeout_ms);
}

int resolve_addr(const UcmaCall& call, const rdma_ucm_resolve_addr& command) {
  const auto src = sized_address(command.src_addr, command.src_size);
  const auto dst = sized_address(command.dst_addr, command.dst_size);
  if (command.reserved != 0 || !dst.has_value() || (command.src_size != 0 && !src.has_value())) return EINVAL;
  return resolve(call, command.id, src.has_value() ? &*src : nullptr, *dst, command.timeout_ms);
}

int resolve_route(const UcmaCall& call, const rdma_ucm_resolve_route& command) {
  int error;
  UcmaId* const id = bound_id(call, command.id, error);
  if (id == nullptr) return error;
  return OnEngine()->resolve_route(*id->id, milliseconds(command.timeout_ms), now());
}

/// As the kernel does: addresses of the IP families have the default Q_Key, whatever the program says.
cm::ConnParam conn_param_of(const UcmaId& id, const rdma_ucm_conn_param& from) {
  cm::ConnParam param = conn_param_from(from);
  if (id.id->local().family != SocketAddress::Family::kIb) param.qkey = 0;
  return param;
}

int connect(const UcmaCall& call, const rdma_ucm_connect& command) {
  if (command.conn_param.valid == 0) return EINVAL;
  int error;
  UcmaId* const id = bound_id(call, command.id, error);
  if (id == nullptr) return error;
  OnEngine manager;
  return manager->connect(*id->id, conn_param_of(*id, command.conn_param),
                          {command.ece.vendor_id, command.ece.attr_mod}, now());
}

int listen(const UcmaCall& call, const rdma_ucm_listen& command) {
  int error;
  UcmaId* const id = id_on_device(call, command.id, error);
  if (id == nullptr) return error;
  const uint32_t asked = command.backlog;
  const uint32_t backlog = asked == 0 || asked > kBacklogMax ? kBacklogMax : asked;
  OnEngine manager;
  {
    const std::lock_guard guard(Ucma::get().mutex);
    id->backlog_left = backlog;
  }
  error = manager->listen(*id->id, static_cast<int>(backlog));
  if (error == 0) {
    log_message(LogLevel::kInfo, "connections to port %u of RDMA port space 0x%04x are taken", id->id->local().port,
                static_cast<unsigned>(id->port_space));
  }
  return error;
}

int accept(const UcmaCall& call, const rdma_ucm_accept& command) {
  int error;
  UcmaId* const id = bound_id(call, command.id, error);
  if (id == nullptr) return error;
  const cm::Ece ece{command.ece.vendor_id, command.ece.attr_mod};
  OnEngine manager;
  if (command.conn_param.valid == 0) return manager->accept(*id->id, nullptr, ece, now());
  const cm::ConnParam param = conn_param_of(*id, command.conn_param);
  const uint64_t uid_before = id->uid;
  id->uid = command.uid;
  error = manager->accept(*id->id, &param, ece, now());
  if (error != 0) id->uid = uid_before;
  return error;
}

int reject(const UcmaCall& call, const rdma_ucm_reject& command) {
  const uint8_t reason = command.reason != 0 ? command.reason : kConsumerReject;
  if (reason != kConsumerReject && reason != kVendorOptionReject) return EINVAL;
  int error;
  UcmaId* const id = bound_id(call, command.id, error);
  if (id == nullptr) return error;
  const cm::PrivateData data(std::span(command.private_data, command.private_data_len));
  return OnEngine()->reject(*id->id, data, reason, now());
}

int disconnect(const UcmaCall& call, const rdma_ucm_disconnect& command) {
  int error;
  UcmaId* const id = bound_id(call, command.id, error);
  return id != nullptr ? OnEngine()->disconnect(*id->id, now()) : error;
}

int init_qp_attr(const UcmaCall& call, const rdma_ucm_init_qp_attr& command) {
  if (call.out_bytes < sizeof(ib_uverbs_qp_attr)) return ENOSPC;
  if (command.qp_state > static_cast<uint32_t>(QpState::kErr)) return EINVAL;
  int error;
  UcmaId* const id = bound_id(call, command.id, error);
  if (id == nullptr) return error;
  const auto state = static_cast<QpState>(command.qp_state);
  cm::QpSettings settings;
  {
    EngineLock lock(endpoint());
    error = endpoint().connections().manager().init_qp_attr(*id->id, state, settings);
  }
  if (error != 0) return error;
  ib_uverbs_qp_attr reply{};
  qp_settings_to(settings, state, reply);
  return reply_with(call, command.response, reply);
}

int get_event(const UcmaCall& call, const rdma_ucm_get_event& command) {
  return Ucma::get().get_event(call.file, command.response, call.out_bytes);
}

template <typename Value>
bool read_option(const rdma_ucm_set_option& command, Value& value, int& error) {
  error = EINVAL;
  if (command.optlen != sizeof value) return false;
  error = EFAULT;
  if (!copy_from_program(&value, command.optval, sizeof value)) return false;
  error = 0;
  return true;
}

int set_option_of_id(UcmaId& id, const rdma_ucm_set_option& command) {
  uint8_t byte = 0;
  int number = 0;
  int error = ENOSYS;
  OnEngine manager;
  switch (command.optname) {
    case RDMA_OPTION_ID_TOS:
      return read_option(command, byte, error) ? manager->set_tos(*id.id, byte) : error;
    case RDMA_OPTION_ID_REUSEADDR:
      return read_option(command, number, error) ? manager->set_option(*id.id, cm::IdOption::kReuseAddr, number != 0)
                                                 : error;
    case RDMA_OPTION_ID_AFONLY:
      return read_option(command, number, error) ? manager->set_option(*id.id, cm::IdOption::kAfOnly, number != 0)
                                                 : error;
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      return read_option(command, byte, error) ? manager->set_ack_timeout(*id.id, byte) : error;
    default:
      return error;
  }
}

/// A path that the program found out by itself (from an InfiniBand subnet administrator). Here an address has only one
/// route, so it is resolved as without that path.
int set_path(UcmaId& id, const rdma_ucm_set_option& command) {
  if (command.optname != RDMA_OPTION_IB_PATH) return ENOSYS;
  if (command.optlen == 0 || command.optlen % sizeof(ib_path_rec_data) != 0) return EINVAL;
  OnEngine manager;
  return id.id->has_device() ? manager->resolve_route(*id.id, milliseconds(0), now()) : EINVAL;
}

int set_option(const UcmaCall& call, const rdma_ucm_set_option& command) {
  int error;
  UcmaId* const id = id_on_device(call, command.id, error);
  if (id == nullptr) return error;
  if (command.level == RDMA_OPTION_ID) return set_option_of_id(*id, command);
  return command.level == RDMA_OPTION_IB ? set_path(*id, command) : ENOSYS;
}

int notify(const UcmaCall& call, const rdma_ucm_notify& command) {
  int error;
  UcmaId* const id = bound_id(call, command.id, error);
  return id != nullptr ? OnEngine()->notify(*id->id, command.event, now()) : error;
}

int join(const UcmaCall& call, uint32_t number, uint64_t uid, uint64_t response,
         const std::optional<SocketAddress>& group, uint16_t flags) {
  if (call.out_bytes < sizeof(rdma_ucm_create_id_resp)) return ENOSPC;
  if (!group.has_value() || flags >= RDMA_MC_JOIN_FLAG_RESERVED) return EINVAL;
  int error;
  UcmaId* const id = bound_id(call, number, error);
  if (id == nullptr) return error;
  UcmaMulticast& multicast = Ucma::get().add_multicast(*id, uid);
  const bool send_only = flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
  try {
    error = OnEngine()->join_multicast(*id->id, *group, send_only, &multicast, now());
  } catch (const std::bad_alloc&) {
    Ucma::get().destroy(multicast);
    throw;
  }
  if (error == 0) error = reply_with(call, response, rdma_ucm_create_id_resp{multicast.number});
  if (error != 0) Ucma::get().destroy(multicast);
  return error;
}

int join_ip_multicast(const UcmaCall& call, const rdma_ucm_join_ip_mcast& command) {
  const auto group = address_from(&command.addr, sizeof command.addr);
  return join(call, command.id, command.uid, command.response, group, RDMA_MC_JOIN_FLAG_FULLMEMBER);
}

int join_multicast(const UcmaCall& call, const rdma_ucm_join_mcast& command) {
  return join(call, command.id, command.uid, command.response, sized_address(command.addr, command.addr_size),
              command.join_flags);
}

int leave_multicast(const UcmaCall& call, const rdma_ucm_destroy_id& command) {
  if (call.out_bytes < sizeof(rdma_ucm_destroy_id_resp)) return ENOSPC;
  int error;
  UcmaMulticast* const multicast = Ucma::get().find_multicast(call.file, command.id, error);
  if (multicast == nullptr) return error;
  return reply_with(call, command.response, rdma_ucm_destroy_id_resp{Ucma::get().destroy(*multicast)});
}

/// Names of services are asked of an InfiniBand subnet administrator, and RoCE has none.
int resolve_ib_service(const UcmaCall& call, const UcmaResolveIbService& command) {
  int error;
  UcmaId* const id = bound_id(call, command.id, error);
  if (id == nullptr) return error;
  EngineLock lock(endpoint());
  return id->id->only_bound() ? EOPNOTSUPP : EINVAL;
}

/// An event that a program sends to itself: librdmacm thus wakes the thread that waits for an address it has looked up.
int write_cm_event(const UcmaCall& call, const UcmaWriteCmEvent& command) {
  if (command.event != kCmEventUser && command.event != kCmEventInternal) return EINVAL;
  int error;
  UcmaId* const id = Ucma::get().find_id(call.file, command.id, error);
  if (id == nullptr) return error;
  Ucma::get().push_written(*id, command.event, command.status, command.argument);
  return 0;
}

/// The command is written to the channel to which the id moves, and names the descriptor of the one where it is.
int migrate_id(const UcmaCall& call, const rdma_ucm_migrate_id& command) {
  if (call.out_bytes < sizeof(rdma_ucm_migrate_resp)) return ENOSPC;
  const int from_fd = static_cast<int>(command.fd);
  const std::unique_ptr<UcmaFile, decltype(&release_file)> from(hold_file(from_fd), &release_file);
  if (from == nullptr) return syscall(SYS_fcntl, from_fd, F_GETFD) < 0 ? ENOENT : EINVAL;
  int error = EINVAL;
  UcmaId* const id = from->generation == fork_generation ? Ucma::get().find_id(*from, command.id, error) : nullptr;
  if (id != nullptr) {
    std::optional<EngineLock> lock;
    if (id->id != nullptr) lock.emplace(endpoint());
    error = reply_with(call, command.response, rdma_ucm_migrate_resp{Ucma::get().migrate(*id, call.file)});
  }
  return error;
}

using Run = int (*)(const UcmaCall& call, const uint8_t* in, size_t in_bytes);

/// Brings the bytes of a command, at least `kBytesMin` of them, into its structure.
template <auto kRun, typename Command, size_t kBytesMin = sizeof(Command)>
int decoded(const UcmaCall& call, const uint8_t* in, size_t in_bytes) {
  if (in_bytes < kBytesMin) return EINVAL;
  Command command{};
  std::memcpy(&command, in, std::min(in_bytes, sizeof command));
  return kRun(call, command);
}

// By the numbers of rdma_user_cm.h. The kernel has no GET_OPTION either.
constexpr std::array<Run, kUcmaWriteCmEvent + 1> kCommands = {
    decoded<create_id, rdma_ucm_create_id>,
    decoded<destroy_id, rdma_ucm_destroy_id>,
    decoded<bind_ip, rdma_ucm_bind_ip>,
    decoded<resolve_ip, rdma_ucm_resolve_ip>,
    decoded<resolve_route, rdma_ucm_resolve_route>,
    decoded<query_ucma_route, rdma_ucm_query>,
    decoded<connect, rdma_ucm_connect, offsetof(rdma_ucm_connect, ece)>,
    decoded<listen, rdma_ucm_listen>,
    decoded<accept, rdma_ucm_accept, offsetof(rdma_ucm_accept, ece)>,
    decoded<reject, rdma_ucm_reject>,
    decoded<disconnect, rdma_ucm_disconnect>,
    decoded<init_qp_attr, rdma_ucm_init_qp_attr>,
    decoded<get_event, rdma_ucm_get_event>,
    nullptr,
    decoded<set_option, rdma_ucm_set_option>,
    decoded<notify, rdma_ucm_notify>,
    decoded<join_ip_multicast, rdma_ucm_join_ip_mcast>,
    decoded<leave_multicast, rdma_ucm_destroy_id>,
    decoded<migrate_id, rdma_ucm_migrate_id>,
    decoded<query_ucma, rdma_ucm_query>,
    decoded<bind, rdma_ucm_bind>,
    decoded<resolve_addr, rdma_ucm_resolve_addr>,
    decoded<join_multicast, rdma_ucm_join_mcast>,
    decoded<resolve_ib_service, UcmaResolveIbService>,
    decoded<write_cm_event, UcmaWriteCmEvent>,
};

}  // namespace

int run_ucma_command(UcmaFile& file, uint32_t command, const uint8_t* in, size_t in_bytes, size_t out_bytes) {
  if (command >= kCommands.size()) return EINVAL;
  const Run run = kCommands[command];
  if (run == nullptr) return ENOSYS;
  const UcmaCall call{file, out_bytes};
  // The one command that waits must not keep others from being executed.
  if (command == RDMA_USER_CM_CMD_GET_EVENT) return run(call, in, in_bytes);
  const std::lock_guard guard(Ucma::get().command_mutex);
  {
    const std::lock_guard files(Ucma::get().mutex);
    if (file.fd < 0) return EBADF;  // closed meanwhile, with all that it had
  }
  return run(call, in, in_bytes);
}

}  // namespace uroce::verbs
