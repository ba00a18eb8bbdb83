//! The programs. Each is written as a newcomer writes it, and most of them hang.

use std::io::Read;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use ecru::channel::{self, Named};
use ecru::sync::{Latch, Mutex, Pool, RwLock};

/// The variable that says which program to run.
pub(crate) const VARIABLE: &str = "ECRU_CLI_PROGRAM";

const HOUR: Duration = Duration::from_secs(3600);

/// No test: the process of a program comes here.
#[test]
fn is_a_program() {
    let Ok(name) = std::env::var(VARIABLE) else { return };
    let program = match name.as_str() {
        "locks" => lock_cycle,
        "join" => join_under_a_lock,
        "upgrade" => upgrade,
        "sleep" => std_sleep,
        "mutex" => std_mutex,
        "mpsc" => std_mpsc,
        "leak" => leaked_sender,
        "pool" => exhausted_pool,
        "subscriber" => slow_subscriber,
        "connections" => leaked_connections,
        "computes" => computes,
        "works" => works,
        "several" => several_runtimes,
        guide::HANGS => guide::hangs::start,
        guide::SLOW => guide::slow::start,
        guide::LEAKS => guide::leaks::start,
        guide::LEFT => guide::left::start,
        guide::SIGNAL => guide::signal::start,
        other => panic!("there is no program {other}"),
    };
    program();
}

/// The programs of the guide. The path of each is shown by what it says of itself.
pub(crate) mod guide {
    pub(crate) const HANGS: &str = "guide-hangs";
    pub(crate) const SLOW: &str = "guide-slow";
    pub(crate) const LEAKS: &str = "guide-leaks";
    pub(crate) const LEFT: &str = "guide-left";
    pub(crate) const SIGNAL: &str = "guide-signal";

    pub(crate) mod hangs {
        include!("../../../../doc/guide/programs/hangs.rs");
        pub(crate) fn start() {
            super::super::ready();
            main();
        }
    }

    pub(crate) mod slow {
        include!("../../../../doc/guide/programs/slow.rs");
        pub(crate) fn start() {
            super::super::ready();
            main().unwrap();
        }
    }

    pub(crate) mod left {
        include!("../../../../doc/guide/programs/left.rs");
        pub(crate) fn start() {
            super::super::ready();
            main();
        }
    }

    pub(crate) mod signal {
        include!("../../../../doc/guide/programs/signal.rs");
        pub(crate) fn start() {
            super::super::ready();
            main().unwrap();
        }
    }

    pub(crate) mod leaks {
        include!("../../../../doc/guide/programs/leaks.rs");
        pub(crate) fn start() {
            super::super::ready();
            main().unwrap();
        }
    }
}

fn ready() {
    println!("ready");
}

fn run(root: impl FnOnce()) {
    ecru::Runtime::builder().workers(2).build().unwrap().run(root);
}

/// Three tasks lock two of three locks each. The program otherwise goes on.
fn lock_cycle() {
    let forks = ["left", "middle", "right"].map(|name| Mutex::new(()).named(name));
    let have_one = Latch::new(3);
    run(|| {
        ecru::scope(|s| {
            s.builder().name("works").spawn(|| {
                loop {
                    ecru::sleep(Duration::from_millis(1)).unwrap();
                }
            });
            for n in 0..3_usize {
                let (forks, have_one) = (&forks, &have_one);
                s.builder().name(format!("philosopher-{n}")).spawn(move || {
                    dine(&forks[n], &forks[(n + 1) % 3], have_one, n);
                });
            }
            ready();
        });
    });
}

/// Not inlined, so that an optimized build shows it in stacks, too.
#[inline(never)]
fn dine(first: &Mutex<()>, second: &Mutex<()>, have_one: &Latch, number: usize) {
    // For the tests of debuggers. It stays in memory, because its address is used.
    let helpings = 4_700 + number;
    std::hint::black_box(&helpings);
    let _first = first.lock();
    have_one.count_down();
    have_one.wait().unwrap();
    let _second = second.lock();
    std::hint::black_box(&helpings);
}

/// A task joins another one while it holds the lock that the other one needs.
fn join_under_a_lock() {
    let ledger = Mutex::new(0).named("ledger");
    run(|| {
        ecru::scope(|s| {
            s.builder().name("closing").spawn(|| {
                let total = ledger.lock();
                ecru::scope(|inner| {
                    let entry = inner.builder().name("entry").spawn(|| *ledger.lock() += 1);
                    ready();
                    entry.join().unwrap();
                });
                drop(total);
            });
        });
    });
}

/// A task wants to write while it reads.
fn upgrade() {
    let settings = RwLock::new(0).named("settings");
    run(|| {
        ecru::scope(|s| {
            s.builder().name("reloader").spawn(|| {
                let old = settings.read();
                ready();
                *settings.write() = *old + 1;
            });
        });
    });
}

/// A task sleeps with std's function, and keeps its worker.
fn std_sleep() {
    run(|| {
        ecru::scope(|s| {
            s.builder().name("poller").spawn(|| {
                ready();
                thread::sleep(HOUR);
            });
            s.builder().name("other").spawn(|| ecru::sleep(HOUR));
        });
    });
}

/// Tasks hold a mutex of std across a wait.
fn std_mutex() {
    let cache = std::sync::Mutex::new(0);
    run(|| {
        ecru::scope(|s| {
            for name in ["first", "second", "third"] {
                s.builder().name(name).spawn(|| {
                    let mut cache = cache.lock().unwrap();
                    ready();
                    ecru::sleep(HOUR).unwrap();
                    *cache += 1;
                });
            }
        });
    });
}

/// A task receives from a channel of std.
fn std_mpsc() {
    let (sender, receiver) = mpsc::channel::<u32>();
    run(|| {
        ecru::scope(|s| {
            s.builder().name("consumer").spawn(move || {
                ready();
                receiver.recv()
            });
            s.builder().name("producer").spawn(|| ecru::sleep(HOUR));
        });
        drop(sender);
    });
}

/// A receiver waits although all producers have ended, because a sender was kept.
fn leaked_sender() {
    let (sender, orders) = channel::bounded::<u32>(5).named("orders");
    run(|| {
        ecru::scope(|s| {
            for n in 0..3 {
                let sender = sender.clone();
                s.spawn(move || sender.send(n).unwrap());
            }
            // `sender` itself is not dropped before the scope has ended.
            s.builder().name("consumer").spawn(|| {
                let mut count = 0;
                while orders.recv().is_ok() {
                    count += 1;
                    if count == 3 {
                        ready();
                    }
                }
            });
        });
    });
    drop(sender);
}

/// Each handler needs two connections of a pool of two.
fn exhausted_pool() {
    let pool: Pool<u32, std::convert::Infallible> = Pool::new(2, || Ok(7)).named("connections");
    let have_one = Latch::new(2);
    run(|| {
        ecru::scope(|s| {
            for n in 0..2 {
                let (pool, have_one) = (&pool, &have_one);
                s.builder().name(format!("handler-{n}")).spawn(move || {
                    let first = pool.get().unwrap();
                    have_one.count_down();
                    have_one.wait().unwrap();
                    let second = pool.get().unwrap();
                    drop((first, second));
                });
            }
            ready();
        });
    });
}

/// A reader hands each message to all subscribers, and one of them is slow.
fn slow_subscriber() {
    let (to_audit, audit) = channel::bounded::<u32>(2).named("inbox of audit");
    let (to_mail, mail) = channel::bounded::<u32>(2).named("inbox of mail");
    run(|| {
        ecru::scope(|s| {
            let by = |name: &'static str| s.builder().name(name);
            by("audit").spawn(move || {
                while audit.recv().is_ok() {
                    ready();
                    ecru::sleep(HOUR).unwrap();
                }
            });
            by("mail").spawn(move || mail.iter().count());
            by("multiplexer").spawn(move || {
                for message in 0.. {
                    to_audit.send(message).unwrap();
                    to_mail.send(message).unwrap();
                }
            });
        });
    });
}

/// Handlers keep their connections after they have answered.
fn leaked_connections() {
    let pool: Pool<u32, std::convert::Infallible> = Pool::new(2, || Ok(7)).named("connections");
    let sessions = std::sync::Mutex::new(Vec::new());
    run(|| {
        ecru::scope(|s| {
            for n in 0..3 {
                let (pool, sessions) = (&pool, &sessions);
                s.builder().name(format!("handler-{n}")).spawn(move || {
                    let connection = pool.get().unwrap();
                    sessions.lock().unwrap().push(connection);
                });
            }
            ready();
        });
    });
}

/// A task computes and never waits.
fn computes() {
    run(|| {
        ecru::scope(|s| {
            s.builder().name("sum").spawn(|| {
                ready();
                let mut sum = 0_u64;
                loop {
                    sum = std::hint::black_box(sum.wrapping_add(1));
                }
            });
            s.builder().name("other").spawn(|| ecru::sleep(HOUR));
        });
    });
}

/// A program that works until its standard input is closed.
fn works() {
    let runtime = ecru::Runtime::builder().workers(2).record(1 << 20).build().unwrap();
    runtime.run(|| {
        ecru::scope(|s| {
            for n in 0..20 {
                s.builder().name(format!("idle-{n}")).spawn(|| ecru::sleep(HOUR));
            }
            s.builder().name("beats").spawn(
                || {
                    while ecru::sleep(Duration::from_millis(1)).is_ok() {}
                },
            );
            ready();
            let end = ecru::unblock(|| std::io::stdin().read(&mut [0]).unwrap());
            assert_eq!(end, 0);
            s.cancel();
        });
    });
    println!("over");
}

/// Three runtimes, two of which have one name. The first two end when the standard input is closed.
fn several_runtimes() {
    let runtime = |name| ecru::Runtime::builder().workers(1).name(name).build().unwrap();
    let all = [("web", "accepts"), ("jobs", "fetches"), ("jobs", "stores")]
        .map(|(name, task)| (runtime(name), task));
    let (end, ends) = channel::bounded::<u32>(0);
    thread::scope(|threads| {
        let [web, jobs, stays] = all.map(|(runtime, task)| {
            let ends = ends.clone();
            threads.spawn(move || {
                let waits = move || {
                    let _ = ends.recv();
                    if task == "stores" {
                        ecru::sleep(HOUR).unwrap();
                    }
                };
                runtime.run(|| ecru::scope(|s| drop(s.builder().name(task).spawn(waits))));
            })
        });
        ready();
        assert_eq!(std::io::stdin().read(&mut [0]).unwrap(), 0);
        drop(end);
        web.join().unwrap();
        jobs.join().unwrap();
        println!("over");
        stays.join().unwrap();
    });
}
