#!/usr/bin/env python3
"""The tidy check finds what it must find: each planted mistake is told, and a tidy tree draws no word."""

import contextlib
import io
import pathlib
import tempfile
import unittest

import check_tidy
import cpp_outline

HEADER = """// A header.
#pragma once

namespace uroce {

class Ring {
 public:
  explicit Ring(int size);
  ~Ring();
  Ring& operator=(const Ring&) = delete;
  int take();
  bool operator==(const Ring& other) const;

 private:
  friend class Pool;
  int size_ = 0;
};

class Pool : public Base {
 public:
  void call() override;
};

}  // namespace uroce
"""

HOUSE = {
    "roce/base/ring.h": HEADER,
    "roce/base/ring.cc": "int Ring::take() { return 1; }\nint main() { return Ring(2).take(); }\n",
    "pmd/hw/regs.h": "#pragma once\n",
    "apps/perf.cc": "int g_runs;\n",
    "apps/meson.build": "executable('perf', 'perf.cc')\ntest('perf', suite: 'unit')\n",
    "verbs_shim/shim.cc": "int g_devices;\n",
    "tests/source/layering/check_layers.py": 'BELOW = {"base": [], "pmd/hw": [], "apps": [], "verbs_shim": []}\n',
    "tests/source/tidy/exceptions.txt": "# None.\n",
    "tests/source/tidy/retired_words.txt": "# One.\nslow path -> long way\n",
    "doc/adr/0001-first.md": "# First\n",
    "doc/adr/0003-third.md": "# Third\n",
    "doc/adr/README.md": "[1](0001-first.md), [3](0003-third.md). There is no 0002: it was withdrawn.\n",
    "README.md": "# House\n",
}

LONG_FUNCTION = "void f() {\n" + "  g_runs++;\n" * 59 + "}\n"
WIDE = "word " * 25


def class_of(methods, fields):
    """A class with these numbers of methods and fields, each of them used."""
    names = [f"m{i}" for i in range(methods)]
    return ("#pragma once\nclass Big {\n public:\n  Big();\n" + "".join(f"  int {name}(int x = 0);\n" for name in names)
            + "".join(f"  int f{i}_ = 0;\n" for i in range(fields)) + "};\n"
            + "inline int g_all = " + " + ".join(["0"] + [f"Big().{name}()" for name in names]) + ";\n")


# file, text appended to it, expected message; "" where none is expected
PLANTED = [
    ("apps/perf.cc", "int x;\n" * 500, "apps/perf.cc: 501 lines"),
    ("apps/perf.cc", "\n" * 499, None),
    ("tests/unit/x_test.cc", "int x;\n" * 501, "tests/unit/x_test.cc: 501 lines"),
    ("apps/perf.cc", LONG_FUNCTION, "apps/perf.cc:2: f has 61 lines"),
    ("apps/perf.cc", LONG_FUNCTION.replace("g_runs++;\n", "", 1), None),
    ("apps/perf.cc", "namespace {\nstruct S {\n  int z;\n" + LONG_FUNCTION + "};\n}\n", "perf.cc:5: f has 61"),
    ("apps/perf.cc", "template <typename T>\n" + LONG_FUNCTION, "apps/perf.cc:2: f has 62 lines"),
    ("apps/perf.cc", "TEST(A, B) {\n" + "  x();\n" * 59 + "}\n", "A.B has 61 lines"),
    ("apps/perf.cc", "const int kTable[] = {\n" + "    1,\n" * 90 + "};\n", None),
    ("apps/perf.cc", "void f() {\n", "do not pair"),
    ("apps/big.h", class_of(26, 0), "apps/big.h:2: Big has 26 methods"),
    ("apps/big.h", class_of(25, 16), None),
    ("apps/big.h", class_of(1, 17), "apps/big.h:2: Big has 17 fields"),
    ("apps/big.h", class_of(0, 17).replace("  Big();\n", ""), None),
    ("roce/attic/x.cc", "int x;\n", "roce/attic/: `attic` is not a floor"),
    ("pmd/attic/x.cc", "int x;\n", "pmd/attic/: `pmd/attic` is not a floor"),
    ("tests/source/layering/check_layers.py", 'BELOW["cellar"] = []\n', "no folder for the floor `cellar`"),
    ("apps/big.h", "class Big {\n  friend class Nobody;\n};\n", "apps/big.h:2: the friend Nobody is defined nowhere"),
    ("apps/big.h", "class Nobody;\nclass Big {\n  friend Nobody;\n};\n", "the friend Nobody is defined nowhere"),
    ("apps/big.h", "struct Some {};\nclass Big {\n  friend struct Some;\n};\n", None),
    ("apps/big.h", "int forgotten();\n", "apps/big.h:1: forgotten is declared and never used"),
    ("apps/big.h", "class Big {\n  bool forgotten() const {}\n};\n", "forgotten is declared and never used"),
    ("apps/big.h", "int used();\n/// used by nobody\n", "used is declared and never used"),
    ("apps/big.h", "int used();\n#define CALL used()\n", None),
    ("apps/big.h", "class Big : Base {\n  void called_by_base() override;\n};\n", None),
    ("doc/adr/0005-fifth.md", "# Fifth\n", "no decision 0004, and no word"),
    ("doc/adr/0004-fourth.md", "# Fourth\n", "it does not list 0004-fourth.md"),
    ("doc/adr/0003-other.md", "# Other\n", "2 decisions have the number 0003"),
    ("README.md", WIDE + "\n", "README.md:2: 125 columns"),
    ("doc/page.md", "- " + WIDE + "\n", "doc/page.md:1: 127 columns"),
    ("tests/unit/README.md", WIDE + "\n", "tests/unit/README.md:1: 125 columns"),
    ("README.md", "| " + WIDE + " |\n", None),
    ("README.md", "```\n" + WIDE + "\n```\n", None),
    ("README.md", "```\n```\n" + WIDE + "\n", "README.md:4: 125 columns"),
    ("README.md", "- [link](https://" + "x" * 120 + ")\n", None),
    ("README.md", "[page](doc/none.md)\n", "README.md: doc/none.md is not there"),
    ("README.md", "![picture](doc/none.svg)\n", "README.md: doc/none.svg is not there"),
    ("doc/page.md", "[page](doc/adr/0001-first.md)\n", "doc/page.md: doc/adr/0001-first.md is not there"),
    ("doc/page.md", "[page](adr/0001-first.md#second)\n", "doc/page.md: adr/0001-first.md#second: there is no such heading"),
    ("doc/page.md", "[here](#nowhere)\n", "doc/page.md: #nowhere: there is no such heading"),
    ("doc/page.md", "[page](adr/0001-first.md#first), [a floor](../roce/base), [far](https://x.org/#y)\n", None),
    ("doc/page.md", '## What `a_b` is, and -- why?\n[it](#what-a_b-is-and----why) <a id="own"></a>[own](#own)\n', None),
    ("doc/page.md", "`[x](y)`\n```\n[x](y)\n# Z\n```\n", None),
    ("doc/page.md", "```\n# Z\n```\n[z](#z)\n", "doc/page.md: #z: there is no such heading"),
    ("README.md", "In `roce/attic` and `roce/base/none.h`.\n", "README.md: `roce/attic` is not there"),
    ("README.md", "In `roce/base/none.h`.\n", "README.md: `roce/base/none.h` is not there"),
    ("README.md", "In `roce/base/`, `roce/base/ring`, `roce/{base,none}`, `apps/*.cc`, `apps/perf.cc --help`, `x/y.h`.\n", None),
    ("CHANGELOG.md", "It was in `roce/attic`.\n", None),
    ("README.md", "```sh\nbuild/apps/uroce-none -v\n```\n", "README.md: no meson.build has a program or a suite `uroce-none`"),
    ("README.md", "`meson test -C build --suite none`\n", "README.md: no meson.build has a program or a suite `none`"),
    ("README.md", "build/apps/perf, build/apps/examples/perf, --suite unit\n", None),
    ("README.md", "A slow path.\n", "README.md:2: `slow path` is now called `long way`"),
    ("apps/perf.cc", "// It is slow\n// path or not.\n", "apps/perf.cc:2: `slow path`"),
    ("apps/perf.cc", "int take_slow_paths;\n", "apps/perf.cc:2: `slow path`"),
    ("apps/perf.cc", "int kSlowPath;\n", "apps/perf.cc:2: `slow path`"),
    ("tests/unit/x.py", "SLOW_PATH = 1\n", "tests/unit/x.py:1: `slow path`"),
    ("apps/perf.cc", "int slow_pathology, path, slow;\n", None),
    ("CHANGELOG.md", "The slow path went.\n", None),
    ("tests/source/tidy/retired_words.txt", "alone\n", "a line is `retired -> what to say instead`"),
    ("tests/source/tidy/exceptions.txt", "file apps/perf.cc 600\n", "an entry is a kind, a subject"),
    ("tests/source/tidy/exceptions.txt", "friend Nobody - It is needed.\n", "an entry is a kind, a subject"),
    ("tests/source/tidy/exceptions.txt", "file apps/perf.cc 600 It is a table.\n", "`file apps/perf.cc` is not needed"),
    ("tests/source/tidy/exceptions.txt", "file apps/perf.cc 600 A.\nfile apps/perf.cc 601 B.\n", "is listed twice"),
]

# An exception, and whether it allows this number of lines.
EXCEPTED = [
    ("file apps/perf.cc 502 It is a table.", 501, None),
    ("file apps/perf.cc 502 It is a table.", 502, "503 lines; at most 500, and 502 by its exception"),
    ("file apps/perf.cc 503 It is a table.", 501, "`file apps/perf.cc` is 502 now, not 503: say so"),
    ("file apps/other.cc 502 It is a table.", 501, "apps/perf.cc: 502 lines"),
    ("function apps/perf.cc 502 It is a table.", 501, "apps/perf.cc: 502 lines"),
]


def run_check(files):
    """Exit status and messages of the check in a tree of these files: pairs of a name and a text; texts of the same
    name are joined."""
    told = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files:
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as out:
                out.write(text)
        with contextlib.redirect_stderr(told), contextlib.redirect_stdout(io.StringIO()):
            status = check_tidy.main([folder])
    return status, told.getvalue()


class CheckTidy(unittest.TestCase):
    def expect(self, message, *added):
        """Checks the messages after these files, or these additions to files, are put into the tidy tree."""
        status, told = run_check(list(HOUSE.items()) + list(added))
        if message is None:
            self.assertEqual((status, told), (0, ""))
        else:
            self.assertEqual(status, 1)
            self.assertIn(message, told)

    def test_tidy_tree_passes(self):
        self.expect(None)

    def test_every_planted_mistake_is_told(self):
        for file, text, message in PLANTED:
            with self.subTest(file=file, text=text[:80]):
                self.expect(message, (file, text))

    def test_a_definition_is_no_use(self):
        planted = ("apps/big.h", "int forgotten();\n"), ("apps/big.cc", "int forgotten() {\n  return 1;\n}\n")
        self.expect("apps/big.h:1: forgotten is declared and never used", *planted)
        self.expect(None, *planted, ("tests/unit/big_test.cc", "int x = forgotten();\n"))

    def test_exceptions_allow_their_figure_and_no_more(self):
        for entry, lines, message in EXCEPTED:
            with self.subTest(entry=entry, lines=lines):
                self.expect(message, ("tests/source/tidy/exceptions.txt", entry + "\n"), ("apps/perf.cc", "int x;\n" * lines))

    def test_empty_tree_is_an_error(self):
        self.assertEqual(run_check([])[0], 2)


# A piece of C++, its functions with their numbers of lines (0: only declared), and the fields of its first class.
OUTLINES = [
    ("int f();\n", [("f", 0)], None),
    ("static std::map<int, A<B>> f(void (*g)(int), S s = {}) {\n  return {};\n}\n", [("f", 3)], None),
    ("A::A(int b) : b_{b}, c_(b), d_{1} {\n}\nvoid h() {}\n", [("A::A", 2), ("h", 1)], None),
    ("auto Map<K>::find(K k) const -> Entry<K>* {\n}\n", [("Map::find", 2)], None),
    ("bool operator<(A a, B b) {\n}\nvoid A::operator()(int x) {}\n", [("operator<", 2), ("A::operator()", 1)], None),
    ('void f() {\n  const char* s = "}";  // }\n  char c = \'}\';\n  int n = 1\'000\'000;\n}\n', [("f", 5)], None),
    ('void f() {\n  g(R"(}\n})");\n}\n', [("f", 4)], None),
    ("#define BEGIN {\nvoid f() {\n#if A\n#endif\n}\n", [("f", 4)], None),
    ("const auto kAdd = [](int a) {\n  return a;\n};\nint kSum = f(1);\nvoid g();\n", [("g", 0)], None),
    ('extern "C" {\nint f(void) {\n  return 0;\n}\n}\n', [("f", 3)], None),
    ("enum class E : uint8_t { kA, kB };\nvoid g();\n", [("g", 0)], None),
    ("struct [[nodiscard]] alignas(64) S {\n  int a, b = 3;\n  std::array<int, 4> c{};\n  uint8_t d : 4;\n};\n", [],
     ["a", "b", "c", "d"]),
    ("class C {\n  static constexpr int kA = 1;\n  using B = int;\n  struct D;\n  struct D* d_;\n};\n", [], ["d_"]),
    ("class C {\n  std::function<void(int)> f_;\n  int (*g_)(int);\n  const A& a_;\n  int x_[4] = {};\n};\n", [],
     ["f_", "g_", "a_", "x_"]),
    ("class C {\n  struct {\n    int a;\n  } b_;\n};\n", [], ["b_"]),
    ("class C final : public A<B>, D {\n public:\n  C() : a_(1) {}\n  template <typename T>\n  T get() {\n  }\n"
     "  int a_;\n};\n",
     [("C", 1), ("get", 3)], ["a_"]),
]


class CppOutline(unittest.TestCase):
    def test_outlines(self):
        for text, functions, fields in OUTLINES:
            with self.subTest(text=text):
                found = cpp_outline.outline(text)
                self.assertTrue(found.balanced)
                self.assertEqual([(function.name, function.lines) for function in found.functions], functions)
                if fields is not None:
                    self.assertEqual(found.classes[0].fields, fields)

    def test_a_class_is_called_what_it_is_called(self):
        for head in ("class C", "class UROCE_API C", "class [[nodiscard]] C final : public B"):
            with self.subTest(head=head):
                self.assertEqual([found.name for found in cpp_outline.outline(head + " {\n  C();\n};\n").classes], ["C"])

    def test_what_is_not_closed_is_told(self):
        for text in ("namespace a {\n", "void f() {\n", "}\n", "int f(;\n"):
            with self.subTest(text=text):
                self.assertFalse(cpp_outline.outline(text).balanced)


if __name__ == "__main__":
    unittest.main()
