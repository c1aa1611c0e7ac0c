// FLUSH and ATOMIC WRITE, the operations of the annex on memory placement. Each is answered by a READ response without
// data, and counts among the READs and atomics that a peer may have under way.
//
// Every request before a FLUSH was carried out by this thread when the FLUSH has its turn, so their writes only have to
// become visible to others, which a fence does. No memory here survives a loss of power: a FLUSH that asks for
// that finds no region that allows it.
#pragma once

#include "packet/packet.h"
#include "transport/qp_context.h"
#include "transport/refusal.h"

namespace uroce {

/// What distinguishes an atomic, a FLUSH or an ATOMIC WRITE from any other with the same PSN, in the form in which the
/// ExecutedLog keeps it.
AtomicEth identity_of(const PacketView& packet);
/// Checks the FLUSH or ATOMIC WRITE, whose identity is given, and carries it out. Returns why it is refused; nullptr
/// when it is not.
const Refusal* place(QpContext& context, const PacketView& packet, const AtomicEth& identity);

}  // namespace uroce
