//! The flight recorder's rings: the last events of each worker, which any thread may read.
//!
//! # Parts
//! - An *event* is something that happened on a worker, such as a switch to a task.
//! - A [`Ring`] holds the last events of one worker. Only that worker's thread writes to it.
//! - [`Rings`] are those of one runtime, and one more for the marks of other threads, behind a lock.
//!
//! The thread's own block has the address of its ring. It is null on threads without one, and on
//! all threads while nothing is recorded.
//!
//! # Protocol
//! An event takes one slot of five words. A text takes the slots after it. `head` counts the slots
//! that have ever been written, so slot number `n` is at `n % length`.
//!
//! ```text
//!   the writer                                    a reader
//!   ------------------------------------------    ------------------------------------------
//!   fence                           (Release)     end <- head                     (Acquire)
//!   write the slot with number head (Relaxed)     copy the slots before end       (Relaxed)
//!   head <- head + 1                (Release)     fence                           (Acquire)
//!                                                 now <- head                     (Relaxed)
//!                                                 drop the slots up to now - length
//! ```
//!
//! | operation | ordering | it pairs with |
//! |---|---|---|
//! | store of `head` | Release | the reader's first load: slots before `end` are complete |
//! | fence of the writer | Release | the reader's fence: a reader that sees a word of slot `n` also sees that `head` is at least `n` |
//!
//! The slot with number `now` may be half written, and it overwrites the slot `now - length`. So a
//! copy is whole if its number is greater than `now - length`. Nothing waits: a writer never looks
//! for readers, and a reader drops what was overwritten meanwhile.
//!
//! # Invariants
//! - R3: a ring exists for as long as the cell of a thread names it. Texts and places in slots are
//!   statics, and a copy is used only if it is whole.
#![expect(unsafe_code, reason = "reaches the thread's ring, and the statics that its slots name")]

mod rings;
mod ticks;

#[cfg(all(test, loom))]
mod loom_models;

use std::array;
use std::fmt;
use std::io;
use std::iter;
use std::panic::Location;
use std::ptr;

pub(crate) use self::rings::Rings;
use self::ticks::Counter;
use super::local;
use super::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};

/// The bytes of a slot.
pub(crate) const SLOT: usize = size_of::<[u64; 5]>();

/// The bytes of a text that fit into a slot.
const TEXT_IN_SLOT: usize = 16;
/// The longest text, in bytes. Longer ones are cut.
pub(crate) const TEXT_MAX: usize = 240;
/// The number of names whose last notes a ring remembers.
const NAMES: usize = if cfg!(loom) { 1 } else { 256 };

/// Returns a task's number in 48 bits. The highest bit says that a simulation has given it.
const fn short(number: u64) -> u64 {
    let low = number & (2 * SIMULATED - 1);
    if cfg!(feature = "sim") { low | (((number >> 62) & 1) * SIMULATED) } else { low }
}

const SIMULATED: u64 = 1 << 47;

/// Returns the number in an event as a person is to see it.
pub(crate) fn shown(number: u64) -> u64 {
    let is_simulated = cfg!(feature = "sim") && number & SIMULATED != 0;
    if is_simulated { number & u64::from(u32::MAX) } else { number }
}

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The running code has spawned the task at the place.
    Spawn = 1,
    /// The worker begins to run the task, which was spawned at the place.
    Start,
    /// The worker goes on to run the task, which was spawned at the place.
    Run,
    /// The running task waits for what the text and the number say, at the place.
    Park,
    /// The running task is ready, but lets others run.
    Yield,
    /// The running task has ended.
    End,
    /// The running code has woken the task. The number is that of the task that runs, or 0.
    Wake,
    /// The task, which another thread has woken, has arrived on its worker.
    Arrive,
    /// The running task has carried out the operation that the text names. The number holds the fd
    /// and the result.
    Io,
    /// The running code has cancelled the task for the reason that the text names.
    Cancel,
    /// The worker has taken unstarted tasks. The number holds the victim and the count.
    Steal,
    /// The program has marked the moment. The slots after this one hold the text.
    Mark,
    /// The name of the task is in the slots after this one.
    Name,
    /// The name of the task's simulated host is in the slots after this one.
    Host,
    /// A part of a text.
    Text,
}

impl Kind {
    fn from_bits(bits: u8) -> Option<Kind> {
        const ALL: [Kind; 15] = [
            Kind::Spawn,
            Kind::Start,
            Kind::Run,
            Kind::Park,
            Kind::Yield,
            Kind::End,
            Kind::Wake,
            Kind::Arrive,
            Kind::Io,
            Kind::Cancel,
            Kind::Steal,
            Kind::Mark,
            Kind::Name,
            Kind::Host,
            Kind::Text,
        ];
        ALL.get(usize::from(bits).checked_sub(1)?).copied()
    }
}

/// What a wait is about, as one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Nothing,
    /// An address that is the same for all waits for one object.
    Object(usize),
    Fd(i32),
    /// The number of a task.
    Task(u64),
}

impl Subject {
    const fn to_bits(self) -> u64 {
        match self {
            Subject::Nothing => 0,
            Subject::Object(address) => (address as u64) << 2 | 1,
            Subject::Fd(fd) => (fd.cast_unsigned() as u64) << 2 | 2,
            Subject::Task(task) => short(task) << 2 | 3,
        }
    }

    fn from_bits(bits: u64) -> Subject {
        let value = bits >> 2;
        match bits & 3 {
            0 => Subject::Nothing,
            1 => Subject::Object(usize::try_from(value).unwrap_or(0)),
            2 => Subject::Fd(u32::try_from(value).unwrap_or(0).cast_signed()),
            _ => Subject::Task(value),
        }
    }
}

/// An event that was read from a ring.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// The number of the ring.
    pub(crate) worker: usize,
    /// Nanoseconds since the rings were made.
    pub(crate) at: u64,
    pub(crate) kind: Kind,
    pub(crate) task: u64,
    number: u64,
    pub(crate) text: &'static str,
    pub(crate) place: Option<&'static Location<'static>>,
    /// The text of a mark, or a name.
    pub(crate) said: String,
}

impl Event {
    /// Returns what the wait that begins with this event is about.
    pub(crate) fn subject(&self) -> Subject {
        Subject::from_bits(self.number)
    }

    /// Returns the task that ran when this event happened, or 0.
    pub(crate) fn waker(&self) -> u64 {
        self.number
    }

    /// Returns two numbers: the fd and the result of an operation, or the victim and the count of a
    /// theft.
    pub(crate) fn pair(&self) -> (i32, i32) {
        let [high, low] = [self.number >> 32, self.number & u64::from(u32::MAX)];
        let signed = |half: u64| u32::try_from(half).unwrap_or(0).cast_signed();
        (signed(high), signed(low))
    }
}

fn pair(first: i32, second: i32) -> u64 {
    u64::from(first.cast_unsigned()) << 32 | u64::from(second.cast_unsigned())
}

/// Five words. All of them are atomic, because a reader may look at any time.
struct Slot {
    /// The time, in ticks. In a slot of text, its first eight bytes.
    time: AtomicU64,
    /// The kind, the length of the text, and the task, from the lowest byte up.
    head: AtomicU64,
    /// In a slot of text, its other eight bytes.
    number: AtomicU64,
    text: AtomicPtr<u8>,
    place: AtomicPtr<Location<'static>>,
}

/// A copy of a slot.
#[derive(Clone, Copy)]
struct Copied {
    time: u64,
    head: u64,
    number: u64,
    text: *const u8,
    place: *const Location<'static>,
}

impl Slot {
    fn new() -> Slot {
        Slot {
            time: AtomicU64::new(0),
            head: AtomicU64::new(0),
            number: AtomicU64::new(0),
            text: AtomicPtr::new(ptr::null_mut()),
            place: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn copy(&self) -> Copied {
        Copied {
            time: self.time.load(Ordering::Relaxed),
            head: self.head.load(Ordering::Relaxed),
            number: self.number.load(Ordering::Relaxed),
            text: self.text.load(Ordering::Relaxed),
            place: self.place.load(Ordering::Relaxed),
        }
    }
}

impl Copied {
    fn kind(&self) -> Option<Kind> {
        Kind::from_bits((self.head & 0xff) as u8)
    }

    fn length(&self) -> usize {
        usize::from((self.head >> 8 & 0xff) as u8)
    }

    fn task(&self) -> u64 {
        self.head >> 16
    }

    /// Appends the bytes of a slot of text.
    fn append_to(&self, bytes: &mut Vec<u8>) {
        let own = [self.time.to_le_bytes(), self.number.to_le_bytes()].concat();
        bytes.extend_from_slice(&own[..self.length().min(TEXT_IN_SLOT)]);
    }
}

/// The last events of one worker. See the module.
pub(crate) struct Ring {
    slots: Box<[Slot]>,
    /// The number of slots that have been written.
    head: AtomicU64,
    /// The index of the slot that is written next. Only the writer accesses it.
    next: AtomicUsize,
    /// The number of the task that runs, or 0. Only the writer accesses it.
    running: AtomicU64,
    /// For some tasks, the last note of the name or the host: its key, and its slot. Only the writer
    /// accesses it.
    names: Box<[(AtomicU64, AtomicU64); NAMES]>,
    counter: Counter,
}

impl Ring {
    fn new(bytes: usize, counter: Counter) -> io::Result<Ring> {
        let (count, mut slots) = ((bytes / SLOT).max(1), Vec::new());
        slots.try_reserve_exact(count)?;
        slots.extend(iter::repeat_with(Slot::new).take(count));
        Ok(Ring {
            slots: slots.into_boxed_slice(),
            head: AtomicU64::new(0),
            next: AtomicUsize::new(0),
            running: AtomicU64::new(0),
            names: Box::new(array::from_fn(|_| (AtomicU64::new(0), AtomicU64::new(0)))),
            counter,
        })
    }

    /// Writes an event. Called by the ring's thread only.
    #[inline(always)]
    fn write(
        &self,
        kind: Kind,
        task: u64,
        number: u64,
        text: &'static str,
        place: Option<&'static Location<'static>>,
    ) {
        let length = text.len().min(0xff);
        let head = kind as u64 | (length as u64) << 8 | task << 16;
        let (text, place) = (text.as_ptr(), place.map_or(ptr::null(), ptr::from_ref));
        match self.counter.ticks() {
            Some(time) => self.put(Copied { time, head, number, text, place }),
            None => self.put_by_clock(head, number, text, place),
        }
    }

    /// Writes an event with the time of the clock. Out of line, because a call of the clock in the
    /// middle would make each function that writes an event save its registers. The words are passed
    /// one by one: a struct would be on the stack, and would be written there for each event.
    #[cold]
    #[inline(never)]
    fn put_by_clock(
        &self,
        head: u64,
        number: u64,
        text: *const u8,
        place: *const Location<'static>,
    ) {
        self.put(Copied { time: self.counter.read(), head, number, text, place });
    }

    /// Writes an event with a text that is no static, and the number of its bytes.
    #[cold]
    fn say(&self, kind: Kind, task: u64, said: &str) {
        let end = (0..=TEXT_MAX).rev().find(|end| said.is_char_boundary(*end)).unwrap_or(0);
        self.write(kind, task, end as u64, "", None);
        self.put_text(&said.as_bytes()[..end]);
    }

    #[inline(always)]
    fn put(&self, words: Copied) {
        let (head, next) = (self.head.load(Ordering::Relaxed), self.next.load(Ordering::Relaxed));
        let slots = &*self.slots;
        let after = if next + 1 == slots.len() { 0 } else { next + 1 };
        // Release: a reader that sees a word of this slot sees this `head`, too.
        fence(Ordering::Release);
        let slot = &slots[next];
        slot.time.store(words.time, Ordering::Relaxed);
        slot.head.store(words.head, Ordering::Relaxed);
        slot.number.store(words.number, Ordering::Relaxed);
        slot.text.store(words.text.cast_mut(), Ordering::Relaxed);
        slot.place.store(words.place.cast_mut(), Ordering::Relaxed);
        // Release: a reader that sees the number sees the slot.
        self.head.store(head + 1, Ordering::Release);
        self.next.store(after, Ordering::Relaxed);
    }

    /// Writes a text into the slots after its event.
    #[cold]
    fn put_text(&self, text: &[u8]) {
        for part in text.chunks(TEXT_IN_SLOT) {
            let mut bytes = [0; TEXT_IN_SLOT];
            bytes[..part.len()].copy_from_slice(part);
            let half = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
            let head = Kind::Text as u64 | (part.len() as u64) << 8;
            let (text, place) = (ptr::null(), ptr::null());
            self.put(Copied { time: half(0), head, number: half(8), text, place });
        }
    }

    /// Copies the last events, at most `most` slots, that are complete and have not been
    /// overwritten, oldest first.
    fn copy(&self, most: usize) -> Vec<Copied> {
        let length = self.slots.len() as u64;
        let end = self.head.load(Ordering::Acquire);
        let first = end.saturating_sub(length.min(most as u64));
        let mut copies: Vec<Copied> =
            (first..end).map(|number| self.slots[(number % length) as usize].copy()).collect();
        // Acquire: if a copy has a word of a later slot, `head` is at least that slot's number.
        fence(Ordering::Acquire);
        let now = self.head.load(Ordering::Relaxed);
        // The slots from `first` on that are older than those which the ring still has.
        let overwritten = (now + 1).saturating_sub(length).saturating_sub(first);
        copies.drain(..usize::try_from(overwritten).unwrap_or(usize::MAX).min(copies.len()));
        copies
    }

    /// Reads the last events, of at most `most` slots, that are complete and have not been
    /// overwritten, oldest first. `nanos` turns ticks into nanoseconds.
    fn read(&self, worker: usize, most: usize, nanos: impl Fn(u64) -> u64, each: &mut Vec<Event>) {
        let copies = self.copy(most);
        let mut copies = copies.iter().peekable();
        while let Some(copy) = copies.next() {
            // A text whose event was overwritten is dropped.
            let Some(kind) = copy.kind().filter(|&kind| kind != Kind::Text) else { continue };
            let mut said = Vec::new();
            if matches!(kind, Kind::Mark | Kind::Name | Kind::Host) {
                while let Some(part) = copies.next_if(|copy| copy.kind() == Some(Kind::Text)) {
                    part.append_to(&mut said);
                }
                // The writer may be about to write the rest.
                if said.len() as u64 != copy.number {
                    continue;
                }
            }
            each.push(Event {
                worker,
                at: nanos(copy.time),
                kind,
                task: copy.task(),
                number: copy.number,
                text: text_of(copy),
                // SAFETY: R3: the copy is whole, so this is a static place, or null.
                place: unsafe { copy.place.as_ref() },
                said: String::from_utf8_lossy(&said).into_owned(),
            });
        }
    }

    /// Returns the number of the task that runs, or 0.
    pub(crate) fn running(&self) -> u64 {
        self.running.load(Ordering::Relaxed)
    }

    /// The running code has spawned a task.
    pub(crate) fn spawn(&self, task: u64, spawned_at: &'static Location<'static>) {
        self.write(Kind::Spawn, short(task), self.running(), "", Some(spawned_at));
    }

    /// The worker runs a task, for the first time or again.
    #[inline]
    pub(crate) fn run(
        &self,
        task: u64,
        is_first: bool,
        spawned_at: &'static Location<'static>,
        name: Option<&str>,
    ) {
        let (task, kind) = (short(task), if is_first { Kind::Start } else { Kind::Run });
        self.running.store(task, Ordering::Relaxed);
        match name {
            None => self.write(kind, task, 0, "", Some(spawned_at)),
            Some(name) => self.run_named(kind, task, spawned_at, name),
        }
    }

    /// Out of line, so that a task without a name needs no registers for the name.
    #[inline(never)]
    fn run_named(&self, kind: Kind, task: u64, spawned_at: &'static Location<'static>, name: &str) {
        self.write(kind, task, 0, "", Some(spawned_at));
        self.note(Kind::Name, task, name);
    }

    /// Notes a name that belongs to a task, unless a note of it will stay in the ring for a while.
    fn note(&self, kind: Kind, task: u64, name: &str) {
        let head = self.head.load(Ordering::Relaxed);
        let key = task << 1 | u64::from(kind == Kind::Host);
        let (noted, at) = &self.names[key as usize % NAMES];
        let age = head.saturating_sub(at.load(Ordering::Relaxed));
        if noted.load(Ordering::Relaxed) != key || age > self.slots.len() as u64 / 2 {
            noted.store(key, Ordering::Relaxed);
            at.store(head, Ordering::Relaxed);
            self.say(kind, task, name);
        }
    }

    /// Notes the simulated host of a task.
    #[cfg(feature = "sim")]
    pub(crate) fn host(&self, task: u64, host: &str) {
        self.note(Kind::Host, short(task), host);
    }

    /// Ends the stretch of the running task, and returns its number.
    #[inline(always)]
    fn stop(&self) -> u64 {
        let task = self.running();
        self.running.store(0, Ordering::Relaxed);
        task
    }

    /// The running task waits.
    #[inline]
    pub(crate) fn park(
        &self,
        what: &'static str,
        subject: Subject,
        at: Option<&'static Location<'static>>,
    ) {
        self.write(Kind::Park, self.stop(), subject.to_bits(), what, at);
    }

    /// The running task lets others run.
    #[inline]
    pub(crate) fn yields(&self) {
        self.write(Kind::Yield, self.stop(), 0, "", None);
    }

    /// The running task has ended.
    #[inline]
    pub(crate) fn end(&self) {
        self.write(Kind::End, self.stop(), 0, "", None);
    }

    /// The running code has woken a task.
    #[inline]
    pub(crate) fn wake(&self, task: u64) {
        self.write(Kind::Wake, short(task), self.running(), "", None);
    }

    /// A task that another thread has woken has arrived.
    pub(crate) fn arrive(&self, task: u64) {
        self.write(Kind::Arrive, short(task), 0, "", None);
    }

    /// The running task has carried out an operation.
    #[inline]
    pub(crate) fn io(&self, what: &'static str, fd: i32, result: i32) {
        self.write(Kind::Io, self.running(), pair(fd, result), what, None);
    }

    /// The running code has cancelled a task, or something in it.
    pub(crate) fn cancel(&self, task: u64, reason: &'static str) {
        self.write(Kind::Cancel, short(task), self.running(), reason, None);
    }

    /// The worker has stolen tasks.
    pub(crate) fn steal(&self, victim: usize, count: usize) {
        let of = |number| i32::try_from(number).unwrap_or(i32::MAX);
        self.write(Kind::Steal, 0, pair(of(victim), of(count)), "", None);
    }

    /// The program marks this moment.
    pub(crate) fn mark(&self, text: &str) {
        self.say(Kind::Mark, self.running(), text);
    }
}

/// Returns the text of a whole copy.
fn text_of(copy: &Copied) -> &'static str {
    if copy.text.is_null() {
        return "";
    }
    // SAFETY: R3: the copy is whole, so these are the pointer and the length of a static text, or
    // of its first 255 bytes.
    let bytes = unsafe { std::slice::from_raw_parts(copy.text, copy.length()) };
    str::from_utf8(bytes).unwrap_or_default()
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("slots", &self.slots.len()).finish_non_exhaustive()
    }
}

/// Calls `f` with the ring of this thread, if it has one.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(&Ring) -> R) -> Option<R> {
    let ring = local::with(|local| local.recorder.get()).cast::<Ring>();
    // SAFETY: R3: the ring exists while the cell names it.
    unsafe { ring.as_ref() }.map(f)
}

/// Gives the thread the ring until the returned guard is dropped.
pub(crate) fn enter(rings: &Rings, worker: usize) -> Recording<'_> {
    let ring = ptr::from_ref(rings.ring(worker)).cast();
    let before = local::with(|local| local.recorder.replace(ring));
    Recording { before, _rings: rings }
}

/// A guard that takes the thread's ring away.
#[derive(Debug)]
pub(crate) struct Recording<'r> {
    before: *const (),
    _rings: &'r Rings,
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        local::with(|local| local.recorder.set(self.before));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Kind, Rings, SLOT, Subject};

    #[test]
    fn subjects_survive_their_numbers() {
        let all = [
            Subject::Nothing,
            Subject::Object(0x7fff_ffff_fff8),
            Subject::Fd(-1),
            Subject::Task(9),
        ];
        for subject in all {
            assert_eq!(Subject::from_bits(subject.to_bits()), subject);
        }
    }

    #[test]
    fn the_newest_events_stay_and_texts_are_cut_at_characters() {
        let rings = Rings::new(1, 40 * SLOT).unwrap();
        let ring = rings.ring(0);
        for task in 0..1000 {
            ring.wake(task);
        }
        ring.mark(&"é".repeat(200));
        let events = rings.read(usize::MAX);
        let tasks: Vec<u64> = events.iter().map(|event| event.task).collect();
        let (mark, wakes) = tasks.split_last().unwrap();
        assert_eq!(*mark, 0);
        // 39 slots are whole, and 16 of them are those of the mark.
        assert_eq!(wakes, (977..1000).collect::<Vec<_>>());
        let mark = events.last().unwrap();
        assert_eq!((mark.kind, mark.said.as_str()), (Kind::Mark, "é".repeat(120).as_str()));
        assert!(events.windows(2).all(|pair| pair[0].at <= pair[1].at));
    }
}
