#include "pmd/udp/inbox.h"

#include <arpa/inet.h>
#include <netinet/udp.h>

#include <algorithm>
#include <cstring>

namespace uroce::udp {
namespace {

template <typename T>
T value_of(const cmsghdr& message) {
  T value{};
  std::memcpy(&value, CMSG_DATA(&message), sizeof value);
  return value;
}

bool is(const cmsghdr& message, int level, int type) {
  return message.cmsg_level == level && message.cmsg_type == type;
}

/// What the kernel tells of headers.
struct Told {
  uint8_t traffic_class = 0;
  uint8_t hop_limit = kUsualHopLimit;
  uint32_t segment_bytes = 0;
};

Told read_control(msghdr& header) {
  Told told;
  for (const cmsghdr* message = CMSG_FIRSTHDR(&header); message != nullptr;
       message = CMSG_NXTHDR(&header, const_cast<cmsghdr*>(message))) {
    if (is(*message, IPPROTO_IP, IP_TOS)) told.traffic_class = value_of<uint8_t>(*message);
    if (is(*message, IPPROTO_IP, IP_TTL) || is(*message, IPPROTO_IPV6, IPV6_HOPLIMIT))
      told.hop_limit = static_cast<uint8_t>(value_of<int>(*message));
    if (is(*message, IPPROTO_IPV6, IPV6_TCLASS)) told.traffic_class = static_cast<uint8_t>(value_of<int>(*message));
    if (is(*message, SOL_UDP, UDP_GRO)) told.segment_bytes = static_cast<uint32_t>(value_of<int>(*message));
  }
  return told;
}

void read_name(const sockaddr_storage& name, InDatagram& out) {
  if (name.ss_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &name, sizeof v4);
    out.src = IpAddress::v4(ntohl(v4.sin_addr.s_addr));
    out.src_port = ntohs(v4.sin_port);
    return;
  }
  sockaddr_in6 v6;
  std::memcpy(&v6, &name, sizeof v6);
  std::memcpy(out.src.bytes.data(), &v6.sin6_addr, 16);
  out.src_port = ntohs(v6.sin6_port);
}

}  // namespace

Inbox::Inbox() : bytes_(new uint8_t[size_t{kMessages} * kMessageBytes]) {
  for (uint32_t i = 0; i < kMessages; i++) offer(i);
}

/// Makes a message ready to be received into.
void Inbox::offer(uint32_t index) {
  pieces_[index] = {&bytes_[size_t{index} * kMessageBytes], kMessageBytes};
  msghdr& header = headers_[index].msg_hdr;
  header = {};
  header.msg_name = &names_[index];
  header.msg_namelen = sizeof names_[index];
  header.msg_iov = &pieces_[index];
  header.msg_iovlen = 1;
  header.msg_control = controls_[index].bytes;
  header.msg_controllen = sizeof controls_[index].bytes;
}

bool Inbox::read(const AddressSockets& from) {
  for (uint32_t i = 0; i < count_; i++) offer(i);
  const int count = recvmmsg(from.receiver.get(), headers_.data(), kMessages, MSG_DONTWAIT, nullptr);
  count_ = count > 0 ? static_cast<uint32_t>(count) : 0;
  messages_ += count_;
  at_ = 0;
  opened_ = false;
  datagram_.dst = from.ip;
  return count_ != 0;
}

void Inbox::open_message() {
  opened_ = true;
  taken_bytes_ = 0;
  const Told told = read_control(headers_[at_].msg_hdr);
  segment_bytes_ = told.segment_bytes == 0 ? headers_[at_].msg_len : told.segment_bytes;
  datagram_.traffic_class = told.traffic_class;
  datagram_.hop_limit = told.hop_limit;
  read_name(names_[at_], datagram_);
}

bool Inbox::next(InDatagram& out) {
  while (at_ < count_) {
    if (!opened_) open_message();
    const uint32_t bytes = headers_[at_].msg_len;
    if (taken_bytes_ < bytes) {
      out = datagram_;
      out.payload = &bytes_[size_t{at_} * kMessageBytes + taken_bytes_];
      out.payload_bytes = std::min(segment_bytes_, bytes - taken_bytes_);
      taken_bytes_ += out.payload_bytes;
      return true;
    }
    at_++;
    opened_ = false;
  }
  return false;
}

}  // namespace uroce::udp
