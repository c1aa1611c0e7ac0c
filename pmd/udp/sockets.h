// The kernel's sockets: for each address of ours one that has its UDP port 4791, where packets arrive, and a few that
// packets leave from, each with a source port of its own, so that they take different ways through a network.
//
// Used under the lock of the port that has them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "uroce/address.h"

struct sockaddr_storage;

namespace uroce::udp {

/// Ways that an address's packets take.
inline constexpr uint32_t kSourcePorts = 4;
/// Of what is sent, unless a packet says otherwise.
inline constexpr uint8_t kUsualHopLimit = 64;

struct Source {
  UniqueFd fd;
  uint16_t port = 0;
};

struct AddressSockets {
  IpAddress ip;
  UniqueFd receiver;
  std::array<Source, kSourcePorts> sources;
};

/// The socket address of `ip`. Returns its length.
uint32_t to_sockaddr(const IpAddress& ip, uint16_t port, uint32_t scope, sockaddr_storage& out);

class Sockets {
 public:
  /// Whose link-local addresses are meant.
  void set_scope(uint32_t interface_index) { scope_ = interface_index; }
  uint32_t scope() const { return scope_; }

  /// Takes the address's port. Returns false, with one line in `error` and errno, when that fails: EADDRINUSE when
  /// somebody else on the machine has it, EADDRNOTAVAIL when the address is not the machine's. One that the kernel
  /// still looks for on the network (a tentative one) is the machine's: its packets come as soon as the kernel is sure.
  bool open(const IpAddress& ip, std::string& error);
  /// The machine may have other addresses than before; `take_change`: true once after that.
  void note_change() { changed_ = true; }
  bool take_change() { return std::exchange(changed_, false); }
  /// Closes those of addresses that the machine has no more.
  void close_gone();
  /// The one that was opened last.
  void close_last() { all_.pop_back(); }
  /// nullptr: not open.
  const AddressSockets* find(const IpAddress& ip) const;
  const std::vector<std::unique_ptr<AddressSockets>>& all() const { return all_; }
  /// Whether the kernel knows a way from one of our addresses to `dst`. `mtu`: what it carries, as far as is known.
  bool reaches(const IpAddress& src, const IpAddress& dst, uint32_t& mtu) const;
  /// How many packets the kernel has dropped, because nobody received them in time.
  uint64_t dropped_by_kernel() const;

 private:
  bool open_receiver(AddressSockets& sockets, std::string& error) const;
  bool open_source(const IpAddress& ip, uint32_t index, Source& source, std::string& error) const;

  uint32_t scope_ = 0;
  bool changed_ = false;
  std::vector<std::unique_ptr<AddressSockets>> all_;
};

}  // namespace uroce::udp
