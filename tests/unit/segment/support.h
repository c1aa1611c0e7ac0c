// What tests of the segment need: a directory of their own, processes that are killed, frames.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "base/big_endian.h"
#include "segment/member_record.h"

namespace uroce::segment::test {

class TempDir {
 public:
  TempDir() {
    char name[] = "/tmp/uroce-segment-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  /// How many files have names that begin with this letter and '-'.
  unsigned count(char kind) const {
    unsigned found = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      const std::string name = entry.path().filename();
      found += name.size() > 1 && name[0] == kind && name[1] == '-' ? 1 : 0;
    }
    return found;
  }

 private:
  std::string path_;
};

/// Runs `f` in a child, which is killed afterwards: nothing is cleaned up.
inline void in_killed_child(const std::function<void()>& f) {
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    f();
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFSIGNALED(status));
}

inline MacAddress mac_of(uint8_t last) { return {{0x02, 0x75, 0, 0, 0, last}}; }

inline MemberRecord record_of(const std::string& host, uint8_t last) {
  MemberRecord record;
  record.host = host;
  record.mac = mac_of(last);
  record.addresses = {*parse_local_address("10.0.0." + std::to_string(last) + "/24")};
  record.pid = getpid();
  record.program = "test";
  return record;
}

inline MemberRecord with_role(MemberRecord record, Role role) {
  record.role = role;
  return record;
}

/// A RoCEv2 frame for queue pair `qpn` of `mac`, as far as a segment reads it. The other bytes count up from `seed`.
inline std::vector<uint8_t> roce_frame(const MacAddress& mac, uint32_t qpn, size_t bytes, uint8_t seed = 0) {
  std::vector<uint8_t> frame(bytes);
  for (size_t i = 0; i < bytes; i++) frame[i] = static_cast<uint8_t>(seed + i);
  std::copy(mac.bytes.begin(), mac.bytes.end(), frame.begin());
  store_be16(&frame[12], 0x0800);
  frame[14] = 0x45;
  frame[23] = 17;
  store_be16(&frame[36], 4791);
  store_be32(&frame[46], qpn);
  return frame;
}

/// A message of connection management to queue pair 1 of `mac`, as far as a segment reads it: its attribute, the ID
/// that its receiver drew (at byte 28; in a SIDR_REP the request's, at 24), and the requested service (at byte 32).
inline std::vector<uint8_t> cm_frame(const MacAddress& mac, uint16_t attribute, uint32_t id, uint64_t service_id = 0) {
  constexpr size_t kMad = 14 + 20 + 8 + 12 + 8;
  std::vector<uint8_t> frame = roce_frame(mac, 1, kMad + 256 + 4);
  std::fill(frame.begin() + kMad, frame.end(), uint8_t{0});
  frame[kMad + 1] = 0x07;
  store_be16(&frame[kMad + 16], attribute);
  store_be32(&frame[kMad + (attribute == 0x18 ? 24 : 28)], id);
  store_be64(&frame[kMad + 32], service_id);
  return frame;
}

}  // namespace uroce::segment::test
