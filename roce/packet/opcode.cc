#include "packet/opcode.h"

#include <string>

namespace uroce {
namespace {

const char* service_prefix(Service service) {
  switch (service) {
    case Service::kRc:
      return "RC_";
    case Service::kUc:
      return "UC_";
    case Service::kRd:
      return "RD_";
    case Service::kUd:
      return "UD_";
    case Service::kXrc:
      return "XRC_";
    case Service::kCnp:
      return "";
  }
  return "";
}

const char* operation_name(uint8_t low) {
  switch (low) {
    case kOpSendFirst:
      return "SEND_FIRST";
    case kOpSendMiddle:
      return "SEND_MIDDLE";
    case kOpSendLast:
      return "SEND_LAST";
    case kOpSendLastImm:
      return "SEND_LAST_IMM";
    case kOpSendOnly:
      return "SEND_ONLY";
    case kOpSendOnlyImm:
      return "SEND_ONLY_IMM";
    case kOpWriteFirst:
      return "WRITE_FIRST";
    case kOpWriteMiddle:
      return "WRITE_MIDDLE";
    case kOpWriteLast:
      return "WRITE_LAST";
    case kOpWriteLastImm:
      return "WRITE_LAST_IMM";
    case kOpWriteOnly:
      return "WRITE_ONLY";
    case kOpWriteOnlyImm:
      return "WRITE_ONLY_IMM";
    case kOpReadRequest:
      return "READ_REQUEST";
    case kOpReadResponseFirst:
      return "READ_RESPONSE_FIRST";
    case kOpReadResponseMiddle:
      return "READ_RESPONSE_MIDDLE";
    case kOpReadResponseLast:
      return "READ_RESPONSE_LAST";
    case kOpReadResponseOnly:
      return "READ_RESPONSE_ONLY";
    case kOpAcknowledge:
      return "ACKNOWLEDGE";
    case kOpAtomicAcknowledge:
      return "ATOMIC_ACKNOWLEDGE";
    case kOpCompareSwap:
      return "COMPARE_SWAP";
    case kOpFetchAdd:
      return "FETCH_ADD";
    case kOpSendLastInv:
      return "SEND_LAST_INV";
    case kOpSendOnlyInv:
      return "SEND_ONLY_INV";
    case kOpFlush:
      return "FLUSH";
    case kOpAtomicWrite:
      return "ATOMIC_WRITE";
    default:
      return "RESERVED";
  }
}

std::array<std::string, 256> make_names() {
  std::array<std::string, 256> names;
  for (unsigned opcode = 0; opcode < 256; opcode++) {
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(opcode));
    if (info.operation == Operation::kReserved) {
      names[opcode] = "RESERVED";
    } else if (info.operation == Operation::kCnp) {
      names[opcode] = "CNP";
    } else if (info.operation == Operation::kSelectiveAck) {
      names[opcode] = "SACK";
    } else {
      names[opcode] = std::string(service_prefix(info.service)) + operation_name(opcode & 0x1f);
    }
  }
  return names;
}

}  // namespace

const char* opcode_name(uint8_t opcode) {
  static const std::array<std::string, 256> names = make_names();
  return names[opcode].c_str();
}

}  // namespace uroce
