// What connection management needs of a host, as far as its engine has it: the way to an address, neighbours, groups.
#pragma once

#include <cstdint>
#include <optional>

#include "cm/rdma_cm.h"
#include "engine/engine.h"
#include "engine/management.h"

namespace uroce {

class EngineServices : public cm::Services {
 public:
  void send_mad(const AddressVector& av, std::span<const uint8_t, cm::kMadBytes> mad, Instant now) override;
  /// From the address that is `src`, or, if that is none, from the one on the destination's network. The most specific
  /// network wins.
  std::optional<cm::ResolvedRoute> find_route(const IpAddress& src, const IpAddress& dst, uint32_t scope_id) override;
  bool is_own(const IpAddress& ip) override;
  Neighbour resolve(const cm::ResolvedRoute& way, Instant now) override;
  /// As a kernel makes it: of the MAC.
  uint64_t node_guid() override;
  void join_group(const IpAddress& group, uint8_t sgid_index, Instant now) override;
  void leave_group(const IpAddress& group, uint8_t sgid_index, Instant now) override;

 protected:
  EngineServices() = default;
  /// Before anything is asked. It outlives what asks.
  void set_engine(Engine& engine) { engine_ = &engine; }
  /// nullptr: none was set.
  Engine* engine() const { return engine_; }

 private:
  Engine* engine_ = nullptr;
};

/// A datagram of the engine's, to connection management.
void hand_over(cm::RdmaCm& manager, const IncomingMad& mad, Instant now);

}  // namespace uroce
