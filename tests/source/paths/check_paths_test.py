#!/usr/bin/env python3
"""What check_paths.py has to find, and what it has to leave alone."""

import pathlib
import tempfile
import unittest

import check_paths

FOUND = {
    "roce/host": ["int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);", "openat(dir, name,\n    O_RDWR | O_CREAT, 0600);", "::open(p, O_PATH);",
                  "if (stat(path.c_str(), &st) != 0) return;", "fstatat(fd, name, &st, 0);", "std::ofstream out(path);", "std::ifstream(path) >> text;", "std::ifstream in(path);", "std::fopen(path, \"r\");",
                  "chmod(path, 0600);", "fchmodat(fd, name, mode, 0);", "kill(pid, 0);"],
    "apps/uroced": ["::chown(path, 0, 0);", "if (kill(other, 0) == 0) return;"],
}
LEFT = {
    "roce/segment": ["openat(fd, name, O_RDONLY | O_NOFOLLOW);", "open(\"/proc/self/maps\", O_RDONLY);", "openat(fd_, \".\", O_RDONLY);",
                     "struct stat st {};", "std::ifstream in(\"/proc/self/status\");", "std::ifstream(\"/sys/class/net/\" + name) >> text;", "lstat(path, &st);", "fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW);", "fchmod(fd, 0600);",
                     "// chmod(path, 0600)", "kill(pid, SIGTERM);", "device.open(O_RDWR, error);"],
    "roce/tools/sim": ["std::ofstream out(path);", "open(path, O_RDONLY);"],
}


class CheckPathsTest(unittest.TestCase):
    def problems(self, folder, line):
        with tempfile.TemporaryDirectory() as root:
            place = pathlib.Path(root) / folder
            place.mkdir(parents=True)
            (place / "planted.cc").write_text(f"void f() {{\n  {line}\n}}\n", encoding="utf-8")
            return check_paths.check(pathlib.Path(root))[0]

    def test_what_follows_links_or_numbers_is_found(self):
        for folder, lines in FOUND.items():
            for line in lines:
                with self.subTest(line=line):
                    found = self.problems(folder, line)
                    self.assertEqual(len(found), 1, found)
                    self.assertTrue(found[0].startswith(f"{folder}/planted.cc:2: "), found)

    def test_the_rest_is_left_alone(self):
        for folder, lines in LEFT.items():
            for line in lines:
                with self.subTest(line=line):
                    self.assertEqual(self.problems(folder, line), [])

    def test_what_is_allowed_and_not_there_is_said(self):
        with tempfile.TemporaryDirectory() as root:
            self.assertEqual(set(check_paths.check(pathlib.Path(root))[1]), set(check_paths.ALLOWED))


if __name__ == "__main__":
    unittest.main()
