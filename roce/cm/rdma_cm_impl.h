// The parts of an RdmaCm, and the link between the protocol and the program's Ids: which listener a request is for, and
// which event to report.
#pragma once

#include <memory>
#include <unordered_map>

#include "cm/address_resolution.h"
#include "cm/cma_header.h"
#include "cm/connection_manager.h"
#include "cm/id_state.h"
#include "cm/port_table.h"

namespace uroce::cm {

class RdmaCmImpl final : public ConnectionUser {
 public:
  RdmaCmImpl(Services& its_services, EventSink& its_sink, const CmLimits& its_limits);
  ~RdmaCmImpl() override;

  Services& services;
  EventSink& sink;
  const CmLimits limits;
  PortTable ports;
  AddressResolution resolution;
  ConnectionManager manager;

  Id* create_id(PortSpace port_space, QpType qp_type, void* user);
  void destroy_id(Id& id, Instant now);
  void add_listener(Id& id);
  template <typename F>
  void for_each_id(F&& f) {
    for (const auto& [key, id] : ids_) f(*id);
  }

  Admission admit(const Request& request) override;
  bool on_request(Connection& connection, const Request& request) override;
  void on_event(Connection& connection, const ConnectionEvent& event) override;

 private:
  uint32_t free_number();
  std::optional<CmaHeader> header_of(const Request& request) const;
  void tell_request(Id& child, Id& listener, const Request& request, bool has_header, bool& taken);

  std::unordered_map<const Id*, std::unique_ptr<Id>> ids_;
  std::unordered_map<uint64_t, Id*> listeners_;
  uint64_t next_serial_ = 1;
  uint64_t numbers_tried_ = 0;
};

}  // namespace uroce::cm
