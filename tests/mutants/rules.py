"""Small wrong edits of C++ sources, made by rule: which places of a file can be edited, and how.

The text is looked at as clang-format leaves it, with comments, literals, preprocessor lines, static_assert and log
messages taken out. Whether an edit is C++ is the compiler's question. An edit keeps the number of lines.
"""

import re

# These have no effect on a result: messages, hints to the processor, sizes of preallocated memory.
SILENT_CALLS = r"static_assert|log_message|RTE_LOG|reserve|shrink_to_fit|prefetch\w*|rte_prefetch\w*|__builtin_prefetch|rte_pause"
# The order of their arguments does not matter, or they are not calls.
SYMMETRIC = {"min", "max", "if", "for", "while", "switch", "return", "sizeof", "alignas", "decltype", "catch", "defined", "operator"}

TEXT = re.compile(r"[_ \n]+")

COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
NUMBER = re.compile(r"(?<![\w.'])(0[xX][0-9a-fA-F']+|\d[\d']*)([uUlLzZ]*)(?![\w.'])")
BYTE_ORDER = re.compile(r"\b(load_be(16|24|32|64)|store_be(16|24|32|64)|__builtin_bswap(16|32|64)|[hn]to[hn][sl]|htobe\d\d|be\d\dtoh"
                        r"|rte_cpu_to_[bl]e_\d\d|rte_[bl]e_to_cpu_\d\d)\(")


class Edit:
    """One place, and its replacement."""

    def __init__(self, rule: str, start: int, end: int, new: str):
        self.rule, self.start, self.end, self.new = rule, start, end, new


def blank(text: str, start: int, end: int) -> str:
    return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]


def closing(text: str, at: int) -> int:
    """The position of the bracket that closes the one at `at`, or -1."""
    depth = 0
    for i in range(at, len(text)):
        if text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            depth -= 1
            if depth == 0:
                return i
    return -1


def code_of(text: str) -> str:
    """The text with everything but code replaced by spaces; every character keeps its place."""
    noise = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:\\\n|[^\n])*', re.S | re.M)
    # A literal stays one word, so that an argument that is a literal can still be swapped.
    code = noise.sub(lambda m: re.sub(r"[^\n]", "_" if m[0][0] in "\"'" else " ", m[0]), text)
    for match in list(re.finditer(rf"\b(?:{SILENT_CALLS})\(", code)):
        end = closing(code, match.end() - 1)
        if end > 0:
            code = blank(code, match.start(), end + 1)
    return code


def comparisons(code: str):
    for match in re.finditer(r"(?<= )(<|<=|>|>=|==|!=)(?=[ \n])", code):
        yield Edit("comparison", match.start(), match.end(), COMPARISONS[match[0]])


def logic(code: str):
    for match in re.finditer(r"(?<= )(&&|\|\|)(?=[ \n])", code):
        yield Edit("logic", match.start(), match.end(), "||" if match[0] == "&&" else "&&")


def constants(code: str):
    # Sizes of arrays, and numbers in the names of types, are not values.
    sizes = [m.span() for m in re.finditer(r"<[^<>;(){}\n]*>|\b\w+ \w+\[[^\]\n]*\](?=[;,{ ]| =)", code)]
    for match in NUMBER.finditer(code):
        if any(start <= match.start() < end for start, end in sizes):
            continue
        digits, suffix = match[1].replace("'", ""), match[2]
        value = int(digits, 16) if digits[:2].lower() == "0x" else int(digits, 8 if len(digits) > 1 and digits[0] == "0" else 10)
        for other in (value + 1, value - 1):
            if other >= 0:
                yield Edit("constant", match.start(), match.end(), (hex(other) if digits[:2].lower() == "0x" else str(other)) + suffix)


def conditions(code: str):
    for match in re.finditer(r"\b(?:if|while) \(", code):
        end = closing(code, match.end() - 1)
        inner = code[match.end() : end]
        begin = match.end() + (inner.rfind(";") + 1 if inner.count("{") == 0 else 0)
        if end > 0 and code[begin:end].strip():
            yield Edit("condition", begin, end, "NOT")


def byte_orders(code: str):
    for match in BYTE_ORDER.finditer(code):
        end = closing(code, match.end() - 1)
        before = code[: match.start()].rstrip(" ")
        # A word before the name means that this is a declaration.
        if end < 0 or (before and re.search(r"[\w>*&]$", before) and not before.endswith("return")):
            continue
        yield Edit("byte order", match.start(), end + 1, "SWAP")


def arguments_of(code: str, start: int, end: int) -> list:
    """The spans of the arguments between two brackets."""
    spans, depth, begin = [], 0, start
    for i in range(start, end):
        depth += (code[i] in "([{") - (code[i] in ")]}")
        if code[i] == "<" and re.match(r"<[\w:, *]+>", code[i:end]):
            depth += 1
        elif code[i] == ">" and code[i - 1] != "-" and depth > 0 and code[i - 1] != " ":
            depth -= 1
        if code[i] == "," and depth == 0:
            spans.append((begin, i))
            begin = i + 1
    spans.append((begin, end))
    return [(a + len(code[a:b]) - len(code[a:b].lstrip()), b - len(code[a:b]) + len(code[a:b].rstrip())) for a, b in spans]


def arguments(code: str):
    for match in re.finditer(r"\b(\w+)\(", code):
        end = closing(code, match.end() - 1)
        if match[1] in SYMMETRIC or end < 0:
            continue
        spans = arguments_of(code, match.end(), end)
        for (a, b), (c, d) in zip(spans, spans[1:]):
            # Messages are for people: the order of texts in them is not tested.
            texts = TEXT.fullmatch(code, a, b) or TEXT.fullmatch(code, c, d)
            if code[a:b] != code[c:d] and b > a and d > c and "\n" not in code[a:d] and not texts:
                yield Edit("arguments", a, d, (a, b, c, d))


STATEMENT = re.compile(
    r"(?:\*|\+\+|--)?(?:[\w:]+|\(\*?\w+\))(?:(?:\.|->|::)\w+|\[[^;]*?\]|\([^;{}]*?\))*"  # what is named, called or indexed
    r"(?:\s*(?:[+\-|&^*/%]|<<|>>)?=\s.*|\+\+|--)?$", re.S)
CONTROL = re.compile(r"\s*(?:else\b|case\b[^:;]*(?:::[^:;]*)*:(?!:)|default:|(?:if|for|while|switch)\b(?: constexpr)? (?=\())")


def statements(code: str):
    """Calls, assignments and jumps; each edit leaves one out."""
    begin, depth = 0, 0
    for i, c in enumerate(code):
        if c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c in "{}" and depth == 0:
            begin = i + 1
        elif c == ";" and depth == 0:
            start, guarded = begin, False
            while match := CONTROL.match(code, start, i):
                start = match.end()
                if code[start] == "(":
                    start, guarded = closing(code, start) + 1, True
            start += len(code[start:i]) - len(code[start:i].lstrip())
            core = code[start:i].strip()
            begin = i + 1
            jump = re.match(r"(?:break|continue|return\b)", core) is not None
            if jump and core not in ("break", "continue") and not guarded:
                continue  # usually the last word of a function
            if core and (jump or (STATEMENT.match(core) and re.search(r"[(=+-]", core) and not core.startswith(("using", "delete", "throw", "return")))):
                yield Edit("statement", start, i, "")


RULES = {"arguments": arguments, "byte order": byte_orders, "comparison": comparisons, "condition": conditions,
         "constant": constants, "logic": logic, "statement": statements}


def swapped(text: str) -> str:
    """A call that changes the byte order, with the other order."""
    name, rest = text.split("(", 1)
    inner = rest[:-1]
    if name.startswith("load_be"):
        return f"(__builtin_bswap32({text}) >> 8)" if name.endswith("24") else f"__builtin_bswap{name[7:]}({text})"
    if name.startswith("store_be"):
        code = code_of(text)
        (_, _), (c, d) = arguments_of(code, len(name) + 1, len(text) - 1)[-2:]
        other = f"(__builtin_bswap32({text[c:d]}) >> 8)" if name.endswith("24") else f"__builtin_bswap{name[8:]}({text[c:d]})"
        return text[:c] + other + text[d:]
    return f"({inner})"


def new_text(text: str, edit: Edit) -> str:
    """The replacement of the text between the edit's start and end."""
    old = text[edit.start : edit.end]
    if edit.rule == "condition":
        lead = len(old) - len(old.lstrip())
        return f"{old[:lead]}!({old[lead:]})"
    if edit.rule == "byte order":
        return swapped(old)
    if edit.rule == "arguments":
        a, b, c, d = edit.new
        return text[c:d] + text[b:c] + text[a:b]
    if edit.rule == "statement":
        return "\n" * old.count("\n")
    return edit.new


def edits_of(text: str) -> list:
    code = code_of(text)
    return [edit for rule in RULES.values() for edit in rule(code)]


def edited(text: str, edit: Edit) -> str:
    return text[: edit.start] + new_text(text, edit) + text[edit.end :]
