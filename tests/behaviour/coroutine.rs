//! Coroutines together with tasks. Tests of the other rows are in `tests/coroutine.rs` and
//! `tests/overflow.rs`.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Mutex;
use std::thread;

use ecru::coroutine::{
    Coroutine, CoroutineState, CoroutineStatus, Executor, Generator, STACK_FLOOR, Stack, StackPool,
    Yielder, generate, scoped,
};

use crate::support::{
    HOUR, OnDrop, each_run, is_child, ms, panic_text, quiet_panic, run_on, start_again, text_of,
};

use CoroutineState::{Complete, Yielded};

/// - given: a coroutine
/// - when: its closure returns
/// - then: `resume` returns `Complete` with the value
#[test]
fn coroutine_03_completes() {
    let coroutine = Coroutine::new(|yielder: &Yielder<u8, &str>, first: u8| {
        let second = yielder.suspend("more");
        first + second
    });
    assert_eq!(coroutine.resume(1), Yielded("more"));
    assert_eq!(coroutine.resume(2), Complete(3));
    assert_eq!(coroutine.state(), CoroutineStatus::Complete);
}

/// - given: locals of the resumer
/// - when: the coroutine's closure reads and writes them
/// - then: it compiles, and the changes are visible after it has completed
#[test]
fn coroutine_08_borrows() {
    let input = [1, 2, 3];
    let mut sums = Vec::new();
    let turns = scoped(
        |yielder: &Yielder<(), u32>, ()| {
            let mut sum = 0;
            for number in &input {
                sum += number;
                sums.push(sum);
                yielder.suspend(sum);
            }
        },
        |coroutine| {
            let mut turns = 0;
            while let Yielded(sum) = coroutine.resume(()) {
                assert!(sum > 0);
                turns += 1;
            }
            assert_eq!(coroutine.state(), CoroutineStatus::Complete);
            turns
        },
    );
    assert_eq!((turns, sums), (3, vec![1, 3, 6]));
}

/// - given: a body that calls `suspend` while it is unwound by `scoped`
/// - when: it suspends
/// - then: the process is aborted, and the message says why
///
/// What `scoped` borrows cannot be freed under a body that refuses to be unwound.
#[test]
fn coroutine_29_scoped_suspends_while_unwound() {
    const NAME: &str = "coroutine::coroutine_29_scoped_suspends_while_unwound";
    if is_child(NAME) {
        let body = |yielder: &Yielder<(), ()>, ()| {
            let _ = catch_unwind(AssertUnwindSafe(|| yielder.suspend(())));
            let _ = catch_unwind(AssertUnwindSafe(|| yielder.suspend(())));
        };
        scoped(body, |coroutine| _ = coroutine.resume(()));
        eprintln!("it went on");
        return;
    }
    let output = start_again(NAME).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && !text.contains("it went on"), "{text}");
    assert!(text.contains("suspends while it is unwound"), "{text}");
}

/// - given: a coroutine that was never resumed
/// - when: it is dropped
/// - then: its closure is dropped without having run
#[test]
fn coroutine_10_dropped_unstarted() {
    let dropped = Rc::new(Cell::new(false));
    let ran = Rc::new(Cell::new(false));
    let (drops, runs) = (Rc::clone(&dropped), Rc::clone(&ran));
    let capture = OnDrop(move || drops.set(true));
    let coroutine = Coroutine::new(move |_: &Yielder<(), ()>, ()| {
        let _capture = capture;
        runs.set(true);
    });
    assert!(!dropped.get());
    drop(coroutine);
    assert_eq!((dropped.get(), ran.get()), (true, false));
}

struct Tree {
    left: Option<Box<Tree>>,
    value: u32,
    right: Option<Box<Tree>>,
}

impl Tree {
    /// Returns a balanced tree of the numbers from `low` to `high`.
    fn of(low: u32, high: u32) -> Option<Box<Tree>> {
        (low < high).then(|| {
            let value = low.midpoint(high);
            Box::new(Tree { left: Tree::of(low, value), value, right: Tree::of(value + 1, high) })
        })
    }

    fn walk(&self, yielder: &Yielder<(), u32>) {
        if let Some(left) = &self.left {
            left.walk(yielder);
        }
        yielder.suspend(self.value);
        if let Some(right) = &self.right {
            right.walk(yielder);
        }
    }
}

/// - given: a tree
/// - when: a recursive function yields from any depth
/// - then: the generator walks the tree in order
#[test]
fn coroutine_13_recursive_generator() {
    let tree = Tree::of(0, 1000).unwrap();
    assert!(generate(|yielder| tree.walk(yielder), |items| items.eq(0..1000)));
    let walk = Generator::new(move |yielder| tree.walk(yielder));
    assert!(walk.eq(0..1000));
}

/// - given: 100,000 guarded stacks
/// - when: they are all live
/// - then: `/proc/self/maps` has under 1,000 lines, where the kernel has guard markers
///
/// Linux has guard markers since 6.13.
#[cfg(not(ecru_baton))] // as many threads as coroutines
#[test]
fn coroutine_19_many_guarded_slow() {
    const NAME: &str = "coroutine::coroutine_19_many_guarded_slow";
    if !is_child(NAME) {
        let output = start_again(NAME).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
        assert!(text.contains("counted"), "{text}");
        return;
    }
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let markers = version >= (6, 13);
    // Without markers each guard takes mappings, of which there is a limited number.
    let count = if markers { 100_000 } else { 10_000 };
    let pool = StackPool::new(STACK_FLOOR).unwrap();
    let coroutines: Vec<_> = (0..count)
        .map(|number: u32| {
            let stack = pool.take().unwrap();
            let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
                yielder.suspend(());
                number
            });
            coroutine.resume(());
            coroutine
        })
        .collect();
    let lines = std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    assert!(!markers || lines < 1000, "{lines} mappings");
    for (number, coroutine) in (0..).zip(&coroutines) {
        assert_eq!(coroutine.resume(()), Complete(number));
    }
    eprintln!("counted {lines} mappings");
}

/// - given: a coroutine in which a scope, timeout, cancel scope, shield, hook or `no_suspend` is
///   open
/// - when: it suspends
/// - then: it panics, naming the open frame
#[test]
fn coroutine_20_open_frames() {
    ecru::task_local! {
        static BOUND: u32;
    }
    type Opens = fn(&dyn Fn());
    let frames: [(&str, Opens); 9] = [
        ("scope", |inside| ecru::scope(|_| inside())),
        ("try_scope", |inside| {
            let _ = ecru::try_scope(|_| {
                inside();
                Ok::<_, ()>(())
            });
        }),
        ("timeout", |inside| _ = ecru::timeout(ms(1000), inside)),
        ("cancel_scope", |inside| ecru::cancel_scope(|_| inside())),
        ("shield", |inside| ecru::shield(inside)),
        ("shield_for", |inside| ecru::shield_for(ms(1000), inside)),
        ("on_cancel", |inside| ecru::on_cancel(|| (), inside)),
        ("no_suspend", |inside| ecru::no_suspend(inside)),
        ("task-local", |inside| BOUND.scope(1, inside)),
    ];
    each_run(|| {
        for (name, open) in frames {
            let coroutine = Coroutine::new(move |yielder: &Yielder<(), ()>, ()| {
                let mut text = String::new();
                open(&|| {
                    let refused = catch_unwind(AssertUnwindSafe(|| yielder.suspend(())));
                    let payload = refused.expect_err(name);
                    assert!(text_of(&*payload).contains("is open"), "{name}");
                });
                // Outside the frame it works again.
                yielder.suspend(());
                text.push_str(name);
                text
            });
            assert_eq!(coroutine.resume(()), Yielded(()), "{name}");
            assert_eq!(coroutine.resume(()), Complete(name.to_owned()));
        }
    });
}

/// - given: a coroutine that opened and left a scope
/// - when: it suspends
/// - then: it works
///
/// Frames that are open around the coroutine do not matter either.
#[test]
fn coroutine_21_closed_frames() {
    each_run(|| {
        let result = ecru::timeout(HOUR, || {
            let numbers = Generator::new(|yielder| {
                for number in 0..3_u32 {
                    let squared = ecru::scope(|s| s.spawn(move || number * number).join());
                    let _ = ecru::shield(|| ecru::timeout(ms(1000), || ()));
                    yielder.suspend(squared.unwrap());
                }
            });
            numbers.sum::<u32>()
        });
        assert_eq!(result, Ok(5));
    });
}

/// - given: a suspended coroutine
/// - when: it is moved to another place and resumed
/// - then: it works, because only the handle moves
#[test]
fn coroutine_22_moved_while_suspended() {
    let coroutine = Coroutine::new(|yielder: &Yielder<u32, u32>, first| {
        let numbers = [first; 100];
        let second = yielder.suspend(numbers.iter().sum());
        numbers.iter().sum::<u32>() + second
    });
    assert_eq!(coroutine.resume(1), Yielded(100));
    let boxed = Box::new(coroutine);
    let mut moved = vec![*boxed];
    moved.reserve(100);
    assert_eq!(moved.pop().unwrap().resume(5), Complete(105));
}

/// - given: a coroutine that is dropped while its owner unwinds
/// - when: its destructors run
/// - then: nothing aborts, and the owner's panic continues
#[test]
fn coroutine_23_panicking_is_restored() {
    let notes = Rc::new(RefCell::new(Vec::new()));
    let noted = Rc::clone(&notes);
    let text = panic_text(move || {
        let coroutine = Coroutine::new(move |yielder: &Yielder<(), ()>, ()| {
            let _inner = OnDrop(move || {
                let caught = catch_unwind(|| quiet_panic("inner"));
                noted.borrow_mut().push(caught.is_err());
            });
            yielder.suspend(());
        });
        coroutine.resume(());
        quiet_panic("the owner's");
    });
    assert_eq!((text.as_str(), &*notes.borrow()), ("the owner's", &vec![true]));
    assert!(!thread::panicking());
}

/// - given: a plain thread
/// - when: it uses coroutines and generators
/// - then: they work
#[test]
fn coroutine_24_needs_no_runtime() {
    let sum = thread::spawn(|| {
        let stack = Stack::new(STACK_FLOOR).unwrap();
        let coroutine =
            Coroutine::with_stack(stack, |yielder: &Yielder<u32, u32>, mut sum: u32| {
                while sum < 10 {
                    sum += yielder.suspend(sum);
                }
                sum
            });
        while let Yielded(_) = coroutine.resume(4) {}
        Generator::new(|yielder| (1..=4).for_each(|n: u32| yielder.suspend(n))).sum::<u32>()
    });
    assert_eq!(sum.join().unwrap(), 10);
}

/// - given: a task
/// - when: it runs coroutines between its waits
/// - then: they work, and the task keeps its identity
#[test]
fn coroutine_25_inside_a_task() {
    each_run(|| {
        let identities = Mutex::new(Vec::new());
        ecru::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    let own = ecru::task::current().id();
                    let coroutine = Coroutine::new(move |yielder: &Yielder<(), ()>, ()| {
                        for _ in 0..3 {
                            ecru::sleep(ms(1)).unwrap();
                            assert_eq!(ecru::task::current().id(), own);
                            yielder.suspend(());
                        }
                    });
                    while let Yielded(()) = coroutine.resume(()) {
                        ecru::yield_now().unwrap();
                        assert_eq!(ecru::task::current().id(), own);
                    }
                    identities.lock().unwrap().push(own);
                });
            }
        });
        let mut identities = identities.into_inner().unwrap();
        identities.dedup();
        assert_eq!(identities.len(), 3);
    });
    // A cancellation is seen inside a coroutine.
    run_on(1, || {
        let result = ecru::timeout(ms(1), || {
            Coroutine::new(|_: &Yielder<(), ()>, ()| ecru::sleep(ms(60_000))).resume(())
        });
        assert!(result.is_err());
    });
}

/// - given: an `Executor` with two closures queued, the first of which queues a third
/// - when: `tick` is called
/// - then: the first two run, in order; the third runs in the next `tick`
#[test]
fn coroutine_26_run_soon() {
    let notes = Rc::new(RefCell::new(Vec::new()));
    let executor = Rc::new(Executor::new());
    let note = |text: &'static str| {
        let notes = Rc::clone(&notes);
        move || notes.borrow_mut().push(text)
    };
    let (first, third, inside) = (note("first"), note("third"), Rc::clone(&executor));
    executor.run_soon(move || {
        first();
        inside.run_soon(third);
    });
    executor.run_soon(note("second"));
    assert!(executor.tick());
    assert_eq!(*notes.borrow(), ["first", "second"]);
    assert!(executor.tick());
    assert_eq!(*notes.borrow(), ["first", "second", "third"]);
    assert!(!executor.tick());
}

/// After a panic the other closures run in the next tick.
#[test]
fn coroutine_26_run_soon_and_panic() {
    let executor = Executor::new();
    let ran = Rc::new(Cell::new(false));
    let noted = Rc::clone(&ran);
    executor.run_soon(|| quiet_panic("in a tick"));
    executor.run_soon(move || noted.set(true));
    assert_eq!(panic_text(|| executor.tick()), "in a tick");
    assert!(executor.tick() && ran.get());
}

/// - given: an `Executor` with nothing queued
/// - when: `tick` is called
/// - then: it returns `false`
#[test]
fn coroutine_27_idle_tick() {
    let executor = Executor::new();
    assert!(!executor.tick());
    assert!(!executor.tick());
}
