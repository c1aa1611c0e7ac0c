// A file in the runtime directory by which a process with an open endpoint makes itself known to others. The file is
// locked while the process lives.
//
// The lock tells which processes are alive. The process number does not, because containers that share the directory
// number their processes independently. The name of the note is unique in the directory, so DPDK's files of this
// process are named after it.
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

  /// Makes and locks the empty file, and removes what killed processes left behind. Returns false, with one line in
  /// `error`, when that fails. Further calls find the note made already.
  bool make(std::string& error);
  /// "<pid>", or "<pid>.<n>" when another process has that name. "" before `make`.
  const std::string& name() const { return name_; }
  /// False when the file was removed while this process held it.
  bool is_there() const;
  /// Makes it anew, with the same name and empty. Returns false, with one line in `error`, when that fails.
  bool make_again(std::string& error);
  /// From now on other processes find this socket; with "" they find none any more. Returns an errno when that fails,
  /// for example for want of room; then it can be tried again.
  int publish(const std::string& telemetry_socket);
  const std::string& path() const { return path_; }
  void remove();
  /// To be called in the child of a fork: the note belongs to the parent.
  void leave();

 private:
  std::string name_;
  std::string path_;
  int fd_ = -1;
};

struct RunningEndpoint {
  int pid = 0;  // as its owner sees it
  std::string telemetry_socket;
};
/// All endpoints whose note is published and locked, sorted by pid. Empty, with one line in `error`, when there is no
/// directory.
std::vector<RunningEndpoint> running_endpoints(std::string& error);

/// DPDK's files of the process with that note lie in <runtime directory>/dpdk/<this><name>.
inline constexpr const char* kEalPrefix = "uroce-";

}  // namespace uroce
