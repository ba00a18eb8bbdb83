//! Attacks by initializers of thread-locals that wait. `std` would drop a value that other code
//! borrows, so in each of these the wait must be refused. See "Initializers of thread-locals do not
//! wait" in SOUNDNESS.md.
//!
//! Each test runs in a process of its own with `ECRU_CHECK=1`, and so in release builds, too.

use std::cell::{Cell, OnceCell, RefCell};
use std::io::Read;
use std::net::TcpListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Once, OnceLock};

use ecru::coroutine::{Coroutine, CoroutineState, Generator, Yielder};

use crate::common::{alone_with, ms, panic_text, run_on};

const THREAD_LOCAL: &str = "in the initializer of a `thread_local!`";
const ONCE: &str = "in the initializer of a `std::sync::OnceLock`";

/// Runs a test of this module in a process of its own that searches for initializers.
fn searched(test: &str, body: impl FnOnce()) -> Option<Output> {
    let name = format!("initializers::{test}");
    alone_with(&name, |command| _ = command.env("ECRU_CHECK", "1"), body)
}

/// Asserts that `body` is refused because of an initializer of a thread-local.
#[track_caller]
fn refused<R>(body: impl FnOnce() -> R) {
    let text = panic_text(body);
    assert!(text.contains(THREAD_LOCAL), "{text}");
}

/// Runs the body on one worker, as a task and as the root.
fn everywhere(body: impl Fn() + Send + Sync) {
    run_on(1, || ecru::scope(|s| s.spawn(&body).join().unwrap()));
    run_on(1, &body);
}

enum Either {
    Number([usize; 4]),
    Text(String),
}

/// The reported case: a sibling borrows the value that the first task's initializer would drop.
#[test]
fn a_sibling_borrows_what_the_initializer_would_drop() {
    thread_local! {
        static FIRST: Cell<bool> = const { Cell::new(true) };
        static BORROWED: String = if FIRST.replace(false) {
            let _ = ecru::yield_now();
            let _ = ecru::yield_now();
            "A".repeat(40)
        } else {
            "B".repeat(40)
        };
    }
    searched("a_sibling_borrows_what_the_initializer_would_drop", || {
        run_on(1, || {
            ecru::scope(|s| {
                let first = s.spawn_local(|| refused(|| BORROWED.with(|text| text.len())));
                let second = s.spawn_local(|| {
                    BORROWED.with(|text| {
                        for _ in 0..5 {
                            let _ = ecru::yield_now();
                        }
                        assert_eq!(*text, "B".repeat(40));
                    });
                });
                first.join().unwrap();
                second.join().unwrap();
            });
        });
    });
}

/// Values of several types, with and without a destructor, also in nested initializers.
#[test]
fn the_type_does_not_matter() {
    thread_local! {
        static PLAIN: usize = { let _ = ecru::yield_now(); 7 };
        static CELL: Cell<u8> = { let _ = ecru::yield_now(); Cell::new(7) };
        static BOXED: Box<usize> = { let _ = ecru::yield_now(); Box::new(7) };
        static NOTHING: () = { let _ = ecru::yield_now(); };
        static EITHER: Either = {
            if ecru::yield_now().is_ok() { Either::Number([7; 4]) } else { Either::Text(String::new()) }
        };
        static NESTED: usize = BOXED.with(|inner| **inner);
        static LAZY: LazyLock<usize> = { let _ = ecru::yield_now(); LazyLock::new(|| 7) };
    }
    searched("the_type_does_not_matter", || {
        everywhere(|| {
            refused(|| PLAIN.with(|n| *n));
            refused(|| CELL.get());
            refused(|| BOXED.with(|n| **n));
            refused(|| NOTHING.with(|()| ()));
            refused(|| {
                EITHER.with(|either| match either {
                    Either::Number(numbers) => numbers[0],
                    Either::Text(text) => text.len(),
                })
            });
            refused(|| NESTED.with(|n| *n));
            refused(|| LAZY.with(|n| **n));
        });
    });
}

/// Each kind of wait, including those that cannot fail and those that would be over at once.
#[test]
fn the_kind_of_wait_does_not_matter() {
    type Wait = Box<dyn Fn() + Send>;
    thread_local! {
        static WAIT: RefCell<Option<Wait>> = const { RefCell::new(None) };
        static WAITED: usize = { WAIT.take().unwrap()(); 7 };
    }
    static MUTEX: ecru::sync::Mutex<()> = ecru::sync::Mutex::new(());
    static LOCK: ecru::sync::RwLock<()> = ecru::sync::RwLock::new(());
    static VALUE: ecru::sync::OnceLock<u8> = ecru::sync::OnceLock::new();
    searched("the_kind_of_wait_does_not_matter", || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        everywhere(|| {
            let waits: Vec<Wait> = vec![
                Box::new(|| drop(MUTEX.lock())),
                Box::new(|| drop(LOCK.write())),
                Box::new(|| _ = VALUE.get_or_init(|| 7)),
                Box::new(|| _ = ecru::sleep(ms(1))),
                Box::new(|| _ = ecru::checkpoint()),
                Box::new(|| ecru::scope(|_| ())),
                Box::new(|| _ = ecru::try_scope(|_| Ok::<(), ()>(()))),
                Box::new(|| ecru::unblock(|| ())),
                Box::new(|| _ = ecru::spawn(|| ()).join()),
                Box::new(|| _ = ecru::block_on(async { 7 })),
                Box::new(move || _ = ecru::net::TcpStream::connect(address)),
                Box::new(|| _ = ecru::timeout(ms(1), || ecru::yield_now())),
                Box::new(|| _ = ecru::shield(|| ecru::yield_now())),
                Box::new(|| {
                    let (tx, rx) = ecru::channel::bounded(1);
                    tx.send(7).unwrap();
                    rx.recv().unwrap();
                }),
                Box::new(|| {
                    let mut numbers = Generator::new(|_| _ = ecru::yield_now());
                    let _: Option<u8> = numbers.next();
                }),
            ];
            for (number, wait) in waits.into_iter().enumerate() {
                WAIT.set(Some(wait));
                let text = panic_text(|| WAITED.with(|n| *n));
                assert!(text.contains(THREAD_LOCAL), "{number}: {text}");
            }
        });
    });
}

/// A lock that is held by another task.
#[test]
fn a_contended_lock() {
    static MUTEX: ecru::sync::Mutex<u8> = ecru::sync::Mutex::new(7);
    thread_local! {
        static LOCKED: u8 = *MUTEX.lock();
    }
    searched("a_contended_lock", || {
        run_on(1, || {
            ecru::scope(|s| {
                let guard = MUTEX.lock();
                let other = s.spawn_local(|| refused(|| LOCKED.with(|n| *n)));
                while !other.is_finished() {
                    ecru::yield_now().unwrap();
                }
                drop(guard);
                // The lock is free, and works.
                assert_eq!(*MUTEX.lock(), 7);
            });
        });
    });
}

/// No ill will: a connection for each thread that is opened when it is first needed.
#[test]
fn a_lazily_opened_connection() {
    static ADDRESS: OnceLock<std::net::SocketAddr> = OnceLock::new();
    thread_local! {
        static GREETING: String = {
            let mut text = String::new();
            let mut stream = ecru::net::TcpStream::connect(ADDRESS.get().unwrap()).unwrap();
            stream.read_to_string(&mut text).unwrap();
            text
        };
    }
    searched("a_lazily_opened_connection", || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        ADDRESS.set(listener.local_addr().unwrap()).unwrap();
        run_on(1, || {
            ecru::scope(|s| {
                for _ in 0..3 {
                    s.spawn(|| refused(|| GREETING.with(String::len)));
                }
            });
        });
    });
}

/// Without a runtime: the initializer resumes a coroutine that suspends inside `with`.
#[test]
fn a_coroutine_suspends_inside_with() {
    type Kept = Coroutine<(), (), ()>;
    thread_local! {
        static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
        static FIRST: Cell<bool> = const { Cell::new(true) };
        static BORROWED: String = if FIRST.replace(false) {
            let coroutine = KEPT.take().unwrap();
            coroutine.resume(());
            KEPT.set(Some(coroutine));
            "A".repeat(40)
        } else {
            "B".repeat(40)
        };
    }
    let attack = || {
        KEPT.with(|_| ());
        FIRST.set(true);
        let coroutine = Coroutine::new(|yielder: &Yielder<(), ()>, ()| {
            BORROWED.with(|_| yielder.suspend(()));
        });
        KEPT.set(Some(coroutine));
        refused(|| BORROWED.with(String::len));
    };
    searched("a_coroutine_suspends_inside_with", || {
        attack();
        std::thread::scope(|s| {
            s.spawn(|| run_on(1, attack));
            s.spawn(|| run_on(1, || ecru::scope(|s| s.spawn_local(attack).join().unwrap())));
            // The initializer, too, runs in a coroutine.
            s.spawn(|| {
                let outer = Coroutine::new(move |_: &Yielder<(), ()>, ()| attack());
                assert_eq!(outer.resume(()), CoroutineState::Complete(()));
            });
        });
    });
}

/// The crate `thread_local` writes over the first value. Only unoptimized programs have its frames.
/// Its name is all that is known of it, so a function of that name serves as well.
#[test]
fn an_initializer_of_the_crate_thread_local() {
    mod thread_local {
        pub(super) struct ThreadLocal<T>(pub(super) T);
        impl<T> ThreadLocal<T> {
            #[inline(never)]
            pub(super) fn get_or_try(&self, create: impl FnOnce()) -> &T {
                create();
                std::hint::black_box(&self.0)
            }
        }
    }
    searched("an_initializer_of_the_crate_thread_local", || {
        everywhere(|| {
            let value = thread_local::ThreadLocal(7);
            refused(|| *value.get_or_try(|| _ = ecru::yield_now()));
        });
    });
}

/// Initializers that other threads wait for by blocking.
#[test]
fn initializers_that_block_the_worker() {
    static LAZY: LazyLock<bool> = LazyLock::new(|| ecru::yield_now().is_ok());
    searched("initializers_that_block_the_worker", || {
        everywhere(|| {
            let lazy = OnceLock::new();
            let text = panic_text(|| *lazy.get_or_init(|| ecru::yield_now().is_ok()));
            assert!(text.contains(ONCE), "{text}");
            let text = panic_text(|| Once::new().call_once(|| _ = ecru::checkpoint()));
            assert!(text.contains(ONCE), "{text}");
        });
        run_on(1, || {
            let text = panic_text(|| *LAZY);
            assert!(text.contains(ONCE), "{text}");
        });
        // A coroutine that suspends there leaves the value locked.
        static SUSPENDS: OnceLock<u8> = OnceLock::new();
        let coroutine = Coroutine::new(|yielder: &Yielder<(), ()>, ()| {
            let text = panic_text(|| {
                SUSPENDS.get_or_init(|| {
                    yielder.suspend(());
                    7
                })
            });
            assert!(text.contains(ONCE), "{text}");
        });
        assert_eq!(coroutine.resume(()), CoroutineState::Complete(()));
    });
}

/// What is sound is not refused: values that are made first, initializers that do not wait, also on
/// stacks that still hold their frames' words, waits of plain threads, runs in initializers,
/// and ecru's own lazy values.
#[test]
fn what_is_sound_is_not_refused() {
    thread_local! {
        static MADE_FIRST: OnceCell<String> = const { OnceCell::new() };
        static PLAIN: String = "B".repeat(40);
        static WAITS: String = {
            ecru::sleep(ms(1)).unwrap();
            let (tx, rx) = ecru::channel::bounded(1);
            tx.send(7).unwrap();
            rx.recv().unwrap().to_string()
        };
        static RUNS: usize = ecru::run(|| {
            ecru::scope(|s| {
                let task = s.spawn(|| {
                    ecru::yield_now().unwrap();
                    7
                });
                ecru::yield_now().unwrap();
                task.join().unwrap()
            })
        });
    }
    static ECRUS: ecru::sync::LazyLock<u8> = ecru::sync::LazyLock::new(|| {
        ecru::yield_now().unwrap();
        7
    });
    static SUM: LazyLock<u32> =
        LazyLock::new(|| Generator::new(|yielder| yielder.suspend(7)).sum());
    /// Fills the stack below the caller with words that nothing overwrites at once.
    #[inline(never)]
    fn use_deeply(depth: usize) -> usize {
        let room = std::hint::black_box([depth; 32]);
        if depth == 0 { PLAIN.with(String::len) } else { use_deeply(depth - 1) + room[7] }
    }
    /// Has large frames that are not filled.
    #[inline(never)]
    fn wait_over_leftovers(depth: usize) {
        let mut room = std::mem::MaybeUninit::<[usize; 64]>::uninit();
        std::hint::black_box(&mut room);
        ecru::yield_now().unwrap();
        if depth > 0 {
            wait_over_leftovers(depth - 1);
        }
        std::hint::black_box(&mut room);
    }
    searched("what_is_sound_is_not_refused", || {
        std::thread::spawn(|| assert_eq!(WAITS.with(String::clone), "7")).join().unwrap();
        std::thread::spawn(|| assert_eq!(RUNS.with(|n| *n), 7)).join().unwrap();
        for workers in [1, 2] {
            run_on(workers, || {
                ecru::scope(|s| {
                    for _ in 0..8 {
                        s.spawn(|| {
                            let made = {
                                ecru::yield_now().unwrap();
                                "C".repeat(40)
                            };
                            MADE_FIRST
                                .with(|value| assert_eq!(value.get_or_init(|| made).len(), 40));
                            for depth in 0..20 {
                                use_deeply(depth);
                                wait_over_leftovers(20 - depth);
                            }
                            PLAIN.with(|text| {
                                ecru::yield_now().unwrap();
                                assert_eq!(text.len(), 40);
                            });
                            assert_eq!((*ECRUS, *SUM), (7, 7));
                        });
                    }
                    use_deeply(20);
                    wait_over_leftovers(20);
                });
            });
        }
    });
}

/// After a refusal the thread-local can be initialized, by code that does not wait.
#[test]
fn a_refused_initializer_leaves_nothing_behind() {
    static WAITS: AtomicBool = AtomicBool::new(true);
    thread_local! {
        static VALUE: String = {
            if WAITS.load(Ordering::Relaxed) {
                ecru::yield_now().unwrap();
            }
            "A".repeat(40)
        };
    }
    searched("a_refused_initializer_leaves_nothing_behind", || {
        run_on(1, || {
            refused(|| VALUE.with(String::len));
            WAITS.store(false, Ordering::Relaxed);
            assert_eq!(VALUE.with(String::len), 40);
            ecru::yield_now().unwrap();
        });
    });
}

/// A lock in a destructor cannot be refused while the task unwinds, and the initializer may catch
/// the panic. The process ends, and says why.
#[test]
fn a_contended_lock_in_a_destructor_ends_the_process() {
    const NAME: &str = "initializers::a_contended_lock_in_a_destructor_ends_the_process";
    static MUTEX: ecru::sync::Mutex<()> = ecru::sync::Mutex::new(());
    struct Locks;
    impl Drop for Locks {
        fn drop(&mut self) {
            drop(MUTEX.lock());
        }
    }
    thread_local! {
        static VALUE: u8 = {
            let _ = catch_unwind(AssertUnwindSafe(|| {
                let _locks = Locks;
                std::panic::resume_unwind(Box::new(()));
            }));
            7
        };
    }
    if crate::common::is_child(NAME) {
        return run_on(1, || {
            ecru::scope(|s| {
                let guard = MUTEX.lock();
                s.spawn_local(|| VALUE.with(|n| *n));
                ecru::yield_now().unwrap();
                drop(guard);
            });
        });
    }
    let output = crate::common::start_again(NAME).env("ECRU_CHECK", "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains(THREAD_LOCAL), "{text}");
}

/// `ECRU_CHECK=0` switches the search off in debug builds, too. Nothing else uses this value, so
/// nothing is freed too early.
#[test]
fn the_search_can_be_switched_off() {
    thread_local! {
        static VALUE: bool = ecru::yield_now().is_ok();
    }
    alone_with(
        "initializers::the_search_can_be_switched_off",
        |command| _ = command.env("ECRU_CHECK", "0"),
        || run_on(1, || assert!(VALUE.with(|value| *value))),
    );
}

/// A program without a symbol table says once that it cannot search, and runs.
#[test]
fn slow_a_stripped_program_says_so() {
    const NAME: &str = "initializers::slow_a_stripped_program_says_so";
    if crate::common::is_child(NAME) {
        for _ in 0..2 {
            run_on(2, || ecru::scope(|s| s.spawn(|| ecru::yield_now().unwrap()).join().unwrap()));
        }
        return;
    }
    struct Copied(std::path::PathBuf);
    impl Drop for Copied {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }
    let own = std::env::current_exe().unwrap();
    let copied = Copied(own.with_extension(format!("stripped-{}", std::process::id())));
    std::fs::copy(&own, &copied.0).unwrap();
    strip(&copied.0);
    let mut command = std::process::Command::new(&copied.0);
    command.args(crate::common::start_again(NAME).get_args());
    let output = command.env("ECRU_TEST_CHILD", NAME).env("ECRU_CHECK", "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert_eq!(text.matches("it has no symbol table").count(), 1, "{text}");
}

/// Marks the sections of a program's symbol table as unused.
fn strip(program: &std::path::Path) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::options().read(true).write(true).open(program).unwrap();
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0).unwrap();
    let sections = u64::from_le_bytes(header[40..48].try_into().unwrap());
    for section in 0..u64::from(u16::from_le_bytes([header[60], header[61]])) {
        let at = sections + section * 64 + 4;
        let mut kind = [0; 4];
        file.read_exact_at(&mut kind, at).unwrap();
        if u32::from_le_bytes(kind) == 2 {
            file.write_all_at(&[0; 4], at).unwrap();
        }
    }
}
