//! What a dump says of the objects that tasks wait for: their names, the places of their holders,
//! and which settings of a runtime make the holders known.

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use ecru::channel;
use ecru::diag::TaskInfo;
use ecru::signal::SignalKind;
use ecru::sync::{LazyLock, Mutex, Once, OnceLock, Pool, Semaphore, SetOnce, Watch, poison};
use ecru::{Runtime, RuntimeBuilder, RuntimeHandle, Source, TaskTree};

use crate::support::{HOUR, Watchdog, each_run, until};

#[track_caller]
fn named<'t>(tree: &'t TaskTree, name: &str) -> &'t TaskInfo {
    tree.tasks().find(|task| task.name() == Some(name)).unwrap_or_else(|| panic!("{name}:\n{tree}"))
}

/// Makes dumps until the tasks with these names wait.
#[track_caller]
fn dump_when_waiting(names: &[&str]) -> TaskTree {
    let waits = |tree: &TaskTree, name| {
        tree.tasks().any(|task| task.name() == Some(name) && task.waits_on().is_some())
    };
    let mut tree = TaskTree::default();
    until(|| {
        tree = RuntimeHandle::current().dump();
        names.iter().all(|name| waits(&tree, name))
    });
    tree
}

/// - given: values to be made, to be set, to change and to be lent, and locks with the signatures
///   of `std`, all of which have names, and tasks that wait for them
/// - when: a dump is made
/// - then: each wait shows the name and what is waited for; further names change nothing
#[test]
fn run_150_values_and_locks_of_std_have_names() {
    each_run(|| {
        let (end, ends) = channel::bounded::<()>(0);
        let (ends, waits) = (&ends, ends.clone());
        let made = OnceLock::new().named("made").named("other");
        let lazy = LazyLock::new(move || _ = waits.recv()).named("lazy");
        let once = Once::new().named("once");
        let (set, watch) = (SetOnce::<u8>::new().named("set"), Watch::new(1).named("watch"));
        let pool: Pool<u8, Infallible> = Pool::new(1, || Ok(7)).named("pool");
        let lock = poison::Mutex::new(1).named("lock");
        let book = poison::RwLock::new(1).named("book");
        let (bell, start) =
            (poison::Condvar::new().named("bell"), poison::Barrier::new(2).named("start"));
        ecru::scope(|s| {
            let by = |name: &'static str| s.builder().name(name);
            let (lent, held, read) = (pool.get().unwrap(), lock.lock().unwrap(), book.read());
            by("makes").spawn(|| made.get_or_init(|| _ = ends.recv()));
            by("makes lazily").spawn(|| _ = LazyLock::force(&lazy));
            by("runs").spawn(|| once.call_once(|| _ = ends.recv()));
            dump_when_waiting(&["makes", "makes lazily", "runs"]);
            by("made").spawn(|| _ = made.wait());
            by("lazy").spawn(|| *lazy);
            by("once").spawn(|| once.wait());
            by("set").spawn(|| assert_eq!(set.wait(), Ok(&7)));
            watch.update(|value| *value += 1);
            let (news, old) = (watch.subscribe(), watch.subscribe());
            by("watch").spawn(move || assert_eq!(news.wait(), Ok(Some(9))));
            by("watch for").spawn(move || assert_eq!(old.wait_for(|new| *new == 9), Ok(Some(9))));
            by("pool").spawn(|| assert_eq!(*pool.get().unwrap(), 7));
            by("lock").spawn(|| drop(lock.lock()));
            by("book").spawn(|| drop(book.write()));
            by("bell").spawn(|| {
                let own = poison::Mutex::new(());
                drop(bell.wait(own.lock().unwrap()));
            });
            by("start").spawn(|| _ = start.wait());
            let names = [
                ("made", "made"),
                ("lazy", "lazy"),
                ("once", "once"),
                ("set", "set"),
                ("watch", "watch"),
                ("watch for", "watch"),
                ("pool", "pool"),
                ("lock", "lock"),
                ("book", "book"),
                ("bell", "bell"),
                ("start", "start"),
            ];
            let tree = dump_when_waiting(&names.map(|(task, _)| task));
            for (task, name) in names {
                let wait = named(&tree, task).waits_on().unwrap();
                assert_eq!(wait.object_name(), Some(name), "{tree}");
                assert!(wait.to_string().contains(&format!("('{name}', ")), "{tree}");
            }
            let what = |name| named(&tree, name).waits_on().unwrap().what();
            assert_eq!(what("pool"), "a value of a pool");
            assert_eq!(what("made"), "a value to be made");
            assert_eq!(what("set"), "a value to be set");
            let watched = named(&tree, "watch").waits_on().unwrap().to_string();
            assert!(watched.starts_with("a watched value to change ('watch', "), "{watched}");
            assert!(watched.contains(", 1 change so far)"), "{watched}");
            let pooled = named(&tree, "pool").waits_on().unwrap().to_string();
            assert!(pooled.contains(", 0 free)"), "{pooled}");
            let json = tree.to_json();
            assert!(json.contains(r#""object_name":"pool""#), "{json}");
            drop((lent, held, read, end));
            set.set(7).unwrap();
            watch.set(9);
            bell.notify_all();
            start.wait();
        });
    });
}

/// - given: tasks that compute the values of a `OnceLock`, a `LazyLock` and a `Once`, and wait
///   meanwhile; others wait for the values
/// - when: a dump is made, also after one computation has failed and another task has begun its own
/// - then: in any build, each wait names the task that computes and the place where it has begun
#[test]
fn run_151_makers_of_values_have_places() {
    each_run(|| {
        let (end, ends) = channel::bounded::<()>(0);
        let (once, running, failing) = (OnceLock::new(), Once::new(), OnceLock::new());
        let (ends, waits) = (&ends, ends.clone());
        let lazy = LazyLock::new(move || _ = waits.recv());
        ecru::scope(|s| {
            let by = |name: &'static str| s.builder().name(name);
            let line = line!();
            by("makes").spawn(|| once.get_or_init(|| _ = ends.recv()));
            by("forces").spawn(|| *lazy);
            by("runs").spawn(|| running.call_once(|| _ = ends.recv()));
            dump_when_waiting(&["makes", "forces", "runs"]);
            by("wants").spawn(|| once.get_or_init(|| unreachable!("it is being made")));
            by("derefs").spawn(|| *lazy);
            by("waits").spawn(|| running.wait());
            let tree = dump_when_waiting(&["wants", "derefs", "waits"]);
            let makers = [("wants", "makes", 1), ("derefs", "forces", 2), ("waits", "runs", 3)];
            for (waiter, maker, behind) in makers {
                let wait = named(&tree, waiter).waits_on().unwrap();
                let [holder] = wait.holders() else { panic!("{waiter}:\n{tree}") };
                assert_eq!(holder.task(), Some(named(&tree, maker).id()), "{tree}");
                let at = holder.at().unwrap_or_else(|| panic!("{waiter}:\n{tree}"));
                assert_eq!((at.file(), at.line()), (file!(), line + behind), "{tree}");
                let place = format!(
                    ", by task {} '{maker}' at {}:{}:",
                    holder.task().unwrap(),
                    file!(),
                    line + behind
                );
                assert!(wait.to_string().contains(&place), "{wait}");
            }
            let (fail, fails) = channel::bounded::<()>(0);
            let failing = &failing;
            by("fails").spawn(move || {
                assert!(failing.get_or_try_init(|| fails.recv().map_err(drop)).is_err());
            });
            dump_when_waiting(&["fails"]);
            let line = line!() + 1;
            by("succeeds").spawn(|| failing.get_or_init(|| _ = ends.recv()));
            dump_when_waiting(&["succeeds"]);
            drop(fail);
            by("last").spawn(|| _ = failing.wait());
            let place = |tree: &TaskTree| {
                let wait = tree.tasks().find(|task| task.name() == Some("last"))?.waits_on()?;
                let [holder] = wait.holders() else { return None };
                let is_by = holder.task() == Some(named(tree, "succeeds").id());
                is_by.then(|| holder.at().map(|at| at.line()))
            };
            until(|| place(&RuntimeHandle::current().dump()) == Some(Some(line)));
            drop(end);
        });
    });
}

/// - given: runtimes with a watchdog, a recorder, a signal for dumps, a check for deadlocks, an
///   inspect socket, or none of these, in any build
/// - when: a dump shows a task that waits for a lock, and one that waits for a permit
/// - then: it names the holders and their places; with none of the settings, only in a build with
///   `debug_assertions`
#[test]
fn run_152_settings_that_make_holders_known() {
    type Sets = fn(RuntimeBuilder) -> RuntimeBuilder;
    let _watchdog = Watchdog::new();
    let settings: [(&str, bool, Sets); 6] = [
        ("none", cfg!(debug_assertions), |builder| builder),
        ("a watchdog", true, |builder| builder.watchdog(HOUR)),
        ("a recorder", true, |builder| builder.record(1 << 16)),
        ("a signal", true, |builder| builder.dump_on_signal(SignalKind::user_defined2())),
        ("a check", true, |builder| builder.detect_deadlock(true)),
        ("a socket", true, |builder| builder.inspect(socket())),
    ];
    for (setting, is_known, set) in settings {
        let builder = Runtime::builder().workers(2).watchdog(Duration::ZERO).detect_deadlock(false);
        set(builder).build().unwrap().run(|| {
            let (lock, permits) = (Mutex::new(()), Semaphore::new(1));
            ecru::scope(|s| {
                let line = line!() + 1;
                let held = (lock.lock(), permits.acquire().unwrap());
                s.builder().name("locks").spawn(|| drop(lock.lock()));
                s.builder().name("acquires").spawn(|| drop(permits.acquire()));
                let tree = dump_when_waiting(&["locks", "acquires"]);
                for task in ["locks", "acquires"] {
                    let wait = named(&tree, task).waits_on().unwrap();
                    assert_eq!(wait.holders().len(), usize::from(is_known), "{setting}:\n{tree}");
                    for holder in wait.holders() {
                        assert_eq!(holder.task(), Some(ecru::task::current().id()), "{setting}");
                        assert_eq!(holder.at().map(|at| at.line()), Some(line), "{setting}");
                    }
                }
                drop(held);
            });
        });
    }
}

fn socket() -> PathBuf {
    std::env::temp_dir().join(format!("ecru-objects-{}.sock", std::process::id()))
}
