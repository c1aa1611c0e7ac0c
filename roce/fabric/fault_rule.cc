#include "fabric/fault_rule.h"

#include "packet/opcode.h"

namespace uroce::fabric {
namespace {

bool is_request(Operation operation) {
  return operation == Operation::kSend || operation == Operation::kWrite || operation == Operation::kReadRequest ||
         operation == Operation::kCompareSwap || operation == Operation::kFetchAdd || operation == Operation::kFlush ||
         operation == Operation::kAtomicWrite;
}

bool class_fits(FrameClass what, uint8_t wanted_opcode, const RoceFields& roce) {
  const OpcodeInfo& info = opcode_info(roce.opcode);
  const Operation operation = info.operation;
  const bool acknowledge = operation == Operation::kAcknowledge;
  switch (what) {
    case FrameClass::kAny:
    case FrameClass::kRoce:
      return true;
    case FrameClass::kRequest:
      return is_request(operation);
    case FrameClass::kResponse:
      return info.is_response();
    case FrameClass::kData:
      return operation == Operation::kSend || operation == Operation::kWrite || operation == Operation::kReadResponse;
    case FrameClass::kSend:
      return operation == Operation::kSend;
    case FrameClass::kWrite:
      return operation == Operation::kWrite;
    case FrameClass::kReadRequest:
      return operation == Operation::kReadRequest;
    case FrameClass::kReadResponse:
      return operation == Operation::kReadResponse;
    case FrameClass::kAtomic:
      return operation == Operation::kCompareSwap || operation == Operation::kFetchAdd;
    case FrameClass::kAtomicAck:
      return operation == Operation::kAtomicAcknowledge;
    case FrameClass::kAck:
      return acknowledge && aeth_kind(roce.syndrome) == AethKind::kAck;
    case FrameClass::kNak:
      return acknowledge && aeth_kind(roce.syndrome) == AethKind::kNak;
    case FrameClass::kRnrNak:
      return acknowledge && aeth_kind(roce.syndrome) == AethKind::kRnrNak;
    case FrameClass::kCnp:
      return operation == Operation::kCnp;
    case FrameClass::kOpcode:
      return roce.opcode == wanted_opcode;
  }
  return false;
}

}  // namespace

bool FrameFilter::fits(const std::optional<RoceFields>& roce) const {
  if (!needs_roce()) return true;
  if (!roce) return false;
  if (psn && *psn != roce->psn.value()) return false;
  if (qp && *qp != roce->dest_qp) return false;
  return class_fits(what, opcode, *roce);
}

}  // namespace uroce::fabric
