//! An observer of tasks that does everything that is forbidden. A process has one observer, so this
//! is a program of its own.

mod common;

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;

use common::{HOUR, OnDrop, Watchdog, alone_with, ms, quiet_panic, run_on, settle};
use ecru::channel;
use ecru::task::{CancelReason, Ending, ObservedTask, TaskObserver, set_task_observer};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mischief {
    Nothing,
    Panics,
    Waits,
    Spawns,
    SpawnsByHandle,
    JoinsAnUnstartedTask,
    OpensAScope,
    Cancels,
    Sends,
    AsksForADump,
    Runs,
    InstallsAgain,
    CatchesAWait,
    BlocksInReports,
}

const ALL: [Mischief; 13] = [
    Mischief::Nothing,
    Mischief::Panics,
    Mischief::Waits,
    Mischief::Spawns,
    Mischief::SpawnsByHandle,
    Mischief::JoinsAnUnstartedTask,
    Mischief::OpensAScope,
    Mischief::Cancels,
    Mischief::Sends,
    Mischief::AsksForADump,
    Mischief::Runs,
    Mischief::InstallsAgain,
    Mischief::CatchesAWait,
];

thread_local! {
    /// The number of calls on this thread that have begun and not ended.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}
static MISCHIEF: Mutex<Mischief> = Mutex::new(Mischief::Nothing);
static HANDLE: Mutex<Option<ecru::RuntimeHandle>> = Mutex::new(None);
static VICTIM: Mutex<Option<ecru::JoinHandle<'static, ()>>> = Mutex::new(None);
static CHANNEL: Mutex<Option<channel::Sender<u32>>> = Mutex::new(None);
static SPAWNED: AtomicUsize = AtomicUsize::new(0);
static ENDED: AtomicUsize = AtomicUsize::new(0);
static CANCELLED: AtomicUsize = AtomicUsize::new(0);
static MADE: AtomicUsize = AtomicUsize::new(0);
/// Whether the observer blocks in reports.
static BLOCKS: AtomicBool = AtomicBool::new(false);
/// Set by a call inside another one, which must not happen.
static NESTED: AtomicBool = AtomicBool::new(false);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One test at a time uses the statics.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    static INSTALLED: Once = Once::new();
    let guard = locked(&ONE);
    INSTALLED.call_once(|| {
        panic::set_hook(Box::new(|_| ()));
        set_task_observer(&Hostile).unwrap();
    });
    guard
}

fn mischief() {
    let depth = DEPTH.replace(DEPTH.get() + 1);
    let _over = OnDrop(|| DEPTH.set(depth));
    NESTED.fetch_or(depth > 0, SeqCst);
    let which = *locked(&MISCHIEF);
    match which {
        Mischief::Nothing | Mischief::BlocksInReports => {}
        Mischief::Panics => panic!("the observer"),
        Mischief::Waits => _ = ecru::sleep(ms(1)),
        Mischief::Spawns => {
            // On threads that run no tasks it panics.
            drop(ecru::spawn(|| _ = MADE.fetch_add(1, SeqCst)));
        }
        Mischief::SpawnsByHandle => {
            let handle = locked(&HANDLE).clone();
            if let Some(handle) = handle {
                drop(handle.spawn(|| _ = MADE.fetch_add(1, SeqCst)));
            }
        }
        Mischief::JoinsAnUnstartedTask => _ = ecru::spawn(|| ()).join(),
        Mischief::OpensAScope => ecru::scope(|s| drop(s.spawn(|| ()))),
        Mischief::Cancels => {
            if let Some(victim) = &*locked(&VICTIM) {
                victim.cancel();
            }
        }
        Mischief::Sends => {
            if let Some(sender) = &*locked(&CHANNEL) {
                sender.try_send(1).unwrap();
            }
        }
        Mischief::AsksForADump => drop(ecru::RuntimeHandle::current().dump()),
        Mischief::Runs => ecru::Runtime::builder().workers(1).build().unwrap().run(|| ()),
        Mischief::InstallsAgain => _ = set_task_observer(&Hostile).unwrap_err(),
        Mischief::CatchesAWait => {
            _ = catch_unwind(|| ecru::sleep(ms(1)));
            _ = ecru::checkpoint();
        }
    }
}

struct Hostile;

impl TaskObserver for Hostile {
    fn spawned(&self, _: ObservedTask<'_>) {
        SPAWNED.fetch_add(1, SeqCst);
        mischief();
    }

    fn ended(&self, task: ObservedTask<'_>, _: Ending) {
        ENDED.fetch_add(1, SeqCst);
        assert_eq!(task.id(), ecru::task::current().id(), "it is called in the task");
        mischief();
    }

    fn cancelled(&self, _: Option<ObservedTask<'_>>, _: CancelReason) {
        CANCELLED.fetch_add(1, SeqCst);
        mischief();
    }

    fn reported(&self, _: &str) {
        mischief();
        if *locked(&MISCHIEF) == Mischief::BlocksInReports {
            BLOCKS.store(true, SeqCst);
            while BLOCKS.load(SeqCst) {
                thread::sleep(ms(1));
            }
        }
    }
}

/// Sets what the observer does, until it is dropped.
fn doing(which: Mischief) -> impl Drop {
    *locked(&MISCHIEF) = which;
    OnDrop(|| *locked(&MISCHIEF) = Mischief::Nothing)
}

/// Whatever the observer does, the tasks compute the right results, each of them is observed once
/// from its spawn to its end, and what the observer itself spawns is not.
#[test]
fn an_observer_that_does_everything_it_should_not() {
    let _alone = alone();
    for which in ALL {
        for workers in [1, 2] {
            let before = [&SPAWNED, &ENDED, &CANCELLED].map(|count| count.load(SeqCst));
            let sum = run_on(workers, || {
                let (sender, _receiver) = channel::unbounded();
                *locked(&CHANNEL) = Some(sender);
                *locked(&HANDLE) = Some(ecru::RuntimeHandle::current());
                *locked(&VICTIM) = Some(ecru::spawn(|| _ = ecru::sleep(ms(5))));
                let _doing = doing(which);
                ecru::scope(|s| {
                    let sleeper = s.spawn(|| ecru::sleep(HOUR).is_err());
                    let future = s.spawn_future(async { 0 });
                    let children: Vec<_> = (0..10)
                        .map(|n| {
                            s.spawn(move || {
                                let own = ecru::spawn(move || n);
                                ecru::yield_now().unwrap();
                                own.join().unwrap()
                            })
                        })
                        .collect();
                    let sum: u32 = children.iter().map(|child| child.join().unwrap()).sum();
                    settle();
                    sleeper.cancel();
                    assert!(sleeper.join().unwrap());
                    sum + future.join().unwrap()
                })
            });
            assert_eq!(sum, 45, "{which:?}");
            *locked(&HANDLE) = None;
            *locked(&VICTIM) = None;
            *locked(&CHANNEL) = None;
            let after = [&SPAWNED, &ENDED, &CANCELLED].map(|count| count.load(SeqCst));
            let seen = [0, 1, 2].map(|at| after[at] - before[at]);
            assert_eq!(seen[..2], [23, 23], "{which:?}");
            assert!(seen[2] >= 1, "{which:?}");
            let spawns = matches!(which, Mischief::Spawns | Mischief::SpawnsByHandle);
            assert_eq!(MADE.swap(0, SeqCst) >= 44, spawns, "{which:?}");
        }
    }
    assert!(!NESTED.load(SeqCst), "no call was made inside another one");
}

/// Calls inside `no_suspend`, while a task unwinds, and from a thread that holds nothing.
#[test]
fn an_observer_is_called_in_awkward_places() {
    let _alone = alone();
    for which in ALL {
        run_on(2, || {
            *locked(&HANDLE) = Some(ecru::RuntimeHandle::current());
            let _doing = doing(which);
            // In `no_suspend`, which goes on to forbid waits afterwards.
            ecru::scope(|s| {
                let child = ecru::no_suspend(|| {
                    let child = s.spawn(|| 1);
                    assert!(catch_unwind(|| ecru::sleep(ms(1))).is_err(), "{which:?}");
                    child
                });
                assert_eq!(child.join().unwrap(), 1);
                ecru::yield_now().unwrap();
            });
            // In a destructor, while its task unwinds.
            let fallen = ecru::spawn(|| {
                let _spawns = OnDrop(|| drop(ecru::spawn(|| ())));
                quiet_panic("a fault");
            });
            assert!(fallen.join().is_err());
            // On a thread, in which nothing is current.
            let handle = ecru::RuntimeHandle::current();
            let joined = ecru::unblock(|| {
                thread::spawn(move || {
                    let task = handle.spawn(|| ecru::sleep(HOUR).is_err()).unwrap();
                    task.cancel();
                    task.join()
                })
                .join()
                .unwrap()
            });
            // It was cancelled before it began, or while it slept.
            assert!(!matches!(joined, Ok(false)), "{which:?}");
        });
        *locked(&HANDLE) = None;
    }
    assert!(!NESTED.load(SeqCst));
}

/// An observer that does not return from a report delays neither the run that reports nor the next.
#[test]
fn an_observer_that_blocks_in_a_report() {
    let _alone = alone();
    let _watchdog = Watchdog::new();
    let _goes_on = OnDrop(|| BLOCKS.store(false, SeqCst));
    let doing = doing(Mischief::BlocksInReports);
    let runtime = ecru::Runtime::builder().workers(1).detect_deadlock(true).build().unwrap();
    let stuck = || runtime.run(|| channel::bounded::<u32>(1).1.recv().is_err());
    assert!(catch_unwind(AssertUnwindSafe(stuck)).is_err());
    while !BLOCKS.load(SeqCst) {
        thread::yield_now();
    }
    assert_eq!(runtime.run(|| 5), 5);
    assert!(BLOCKS.load(SeqCst), "it still blocks");
    drop(doing);
}

/// An observer that never returns from a report keeps none of the later reports from standard error.
#[test]
fn an_observer_that_never_returns_silences_no_report() {
    const NAME: &str = "an_observer_that_never_returns_silences_no_report";
    const REPORTS: usize = 40;
    let output = alone_with(
        NAME,
        |_| (),
        || {
            let _alone = alone();
            let _watchdog = Watchdog::new();
            let _doing = doing(Mischief::BlocksInReports);
            let runtime =
                ecru::Runtime::builder().workers(1).detect_deadlock(true).build().unwrap();
            for _ in 0..REPORTS {
                let stuck = || runtime.run(|| channel::bounded::<u32>(1).1.recv().is_err());
                assert!(catch_unwind(AssertUnwindSafe(stuck)).is_err());
            }
        },
    );
    let Some(output) = output else { return };
    let said = String::from_utf8(output.stderr).unwrap();
    // More than the threads that it keeps. A report is lost if it takes half a second to be written.
    assert!(said.matches("ecru: deadlock: every task").count() > REPORTS / 2, "{said}");
}
