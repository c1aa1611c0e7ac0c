// Messages of netlink, as they are put together.
#pragma once

#include <linux/netlink.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace uroce::verbs {

inline constexpr size_t kPage = 4096;  // programs read with room for a page, as a kernel's messages have it
inline constexpr uint32_t kPortIndex = 1;

/// A message under construction.
class Message {
 public:
  Message(const nlmsghdr& request, uint32_t port, uint16_t type, uint16_t flags) {
    nlmsghdr header{};
    header.nlmsg_type = type;
    header.nlmsg_flags = flags;
    header.nlmsg_seq = request.nlmsg_seq;
    header.nlmsg_pid = port;
    append(&header, sizeof header);
  }
  void append(const void* data, size_t bytes) {
    bytes_.append(static_cast<const char*>(data), bytes);
    bytes_.resize(NLMSG_ALIGN(bytes_.size()));
  }
  void put(uint16_t type, const void* data, size_t bytes) {
    const nlattr header{static_cast<uint16_t>(NLA_HDRLEN + bytes), type};
    append(&header, sizeof header);
    append(data, bytes);
  }
  template <typename Number>
  void put_number(uint16_t type, Number value) {
    put(type, &value, sizeof value);
  }
  void put_text(uint16_t type, const char* text) { put(type, text, std::strlen(text) + 1); }
  size_t begin(uint16_t type) {
    const size_t at = bytes_.size();
    put(type, "", 0);
    return at;
  }
  void end(size_t at) {
    const auto length = static_cast<uint16_t>(bytes_.size() - at);
    std::memcpy(bytes_.data() + at, &length, sizeof length);
  }
  size_t size() const { return bytes_.size(); }
  void cut(size_t size) { bytes_.resize(size); }
  const std::string& finish() {
    const auto length = static_cast<uint32_t>(bytes_.size());
    std::memcpy(bytes_.data(), &length, sizeof length);
    return bytes_;
  }

 private:
  std::string bytes_;
};

}  // namespace uroce::verbs
