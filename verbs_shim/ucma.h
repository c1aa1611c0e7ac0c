// What is behind the descriptors of rdma_cm_device.h: channels, the ids in them, and the events that wait.
//
// Locks, in the order in which they are taken: `command_mutex` (one command at a time; ids end only under it), the
// EngineLock (everything that is asked of roce/cm), `mutex` (tables and queues). Events arrive under the EngineLock, in
// the turn of any thread.
#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "cm/rdma_cm.h"
#include "event_fd.h"
#include "ucma_queue.h"

namespace uroce::verbs {

struct UcmaFile;

struct UcmaMulticast {
  uint32_t number = 0;
  uint64_t uid = 0;
  UcmaId* id = nullptr;
  uint32_t events_reported = 0;
  UcmaPlaces places;
};

struct UcmaId {
  uint32_t number = 0;
  UcmaFile* file = nullptr;
  uint64_t uid = 0;      // how the program calls it; 0: a request that is not accepted yet, whose events go nowhere
  cm::Id* id = nullptr;  // null until the device is needed, see `bring_to_device`
  cm::PortSpace port_space{};
  QpType qp_type{};
  cm::SocketAddress bound_early;  // bound while there was no device
  uint32_t backlog_left = 0;      // of a listener: requests that may wait in the queue
  uint32_t events_reported = 0;
  UcmaPlaces places;
  UcmaId* next_going = nullptr;  // a list of ids that end together, which takes no memory
};

/// A channel: what one `open` made.
struct UcmaFile {
  int fd = -1;              // one of its descriptors; -1: all are closed
  uint32_t generation = 0;  // see fork_generation
  uint32_t descriptors = 0;
  uint32_t users = 0;  // commands under way
  uint32_t ids = 0;
  UcmaQueue queue;     // under Ucma's mutex
  EventSignal signal;  // of the events, at `fd`
};

class Ucma final : public cm::EventSink {
 public:
  static Ucma& get();
  /// To be called in the child of a fork: everything is the parent's.
  static void leave();

  bool on_cm_event(const cm::Event& event) override;
  /// An event that the program itself wrote: type, status and argument are what it says.
  void push_written(UcmaId& id, uint32_t type, uint32_t status, uint64_t argument);

  /// An id or multicast group of this file. Null: there is none (ENOENT in `error`), or it is another file's (EINVAL).
  UcmaId* find_id(const UcmaFile& file, uint32_t number, int& error);
  UcmaMulticast* find_multicast(const UcmaFile& file, uint32_t number, int& error);
  /// Adds an id with a number that is free.
  UcmaId& add_id(UcmaFile& file, cm::PortSpace port_space, QpType qp_type);
  UcmaMulticast& add_multicast(UcmaId& id, uint64_t uid);
  /// Ends the id, and what hangs on it. Returns how many of its events the program has taken.
  uint32_t destroy(UcmaId& id);
  uint32_t destroy(UcmaMulticast& multicast);
  void destroy_all_of(UcmaFile& file);
  /// From now on the id belongs to the other file, with the events that wait. Needs no memory. Returns how many were
  /// taken before.
  uint32_t migrate(UcmaId& id, UcmaFile& to);
  /// Takes the next event and writes it to the program's memory. 0, or the errno.
  int get_event(UcmaFile& file, uint64_t response, size_t room);

  std::mutex command_mutex;
  std::mutex mutex;

 private:
  UcmaId* any_of(const UcmaFile& file);
  bool queue_request(const cm::Event& event);
  /// Under the mutex. The places of the id's groups, too.
  template <typename Each>
  void each_places_of(UcmaId& id, Each each);
  static void settle_signal(UcmaFile& file, size_t before);
  static UcmaId* drop_events(UcmaFile& file, UcmaId* id, const UcmaMulticast* multicast);
  void wait_turn(const UcmaFile& file, bool blocks);
  void wait_on_shared(const UcmaFile& file, int fd);
  int take_event(UcmaFile& file, uint64_t response, size_t room);

  std::unordered_map<uint32_t, std::unique_ptr<UcmaId>> ids_;
  std::unordered_map<uint32_t, std::unique_ptr<UcmaMulticast>> multicasts_;
  uint32_t next_number_ = 0;
};

/// Executes the command with this number, which the program wrote with `in` bytes behind its header. 0 or an errno.
int run_ucma_command(UcmaFile& file, uint32_t command, const uint8_t* in, size_t in_bytes, size_t out_bytes);

/// False: the program cannot read, or not write, that memory.
bool copy_from_program(void* to, uint64_t from, size_t bytes);
bool copy_to_program(uint64_t to, const void* from, size_t bytes);

/// The file that `fd` stands for, kept until `release_file`; nullptr: none of ours.
UcmaFile* hold_file(int fd);
void release_file(UcmaFile* file);

}  // namespace uroce::verbs
