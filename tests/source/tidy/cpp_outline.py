"""The outline of a C++ file: its functions, classes and friends, found by following braces.

No compiler is needed and no header is opened; the code is expected to be as clang-format leaves it. What stands inside
a function's body is not looked at.
"""

import bisect
import re
from dataclasses import dataclass, field

COMMENT = r"//[^\n]*|/\*.*?\*/"
STRING = r'R"(?P<end>[^\s()\\]*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"'
# A quote between the digits of a number does not begin a character literal.
CHARACTER = r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"
PREPROCESSOR = r"^[ \t]*#(?:\\\n|//[^\n]*|[^\n])*"
HIDDEN = re.compile("|".join((COMMENT, STRING, CHARACTER, PREPROCESSOR)), re.DOTALL | re.MULTILINE)
COMMENT_OR_STRING = re.compile("|".join((COMMENT, STRING, CHARACTER)), re.DOTALL)

MARK = re.compile(r"[{}();]")
BRACE = re.compile(r"[{}]")
LABELS = re.compile(r"(?:\s*(?:public|protected|private)\s*:(?!:))*\s*")
ATTRIBUTE = re.compile(r"\bUROCE_API\b|\[\[.*?\]\]|alignas\s*\([^()]*\)|__attribute__\s*\(\(.*?\)\)", re.DOTALL)
TEMPLATE = re.compile(r"template\s*<")
ANGLES = re.compile(r"(?<=\w)<(?![<=])[^<>;{}]*>(?!=)")
NAMESPACE = re.compile(r'(inline\s+)?namespace\b|extern\s*""$')
TYPE = re.compile(r"(?:typedef\s+)?(class|struct|union|enum)\b(?:\s+(?:class|struct))?\s*([\w:]*)")
FRIEND = re.compile(r"friend\s+(?:class\s+|struct\s+)?([\w:]+)$")
NO_FUNCTION = re.compile(r"(using|friend|typedef|static_assert|namespace)\b")
NO_FIELD = re.compile(r"(using|friend|typedef|static|static_assert|constexpr|enum)\b|(class|struct|union)\s+\w+$")
# The name in front of a parameter list: a qualified one, or an operator.
CALLED = re.compile(r"((?:\w+\s*::\s*)*(?:operator\s*(?:[^\s\w(]+|[\w ]+[*&]*)|~?\w+))\s*\($")
GTEST = ("TEST", "TEST_F", "TEST_P", "TYPED_TEST")
NO_NAME = ("decltype", "noexcept", "explicit", "sizeof")


@dataclass
class Function:
    name: str  # as written: `Engine::turn`, `main`, `operator==`
    line: int
    head: str  # everything before the body or the semicolon
    lines: int = 0  # of a definition, including its head; 0 when it is only declared

    @property
    def simple_name(self):
        return self.name.split("::")[-1].strip()

    @property
    def label(self):
        """The name, and for a test of GoogleTest which one it is."""
        test = re.search(r"\(\s*(\w+),\s*(\w+)\s*\)", self.head) if self.name in GTEST else None
        return f"{test[1]}.{test[2]}" if test else self.name


@dataclass
class Class:
    name: str
    line: int
    functions: list = field(default_factory=list)
    fields: list = field(default_factory=list)


@dataclass
class Outline:
    functions: list = field(default_factory=list)  # of the file, including those of its classes
    classes: list = field(default_factory=list)
    friends: list = field(default_factory=list)  # pairs of a class's name and a line
    balanced: bool = True


def blank(text):
    """The code with empty strings, without comments and preprocessor lines; every line keeps its number."""
    return HIDDEN.sub(lambda match: '""' * match[0].startswith('"') + "\n" * match[0].count("\n"), text)


def without_comments(text):
    """The code without its comments."""
    return COMMENT_OR_STRING.sub(lambda match: " " if match[0].startswith(("//", "/*")) else match[0], text)


def without_angles(text):
    """The text without the arguments of templates."""
    before = None
    while before != text:
        before, text = text, ANGLES.sub("", text)
    return text


def strip_head(head):
    """The declaration without leading access labels, attributes and `template <...>`."""
    head = ATTRIBUTE.sub(" ", head)
    head = head[LABELS.match(head).end():].strip()
    while found := TEMPLATE.match(head):
        depth, position = 1, found.end()
        while depth and position < len(head):
            depth += {"<": 1, ">": -1}.get(head[position], 0)
            position += 1
        head = head[position:].strip()
    return head


def function_name(head):
    """The name of the function that a head declares, or None if it declares something else."""
    head = without_angles(head)
    if NO_FUNCTION.match(head):
        return None
    for opening in re.finditer(r"\((?![*&])", head):
        named = CALLED.search(head[:opening.end()])
        if not named or re.search(r"(?<!operator)=", head[:named.start()]):
            return None  # a variable with an initializer
        if named[1].endswith("operator"):
            return named[1] + "()"
        if named[1] not in NO_NAME:
            return re.sub(r"\s+", " ", named[1])
    return None


def field_names(head):
    """The fields that a declaration in a class makes: none for a type or a static member."""
    if NO_FIELD.match(head):
        return []
    if pointer := re.search(r"\(\s*\*\s*(\w+)\)\s*\(", head):
        return [pointer[1]]
    names = re.sub(r"\([^()]*\)|\{.*\}", "", without_angles(head), flags=re.DOTALL).split(",")
    found = [re.search(r"(\w+)\s*(?:\[.*\])?\s*(?:=.*|:\s*\w+)?$", name.strip(), re.DOTALL) for name in names]
    return [match[1] for match in found if match]


class Reader:
    """Walks over the marks of a file with blanked strings and comments, and fills an Outline."""

    def __init__(self, text):
        self.text = blank(text)
        self.line_ends = [found.start() for found in re.finditer("\n", self.text)]
        self.outline = Outline()
        self.scopes = []  # a Class, or None for a namespace
        self.start = 0  # where the declaration that is being read begins

    def read(self):
        position, parens = 0, 0
        while mark := MARK.search(self.text, position):
            position = mark.end()
            if mark[0] in "()":
                parens += 1 if mark[0] == "(" else -1
            elif mark[0] == "{":
                position = self.open(mark.start(), inside_parens=parens > 0)
            elif mark[0] == "}":
                self.close_scope(mark.end())
            elif not parens:
                self.declare(strip_head(self.text[self.start:mark.start()]))
                self.start = mark.end()
        self.outline.balanced = self.outline.balanced and not self.scopes and not parens
        return self.outline

    def line_at(self, position):
        return bisect.bisect_left(self.line_ends, position) + 1

    def head_line(self):
        """The line on which the declaration that begins at `start` has its first word."""
        return self.line_at(LABELS.match(self.text, self.start).end())

    def behind(self, opening):
        """The position after the brace that closes the one opened here."""
        depth = 0
        for brace in BRACE.finditer(self.text, opening):
            depth += 1 if brace[0] == "{" else -1
            if depth == 0:
                return brace.end()
        self.outline.balanced = False
        return len(self.text)

    def open(self, opening, inside_parens):
        """Handles what the brace at `opening` begins; returns the position to continue from."""
        if inside_parens:
            return self.behind(opening)
        head = strip_head(self.text[self.start:opening])
        kind = TYPE.match(head)
        if NAMESPACE.match(head):
            self.scopes.append(None)
            self.start = opening + 1
        elif kind and not head.endswith("=") and "(" not in without_angles(head):
            if kind[1] == "enum":
                return self.behind(opening)
            self.open_class(kind, opening)
        else:
            return self.open_body(head, opening)
        return opening + 1

    def open_body(self, head, opening):
        """A function's body, or a braced initializer, after which the declaration continues."""
        end = self.behind(opening)
        name = None if head.endswith("=") else function_name(head)
        if name and self.text[end:end + 200].lstrip()[:1] not in ("{", ",", ";"):
            self.add_function(name, head).lines = self.line_at(end - 1) - self.head_line() + 1
            self.start = end
        return end

    def open_class(self, kind, opening):
        self.scopes.append(Class(kind[2], self.head_line()))
        self.outline.classes.append(self.scopes[-1])
        self.start = opening + 1

    def close_scope(self, end):
        if not self.scopes:
            self.outline.balanced = False
            return
        self.scopes.pop()
        self.start = end

    def add_function(self, name, head):
        found = Function(name, self.head_line(), head)
        self.outline.functions.append(found)
        if self.scopes and self.scopes[-1] is not None:
            self.scopes[-1].functions.append(found)
        return found

    def declare(self, head):
        if friend := FRIEND.match(head):
            self.outline.friends.append((friend[1], self.head_line()))
        elif name := function_name(head):
            self.add_function(name, head)
        elif head and self.scopes and self.scopes[-1] is not None:
            self.scopes[-1].fields += field_names(head)


def outline(text):
    return Reader(text).read()
