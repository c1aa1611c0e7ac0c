// The programs in traffic/ spell out what both buffers of an operation hold in hexadecimal digits, before and after
// each operation, and only then ask whether that is to be printed (--print_op_buffers). With 2 KiB it takes nearly all
// of their time, and here it is never printed.
#pragma once

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#define StrJoin(...) StrCat()
