// Hosts with connection management, and a wire between them that loses, repeats and reorders, in virtual time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "cm/mad.h"
#include "cm/rdma_cm.h"

namespace uroce::cm::test {

class Network;

/// A host: its addresses, what it asked of the machine, and the events that its program got.
class Host final : public Services, public EventSink {
 public:
  Host(Network& network, std::string name, uint64_t guid, std::vector<LocalAddress> addresses, const CmLimits& limits);

  RdmaCm& cm() { return *cm_; }
  const IpAddress& ip(size_t index = 0) const { return addresses_[index].ip; }
  const std::string& name() const { return name_; }
  bool has(const IpAddress& ip) const;
  /// The next event, oldest first; nothing when there is none.
  std::optional<Event> next_event();
  bool has_events() const { return !events_.empty(); }
  /// As the kernel does when an Id is destroyed. For a listener, returns the Ids of requests that no program has seen.
  std::vector<Id*> forget_events_of(const Id* id);
  void restart(const CmLimits& limits);

  // Set by tests.
  std::function<bool(const Event&)> taken;  // what on_cm_event returns
  bool neighbours_known = true;
  std::optional<IpAddress> unreachable;
  std::deque<uint32_t> next_ids;  // drawn before random ones
  std::set<uint64_t> services_of_others;
  uint32_t mtu_bytes = 1024;
  int refuses_to_listen = 0;  // an errno
  // Looked at by tests.
  std::set<uint64_t> claimed;
  std::map<uint64_t, uint64_t> listening;          // service ID, mask
  std::vector<std::pair<IpAddress, bool>> groups;  // joined (true) and left
  unsigned asked = 0;                              // calls of resolve()

  void send_mad(const AddressVector& av, std::span<const uint8_t, kMadBytes> mad, Instant now) override;
  std::optional<ResolvedRoute> find_route(const IpAddress& src, const IpAddress& dst, uint32_t scope_id) override;
  bool is_own(const IpAddress& ip) override { return ip.is_loopback() || has(ip); }
  Neighbour resolve(const ResolvedRoute& way, Instant now) override;
  int claim_service(uint64_t service_id) override;
  void release_service(uint64_t service_id) override { claimed.erase(service_id); }
  int listen(uint64_t service_id, uint64_t mask) override {
    if (refuses_to_listen == 0) listening[service_id] = mask;
    return refuses_to_listen;
  }
  void unlisten(uint64_t service_id, uint64_t) override { listening.erase(service_id); }
  uint32_t draw_communication_id() override;
  uint32_t random() override { return random_.next_u32(); }
  uint64_t node_guid() override { return guid_; }
  void join_group(const IpAddress& group, uint8_t, Instant) override { groups.emplace_back(group, true); }
  void leave_group(const IpAddress& group, uint8_t, Instant) override { groups.emplace_back(group, false); }
  bool on_cm_event(const Event& event) override;

 private:
  Network& network_;
  std::string name_;
  uint64_t guid_;
  std::vector<LocalAddress> addresses_;
  SeededRandom random_;
  std::deque<Event> events_;
  std::unique_ptr<RdmaCm> cm_;
};

/// A datagram on its way.
struct Flying {
  IpAddress src;
  IpAddress dst;
  uint16_t vlan_id = 0;
  uint8_t traffic_class = 0;
  MadBytes mad{};
};

class Network {
 public:
  explicit Network(uint64_t seed = 1) : random_(seed) {}

  Host& add_host(const std::string& name, const std::vector<std::string>& addresses, const CmLimits& limits = {});
  Instant now() const { return now_; }
  SeededRandom& random() { return random_; }

  // Out of a thousand datagrams.
  unsigned lost = 0;
  unsigned repeated = 0;
  unsigned delayed = 0;  // for so long that later ones overtake them
  /// Asked for each datagram that is not lost by chance; false loses it.
  std::function<bool(const Flying&)> passes;
  /// Whether `sent` keeps every datagram.
  bool keep_sent = false;
  std::vector<Flying> sent;

  void send(Flying flying);
  /// Hands it to the host with its destination address, at once.
  void deliver(const Flying& flying);
  /// Advances the clock to `until`; everything happens in its order. `between` is called after each step.
  void run_until(Instant until, const std::function<void()>& between = {});
  void run_for(Duration duration, const std::function<void()>& between = {}) { run_until(now_ + duration, between); }
  /// Runs until no datagram is under way and no timer runs; false when it takes longer than `limit`.
  bool run_until_quiet(Duration limit, const std::function<void()>& between = {});

 private:
  Instant next_step() const;
  void step(Instant at);

  SeededRandom random_;
  Instant now_{1'000'000'000};
  std::vector<std::unique_ptr<Host>> hosts_;
  std::multimap<Instant, Flying> flying_;
};

std::vector<Attribute> attributes_of(const std::vector<Flying>& sent);
SocketAddress v4(const std::string& text, uint16_t port);
SocketAddress v6(const std::string& text, uint16_t port);
std::string text_of(EventType type);

}  // namespace uroce::cm::test
