// What the library's shared object exports: everything that is marked with UROCE_API, and nothing else.
#pragma once

#define UROCE_API __attribute__((visibility("default")))
