// How `uroce capture` and the programs whose frames it takes find each other: a socket in the runtime directory.
//
// The socket is named capture.<number>.all, or .some when only chosen programs are wanted. A program joins when DPDK's
// telemetry tells it the name, and one that opens its device joins each .all that is there, so that not a frame is
// missed. It says who it is, and passes the memory of its frames (capture_ring.h). From then on the connection carries
// nothing; it only shows each side when the other is gone. Neither side waits for the other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace uroce {

/// It travels as these bytes.
struct CaptureGreeting {
  static constexpr uint32_t kMagic = 0x75726361;
  static constexpr uint32_t kVersion = 1;

  uint32_t magic = kMagic;
  uint32_t version = kVersion;
  int32_t pid = 0;  // as the program sees it
  char program[64] = {};
  char port[128] = {};
};
CaptureGreeting make_greeting(const std::string& port);

/// The program's end of a connection.
class CaptureConnection {
 public:
  CaptureConnection() = default;
  ~CaptureConnection();
  CaptureConnection(const CaptureConnection&) = delete;
  CaptureConnection& operator=(const CaptureConnection&) = delete;

  /// `name`: of the socket, without a directory. Returns false, with one line in `error`, when none listens there.
  bool join(const std::string& name, const CaptureGreeting& greeting, int ring_fd, std::string& error);
  const std::string& name() const { return name_; }
  /// Asks the kernel now; neither waits nor allocates.
  bool lost() const;
  /// For a connection that is lost: removes the socket that a killed `uroce capture` left.
  void clean_up() const;
  /// To be called in the child of a fork.
  void forget();

 private:
  std::string name_;
  int fd_ = -1;
};

/// The sockets of captures that want every program; those that killed captures left are removed.
std::vector<std::string> open_captures();

/// The side of `uroce capture`.
class CaptureListener {
 public:
  CaptureListener() = default;
  ~CaptureListener();
  CaptureListener(const CaptureListener&) = delete;
  CaptureListener& operator=(const CaptureListener&) = delete;

  /// Returns false, with one line in `error`, when that fails.
  bool open(bool everybody, std::string& error);
  /// Makes the socket anew, if it was removed, with the same name and the same number for `fd`. Returns true when it
  /// has done so.
  bool open_again();
  const std::string& name() const { return name_; }
  /// Readable when a program connects.
  int fd() const { return fd_; }
  /// A new connection, which is the caller's; -1 when there is none now.
  int accept() const;

 private:
  /// -1, with one line in `error`, when it cannot be made.
  int make(const std::string& dir, std::string& error);

  std::string name_;
  std::string path_;
  int fd_ = -1;
};

struct CaptureGuest {
  CaptureGreeting greeting;
  int ring_fd = -1;  // the caller's
};
enum class Greeted : uint8_t { kNotYet, kYes, kNo };
/// Reads the greeting of a connection.
Greeted read_greeting(int fd, CaptureGuest& guest);
/// True when the other side has closed, or its process is gone.
bool is_closed(int fd);

}  // namespace uroce
