//! Simulations that end in a deadlock, in every place that a cancellation does not reach. The tasks
//! must end all the same, before the run returns: it borrows from its caller.

use ecru::coroutine::{Yielder, scoped};
use ecru::net::{TcpListener, TcpStream};
use ecru::sim::{self, Failure, Simulation};
use ecru::sync::{Condvar, LazyLock, Mutex, Notify, RwLock};
use ecru::{channel, shield};
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Calls a closure when it is dropped.
struct AtEnd<F: FnMut()>(F);

impl<F: FnMut()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Runs a program that deadlocks for each of some seeds. Its locals must have been dropped when the
/// run returns.
#[track_caller]
fn deadlocks(program: impl Fn(&Mutex<u32>) + Sync) {
    for seed in 0..20 {
        let ended = AtomicUsize::new(0);
        let lock = Mutex::new(0);
        let report = Simulation::new(seed).run(|| {
            let _end = AtEnd(|| {
                ended.fetch_add(1, SeqCst);
            });
            let _held = lock.lock();
            program(&lock);
        });
        assert!(matches!(report.result, Err(Failure::Deadlock(_))), "{report}");
        assert_eq!(ended.into_inner(), 1);
        assert_eq!(*lock.lock(), 0);
    }
}

#[test]
fn in_the_root() {
    deadlocks(|lock| drop(lock.lock()));
}

#[test]
fn in_unblock() {
    deadlocks(|lock| {
        ecru::scope(|s| s.spawn(|| ecru::unblock(|| drop(lock.lock()))).join().unwrap());
    });
}

#[test]
fn in_a_coroutine() {
    deadlocks(|lock| {
        scoped(
            |_: &Yielder<(), ()>, ()| drop(lock.lock()),
            |body| {
                let _ = body.resume(());
            },
        );
    });
}

#[test]
fn in_the_scope_of_a_thread_of_std() {
    deadlocks(|lock| {
        let stop = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                while !stop.load(SeqCst) {
                    std::thread::yield_now();
                }
            });
            let _stop = AtEnd(|| stop.store(true, SeqCst));
            drop(lock.lock());
        });
    });
}

#[test]
fn in_a_parallel_map() {
    deadlocks(|lock| {
        drop(ecru::par::map(0..10, |item| (item == 3).then(|| drop(lock.lock()))));
    });
}

#[test]
fn in_destructors_that_lock() {
    let other = Mutex::new(());
    deadlocks(|lock| {
        ecru::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    let _end = AtEnd(|| drop(other.lock()));
                    drop(lock.lock());
                });
            }
        });
    });
}

#[test]
fn in_a_lazy_value() {
    deadlocks(|lock| {
        let lazy = LazyLock::new(|| *lock.lock());
        ecru::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| *lazy);
            }
        });
    });
}

#[test]
fn under_a_hook() {
    deadlocks(|lock| {
        ecru::scope(|s| s.spawn(|| ecru::on_cancel(|| (), || drop(lock.lock()))).join().unwrap());
    });
}

#[test]
fn in_a_task_that_catches_some_panics() {
    deadlocks(|lock| {
        for _ in 0..100 {
            let _ = catch_unwind(AssertUnwindSafe(|| drop(lock.lock())));
        }
    });
}

#[test]
fn between_a_reader_and_a_writer() {
    deadlocks(|_| {
        let shared = RwLock::new(());
        let _read = shared.read();
        drop(shared.write());
    });
}

#[test]
fn in_a_condition_variable_in_a_shield() {
    let (other, news) = (Mutex::new(()), Condvar::new());
    deadlocks(|lock| {
        ecru::scope(|s| {
            s.spawn(|| {
                shield(|| {
                    let mut guard = other.lock();
                    while news.wait(&mut guard).is_ok() {}
                });
            });
            s.spawn(|| {
                let _held = other.lock();
                news.notify_one();
                drop(lock.lock());
            });
        });
    });
}

#[test]
fn in_reads_and_accepts_in_a_shield() {
    deadlocks(|_| {
        sim::host("server", || {
            let listener = TcpListener::bind("0.0.0.0:1")?;
            let _stream = listener.accept()?;
            Notify::new().wait()?;
            Ok(())
        });
        ecru::sleep(Duration::from_secs(1)).unwrap();
        let mut stream = TcpStream::connect("server:1").unwrap();
        ecru::scope(|s| {
            s.spawn(|| {
                shield(|| {
                    let _ = stream.read(&mut [0]);
                    let _ = TcpListener::bind("0.0.0.0:9").unwrap().accept();
                });
            });
        });
    });
}

#[test]
fn on_a_host() {
    deadlocks(|_| {
        sim::host("host", || {
            let lock = Mutex::new(());
            let _held = lock.lock();
            drop(lock.lock());
            Ok(())
        });
        Notify::new().wait().unwrap();
    });
}

#[test]
fn in_a_select_a_join_and_a_future_in_shields() {
    deadlocks(|_| {
        let ((_tx, rx), (_ty, ry)) = (channel::bounded::<u32>(0), channel::bounded::<u32>(0));
        ecru::scope(|s| {
            let select = s.spawn(|| {
                shield(|| {
                    ecru::select! {
                        recv(rx) -> _ => (),
                        recv(ry) -> _ => (),
                    }
                });
            });
            s.spawn(|| shield(|| ecru::block_on(std::future::pending::<()>()).unwrap_or(())));
            let _ = shield(|| select.join());
        });
    });
}

#[test]
fn at_the_start_of_a_task() {
    deadlocks(|_| {
        ecru::scope(|s| {
            let _ = s.start(|started| {
                let _ = shield(|| Notify::new().wait());
                started.ready(1);
            });
        });
    });
}
