// The programs in traffic/ spell out what both buffers of an operation hold in hexadecimal digits, before and after
// each operation, and only then ask whether somebody wants to read it (--print_op_buffers). With 2 KiB that is nearly
// all of their time, and nobody does.
#pragma once

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#define StrJoin(...) StrCat()
