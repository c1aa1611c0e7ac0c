#include "host/telemetry_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>

#include "host/reachable_directory.h"

namespace uroce {
namespace {

using Patience = std::chrono::milliseconds;

constexpr size_t kAnswerMax = size_t{1} << 16;

timeval timeval_of(Patience patience) {
  const auto ms = std::max<int64_t>(patience.count(), 1);  // 0 is for ever
  return {static_cast<time_t>(ms / 1000), static_cast<suseconds_t>(ms % 1000 * 1000)};
}

}  // namespace

TelemetrySocket::TelemetrySocket(const std::string& path, Patience patience)
    : fd_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
  const size_t name = path.rfind('/') + 1;
  const ReachableDirectory directory(path.substr(0, name == 0 ? 0 : name - 1), path.size() - name);
  const std::string reachable = directory.path() + "/" + path.substr(name);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  reachable.copy(address.sun_path, sizeof address.sun_path - 1);
  const timeval limit = timeval_of(patience);
  setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  connected_ = connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

bool TelemetrySocket::greet(Patience patience) { return connected_ && receive_answer(patience).has_value(); }

std::optional<std::string> TelemetrySocket::ask(const std::string& command, Patience patience) {
  return send_question(command) ? receive_answer(patience) : std::nullopt;
}

bool TelemetrySocket::send_question(const std::string& command) {
  return connected_ && send(fd_.get(), command.data(), command.size(), MSG_NOSIGNAL) >= 0;
}

int TelemetrySocket::pid() const {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (!connected_ || getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return 0;
  return peer.pid;
}

std::optional<std::string> TelemetrySocket::receive_answer(Patience patience) {
  using std::chrono::steady_clock;
  const auto end = steady_clock::now() + patience;
  connected_ = false;
  pollfd readable{fd_.get(), POLLIN, 0};
  for (;;) {
    const auto left = std::chrono::ceil<Patience>(end - steady_clock::now());
    const int ready = poll(&readable, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (ready > 0) break;
    if (ready == 0 || errno != EINTR) return std::nullopt;
  }
  std::string text(kAnswerMax, '\0');
  const ssize_t bytes = recv(fd_.get(), text.data(), text.size(), MSG_DONTWAIT);
  if (bytes <= 0) return std::nullopt;
  text.resize(static_cast<size_t>(bytes));
  connected_ = true;
  return text;
}

}  // namespace uroce
