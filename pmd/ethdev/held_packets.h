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

/// By interface and queue of the card, for the life of a CardDevice. Any thread.
class HeldPackets {
 public:
  /// Those of one queue, in the order in which the card took them. `end` is the index behind the last one.
  void put(unsigned interface, uint32_t hw_queue, uint16_t end, std::vector<rte_mbuf*> packets);
  /// Gives them to the queue's next life, which begins at `begin`. None, when the card has forgotten them: then they
  /// stay here.
  std::vector<rte_mbuf*> take(unsigned interface, uint32_t hw_queue, uint16_t begin);
  size_t count() const;
  /// Whether the card has packets of this queue, which it will complete.
  bool holds(unsigned interface, uint32_t hw_queue) const;
  /// When the card is about to end, or is gone: it reads nothing any more.
  void give_back();
  /// The same for the queues from `first` on, `count` of them.
  void give_back(unsigned interface, uint32_t first, uint32_t count);
  /// Of these queues nothing is ever given back: their pools may be gone by the time that this could be done. Returns
  /// how many buffers stay taken.
  size_t abandon(unsigned interface, uint32_t first, uint32_t count);

 private:
  using Key = std::pair<unsigned, uint32_t>;
  struct Held {
    uint16_t end = 0;
    std::vector<rte_mbuf*> packets;
  };
  /// Those of the queues from `first` to before `end`, which leave.
  std::vector<rte_mbuf*> remove(Key first, Key end);

  mutable std::mutex mutex_;
  std::map<Key, Held> by_queue_;
  std::map<Key, std::vector<rte_mbuf*>> forgotten_;
};

/// To be called when the rings of these queues are disabled, and their completion queues are not: lets what the card
/// has taken from them leave, whatever the peer's pause frames say, and waits for it, for as long as kStubbornMs.
void let_out(Port& port, const std::vector<TxQueue*>& queues);
/// Gives back the packets of a stopped queue, but for those that the card still has, which it leaves to the card's
/// HeldPackets.
void take_back(Port& port, TxQueue& queue);
/// Begins the next life of a queue where the card is in its ring, with what it holds. 0 or a negative errno.
int begin_where_card_is(Port& port, TxQueue& queue);

}  // namespace mqnic::ethdev
