// The kernel's calls that go by the name of a file.
#pragma once

#include <linux/seccomp.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace verbs_test {

std::vector<int> numbers_of_named_calls();
/// What the call is called.
std::string name_of_named_call(int number);

/// The name that a thread of another process gives in this call, also through a descriptor that /proc shows; "" when
/// the call goes by none.
std::string name_in_call(pid_t thread, const seccomp_data& call);

}  // namespace verbs_test
