//! What explains a program, asked at the worst moment: dumps, searches for leaks, metrics, recorders,
//! watchdogs and sockets.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, mpsc};
use std::thread;

use ecru::channel;
use ecru::diag::Recorder;
use ecru::task::TaskObserver;
use ecru::{Runtime, RuntimeHandle};

use super::OnDrop;
use crate::common::{Watchdog, alone_with, forever, ms, quiet_panic, run_on, start_again, until};

fn here() -> RuntimeHandle {
    RuntimeHandle::current()
}

fn new_path(name: &str) -> PathBuf {
    static LAST: AtomicUsize = AtomicUsize::new(0);
    let number = LAST.fetch_add(1, SeqCst);
    std::env::temp_dir().join(format!("ecru-{name}-{}-{number}", std::process::id()))
}

/// Searches by many threads at once, while tasks come and go and runs begin and end.
#[test]
fn a_storm_of_searches_slow() {
    let _watchdog = Watchdog::new();
    for workers in [1, 2] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        let (handle, over) = (runtime.handle(), AtomicBool::new(false));
        thread::scope(|threads| {
            let _over = OnDrop(|| over.store(true, SeqCst));
            for n in 0..4 {
                let (handle, over) = (&handle, &over);
                threads.spawn(move || {
                    while !over.load(SeqCst) {
                        let tree = if n == 0 { handle.dump() } else { handle.find_leaks() };
                        assert!(tree.cycles().is_empty(), "{tree}");
                        drop((tree.to_string(), tree.to_json()));
                    }
                });
            }
            for _ in 0..5 {
                let sum: u32 = runtime.run(|| {
                    ecru::scope(|s| {
                        let tasks: Vec<_> = (0..50)
                            .map(|n| {
                                s.spawn(move || {
                                    let (sender, receiver) = channel::bounded(0);
                                    ecru::scope(|s| {
                                        s.spawn(move || sender.send(n).unwrap());
                                        receiver.recv().unwrap()
                                    })
                                })
                            })
                            .collect();
                        tasks.into_iter().map(|task| task.join().unwrap()).sum()
                    })
                });
                assert_eq!(sum, (0..50).sum());
            }
        });
    }
}

/// Dumps while thousands of tasks are cancelled, end, and are spawned again.
#[test]
fn dumps_while_tasks_end_in_crowds_slow() {
    run_on(2, || {
        let over = AtomicBool::new(false);
        ecru::scope(|s| {
            let dumps = s.spawn(|| {
                let mut most = 0;
                while !over.load(SeqCst) {
                    let tree = here().dump();
                    most = most.max(tree.tasks().count() + tree.left_out());
                    let metrics = here().metrics();
                    assert!(metrics.spawned >= metrics.ended, "{metrics:?}");
                }
                most
            });
            for _ in 0..5 {
                ecru::scope(|crowd| {
                    for _ in 0..1_000 {
                        crowd.spawn(forever);
                    }
                    ecru::yield_now().unwrap();
                    crowd.cancel();
                });
            }
            until(|| {
                ecru::yield_now().unwrap();
                here().dump().tasks().count() <= 3
            });
            over.store(true, SeqCst);
            assert!(dumps.join().unwrap() > 1);
        });
    });
}

/// A writer that asks for what is being written, waits, panics and fails.
#[test]
fn a_hostile_writer_of_records() {
    struct Hostile(u32);
    impl Write for Hostile {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += 1;
            match self.0 % 4 {
                0 => Err(io::ErrorKind::Interrupted.into()),
                1 => {
                    let mut inner = Vec::new();
                    here().record_to(&mut inner)?;
                    assert!(!inner.is_empty());
                    ecru::diag::mark("while it is written");
                    Ok(bytes.len().min(1000))
                }
                2 => {
                    ecru::sleep(ms(1)).unwrap();
                    drop(here().find_leaks());
                    Ok(bytes.len())
                }
                _ if self.0 > 6 => quiet_panic("the writer"),
                _ => Ok(bytes.len().min(1)),
            }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for workers in [1, 2] {
        let runtime = Runtime::builder().workers(workers).record(1 << 16).build().unwrap();
        runtime.run(|| {
            (0..2000).for_each(|_| ecru::yield_now().unwrap());
            let recorder: Recorder = here().recorder().unwrap();
            for _ in 0..3 {
                _ = catch_unwind(AssertUnwindSafe(|| recorder.write_page(Hostile(0))));
                _ = catch_unwind(AssertUnwindSafe(|| recorder.write_trace(Hostile(1))));
            }
            let mut page = Vec::new();
            recorder.write_page(&mut page).unwrap();
            assert!(page.ends_with(b"</html>\n") || page.ends_with(b"</html>"));
        });
    }
}

/// More runtimes than there are sockets at the default place: the others go on without one.
#[test]
fn many_runtimes_at_the_default_place() {
    const NAME: &str = "fresh::explained::many_runtimes_at_the_default_place";
    let folder = new_path("many");
    std::fs::create_dir(&folder).unwrap();
    let _removed = OnDrop(|| drop(std::fs::remove_dir_all(&folder)));
    let prepare = |command: &mut std::process::Command| {
        command.env("ECRU_INSPECT", "1").env("XDG_RUNTIME_DIR", &folder);
    };
    let output = alone_with(NAME, prepare, || {
        let _watchdog = Watchdog::new();
        let build = || Runtime::builder().workers(1).build().unwrap();
        let runtimes: Vec<Runtime> = (0..20).map(|_| build()).collect();
        for (n, runtime) in runtimes.iter().enumerate() {
            assert_eq!(runtime.run(|| n), n);
        }
        drop(runtimes);
        // All places are free again.
        drop(build());
    });
    let Some(output) = output else { return };
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.matches("ecru: ECRU_INSPECT: ").count(), 4, "{said}");
    assert_eq!(std::fs::read_dir(folder.join("ecru")).unwrap().count(), 0);
}

/// A storm of signals for dumps, while runs begin and end, and a run that ends meanwhile. The process
/// ends well. Whether a dump is written before the end is a matter of time.
#[test]
fn a_storm_of_signals_slow() {
    const NAME: &str = "fresh::explained::a_storm_of_signals_slow";
    let output = alone_with(
        NAME,
        |_| (),
        || {
            let _watchdog = Watchdog::new();
            let signal = ecru::signal::SignalKind::user_defined1();
            let built = Runtime::builder().workers(2).dump_on_signal(signal).build();
            let runtime = built.unwrap();
            let (over, process) = (AtomicBool::new(false), rustix::process::getpid());
            runtime.run(|| {
                ecru::unblock(|| {
                    thread::scope(|threads| {
                        threads.spawn(|| {
                            while !over.load(SeqCst) {
                                let usr1 = rustix::process::Signal::USR1;
                                rustix::process::kill_process(process, usr1).unwrap();
                                thread::yield_now();
                            }
                        });
                        for _ in 0..10 {
                            let built =
                                Runtime::builder().workers(1).dump_on_signal(signal).build();
                            built
                                .unwrap()
                                .run(|| ecru::scope(|s| drop(s.spawn(|| ecru::sleep(ms(1))))));
                        }
                        over.store(true, SeqCst);
                    });
                });
            });
        },
    );
    let Some(output) = output else { return };
    assert!(output.status.success());
}

/// Hears of the reports of the library.
struct Reports(mpsc::Sender<String>);

impl TaskObserver for Reports {
    fn reported(&self, text: &str) {
        let _ = self.0.send(text.to_owned());
    }
}

/// Reports of a watchdog about a worker of an inner runtime, in a destructor, while it unwinds.
#[test]
fn a_watchdog_of_an_inner_run_slow() {
    const NAME: &str = "fresh::explained::a_watchdog_of_an_inner_run_slow";
    let output = alone_with(
        NAME,
        |_| (),
        || {
            let _watchdog = Watchdog::new();
            let (reported, reports) = mpsc::channel();
            ecru::task::set_task_observer(Box::leak(Box::new(Reports(reported)))).unwrap();
            let reports = Mutex::new(reports);
            // Waits for a report about a task, as a lock or a channel of std does.
            let hear = |task: &str| {
                let reports = reports.lock().unwrap();
                while !reports.recv().unwrap().contains(task) {}
            };
            let build = || Runtime::builder().workers(1).watchdog(ms(10)).build().unwrap();
            build().run(|| {
                ecru::unblock(|| {
                    build().run(|| {
                        ecru::scope(|s| {
                            s.spawn(|| ecru::sleep(ms(1)));
                            let falls = s.builder().name("falls").spawn(|| {
                                let _blocks = OnDrop(|| {
                                    hear("'falls'");
                                    // All watchdogs look from one thread. So this one has looked
                                    // again when that of a later run has found this out.
                                    let later = || {
                                        ecru::scope(|s| {
                                            s.spawn(|| ecru::sleep(ms(1)));
                                            let later = s.builder().name("later");
                                            later.spawn(|| hear("'later'"));
                                        });
                                    };
                                    thread::scope(|s| drop(s.spawn(|| build().run(later))));
                                });
                                quiet_panic("and blocks")
                            });
                            assert!(falls.join().is_err());
                        });
                    });
                });
            });
        },
    );
    let Some(output) = output else { return };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.matches("it runs a task 'falls' spawned at").count(), 1, "{said}");
    assert_eq!(said.matches("has not switched").count(), 2, "{said}");
}

/// A child that is started inside a run inherits neither the socket nor its place.
#[test]
fn a_child_process_has_its_own_socket() {
    const NAME: &str = "fresh::explained::a_child_process_has_its_own_socket";
    let folder = new_path("child");
    std::fs::create_dir(&folder).unwrap();
    let _removed = OnDrop(|| drop(std::fs::remove_dir_all(&folder)));
    let prepare = |command: &mut std::process::Command| {
        command.env("ECRU_INSPECT", "1").env("XDG_RUNTIME_DIR", &folder);
    };
    alone_with(NAME, prepare, || {
        if std::env::var_os("ECRU_TEST_GRANDCHILD").is_some() {
            return run_on(1, || ());
        }
        let own = || std::fs::read_dir(folder_of_sockets()).unwrap().count();
        Runtime::builder().workers(1).build().unwrap().run(|| {
            assert_eq!(own(), 1);
            let mut again = start_again(NAME);
            again.env("ECRU_TEST_GRANDCHILD", "1");
            let output = ecru::unblock(|| again.output()).unwrap();
            assert!(output.status.success());
            assert_eq!(own(), 1);
        });
        assert_eq!(own(), 0);
    });
}

fn folder_of_sockets() -> PathBuf {
    PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR").unwrap()).join("ecru")
}
