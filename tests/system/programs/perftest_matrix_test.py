"""What the matrix makes of a program's --help, and what it takes for a refusal."""

import sys
import unittest

sys.dont_write_bytecode = True

import perftest_matrix as matrix

HELP = """Options:
  -c, --connection=<RC/UC/DC>  Connection type
  -m, --mtu=<mtu>  MTU size : 256 - 4096
      --odp  Use On Demand Paging
  -h, --help  Show this help screen.
"""


class Matrix(unittest.TestCase):
    def test_every_option_with_every_type(self):
        names = [row.name for row in matrix.rows_of("p", HELP)]
        self.assertEqual(names, ["p RC", "p RC --mtu=512", "p RC --odp", "p UC", "p UC --mtu=512", "p UC --odp", "p DC"])

    def test_an_option_that_nobody_knows_is_an_error(self):
        with self.assertRaisesRegex(SystemExit, "p has options that nobody has said the values of: new-one"):
            list(matrix.rows_of("p", HELP + "      --new-one=<x>  New\n"))

    def test_refusals_are_known_by_their_words(self):
        self.assertEqual(matrix.refusal_in("x\n UC is not supported in librdmacm\n"), "UC is not supported in librdmacm")
        self.assertIsNone(matrix.refusal_in("Failed to create QP.\nCompletion with error"))

    def test_a_mistake_is_of_one_type_and_option(self):
        text = "Failed to modify QP to INIT, ret=22\n"
        self.assertIsNotNone(matrix.mistake_in(("-c", "XRC", "--mcg"), text))
        for words in (("-c", "UD", "--mcg"), ("-c", "XRC", "--odp")):
            self.assertIsNone(matrix.mistake_in(words, text))
        self.assertIsNone(matrix.mistake_in(("-c", "XRC", "--mcg"), "Failed to create QP"))


if __name__ == "__main__":
    unittest.main()
