// Blocks of a host's queue pair numbers: each belongs to one member, as long as the member lives.
#pragma once

#include <optional>

#include "base/random.h"
#include "segment/directory.h"

namespace uroce::segment {

class BlockClaims {
 public:
  BlockClaims() = default;
  ~BlockClaims() { forget(); }
  BlockClaims(const BlockClaims&) = delete;
  BlockClaims& operator=(const BlockClaims&) = delete;

  /// For the host with this MAC. `directory` outlives the claims. Returns false, with one line in `error`, when the
  /// host's file cannot be had.
  bool open(Directory& directory, const MacAddress& mac, std::string& error);
  /// A block that no member has, or had a short time ago. It is this process's until the claims are gone. Nothing when
  /// there is none.
  std::optional<uint32_t> take(RandomSource& random);
  /// When the file was removed: makes it anew, with these blocks, which are this process's. Blocks that others took
  /// meanwhile are theirs, too. Returns false, with one line in `error`, when that fails.
  bool open_again(const std::vector<uint32_t>& own, std::string& error);
  bool is_there() const;
  /// Gives back a block that no other member was told of.
  void give_back(uint32_t block);
  /// Also for the child of a fork: what the parent claimed stays the parent's.
  void forget();

 private:
  Directory* directory_ = nullptr;
  MacAddress mac_;
  int fd_ = -1;
};

}  // namespace uroce::segment
