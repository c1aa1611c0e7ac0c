// The lcore id of an endpoint. Threads have it while they own the engine of that endpoint; no other endpoint has the
// same id.
//
// The first endpoint uses an id that exists anyway: that of the DPDK application's thread that opens it, or of EAL's
// main lcore, whose thread became an ordinary one (eal.cc). For every further endpoint DPDK is asked for another id, as
// if for a thread that the application registers.
#pragma once

#include <string>

namespace uroce {

class LcoreLease {
 public:
  LcoreLease() = default;
  ~LcoreLease() { give_back(); }
  LcoreLease(const LcoreLease&) = delete;
  LcoreLease& operator=(const LcoreLease&) = delete;

  /// Takes `preferred`, or another id when another endpoint of this process has that one. Needs EAL. Returns false,
  /// with one line in `error`, when DPDK has no id left.
  bool take(unsigned preferred, std::string& error);
  unsigned id() const { return id_; }
  void give_back();
  /// To be called in the child of a fork: the id still belongs to the parent.
  void abandon() { held_ = Held::kNothing; }

 private:
  enum class Held : unsigned char { kNothing, kPreferred, kRegistered };

  unsigned id_ = 0;
  Held held_ = Held::kNothing;
};

}  // namespace uroce
