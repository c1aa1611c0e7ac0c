// Services of a host (service IDs of connection management: port spaces and ports, or services of InfiniBand): each is
// claimed by at most one member, as long as the member lives.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "segment/directory.h"

namespace uroce::segment {

class ServiceClaims {
 public:
  ServiceClaims() = default;
  ~ServiceClaims() { forget(); }
  ServiceClaims(const ServiceClaims&) = delete;
  ServiceClaims& operator=(const ServiceClaims&) = delete;

  /// For the host with this MAC. `directory` outlives the claims. Returns false, with one line in `error`, when the
  /// host's file cannot be had.
  bool open(Directory& directory, const MacAddress& mac, std::string& error);
  /// When the file was removed: makes it anew, with the services that this member has. Returns false, with one line in
  /// `error`, when that fails.
  bool open_again(std::string& error);
  bool is_there() const;
  /// False when errno says why not; EADDRINUSE: another member has it. A member may take its own service again.
  bool take(uint64_t service_id);
  void give_back(uint64_t service_id);
  /// Also for the child of a fork: what the parent claimed stays the parent's.
  void forget();

 private:
  Directory* directory_ = nullptr;
  MacAddress mac_;
  std::set<uint64_t> own_;
  int fd_ = -1;
};

}  // namespace uroce::segment
