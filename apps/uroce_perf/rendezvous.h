// A TCP connection over which the two sides exchange lines, so as to find each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace uroce::perf {

class Rendezvous {
 public:
  /// Waits for the other side, or connects to it (trying for ten seconds). Throws std::runtime_error.
  Rendezvous(bool listen, const std::string& host, uint16_t port);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  void send_line(const std::string& line);
  /// Waits for a line. Throws when the other side has gone.
  std::string receive_line();
  /// True when a line, or the end of the connection, can be received.
  bool readable() const;

 private:
  int fd_ = -1;
  std::string received_;
};

}  // namespace uroce::perf
