//! What a dump says of a program that is stuck: the names of objects, their holders, tasks that wait
//! for each other, and long waits.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use ecru::channel::{self, Named};
use ecru::diag::TaskInfo;
use ecru::sync::{Barrier, Condvar, Latch, Mutex, Notify, RwLock, Semaphore};
use ecru::{RuntimeHandle, Source, TaskTree};

use crate::support::{each_run, forever, ms, run_on, until};

fn dump() -> TaskTree {
    RuntimeHandle::current().dump()
}

#[track_caller]
fn named<'t>(tree: &'t TaskTree, name: &str) -> &'t TaskInfo {
    tree.tasks().find(|task| task.name() == Some(name)).unwrap_or_else(|| panic!("{name}:\n{tree}"))
}

/// Makes dumps until one fulfils the condition.
#[track_caller]
fn dump_until(is_right: impl Fn(&TaskTree) -> bool) -> TaskTree {
    let mut tree = dump();
    until(|| {
        tree = dump();
        is_right(&tree)
    });
    tree
}

fn waits(tree: &TaskTree, name: &str) -> bool {
    tree.tasks().any(|task| task.name() == Some(name) && task.waits_on().is_some())
}

fn head(tree: &TaskTree) -> String {
    tree.to_string().lines().take(5).collect::<Vec<_>>().join("\n")
}

/// - given: objects that the program has named, and tasks that wait for them
/// - when: a dump is made
/// - then: each wait shows the name, and what there is to know: the channel's kind, length and ends,
///   the free permits, the parties of a barrier, the count of a latch
#[test]
fn run_110_named_objects() {
    each_run(|| {
        let (full, room) = channel::bounded(2).named("orders");
        full.send(1).unwrap();
        full.send(2).unwrap();
        let more = full.clone();
        let (_never_sends, empty) = channel::sliding::<String>(3).named("news");
        let lock = Mutex::new(0).named("balance");
        let book = RwLock::new(0).named("book");
        let uploads = Semaphore::new(1).named("uploads");
        let (bell, letters) = (Notify::new().named("bell"), Condvar::new().named("letters"));
        let (ready, start) = (Latch::new(3).named("ready"), Barrier::new(2).named("start"));
        ecru::scope(|s| {
            let (locked, read) = (lock.lock(), book.read());
            let permit = uploads.acquire().unwrap();
            let by = |name: &'static str| s.builder().name(name);
            by("orders").spawn(|| assert!(full.send(3).is_err()));
            by("news").spawn(|| assert!(empty.recv().is_err()));
            by("balance").spawn(|| drop(lock.lock()));
            by("book").spawn(|| drop(book.write()));
            by("uploads").spawn(|| drop(uploads.acquire()));
            by("bell").spawn(|| bell.wait());
            by("ready").spawn(|| ready.wait());
            by("start").spawn(|| start.wait());
            by("letters").spawn(|| {
                let own = Mutex::new(());
                let _ = letters.wait(&mut own.lock());
            });
            let names = [
                "orders", "news", "balance", "book", "uploads", "bell", "ready", "start", "letters",
            ];
            let tree = dump_until(|tree| names.iter().all(|name| waits(tree, name)));
            for name in names {
                let wait = named(&tree, name).waits_on().unwrap();
                assert_eq!(wait.object_name(), Some(name), "{tree}");
                assert!(wait.to_string().contains(&format!("'{name}'")), "{tree}");
            }
            let object = |name| named(&tree, name).waits_on().unwrap().object().unwrap().to_owned();
            let orders = object("orders");
            assert!(orders.starts_with("'orders' of i32 (bounded(2), "), "{orders}");
            assert!(orders.ends_with(", 2 in it, 2 senders, 1 receiver)"), "{orders}");
            assert_eq!(named(&tree, "orders").waits_on().unwrap().channel_ends(), Some((2, 1)));
            assert!(object("news").contains("(sliding(3), "), "{tree}");
            assert!(object("news").contains(", 0 in it, 1 sender, 1 receiver)"), "{tree}");
            assert!(object("uploads").contains(", 0 free)"), "{tree}");
            assert!(object("ready").contains(", 3 to go)"), "{tree}");
            assert!(object("start").contains(", 1 of 2 are here)"), "{tree}");
            let json = tree.to_json();
            assert!(json.contains(r#""object_name":"orders","holders":[],"senders":2"#), "{json}");
            drop((locked, read, permit, more));
            s.cancel();
        });
        drop(room);
    });
}

/// - given: a readers-writer lock with a reader, and a semaphore whose permits are taken
/// - when: a dump is made, and another one after they have been given back
/// - then: the waits name the holders with their places; those that are gone are not named
#[test]
#[cfg(debug_assertions)]
fn run_111_holders_are_named_while_they_hold() {
    each_run(|| {
        let (book, permits) = (RwLock::new(0), Semaphore::new(2));
        ecru::scope(|s| {
            let line = line!() + 1;
            let mut held = Some((book.read(), permits.acquire().unwrap()));
            let other = s.builder().name("other").spawn(|| {
                let (_read, _permit) = (book.read(), permits.acquire().unwrap());
                forever()
            });
            let tree = dump_until(|tree| waits(tree, "other"));
            let (own, others) = (ecru::task::current().id(), named(&tree, "other").id());
            s.builder().name("writer").spawn(|| drop(book.write()));
            s.builder().name("uploader").spawn(|| drop(permits.acquire()));
            let holders = |name| {
                let tree = dump_until(|tree| waits(tree, "writer") && waits(tree, "uploader"));
                named(&tree, name).waits_on().unwrap().holders().to_vec()
            };
            for name in ["writer", "uploader"] {
                let all = holders(name);
                let tasks: Vec<_> = all.iter().map(|holder| holder.task()).collect();
                assert_eq!(tasks, [Some(own), Some(others)], "{name}");
                assert_eq!(all[0].at().map(|at| at.line()), Some(line), "{name}");
            }
            let (_, permit) = held.take().unwrap();
            assert_eq!(holders("writer").len(), 1);
            assert_eq!(holders("writer")[0].task(), Some(others));
            drop(permit);
            until(|| !dump().tasks().any(|task| task.name() == Some("uploader")));
            other.cancel();
        });
    });
}

/// - given: three tasks each of which has a lock and waits for that of the next, in a program that
///   otherwise goes on
/// - when: a dump is made
/// - then: its first five lines name the tasks, the locks, their holders and the places
#[test]
#[cfg(debug_assertions)]
fn run_112_a_cycle_of_locks_in_a_running_program() {
    each_run(|| {
        let locks = ["red", "green", "blue"].map(|name| Mutex::new(()).named(name));
        let (have_one, over) = (Latch::new(3), AtomicBool::new(false));
        let beats = AtomicUsize::new(0);
        ecru::scope(|s| {
            s.spawn(|| {
                while !over.load(SeqCst) {
                    ecru::sleep(ms(1)).unwrap();
                    beats.fetch_add(1, SeqCst);
                }
            });
            let start = |n: usize| {
                let (locks, have_one) = (&locks, &have_one);
                s.builder().name(format!("philosopher-{n}")).spawn(move || {
                    let _own = locks[n].lock();
                    have_one.count_down();
                    have_one.wait().unwrap();
                    let second = locks[(n + 1) % 3].lock_cancellable();
                    drop(second);
                })
            };
            let started = [start(0), start(1), start(2)];
            let tree = dump_until(|tree| !tree.cycles().is_empty());
            let id = |n| named(&tree, &format!("philosopher-{n}")).id();
            let mut tasks = [id(0), id(1), id(2)];
            tasks.sort_unstable();
            let [cycle] = tree.cycles() else { panic!("one cycle:\n{tree}") };
            // It may begin with any of them.
            let mut cycle = cycle.clone();
            cycle.sort_unstable();
            assert_eq!(cycle, tasks, "{tree}");
            let head = head(&tree);
            assert!(head.contains("3 tasks wait for each other:"), "{head}");
            for part in
                ["'philosopher-0'", "'philosopher-1'", "'philosopher-2'", "'red'", "'green'"]
            {
                assert!(head.contains(part), "{part}:\n{head}");
            }
            assert_eq!(head.matches(", held by task #").count(), 3, "{head}");
            assert_eq!(head.matches("explained.rs:").count(), 9, "{head}");
            let json = tree.to_json();
            assert!(json.contains("\"cycles\":[["), "{json}");
            let before = beats.load(SeqCst);
            until(|| beats.load(SeqCst) > before);
            over.store(true, SeqCst);
            started.iter().for_each(|task| task.cancel());
        });
    });
}

/// - given: a task that joins a child while it has the lock that the child waits for; a task whose
///   scope has such a child; a task that locks a mutex twice
/// - when: a dump is made
/// - then: its first lines name both tasks, or the one
#[test]
#[cfg(debug_assertions)]
fn run_113_cycles_of_joins_and_scopes() {
    each_run(|| {
        let lock = Mutex::new(()).named("ledger");
        let (lock, locked) = (&lock, &Latch::new(1));
        for in_scope in [false, true] {
            ecru::scope(|s| {
                let parent = s.builder().name("parent").spawn(move || {
                    let _held = lock.lock();
                    ecru::scope(|inner| {
                        let child = inner.builder().name("child");
                        let child = child.spawn(move || drop(lock.lock_cancellable()));
                        if in_scope { Ok(()) } else { child.join().map(drop) }
                    })
                });
                let tree = dump_until(|tree| !tree.cycles().is_empty());
                assert_eq!(tree.cycles()[0].len(), 2, "{tree}");
                let head = head(&tree);
                assert!(head.contains("2 tasks wait for each other:"), "{head}");
                let needs =
                    if in_scope { "needs the tasks of its scope" } else { "needs the end of" };
                assert!(head.contains("'parent'") && head.contains("'child'"), "{head}");
                assert!(head.contains(needs) && head.contains("'ledger'"), "{head}");
                parent.cancel();
            });
        }
        ecru::scope(|s| {
            let twice = s.builder().name("twice").spawn(move || {
                let _first = lock.lock();
                locked.count_down();
                assert!(lock.lock_cancellable().is_err());
            });
            locked.wait().unwrap();
            let tree = dump_until(|tree| !tree.cycles().is_empty());
            assert!(head(&tree).contains("1 task waits for itself:"), "{tree}");
            twice.cancel();
        });
    });
}

/// - given: tasks that lock two mutexes in one order, and join each other's children, all the time
/// - when: dumps are made meanwhile
/// - then: none of them shows a cycle
#[test]
fn run_114_no_false_cycles() {
    let rounds = if cfg!(miri) { 5 } else { 100 };
    for workers in [1, 2] {
        run_on(workers, || {
            let (one, two) = (Mutex::new(0), Mutex::new(0));
            let over = AtomicBool::new(false);
            ecru::scope(|s| {
                for _ in 0..4 {
                    s.spawn(|| {
                        while !over.load(SeqCst) {
                            let mut first = one.lock();
                            ecru::yield_now().unwrap();
                            let mut second = two.lock();
                            (*first, *second) = (*first + 1, *second + 1);
                            ecru::yield_now().unwrap();
                            drop((first, second));
                            ecru::scope(|s| drop(s.spawn(|| ecru::yield_now()).join()));
                        }
                    });
                }
                for _ in 0..rounds {
                    let tree = dump();
                    assert!(tree.cycles().is_empty(), "{tree}");
                    assert!(!tree.to_string().contains("wait for each other"), "{tree}");
                }
                over.store(true, SeqCst);
            });
        });
    }
}

/// - given: workers that each have one of two connections and wait for another one
/// - when: a dump is made
/// - then: its first five lines name the semaphore, its holders and their places
#[test]
#[cfg(debug_assertions)]
fn run_115_an_exhausted_pool() {
    each_run(|| {
        let connections = Semaphore::new(2).named("connections");
        let have_one = Latch::new(2);
        ecru::scope(|s| {
            for _ in 0..2 {
                s.builder().name("handler").spawn(|| {
                    let _first = connections.acquire().unwrap();
                    have_one.count_down();
                    have_one.wait().unwrap();
                    drop(connections.acquire());
                });
            }
            let waits = |tree: &TaskTree| {
                let all = tree.tasks().filter_map(TaskInfo::waits_on);
                all.filter(|wait| wait.object_name() == Some("connections")).count()
            };
            let tree = dump_until(|tree| waits(tree) == 2);
            // They may have given their permits to other tasks.
            assert!(tree.cycles().is_empty(), "{tree}");
            let head = head(&tree);
            assert!(head.contains("'connections'") && head.contains("0 free"), "{head}");
            assert!(head.contains("'handler'") && head.contains("held by task #"), "{head}");
            assert!(head.contains("explained.rs:"), "{head}");
            s.cancel();
        });
    });
}

/// - given: a task that gives its permits to children that sleep, and waits for another one; a reader
///   behind a writer whose wait is cancelled, both behind a reader that joins the first
/// - when: dumps are made
/// - then: there is no cycle, because each wait ends
#[test]
fn run_126_waits_that_end_are_no_cycle() {
    let waiters = |tree: &TaskTree, object: &str| {
        let waits = tree.tasks().filter_map(TaskInfo::waits_on);
        waits.filter(|wait| wait.object_name() == Some(object)).count()
    };
    each_run(|| {
        let room = &Semaphore::new(2).named("room");
        ecru::scope(|s| {
            s.spawn(move || {
                ecru::scope(|inner| {
                    for _ in 0..2 {
                        let permit = room.acquire().unwrap();
                        inner.spawn(move || {
                            let _permit = permit;
                            forever();
                        });
                    }
                    assert!(room.acquire().is_err());
                });
            });
            let tree = dump_until(|tree| waiters(tree, "room") == 1);
            assert!(tree.cycles().is_empty(), "{tree}");
            s.cancel();
        });
        let lock = &RwLock::new(()).named("settings");
        ecru::scope(|s| {
            s.spawn(move || {
                let _first = lock.read();
                ecru::scope(|inner| {
                    let writer = inner.spawn(|| lock.write_cancellable().is_err());
                    dump_until(|tree| waiters(tree, "settings") == 1);
                    let second = inner.builder().name("second").spawn(|| drop(lock.read()));
                    inner.builder().name("joins").spawn(move || second.join().unwrap());
                    let tree =
                        dump_until(|tree| waiters(tree, "settings") == 2 && waits(tree, "joins"));
                    assert!(tree.cycles().is_empty(), "{tree}");
                    writer.cancel();
                    assert!(writer.join().unwrap());
                });
            });
        });
    });
}

/// - given: names with line breaks and escapes
/// - when: a dump is printed
/// - then: they end no line, and do nothing to a terminal
#[test]
fn run_127_names_are_printed_plainly() {
    each_run(|| {
        let lock = &Mutex::new(()).named("a\nb\u{1b}]0;c\u{7}");
        ecru::scope(|s| {
            let held = lock.lock();
            s.builder().name("d\ne\u{1b}[2J").spawn(move || drop(lock.lock()));
            let text = dump_until(|tree| waits(tree, "d\ne\u{1b}[2J")).to_string();
            assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
            assert!(text.contains(r"'d\ne\u{1b}[2J'") && text.contains(r"'a\nb"), "{text}");
            drop(held);
        });
    });
}

/// - given: fifty tasks that wait for values of a channel whose sender has been leaked, and a task
///   that waits for the lock of another one that sleeps
/// - when: the dump is asked for stale waits
/// - then: the fifty are one group with their place, the channel and the number of its senders; the
///   other wait has the chain to the task that sleeps
#[test]
#[cfg(debug_assertions)]
fn run_116_stale_waits() {
    each_run(|| {
        let (_leaked, orders) = channel::unbounded::<u32>().named("orders");
        let (lock, locked) = (Mutex::new(()), Latch::new(1));
        ecru::scope(|s| {
            for _ in 0..50 {
                s.spawn(|| orders.recv());
            }
            s.builder().name("sleeper").spawn(|| {
                let _held = lock.lock();
                locked.count_down();
                let _ = forever();
            });
            locked.wait().unwrap();
            s.builder().name("third").spawn(|| drop(lock.lock()));
            dump_until(|tree| waits(tree, "third") && waits(tree, "sleeper"));
            ecru::sleep(ms(20)).unwrap();
            let stale = dump_until(|tree| {
                let stale = tree.stale(ms(10));
                stale.iter().any(|wait| wait.tasks().len() == 50) && stale.len() == 3
            })
            .stale(ms(10));
            let group = stale.iter().find(|wait| wait.tasks().len() == 50).unwrap();
            assert_eq!(group.wait().object_name(), Some("orders"));
            assert!(group.longest() >= ms(10) && group.chain().is_empty());
            let text = group.to_string();
            assert!(text.starts_with("50 tasks spawned at "), "{text}");
            assert!(text.contains("'orders'") && text.contains("1 sender"), "{text}");
            let of = |what| stale.iter().find(|wait| wait.wait().what() == what).unwrap();
            let chain = of("a lock").chain();
            assert_eq!(chain.len(), 1, "{}", of("a lock"));
            assert_eq!(chain[0].name(), Some("sleeper"));
            assert!(of("a lock").to_string().contains("waits for time to pass"));
            assert!(dump().stale(Duration::from_secs(3600)).is_empty());
            s.cancel();
        });
    });
}

/// - given: a hundred tasks of one place that wait for the same, three that wait for something else,
///   and one with a child
/// - when: the dump is printed
/// - then: the hundred have two lines, the others have one each
#[test]
fn run_117_equal_tasks_are_folded() {
    each_run(|| {
        let (_sender, receiver) = channel::unbounded::<u32>();
        ecru::scope(|s| {
            for n in 0..100 {
                let receiver = &receiver;
                s.builder().name(format!("reader-{n}")).spawn(move || receiver.recv());
            }
            for _ in 0..3 {
                s.builder().name("few").spawn(forever);
            }
            s.builder().name("parent").spawn(|| {
                ecru::scope(|s| {
                    s.spawn(forever);
                });
            });
            let waiting = |tree: &TaskTree| {
                tree.tasks().filter(|task| task.waits_on().is_some()).count() == 105
            };
            let tree = dump_until(waiting);
            assert_eq!(tree.tasks().count(), 106);
            let text = tree.to_string();
            assert_eq!(text.matches("'reader-").count(), 1, "{text}");
            assert!(text.contains("and 99 more that look the same: #"), "{text}");
            assert_eq!(text.matches("'few'").count(), 3, "{text}");
            assert!(text.lines().count() < 20, "{text}");
            s.cancel();
        });
    });
}

/// - given: more parked tasks than a worker describes
/// - when: a dump is made
/// - then: those that wait longest are described, and the others are counted by their places
#[test]
fn run_118_many_tasks_are_counted_slow() {
    const TASKS: usize = 10_500;
    run_on(1, || {
        let waiting = AtomicUsize::new(0);
        ecru::scope(|s| {
            for n in 0..TASKS {
                let waiting = &waiting;
                let name = if n < 10 { "early" } else { "late" };
                s.builder().name(name).stack_size(16 * 1024).spawn(move || {
                    waiting.fetch_add(1, SeqCst);
                    let _ = forever();
                });
            }
            until(|| waiting.load(SeqCst) == TASKS);
            let tree = dump_until(|tree| tree.tasks().count() + tree.left_out() == TASKS + 1);
            assert!(tree.left_out() >= 490 && tree.left_out() <= 510, "{}", tree.left_out());
            let early = tree.tasks().filter(|task| task.name() == Some("early")).count();
            assert_eq!(early, 10, "the first ones have waited longest");
            let text = tree.to_string();
            assert!(text.contains(" more that are not listed"), "{}", &text[..200]);
            let place = format!("\nnot listed: {} tasks spawned at ", tree.left_out());
            assert!(text.contains(&place) && text.contains(" wait at "), "{}", &text[..200]);
            s.cancel();
        });
    });
}

/// - given: tasks that wait in a `select!`, a `Select`, and a race
/// - when: a dump is made
/// - then: each wait names its channels, and its other sources by their types
#[test]
fn run_124_selects_name_their_arms() {
    each_run(|| {
        let (full, _room) = channel::bounded(1).named("orders");
        full.send(1).unwrap();
        let (_more, empty) = channel::unbounded::<String>().named("news");
        let (bell, gate) = (Notify::new(), Latch::new(1));
        ecru::scope(|s| {
            s.builder().name("select").spawn(|| {
                ecru::select! {
                    recv(empty) -> news => assert!(news.is_err()),
                    send(full, 2) -> sent => assert!(sent.is_err()),
                    wait(bell) -> rung => assert!(rung.is_err()),
                }
            });
            s.builder().name("dynamic").spawn(|| {
                let mut select = channel::Select::new();
                select.recv(&empty);
                select.send(&full);
                drop(select.select_timeout(Duration::from_secs(3600)));
            });
            s.builder().name("race").spawn(|| ecru::source::race([&gate]).wait().is_err());
            let names = ["select", "dynamic", "race"];
            let tree = dump_until(|tree| names.iter().all(|name| waits(tree, name)));
            let object = |name| named(&tree, name).waits_on().unwrap().object().unwrap().to_owned();
            for name in ["select", "dynamic"] {
                let text = object(name);
                assert!(text.contains("a value from a channel 'news' of "), "{text}");
                assert!(
                    text.contains(", or room in a channel 'orders' of i32 (bounded(1), "),
                    "{text}"
                );
            }
            assert!(object("select").ends_with("Notify)"), "{}", object("select"));
            assert!(object("race").contains("Latch"), "{}", object("race"));
            s.cancel();
        });
    });
}

/// - given: sleeps, a closure on another thread, and a scope with two tasks
/// - when: a dump is made
/// - then: the waits show the time left, the closure's function, and the number of tasks
#[test]
fn run_119_times_closures_and_scopes() {
    each_run(|| {
        let done = AtomicBool::new(false);
        ecru::scope(|s| {
            s.builder().name("sleeper").spawn(|| ecru::sleep(Duration::from_secs(3600)));
            s.builder().name("scope").spawn(|| {
                ecru::scope(|s| {
                    s.spawn(forever);
                    s.spawn(forever);
                });
            });
            let names = ["sleeper", "scope"];
            let is_full = |tree: &TaskTree| {
                let scope = tree.tasks().find(|task| task.name() == Some("scope"));
                let left = scope.and_then(|task| task.waits_on()?.tasks_left());
                names.iter().all(|name| waits(tree, name)) && left == Some(2)
            };
            let tree = dump_until(is_full);
            let wait = |name| named(&tree, name).waits_on().unwrap();
            assert!(wait("scope").to_string().starts_with("the tasks of its scope (2 left)"));
            assert!(wait("sleeper").deadline().is_some());
            assert!(wait("sleeper").to_string().contains("s left)"), "{}", wait("sleeper"));
            assert!(wait("sleeper").lasted().is_some());
            if !ecru::sim::is_simulated() {
                s.builder().name("blocking").spawn(|| {
                    ecru::unblock(|| {
                        while !done.load(SeqCst) {
                            std::thread::yield_now();
                        }
                    });
                });
                let tree = dump_until(|tree| waits(tree, "blocking"));
                let wait = named(&tree, "blocking").waits_on().unwrap();
                let closure = wait.object().unwrap();
                assert!(closure.contains("run_119_times_closures_and_scopes"), "{closure}");
                done.store(true, SeqCst);
            }
            s.cancel();
        });
    });
}
