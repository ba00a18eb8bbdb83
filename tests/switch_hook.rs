//! The hook at the switches between tasks: the rows of `doc/behaviour/hook.md`.
//!
//! A process has one hook, so these tests are a program of their own, and share the hook below. It
//! gives each task its own value of a thread-local number. It logs its calls in another
//! thread-local, which with one worker belongs to the test.

mod common;

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Once};
use std::time::Duration;

use common::{OnDrop, alone, ms, run_on, settle, text_of};
use ecru::Source as _;
use ecru::coroutine::Generator;
use ecru::task::{LeaveReason, SwitchHook, set_switch_hook};

thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(0) };
    /// `>7`: a task whose number is 7 is entered; `<7`: it is left; `!7`: it ends; `+7`: it spawns.
    static CALLS: RefCell<Vec<String>> = const { RefCell::new(vec![]) };
    /// An action for the next call of `leave`.
    static MISCHIEF: Cell<Option<fn()>> = const { Cell::new(None) };
    /// Whether an ended task leaves a value in its slot.
    static UNTIDY: Cell<bool> = const { Cell::new(false) };
    /// The contents of the slots of tasks that were spawned while this was set.
    static COUNTED: RefCell<Option<Arc<()>>> = const { RefCell::new(None) };
}

struct Numbers;

struct Number {
    number: u32,
    _counted: Option<Arc<()>>,
}

fn log(sign: char, number: u32) {
    CALLS.with_borrow_mut(|calls| calls.push(format!("{sign}{number}")));
}

impl SwitchHook for Numbers {
    type Kept = Number;

    fn spawn(&self) -> Option<Box<Number>> {
        log('+', NUMBER.get());
        let _counted = COUNTED.with_borrow(Clone::clone);
        Some(Box::new(Number { number: NUMBER.get(), _counted }))
    }

    fn enter(&self, kept: &mut Option<Box<Number>>) {
        NUMBER.set(kept.as_ref().map_or(0, |kept| kept.number));
        log('>', NUMBER.get());
    }

    fn leave(&self, kept: &mut Option<Box<Number>>, why: LeaveReason) {
        let number = NUMBER.replace(0);
        log(if why == LeaveReason::Ended { '!' } else { '<' }, number);
        match kept {
            Some(kept) => kept.number = number,
            None => *kept = Some(Box::new(Number { number, _counted: None })),
        }
        if why == LeaveReason::Ended && !UNTIDY.get() {
            *kept = None;
        }
        if let Some(mischief) = MISCHIEF.take() {
            mischief();
        }
    }
}

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| set_switch_hook(&Numbers).unwrap());
}

/// Returns the calls made while `body` ran.
fn calls(body: impl FnOnce()) -> Vec<String> {
    CALLS.take();
    body();
    CALLS.take()
}

/// Waits in every possible way, and checks the number each time.
fn wait_in_every_way(number: u32, meeting: &ecru::sync::Barrier) {
    let same = || assert_eq!(NUMBER.get(), number);
    NUMBER.set(number);
    ecru::yield_now().unwrap();
    same();
    ecru::sleep(ms(1)).unwrap();
    same();
    meeting.wait().unwrap();
    same();
    let (tx, rx) = ecru::channel::bounded(0);
    ecru::scope(|s| {
        s.spawn(move || {
            assert_eq!(NUMBER.replace(100), number);
            tx.send(1).unwrap();
        });
        same();
        rx.recv().unwrap();
        same();
        let deaf = s.spawn_local(|| ecru::sleep(Duration::from_secs(3600)));
        assert!(deaf.join_timeout(ms(1)).is_none());
        same();
        deaf.cancel();
    });
    same();
    ecru::unblock(|| assert_eq!(NUMBER.replace(100), number));
    same();
    ecru::block_on(async { settle() }).unwrap();
    same();
    assert!(ecru::timeout(ms(1), || ecru::source::never::<()>().wait()).is_err());
    same();
}

/// - given: tasks on one worker, and on two, that each set the number
/// - when: they wait: a yield, a sleep, a barrier, a channel, a join with a time limit, `unblock`,
///   `block_on`, a timeout
/// - then: each finds its own number after each wait
#[test]
fn hook_01_each_task_keeps_its_own() {
    install();
    for workers in [1, 2] {
        let meeting = ecru::sync::Barrier::new(3);
        run_on(workers, || {
            ecru::scope(|s| {
                for number in 1..=3 {
                    let meeting = &meeting;
                    s.spawn(move || wait_in_every_way(number, meeting));
                }
            });
        });
    }
}

/// - given: a task or a plain thread with a number
/// - when: it spawns tasks of each kind and calls `unblock`, then changes the number
/// - then: each child, and the closure, begins with the number at the time of its spawn
#[test]
fn hook_02_children_begin_with_the_spawners() {
    install();
    run_on(1, || {
        NUMBER.set(7);
        let look = || NUMBER.get();
        ecru::scope(|s| {
            let children = [s.spawn(look), s.spawn_local(look), s.builder().name("n").spawn(look)];
            s.spawn_daemon(move || assert_eq!(NUMBER.get(), 7));
            let of_the_run = ecru::spawn(look);
            NUMBER.set(8);
            let later = s.spawn(look);
            settle();
            assert_eq!(children.map(|child| child.join().unwrap()), [7; 3]);
            assert_eq!(of_the_run.join().unwrap(), 7);
            assert_eq!(later.join().unwrap(), 8);
            assert_eq!(ecru::unblock(look), 8);
        });
        assert_eq!(ecru::par::map([1, 2], |_| NUMBER.get()), [8, 8]);
        assert_eq!(NUMBER.get(), 8);
    });
    NUMBER.set(0);
}

#[test]
fn hook_02_children_begin_with_the_spawners_from_a_plain_thread() {
    install();
    let runtime = ecru::Runtime::builder().workers(1).build().unwrap();
    let (handle, entered) = (runtime.handle(), Barrier::new(2));
    std::thread::scope(|threads| {
        let thread = threads.spawn(|| {
            entered.wait();
            NUMBER.set(9);
            let task = handle.spawn(|| NUMBER.get()).unwrap();
            assert_eq!(task.join().unwrap(), 9);
            assert_eq!(NUMBER.get(), 9);
        });
        runtime.run(|| {
            entered.wait();
            ecru::unblock(|| thread.join().unwrap());
        });
    });
}

/// - given: a task that joins a task in its queue
/// - when: the child runs in place, and ends or waits there
/// - then: the joiner is left before the child runs, and entered after it
#[test]
fn hook_03_started_in_place() {
    install();
    let calls = calls(|| {
        run_on(1, || {
            NUMBER.set(1);
            ecru::scope(|s| {
                let waits = s.spawn(|| {
                    NUMBER.set(2);
                    // The child starts in its spawner's place, in the middle of the spawner's code.
                    let inner = s.spawn(|| NUMBER.replace(3));
                    assert_eq!(inner.join().unwrap(), 2);
                    assert_eq!(NUMBER.get(), 2);
                    ecru::yield_now().unwrap();
                    assert_eq!(NUMBER.get(), 2);
                });
                waits.join().unwrap();
                assert_eq!(NUMBER.get(), 1);
            });
        });
    });
    // The root spawns a task and starts it. That task starts another one, which ends, and then
    // yields. The root waits, and continues.
    assert_eq!(calls[..7], ["+1", "<1", ">1", "+2", "<2", ">2", "!3"]);
    assert_eq!(calls[7..13], [">2", "<2", ">1", "<1", ">2", "!2"]);
    assert_eq!(calls[13], ">1");
    NUMBER.set(0);
}

/// - given: a number set before `run`
/// - when: the root waits, and the run ends
/// - then: the root has the thread's number, and the thread keeps the root's; the hook is not
///   called for the root's start and end
#[test]
fn hook_04_the_root_is_its_thread() {
    install();
    NUMBER.set(5);
    let calls = calls(|| {
        run_on(1, || {
            assert_eq!(NUMBER.get(), 5);
            ecru::scope(|s| {
                s.spawn(|| NUMBER.set(6));
            });
            assert_eq!(NUMBER.get(), 5);
            NUMBER.set(4);
        });
    });
    assert_eq!(NUMBER.replace(0), 4);
    assert_eq!(calls[..5], ["+5", "<5", ">5", "!6", ">5"], "{calls:?}");
    // At the end of the run, the rest of the root runs, and the thread continues.
    assert_eq!(calls[5..], ["<4", ">4"]);
}

/// - given: many tasks that yield, spawn, join and end
/// - when: the calls on their thread are listed
/// - then: `enter` and `leave` alternate, and each task is left for the last time before its scope
///   returns
#[test]
fn hook_05_calls_come_in_pairs() {
    install();
    let calls = calls(|| {
        run_on(1, || {
            ecru::scope(|s| {
                for number in 1..=50 {
                    s.spawn(move || {
                        NUMBER.set(number);
                        for _ in 0..number % 4 {
                            ecru::yield_now().unwrap();
                        }
                        s.spawn(settle).join().unwrap();
                    });
                }
            });
            log('=', 0);
        });
    });
    // The root is entered at the first call.
    let mut inside = Some("0");
    let mut ended = 0;
    for call in &calls {
        let (sign, number) = call.split_at(1);
        match sign {
            ">" => assert_eq!(inside.replace(number), None, "{calls:?}"),
            "<" | "!" => assert!(inside.take().is_some(), "{calls:?}"),
            "=" => assert_eq!(ended, 100, "each is left for good before its scope returns"),
            _ => {}
        }
        ended += usize::from(sign == "!");
    }
}

/// - given: a task that is cancelled before it starts
/// - when: its closure is dropped
/// - then: the destructors run between `enter` and `leave`, with the number at the time of the
///   spawn
#[test]
fn hook_06_cancelled_before_it_began() {
    install();
    run_on(1, || {
        NUMBER.set(3);
        let seen = Cell::new(0);
        ecru::scope(|s| {
            let held = OnDrop(|| seen.set(NUMBER.get()));
            let never = s.spawn_local(move || drop(held));
            never.cancel();
            NUMBER.set(4);
            assert!(matches!(never.join(), Err(ecru::JoinError::Cancelled)));
        });
        assert_eq!((seen.get(), NUMBER.get()), (3, 4));
    });
    NUMBER.set(0);
}

/// - given: a task that waits while it unwinds, and one whose waits are cancelled
/// - when: they continue
/// - then: each has its own number
#[test]
fn hook_07_unwinding_and_cancelled_tasks() {
    install();
    run_on(1, || {
        ecru::scope(|s| {
            let unwinds = s.spawn(|| {
                NUMBER.set(1);
                let _waits = OnDrop(|| {
                    ecru::shield(|| ecru::sleep(ms(1))).unwrap();
                    assert_eq!(NUMBER.get(), 1);
                });
                panic::resume_unwind(Box::new("on purpose"));
            });
            let cancelled = s.spawn(|| {
                NUMBER.set(2);
                assert!(ecru::sleep(Duration::from_secs(3600)).is_err());
                assert_eq!(NUMBER.get(), 2);
                assert!(ecru::yield_now().is_err());
                assert_eq!(NUMBER.get(), 2);
            });
            NUMBER.set(3);
            settle();
            cancelled.cancel();
            assert!(matches!(unwinds.join(), Err(ecru::JoinError::Panicked(_))));
            assert_eq!(NUMBER.get(), 3);
            cancelled.join().unwrap();
        });
    });
    NUMBER.set(0);
}

/// - given: a hook that waits, asks for the current task, or panics
/// - when: a task is left by the scheduler, by a root, and in place
/// - then: each attempt panics, the panic is caught, and the switch continues
#[test]
fn hook_08_waits_and_panics_of_the_hook() {
    install();
    static TRIED: AtomicUsize = AtomicUsize::new(0);
    fn attempt(body: impl FnOnce()) {
        let refused = panic::catch_unwind(AssertUnwindSafe(body)).unwrap_err();
        assert!(!text_of(&*refused).is_empty());
        TRIED.fetch_add(1, SeqCst);
    }
    let mischiefs: [fn(); 6] = [
        || attempt(|| _ = ecru::yield_now()),
        || attempt(|| _ = ecru::sleep(Duration::from_secs(3600))),
        || attempt(|| ecru::scope(|s| _ = s.spawn(|| ()).join())),
        || attempt(|| _ = ecru::task::current()),
        || {
            TRIED.fetch_add(1, SeqCst);
            panic::resume_unwind(Box::new("the hook's own"));
        },
        || {
            struct Bomb;
            impl Drop for Bomb {
                fn drop(&mut self) {
                    panic::resume_unwind(Box::new("a second one"));
                }
            }
            TRIED.fetch_add(1, SeqCst);
            panic::panic_any(Bomb);
        },
    ];
    let before = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    for (tried, mischief) in mischiefs.into_iter().enumerate() {
        run_on(1, || {
            NUMBER.set(1);
            ecru::scope(|s| {
                let child = s.spawn(move || {
                    NUMBER.set(2);
                    MISCHIEF.set(Some(mischief));
                    ecru::yield_now().unwrap();
                    NUMBER.get()
                });
                // The task is not started in place: the scheduler starts it.
                ecru::yield_now().unwrap();
                assert_eq!(child.join().unwrap(), 2);
            });
            assert_eq!(NUMBER.get(), 1);
            // The switch of the root itself, and a switch in place.
            MISCHIEF.set(Some(mischief));
            ecru::yield_now().unwrap();
            assert_eq!(NUMBER.get(), 1);
            MISCHIEF.set(Some(mischief));
            assert_eq!(ecru::scope(|s| s.spawn(|| NUMBER.get()).join().unwrap()), 1);
            assert_eq!(NUMBER.get(), 1);
        });
        assert_eq!(TRIED.load(SeqCst), 3 * (tried + 1));
    }
    panic::set_hook(before);
    NUMBER.set(0);
}

/// - given: a process with a hook
/// - when: another one is installed
/// - then: it gets `SwitchHookTaken`
#[test]
fn hook_09_one_for_the_process() {
    install();
    let error = set_switch_hook(&Numbers).unwrap_err();
    assert!(error.to_string().contains("a switch hook already"));
}

/// - given: a generator in a task
/// - when: it sets the number and suspends
/// - then: the hook is not called, and the task has the generator's number
#[test]
fn hook_10_coroutines_are_a_part_of_their_task() {
    install();
    run_on(1, || {
        let calls = calls(|| {
            let mut numbers = Generator::new(|yielder| {
                for number in 1..=3 {
                    NUMBER.set(number);
                    yielder.suspend(number);
                }
            });
            assert_eq!(numbers.next(), Some(1));
            assert_eq!(NUMBER.get(), 1);
            assert_eq!(numbers.by_ref().sum::<u32>(), 5);
            NUMBER.set(0);
        });
        assert!(calls.is_empty(), "{calls:?}");
    });
}

/// - given: a hook that leaves a value in each slot
/// - when: tasks end, are cancelled, or never begin, and an `unblock` closure ends
/// - then: all values have been dropped when the scope returns
#[test]
fn hook_11_what_is_kept_goes_with_the_task() {
    install();
    for workers in [1, 2] {
        let counted = Arc::new(());
        let kept = || Arc::strong_count(&counted) - 1;
        run_on(workers, || {
            UNTIDY.set(true);
            ecru::scope(|s| {
                COUNTED.set(Some(Arc::clone(&counted)));
                let tasks: Vec<_> = (0..10).map(|_| s.spawn(settle)).collect();
                let never = s.spawn_local(|| ());
                COUNTED.set(None);
                if workers == 1 {
                    assert_eq!(kept(), 11);
                }
                ecru::unblock(|| ());
                never.cancel();
                tasks[3].cancel();
                tasks[4].join().unwrap();
            });
            assert_eq!(kept(), 0);
            UNTIDY.set(false);
        });
    }
}

/// - given: parked tasks
/// - when: `dump` makes each capture its stack trace
/// - then: each has its own number afterwards
#[test]
fn hook_12_a_dump_disturbs_nobody() {
    install();
    run_on(1, || {
        NUMBER.set(9);
        let go = ecru::sync::Latch::new(1);
        ecru::scope(|s| {
            for number in 1..=3 {
                let go = &go;
                s.spawn(move || {
                    NUMBER.set(number);
                    go.wait().unwrap();
                    assert_eq!(NUMBER.get(), number);
                });
            }
            settle();
            // The root waits for the answer, and leaves its trace when it is asked.
            assert_eq!(ecru::RuntimeHandle::current().dump().tasks().count(), 4);
            assert_eq!(NUMBER.get(), 9);
            go.count_down();
        });
        assert_eq!(NUMBER.get(), 9);
    });
    NUMBER.set(0);
}

/// - given: a run without a hook
/// - when: one of its tasks installs one
/// - then: the hook is called at the next switch of that thread
#[test]
fn hook_13_installed_in_the_middle_of_a_run() {
    alone("hook_13_installed_in_the_middle_of_a_run", || {
        run_on(1, || {
            ecru::scope(|s| {
                let installer = s.spawn(|| {
                    ecru::yield_now().unwrap();
                    set_switch_hook(&Numbers).unwrap();
                    // The very next switch calls the hook.
                    NUMBER.set(1);
                    ecru::yield_now().unwrap();
                    assert_eq!(NUMBER.get(), 1);
                    assert_eq!(s.spawn(|| NUMBER.get()).join().unwrap(), 1);
                });
                let other = s.spawn(|| {
                    settle();
                    assert_eq!(NUMBER.get(), 0);
                });
                other.join().unwrap();
                installer.join().unwrap();
            });
            assert_eq!(NUMBER.get(), 0);
        });
    });
}
