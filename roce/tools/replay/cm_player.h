// Connection management that plays one end of a recorded exchange: an RdmaCm, what it needs of a host, and a program
// that does what the recorded one did.
#pragma once

#include <cerrno>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "cm/rdma_cm.h"
#include "replay/cm_exchange.h"

namespace uroce::replay {

class CmPlayer final : private cm::Services, private cm::EventSink {
 public:
  CmPlayer(const CmExchange& exchange, bool active);

  /// Lets time pass; timers run.
  void advance(Instant now);
  /// Delivers the peer's message, with our ID and transactions in place of the recorded ones.
  void deliver(const CmMad& mad);
  /// The program does what leads to this message of the recorded side. Returns why it cannot, or an empty string.
  std::string act(const CmMad& mad);
  /// The recorded message as ours has to be, with our values for what each side chooses at random.
  cm::MadBytes expected(const CmMad& mad, const cm::MadBytes& ours);

  std::deque<cm::MadBytes> sent;

 private:
  std::string begin(const CmMad& mad);
  void listen();
  std::string reply(const CmMad& mad);
  void run_program();
  uint64_t transaction_of(uint64_t recorded) const;

  void send_mad(const AddressVector& av, std::span<const uint8_t, cm::kMadBytes> mad, Instant now) override;
  std::optional<cm::ResolvedRoute> find_route(const IpAddress& src, const IpAddress& dst, uint32_t scope_id) override;
  bool is_own(const IpAddress& ip) override { return ip == own_ || ip.is_loopback(); }
  Neighbour resolve(const cm::ResolvedRoute& /*way*/, Instant /*now*/) override { return Neighbour::kKnown; }
  int claim_service(uint64_t service_id) override { return claimed_.insert(service_id).second ? 0 : EADDRINUSE; }
  void release_service(uint64_t service_id) override { claimed_.erase(service_id); }
  int listen(uint64_t /*service_id*/, uint64_t /*mask*/) override { return 0; }
  void unlisten(uint64_t /*service_id*/, uint64_t /*mask*/) override {}
  uint32_t draw_communication_id() override { return random_.next_u32(); }
  uint32_t random() override { return random_.next_u32(); }
  uint64_t node_guid() override { return host_.guid; }
  void join_group(const IpAddress& /*group*/, uint8_t /*sgid_index*/, Instant /*now*/) override {}
  void leave_group(const IpAddress& /*group*/, uint8_t /*sgid_index*/, Instant /*now*/) override {}
  bool on_cm_event(const cm::Event& event) override;

  const CmExchange& exchange_;
  const IpAddress own_;
  const IpAddress peer_;
  SeededRandom random_{1};
  Instant now_{};
  struct Host {
    uint64_t guid = 0;
    uint32_t mtu_bytes = 1024;
    cm::ReqPath path;  // of our own REQ, if we send one
  };
  Host host_;
  std::set<uint64_t> claimed_;
  std::deque<cm::Event> events_;
  cm::ConnParam param_;  // of our REQ
  cm::Id* id_ = nullptr;
  uint32_t recorded_id_ = 0;
  uint32_t own_id_ = 0;
  std::map<uint64_t, uint64_t> transactions_;  // recorded to ours
  cm::RdmaCm manager_;
};

}  // namespace uroce::replay
