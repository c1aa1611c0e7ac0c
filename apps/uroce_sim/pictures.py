#!/usr/bin/env python3
"""The pictures and tables of doc/congestion-figures.md, from runs of uroce-sim.

    pictures.py UROCE-SIM [NAME...] [--out DIRECTORY]

NAME is dcqcn, fairness, incast, spreading or pathologies; all by default. Writes NAME.svg, and prints every command and
what it has measured. Needs Matplotlib (Debian: python3-matplotlib).
"""

import argparse
import collections
import csv
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile

import matplotlib

matplotlib.use("Agg")
from matplotlib import cm, colors, patches, pyplot  # noqa: E402

matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "uroce", "font.size": 9, "path.simplify_threshold": 0.5})

# Rate, buffer and marking of DCQCN's paper. --kmin and --kmax are for 25 Gb/s: 5 KB and 200 KB at 40.
PAPER = "--host-rate 40G --buffer 12M --kmin 3125 --kmax 125k --pmax 0.01 --window 16384 --piece 4Mi"


class Run:
    """uroce-sim with these options: what it printed, and its CSV files."""

    def __init__(self, options):
        print(f"$ uroce-sim {options}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([PROGRAM, *shlex.split(options), "--csv", folder], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise SystemExit(f"pictures.py: {done.stdout}{done.stderr}")
            self.text = done.stdout
            self.tables = {path.stem: list(csv.DictReader(path.open(newline=""))) for path in pathlib.Path(folder).iterdir()}

    def rates(self, key="from"):
        """{sender: [(ms, Gb/s)]}"""
        lines = collections.defaultdict(list)
        for row in self.tables["rates"]:
            lines[row[key]].append((float(row["time_us"]) / 1e3, float(row["gbps"])))
        return lines

    def queue(self, port):
        return [(float(row["time_us"]) / 1e3, int(row["bytes"]) / 1e3) for row in self.tables["queues"] if row["port"] == port]

    def number(self, what):
        found = re.search(rf"(\d+) {what}", self.text)
        return int(found[1]) if found else 0


def thin(points, count):
    """Means of neighbours, so that no more than `count` are left."""
    step = -(-len(points) // count)
    groups = [points[i:i + step] for i in range(0, len(points), step)]
    return [(statistics.fmean(x for x, _ in group), statistics.fmean(y for _, y in group)) for group in groups]


def plot(axes, points, count=120, **style):
    points = thin(points, count)
    axes.plot([x for x, _ in points], [y for _, y in points], linewidth=1, **style)


def mean(points, after=0.0, before=float("inf")):
    values = [y for x, y in points if after < x <= before]
    return statistics.fmean(values) if values else 0.0


def finish(axes, title, ylabel="", xlabel="ms", bottom=0):
    axes.set_title(title, fontsize=9)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.grid(alpha=0.3)
    if bottom is not None:
        axes.set_ylim(bottom=bottom)


def save(figure, name):
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / f"{name}.svg"
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    text = path.read_text()
    text = re.sub(r"-?\d+\.\d{2,}", lambda number: f"{float(number[0]):.1f}", text[text.index("<svg"):])
    path.write_text(text)
    print(f"{path}: {len(text)} bytes", flush=True)


def senders(count):
    return ",".join(f"h{i}>h0" for i in range(1, count + 1))


def draw_dcqcn():
    figure, axes = pyplot.subplots(2, 3, figsize=(9, 4.5), sharex=True, sharey="row")
    for column, flows in enumerate((2, 4, 8)):
        run = Run(f"--topology star:9 {PAPER} --cc dcqcn --workload 'long:{senders(flows)}' --duration 60ms")
        queue = run.queue("s0>h0")
        plot(axes[0][column], queue, 200, color="tab:gray")
        for points in run.rates().values():
            plot(axes[1][column], points, 60)
        finish(axes[0][column], f"{flows} flows: queue", "kB" if column == 0 else "", "")
        finish(axes[1][column], "goodput of each", "Gb/s" if column == 0 else "")
        axes[0][column].set_ylim(0, 400)
        print(f"  {flows} flows: queue {mean(queue, 30):.0f} kB after 30 ms")
    save(figure, "dcqcn")


def converged(rates, change, on, fair, window=5):
    """Milliseconds until for the first time all have been within a tenth of their share on average over `window`."""
    for end in range(change + window, change + 101):
        if all(abs(mean(rates[name], end - window, end) - fair) <= 0.1 * fair for name in on):
            return end - change
    return None


def draw_fairness():
    changes = range(100, 700, 100)
    kinds = {"DCQCN, paper": "dcqcn", "DCQCN, as NICs are shipped": "dcqcn --set profile=nic", "target delay": "swift"}
    figure, axes = pyplot.subplots(1, 3, figsize=(9, 3), sharey=True)
    for (title, kind), panel in zip(kinds.items(), axes):
        run = Run(f"--topology star:5 {PAPER.replace('4Mi', '256Ki')} --cc {kind} --workload 'long:{senders(4)}:100ms:400ms' "
                  "--duration 700ms --sample 100us")
        rates = run.rates()
        for name, points in rates.items():
            plot(panel, points, 100, label=name)
        finish(panel, title, "Gb/s" if panel is axes[0] else "")
        times = []
        for change in changes:
            on = [f"h{i + 1}" for i in range(4) if i * 100 <= change < i * 100 + 400]
            times.append(converged(rates, change, on, 40 * 1024 / 1106 / len(on)))
        print(f"  within a tenth of the fair share after {times} ms of the joins and leaves at {list(changes)} ms")
    save(figure, "fairness")


def draw_incast():
    wide = "--window 16384"
    kinds = {"NICs obey": f"{wide} --nic-pfc hardware", "engines obey": f"{wide} --nic-pfc engine", "no PFC": f"{wide} --pfc off",
             "no PFC, DCQCN": f"{wide} --pfc off --cc dcqcn", "no PFC, a window": "--pfc off",
             "the same, selective repeat": "--pfc off --loss-recovery selective"}
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.2), sharey=True)
    for panel, (size, packets) in zip(axes, (("64Ki", 64), ("1Mi", 1024))):
        for number, (title, options) in enumerate(kinds.items()):
            heights, labels = [], []
            for count in (8, 16, 32, 64):
                run = Run(f"--topology star:{count + 1} --workload incast:{count}:{size} --buffer 8M {options}")
                flows = run.tables["flows"]
                ideal = float(flows[0]["ideal_us"]) + (count - 1) * packets * 1106 * 8 / 100e3
                heights.append(max(float(flow["end_us"]) for flow in flows) / ideal)
                drops = run.number("dropped")
                labels.append(drops)
                print(f"  {count}:1 {size} {title}: {heights[-1]:.3f} of ideal, {drops} drops, {run.number('pauses')} pauses")
            bars = panel.bar([i + 0.15 * number - 0.375 for i in range(4)], heights, 0.15, label=title)
            for bar, drops in zip(bars, labels):
                if drops:
                    panel.annotate(f"{drops}", (bar.get_x() + 0.075, bar.get_height()), ha="center", va="bottom", fontsize=6)
        panel.set_xticks(range(4), [f"{count}:1" for count in (8, 16, 32, 64)])
        panel.set_yscale("log")
        finish(panel, f"{size}B from each (numbers: drops)", "time / ideal" if panel is axes[0] else "", "", None)
    axes[0].legend(fontsize=7)
    save(figure, "incast")


# Where the nodes of the topology `victim` are drawn.
PLACES = {"s1": (3, 3), "s2": (5, 3), "l1": (1.5, 2), "l2": (2.9, 2), "l3": (5.1, 2), "l4": (6.5, 2), "t1": (1.2, 1),
          "t2": (3.2, 1), "t3": (4.9, 1), "t4": (6.8, 1), "victim-a": (0, 0), "h11": (0.6, 0), "h12": (1.2, 0), "h13": (1.8, 0),
          "h14": (2.4, 0), "victim-b": (3.2, 0), "h31": (4.6, 0), "h32": (5.2, 0), "r": (6.8, 0)}


def draw_network(axes, run, title, duration_us):
    """Each cable in the colour of the part of the time for which one of its ends was silenced."""
    shade = colors.Normalize(0, 100)
    paused = {tuple(row["cable"].split(">")): 100 * float(row["paused_us"]) / duration_us for row in run.tables["cables"]}
    for (a, b), part in paused.items():
        if part < paused[b, a] or (part == paused[b, a] and a > b):
            continue
        (x, y), (to_x, to_y) = PLACES[a], PLACES[b]
        axes.plot([x, to_x], [y, to_y], color=cm.YlOrRd(shade(part)) if part >= 1 else "lightgray", linewidth=3 if part >= 1 else 1)
    rates = run.rates()
    for name, (x, y) in PLACES.items():
        axes.plot([x], [y], "s" if y else "o", color="tab:blue" if "victim" in name else "black", markersize=5)
        if y:
            axes.annotate(name, (x, y), xytext=(4, 5), textcoords="offset points", fontsize=7)
            continue
        rate = mean(rates[name], duration_us / 2e3) if name in rates else None
        axes.annotate(name.replace("victim-", "v") + (f"\n{rate:.1f}" if rate else ""), (x, y), xytext=(0, -20),
                      textcoords="offset points", ha="center", fontsize=7)
    axes.set_title(title, fontsize=9)
    axes.set(xlim=(-0.5, 7.3), ylim=(-1.1, 3.3))
    axes.axis("off")
    return cm.ScalarMappable(shade, cm.YlOrRd)


def draw_spreading():
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.4))
    for panel, kind, title in zip(axes, ("none", "dcqcn"), ("no congestion control", "DCQCN")):
        run = Run(f"--topology victim {PAPER} --workload long --cc {kind} --duration 60ms --pauses")
        draw_network(panel, run, f"{title}: Gb/s below each sender", 60e3)
        print("  " + ", ".join(f"{name} {mean(points, 30):.2f}" for name, points in run.rates().items()))
        print("\n".join("  " + line for line in run.text.splitlines() if "% of the time" in line))
    handles = [patches.Patch(color=cm.YlOrRd(part), label=f"{100 * part:.0f} %") for part in (0.3, 0.6, 0.9)]
    figure.legend(handles=[patches.Patch(color="lightgray", label="0 %"), *handles], loc="lower center", fontsize=7, ncol=4,
                  title="of the time paused", title_fontsize=7)
    save(figure, "spreading")


def draw_pathologies():
    figure, axes = pyplot.subplots(1, 3, figsize=(9, 3))
    storm = "--fault 'h0>s0=pause-storm prio=3 from 1ms for 10ms'"
    for panel, watchdog, title in zip(axes, ("", "--watchdog 2ms"), ("storm", "storm, watchdog 2 ms")):
        run = Run(f"--topology star:5 --workload 'long:h1>h0,h1>h2,h3>h4' --window 8192 --duration 15ms {storm} {watchdog}")
        for flow, name in enumerate(("h1 to h0, the broken one", "h1 to h2", "h3 to h4")):
            plot(panel, run.rates("flow")[str(flow)], 120, label=name)
        panel.axvspan(1, 11, color="tab:gray", alpha=0.15)
        finish(panel, title, "Gb/s" if panel is axes[0] else "")
        panel.set_ylim(0, 100)
        print(f"  watchdog fired {run.number('times') if 'watchdog fired' in run.text else 0}, {run.number('dropped')} drops")
    axes[1].legend(fontsize=6, loc="upper right", bbox_to_anchor=(1, 0.9))
    for watchdog, title in (("", "none"), ("--watchdog 2ms", "2 ms")):
        run = Run("--topology ring:5 --workload 'long:h0>h2,h1>h3,h2>h4,h3>h0,h4>h1' --buffer 2M --window 8192 --duration 15ms "
                  f"{watchdog}")
        plot(axes[2], [(float(row["time_us"]) / 1e3, float(row["gbps"])) for row in run.tables["samples"]], label=title)
        print(f"  {run.text.splitlines()[2]}; {run.number('dropped')} drops")
    finish(axes[2], "deadlock in a ring: sum", "")
    axes[2].legend(fontsize=7, title="watchdog", title_fontsize=7)
    save(figure, "pathologies")


PICTURES = {"dcqcn": draw_dcqcn, "fairness": draw_fairness, "incast": draw_incast, "spreading": draw_spreading,
            "pathologies": draw_pathologies}


def main():
    global PROGRAM, OUT
    parser = argparse.ArgumentParser(description="makes the pictures of doc/congestion-figures.md")
    parser.add_argument("program", type=pathlib.Path, help="uroce-sim")
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *PICTURES], help=", ".join(PICTURES))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("doc/pictures"), help="doc/pictures")
    arguments = parser.parse_args()
    PROGRAM, OUT = arguments.program.resolve(), arguments.out
    for name in arguments.names or PICTURES:
        PICTURES[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
