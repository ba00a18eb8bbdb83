//! What a dump reports about workers that do not answer: the task that keeps each busy.

use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;

use ecru::coroutine::{Coroutine, Yielder};
use ecru::{Runtime, TaskTree};

use crate::support::{HOUR, Watchdog};

/// Code that keeps its worker busy. `begun` reports that it runs, and `over` ends it.
struct Keeper {
    begun: AtomicBool,
    over: AtomicBool,
}

impl Keeper {
    fn new() -> Keeper {
        Keeper { begun: AtomicBool::new(false), over: AtomicBool::new(false) }
    }

    /// Computes until it is told to end.
    fn compute(&self) {
        self.begun.store(true, SeqCst);
        while !self.over.load(SeqCst) {
            thread::yield_now();
        }
    }

    /// Blocks the thread in a call outside the library.
    fn block(&self) {
        let (over, wait) = mpsc::channel();
        thread::scope(|threads| {
            threads.spawn(move || {
                while !self.over.load(SeqCst) {
                    thread::yield_now();
                }
                over.send(()).unwrap();
            });
            self.begun.store(true, SeqCst);
            wait.recv().unwrap();
        });
    }
}

/// Returns a dump made by a plain thread while `body` keeps its worker busy. `body` enters the
/// keeper to report that.
fn dump_while(workers: usize, body: impl FnOnce(&Keeper)) -> TaskTree {
    let _watchdog = Watchdog::new();
    let runtime = Runtime::builder().workers(workers).build().unwrap();
    let (handle, keeper) = (runtime.handle(), Keeper::new());
    thread::scope(|threads| {
        let asker = threads.spawn(|| {
            while !keeper.begun.load(SeqCst) {
                thread::yield_now();
            }
            let mut tree = handle.dump();
            // On a busy machine the other worker's answer may be late, too.
            while tree.busy_workers().len() != 1 {
                tree = handle.dump();
            }
            keeper.over.store(true, SeqCst);
            tree
        });
        runtime.run(|| body(&keeper));
        asker.join().unwrap()
    })
}

/// Returns the name and the place of the only busy task, and whether it is the root.
#[track_caller]
fn busy(tree: &TaskTree) -> (Option<&str>, &'static Location<'static>, bool) {
    let [worker] = tree.busy_workers() else { panic!("one worker is busy: {tree}") };
    let Some(task) = tree.busy_task(*worker) else { panic!("nothing is said of it: {tree}") };
    let text = tree.to_string();
    assert!(text.contains(&task.spawned_at().to_string()), "{text}");
    assert!(task.name().is_none_or(|name| text.contains(&format!("'{name}'"))), "{text}");
    assert!(!task.is_root() || text.contains("busy with the root, run at"), "{text}");
    (task.name(), task.spawned_at(), task.is_root())
}

type Keeps = fn(&Keeper);

/// - given: one worker and two, and a task, with a name or without, that computes or blocks its
///   thread in foreign code
/// - when: a plain thread makes a dump
/// - then: it lists the busy worker, and the task by its name and the place where it was spawned
#[test]
fn run_68_dump_names_the_busy_task_slow() {
    let ways: [Keeps; 2] = [Keeper::compute, Keeper::block];
    for (workers, keeps) in [1, 2].into_iter().flat_map(|n| ways.map(|way| (n, way))) {
        let line = line!() + 3;
        let tree = dump_while(workers, |keeper| {
            ecru::scope(|s| {
                s.spawn(|| keeps(keeper));
            });
        });
        assert_eq!((busy(&tree).0, busy(&tree).1.line(), busy(&tree).2), (None, line, false));
        let line = line!() + 3;
        let tree = dump_while(workers, |keeper| {
            ecru::scope(|s| {
                s.builder().name("keeper").spawn(|| keeps(keeper));
            });
        });
        assert_eq!((busy(&tree).0, busy(&tree).1.line()), (Some("keeper"), line));
        assert_eq!(busy(&tree).1.file(), file!());
    }
}

/// - given: a root that computes, before its first wait and after it
/// - when: a plain thread makes a dump
/// - then: the busy worker's task is the root
#[test]
fn run_69_dump_names_a_busy_root_slow() {
    for waits in [false, true] {
        let tree = dump_while(1, |keeper| {
            if waits {
                ecru::yield_now().unwrap();
                ecru::scope(|s| s.builder().name("other").spawn(ecru::yield_now).join())
                    .unwrap()
                    .unwrap();
            }
            keeper.compute();
        });
        assert_eq!((busy(&tree).0, busy(&tree).2), (None, true));
    }
}

/// - given: a task that computes in a coroutine; a task that its joiner started in place; a joiner
///   that continues after that
/// - when: a plain thread makes a dump
/// - then: it names the task that computes
#[test]
fn run_70_dump_names_the_innermost_task_slow() {
    let tree = dump_while(1, |keeper| {
        ecru::scope(|s| {
            s.builder().name("resumer").spawn(|| {
                let text = "kept";
                ecru::coroutine::scoped(
                    |yielder: &Yielder<(), &str>, ()| {
                        yielder.suspend(text);
                        keeper.compute();
                    },
                    |coroutine| {
                        while let ecru::coroutine::CoroutineState::Yielded(_) = coroutine.resume(())
                        {
                        }
                    },
                );
            });
        });
    });
    assert_eq!(busy(&tree).0, Some("resumer"));
    let tree = dump_while(1, |keeper| {
        ecru::scope(|s| {
            s.builder().name("joiner").spawn(|| {
                let inner = s.builder().name("joined").spawn(|| keeper.compute());
                inner.join().unwrap();
            });
        });
    });
    assert_eq!(busy(&tree).0, Some("joined"));
    let tree = dump_while(1, |keeper| {
        ecru::scope(|s| {
            s.builder().name("joiner").spawn(|| {
                s.builder().name("joined").spawn(|| ()).join().unwrap();
                let parked = s.builder().name("parked").spawn(|| ecru::sleep(HOUR));
                assert!(parked.join_timeout(std::time::Duration::ZERO).is_none());
                keeper.compute();
                parked.cancel();
            });
        });
    });
    assert_eq!(busy(&tree).0, Some("joiner"));
}

/// - given: a thousand named tasks, which end
/// - when: another task computes, and a plain thread makes a dump
/// - then: the dump has the right name
///
/// Labels of tasks are reused.
#[test]
fn run_71_dump_names_a_later_task() {
    let tree = dump_while(2, |keeper| {
        ecru::scope(|s| {
            for n in 0..1000 {
                s.builder().name(format!("early {n}")).spawn(move || {
                    if n % 3 == 0 {
                        ecru::yield_now().unwrap();
                    }
                });
            }
        });
        let coroutine = Coroutine::new(|_: &Yielder<(), ()>, ()| ());
        coroutine.resume(());
        ecru::scope(|s| {
            s.builder().name("late").spawn(|| keeper.compute());
        });
    });
    assert_eq!(busy(&tree).0, Some("late"));
}

/// - given: a task that starts others in place and never waits
/// - when: a plain thread makes dumps
/// - then: each name and place belongs to a task of the program
#[test]
fn run_72_dump_while_busy_tasks_change_slow() {
    let _watchdog = Watchdog::new();
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let (handle, over) = (runtime.handle(), AtomicBool::new(false));
    thread::scope(|threads| {
        let asker = threads.spawn(|| {
            for _ in 0..5 {
                let tree = handle.dump();
                for &worker in tree.busy_workers() {
                    let Some(task) = tree.busy_task(worker) else { continue };
                    assert!(task.name().is_none_or(|name| name.starts_with("short ")), "{tree}");
                    assert_eq!(task.spawned_at().file(), file!());
                }
            }
            over.store(true, SeqCst);
        });
        runtime.run(|| {
            // Computes without a wait, so that its worker does not answer, and starts other tasks
            // in place.
            ecru::scope(|s| {
                let mut n = 0;
                while !over.load(SeqCst) {
                    n += 1;
                    s.builder().name(format!("short {n}")).spawn(|| ()).join().unwrap();
                }
            });
        });
        asker.join().unwrap();
    });
}
