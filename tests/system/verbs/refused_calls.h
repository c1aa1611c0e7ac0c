// Calls of the kernel that are refused on request, whoever in the program makes them: a second process looks at each
// one (seccomp's user notifications), and gives the errno of what is missing in place of an answer.
#pragma once

#include <functional>
#include <string>

#include "trouble.h"

namespace verbs_test {

/// Runs `program` in a process whose calls are watched, and returns its result; 77, with a line of output, when the
/// machine cannot do that.
int run_supervised(int (*program)(int argc, char** argv), int argc, char** argv);

/// Something that happens, in place of a refusal, before a call that names a file in `directory` or below, or one by a
/// relative name. The call is carried out then.
struct BeforeNames {
  std::string directory;
  std::function<void()> happens;
  bool only_letters = false;  // of these calls only those that send to a socket
};
/// The same with RefusedCalls of kind kNames.
int run_supervised(int (*program)(int argc, char** argv), int argc, char** argv, const BeforeNames& before);

/// For the program that `run_supervised` runs.
class RefusedCalls final : public Trouble {
 public:
  enum Kind {
    kDescriptors,  // makes a descriptor: EMFILE
    kDisk,         // makes a name, or writes to a file: ENOSPC
    kTables,       // locks of files, watches, pinned memory: the kernel's own tables are full
    kKinds,
    kNames = kKinds,  // none: see BeforeNames
  };
  explicit RefusedCalls(Kind kind) : kind_(kind) {}

  void begin(long nth, Mode mode) override;
  void end() override;
  bool failed() const override;
  bool fits(int error) const override;
  std::string what() const override;

 private:
  Kind kind_;
};

}  // namespace verbs_test
