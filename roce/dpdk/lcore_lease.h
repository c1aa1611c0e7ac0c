// The lcore id of an endpoint: what threads carry while they own its engine, and no other endpoint has.
//
// The first endpoint has the id that is there anyway: the one of the DPDK application's thread that opens it, or EAL's
// main lcore, whose thread we have made one like any other. For every further one DPDK is asked for an id of its own,
// as for a thread that the application has registered.
#pragma once

#include <string>

namespace uroce {

class LcoreLease {
 public:
  LcoreLease() = default;
  ~LcoreLease() { give_back(); }
  LcoreLease(const LcoreLease&) = delete;
  LcoreLease& operator=(const LcoreLease&) = delete;

  /// `preferred`, unless another endpoint of this process has it. Needs EAL. False and one line in `error` when DPDK
  /// has no id left.
  bool take(unsigned preferred, std::string& error);
  unsigned id() const { return id_; }
  void give_back();
  /// In the child of a fork: the id stays the parent's.
  void abandon() { held_ = Held::kNothing; }

 private:
  enum class Held : unsigned char { kNothing, kPreferred, kRegistered };

  unsigned id_ = 0;
  Held held_ = Held::kNothing;
};

}  // namespace uroce
