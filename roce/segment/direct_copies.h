// Copies between this member's memory and that of its peers, without frames (base/direct_copy.h).
//
// Who a peer's process is, the kernel says: with the letter in which the peer introduced itself. It has to be a process
// of the same user, and have the proof that the member shows in its table; that is looked at before the first copy, and
// again when a millisecond has passed, since a process may end, or execute another program. A peer whose process cannot
// be reached is not tried again; the log says so once.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "segment/direct_memory.h"
#include "segment/peers.h"

namespace uroce::segment {

class DirectCopies final : public DirectCopy {
 public:
  static constexpr Duration kProofLasts = milliseconds(1);

  /// As DirectMemory. `tell` gets a line about each peer.
  DirectCopies(DirectTable& table, Peers& peers, const std::function<void(const std::string&)>& tell)
      : memory_(table, peers, tell), peers_(peers), peer_(tell) {}

  /// Lets other processes of the user reach this one, where the kernel asks for that (Yama), and shows that we are
  /// here.
  void open();
  ~DirectCopies() override;
  /// Now and then: lets peers in, and tries the way to those that are new.
  void look_after();
  void expel(Peer& peer) { memory_.expel(peer); }

  DirectPeer* find(const MacAddress& mac, uint32_t qpn) override;
  void show(const ShownRegion& region) override { memory_.show(region); }
  void hide_region(uint32_t key) override { memory_.hide_region(key); }
  std::atomic<uint32_t>* show(const ShownQueuePair& qp) override { return memory_.show(qp); }
  void hide_queue_pair(uint32_t qpn) override { memory_.hide_queue_pair(qpn); }
  void pause(bool paused) override;

 private:
  /// The peer that `find` found last.
  class Found final : public DirectPeer {
   public:
    explicit Found(const std::function<void(const std::string&)>& tell) : tell_(tell) {}
    void set(Lane& lane) { lane_ = &lane; }
    void try_way();
    bool shows(uint32_t qpn, uint32_t key) const override;
    bool begin(uint32_t qpn, uint32_t key, ShownTarget& target, Instant now) override;
    void end() override;
    bool write(uint64_t to, std::span<const DirectPiece> from, bool ends) override;
    bool read(uint64_t from, std::span<const DirectPiece> to) override;

   private:
    bool prove();
    bool still_there(Instant now);

    const std::function<void(const std::string&)> tell_;
    Lane* lane_ = nullptr;
  };

  DirectMemory memory_;
  Peers& peers_;
  Found peer_;
  bool paused_ = true;     // until it is open
  bool consents_ = false;  // to what Yama asks
};

}  // namespace uroce::segment
