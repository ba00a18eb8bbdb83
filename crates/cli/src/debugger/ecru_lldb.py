# Commands for lldb that show the tasks of a program of ecru, live or in a core:
#
#     ecru tasks          all tasks: state, what each waits for and where, where it was spawned
#     ecru bt ID          the stack of a task, with the locals if there is debug information
#     ecru bt running     the stacks of the running tasks
#     ecru bt all         the stacks of all tasks that have one
#     ecru switch ID      go to a parked task, which becomes a thread: `bt`, `up`, `frame variable`
#     ecru switch         take these threads away again
#
# Load it with `command script import ecru_lldb.py`. `ecru lldb-script` prints it. The name of the file
# must be one of a module of Python: lldb refuses a hyphen.
#
# It reads the table that ecru keeps in the section `.ecru_debugger`, and no debug information. It
# neither writes to the program nor calls a function of it. A task that is looked at is shown as one
# more thread, by lldb's interface for the threads of an operating system.

import os
import re
import struct

import lldb


class Failure(Exception):
    pass


class State:
    """What the commands and the plugin share. lldb may load this file twice."""

    def __init__(self):
        # The debugger that runs a command.
        self.debugger = None
        # The process, and how often it had stopped when the tasks were chosen.
        self.stop = None
        # The registers and the names of the chosen tasks, by the numbers of their threads.
        self.threads = {}


if not hasattr(lldb, "ecru_state"):
    lldb.ecru_state = State()

PLUGIN = "target.process.python-os-plugin-path"
# The registers in the order in which the plugin gives them, with their numbers in DWARF.
REGISTERS = [
    ("rax", 0), ("rbx", 3), ("rcx", 2), ("rdx", 1), ("rdi", 5), ("rsi", 4), ("rbp", 6), ("rsp", 7),
    ("r8", 8), ("r9", 9), ("r10", 10), ("r11", 11), ("r12", 12), ("r13", 13), ("r14", 14),
    ("r15", 15), ("rip", 16),
]
GENERIC = {"rip": "pc", "rsp": "sp", "rbp": "fp"}


def the_process():
    process = lldb.ecru_state.debugger.GetSelectedTarget().GetProcess()
    if not process.IsValid():
        raise Failure("There is no process.")
    return process


def stop_of(process):
    return process.GetUniqueID(), process.GetStopID()


def read(address, size):
    error = lldb.SBError()
    data = the_process().ReadMemory(address, size, error) if size else b""
    if error.Fail():
        raise Failure("The memory at %#x cannot be read: %s." % (address, error.GetCString()))
    return data


def sections():
    """Yields the bounds of the sections with the tables, as they are in memory."""
    target = the_process().GetTarget()
    for module in target.module_iter():
        for section in module.section_iter():
            yield from found_in(section, target)


def found_in(section, target):
    if section.GetName() == SECTION:
        start = section.GetLoadAddress(target)
        if start != lldb.LLDB_INVALID_ADDRESS:
            yield start, start + section.GetByteSize()
    for n in range(section.GetNumSubSections()):
        yield from found_in(section.GetSubSectionAtIndex(n), target)


def thread_of(worker):
    thread = the_process().GetThreadByID(worker.thread)
    return thread if thread.IsValid() else None


class OperatingSystemPlugIn:
    """Adds the chosen tasks to the threads of the process."""

    def __init__(self, process):
        self.process = process

    def get_thread_info(self):
        state = lldb.ecru_state
        if state.stop != stop_of(self.process):
            # The process has run, so the tasks may be elsewhere.
            state.threads = {}
        return [
            {"tid": tid, "name": name, "state": "stopped", "stop_reason": "none"}
            for tid, (name, _) in state.threads.items()
        ]

    def get_register_info(self):
        registers = []
        for n, (name, number) in enumerate(REGISTERS):
            register = {
                "name": name,
                "bitsize": 64,
                "offset": 8 * n,
                "encoding": "uint",
                "format": "hex",
                "set": 0,
                "gcc": number,
                "dwarf": number,
                "ehframe": number,
            }
            if name in GENERIC:
                register["generic"] = GENERIC[name]
            registers.append(register)
        return {"sets": ["GPR"], "registers": registers}

    def get_register_data(self, tid):
        _, saved = lldb.ecru_state.threads.get(tid, ("", {}))
        return struct.pack("<%dQ" % len(REGISTERS), *(saved.get(name, 0) for name, _ in REGISTERS))


def show_threads(tasks):
    """Makes threads of these tasks, and takes earlier ones away."""
    process = the_process()
    architecture = process.GetTarget().GetTriple()
    if not architecture.startswith("x86_64"):
        raise Failure("The stacks of tasks are not known on %s." % architecture)
    state = lldb.ecru_state
    state.stop = stop_of(process)
    state.threads = {}
    for task in tasks:
        saved = task.frame()
        if saved is None:
            raise Failure("Task %s has no stack: it is %s." % (task.key(), task.state))
        state.threads[task.header] = (task.name or task.key(), saved[0])
    # lldb asks the plugin for the threads again.
    run("settings set %s %s" % (PLUGIN, state.path))


def run(command):
    result = lldb.SBCommandReturnObject()
    lldb.ecru_state.debugger.GetCommandInterpreter().HandleCommand(command, result)
    if not result.Succeeded():
        raise Failure(result.GetError().strip())
    return result.GetOutput()


def print_frames(thread, end, out):
    for frame in thread:
        if end is not None and frame.GetSP() >= end:
            break
        name = re.sub("::h[0-9a-f]{16}$", "", frame.GetFunctionName() or "%#x" % frame.GetPC())
        line = "#%-3d %s" % (frame.GetFrameID(), name)
        place = frame.GetLineEntry()
        if place.IsValid():
            line += " at %s:%d" % (place.GetFileSpec(), place.GetLine())
        print(line, file=out)
        for local in frame.GetVariables(True, True, False, True):
            print("        %s = %s" % (local.GetName(), value_of(local)), file=out)


def value_of(local):
    return local.GetValue() or local.GetSummary() or "(%s)" % local.GetTypeName()


def backtrace(tasks, out):
    parked = [task for task in tasks if task.state != "running"]
    show_threads(parked)
    try:
        for task in tasks:
            print(describe(task), file=out)
            if task.state == "running":
                thread, end = thread_of(task.worker), None
            else:
                thread, end = the_process().GetThreadByID(task.header), task.frame()[1]
            if thread is None or not thread.IsValid():
                raise Failure("The thread %d is not known." % task.worker.thread)
            print_frames(thread, end, out)
            print(file=out)
    finally:
        show_threads([])


def command(function):
    """Makes a command of lldb of a function of an argument and an output."""

    def run_it(debugger, argument, result, _):
        lldb.ecru_state.debugger = debugger
        try:
            function(argument.strip(), result)
        except Failure as failure:
            result.SetError(str(failure))

    run_it.__doc__ = function.__doc__
    return run_it


@command
def ecru_tasks(_, out):
    """List all tasks, by the threads of their workers."""
    count = 0
    for worker in sorted(workers(), key=lambda worker: (worker.thread, worker.index)):
        thread = thread_of(worker)
        shown = "thread %d" % thread.GetIndexID() if thread else "no thread"
        print("worker %d (%s, LWP %d)" % (worker.index, shown, worker.thread), file=out)
        for task in worker.tasks():
            print("  " + describe(task), file=out)
            count += 1
    print("%d tasks" % count if count != 1 else "1 task", file=out)


@command
def ecru_bt(argument, out):
    """Print the stack of a task: ecru bt ID, ecru bt NAME, ecru bt running, ecru bt all."""
    if argument in ("all", "running"):
        everything = list(all_tasks())
        running = [task for task in everything if task.state == "running"]
        parked = [task for task in everything if task.state != "running" and task.frame()]
        backtrace(running + (parked if argument == "all" else []), out)
    else:
        backtrace([find(argument)], out)


@command
def ecru_switch(argument, out):
    """Go to a parked task: ecru switch ID. Without an ID, take the threads of tasks away."""
    if not argument:
        show_threads([])
        return
    task = find(argument)
    if task.state == "running":
        show_threads([])
        thread = thread_of(task.worker)
    else:
        show_threads([task])
        thread = the_process().GetThreadByID(task.header)
    if thread is None or not thread.IsValid():
        raise Failure("The thread %d is not known." % task.worker.thread)
    the_process().SetSelectedThread(thread)
    print(describe(task), file=out)
    print(thread.GetFrameAtIndex(0), file=out)


def __lldb_init_module(debugger, _):
    state = lldb.ecru_state
    if hasattr(state, "path"):
        return
    state.path = os.path.abspath(__file__)
    debugger.HandleCommand("command container add -h 'Show the tasks of a program of ecru.' ecru")
    for name in ("tasks", "bt", "switch"):
        debugger.HandleCommand(
            "command script add -f %s.ecru_%s ecru %s" % (__name__, name, name)
        )
