"""gdb commands for the fibers of pirn: `info fibers`, `fiber`, `fiber apply`, `fiber core`.

The script is embedded in every program that is linked with pirn, and gdb loads it by itself where
its `auto-load safe-path` allows that; `source tools/gdb/pirn.py` loads it anywhere. It needs no
type information: it reads memory by the table PIRN_DEBUG (src/sched/debugger.rs), so it works in
release builds and in core files alike.

How a fiber is selected: no register is ever written. While one is selected, an unwinder claims the
thread's innermost frame (frame 0) and says that its caller (frame 1) is pirn_coroutine_entry, with
a base register that makes the unwind information of that function lead to the fiber's saved
registers. Frame 1 counts as a signal frame, which is how gdb accepts that frames go on on another
stack, and at an address that no call returns to. So frame 2 is the innermost frame of the fiber.
A frame filter hides the frames below it from `bt`.
"""

import os
import re
import struct

import gdb
import gdb.unwinder

WORD = 8
VERSION = 2
UNKNOWN = 2**64 - 1
FAR_FUTURE = 2**64 - 1

# The fields of PIRN_DEBUG before its list of carriers.
TABLE = """
    magic version coroutine_entry
    carrier_current carrier_tasks carrier_starved
    task_id task_name task_wait task_fiber task_spawned_at
    fiber_context fiber_waiting
    vec_pointer vec_len name_pointer name_len
    location_file location_file_len location_line location_column
    unlisted capacity
""".split()
MAGIC = int.from_bytes(b"pirn-gdb", "little")

# An id is the number of its runtime, and below that its own.
NUMBER_BITS = 48

# The kinds of waiting, by their numbers (enum Waiting in src/sched/fiber.rs). The word that belongs
# to a kind lies one word behind its number.
NOTHING, SLEEP, PARK, JOIN, SCOPE, TIMER = range(6)

# The lowest three bits of a waiter's word: it is parked; from here on: its wait has ended
# (src/sched/word.rs).
PARKED = 1
FIRST_OUTCOME = 4

# By architecture: stack pointer, base register, program counter.
REGISTERS = {
    "i386:x86-64": ("rsp", "rbx", "rip"),
    "aarch64": ("sp", "x19", "pc"),
}




def read(address, count):
    """`count` bytes of the program's memory."""
    return bytes(gdb.selected_inferior().read_memory(address, count))


def words(address, count):
    """`count` words of the program's memory."""
    data = read(address, count * WORD)
    return [int.from_bytes(data[at : at + WORD], "little") for at in range(0, len(data), WORD)]


def word(address):
    """One word of the program's memory."""
    return words(address, 1)[0]


def address_of(symbol):
    """Where a symbol lies; None if there is none, as in a stripped program.

    Not by an expression: what one means depends on the language and on type information.
    """
    try:
        answer = gdb.execute("info address " + symbol, to_string=True)
    except gdb.error:
        return None
    found = re.search("0x[0-9a-f]+", answer)
    return int(found.group(), 16) if found else None


# What the program says about itself.


class Table:
    """PIRN_DEBUG of the current program, field by field."""

    def __init__(self):
        if not gdb.selected_inferior().pid:
            raise gdb.GdbError("pirn: there is no process here, and no core file")
        self.address = address_of("PIRN_DEBUG")
        if self.address is None:
            raise gdb.GdbError(
                "pirn: there is no runtime in this process: it has no symbol PIRN_DEBUG "
                "(it is not linked with pirn, or it is stripped)"
            )
        for name, value in zip(TABLE, words(self.address, len(TABLE))):
            setattr(self, name, value)
        if self.magic != MAGIC or self.version != VERSION:
            raise gdb.GdbError(
                "pirn: PIRN_DEBUG of this program has version %d, and this pirn.py knows version "
                "%d only: source the pirn.py that belongs to the program" % (self.version, VERSION)
            )

    def carriers(self):
        """The carriers that run now."""
        entries = words(self.address + len(TABLE) * WORD, 2 * self.capacity)
        pairs = zip(entries[::2], entries[1::2])
        return [Carrier(self, address, thread) for address, thread in pairs if address]

    def vector(self, address):
        """The words in a Vec of pointers."""
        if UNKNOWN in (self.vec_pointer, self.vec_len):
            raise gdb.GdbError("pirn: this program lays a Vec out in a way that pirn does not know")
        length = word(address + self.vec_len)
        return words(word(address + self.vec_pointer), length) if length else []

    def text(self, address, pointer, length):
        """The string whose pointer and length lie at these offsets; None for a null pointer."""
        if UNKNOWN in (pointer, length):
            return "?"
        start, count = word(address + pointer), word(address + length)
        return read(start, count).decode("utf-8", "replace") if start else None

    def half(self, address, offset):
        """Half a word, at an offset that may be unknown."""
        return "?" if offset == UNKNOWN else word(address + offset) & 0xFFFFFFFF


class Carrier:
    """A carrier: its fibers, its thread, and which fiber that thread stands on."""

    def __init__(self, table, address, lwp):
        self.table = table
        self.thread = find_thread(lwp)
        self.starved = table.vector(address + table.carrier_starved)
        tasks = table.vector(address + table.carrier_tasks)
        self.fibers = sorted((Fiber(self, task) for task in tasks if task), key=lambda f: f.id)
        self.current = self.stands_on(word(address + table.carrier_current))

    def stands_on(self, current):
        """The block of the fiber whose stack the thread stands on.

        During a switch that differs from what the carrier says is current. A thread that stands on
        no fiber's stack may be in a coroutine that its fiber resumed: then the carrier is right.
        """
        here = slot_of(self.stack_pointer())
        for fiber in self.fibers:
            if here is not None and fiber.block and slot_of(fiber.block) == here:
                return fiber.block
        return current

    def stack_pointer(self):
        with Place():
            self.thread.switch()
            return int(gdb.newest_frame().read_register(registers()[0]))


class Fiber:
    """A task that has not ended."""

    def __init__(self, carrier, task):
        table = carrier.table
        self.carrier = carrier
        self.task = task
        self.id = word(task + table.task_id)
        self.runtime = self.id >> NUMBER_BITS
        self.number = self.id & ((1 << NUMBER_BITS) - 1)
        name = word(task + table.task_name)
        self.name = table.text(name, table.name_pointer, table.name_len) if name else None
        self.block = word(task + table.task_fiber)

    def label(self):
        """As reports call it: "fiber 'weaver' (id 1)"."""
        return "fiber %s(id %d)" % ("'%s' " % self.name if self.name else "", self.number)

    def spawned_at(self):
        table = self.carrier.table
        at = word(self.task + table.task_spawned_at)
        return "%s:%s:%s" % (
            table.text(at, table.location_file, table.location_file_len),
            table.half(at, table.location_line),
            table.half(at, table.location_column),
        )

    def is_running(self):
        return self.block != 0 and self.block == self.carrier.current

    def state(self):
        """What it does or waits for, in the words of pirn's own reports."""
        if not self.block:
            if self.task in self.carrier.starved:
                return "waits for a stack"
            # A task without a stack has begun when it has been in a wait.
            wait = word(self.task + self.carrier.table.task_wait)
            if wait == 0:
                return "has not begun"
            return "is parked, without a stack" if wait & 7 == PARKED else "is runnable"
        if self.is_running():
            return "is running"
        if self.is_lost():
            return "is not in this core file"
        kind, value = words(self.block + self.carrier.table.fiber_waiting, 2)
        kind &= 0xFF
        woken = word(self.task + self.carrier.table.task_wait) & 7 >= FIRST_OUTCOME
        if kind == NOTHING or woken:
            return "is runnable"
        if kind == SLEEP:
            return "sleeps"
        if kind == PARK:
            text = "is parked until somebody unparks it"
            return text if value == FAR_FUTURE else text + " or its time is up"
        if kind == JOIN:
            return "waits to join " + Fiber(self.carrier, value).label()
        if kind == SCOPE:
            return "waits for %d fiber%s of its scope" % (value, "" if value == 1 else "s")
        if kind == TIMER:
            return "waits for a timer" + (" that is not set" if value == FAR_FUTURE else "")
        return "waits (kind %d)" % kind

    def is_lost(self):
        """Whether its stack was left out of the core file."""
        try:
            return word(self.context() + 3 * WORD) == 0
        except gdb.MemoryError:
            return True

    def context(self):
        """The address of its saved registers: stack pointer, base, frame, program counter."""
        return self.block + self.carrier.table.fiber_context


def regions():
    """The regions that stacks lie in: address, length, and length of each slot.

    PIRN_STACK_REGIONS is described in src/stack/region.rs.
    """
    table = address_of("PIRN_STACK_REGIONS")
    used = word(table + WORD) if table is not None else 0
    records = words(table + 2 * WORD, 6 * used) if used else []
    return [region for region in zip(records[1::6], records[2::6], records[3::6]) if region[0]]


def slot_of(address):
    """The lowest address of the stack that an address lies in; None elsewhere."""
    for base, length, slot in regions():
        if base <= address < base + length:
            return address - (address - base) % slot
    return None


def all_fibers():
    """Every fiber of the process, by runtime and number."""
    table = Table()
    fibers = [fiber for carrier in table.carriers() for fiber in carrier.fibers]
    return table, sorted(fibers, key=lambda fiber: fiber.id)


def find_fibers(text):
    """The fibers that "3", "1-3" or, with the number of the runtime in front, "2.3" names."""
    found = re.fullmatch(r"(?:(\d+)\.)?(\d+)(?:-(\d+))?", text)
    if not found:
        raise gdb.GdbError("pirn: '%s' is no fiber's id, nor a range of them" % text)
    runtime, first, last = (part and int(part) for part in found.groups())
    numbers = range(first, (first if last is None else last) + 1)
    fibers = [
        fiber
        for fiber in all_fibers()[1]
        if fiber.number in numbers and runtime in (None, fiber.runtime)
    ]
    if not fibers:
        raise gdb.GdbError("pirn: there is no fiber %s; `info fibers` lists those there are" % text)
    if last is None and len(fibers) > 1:
        ids = ", ".join("%d.%d" % (fiber.runtime, fiber.number) for fiber in fibers)
        raise gdb.GdbError("pirn: several runtimes have a fiber %s; say which: %s" % (text, ids))
    return fibers


# Threads and frames.


def registers():
    """The names of stack pointer, base register and program counter."""
    name = gdb.newest_frame().architecture().name()
    if name not in REGISTERS:
        raise gdb.GdbError("pirn: there is no stack switch for %s" % name)
    return REGISTERS[name]


def find_thread(lwp):
    """The thread with this number; for a carrier in a forked child, which has another, this one."""
    for thread in gdb.selected_inferior().threads():
        if lwp in thread.ptid[1:]:
            return thread
    return gdb.selected_thread()


def physical(frame):
    """The frame that a function inlined into it shares its registers with."""
    while frame.type() == gdb.INLINE_FRAME:
        frame = frame.older()
    return frame


class Place:
    """Remembers thread, fiber and frame, and goes back there when its block is left."""

    def __enter__(self):
        self.thread = gdb.selected_thread()
        self.selection = selected
        self.level = gdb.selected_frame().level()

    def __exit__(self, *_):
        self.thread.switch()
        if selected is not self.selection:
            put(self.selection)
        frame = gdb.newest_frame()
        while frame is not None and frame.level() < self.level:
            frame = frame.older()
        if frame is not None:
            frame.select()


class Selection:
    """A selected fiber, and the innermost frame of its thread, which leads to it."""

    def __init__(self, fiber):
        self.id = fiber.id
        self.context = fiber.context()
        self.bridge = fiber.carrier.table.coroutine_entry + 4
        self.thread = gdb.selected_thread().ptid
        frame = physical(gdb.newest_frame())
        self.names = registers()
        self.here = self.registers_of(frame)
        # The frame keeps its identity, by which gdb knows where a `step` began.
        known = re.search(r"stack=(0x[0-9a-f]+),code=(0x[0-9a-f]+)", str(frame))
        sp, pc = (int(part, 16) for part in known.groups()) if known else self.here
        self.sp, self.pc = gdb.Value(sp), gdb.Value(pc)

    def registers_of(self, frame):
        sp, _, pc = self.names
        return int(frame.read_register(sp)), int(frame.read_register(pc))

    def shows_in(self, frame):
        """Whether this frame is the innermost one of the thread that shows the fiber."""
        try:
            return self.registers_of(physical(frame)) == self.here
        except (gdb.error, ValueError):
            return False

    def newest(self):
        """The fiber's innermost frame: see the top of this file."""
        frame = physical(gdb.newest_frame()).older()
        frame = frame and frame.older()
        if frame is None or frame.pc() != word(self.context + 3 * WORD):
            raise gdb.GdbError("pirn: gdb does not find the frames of this fiber")
        return frame


# The selection in force, or None.
selected = None


def put(selection):
    """Puts a selection in force."""
    global selected
    selected = selection
    gdb.frame_filters[Hide.name].enabled = selection is not None
    gdb.invalidate_cached_frames()


class Unwinder(gdb.unwinder.Unwinder):
    """Says that the selected fiber's frames are the callers of its thread's innermost frame."""

    def __init__(self):
        super().__init__("pirn-fiber")

    def __call__(self, pending):
        if selected is None:
            return None
        try:
            if selected.registers_of(pending) != selected.here:
                return None
        except (gdb.error, ValueError):
            return None
        caller = pending.create_unwind_info(selected)
        # The assembly finds the context of the resumer 32 bytes above the base register.
        values = (word(selected.context), selected.context - 32, selected.bridge)
        for name, value in zip(selected.names, values):
            kind = pending.read_register(name).type
            caller.add_saved_register(name, gdb.Value(value).cast(kind))
        return caller


class Hide:
    """Leaves the frames that are not the selected fiber's out of backtraces."""

    name = "pirn-fiber"
    priority = 100
    enabled = False

    def filter(self, frames):
        if selected is None or not selected.shows_in(gdb.newest_frame()):
            return frames
        first = selected.newest().level()
        return (frame for frame in frames if frame.inferior_frame().level() >= first)


# The commands.


def show(fiber):
    """Selects a fiber: frames are its own from now on, until the program goes on."""
    if not fiber.block:
        raise gdb.GdbError("pirn: %s %s: it has no frames" % (fiber.label(), fiber.state()))
    put(None)
    if not fiber.is_running() and fiber.is_lost():
        raise gdb.GdbError(
            "pirn: the stack of %s is not in this core file; `fiber core` makes whole ones"
            % fiber.label()
        )
    if gdb.selected_thread().ptid != fiber.carrier.thread.ptid:
        fiber.carrier.thread.switch()
    if fiber.is_running():
        gdb.newest_frame().select()
        return
    put(Selection(fiber))
    try:
        selected.newest().select()
    except BaseException:
        put(None)
        raise


def is_shown(fiber):
    """Whether the frames that gdb shows now are this fiber's."""
    thread = gdb.selected_thread().ptid
    if selected is not None and selected.thread == thread:
        return selected.id == fiber.id
    return fiber.is_running() and fiber.carrier.thread.ptid == thread


class InfoFibers(gdb.Command):
    """List the fibers of the process: what each does or waits for, and where it was spawned.

An asterisk marks the one whose frames are shown. If several runtimes run, an id has the
number of its runtime in front."""

    def __init__(self):
        super().__init__("info fibers", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        table, fibers = all_fibers()
        several = len({fiber.runtime for fiber in fibers}) > 1
        rows = [("", "Id", "Name", "State", "Spawned at")]
        for fiber in fibers:
            number = "%d.%d" % (fiber.runtime, fiber.number) if several else str(fiber.number)
            mark = "*" if is_shown(fiber) else ""
            rows.append((mark, number, fiber.name or "", fiber.state(), fiber.spawned_at()))
        if not fibers:
            gdb.write("There are no fibers: no runtime is running.\n")
        else:
            widths = [max(map(len, column)) for column in zip(*rows)]
            for row in rows:
                cells = (cell.ljust(width) for cell, width in zip(row, widths))
                gdb.write("  ".join(cells).rstrip() + "\n")
        if table.unlisted:
            gdb.write(
                "Not listed: the fibers of %d more runtimes, beyond the first %d.\n"
                % (table.unlisted, table.capacity)
            )


class FiberCommand(gdb.Command):
    """Select a fiber: `fiber ID`. Frames are that fiber's then: bt, up, down, info locals.

Nothing in the program is changed, and when it goes on the selection is over. `fiber` alone
goes back to the frames of the thread, and says which fiber the thread runs."""

    def __init__(self):
        super().__init__("fiber", gdb.COMMAND_STACK, prefix=True)

    def invoke(self, argument, from_tty):
        if argument in ("", "current"):
            Table()
            put(None)
            gdb.newest_frame().select()
            running = [fiber for fiber in all_fibers()[1] if is_shown(fiber)]
            gdb.write("[The thread runs %s]\n" % (running[0].label() if running else "no fiber"))
        else:
            fiber = single(find_fibers(argument))
            show(fiber)
            gdb.write("[Showing %s, which %s]\n" % (fiber.label(), fiber.state()))
        gdb.execute("frame")


def single(fibers):
    if len(fibers) != 1:
        raise gdb.GdbError("pirn: one fiber at a time; `fiber apply` takes several")
    return fibers[0]


class FiberApply(gdb.Command):
    """Run a command for several fibers: `fiber apply ID… COMMAND`, `fiber apply all COMMAND`.

An ID may be a range: `fiber apply 1-3 7 bt`. Fibers that have not begun have no frames: they are
named only. The first error ends it."""

    def __init__(self):
        super().__init__("fiber apply", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        wanted, rest = [], argument.strip()
        if re.match(r"all\b", rest):
            wanted, rest = all_fibers()[1], rest[3:].strip()
        else:
            while rest[:1].isdigit():
                part, _, rest = rest.partition(" ")
                wanted += find_fibers(part)
                rest = rest.strip()
            if not wanted:
                raise gdb.GdbError("pirn: which fibers? `fiber apply ID… COMMAND`, or `all`")
        if not rest:
            raise gdb.GdbError("pirn: which command? `fiber apply all bt`")
        with Place():
            for fiber in wanted:
                gdb.write("\n%s %s, spawned at %s\n" % (
                    fiber.label().capitalize(), fiber.state(), fiber.spawned_at()
                ))
                if fiber.block:
                    show(fiber)
                    gdb.execute(rest)


class FiberCore(gdb.Command):
    """Write a core file with the stacks of all fibers: `fiber core [FILE]`.

gdb's own generate-core-file leaves the rest of a mapping out when it comes to a page that it cannot
read, and the first page of a region of stacks is a guard. Core files that the kernel writes are
whole."""

    def __init__(self):
        super().__init__("fiber core", gdb.COMMAND_DATA, gdb.COMPLETE_FILENAME)

    def invoke(self, argument, from_tty):
        Table()
        process = gdb.selected_inferior().pid
        path = os.path.expanduser(argument.strip() or "core.%d" % process)
        gdb.execute("generate-core-file " + path)
        pages = 0
        with open(path, "r+b") as core, open("/proc/%d/pagemap" % process, "rb") as pagemap:
            segments = load_segments(core)
            for base, length, _ in regions():
                for start, count in present(pagemap, base, length):
                    pages += copy(core, segments, start, count)
        gdb.write("Added %d pages of stacks to %s\n" % (pages, path))


PAGE = os.sysconf("SC_PAGE_SIZE")


def load_segments(core):
    """Address, length and place in the file of what a core file has of the memory."""
    header = core.read(64)
    (table,) = struct.unpack_from("<Q", header, 32)
    size, count = struct.unpack_from("<HH", header, 54)
    core.seek(table)
    entries = [core.read(size) for _ in range(count)]
    segments = []
    for entry in entries:
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", entry)
        if kind == 1:
            segments.append((address, length, offset))
    return segments


def present(pagemap, base, length):
    """The runs of pages that hold something, as addresses and numbers of pages."""
    pagemap.seek(base // PAGE * WORD)
    entries = struct.unpack("<%dQ" % (length // PAGE), pagemap.read(length // PAGE * WORD))
    run = 0
    for index, entry in enumerate(entries + (0,)):
        # The highest two bits: in memory, or swapped out.
        if entry >> 62:
            run += 1
        elif run:
            yield base + (index - run) * PAGE, run
            run = 0


def copy(core, segments, start, count):
    """Copies pages of the program to the core file; returns how many there were."""
    copied = 0
    for address in range(start, start + count * PAGE, PAGE):
        for first, length, offset in segments:
            if first <= address < first + length:
                try:
                    data = read(address, PAGE)
                except gdb.MemoryError:
                    continue  # a guard
                core.seek(offset + address - first)
                core.write(data)
                copied += 1
    return copied


# The program goes on, or is gone: a selection would be out of date.

calling = False


def on_resume(event):
    """Ends the selection; a call from the command line comes back to where it began."""
    if selected is not None and not calling:
        put(None)


def on_call(event):
    global calling
    calling = isinstance(event, gdb.InferiorCallPreEvent)


def install():
    """Adds commands and hooks, in place of those of an earlier load."""
    for registry, handler in getattr(gdb, "pirn_hooks", []):
        registry.disconnect(handler)
    gdb.pirn_hooks = [
        (gdb.events.cont, on_resume),
        (gdb.events.exited, on_resume),
        (gdb.events.inferior_call, on_call),
    ]
    for registry, handler in gdb.pirn_hooks:
        registry.connect(handler)
    gdb.unwinder.register_unwinder(None, Unwinder(), replace=True)
    gdb.frame_filters[Hide.name] = Hide()
    InfoFibers()
    FiberCommand()
    FiberApply()
    FiberCore()


install()
