//! The tasks that a dump calls leaked: nothing can wake them any more.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex as StdMutex, OnceLock, mpsc};
use std::thread;

use ecru::channel::{self, Receiver, Sender};
use ecru::diag::Leak;
use ecru::sync::Mutex;
use ecru::{Runtime, RuntimeHandle, TaskTree};

use crate::support::{HOUR, OnDrop, Watchdog, alone_with, each_run, until};

/// Returns the names of the leaked tasks, in alphabetical order.
fn leaked(tree: &TaskTree, which: impl Fn(&Leak) -> bool) -> Vec<String> {
    let leaks = tree.leaks().iter().filter(|leak| which(leak));
    let ids = leaks.flat_map(|leak| leak.waits().tasks());
    let name = |task: &ecru::diag::TaskInfo| {
        let otherwise = if task.is_root() { "the root" } else { "no name" };
        task.name().unwrap_or(otherwise).to_owned()
    };
    let mut names: Vec<String> = ids.map(|id| name(tree.task(*id).unwrap())).collect();
    names.sort_unstable();
    names
}

fn waits(tree: &TaskTree, name: &str) -> bool {
    tree.tasks().any(|task| task.name() == Some(name) && task.waits_on().is_some())
}

/// - given: two tasks that wait for each other's locks; tasks that join one of them, wait for a lock
///   of one of them, and have a scope with such a task; a task with a time limit, a daemon, and a task
///   that goes on
/// - when: a dump is made
/// - then: the two and those that wait for them without a limit are leaked for certain; the text has
///   those that are not in the cycle, and the JSON has all
#[test]
#[cfg(debug_assertions)]
fn run_128_what_waits_for_a_lock_cycle_is_leaked() {
    each_run(|| {
        let (left, right) = (&Mutex::new(()).named("left"), &Mutex::new(()).named("right"));
        let both_held = &ecru::sync::Latch::new(2);
        ecru::cancel_scope(|limit| {
            ecru::scope(|s| {
                let by = |name: &'static str| s.builder().name(name);
                let lock_both = move |first: &Mutex<()>, second: &Mutex<()>| {
                    let _first = first.lock_cancellable();
                    both_held.count_down();
                    both_held.wait().unwrap();
                    drop(second.lock_cancellable());
                };
                let one = by("one").spawn(move || lock_both(left, right));
                by("two").spawn(move || lock_both(right, left));
                both_held.wait().unwrap();
                by("joins").spawn(move || drop(one.join()));
                by("locks").spawn(|| drop(left.lock_cancellable()));
                by("parent").spawn(|| {
                    ecru::scope(|inner| {
                        inner.builder().name("child").spawn(|| drop(right.lock_cancellable()));
                    });
                });
                by("limited").spawn(|| ecru::timeout(HOUR, || drop(left.lock_cancellable())));
                let daemon = move || drop(left.lock_cancellable());
                s.builder().name("daemon").spawn_daemon(daemon);
                by("works").spawn(crate::support::forever);
                // This task asks, so the scope of the root is not leaked.
                let names =
                    ["one", "two", "joins", "locks", "parent", "child", "limited", "daemon"];
                let mut tree = RuntimeHandle::current().dump();
                until(|| {
                    tree = RuntimeHandle::current().dump();
                    names.iter().all(|name| waits(&tree, name))
                });
                let expected = ["child", "joins", "locks", "one", "parent", "two"];
                assert_eq!(leaked(&tree, |leak| !leak.is_suspected()), expected, "{tree}");
                assert!(leaked(&tree, Leak::is_suspected).is_empty());
                let text = tree.to_string();
                let header = "leaked: nothing can wake 3 tasks any more, except a cancellation:";
                assert!(text.contains(header), "{text}");
                let section = text.split_once(header).unwrap().1;
                for part in ["'joins'", "'locks'", "'child'", "'left'", "'right'", "leaked.rs:"] {
                    assert!(section.contains(part), "{part}:\n{text}");
                }
                let json = tree.to_json();
                assert_eq!(json.matches("\"suspected\":false,\"kept_by\":[]").count(), 6, "{json}");
                limit.cancel();
            });
        });
        let tree = RuntimeHandle::current().dump();
        assert!(tree.leaks().is_empty(), "{tree}");
    });
}

/// Runs `root` in a process of its own, whose memory no other test has used, and looks for leaks
/// from a thread beside, until a tree is right. Returns that tree in the child process.
fn look_beside(
    test: &str,
    root: impl Fn() + Sync,
    is_right: impl Fn(&TaskTree) -> bool + Sync,
) -> Option<TaskTree> {
    let mut found = None;
    let soon = |command: &mut std::process::Command| {
        command.env("ECRU_TEST_LEAKED_AFTER_MS", "1");
    };
    alone_with(test, soon, || {
        let _watchdog = Watchdog::new();
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let handle = runtime.handle();
        let (begun, begins) = mpsc::channel::<ecru::CancelHandle>();
        thread::scope(|threads| {
            let (handle, is_right) = (&handle, &is_right);
            let look = threads.spawn(move || {
                let limit = begins.recv().unwrap();
                let _end = OnDrop(|| limit.cancel());
                let mut tree = handle.find_leaks();
                until(|| {
                    tree = handle.find_leaks();
                    is_right(&tree)
                });
                tree
            });
            runtime.run(|| {
                ecru::cancel_scope(|limit| {
                    begun.send(limit).unwrap();
                    root();
                });
            });
            found = Some(look.join().unwrap());
        });
    });
    found
}

/// The number of tasks of which at least one has to be found. The address of a channel may lie
/// somewhere by chance, as what is left of an earlier object.
const MANY: usize = 20;

/// Waits for a value that only this task could send.
fn wait_for_oneself() {
    let (_sender, receiver) = channel::bounded::<u32>(1);
    assert!(receiver.recv().is_err());
}

/// - given: tasks each of which has the only sender of the channel from which it receives
/// - when: leaks are looked for
/// - then: they are suspected, as one group with its place and the tasks themselves as keepers; a
///   plain dump says nothing; they end when they are cancelled
#[test]
#[cfg(not(ecru_baton))]
fn run_129_a_receiver_with_its_only_sender() {
    const NAME: &str = "leaked::run_129_a_receiver_with_its_only_sender";
    let root = || {
        ecru::scope(|s| {
            for _ in 0..MANY {
                s.builder().name("leaks").spawn(wait_for_oneself);
            }
            s.builder().name("works").spawn(crate::support::forever);
        });
    };
    let found = look_beside(NAME, root, |tree| {
        leaked(tree, Leak::is_suspected).contains(&String::from("leaks"))
    });
    let Some(tree) = found else { return };
    let names = leaked(&tree, |_| true);
    assert!(names.iter().all(|name| name == "leaks" || name == "the root"), "{names:?}\n{tree}");
    let leak = tree.leaks().iter().find(|leak| leak.waits().wait().channel_ends().is_some());
    let leak = leak.unwrap();
    let mut tasks = leak.waits().tasks().to_vec();
    tasks.sort_unstable();
    assert_eq!(leak.kept_by(), tasks, "{tree}");
    let text = tree.to_string();
    assert!(
        text.contains("suspected leak: as far as the memory shows, nothing can wake"),
        "{text}"
    );
    assert!(text.contains("all handles that were found are in the memory of #"), "{text}");
    assert!(tree.to_json().contains("\"suspected\":true,\"kept_by\":["));
}

std::thread_local! {
    static IN_PLACE: std::cell::Cell<Option<Sender<u32>>> = const { std::cell::Cell::new(None) };
}

static KEPT: OnceLock<StdMutex<Vec<Sender<u32>>>> = OnceLock::new();

/// - given: tasks that wait for values whose senders a static, a thread-local, an object on the heap,
///   a thread and a task that sleeps have, or borrow; waits with a time limit; a receive from a channel of a clock; beside tasks
///   that are leaked
/// - when: leaks are looked for, until the leaked ones are found
/// - then: the others are not among them
#[test]
#[cfg(not(ecru_baton))]
fn run_131_what_may_still_be_woken_is_not_leaked() {
    const NAME: &str = "leaked::run_131_what_may_still_be_woken_is_not_leaked";
    let on_the_heap: &Arc<StdMutex<Vec<Sender<u32>>>> = &Arc::default();
    let over = &AtomicBool::new(false);
    let root = || {
        let (to_thread, for_thread) = mpsc::channel::<Sender<u32>>();
        thread::scope(|threads| {
            threads.spawn(move || {
                let sender = for_thread.recv().unwrap();
                while !over.load(SeqCst) {
                    thread::yield_now();
                }
                drop(sender);
            });
            let _over = OnDrop(|| over.store(true, SeqCst));
            ecru::scope(|s| {
                let by = |name: &'static str| s.builder().name(name);
                let new = channel::bounded::<u32>;
                let wait = |receiver: Receiver<u32>| assert!(receiver.recv().is_err());
                // The receiving task makes each of these, so its stack has been in their ways.
                by("static").spawn(move || {
                    let (sender, receiver) = new(1);
                    KEPT.get_or_init(StdMutex::default).lock().unwrap().push(sender);
                    wait(receiver);
                });
                by("local").spawn(move || {
                    let (sender, receiver) = new(1);
                    IN_PLACE.set(Some(sender));
                    wait(receiver);
                });
                by("heap").spawn(move || {
                    let (sender, receiver) = new(1);
                    on_the_heap.lock().unwrap().push(sender);
                    wait(receiver);
                });
                by("thread").spawn(move || {
                    let (sender, receiver) = new(1);
                    to_thread.send(sender).unwrap();
                    wait(receiver);
                });
                let (sender, receiver) = new(1);
                by("sleeper").spawn(move || {
                    let _sender = sender;
                    crate::support::forever()
                });
                by("waits for a sleeper").spawn(move || wait(receiver));
                by("lender").spawn(move || {
                    let (sender, receiver) = new(1);
                    ecru::scope(|inner| {
                        inner.builder().name("borrower").spawn(|| {
                            let _ = crate::support::forever();
                            let _ = sender.send(1);
                        });
                        inner.builder().name("waits for a borrower").spawn(move || wait(receiver));
                    });
                });
                by("limited").spawn(move || ecru::timeout(HOUR, wait_for_oneself));
                by("deadline").spawn(move || {
                    let (_sender, receiver) = new(1);
                    assert!(receiver.recv_timeout(HOUR).is_err());
                });
                by("clock").spawn(|| channel::after(HOUR).recv().is_err());
                by("daemon's").spawn(|| {
                    ecru::scope(|inner| {
                        inner.builder().name("daemon").spawn_daemon(wait_for_oneself);
                        let _ = crate::support::forever();
                    });
                });
                for _ in 0..MANY {
                    by("leaks").spawn(wait_for_oneself);
                }
            });
        });
    };
    let others = [
        "static",
        "local",
        "heap",
        "thread",
        "sleeper",
        "waits for a sleeper",
        "lender",
        "borrower",
        "waits for a borrower",
        "limited",
        "deadline",
        "clock",
        "daemon's",
        "daemon",
    ];
    let found = look_beside(NAME, root, |tree| {
        leaked(tree, Leak::is_suspected).contains(&String::from("leaks"))
            && others.iter().all(|name| waits(tree, name))
    });
    let Some(tree) = found else { return };
    let names = leaked(&tree, |_| true);
    assert!(names.iter().all(|name| name == "leaks" || name == "the root"), "{names:?}\n{tree}");
}
