#!/usr/bin/env python3
"""Runs the workloads of threads/ under pirn and its peers, in turn, and prints medians.

    cargo build --release && benches/peers/scripts/threads.py [--rounds N] [--pirn FILE] [WORKLOAD]...

A figure is the CPU time of the whole process, less that of the same program without any operations,
for each operation; for `million` also the peak of the resident memory, less the same, for each task.
All run on one processor's worth of threads (collectors and compilers may have their own). Peers that
are not installed are left out. Only ratios within one run mean anything.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "threads"

# Name, operations, what one is, and the target: the most that the ratio to a peer may be.
WORKLOADS = {
    "yield": (4_000_000, "a switch from one task to another", ("luajit -joff", 1.0)),
    "spawn": (400_000, "a task spawned and joined", ("lua5.4", 0.5)),
    "message": (2_000_000, "a message of a ping-pong over two rendezvous channels", ("go", 0.35)),
    "million": (1_000_000, "a task spawned, blocked, woken, joined", (None, 1.0)),
}
# Peers that take part in fewer, with the name of the workload there.
LUA_TURNS = {"yield": "turns"}
# The most resident bytes for a suspended task of pirn.
MOST_BYTES = 350


def find_java():
    """The newest JDK, if it has virtual threads."""
    folders = [Path(os.environ["JAVA_HOME"])] if "JAVA_HOME" in os.environ else []
    folders += sorted(Path("/usr/lib/jvm").glob("*"))
    found = []
    for folder in folders:
        java, javac = folder / "bin/java", folder / "bin/javac"
        if java.exists() and javac.exists():
            text = subprocess.run([str(javac), "-version"], capture_output=True, text=True)
            version = int(text.stdout.split()[-1].split(".")[0] or text.stderr.split()[-1])
            found.append((version, folder))
    version, folder = max(found, default=(0, None))
    return folder if version >= 21 else None


def contenders(pirn, build):
    """Commands to which the workload and the operations are appended."""
    found = {"pirn": ([pirn, "run", str(SOURCES / "threads.n")], {})}
    lua = str(SOURCES / "threads.lua")
    if shutil.which("luajit"):
        found["luajit -joff"] = (["luajit", "-joff", lua], {})
        found["luajit -joff, by turns"] = (["luajit", "-joff", lua], LUA_TURNS)
        found["luajit"] = (["luajit", lua], {})
    if shutil.which("lua5.4"):
        found["lua5.4"] = (["lua5.4", lua], {})
    if shutil.which("go"):
        program = str(build / "threads-go")
        environment = dict(os.environ, GO111MODULE="off", GOTOOLCHAIN="local", CGO_ENABLED="0")
        environment.update(GOCACHE=str(build / "go-cache"), GOPATH=str(build / "go-path"))
        command = ["go", "build", "-o", program, str(SOURCES / "threads.go")]
        if subprocess.run(command, env=environment).returncode == 0:
            found["go"] = ([program], {})
    if shutil.which("erlc"):
        subprocess.run(["erlc", "-o", str(build), str(SOURCES / "threads.erl")], check=True)
        # One scheduler, which does not spin when it has nothing to do.
        flags = "+S 1:1 +SDcpu 1:1 +SDio 1 +A 1 +P 4000000 +sbwt none +sbwtdcpu none +sbwtdio none"
        command = ["erl", *flags.split(), "-noshell", "-pa", str(build), "-run", "threads", "main"]
        found["erlang"] = (command, {})
    java = find_java()
    if java:
        javac = [str(java / "bin/javac"), "-d", str(build), str(SOURCES / "Threads.java")]
        subprocess.run(javac, check=True)
        carriers = ["parallelism=1", "maxPoolSize=1"]
        flags = [f"-Djdk.virtualThreadScheduler.{flag}" for flag in carriers]
        command = [str(java / "bin/java"), *flags, "-XX:+UseSerialGC", "-cp", str(build), "Threads"]
        found["loom"] = (command, {})
    if shutil.which("node"):
        found["node"] = (["node", str(SOURCES / "threads.js")], {})
    return found


def run(command):
    """CPU seconds and peak resident bytes of a child; none if it does not know the workload."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode == 3:
        return None
    if child.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {child.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def measure(found, workload, operations, rounds):
    """For each contender a list of (nanoseconds, bytes) for one operation, a pair a round."""
    samples = {}
    for _ in range(rounds):
        for name, (command, names) in found.items():
            if names and workload not in names:
                continue
            command = command + [names.get(workload, workload)]
            idle, busy = run(command + ["0"]), run(command + [str(operations)])
            if idle is None or busy is None:
                continue
            sample = [(full - empty) / operations for full, empty in zip(busy, idle)]
            samples.setdefault(name, []).append((sample[0] * 1e9, sample[1]))
    return samples


def report(workload, samples):
    operations, what, (peer, limit) = WORKLOADS[workload]
    print(f"\n{workload}: {what}, {operations} times")
    medians = {
        name: [statistics.median(column) for column in zip(*values)]
        for name, values in samples.items()
    }
    ours = medians["pirn"]
    for name, (nanoseconds, size) in sorted(medians.items(), key=lambda item: item[1][0]):
        line = f"  {name:24}{nanoseconds:10.1f} ns"
        if workload == "million":
            line += f"{size:8.0f} B"
        if name == "pirn":
            if workload == "million":
                line += f"   target {MOST_BYTES} B {'met' if size <= MOST_BYTES else 'MISSED'}"
        else:
            ratio = ours[0] / nanoseconds if nanoseconds > 0 else float("inf")
            line += f"   pirn is at {ratio:.2f}"
            if name == peer or (peer is None and name in ("erlang", "go", "loom")):
                line += f", target {limit} {'met' if ratio <= limit else 'MISSED'}"
        print(line, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pirn", default=str(HERE.parents[2] / "target/release/pirn"))
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=", ".join(WORKLOADS))
    options = parser.parse_args()
    unknown = set(options.workloads) - set(WORKLOADS)
    if unknown:
        parser.error(f"no such workload: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as build:
        found = contenders(options.pirn, Path(build))
        for workload in options.workloads or WORKLOADS:
            samples = measure(found, workload, WORKLOADS[workload][0], options.rounds)
            report(workload, samples)


if __name__ == "__main__":
    main()
