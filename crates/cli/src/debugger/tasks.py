# The tasks of a program of ecru, for any debugger. The script of the debugger defines `read`, which
# reads memory, `sections`, which finds sections by their name, and `Failure`.

SECTION = ".ecru_debugger"
MAGIC = b"ecru-gdb"
VERSION = 1
HEAD = 24
FIELD = 32
UNKNOWN = 2**64 - 1
# A list that is longer than this is damaged, or was read while it changed.
TASKS_MAX = 10_000_000


def number(address, size=8):
    return int.from_bytes(read(address, size), "little")


def signed(address):
    return int.from_bytes(read(address, 8), "little", signed=True)


def text(address, size):
    return read(address, size).decode("utf-8", "replace") if 0 < size < 100_000 else ""


class Table:
    """The offsets of one version of ecru in the program."""

    def __init__(self, address):
        self.newest = number(address + 16)
        self.fields = {}
        for n in range(number(address + 12, 4)):
            at = address + HEAD + n * FIELD
            name = read(at, 24).rstrip(b"\0").decode()
            self.fields[name] = number(at + 24)
        layouts = self.fields["layouts"].to_bytes(8, "little")
        self.text_at, self.text_len, self.text_cap = layouts[0:3]
        self.file_at, self.file_len, self.line, self.column = layouts[3:7]
        self.knows_layouts = self.fields["layouts"] != UNKNOWN

    def of(self, base, name, size=8):
        return number(base + self.fields[name], size)

    def place(self, address):
        """Returns a `Location` as text."""
        if not address or not self.knows_layouts:
            return "?"
        file = text(number(address + self.file_at), number(address + self.file_len))
        line, column = number(address + self.line, 4), number(address + self.column, 4)
        return "%s:%d:%d" % (file.rstrip("\0"), line, column)

    def string(self, address):
        """Returns an `Option<String>`."""
        if not self.knows_layouts or number(address + self.text_cap) >= 2**63:
            return None
        return text(number(address + self.text_at), number(address + self.text_len))


def tables():
    found = []
    for start, end in sections():
        at = start
        while at + HEAD <= end:
            if read(at, 8) != MAGIC:
                at += 8
                continue
            version = number(at + 8, 4)
            if version != VERSION:
                raise Failure(
                    "The program's table has version %d, and this script reads version %d: "
                    "use the script of the program's version of ecru." % (version, VERSION)
                )
            found.append(Table(at))
            at += HEAD + FIELD * len(found[-1].fields)
    if not found:
        raise Failure("There is no section %s: no program of ecru is loaded." % SECTION)
    return found


class Task:
    def __init__(self, table, worker, header, state):
        self.table, self.worker, self.header, self.state = table, worker, header, state
        self.id = table.of(header, "task.id")
        note = table.of(header, "task.note")
        kind = table.fields["note.root"] | table.fields["note.label"]
        self.is_root = bool(note & table.fields["note.root"])
        place = note & ~kind
        if note & table.fields["note.label"]:
            place = table.of(place, "label.place")
        self.spawned_at = table.place(place)
        extra = table.of(header, "task.extra")
        self.name = table.string(extra + table.fields["extra.name"]) if extra else None
        self.at = None
        self.fiber = None
        running = table.of(header, "task.running")
        if state == "parked" and running:
            self.look_at(running)

    def look_at(self, running):
        table = self.table
        wait = table.of(running, "running.parked_on")
        if not wait or table.of(wait, "wait.claim", 4):
            self.state = "ready"
        else:
            what = table.of(wait, "wait.what") + table.fields["what.text"]
            self.state = "waits for " + text(number(what), number(what + 8))
            self.at = table.place(table.of(wait, "wait.at"))
        if table.of(self.header, "task.has_fiber", 1):
            self.fiber = running + table.fields["running.fiber"]
            if self.stack_pointer() == 0:
                self.state = "runs another task in its place"

    def stack_pointer(self):
        if self.fiber is None or self.table.fields["fiber.stack_pointer"] == UNKNOWN:
            return 0
        return self.table.of(self.fiber, "fiber.stack_pointer")

    def key(self):
        """The number of the task, or its address if the program has not asked for a number."""
        return "#%d" % self.id if self.id else "@%x" % self.header

    def frame(self):
        """Returns the saved registers, and the stack pointer of the frame in which the stack ends.
        x86-64: `doc/debugging.md` says where they are."""
        if self.is_root and self.state != "running":
            link = self.worker.link()
            if not link:
                return None
            rbp, rip, rbx = number(link), number(link + 8), number(link + 16)
            return {"rip": rip, "rsp": link + 24, "rbp": rbp, "rbx": rbx}, None
        saved = self.stack_pointer()
        if not saved:
            return None
        rip, rbx, rbp = number(saved), number(saved + 8), number(saved + 16)
        end = self.table.of(self.fiber, "fiber.first") + 8
        return {"rip": rip, "rsp": saved + 24, "rbp": rbp, "rbx": rbx}, end


class Worker:
    def __init__(self, table, shared):
        self.table, self.shared = table, shared
        self.address = table.of(shared, "shared.worker")
        self.thread = table.of(shared, "shared.thread", 4)
        self.index = table.of(self.address, "worker.index")

    def link(self):
        """The stack pointer of the root while the scheduler runs, which the switch has stored below
        the top of the scheduler's stack."""
        scheduler = self.table.of(self.address, "worker.scheduler")
        if not scheduler or self.table.fields["scheduler.top"] == UNKNOWN:
            return 0
        return number(self.table.of(scheduler, "scheduler.top") - 16)

    def running(self):
        return self.table.of(self.table.of(self.shared, "shared.local"), "local.task")

    def entries(self, list_name, task_name):
        link = self.table.of(self.address, list_name)
        for _ in range(TASKS_MAX):
            if not link:
                return
            yield self.table.of(link, task_name)
            link = self.table.of(link, "link.next")

    def chain(self, header):
        for _ in range(TASKS_MAX):
            if not header:
                return
            yield header
            header = self.table.of(header, "task.next")

    def unstarted(self):
        table = self.table
        deque = self.shared + table.fields["shared.unstarted"]
        top = signed(deque + table.fields["deque.top"])
        bottom = signed(deque + table.fields["deque.bottom"])
        slots = table.of(deque, "deque.buffer") + table.fields["buffer.slots"]
        at, count = number(slots), number(slots + 8)
        for n in range(top, min(bottom, top + count)):
            yield number(at + 8 * (n % count))
        yield from self.chain(table.of(self.shared, "shared.inbound"))
        yield from self.chain(table.of(self.address, "worker.ready"))
        yield from self.chain(table.of(self.address, "worker.preempted"))

    def tasks(self):
        table = self.table
        running = self.running()
        seen = {running}
        if running:
            yield Task(table, self, running, "running")
        root = table.of(self.address, "worker.root")
        if root and root not in seen:
            seen.add(root)
            yield Task(table, self, root, "parked")
        for header in self.entries("worker.started", "started.task"):
            if header not in seen:
                seen.add(header)
                yield Task(table, self, header, "parked")
        for header in self.entries("worker.pending", "pending.task"):
            if header not in seen:
                seen.add(header)
                yield Task(table, self, header, "waits for its future to be woken")
        for header in self.unstarted():
            if header not in seen and not table.of(header, "task.started", 1):
                seen.add(header)
                yield Task(table, self, header, "not started")


def workers():
    for table in tables():
        shared = number(table.newest)
        while shared:
            if table.of(shared, "shared.worker"):
                yield Worker(table, shared)
            shared = table.of(shared, "shared.next")


def all_tasks():
    for worker in sorted(workers(), key=lambda worker: (worker.thread, worker.index)):
        yield from worker.tasks()


def find(argument):
    wanted = argument.strip().lstrip("#")
    for task in all_tasks():
        if wanted in (str(task.id), task.key(), "%#x" % task.header) and wanted != "0":
            return task
        if task.name is not None and task.name == argument.strip():
            return task
    raise Failure("There is no task %s: see `ecru tasks`." % argument.strip())


def describe(task):
    name = " '%s'" % task.name if task.name is not None else ""
    begun = "the root, run at" if task.is_root else "spawned at"
    line = "%s%s: %s" % (task.key(), name, task.state)
    if task.at:
        line += " at %s" % task.at
    return "%s, %s %s" % (line, begun, task.spawned_at)
