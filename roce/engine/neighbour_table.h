// Who has which MAC address, whom to believe, and when to ask again. Of the two protocols that ask, ARP and neighbour
// discovery, it knows nothing.
//
// The table has a fixed size. An address enters it because we want it, or because its owner asked for one of ours.
//
// Neither protocol proves who speaks, so what is in use changes only when its holder is gone. Whatever another host
// claims, the holder is asked first, at its own MAC; while it answers it keeps the address. When it is silent for
// 310 ms, everybody is asked, and the first who answers has the address from then on. A MAC that was only heard of, in
// a question to us, is used meanwhile; it is asked for when we want it, and gives way to whoever answers. Announcements
// that nobody asked for change nothing: they only make us ask.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "engine/neighbour_news.h"
#include "transport/counters.h"
#include "uroce/address.h"
#include "uroce/time.h"

namespace uroce {

/// What a frame says of its sender's address, and why we believe that much of it.
enum class Heard : uint8_t {
  kAnswer,        // sent to us alone, as an answer is
  kQuestion,      // asks for an address of ours
  kAnnouncement,  // to whom it may concern
};

/// Somebody says that `ip` has `mac`.
struct NeighbourClaim {
  IpAddress ip;
  uint16_t vlan_id = 0;
  MacAddress mac;
  Heard how = Heard::kAnnouncement;
  const LocalAddress* asked = nullptr;  // which address of ours a question was for
};

/// Who has `ip`? We ask from `source`.
struct NeighbourQuestion {
  IpAddress ip;
  uint16_t vlan_id = 0;
  LocalAddress source;
  std::optional<MacAddress> holder;  // asked alone; otherwise everybody is
};

bool is_unicast(const IpAddress& ip);

class NeighbourTable {
 public:
  static constexpr uint32_t kMax = 1024;
  static constexpr unsigned kAttempts = 13;       // for an address that is not known
  static constexpr unsigned kHolderAttempts = 5;  // to a holder, before everybody is asked
  static constexpr unsigned kVerifyAttempts = 3;  // to everybody, for an address that is known

  using Resolved = std::function<void(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac)>;

  /// `mac`: our own, which nobody else has. `on_resolved` is called for every address that becomes known or changes its
  /// MAC.
  NeighbourTable(const MacAddress& mac, Counters& counters, NewsDesk& news, Resolved on_resolved);

  /// The address is wanted, or was heard of.
  bool has(const IpAddress& ip, uint16_t vlan_id) const { return find(ip, vlan_id) != nullptr; }
  /// Its MAC, if it is known.
  std::optional<MacAddress> lookup(const IpAddress& ip, uint16_t vlan_id) const;
  /// Another holder than `mac`, of whom we do not know that it is silent.
  bool has_another(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac, Instant now) const;

  /// Neighbours::set_static
  bool set_static(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac);
  /// Neighbours::want
  void want(const IpAddress& ip, const LocalAddress& source, Instant now);
  void hear(const NeighbourClaim& claim, Instant now);

  /// The next question that is due, which is asked now; nothing when there is none.
  std::optional<NeighbourQuestion> take_question(Instant now);
  /// When there may be one.
  Instant next_question() const { return next_due_; }

 private:
  struct Entry {
    IpAddress ip;
    uint16_t vlan_id = 0;
    bool known = false;
    bool answered = false;  // the MAC is that of an answer; otherwise hearsay
    bool wanted = false;    // by us, not only heard of
    bool fixed = false;     // by set_static
    MacAddress mac;
    MacAddress claimant;  // another host that says it has the address; zero: none since the holder spoke
    LocalAddress source;
    unsigned questions = 0;  // of the round that is under way, or was the last
    Instant next_question = Instant::never();
    Instant last_question = {std::numeric_limits<int64_t>::min() / 2};

    unsigned questions_max() const;
    bool asks_holder() const { return known && answered && questions < kHolderAttempts; }
    bool everybody_was_asked(Instant now) const;
    /// Somebody answered: the round is over.
    void settle() {
      questions = 0;
      next_question = Instant::never();
    }
  };

  Entry* find(const IpAddress& ip, uint16_t vlan_id);
  const Entry* find(const IpAddress& ip, uint16_t vlan_id) const;
  Entry* insert(const IpAddress& ip, uint16_t vlan_id);
  void set_mac(Entry& entry, const MacAddress& mac);
  void on_first(Entry& entry, const MacAddress& mac, Heard how, Instant now);
  void on_holder(Entry& entry, Heard how, Instant now);
  void on_other(Entry& entry, const MacAddress& mac, Heard how, Instant now);
  void tell(NeighbourNews::Kind kind, const Entry& entry, const MacAddress& claimant, Instant now);
  void verify(Entry& entry, Instant now, Duration interval);
  void ask_soon(Entry& entry, Instant now);
  void schedule_next(Entry& entry, Instant now);
  void update_next_due();

  const MacAddress mac_;
  Counters& counters_;
  NewsDesk& news_;
  Resolved on_resolved_;
  std::vector<Entry> entries_;  // capacity kMax, never reallocated
  Instant next_due_ = Instant::never();
};

}  // namespace uroce
