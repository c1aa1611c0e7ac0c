// XRC domains: which of them are open, and how many targets and shared receive queues are in each.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "uroce/types.h"

namespace uroce {

class XrcDomains {
 public:
  /// 0: too many are open.
  XrcdId open() {
    XrcdId domain = 1;
    while (domain < domains_.size() && domains_[domain].open) domain++;
    if (domain > kMax) return 0;
    if (domain >= domains_.size()) domains_.resize(domain + 1);
    domains_[domain].open = true;
    return domain;
  }
  /// False: it is in use, or not open.
  bool close(XrcdId domain) {
    if (domain >= domains_.size() || !domains_[domain].open || domains_[domain].users != 0) return false;
    domains_[domain].open = false;
    return true;
  }
  /// 0 is no domain, and is not counted.
  void hold(XrcdId domain) {
    if (domain != 0) at(domain).users++;
  }
  void release(XrcdId domain) {
    if (domain == 0) return;
    ensure(at(domain).users != 0, "who leaves an XRC domain was in it");
    at(domain).users--;
  }

  static constexpr uint32_t kMax = 4096;

 private:
  struct Domain {
    bool open = false;
    uint32_t users = 0;
  };
  Domain& at(XrcdId domain) {
    ensure(domain < domains_.size() && domains_[domain].open, "an XRC domain that is used is open");
    return domains_[domain];
  }

  std::vector<Domain> domains_;  // the first is not used
};

}  // namespace uroce
