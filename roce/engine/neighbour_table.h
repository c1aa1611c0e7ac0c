// Which neighbour has which MAC address, which claim to believe, and when to ask again. It knows nothing of the two
// protocols, ARP and neighbour discovery.
//
// The table has a fixed size. An address enters it because we want it, or because its owner asked for one of ours.
//
// Neither protocol authenticates senders, so a MAC in use changes only when its holder is gone. Whatever another host
// claims, the holder is asked first, at its own MAC; while it answers it keeps the address. When it is silent for 310
// ms, the question is broadcast, and the first host that answers has the address from then on. A MAC known only from a
// question to us is used meanwhile; it is verified when the address is wanted, and gives way to the first answer.
// Unsolicited announcements change nothing: they only make us ask.
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

/// How a frame came to name its sender's address, which decides how far it is believed.
enum class Heard : uint8_t {
  kAnswer,        // sent to us alone, as an answer is
  kQuestion,      // asks for an address of ours
  kAnnouncement,  // unsolicited
};

/// A host says that `ip` has `mac`.
struct NeighbourClaim {
  IpAddress ip;
  uint16_t vlan_id = 0;
  MacAddress mac;
  Heard how = Heard::kAnnouncement;
  const LocalAddress* asked = nullptr;  // which address of ours a question was for
};

/// A question for the MAC of `ip`, sent from `source`.
struct NeighbourQuestion {
  IpAddress ip;
  uint16_t vlan_id = 0;
  LocalAddress source;
  std::optional<MacAddress> holder;  // asked by unicast; without it the question is broadcast
};

bool is_unicast(const IpAddress& ip);

class NeighbourTable {
 public:
  static constexpr uint32_t kMax = 1024;
  static constexpr unsigned kAttempts = 13;       // for an address that is not known
  static constexpr unsigned kHolderAttempts = 5;  // to a holder, before the broadcast
  static constexpr unsigned kVerifyAttempts = 3;  // by broadcast, for an address that is known

  using Resolved = std::function<void(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac)>;

  /// `mac`: our own, which no other host has. `on_resolved` is called for every address that becomes known or changes
  /// its MAC.
  NeighbourTable(const MacAddress& mac, Counters& counters, NewsDesk& news, Resolved on_resolved);

  /// Whether the table has the address, wanted or heard of.
  bool has(const IpAddress& ip, uint16_t vlan_id) const { return find(ip, vlan_id) != nullptr; }
  /// Its MAC, if it is known.
  std::optional<MacAddress> lookup(const IpAddress& ip, uint16_t vlan_id) const;
  /// Whether the address has another holder than `mac` that is not known to be silent.
  bool has_another(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac, Instant now) const;

  /// Neighbours::set_static
  bool set_static(const IpAddress& ip, uint16_t vlan_id, const MacAddress& mac);
  /// Neighbours::want
  void want(const IpAddress& ip, const LocalAddress& source, Instant now);
  /// Neighbours::on_unresolved
  void want_again(const IpAddress& ip, const LocalAddress& source, Instant now);
  void hear(const NeighbourClaim& claim, Instant now);

  /// The next question that is due, which is asked now; nothing when there is none.
  std::optional<NeighbourQuestion> take_question(Instant now);
  /// When the next question may be due.
  Instant next_question() const { return next_due_; }

 private:
  struct Entry {
    IpAddress ip;
    uint16_t vlan_id = 0;
    bool known = false;
    bool answered = false;  // the MAC comes from an answer; otherwise it is unverified
    bool wanted = false;    // by us, not only heard of
    bool fixed = false;     // by set_static
    MacAddress mac;
    MacAddress claimant;  // another host that claims the address; zero: none since the holder answered
    LocalAddress source;
    unsigned questions = 0;  // of the round that is under way, or was the last
    Instant next_question = Instant::never();
    Instant last_question = {std::numeric_limits<int64_t>::min() / 2};

    unsigned questions_max() const;
    bool asks_holder() const { return known && answered && questions < kHolderAttempts; }
    bool everybody_was_asked(Instant now) const;
    /// A host answered: the round is over.
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
