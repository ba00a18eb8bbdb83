//! A hook at the switches between tasks that does everything that is forbidden. A process has one
//! hook, so this is a program of its own.

mod common;

use std::cell::{Cell, RefCell};
use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, Once};

use common::{HOUR, OnDrop, ms, run_on};
use ecru::channel::{self, Receiver, Sender};
use ecru::coroutine::Generator;
use ecru::task::{LeaveReason, SwitchHook, set_switch_hook};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mischief {
    None,
    Panics,
    Spawns,
    Sends,
    Cancels,
    ResumesAGenerator,
    Waits,
    InstallsAgain,
    OpensAScope,
    OpensALimitAndAShield,
    LooksForACancellation,
    Runs,
    KeepsWhatPanics,
}

const ALL: [Mischief; 13] = [
    Mischief::None,
    Mischief::Panics,
    Mischief::Spawns,
    Mischief::Sends,
    Mischief::Cancels,
    Mischief::ResumesAGenerator,
    Mischief::Waits,
    Mischief::InstallsAgain,
    Mischief::OpensAScope,
    Mischief::OpensALimitAndAShield,
    Mischief::LooksForACancellation,
    Mischief::Runs,
    Mischief::KeepsWhatPanics,
];

thread_local! {
    /// What the hook does on this thread.
    static MISCHIEF: Cell<Mischief> = const { Cell::new(Mischief::None) };
    /// Whether the hook is running. Its actions may switch tasks in turn.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static GENERATOR: RefCell<Option<Generator<u32>>> = const { RefCell::new(None) };
}
static CHANNEL: Mutex<Option<(Sender<u32>, Receiver<u32>)>> = Mutex::new(None);
static HANDLE: Mutex<Option<ecru::RuntimeHandle>> = Mutex::new(None);
static ASLEEP: Mutex<Option<ecru::JoinHandle<'static, ()>>> = Mutex::new(None);
static MADE: AtomicUsize = AtomicUsize::new(0);
static GONE: AtomicUsize = AtomicUsize::new(0);
static SPAWNED: AtomicUsize = AtomicUsize::new(0);

/// The contents of a slot. Its destructor uses the library, and panics on request.
struct Kept {
    panics: bool,
}

impl Kept {
    fn new(panics: bool) -> Box<Kept> {
        MADE.fetch_add(1, SeqCst);
        Box::new(Kept { panics })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        GONE.fetch_add(1, SeqCst);
        if let Ok(held) = CHANNEL.try_lock()
            && let Some((sender, receiver)) = &*held
        {
            _ = (sender.try_send(0), receiver.try_recv());
        }
        if self.panics && !std::thread::panicking() {
            panic::resume_unwind(Box::new("what was kept"));
        }
    }
}

fn mischief() {
    if INSIDE.replace(true) {
        return;
    }
    let _over = OnDrop(|| INSIDE.set(false));
    match MISCHIEF.get() {
        Mischief::Panics => panic::resume_unwind(Box::new("the hook")),
        Mischief::Spawns => {
            if let Some(handle) = &*HANDLE.lock().unwrap()
                && SPAWNED.fetch_add(1, SeqCst) < 50
            {
                _ = handle.spawn(|| ());
            }
        }
        Mischief::Sends => {
            if let Some((sender, _)) = &*CHANNEL.lock().unwrap() {
                _ = sender.try_send(1);
            }
        }
        Mischief::Cancels => {
            if let Some(asleep) = &*ASLEEP.lock().unwrap() {
                asleep.cancel();
            }
        }
        Mischief::ResumesAGenerator => GENERATOR.with_borrow_mut(|generator| {
            let endless = || Generator::new(|y| (0..u32::MAX).for_each(|n| y.suspend(n)));
            _ = generator.get_or_insert_with(endless).next();
        }),
        Mischief::Waits => _ = ecru::sleep(ms(1)),
        Mischief::InstallsAgain => _ = set_switch_hook(&Hostile).unwrap_err(),
        Mischief::OpensAScope => ecru::scope(|s| drop(s.spawn(|| ()))),
        Mischief::OpensALimitAndAShield => _ = ecru::timeout(HOUR, || ecru::shield(|| ())),
        Mischief::LooksForACancellation => assert!(!ecru::is_cancelled()),
        Mischief::Runs => ecru::Runtime::builder().workers(1).build().unwrap().run(|| ()),
        Mischief::None | Mischief::KeepsWhatPanics => {}
    }
}

fn keeps_what_panics() -> bool {
    MISCHIEF.get() == Mischief::KeepsWhatPanics
}

struct Hostile;

impl SwitchHook for Hostile {
    type Kept = Kept;

    fn spawn(&self) -> Option<Box<Kept>> {
        mischief();
        Some(Kept::new(keeps_what_panics()))
    }

    fn enter(&self, kept: &mut Option<Box<Kept>>) {
        mischief();
        if keeps_what_panics() {
            *kept = Some(Kept::new(true));
        }
    }

    fn leave(&self, kept: &mut Option<Box<Kept>>, why: LeaveReason) {
        mischief();
        *kept = Some(Kept::new(keeps_what_panics() && why == LeaveReason::Ended));
    }
}

/// Whatever the hook does, the tasks compute the right results, the run ends, and each kept value
/// is dropped once.
#[test]
fn a_hook_that_does_everything_it_should_not() {
    static INSTALLED: Once = Once::new();
    panic::set_hook(Box::new(|_| ()));
    for which in ALL {
        for workers in [1, 2] {
            let sum = run_on(workers, || {
                *HANDLE.lock().unwrap() = Some(ecru::RuntimeHandle::current());
                let (sender, receiver) = channel::unbounded();
                *CHANNEL.lock().unwrap() = Some((sender.clone(), receiver.clone()));
                INSTALLED.call_once(|| set_switch_hook(&Hostile).unwrap());
                *ASLEEP.lock().unwrap() = Some(ecru::spawn(|| _ = ecru::sleep(ms(5))));
                MISCHIEF.set(which);
                // A task of the run itself is made under a lock, which the hook may need.
                ecru::spawn(|| ()).join().unwrap();
                let sum = ecru::scope(|s| {
                    let waits = s.spawn_local(|| receiver.recv().is_ok());
                    let children: Vec<_> = (0..10)
                        .map(|n| {
                            s.spawn(move || {
                                MISCHIEF.set(which);
                                ecru::yield_now().unwrap();
                                ecru::unblock(|| ());
                                n
                            })
                        })
                        .collect();
                    let sum: u32 = children.iter().map(|child| child.join().unwrap()).sum();
                    if which != Mischief::Sends {
                        sender.send(1).unwrap();
                    }
                    assert!(waits.join().unwrap(), "what the hook has sent is received");
                    sum
                });
                MISCHIEF.set(Mischief::None);
                *CHANNEL.lock().unwrap() = None;
                sum
            });
            MISCHIEF.set(Mischief::None);
            assert_eq!(sum, 45, "{which:?}");
            *ASLEEP.lock().unwrap() = None;
            *HANDLE.lock().unwrap() = None;
        }
    }
    assert_eq!(MADE.load(SeqCst), GONE.load(SeqCst), "each was dropped once");
}
