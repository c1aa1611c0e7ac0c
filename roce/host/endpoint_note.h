// What a process with an open endpoint shows to others: a file in the runtime directory, locked while the process
// lives.
//
// The lock tells who is alive, not the process number: containers that share the directory have numbers of their own.
// The note's name is unique in the directory, so DPDK's files of this process are called after it.
#pragma once

#include <string>
#include <vector>

namespace uroce {

class EndpointNote {
 public:
  EndpointNote() = default;
  ~EndpointNote() { remove(); }
  EndpointNote(const EndpointNote&) = delete;
  EndpointNote& operator=(const EndpointNote&) = delete;

  /// Makes and locks the file, empty; removes what processes left behind that were killed. False and one line in
  /// `error` when that cannot be. Asked again, it is there already.
  bool make(std::string& error);
  /// "<pid>", or "<pid>.<n>" where somebody else has that. "" before `make`.
  const std::string& name() const { return name_; }
  /// From now on others find the socket; "": no more.
  void publish(const std::string& telemetry_socket);
  void remove();
  /// In the child of a fork: the note is the parent's.
  void leave();

 private:
  std::string name_;
  std::string path_;
  int fd_ = -1;
};

struct RunningEndpoint {
  int pid = 0;  // as its owner knows itself
  std::string telemetry_socket;
};
/// Everybody whose note is published and locked, by pid. Empty and one line in `error` when there is no directory.
std::vector<RunningEndpoint> running_endpoints(std::string& error);

/// DPDK's files of the process with that note lie in <runtime directory>/dpdk/<this><name>.
inline constexpr const char* kEalPrefix = "uroce-";

}  // namespace uroce
