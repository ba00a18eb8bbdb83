//! Models of lines that are notified while a gathering is read. They check that no notification is
//! lost, that the reader sees earlier writes, and that the frame can be left.

use loom::thread;
use std::ptr;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use super::{Entry, Gathering, Read};
use crate::base::sync::Checked;
use crate::park::{Limits, Mode, WaitList};
use crate::source::Source;

/// An event that happens once, such as the end of a task.
struct Event {
    /// Its lock guards `over`.
    line: WaitList,
    over: std::cell::Cell<bool>,
    /// Written before the event happens.
    written: Checked,
}

unsafe impl Send for Event {}
unsafe impl Sync for Event {}

impl Event {
    fn new() -> Arc<Event> {
        Arc::new(Event {
            line: WaitList::new(),
            over: std::cell::Cell::new(false),
            written: Checked::new(0),
        })
    }

    fn happens(&self) {
        self.written.set(1);
        {
            let _line = self.line.lock();
            self.over.set(true);
        }
        self.line.announce();
    }

    fn assert_seen(&self) {
        assert_eq!(self.written.get(), 1);
    }
}

/// A frame with a gathering, and its entries in the lines of two events.
struct Frame {
    gathering: Gathering,
    entries: Vec<Entry>,
    events: [Arc<Event>; 2],
}

unsafe impl Send for Frame {}
unsafe impl Sync for Frame {}

impl Frame {
    fn new(events: &[Arc<Event>; 2]) -> *mut Frame {
        let gathering = Gathering::new();
        let frame =
            Box::into_raw(Box::new(Frame { gathering, entries: vec![], events: events.clone() }));
        let entry =
            |index| Entry::new(unsafe { &(*frame).gathering }, ptr::without_provenance(index));
        unsafe { (*frame).entries = vec![entry(0), entry(1)] };
        let shared = unsafe { &*frame };
        for (event, entry) in events.iter().zip(&shared.entries) {
            shared.gathering.open();
            let line = event.line.lock();
            if event.over.get() {
                drop(line);
                unsafe { shared.gathering.note_late(entry) };
            } else {
                unsafe { line.push(ptr::from_ref(entry).cast()) };
            }
        }
        frame
    }

    /// Returns the next entry, or `None` if no entry is open.
    fn next(&self) -> Option<usize> {
        match self.gathering.read(Mode::Uninterruptible) {
            Read::Entry(key) => {
                self.events[key.addr()].assert_seen();
                Some(key.addr())
            }
            Read::Nothing => None,
            Read::Cancelled => unreachable!("an uninterruptible wait is never cancelled"),
        }
    }

    /// Leaves the frame.
    fn close(this: *mut Frame) {
        let mut frame = unsafe { Box::from_raw(this) };
        for (event, entry) in frame.events.iter().zip(&frame.entries) {
            event.line.lock().remove(entry.node());
        }
        frame.gathering.gone();
    }
}

fn with_events(body: impl FnOnce(&[Arc<Event>; 2])) {
    let events = [Event::new(), Event::new()];
    let threads = events.clone().map(|event| thread::spawn(move || event.happens()));
    body(&events);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn two_events_and_a_reader_of_both() {
    loom::model(|| {
        with_events(|events| {
            let frame = Frame::new(events);
            let read = [unsafe { &*frame }.next(), unsafe { &*frame }.next()];
            assert!(matches!(read, [Some(0), Some(1)] | [Some(1), Some(0)]));
            assert_eq!(unsafe { &*frame }.next(), None);
            Frame::close(frame);
        });
    });
}

#[test]
fn two_events_and_a_reader_of_the_first() {
    loom::model(|| {
        with_events(|events| {
            let frame = Frame::new(events);
            assert!(unsafe { &*frame }.next().is_some());
            Frame::close(frame);
        });
    });
}

#[test]
fn an_event_and_two_readers() {
    loom::model(|| {
        let events = [Event::new(), Event::new()];
        events[1].happens();
        let frame = Frame::new(&events);
        let place = Sent(frame);
        let event = Arc::clone(&events[0]);
        let happens = thread::spawn(move || event.happens());
        let reader = thread::spawn(move || place.frame().next());
        let own = unsafe { &*frame }.next();
        let other = reader.join().unwrap();
        assert!(own.is_some() && other.is_some() && own != other);
        assert_eq!(unsafe { &*frame }.next(), None);
        happens.join().unwrap();
        Frame::close(frame);
    });
}

#[test]
fn more_readers_than_events() {
    let mut model = loom::model::Builder::new();
    // There are three threads that park.
    model.preemption_bound = Some(1);
    model.check(|| {
        let events = [Event::new(), Event::new()];
        events[1].happens();
        let frame = Frame::new(&events);
        assert_eq!(unsafe { &*frame }.next(), Some(1));
        let place = Sent(frame);
        let event = Arc::clone(&events[0]);
        let happens = thread::spawn(move || event.happens());
        let reader = thread::spawn(move || place.frame().next());
        let own = unsafe { &*frame }.next();
        let other = reader.join().unwrap();
        assert!(matches!((own, other), (Some(0), None) | (None, Some(0))));
        happens.join().unwrap();
        Frame::close(frame);
    });
}

/// A limit that cancels a wait as soon as it would have to park.
static AT_ONCE: Limits = Limits { nearest: || Some((*PAST, ptr::null())), expire: |_| {} };

/// A time that has passed as soon as a thread sleeps.
static PAST: LazyLock<Instant> = LazyLock::new(Instant::now);

#[test]
fn an_event_against_a_cancellation() {
    loom::model(|| {
        let events = [Event::new(), Event::new()];
        let event = Arc::clone(&events[0]);
        let happens = thread::spawn(move || event.happens());
        let frame = Frame::new(&events);
        let shared = unsafe { &*frame };
        crate::park::set_limits(&AT_ONCE);
        match shared.gathering.read(Mode::Cancellable) {
            Read::Entry(key) => assert_eq!(key.addr(), 0),
            // The entry is there for the next read.
            Read::Cancelled => assert_eq!(shared.next(), Some(0)),
            Read::Nothing => unreachable!("one entry is open"),
        }
        Frame::close(frame);
        happens.join().unwrap();
    });
}

/// A pointer for another thread, which is joined before the frame is left.
struct Sent(*const Frame);
unsafe impl Send for Sent {}

impl Sent {
    fn frame(&self) -> &Frame {
        unsafe { &*self.0 }
    }
}

/// A source over a gathering, as a set of tasks is one.
struct Onlooker<'f>(&'f Frame);

impl Source for Onlooker<'_> {
    type Item = Option<usize>;

    fn try_take(&self) -> Option<Option<usize>> {
        match self.0.gathering.try_read()? {
            Read::Entry(key) => Some(Some(key.addr())),
            Read::Nothing | Read::Cancelled => Some(None),
        }
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(self.0.gathering.watch());
    }
}

#[test]
fn an_onlooker_is_told_of_events_and_of_their_end() {
    loom::model(|| {
        let events = [Event::new(), Event::new()];
        events[1].happens();
        let frame = Frame::new(&events);
        let place = Sent(frame);
        let event = Arc::clone(&events[0]);
        let happens = thread::spawn(move || event.happens());
        let reader = thread::spawn(move || place.frame().next());
        let own = [(); 2].map(|()| Onlooker(unsafe { &*frame }).wait().unwrap());
        let mut read = [own[0], own[1], reader.join().unwrap()];
        read.sort_unstable();
        assert_eq!(read, [None, Some(0), Some(1)]);
        happens.join().unwrap();
        Frame::close(frame);
    });
}
