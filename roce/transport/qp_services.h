// The service of a queue pair, which it has for life: its sending and its receiving side.
//
// All have the same functions, and none is virtual: which service it is, is decided once a call.
#pragma once

#include <variant>

#include "transport/reliable_service.h"
#include "transport/unacked_service.h"

namespace uroce {

using QpService = std::variant<ReliableService*, UnackedService<UcReceiver>*, UnackedService<UdReceiver>*,
                               UnackedService<RawReceiver>*>;

/// Calls `call` with the service that it is.
template <typename Service, typename Call>
decltype(auto) serve(Service& service, Call&& call) {
  return std::visit([&](auto& it) -> decltype(auto) { return call(*it); }, service);
}

inline PollResult transmit(const QpService& service, TxFrame& frame, Instant now) {
  return serve(service, [&](auto& it) { return it.poll_transmit(frame, now); });
}

/// No peer copies for the queue pair any more.
inline void hide(const QpService& service) {
  serve(service, [](auto& it) { it.hide(); });
}

}  // namespace uroce
