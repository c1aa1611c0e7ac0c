// The objects of programs in messages of RDMA netlink: queue pairs, regions and so on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "host_objects.h"
#include "nldev_message.h"

namespace uroce::verbs {

/// A command that gets objects of a kind.
struct ObjectCommand {
  int op;
  ObjectKind kind;
  int number_attribute;  // which names one of them
  bool of_port;          // asked for by port, else by device
  uint16_t table;
  uint16_t entry;
};
/// nullptr: the command gets none.
const ObjectCommand* object_command(int op);

/// Queue pairs of each shared receive queue, by the queue's number.
using QpsOfSrqs = std::unordered_map<uint64_t, std::vector<uint32_t>>;

/// A list of all of a kind, which takes several messages.
class ObjectEntries {
 public:
  ObjectEntries(ObjectKind kind, HostObjects& objects);

  bool done() const { return program_ == all_.size(); }
  /// Puts as many as fit into the message, at least one.
  void fill(Message& message);

 private:
  const ObjectCommand& command_;
  const size_t row_words_;
  std::vector<ProgramObjects> all_;
  QpsOfSrqs qps_of_srqs_;
  size_t program_ = 0;
  size_t at_ = 0;  // word of that program
};

/// False: there is none with this number.
bool put_object_with_number(Message& message, ObjectKind kind, uint32_t number, HostObjects& objects);

/// How many there are of each kind.
void put_object_counts(Message& message, HostObjects* objects);

}  // namespace uroce::verbs
