#!/usr/bin/env python3
"""Goodput against loss, selective repeat and go-back-N, beside their closed forms: runs uroce-sim, prints the table, draws it.

    apps/uroce_sim/plot_loss.py build/apps/uroce-sim doc/pictures/goodput-against-loss.svg
"""

import math
import re
import subprocess
import sys

PATH = "--topology back-to-back --host-rate 100G --delay 300ns --mtu 4096 --window 8 --timeout 1 --pfc off"
RUN = "--workload long --drain 1ns --seed 2"
LOSSES = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.02, 0.05]
PACKET_NS = (4096 + 58 + 24) * 8 / 100
TIMER_NS = 2 * 4096


def run(program, recovery, faults, duration="20ms"):
    command = [program, *PATH.split(), *RUN.split(), "--duration", duration, "--loss-recovery", recovery]
    if faults:
        # A lost ACK costs go-back-N nothing that the form knows; selective repeat has losses on both ways.
        command += ["--fault", ("h0>h1=" if recovery == "go-back-n" else "h0_h1=") + faults]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    goodput = float(re.search(r"([\d.]+) Gb/s in all", text)[1])
    again = re.search(r"\bretransmits (\d+)", text)
    return goodput, int(again[1]) if again else 0


def svg(rows):
    left, top, width, height = 60, 20, 520, 300
    x_of = lambda p: left + width * (math.log10(p) + 4) / (math.log10(0.05) + 4)
    y_of = lambda share: top + height * (1 - share)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="620" height="380" font-family="sans-serif" font-size="12">',
           '<rect width="620" height="380" fill="white"/>']
    for share in (0, 0.2, 0.4, 0.6, 0.8, 1):
        y = y_of(share)
        out.append(f'<path d="M{left} {y:.1f}h{width}" stroke="#ddd"/><text x="{left - 8}" y="{y + 4:.1f}" '
                   f'text-anchor="end">{share:g}</text>')
    for p, label in ((1e-4, "0.01 %"), (1e-3, "0.1 %"), (1e-2, "1 %"), (5e-2, "5 %")):
        out.append(f'<path d="M{x_of(p):.1f} {top}v{height}" stroke="#ddd"/><text x="{x_of(p):.1f}" '
                   f'y="{top + height + 18}" text-anchor="middle">{label}</text>')
    curves = (("selective repeat", 1, "#1b7837", ""), ("1 - p", 2, "#1b7837", "4 4"),
              ("go-back-N", 3, "#b2182b", ""), ("its closed form", 4, "#b2182b", "4 4"))
    for n, (name, column, colour, dash) in enumerate(curves):
        points = " ".join(f"{x_of(row[0]):.1f},{y_of(row[column]):.1f}" for row in rows)
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>')
        y = top + height - 80 + 18 * n
        out.append(f'<path d="M{left + 20} {y}h30" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>'
                   f'<text x="{left + 58}" y="{y + 4}">{name}</text>')
    out.append(f'<text x="{left + width / 2}" y="{top + height + 40}" text-anchor="middle">random loss</text>')
    out.append(f'<text x="14" y="{top + height / 2}" text-anchor="middle" transform="rotate(-90 14 {top + height / 2})">'
               'goodput, of that without loss</text></svg>')
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    program, picture = sys.argv[1:]
    whole = {recovery: run(program, recovery, "")[0] for recovery in ("auto", "go-back-n")}
    # One loss alone shows how many packets leave between it and the first that is sent again.
    window = run(program, "go-back-n", "drop 1000th data", "1ms")[1]
    print(f"without loss: {whole['auto']:.2f} and {whole['go-back-n']:.2f} Gb/s; one loss costs go-back-N {window} packets")
    print("loss     selective  1 - p     go-back-n  closed form")
    rows = []
    for p in LOSSES:
        selective = run(program, "auto", f"loss {p:g}")[0] / whole["auto"]
        back = run(program, "go-back-n", f"loss {p:g}")[0] / whole["go-back-n"]
        form = (1 - p) / (1 - p + p * window + p * p * TIMER_NS / PACKET_NS)
        rows.append((p, selective, 1 - p, back, form))
        print(f"{p:<8g} {selective:<10.4f} {1 - p:<9.4f} {back:<10.4f} {form:.4f}")
    with open(picture, "w", encoding="utf-8") as file:
        file.write(svg(rows))


main()
