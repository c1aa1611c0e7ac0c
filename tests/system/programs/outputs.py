"""Reads what perftest and the ibverbs-utils print, and says what is wrong with it."""

import re

ALL_SIZES = [2**power for power in range(1, 24)]

_NUMBERS = re.compile(r"^[ \t]*(\d+)[ \t]+(\d+)((?:[ \t]+(?:[0-9.]+|-?nan))+)[ \t]*$", re.MULTILINE)
_TROUBLE = re.compile(
    r"(Failed status[^\n]*|Completion with error[^\n]*|Segmentation fault|terminate called[^\n]*|Unable to [^\n]*|"
    r"Couldn't [^\n]*|[Ff]ailed to [^\n]*|invalid data in page[^\n]*|parse WC failed[^\n]*)")


def rows(text):
    """perftest's result lines: (bytes, iterations, [numbers])."""
    return [(int(size), int(count), [float(word) for word in rest.split()])
            for size, count, rest in _NUMBERS.findall(text)]


def clock_was_lost(text):
    """perftest measures the CPU's clock before it reports. When it is preempted meanwhile, it says that the
    measurements do not fit; then bandwidths are not reported (exit code 1), and latencies are infinite."""
    return "Correlation coefficient r^2" in text and re.search(r"Can't produce a report|\binf\b", text) is not None


_WITHOUT_CLOCK = re.compile(r"^[ \t]*(\d+)[ \t]+\d+(?:[ \t]+(?:inf|-?nan))+[ \t]*$", re.MULTILINE)


def sizes_without_clock(text):
    """Of a run over many sizes, those without a latency because the clock measurement failed: their messages were still
    exchanged. At most a quarter of the lines are excused."""
    if not clock_was_lost(text):
        return []
    lost = [int(size) for size in _WITHOUT_CLOCK.findall(text)]
    return lost if 4 * len(lost) <= len(lost) + len(rows(text)) else []


def trouble(text):
    """Lines that a healthy run never prints."""
    return [f'it printed "{line.strip()}"' for line in _TROUBLE.findall(text)]


def check_sizes(found, sizes):
    missing = [size for size in sizes if size not in found]
    return [f"no result line for {missing[0]} bytes (and {len(missing) - 1} more)"] if missing else []


def check_bandwidth(text, sizes):
    """The peak may be 0 (perftest leaves it out for long runs); the message rate may not, and the average only where it
    is too small for its two decimals: a few messages of some bytes on a busy machine."""
    found = rows(text)
    problems = check_sizes([row[0] for row in found], sizes)
    for size, _, numbers in found:
        if len(numbers) < 3:
            problems.append(f"the line for {size} bytes has only {len(numbers)} numbers")
        elif numbers[2] <= 0 or (numbers[1] <= 0 and numbers[2] * size >= 0.01):
            problems.append(f"no bandwidth at {size} bytes")
    return problems


def check_latency(text, sizes):
    found = rows(text)
    problems = check_sizes([row[0] for row in found] + sizes_without_clock(text), sizes)
    for size, _, numbers in found:
        if len(numbers) < 3 or numbers[2] <= 0:
            problems.append(f"no typical latency at {size} bytes")
        elif numbers[0] > numbers[1]:
            problems.append(f"minimum above maximum at {size} bytes")
    return problems


_PINGPONG = re.compile(r"^(\d+) bytes in ([0-9.]+) seconds = ", re.MULTILINE)


def check_pingpong(text, expected_bytes):
    match = _PINGPONG.search(text)
    if not match:
        return ["no line '... bytes in ... seconds'"]
    if int(match[1]) != expected_bytes:
        return [f"{match[1]} bytes were exchanged, {expected_bytes} expected"]
    return []
