"""Steps through every instruction of some switches, with a backtrace at each.

Run by tests/gdb.rs, which says first where to stop: a dict `places` of breakpoints. Prints a line
that begins with PROBLEM for each backtrace that does not end cleanly, and at last what it saw.
"""

import re

import gdb

# What a backtrace must not say: a frame without a name, or that gdb lost its way.
BAD = ("?? ()", "corrupt stack", "Cannot access memory", "Backtrace stopped", "rror")

# Where the frames of a stack end.
ENDS = ("main", "_start", "pirn_ctx_entry", "pirn_fiber_entry")

MOST_FRAMES = 300

# How an inlined switch begins: an instruction of so many bytes, and then those that save.
SWITCHES = {
    "i386:x86-64": (7, "48894718 48896f10 48895f08 488927"),
    "aarch64": (4, "e9030091 094c00a9 1d2001a9"),
}

# How it ends: with a jump to where the other side goes on, or to the first frame of a new one.
JUMP = re.compile(r"\bjmp +\*0x18\(%rsi\)|\bbr\s+x8\b|\b(jmp|b)\s+\w+ <pirn_coroutine_entry>")


class Walk:
    """A walk of single steps."""

    def __init__(self, title):
        self.title = title
        self.backtraces = 0
        self.functions = set()

    def problem(self, what, text):
        instruction = gdb.execute("x/i $pc", to_string=True)
        print("PROBLEM in %s: %s\n%s%s" % (self.title, what, instruction, text))

    def check(self):
        """Takes a backtrace here."""
        text = gdb.execute("backtrace", to_string=True)
        self.backtraces += 1
        for bad in BAD:
            if bad in text:
                self.problem("a backtrace says '%s'" % bad, text)
        pattern = r"^#\d+ +(?:0x[0-9a-f]+ in )?(<signal handler called>|[^ (]+)"
        # With line tables only, names have a hash behind them, or no crate before them.
        names = re.findall(pattern, text, re.M)
        names = [re.sub("^step::|::h[0-9a-f]{16}$", "", name) for name in names]
        if len(names) >= MOST_FRAMES:
            self.problem("a backtrace has %d frames" % len(names), text)
        if not names or names[-1] not in ENDS:
            self.problem("a backtrace does not end at an entry", text)
        self.functions.update(names)

    def steps(self, count):
        for _ in range(count):
            gdb.execute("stepi", to_string=True)
            self.check()

    def switch(self):
        """Steps to the jump to the other side, and on for a while."""
        for _ in range(100):
            instruction = gdb.execute("x/i $pc", to_string=True)
            self.steps(1)
            if JUMP.search(instruction):
                return self.steps(20)
        self.problem("there is no switch here", "")

    def has_seen(self, wanted):
        return self.functions.issuperset(wanted)

    def report(self, *wanted):
        for name in wanted:
            if not self.has_seen([name]):
                print("PROBLEM in %s: no backtrace shows %s" % (self.title, name))
        print("DONE %s: %d backtraces" % (self.title, self.backtraces))


def go_to(place):
    gdb.execute("break " + place, to_string=True)
    gdb.execute("continue", to_string=True)


def in_assembly():
    return (gdb.newest_frame().name() or "").startswith("pirn_ctx_")


def reference():
    """Two switches there, the first of which enters a new stack, and one back."""
    walk = Walk("the reference switch")
    go_to("pirn_ctx_switch")
    for _ in range(3):
        walk.check()
        while in_assembly():
            walk.steps(1)
        walk.steps(5)
        gdb.execute("continue", to_string=True)
    walk.report("left", "right", "pirn_ctx_switch", "pirn_ctx_entry", "main")


def break_at_switches():
    """Breaks at each switch that the compiler has inlined anywhere."""
    first, rest = SWITCHES[gdb.newest_frame().architecture().name()]
    rest = bytes.fromhex(rest)
    sections = gdb.execute("info files", to_string=True)
    start, end = re.search(r"(0x\w+) - (0x\w+) is \.text$", sections, re.M).groups()
    at, end = int(start, 16), int(end, 16)
    memory = gdb.selected_inferior()
    while at := memory.search_memory(at, end - at, rest):
        gdb.execute("break *%d" % (at - first), to_string=True)
        at += len(rest)


def inlined(title, place, *wanted):
    """The switches after a place: the first one, two more, and until these have been seen."""
    walk = Walk(title)
    gdb.execute("delete")
    go_to(place)
    gdb.execute("delete")
    break_at_switches()
    for count in range(12):
        if count >= 3 and walk.has_seen(wanted):
            break
        gdb.execute("continue", to_string=True)
        walk.check()
        walk.switch()
    walk.report(*wanted)


# The argument values of a frame are read relative to registers that a switch exchanges.
gdb.execute("set print frame-arguments none")
reference()
inlined("a coroutine", places["coroutine"], "resumer", "wind", "main")
inlined("fibers", places["fibers"], "fibers", "weave", "spin", "pirn_fiber_entry")
gdb.execute("delete")
