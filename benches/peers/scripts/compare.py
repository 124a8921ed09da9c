#!/usr/bin/env python3
"""Runs the programs here under pirn and its peers, in turn, and prints the medians of the CPU times.

    cargo build --release && benches/peers/scripts/compare.py [ROUNDS] [PIRN] [OTHER]

Peers that are not installed are left out. Where there is no package of QuickJS, `qjs` can be built
from the C sources in the crates `libquickjs-sys` and `rquickjs-sys`. The ratio is to `luajit -joff`;
below 1 pirn is faster.
With OTHER, another build of pirn, the ratio to that is told as well: what a change costs.
"""
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = ["fib", "loops", "methods", "nbody", "sort", "strings"]
# Measured as well, but no part of the mean.
OTHERS = ["alloc"]


def cpu_seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    default = HERE.parents[2] / "target/release/pirn"
    pirn = sys.argv[2] if len(sys.argv) > 2 else os.environ.get("PIRN", str(default))
    peers = {
        "pirn": ([pirn, "run"], ".n"),
        "luajit -joff": (["luajit", "-joff"], ".lua"),
        "lua5.4": (["lua5.4"], ".lua"),
        "qjs": (["qjs"], ".js"),
    }
    if len(sys.argv) > 3:
        peers["other pirn"] = ([sys.argv[3], "run"], ".n")
    peers = {name: peer for name, peer in peers.items() if shutil.which(peer[0][0])}
    bases = [base for base in ("luajit -joff", "other pirn") if base in peers]
    heads = {"luajit -joff": "ratio", "other pirn": "to other"}
    print(f"{'program':10}" + "".join(f"{name:>15}" for name in peers), end="")
    print("".join(f"{heads[base]:>10}" for base in bases))
    ratios = {base: [] for base in bases}
    for program in PROGRAMS + OTHERS:
        times = {name: [] for name in peers}
        for _ in range(rounds):
            for name, (command, suffix) in peers.items():
                source = HERE / (program + suffix)
                if source.exists():
                    times[name].append(cpu_seconds(command + [str(source)]))
        medians = {name: statistics.median(values) for name, values in times.items() if values}
        line = f"{program:10}"
        for name in peers:
            line += f"{medians[name] * 1e3:12.0f} ms" if name in medians else f"{'':15}"
        for base in bases:
            if base not in medians or "pirn" not in medians:
                line += f"{'':10}"
                continue
            ratio = medians["pirn"] / medians[base]
            line += f"{ratio:10.3f}"
            if program in PROGRAMS:
                ratios[base].append(ratio)
        print(line, flush=True)
    for base, values in ratios.items():
        if values:
            mean = math.exp(sum(map(math.log, values)) / len(values))
            print(f"geometric mean of the ratios to {base}: {mean:.3f}")


if __name__ == "__main__":
    main()
