// What goes wrong while a test sweeps (sweep.h): the n-th of a program's requests, or that and all behind it.
#pragma once

#include <string>

namespace verbs_test {

class Trouble {
 public:
  enum Mode { kOnce, kFromThenOn };

  virtual ~Trouble() = default;
  /// From now on the requests of all threads are counted. The first one is number 1; 0: all succeed.
  virtual void begin(long nth, Mode mode) = 0;
  /// From now on no request fails.
  virtual void end() = 0;
  /// Whether there were as many requests.
  virtual bool failed() const = 0;
  /// Whether this errno fits the requests that failed.
  virtual bool fits(int error) const = 0;
  /// The requests that failed, in words.
  virtual std::string what() const = 0;
};

}  // namespace verbs_test
