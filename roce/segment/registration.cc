#include "segment/registration.h"

#include "base/no_cancel.h"

namespace uroce::segment {

bool Registration::is_whole(const Mailbox& mailbox) const {
  return directory_.is_there() && membership_.is_there() && mailbox.is_there() && claims_.is_there() &&
         services_.is_there();
}

bool Registration::make_whole(Mailbox& mailbox, std::string& error) {
  if (!directory_.is_there() && !directory_.make_again(error)) return false;
  // Claims first: once the record is there, others count on this member. The mailbox comes last: until it is there, the
  // others try again.
  if (!claims_.is_there() && !claims_.open_again(record().blocks, error)) return false;
  if (!services_.is_there() && !services_.open_again(error)) return false;
  if (!membership_.is_there() && !membership_.join_again(error)) return false;
  return mailbox.is_there() || mailbox.open_again(error);
}

std::string Registration::look_after_directory(Mailbox& mailbox, Instant now) {
  if (now < next_look_) return "";
  const NoCancel with_descriptors;
  next_look_ = now + kLookAgain;
  const bool barred = directory_.barred();
  std::string ignored;
  // The record is open, so it can be written. Without room for that it is tried again (`tell_again`).
  if (barred != record().shut) update([&](MemberRecord& own) { own.shut = barred; }, ignored);
  if (barred) return std::exchange(said_barred_, true) ? "" : Directory::kBarred;
  if (is_whole(mailbox)) return "";
  const std::string what = "the directory where programs meet, " + directory_.path() + ", was removed or emptied";
  std::string error;
  if (make_whole(mailbox, error)) {
    torn_ = false;
    return what + ", and is made anew" + (error.empty() ? "" : ", but " + error);
  }
  if (std::exchange(torn_, true)) return "";
  return what + "; other programs will not find this one: " + error;
}

}  // namespace uroce::segment
