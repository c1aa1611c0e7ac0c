// A thread that must not be cancelled (pthread_cancel) here: in the middle of a turn of the engine, or with descriptors
// that no other code knows. The functions of libc that make system calls are cancellation points.
#pragma once

#include <pthread.h>

namespace uroce {

class NoCancel {
 public:
  NoCancel() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancel() { pthread_setcancelstate(before_, nullptr); }
  NoCancel(const NoCancel&) = delete;
  NoCancel& operator=(const NoCancel&) = delete;

 private:
  int before_ = 0;
};

}  // namespace uroce
