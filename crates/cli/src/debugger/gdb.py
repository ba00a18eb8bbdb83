# Commands for gdb that show the tasks of a program of ecru, live or in a core:
#
#     ecru tasks          all tasks: state, what each waits for and where, where it was spawned
#     ecru bt ID          the stack of a task, with the locals if there is debug information
#     ecru bt running     the stacks of the running tasks
#     ecru bt all         the stacks of all tasks that have one
#     ecru switch ID      go to a parked task: `bt`, `up`, `frame 3`, `info locals` then show its stack
#     ecru switch         go back to the thread
#     ecru core FILE      save a core of the live program
#
# Load it with `source ecru-gdb.py`. `ecru gdb-script` prints it.
#
# It reads the table that ecru keeps in the section `.ecru_debugger`, and no debug information. So it
# works for release builds, and for stripped ones, too. It neither writes to the program nor calls a
# function of it.

import os
import re
import struct

import gdb
from gdb.unwinder import Unwinder, register_unwinder

Failure = gdb.GdbError


def read(address, size):
    return gdb.selected_inferior().read_memory(address, size).tobytes()


def sections():
    """Yields the bounds of the sections with the tables, as they are in memory."""
    for line in gdb.execute("info files", to_string=True).splitlines():
        words = line.split()
        # 0x0000555555600000 - 0x00005555556005a0 is .ecru_debugger [in /lib/..]
        if len(words) >= 5 and words[1] == "-" and words[3] == "is" and words[4] == SECTION:
            yield int(words[0], 16), int(words[2], 16)


def thread_of(worker):
    for thread in gdb.selected_inferior().threads():
        if thread.ptid[1] == worker.thread:
            return thread
    return None


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


class TaskUnwinder(Unwinder):
    """While a task is switched to, the innermost frame of the selected thread is followed by the
    frames of the task. Nothing in the program changes, so this works in a core, too."""

    def __init__(self):
        super().__init__("ecru")
        self.clear()

    def clear(self):
        self.thread = self.here = self.saved = self.end = None

    def __call__(self, pending):
        if self.saved is None or gdb.selected_thread() is None:
            return None
        if gdb.selected_thread().ptid != self.thread:
            return None
        rip, rsp = pending.read_register("rip"), pending.read_register("rsp")
        pc, sp = int(rip) & UNKNOWN, int(rsp) & UNKNOWN
        if (pc, sp) == self.here:
            # gdb expects frames further out at higher addresses.
            below = gdb.Value(self.saved["rsp"] - 32).cast(rsp.type)
            info = pending.create_unwind_info(FrameId(below, rip))
            for name, value in self.saved.items():
                kind = pending.read_register(name).type
                info.add_saved_register(name, gdb.Value(value).cast(kind))
            return info
        if self.end is not None and sp == self.end:
            # The task's first frame. What lies beyond was valid when the task was resumed. gdb ends
            # a backtrace at the program counter 0.
            info = pending.create_unwind_info(FrameId(rsp, rip))
            for name, value in (("rip", 0), ("rsp", sp + 8), ("rbp", 0), ("rbx", 0)):
                kind = pending.read_register(name).type
                info.add_saved_register(name, gdb.Value(value).cast(kind))
            return info
        return None


UNWINDER = TaskUnwinder()
register_unwinder(None, UNWINDER, True)


def back(*_):
    if UNWINDER.saved is not None:
        UNWINDER.clear()
        gdb.invalidate_cached_frames()


# A program that has run is somewhere else.
gdb.events.cont.connect(back)
gdb.events.exited.connect(back)


def switch(task):
    """Makes the task's frames those of the selected thread. Selects the innermost."""
    back()
    saved = task.frame()
    if saved is None:
        raise gdb.GdbError("Task %s has no stack: it is %s." % (task.key(), task.state))
    architecture = gdb.selected_frame().architecture().name()
    if "x86-64" not in architecture:
        raise gdb.GdbError("The stacks of tasks are not known on %s." % architecture)
    thread = gdb.selected_thread()
    newest = gdb.newest_frame()
    here = (
        int(newest.read_register("rip")) & UNKNOWN,
        int(newest.read_register("rsp")) & UNKNOWN,
    )
    UNWINDER.thread, UNWINDER.here = thread.ptid, here
    UNWINDER.saved, UNWINDER.end = saved
    gdb.invalidate_cached_frames()
    for frame in frames():
        frame.select()
        return


def frames():
    """Yields the frames of the task that is switched to, without its last one."""
    rip = UNWINDER.saved["rip"]
    frame = gdb.newest_frame()
    while frame is not None and frame.pc() != rip:
        frame = frame.older()
    while frame is not None:
        sp = int(frame.read_register("rsp")) & UNKNOWN
        if UNWINDER.end is not None and sp >= UNWINDER.end:
            return
        yield frame
        frame = frame.older()


def print_frames(with_locals):
    for level, frame in enumerate(frames()):
        place = frame.find_sal()
        name = re.sub("::h[0-9a-f]{16}$", "", frame.name() or "%#x" % frame.pc())
        line = "#%-3d %s" % (level, name)
        if place.symtab is not None:
            line += " at %s:%d" % (place.symtab.filename, place.line)
        print(line)
        if with_locals and frame.function() is not None:
            frame.select()
            for local in gdb.execute("info locals", to_string=True).splitlines():
                if local not in ("No locals.", "No symbol table info available."):
                    print("        " + local)


def backtrace(task):
    selected = (gdb.selected_thread(), gdb.selected_frame())
    print(describe(task))
    try:
        if task.state == "running":
            thread = thread_of(task.worker)
            if thread is None:
                raise gdb.GdbError("The thread %d is not known." % task.worker.thread)
            thread.switch()
            gdb.execute("bt -full")
        else:
            switch(task)
            print_frames(True)
    finally:
        back()
        selected[0].switch()


class EcruCommand(gdb.Command):
    """Show the tasks of a program of ecru."""

    def __init__(self):
        super().__init__("ecru", gdb.COMMAND_STACK, gdb.COMPLETE_NONE, True)


class TasksCommand(gdb.Command):
    """List all tasks, by the threads of their workers."""

    def __init__(self):
        super().__init__("ecru tasks", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        count = 0
        for worker in sorted(workers(), key=lambda worker: (worker.thread, worker.index)):
            thread = thread_of(worker)
            shown = "thread %d" % thread.num if thread else "no thread"
            print("worker %d (%s, LWP %d)" % (worker.index, shown, worker.thread))
            for task in worker.tasks():
                print("  " + describe(task))
                count += 1
        print("%d tasks" % count if count != 1 else "1 task")


class BtCommand(gdb.Command):
    """Print the stack of a task: ecru bt ID, ecru bt NAME, ecru bt running, ecru bt all."""

    def __init__(self):
        super().__init__("ecru bt", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        wanted = argument.strip()
        if wanted not in ("all", "running"):
            backtrace(find(argument))
            return
        for task in list(all_tasks()):
            is_wanted = task.state == "running" or wanted == "all" and task.frame() is not None
            if is_wanted:
                backtrace(task)
                print()


class SwitchCommand(gdb.Command):
    """Go to a parked task: ecru switch ID. Without an ID, go back to the thread."""

    def __init__(self):
        super().__init__("ecru switch", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        if not argument.strip():
            back()
            gdb.execute("frame")
            return
        task = find(argument)
        if task.state == "running":
            back()
            thread = thread_of(task.worker)
            if thread is None:
                raise gdb.GdbError("The thread %d is not known." % task.worker.thread)
            thread.switch()
        else:
            switch(task)
        print(describe(task))
        gdb.execute("frame")


CHUNK = 1 << 20
PAGE = 4096


def segments(core):
    """Yields the address, the size and the place in the file of each writable segment of a core."""
    core.seek(0)
    head = core.read(64)
    offset, sections = struct.unpack_from("<QQ", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    if count == 0xFFFF:
        core.seek(sections + 44)
        (count,) = struct.unpack("<I", core.read(4))
    core.seek(offset)
    entries = core.read(size * count)
    for n in range(count):
        kind, flags, place, address, _, length = struct.unpack_from("<IIQQQQ", entries, n * size)
        if kind == 1 and flags & 2:
            yield address, length, place


def page_of(memory, address):
    try:
        return os.pread(memory, PAGE, address)
    except OSError:
        return b""


def complete(path, pid):
    """Copies what gdb leaves out. It gives a segment up at the first page that cannot be read, and
    the guards of stacks are such pages."""
    memory = os.open("/proc/%d/mem" % pid, os.O_RDONLY)
    pages = os.open("/proc/%d/pagemap" % pid, os.O_RDONLY)
    with open(path, "r+b") as core:
        for address, length, place in list(segments(core)):
            given_up = False
            for start in range(0, length, CHUNK):
                size = min(CHUNK, length - start)
                if not given_up:
                    try:
                        given_up = len(os.pread(memory, size, address + start)) < size
                    except OSError:
                        given_up = True
                    if not given_up:
                        continue
                states = os.pread(pages, size // PAGE * 8, (address + start) // PAGE * 8)
                for n, (state,) in enumerate(struct.iter_unpack("<Q", states)):
                    # In memory, or swapped out.
                    if state >> 62:
                        data = page_of(memory, address + start + n * PAGE)
                        core.seek(place + start + n * PAGE)
                        core.write(data)
    os.close(memory)
    os.close(pages)


class CoreCommand(gdb.Command):
    """Save a core of the live program, with the stacks of its tasks: ecru core FILE."""

    def __init__(self):
        super().__init__("ecru core", gdb.COMMAND_FILES, gdb.COMPLETE_FILENAME)

    def invoke(self, argument, from_tty):
        path = os.path.expanduser(argument.strip())
        if not path:
            raise gdb.GdbError("ecru core FILE: which file?")
        gdb.execute("generate-core-file " + path, to_string=True)
        complete(path, gdb.selected_inferior().pid)
        print("Saved " + path)


EcruCommand()
TasksCommand()
BtCommand()
SwitchCommand()
CoreCommand()
