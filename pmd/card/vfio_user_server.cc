#include "pmd/card/vfio_user_server.h"

#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mqnic::card {
namespace vu = vfio_user;
namespace {

constexpr uint32_t kFramesPerRun = 32;
constexpr uint64_t kSocketLookNs = 20'000;  // between two looks at the sockets while there is traffic
constexpr uint64_t kSpinNs = 50'000;        // polling without anything to do, before the first sleep
constexpr uint64_t kFirstSleepNs = 10'000;
constexpr uint64_t kLongestSleepNs = 500'000;
constexpr uint64_t kSleepWithoutClientNs = 20'000'000;
constexpr uint64_t kStopLookNs = 20'000'000;  // between two looks at `stop` while the client's memory is waited for
constexpr int kMessagesPerLook = 64;

constexpr const char* kStalled = "a client stalled for 3 s and was disconnected";

uint64_t clock_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

bool fill_address(const std::string& path, sockaddr_un& address, std::string& error) {
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    error = "the socket's path has 1 to " + std::to_string(sizeof address.sun_path - 1) + " characters";
    return false;
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return true;
}

/// Removes a socket that a server has left behind. Anything else that has this name stays, and is an error.
bool clear_path(const std::string& path, const sockaddr_un& address, std::string& error) {
  struct stat st {};
  if (lstat(path.c_str(), &st) != 0) return true;
  if (!S_ISSOCK(st.st_mode)) {
    error = path + " is there already and is no socket: choose another name";
    return false;
  }
  const vu::UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool refused =
      connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 && errno == ECONNREFUSED;
  if (!refused) {
    error = "another server listens on " + path + ": stop it, or choose another name";
    return false;
  }
  return unlink(path.c_str()) == 0 || errno == ENOENT;
}

}  // namespace

std::unique_ptr<VfioUserServer> VfioUserServer::listen(const std::string& socket_path, const CardConfig& config,
                                                       std::vector<std::unique_ptr<Wire>> wires, std::string& error) {
  std::unique_ptr<VfioUserServer> server(new VfioUserServer(config, std::move(wires)));
  error = server->bind(socket_path);
  return error.empty() ? std::move(server) : nullptr;
}

VfioUserServer::VfioUserServer(const CardConfig& config, std::vector<std::unique_ptr<Wire>> wires)
    : wires_(std::move(wires), size_t{config.interfaces} * config.ports_per_interface),
      card_(config, memory_, wires_.pointers()),
      dma_(kPatienceNs, [this] { return look_at_stop(); }),
      device_(card_, memory_, dma_) {}

VfioUserServer::~VfioUserServer() {
  if (!path_.empty()) unlink(path_.c_str());
}

/// Returns an empty string, or what is wrong.
std::string VfioUserServer::bind(const std::string& path) {
  std::string error;
  sockaddr_un address{};
  if (!fill_address(path, address, error) || !clear_path(path, address, error)) return error;
  listener_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const mode_t mask = umask(0177);
  const bool bound = ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  const int bind_error = errno;
  umask(mask);
  if (!bound) return "cannot listen on " + path + ": " + std::strerror(bind_error);
  path_ = path;
  return ::listen(listener_.get(), 4) == 0 ? "" : "cannot listen on " + path + ": " + std::strerror(errno);
}

std::vector<std::string> VfioUserServer::take_messages() {
  std::vector<std::string> messages = card_.take_messages();
  wires_.take_messages(messages);
  messages.insert(messages.end(), messages_.begin(), messages_.end());
  messages_.clear();
  return messages;
}

void VfioUserServer::drop_client() {
  stalled_since_ns_ = 0;
  if (dma_.trouble() == DmaMessages::Trouble::kSlow) messages_.push_back(kStalled);
  dma_.end_client();
  channel_.reset();
  request_ = {};
  device_.end_client();
}

void VfioUserServer::accept_client() {
  vu::UniqueFd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!client) return;
  // The present client's last messages are read first: it may have left.
  for (int i = 0; channel_ && i < kMessagesPerLook && serve_client(); i++) {
  }
  if (channel_) return;  // refused by closing it: one client at a time
  if (!device_.start_client()) return;
  channel_.emplace(std::move(client));
  dma_.begin_client(*channel_);
}

/// True when the reply is on its way, or none was wanted.
bool VfioUserServer::answer() {
  const vu::Header& header = request_.header;
  if ((header.flags & vu::kTypeMask) != vu::kTypeCommand) return false;  // not a command, so no reply is due
  VfioUserDevice::Reply reply;
  const int error = device_.handle(request_, reply);
  request_.fds.clear();
  if (dma_.trouble() != DmaMessages::Trouble::kNone) return false;
  if ((header.flags & vu::kFlagNoReply) != 0) return true;
  vu::Header back{header.message_id, header.command, sizeof back, vu::kTypeReply, 0};
  if (error != 0) {
    back.flags |= vu::kFlagError;
    back.error = static_cast<uint32_t>(error);
    return channel_->begin_send(back, {});
  }
  back.bytes += static_cast<uint32_t>(reply.body.size());
  const std::span<const int> fds = reply.fd >= 0 ? std::span<const int>(&reply.fd, 1) : std::span<const int>();
  return channel_->begin_send(back, reply.body, fds);
}

/// Handles one message, if there is one. False when there was none, when the client has not read the last answer, or
/// when it is gone.
bool VfioUserServer::serve_client() {
  if (!channel_->flush()) {
    drop_client();
    return false;
  }
  if (channel_->sending()) return false;
  const auto received = dma_.take_deferred(request_) ? vu::Channel::Received::kMessage : channel_->receive(request_, 0);
  if (received == vu::Channel::Received::kNothing) return false;
  if (received == vu::Channel::Received::kMessage && answer()) return true;
  drop_client();
  return false;
}

bool VfioUserServer::stalled() const {
  return channel_ && (!device_.introduced() || channel_->receiving() || channel_->sending());
}

void VfioUserServer::look_at_stall(uint64_t now_ns) {
  if (!stalled()) {
    stalled_since_ns_ = 0;
  } else if (stalled_since_ns_ == 0) {
    stalled_since_ns_ = now_ns;
  } else if (now_ns - stalled_since_ns_ >= kPatienceNs) {
    messages_.push_back(kStalled);
    drop_client();
  }
}

/// The sockets to wait for: the present client's, and the listener unless that client stalls and may soon be dropped.
std::array<pollfd, 2> VfioUserServer::waited_for() const {
  const short client = channel_ && channel_->sending() ? POLLOUT : POLLIN;
  return {{{stalled() ? -1 : listener_.get(), POLLIN, 0}, {channel_ ? channel_->fd() : -1, client, 0}}};
}

bool VfioUserServer::look_at_sockets(uint64_t now_ns) {
  auto entries = waited_for();
  const bool any = poll(entries.data(), entries.size(), 0) > 0 || dma_.has_deferred();
  if (entries[1].revents != 0 || dma_.has_deferred()) {
    for (int i = 0; channel_ && i < kMessagesPerLook && serve_client(); i++) {
    }
  }
  look_at_stall(now_ns);
  if (entries[0].revents != 0) accept_client();
  return any;
}

bool VfioUserServer::turn(uint64_t now_ns) {
  dma_.begin_turn();
  // A client that has to be asked for each frame is asked for one frame a turn: the patience is for the whole turn.
  bool busy = card_.run(now_ns, device_.asks_client() ? 1 : kFramesPerRun) != 0;
  if (dma_.trouble() != DmaMessages::Trouble::kNone) drop_client();
  if (!busy || now_ns >= next_look_ns_ || dma_.has_deferred()) {
    if (look_at_sockets(now_ns)) busy = true;
    next_look_ns_ = now_ns + kSocketLookNs;
  }
  return busy;
}

/// Sleeps until the time is over or something happens on a socket.
void VfioUserServer::sleep(uint64_t ns) {
  auto entries = waited_for();
  const timespec time{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  ppoll(entries.data(), entries.size(), &time, nullptr);
}

/// While the client's memory is waited for, turns may take long, and `serve` does not look by itself.
bool VfioUserServer::look_at_stop() {
  const uint64_t now_ns = clock_ns();
  if (stop_ && !stopping_ && now_ns - stop_looked_at_ns_ >= kStopLookNs) {
    stop_looked_at_ns_ = now_ns;
    stopping_ = stop_();
  }
  return stopping_;
}

void VfioUserServer::serve(const std::function<bool()>& stop) {
  stop_ = stop;
  stopping_ = false;
  uint64_t idle_since_ns = clock_ns();
  uint64_t sleep_ns = kFirstSleepNs;
  for (unsigned turns = 0;; turns++) {
    const uint64_t now_ns = clock_ns();
    if (turns % 16 == 0 || sleep_ns > kFirstSleepNs) {
      stopping_ = stopping_ || stop();
    }
    if (stopping_) {
      stop_ = nullptr;
      return;
    }
    if (turn(now_ns)) {
      idle_since_ns = now_ns;
      sleep_ns = kFirstSleepNs;
    } else if (now_ns - idle_since_ns < kSpinNs && channel_) {
      sched_yield();  // the driver may share the core with this thread
    } else {
      sleep(channel_ ? sleep_ns : kSleepWithoutClientNs);
      sleep_ns = std::min(sleep_ns * 2, kLongestSleepNs);
    }
  }
}

}  // namespace mqnic::card
