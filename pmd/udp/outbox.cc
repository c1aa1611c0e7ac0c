#include "pmd/udp/outbox.h"

#include <netinet/udp.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "packet/headers.h"

namespace uroce::udp {
namespace {

constexpr uint32_t kSegmentsMost = 64;         // of a message: what every kernel takes
constexpr uint32_t kMessageBytesMost = 65000;  // with headers it is a datagram of IP

template <typename T>
void add_control(msghdr& header, int level, int type, T value) {
  auto* const at = static_cast<uint8_t*>(header.msg_control) + header.msg_controllen;
  cmsghdr head{};
  head.cmsg_len = CMSG_LEN(sizeof value);
  head.cmsg_level = level;
  head.cmsg_type = type;
  std::memset(at, 0, CMSG_SPACE(sizeof value));
  std::memcpy(at, &head, sizeof head);
  std::memcpy(at + CMSG_LEN(0), &value, sizeof value);
  header.msg_controllen += CMSG_SPACE(sizeof value);
}

/// The one that the packet names: it was here before, and waited for room. Else one that its flow always gets.
const Source& source_of(const OutFrame& frame, const AddressSockets& from) {
  for (const Source& source : from.sources) {
    if (source.port == frame.src_port) return source;
  }
  return from.sources[frame.src_port % kSourcePorts];
}

/// What the kernel says of a message that it cannot cut: its device cannot, or a packet is too long.
bool cannot_cut(int code) { return code == EINVAL || code == EIO || code == EMSGSIZE; }

}  // namespace

void Outbox::begin(uint32_t scope) {
  scope_ = scope;
  frame_count_ = message_count_ = piece_count_ = left_count_ = 0;
}

/// The last message on the frame's way, if the frame can follow in it.
Outbox::Message* Outbox::find_open(const OutFrame& frame, const Source& source) {
  for (uint32_t i = message_count_; i-- != 0;) {
    Message& message = messages_[i];
    if (message.source != &source || message.dst != frame.dst) continue;
    const OutFrame& first = entries_[message.first].frame;
    const bool fits = segments_ && !message.closed && message.count < kSegmentsMost &&
                      frame.payload_bytes <= first.payload_bytes &&
                      message.bytes + frame.payload_bytes <= kMessageBytesMost &&
                      frame.traffic_class == first.traffic_class && frame.hop_limit == first.hop_limit;
    return fits ? &message : nullptr;
  }
  return nullptr;
}

void Outbox::add(const OutFrame& frame, uint32_t tag, const AddressSockets& from) {
  ensure(frame_count_ < kFramesMost, "a burst has no more frames than there is room for");
  const Source& source = source_of(frame, from);
  const uint32_t index = frame_count_++;
  entries_[index] = {frame, tag, 0};
  Message* message = find_open(frame, source);
  if (message == nullptr) {
    message = &messages_[message_count_++];
    *message = {&source, frame.dst, index, index, 0, 0, false};
  } else {
    entries_[message->last].next = index;
    message->last = index;
  }
  message->count++;
  message->bytes += frame.payload_bytes;
  message->closed = frame.payload_bytes < entries_[message->first].frame.payload_bytes;
}

void Outbox::fill_control(const Message& message, msghdr& header, Control& control) const {
  const OutFrame& first = entries_[message.first].frame;
  header.msg_control = control.bytes;
  header.msg_controllen = 0;
  if (message.count > 1) add_control(header, SOL_UDP, UDP_SEGMENT, static_cast<uint16_t>(first.payload_bytes));
  if (first.traffic_class != 0) {
    add_control(header, first.ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, first.ipv6 ? IPV6_TCLASS : IP_TOS,
                static_cast<int>(first.traffic_class));
  }
  if (first.hop_limit != kUsualHopLimit && first.hop_limit != 0) {
    add_control(header, first.ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, first.ipv6 ? IPV6_HOPLIMIT : IP_TTL,
                static_cast<int>(first.hop_limit));
  }
  if (header.msg_controllen == 0) header.msg_control = nullptr;
}

/// The kernel counts identifications up from 0 within a message.
void Outbox::prepare(uint32_t index) {
  Message& message = messages_[index];
  mmsghdr& header = headers_[index];
  header = {};
  header.msg_hdr.msg_name = &names_[index];
  header.msg_hdr.msg_namelen = to_sockaddr(message.dst, kRoceUdpPort, scope_, names_[index]);
  header.msg_hdr.msg_iov = &pieces_[piece_count_];
  header.msg_hdr.msg_iovlen = message.count;
  uint32_t at = message.first;
  for (uint32_t i = 0; i < message.count; i++, at = entries_[at].next) {
    OutFrame& frame = entries_[at].frame;
    set_sent_fields(frame, static_cast<uint16_t>(i), message.source->port);
    pieces_[piece_count_++] = {frame.payload, frame.payload_bytes};
  }
  fill_control(message, header.msg_hdr, controls_[index]);
}

void Outbox::flush() {
  for (uint32_t i = 0; i < message_count_; i++) prepare(i);
  for (uint32_t at = 0; at < message_count_;) {
    if (send_from(at)) continue;
    counters_.tx_waits++;
    keep(at);
    return;
  }
}

/// Sends messages of one socket. False when the socket has no room for the one that is next.
bool Outbox::send_from(uint32_t& at) {
  const int fd = messages_[at].source->fd.get();
  uint32_t end = at + 1;
  while (end < message_count_ && messages_[end].source->fd.get() == fd) end++;
  const int sent = sendmmsg(fd, &headers_[at], end - at, MSG_DONTWAIT);
  if (sent > 0) {
    for (int i = 0; i < sent; i++) note_sent(messages_[at++]);
    return true;
  }
  const int code = errno;
  if (code == EINTR) return true;
  if (code == EAGAIN) return false;
  Message& message = messages_[at];
  if (message.count > 1 && cannot_cut(code)) {
    segments_ = segments_ && code != EIO;
    if (!send_singly(message)) return false;
  } else {
    drop(message, code);
  }
  at++;
  return true;
}

/// False when the socket has no room; what is left of the message is then in it.
bool Outbox::send_singly(Message& message) {
  for (; message.count != 0; message.count--, message.first = entries_[message.first].next) {
    set_sent_fields(entries_[message.first].frame, 0, message.source->port);
    if (send_one(message, message.first)) continue;
    if (errno == EAGAIN) return false;
    drop_entry(entries_[message.first], errno);
  }
  return true;
}

bool Outbox::send_one(const Message& message, uint32_t entry) {
  const OutFrame& frame = entries_[entry].frame;
  sockaddr_storage name;
  Control control;
  iovec piece = {frame.payload, frame.payload_bytes};
  msghdr header{};
  header.msg_name = &name;
  header.msg_namelen = to_sockaddr(message.dst, kRoceUdpPort, scope_, name);
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  Message single = message;
  single.first = entry;
  single.count = 1;
  single.bytes = frame.payload_bytes;
  fill_control(single, header, control);
  ssize_t sent;
  do {
    sent = sendmsg(message.source->fd.get(), &header, MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return false;
  note_sent(single);
  return true;
}

void Outbox::note_sent(const Message& message) {
  counters_.tx_messages++;
  counters_.tx_packets += message.count;
  counters_.tx_bytes += message.bytes + uint64_t{message.count} * frame_header_bytes(message.dst);
}

void Outbox::drop(const Message& message, int code) {
  uint32_t at = message.first;
  for (uint32_t i = 0; i < message.count; i++, at = entries_[at].next) drop_entry(entries_[at], code);
}

void Outbox::drop_entry(const Entry& entry, int code) {
  (code == EMSGSIZE ? counters_.tx_too_long : counters_.tx_unreachable)++;
  complain_(entry.frame, code);
}

/// Messages are not in the order of their frames: what is left is.
void Outbox::keep(uint32_t at) {
  std::array<bool, kFramesMost> waits{};
  for (; at < message_count_; at++) {
    uint32_t entry = messages_[at].first;
    for (uint32_t i = 0; i < messages_[at].count; i++, entry = entries_[entry].next) waits[entry] = true;
  }
  for (uint32_t i = 0; i < frame_count_; i++) {
    if (waits[i]) left_[left_count_++] = entries_[i].tag;
  }
}

}  // namespace uroce::udp
