#!/usr/bin/env python3
"""Pictures from the CSV files of uroce-sim.

    plot.py DIRECTORY [--format png|svg] [--out DIRECTORY]

DIRECTORY is what --csv was. Writes queues, rates, flows and fairness, each where there is something to show. Needs
Matplotlib (Debian: python3-matplotlib).
"""

import argparse
import collections
import csv
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

LINES_MAX = 16  # in one picture: the largest


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def series(table, key, value):
    """{name: ([time], [value])}, the largest first."""
    lines = collections.defaultdict(lambda: ([], []))
    for row in table:
        times, values = lines[row[key]]
        times.append(float(row["time_us"]))
        values.append(float(row[value]))
    return dict(sorted(lines.items(), key=lambda item: -max(item[1][1]))[:LINES_MAX])


def save(figure, out, name, form):
    path = out / f"{name}.{form}"
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    print(path)


def draw_lines(lines, title, unit, scale):
    figure, axes = pyplot.subplots(figsize=(9, 4.5))
    for name, (times, values) in lines.items():
        axes.plot(times, [v * scale for v in values], label=name, linewidth=1)
    axes.set(title=title, xlabel="time (us)", ylabel=unit)
    axes.grid(alpha=0.3)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=7, ncol=2)
    return figure


def logarithmic_when_wide(set_scale, values):
    if min(values) > 0 and max(values) > 10 * min(values):
        set_scale("log")


def draw_flows(table):
    done = [row for row in table if row["status"] == "done"]
    if not done:
        return None
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4.5))
    left.plot([float(r["bytes"]) for r in done], [float(r["slowdown"]) for r in done], ".", markersize=3, alpha=0.4)
    left.set(title="flow completion time / alone", xlabel="bytes", ylabel="slowdown")
    ordered = sorted(float(r["fct_us"]) for r in done)
    right.step(ordered, [(i + 1) / len(ordered) for i in range(len(ordered))], where="post")
    right.set(title="flow completion times", xlabel="us", ylabel="part of all flows", ylim=(0, 1))
    logarithmic_when_wide(left.set_xscale, [float(r["bytes"]) for r in done])
    logarithmic_when_wide(left.set_yscale, [float(r["slowdown"]) for r in done])
    logarithmic_when_wide(right.set_xscale, ordered)
    for axes in (left, right):
        axes.grid(alpha=0.3)
    return figure


def draw_fairness(table):
    shared = [row for row in table if int(row["flows"]) > 1]
    if not shared:
        return None
    figure, axes = pyplot.subplots(figsize=(9, 3.5))
    axes.plot([float(r["time_us"]) for r in shared], [float(r["jain"]) for r in shared], linewidth=1)
    axes.set(title="fairness", xlabel="time (us)", ylabel="Jain's index", ylim=(0, 1.05))
    axes.grid(alpha=0.3)
    return figure


def main():
    parser = argparse.ArgumentParser(description="draws the CSV files of uroce-sim")
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--format", choices=["png", "svg"], default="png")
    parser.add_argument("--out", type=pathlib.Path, help="default: where the CSV files are")
    arguments = parser.parse_args()
    out = arguments.out or arguments.directory
    out.mkdir(parents=True, exist_ok=True)
    try:
        tables = {name: rows(arguments.directory / f"{name}.csv") for name in ("queues", "rates", "flows", "samples")}
    except OSError as error:
        print(f"plot.py: {error}", file=sys.stderr)
        return 2
    pictures = {
        "queues": tables["queues"] and draw_lines(series(tables["queues"], "port", "bytes"), "queues", "kB", 1e-3),
        "rates": tables["rates"] and draw_lines(series(tables["rates"], "flow", "gbps"), "rates", "Gb/s", 1),
        "flows": draw_flows(tables["flows"]),
        "fairness": draw_fairness(tables["samples"]),
    }
    for name, figure in pictures.items():
        if figure:
            save(figure, out, name, arguments.format)
    return 0


if __name__ == "__main__":
    sys.exit(main())
