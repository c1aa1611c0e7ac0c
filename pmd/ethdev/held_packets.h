// What a card has taken from a TX ring and not sent when the ring was stopped. It may read those buffers at any later
// moment, so they belong to the card until it completes them, in whatever life of the queue that is; never, if there is
// none.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

struct rte_mbuf;

namespace mqnic::ethdev {

struct Port;
struct TxQueue;

/// The packets, by interface and queue of the card, for the life of a CardDevice. Any thread may call it.
class HeldPackets {
 public:
  /// Keeps packets of one queue, in the order in which the card took them. `end` is the index behind the last one.
  void put(unsigned interface, uint32_t hw_queue, uint16_t end, std::vector<rte_mbuf*> packets);
  /// Hands a queue's packets to its next life, which begins at `begin`. If the card has forgotten them, returns none,
  /// and keeps their buffers here.
  std::vector<rte_mbuf*> take(unsigned interface, uint32_t hw_queue, uint16_t begin);
  size_t count() const;
  /// Whether the card has packets of this queue that it will complete.
  bool holds(unsigned interface, uint32_t hw_queue) const;
  /// Frees all packets: for when the card is about to end, or is gone, and so reads nothing any more.
  void give_back();
  /// The same for `count` queues from `first` on.
  void give_back(unsigned interface, uint32_t first, uint32_t count);
  /// Forgets the packets of these queues without ever freeing them: their pools may be gone by the time that it is
  /// safe. Returns how many buffers are lost.
  size_t abandon(unsigned interface, uint32_t first, uint32_t count);

 private:
  using Key = std::pair<unsigned, uint32_t>;
  struct Held {
    uint16_t end = 0;
    std::vector<rte_mbuf*> packets;
  };
  /// Removes and returns the packets of the queues from `first` to before `end`.
  std::vector<rte_mbuf*> remove(Key first, Key end);

  mutable std::mutex mutex_;
  std::map<Key, Held> by_queue_;
  std::map<Key, std::vector<rte_mbuf*>> forgotten_;
};

/// To be called when the rings of these queues are disabled, and their completion queues are not: lets the packets that
/// the card has taken from them leave, whatever the peer's pause frames say, and waits up to kStubbornMs for that.
void let_out(Port& port, const std::vector<TxQueue*>& queues);
/// Gives back the packets of a stopped queue, but for those that the card still has, which it leaves to the card's
/// HeldPackets.
void take_back(Port& port, TxQueue& queue);
/// Begins a queue's next life at the card's place in its ring, with the packets still in the card. 0 or negative errno.
int begin_where_card_is(Port& port, TxQueue& queue);

}  // namespace mqnic::ethdev
