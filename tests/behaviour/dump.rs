//! Dumps of a run: `Handle::dump`.

use std::io::Read;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use ecru::diag::{TaskInfo, TaskState};
use ecru::net::{TcpListener, TcpStream, UnixStream};
use ecru::{Runtime, RuntimeHandle, Source, TaskTree, channel, source, sync};

use crate::common::PATIENCE;
use crate::support::{
    OnDrop, Watchdog, each_run, forever, ms, now, panic_text, quiet_panic, run_on, since, until,
};

fn us(microseconds: u64) -> Duration {
    Duration::from_micros(microseconds)
}

fn dump() -> TaskTree {
    RuntimeHandle::current().dump()
}

/// Returns the task with this name.
#[track_caller]
fn named<'t>(tree: &'t TaskTree, name: &str) -> &'t TaskInfo {
    match tree.tasks().find(|task| task.name() == Some(name)) {
        Some(task) => task,
        None => panic!("no task '{name}' in\n{tree}"),
    }
}

/// Makes dumps until the named tasks wait.
#[track_caller]
fn dump_when_waiting(names: &[&str]) -> TaskTree {
    let mut tree = dump();
    until(|| {
        tree = dump();
        let waits = |name: &&str| {
            tree.tasks().any(|task| task.name() == Some(*name) && task.waits_on().is_some())
        };
        names.iter().all(waits)
    });
    tree
}

/// - given: tasks in scopes within scopes
/// - when: a task calls `RuntimeHandle::dump`
/// - then: each task is there with its name, where it was spawned, and the task and place that
///   opened its scope; the tree is printed by depth
#[test]
fn run_20_dump_shows_the_tree() {
    each_run(|| {
        ecru::scope(|s| {
            let spawned_on = line!() + 1;
            let outer = s.builder().name("outer").spawn(|| {
                ecru::scope(|s| {
                    s.builder().name("inner").spawn(forever);
                    s.builder().name("other").spawn(forever);
                });
            });
            let tree = dump_when_waiting(&["outer", "inner", "other"]);
            let root = tree.tasks().next().unwrap();
            assert!(root.is_root() && root.parent().is_none());
            assert!(matches!(root.state(), TaskState::Running));
            let (outer_task, inner) = (named(&tree, "outer"), named(&tree, "inner"));
            assert_eq!(outer_task.parent(), Some(root.id()));
            assert_eq!(root.children(), [outer_task.id()]);
            assert_eq!(inner.parent(), Some(outer_task.id()));
            assert_eq!(outer_task.children().len(), 2);
            assert!(outer_task.spawned_at().file().ends_with("dump.rs"));
            assert_eq!(outer_task.spawned_at().line(), spawned_on);
            assert_eq!(inner.scope_opened_at().unwrap().line(), spawned_on + 1);
            assert_eq!(tree.tasks().count(), 4);
            assert!(tree.busy_workers().is_empty() && tree.left_out() == 0);
            let clone = tree.clone();
            let text = thread::spawn(move || clone.to_string()).join().unwrap();
            assert_eq!(text, tree.to_string());
            let line = text.lines().find(|line| line.contains("'inner'")).unwrap();
            assert!(line.starts_with("        task #") && line.contains("time to pass"), "{text}");
            outer.cancel();
        });
    });
}

/// - given: tasks that sleep, join, end a scope, accept, unblock
/// - when: a dump is made
/// - then: each task says what it waits for: the task, the descriptor, and the place, as far as
///   callers are tracked
#[test]
fn run_21_dump_says_what_a_task_waits_for() {
    each_run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let done = AtomicBool::new(false);
        ecru::scope(|s| {
            let sleeper = s.builder().name("sleeper").spawn(|| {
                let _ = forever();
            });
            let joined_on = line!() + 1;
            let join = move || drop(sleeper.join());
            s.builder().name("joiner").spawn(join);
            s.builder().name("scope").spawn(|| {
                ecru::scope(|s| {
                    s.spawn(forever);
                });
            });
            s.builder().name("acceptor").spawn(|| drop(listener.accept()));
            s.builder().name("blocking").spawn(|| {
                ecru::unblock(|| {
                    while !done.load(SeqCst) {
                        thread::sleep(ms(1));
                    }
                });
            });
            let names = ["sleeper", "joiner", "scope", "acceptor", "blocking"];
            let tree = dump_when_waiting(&names);
            let wait = |name| named(&tree, name).waits_on().unwrap().clone();
            assert!(wait("sleeper").to_string().starts_with("time to pass"));
            assert_eq!(wait("joiner").task(), Some(named(&tree, "sleeper").id()));
            assert_eq!(wait("joiner").at().unwrap().line(), joined_on);
            assert!(wait("joiner").to_string().contains("'sleeper'"));
            assert!(wait("scope").to_string().starts_with("the tasks of its scope"));
            assert!(wait("acceptor").to_string().starts_with("to accept a connection on fd"));
            assert!(wait("acceptor").fd().is_some() && wait("acceptor").at().is_none());
            assert!(wait("blocking").to_string().starts_with("a closure"));
            done.store(true, SeqCst);
            s.cancel();
        });
    });
}

/// - given: tasks that wait for channels, locks, a value that is being made, and sockets
/// - when: a dump is made
/// - then: each wait names its object: the channel's type, capacity and address, the lock's holders
///   and where it was acquired (in builds with `debug_assertions`), the maker, the socket's addresses
#[test]
fn run_76_dump_names_the_objects() {
    each_run(|| {
        let (full, _receiver) = channel::bounded(1);
        full.send(1_u8).unwrap();
        let (_sender, empty) = channel::unbounded::<String>();
        let (mutex, lock) = (sync::Mutex::new(()), sync::RwLock::new(()));
        let made = sync::OnceLock::new();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (left, _right) = UnixStream::pair().unwrap();
        ecru::scope(|s| {
            let locked_on = line!() + 1;
            let (guard, reading) = (mutex.lock(), (lock.read(), lock.read()));
            s.builder().name("sender").spawn(|| assert!(full.send(2).is_err()));
            s.builder().name("receiver").spawn(|| drop(empty.recv()));
            s.builder().name("locker").spawn(|| drop(mutex.lock()));
            s.builder().name("writer").spawn(|| drop(lock.write_cancellable()));
            s.builder().name("reader").spawn(|| drop((&client).read(&mut [0])));
            s.builder().name("nameless").spawn(|| drop((&left).read(&mut [0])));
            let maker = s.builder().name("maker").spawn(|| {
                made.get_or_init(|| {
                    let _ = forever();
                })
            });
            dump_when_waiting(&["maker"]);
            s.builder().name("user").spawn(|| {
                made.get_or_init(|| unreachable!("it is being made"));
            });
            let names = ["sender", "receiver", "locker", "writer", "reader", "nameless", "user"];
            let tree = dump_when_waiting(&names);
            let wait = |name| named(&tree, name).waits_on().unwrap().clone();
            let object = |name| wait(name).object().unwrap().to_owned();
            // A simulation shows numbers instead of addresses.
            let name = if ecru::sim::is_simulated() { "#" } else { "0x" };
            let (sent, received) = (object("sender"), object("receiver"));
            assert!(sent.starts_with(&format!("of u8 (bounded(1), {name}")), "{sent}");
            let channel = format!("of alloc::string::String (unbounded, {name}");
            assert!(received.starts_with(&channel), "{received}");
            let text = wait("receiver").to_string();
            assert!(text.starts_with(&format!("a value from a channel {received}, at ")), "{text}");
            let (root, place) = (ecru::task::current().id(), format!("{}:{locked_on}:", file!()));
            let held = format!("held by task {root} since {place}");
            let held_last = |name| wait(name).to_string().contains(&format!(", {held}"));
            let is_noted = cfg!(debug_assertions);
            assert!(!is_noted || object("locker").contains(&held) && held_last("locker"), "{tree}");
            assert!(object("writer").contains(", 2 readers have it)"), "{tree}");
            assert_eq!(wait("writer").what(), "a write lock");
            assert!(!is_noted || object("writer").contains(&held) && held_last("writer"), "{tree}");
            let peer = listener.local_addr().unwrap().to_string();
            assert_eq!(wait("reader").peer(), Some(&*peer));
            assert!(wait("reader").to_string().contains(&peer));
            assert_eq!(wait("nameless").peer(), None);
            assert_eq!(wait("nameless").fd_name(), None);
            let own = client.local_addr().unwrap().to_string();
            assert!(ecru::sim::is_simulated() || wait("reader").fd_name() == Some(&*own), "{tree}");
            let id = named(&tree, "maker").id();
            let makes = format!(", by task {id} 'maker' at {}:{}:", file!(), locked_on + 8);
            assert!(object("user").contains(&makes), "{tree}");
            maker.cancel();
            drop((guard, reading));
            s.cancel();
        });
    });
}

/// - given: a task that reads from a file that has a path, and in which there is nothing yet
/// - when: a dump is made
/// - then: the wait names the descriptor and the path
#[test]
fn run_138_dump_names_files() {
    let _watchdog = Watchdog::new();
    let path = std::env::temp_dir().join(format!("ecru-dump-fifo-{}", std::process::id()));
    let path = path.to_str().unwrap();
    let _removed = OnDrop(|| drop(std::fs::remove_file(path)));
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    // Open for both, so that neither open waits for the other one.
    let both = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    // The other driver reads such files on a thread.
    let built = Runtime::builder().workers(1).driver(ecru::DriverKind::Uring).build();
    let Ok(runtime) = built else { return };
    runtime.run(|| {
        let mut file = ecru::fs::File::from(both.try_clone().unwrap());
        ecru::scope(|s| {
            s.builder().name("reader").spawn(move || file.read_exact(&mut [0]).unwrap());
            until(|| {
                let tree = dump();
                let reader = tree.tasks().find(|task| task.name() == Some("reader"));
                let wait = reader.and_then(|task| task.waits_on());
                wait.is_some_and(|wait| wait.fd().is_some() && wait.fd_name() == Some(path))
            });
            std::io::Write::write_all(&mut &both, b"x").unwrap();
        });
    });
}

#[inline(never)]
fn a_function_that_waits() {
    let _ = forever();
    std::hint::black_box(());
}

#[inline(never)]
fn a_function_that_waits_without_a_limit() {
    let _ = source::never::<()>().wait();
    std::hint::black_box(());
}

/// - given: a task that waits in a function
/// - when: a dump is made
/// - then: its trace names the function, without frames of the scheduler, and is printed by `{:#}`
///   only; the task continues to wait
#[test]
fn run_22_dump_has_stack_traces() {
    each_run(|| {
        ecru::scope(|s| {
            let task = s.builder().name("deep").spawn(a_function_that_waits);
            let tree = dump_when_waiting(&["deep"]);
            let trace = named(&tree, "deep").stack_trace().unwrap().to_string();
            assert!(trace.contains("a_function_that_waits"), "{trace}");
            assert!(!trace.contains("ecru::sched"), "{trace}");
            let endless = s.builder().name("endless").spawn(a_function_that_waits_without_a_limit);
            let tree = dump_when_waiting(&["deep", "endless"]);
            let trace = named(&tree, "endless").stack_trace().unwrap().to_string();
            assert!(trace.contains("a_function_that_waits_without_a_limit"), "{trace}");
            // Frames of the wait itself are left out.
            assert!(!trace.contains("task/away") && !trace.contains("task::away"), "{trace}");
            endless.cancel();
            endless.join().unwrap();
            let tree = dump_when_waiting(&["deep"]);
            let text = format!("{tree:#}");
            assert!(text.contains("a_function_that_waits"));
            assert!(!tree.to_string().contains("a_function_that_waits"));
            assert!(!task.is_finished());
            task.cancel();
            task.join().unwrap();
        });
    });
}

/// - given: a plain thread with a `RuntimeHandle`
/// - when: it makes a dump before, during and after the run
/// - then: the tree is empty, then has the root with its trace, then is empty
#[test]
fn run_23_dump_from_outside_shows_the_root() {
    for workers in [1, 2] {
        let _watchdog = Watchdog::new();
        let runtime = Runtime::builder()
            .workers(workers)
            .placement(ecru::Placement::Together)
            .build()
            .unwrap();
        let handle = runtime.handle();
        assert!(handle.dump().is_empty());
        let begun = AtomicBool::new(false);
        thread::scope(|threads| {
            let begun = &begun;
            let asker = threads.spawn(move || {
                let start = now();
                loop {
                    let tree = handle.dump();
                    if let Some(root) = tree.tasks().next()
                        && root.waits_on().is_some()
                        && begun.load(SeqCst)
                    {
                        let joined = root.waits_on().unwrap().task().unwrap();
                        let trace = root.stack_trace().unwrap().to_string();
                        handle.spawn(|| ()).unwrap().join().unwrap();
                        return (tree.task(joined).unwrap().name().map(String::from), trace);
                    }
                    assert!(since(start) < PATIENCE / 2, "the root does not wait:\n{tree}");
                }
            });
            runtime.run(|| {
                ecru::scope(|s| {
                    let child = s.builder().name("child").spawn(|| until(|| asker.is_finished()));
                    begun.store(true, SeqCst);
                    let _ = child.join();
                });
            });
            let (name, trace) = asker.join().unwrap();
            assert_eq!(name.as_deref(), Some("child"));
            // An optimized function without lines may not have a name either.
            let named = !cfg!(debug_assertions) || trace.contains("run_23_dump_from_outside");
            assert!(trace.contains("   0: ") && named, "{trace}");
        });
        assert!(runtime.handle().dump().is_empty());
    }
}

/// - given: a root that has returned while three tasks of its run wait
/// - when: a thread makes dumps, whose questions are tasks of the run, too
/// - then: the root is said to wait for three tasks
#[test]
fn run_132_a_dump_does_not_count_its_questions() {
    for workers in [1, 2] {
        let _watchdog = Watchdog::new();
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        let (handle, over) = (runtime.handle(), &Arc::new(sync::Latch::new(1)));
        thread::scope(|threads| {
            threads.spawn(move || {
                let _end = OnDrop(|| over.count_down());
                until(|| {
                    let tree = handle.dump();
                    let root = tree.tasks().next().filter(|root| root.is_root());
                    root.and_then(|root| root.waits_on()?.tasks_left()) == Some(3)
                });
            });
            runtime.run(|| {
                for _ in 0..3 {
                    let over = Arc::clone(over);
                    drop(ecru::spawn(move || over.wait().unwrap()));
                }
            });
        });
    }
}

/// - given: many tasks that have not begun
/// - when: one of the running tasks makes a dump
/// - then: they are listed as unstarted, and begin in their order afterwards
#[test]
fn run_24_dump_shows_unstarted_tasks() {
    let order = Mutex::new(Vec::new());
    run_on(1, || {
        ecru::scope(|s| {
            // These are more tasks than a worker starts between two checks of its inbox.
            for n in 0..300 {
                let order = &order;
                s.builder().name(format!("{n}")).spawn(move || {
                    if n == 0 {
                        let tree = dump();
                        let last = named(&tree, "299");
                        assert!(matches!(last.state(), TaskState::Unstarted), "{last}");
                        assert!(matches!(named(&tree, "0").state(), TaskState::Running));
                    }
                    order.lock().unwrap().push(n);
                });
            }
        });
    });
    let mut order = order.into_inner().unwrap();
    order.retain(|n| *n != 0);
    assert_eq!(order, (1..300).collect::<Vec<_>>());
}

/// - given: a task that does not wait, on one of two workers
/// - when: a dump is made
/// - then: that worker is listed as busy, and the dump ends in time
#[test]
fn run_25_dump_names_busy_workers() {
    let _watchdog = Watchdog::new();
    let runtime =
        Runtime::builder().workers(2).placement(ecru::Placement::Together).build().unwrap();
    let (handle, busy, over) = (runtime.handle(), AtomicBool::new(false), AtomicBool::new(false));
    let (busy, over) = (&busy, &over);
    thread::scope(|threads| {
        let asker = threads.spawn(move || {
            while !busy.load(SeqCst) {
                thread::yield_now();
            }
            let tree = handle.dump();
            over.store(true, SeqCst);
            tree
        });
        runtime.run(|| {
            ecru::scope(|s| {
                s.spawn(|| {
                    busy.store(true, SeqCst);
                    while !over.load(SeqCst) {
                        thread::yield_now();
                    }
                });
            });
        });
        let tree = asker.join().unwrap();
        assert_eq!(tree.busy_workers().len(), 1, "{tree}");
        assert!(tree.to_string().contains("is busy"), "{tree}");
    });
}

/// - given: a `no_suspend` section
/// - when: it makes a dump
/// - then: it panics, because a dump waits
#[test]
fn run_26_dump_refuses_in_no_suspend() {
    run_on(1, || {
        let text = panic_text(|| ecru::no_suspend(dump));
        assert!(text.contains("no_suspend"), "{text}");
    });
}

/// Works with every kind of wait, and returns a count of the results.
fn work(rounds: u64) -> u64 {
    let total = AtomicU64::new(0);
    ecru::scope(|s| {
        let (sender, receiver) = ecru::channel::bounded(1);
        s.spawn(move || {
            for value in 0..rounds {
                sender.send(value).unwrap();
            }
        });
        s.spawn(|| {
            for value in receiver {
                total.fetch_add(value, SeqCst);
            }
        });
        s.spawn(|| {
            for _ in 0..rounds {
                let unwound = s.spawn(|| {
                    let _waits = OnDrop(|| ecru::shield(|| ecru::sleep(us(50)).unwrap()));
                    quiet_panic("unwinds over a wait");
                });
                let nested = ecru::scope(|s| s.spawn(|| ecru::sleep(us(20))).join());
                assert_eq!(nested.unwrap(), Ok(()));
                assert!(unwound.join().is_err());
                assert!(ecru::timeout(us(30), forever).is_err());
                ecru::yield_now().unwrap();
            }
        });
        s.builder().stack_size(16 * 1024).spawn(|| {
            for _ in 0..rounds / 4 {
                ecru::unblock(|| thread::sleep(us(50)));
            }
        });
    });
    total.into_inner()
}

/// - given: tasks that wait in every possible way, one of them while it unwinds
/// - when: a thread makes dumps in a loop
/// - then: the tasks compute the right results, and they end
#[test]
fn run_41_dump_while_work_goes_on() {
    const ROUNDS: u64 = 100;
    for workers in [1, 2] {
        let _watchdog = Watchdog::new();
        let runtime = Runtime::builder()
            .workers(workers)
            .placement(ecru::Placement::Together)
            .build()
            .unwrap();
        let (handle, over) = (runtime.handle(), AtomicBool::new(false));
        let traces = AtomicUsize::new(0);
        thread::scope(|threads| {
            let (handle, over, traces) = (&handle, &over, &traces);
            let asker = threads.spawn(move || {
                while !over.load(SeqCst) {
                    let tree = handle.dump();
                    let seen = tree.tasks().filter(|task| task.stack_trace().is_some()).count();
                    traces.fetch_add(seen, SeqCst);
                }
            });
            let total = runtime.run(|| {
                let own = ecru::spawn(|| {
                    for _ in 0..10 {
                        assert!(dump().tasks().count() > 0);
                    }
                });
                // Again if the thread came too late for the first.
                loop {
                    let total = work(ROUNDS);
                    if total != (0..ROUNDS).sum::<u64>() || traces.load(SeqCst) > 0 {
                        own.join().unwrap();
                        return total;
                    }
                }
            });
            over.store(true, SeqCst);
            assert_eq!(total, (0..ROUNDS).sum::<u64>());
            asker.join().unwrap();
        });
    }
}

/// - given: a task that computes, and is preempted
/// - when: another task computes for a millisecond and makes a dump, in a loop
/// - then: the preempted task continues
#[test]
fn run_79_dumps_do_not_hold_up_others() {
    run_on(1, || {
        let (number, is_done) = (sync::Mutex::new(0), AtomicBool::new(false));
        ecru::scope(|s| {
            s.spawn(|| {
                while *number.lock() < 100 {
                    *number.lock() += 1;
                }
                is_done.store(true, SeqCst);
            });
            until(|| {
                let start = now();
                while since(start) < ms(1) && !ecru::sim::is_simulated() {}
                assert!(dump().tasks().count() > 0);
                is_done.load(SeqCst)
            });
        });
    });
}
