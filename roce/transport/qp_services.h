// The service of a queue pair, which it has for life: its sending and its receiving side. Apart from qp.h, so that
// users of queue pairs are not compiled with all of the protocol: only qp.cc and its neighbours know the services.
//
// All have the same functions, and none is virtual: which service it is, is decided once a call.
#pragma once

#include <memory>
#include <variant>

#include "transport/qp.h"
#include "transport/qp_context.h"
#include "transport/receive_queue.h"
#include "transport/reliable_service.h"
#include "transport/send_queue.h"
#include "transport/unacked_service.h"

namespace uroce {

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

/// The service of a queue pair of the context's type.
inline QpService make_service(QpContext& context, SendQueue& sends, ReceiveQueue& receives) {
  switch (context.type) {
    case QpType::kUc:
      return std::make_unique<UnackedService<UcReceiver>>(context, sends, receives);
    case QpType::kUd:
      return std::make_unique<UnackedService<UdReceiver>>(context, sends, receives);
    case QpType::kRawPacket:
      return std::make_unique<UnackedService<RawReceiver>>(context, sends, receives);
    default:
      return std::make_unique<ReliableService>(context, sends, receives);
  }
}

}  // namespace uroce
