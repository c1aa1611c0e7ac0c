// Connections in the order of a key: of timers, of the beginnings of their rest, of the queue pairs that wait.
#pragma once

#include <cstddef>
#include <iterator>
#include <map>
#include <utility>

namespace uroce::cm {

struct Connection;

/// The memory for a place is allocated with the connection. So a state changes as a whole, and a connection can end
/// when memory has run out.
template <typename Key>
class ConnectionOrder {
  using Map = std::multimap<Key, Connection*>;

 public:
  class Place {
   public:
    Place() {
      Map one;
      at_ = one.emplace(Key{}, nullptr);
      node_ = one.extract(at_);
    }

   private:
    friend class ConnectionOrder;
    typename Map::node_type node_;  // empty while it is taken
    typename Map::iterator at_;
  };

  /// Enters it behind the connections with the same key.
  void enter(Place& place, Key key, Connection& connection) noexcept {
    leave(place);
    place.node_.key() = key;
    place.node_.mapped() = &connection;
    place.at_ = map_.insert(std::move(place.node_));
  }
  void leave(Place& place) noexcept {
    if (place.node_.empty()) place.node_ = map_.extract(place.at_);
  }

  bool empty() const { return map_.empty(); }
  size_t size() const { return map_.size(); }
  Key first_key() const { return map_.begin()->first; }
  Connection* first() const { return map_.begin()->second; }
  /// The last one that was entered with this key; nullptr: none.
  Connection* last_of(Key key) const {
    const auto behind = map_.upper_bound(key);
    if (behind == map_.begin()) return nullptr;
    const auto& [last_key, last] = *std::prev(behind);
    return last_key == key ? last : nullptr;
  }

 private:
  Map map_;
};

}  // namespace uroce::cm
