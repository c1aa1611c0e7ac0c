#!/usr/bin/env python3
"""What rules.py edits, and what it leaves alone."""

import sys

import rules

SOURCE = r'''
// if (comment == 1) f(a, b);
#include "a < b"
uint32_t checked(const uint8_t* p, uint32_t n) {
  static_assert(sizeof n == 4);
  log_message(LogLevel::kInfo, "%u == %u", n, 7);
  std::array<uint8_t, 16> room{};
  if (p == nullptr || n < 12) return 0;
  for (uint32_t i = 0; i < n; i++) total_ += p[i];
  use(std::max(n, 3u), n);
  const uint32_t word = load_be32(p + 4);
  store_be16(out, static_cast<uint16_t>(word));
  list.reserve(n);
  while (!done()) {
    step("x, y", "z", word, n);
    if (n > 9) break;
  }
  switch (n) {
    case 5:
      return word;
    default:
      break;
  }
  return n;
}
'''

# Rule, and the changed lines afterwards.
WANTED = {
    ("arguments", "use(n, std::max(n, 3u));"),
    ("arguments", 'step("x, y", "z", n, word);'),
    ("arguments", "store_be16(static_cast<uint16_t>(word), out);"),
    ("arguments", "uint32_t checked(uint32_t n, const uint8_t* p) {"),
    ("byte order", "const uint32_t word = __builtin_bswap32(load_be32(p + 4));"),
    ("byte order", "store_be16(out, __builtin_bswap16(static_cast<uint16_t>(word)));"),
    ("comparison", "if (p != nullptr || n < 12) return 0;"),
    ("comparison", "if (p == nullptr || n <= 12) return 0;"),
    ("comparison", "for (uint32_t i = 0; i <= n; i++) total_ += p[i];"),
    ("comparison", "if (n >= 9) break;"),
    ("condition", "if (!(p == nullptr || n < 12)) return 0;"),
    ("condition", "while (!(!done())) {"),
    ("condition", "if (!(n > 9)) break;"),
    ("logic", "if (p == nullptr && n < 12) return 0;"),
    ("constant", "if (p == nullptr || n < 13) return 0;"),
    ("constant", "if (p == nullptr || n < 11) return 0;"),
    ("constant", "if (p == nullptr || n < 12) return 1;"),
    ("constant", "for (uint32_t i = 1; i < n; i++) total_ += p[i];"),
    ("constant", "use(std::max(n, 4u), n);"),
    ("constant", "use(std::max(n, 2u), n);"),
    ("constant", "const uint32_t word = load_be32(p + 5);"),
    ("constant", "const uint32_t word = load_be32(p + 3);"),
    ("constant", "if (n > 10) break;"),
    ("constant", "if (n > 8) break;"),
    ("constant", "case 6:"),
    ("constant", "case 4:"),
    ("statement", "if (p == nullptr || n < 12) ;"),
    ("statement", "for (uint32_t i = 0; i < n; i++) ;"),
    ("statement", ";"),  # use, store_be16, step, break
    ("statement", "if (n > 9) ;"),
}


def main():
    found = set()
    lines = SOURCE.split("\n")
    for edit in rules.edits_of(SOURCE):
        after = rules.edited(SOURCE, edit).split("\n")
        if len(after) != len(lines):
            sys.exit(f"{edit.rule}: the number of lines changes")
        found |= {(edit.rule, new.strip()) for old, new in zip(lines, after) if old != new}
    for what, missing in (("missing", WANTED - found), ("not wanted", found - WANTED)):
        for rule, line in sorted(missing):
            print(f"{what}: {rule}: {line}")
    print(f"{len(found)} edits")
    return 0 if found == WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
