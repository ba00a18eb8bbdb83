//! Values that outlive their run, or get into another one.

use super::{SECOND, report, run};
use crate::common::{OnDrop, panic_text};
use ecru::channel;
use ecru::fs::{self, File};
use ecru::net::{TcpListener, TcpStream, UdpSocket, UnixStream};
use ecru::sim::{self, Failure};
use ecru::sync::{Mutex, Notify, Semaphore};
use ecru::time::Timer;
use ecru::{Source, io::EventFd};
use std::cell::RefCell;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread;

fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (one, listener.accept().unwrap().0)
}

#[test]
fn sockets_that_outlive_their_run_fail_and_do_not_hang() {
    let (mut one, mut other) = run(1, || {
        let (one, mut other) = connected();
        other.write_all(b"last words").unwrap();
        (one, other)
    });
    one.set_read_timeout(Some(SECOND)).ok();
    let mut all = Vec::new();
    // The bytes may be there or not. What matters is that the calls return.
    let _ = one.read_to_end(&mut all);
    let _ = other.write(b"x");
    let _ = other.flush();
    let _ = other.peer_addr();
    let _ = other.shutdown(std::net::Shutdown::Both);
    thread::spawn(move || drop((one, other))).join().unwrap();
}

#[test]
fn a_read_without_a_limit_after_the_end_does_not_hang() {
    let (mut one, other) = run(1, connected);
    let read = one.read(&mut [0; 8]);
    assert!(read.is_err(), "{read:?}");
    drop(other);
}

#[test]
fn a_listener_that_outlives_its_run_does_not_hang() {
    let listener = run(1, || TcpListener::bind("0.0.0.0:80").unwrap());
    let accepted = listener.accept();
    assert!(accepted.is_err(), "{accepted:?}");
    let local = listener.local_addr();
    let also = TcpStream::connect(("127.0.0.1", local.map_or(1, |addr| addr.port())));
    drop(also);
    let udp = run(2, || UdpSocket::bind("0.0.0.0:0").unwrap());
    assert!(udp.recv(&mut [0]).is_err());
    let _ = udp.send_to(b"x", "127.0.0.1:9");
}

#[test]
fn a_socket_of_one_run_in_another_run_fails() {
    let (mut one, mut other) = run(1, connected);
    let failed = run(2, move || {
        let write = other.write(b"to the other world");
        let read = ecru::timeout(SECOND, || one.read(&mut [0; 32]));
        let peer = one.peer_addr();
        drop((one, other));
        // The places of the dead sockets are not those of live ones.
        let (mut a, mut b) = connected();
        a.write_all(b"7").unwrap();
        let mut byte = [0];
        b.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"7");
        (write, read, peer)
    });
    assert!(failed.0.is_err(), "{failed:?}");
    assert!(!matches!(failed.1, Ok(Ok(_))), "{failed:?}");
}

#[test]
fn descriptors_of_two_runs_in_one_select() {
    let foreign = run(1, || EventFd::new().unwrap());
    run(2, move || {
        let own = EventFd::new().unwrap();
        ecru::scope(|s| {
            s.spawn(|| {
                ecru::sleep(SECOND).unwrap();
                own.notify().unwrap();
            });
            ecru::select! {
                wait(foreign) -> _ => {},
                wait(own) -> _ => {},
            }
        });
        let _ = foreign.notify();
        let _ = foreign.try_take();
    });
}

#[test]
fn a_file_that_outlives_its_run() {
    let mut file = run(1, || {
        let mut file =
            File::options().create(true).truncate(true).read(true).write(true).open("f").unwrap();
        file.write_all(b"text").unwrap();
        file
    });
    let _ = file.write(b"more");
    let _ = file.sync_all();
    let _ = file.set_len(1 << 20);
    let _ = file.metadata();
    let _ = file.read(&mut [0; 8]);
    let _ = file.try_clone();
    let _ = file.try_lock();
    let _ = file.lock_shared();
    let dir = run(1, || {
        fs::create_dir("d").unwrap();
        fs::write("d/x", "x").unwrap();
        fs::write("d/y", "y").unwrap();
        fs::read_dir("d").unwrap()
    });
    for entry in dir.flatten() {
        let _ = entry.metadata();
        let _ = entry.file_type();
    }
    let file = run(2, move || {
        let _ = file.write(b"more");
        let _ = file.sync_all();
        fs::write("g", "own").unwrap();
        assert_eq!(fs::read_to_string("g").unwrap(), "own");
        assert!(fs::metadata("f").is_err());
        file
    });
    thread::spawn(move || drop(file)).join().unwrap();
}

#[test]
fn a_file_lock_held_beyond_the_end_holds_up_no_later_run() {
    let held = run(1, || {
        let file = File::create("lock").unwrap();
        file.lock().unwrap();
        file
    });
    let again = run(1, || {
        let file = File::create("lock").unwrap();
        file.try_lock().unwrap();
        file
    });
    drop((held, again));
}

#[test]
fn descriptors_that_were_asked_for_fail_harmlessly_outside() {
    let (raw, owned) = run(1, || {
        let (one, other) = connected();
        let raw = one.as_fd().as_raw_fd();
        drop(one);
        let owned: OwnedFd = other.into();
        (raw, owned)
    });
    let _ = raw;
    let mut std_stream = std::net::TcpStream::from(owned);
    assert!(std_stream.write(b"x").is_err());
    assert!(std_stream.read(&mut [0]).is_err());
    // Taken over by the library itself, inside and outside of a run.
    let outside = TcpStream::try_from(std_stream);
    if let Ok(mut stream) = outside {
        assert!(stream.write(b"x").is_err());
    }
}

#[test]
fn a_descriptor_of_the_kernel_in_a_run_is_refused() {
    let (mine, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let outcome = run(1, move || {
        let mut stream = match UnixStream::try_from(mine) {
            Ok(stream) => stream,
            Err(error) => return error.to_string(),
        };
        stream.set_read_timeout(Some(SECOND)).unwrap();
        stream.read(&mut [0]).unwrap_err().to_string()
    });
    assert!(!outcome.is_empty());
    drop(theirs);
}

#[test]
fn handles_timers_and_channels_outlive_their_run() {
    let ended = run(1, || {
        let task = ecru::spawn(|| String::from("value of a task that ended after the root"));
        let shared = ecru::spawn(|| 7).shared();
        let timer = Timer::new(SECOND);
        timer.start().unwrap();
        let (tx, rx) = channel::bounded::<String>(1);
        let event = EventFd::new().unwrap();
        let notify = Arc::new(Notify::new());
        (task, shared, timer, tx, rx, event, notify)
    });
    let (task, shared, timer, tx, rx, event, notify) = ended;
    assert_eq!(task.join().unwrap(), "value of a task that ended after the root");
    assert_eq!(shared.join().unwrap(), 7);
    // By the real clock the virtual due time is in the past or the near future.
    let _ = timer.state();
    timer.cancel();
    tx.send(String::from("x")).unwrap();
    assert_eq!(rx.recv().unwrap(), "x");
    let _ = event.notify();
    notify.notify_one();
    notify.wait().unwrap();
}

#[test]
fn a_timer_that_was_started_in_a_run_and_is_awaited_after_it() {
    let timer = run(1, || {
        let timer = Timer::new(SECOND / 100);
        timer.start().unwrap();
        // A callback waits for it, so it has an alarm.
        timer.clone().on_ready(|_| ()).detach();
        timer
    });
    // It must end some time: its due time was 10 ms of virtual time after the begin.
    let waited = ecru::timeout(5 * SECOND, || timer.wait());
    assert!(waited.is_ok(), "{waited:?}");
}

#[test]
fn a_callback_stays_in_a_static_channel_and_runs_after_the_end() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let (tx, rx) = channel::unbounded::<u32>();
    run(1, move || {
        rx.on_ready(|_| {
            CALLS.fetch_add(1, SeqCst);
            assert!(!sim::is_simulated());
            assert_eq!(sim::elapsed(), std::time::Duration::ZERO);
        })
        .detach();
    });
    assert_eq!(CALLS.load(SeqCst), 0);
    tx.send(1).unwrap();
    assert_eq!(CALLS.load(SeqCst), 1);
}

#[test]
fn a_callback_of_a_timer_dies_with_its_run() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let timer = run(1, move || {
        let timer = Timer::new(60 * SECOND);
        timer.start().unwrap();
        timer.clone().on_ready(move |_| drop(count.fetch_add(1, SeqCst))).detach();
        timer
    });
    timer.cancel();
    drop(timer);
    assert!(calls.load(SeqCst) <= 1);
}

#[test]
fn a_callback_of_a_descriptor_after_its_run() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let (news, subscription) = run(1, || {
        let news = EventFd::new().unwrap();
        let subscription = news.clone().on_ready(|_| drop(CALLS.fetch_add(1, SeqCst)));
        (news, subscription)
    });
    let _ = news.notify();
    let other = news.clone();
    thread::spawn(move || other.notify().is_ok()).join().unwrap();
    drop(subscription);
    run(2, move || {
        let _ = news.notify();
        news.clone().on_ready(|_| ()).detach();
        drop(news);
    });
    assert!(CALLS.load(SeqCst) <= 1);
}

#[test]
fn a_guard_a_permit_and_a_waiter_of_a_static_lock() {
    static LOCK: Mutex<u32> = Mutex::new(0);
    static PERMITS: OnceLock<Semaphore> = OnceLock::new();
    let permits = PERMITS.get_or_init(|| Semaphore::new(1));
    // A task of a failed run waits for a lock that a plain thread holds.
    let held = LOCK.lock();
    let permit = permits.acquire().unwrap();
    let failed = report(1, || {
        ecru::scope(|s| {
            s.spawn(|| drop(LOCK.lock()));
            s.spawn(|| drop(permits.acquire()));
        });
    });
    assert!(matches!(failed.result, Err(Failure::Deadlock(_))), "{failed}");
    drop((held, permit));
    // The dead waiters are not in the queues any more.
    *LOCK.lock() += 1;
    drop(permits.acquire().unwrap());
    let kept = run(1, || permits.acquire().unwrap());
    assert_eq!(permits.available_permits(), 0);
    drop(kept);
    assert_eq!(permits.available_permits(), 1);
}

#[test]
fn a_guard_kept_beyond_the_end_in_a_task_local_of_the_caller() {
    let lock = Mutex::new(String::from("text"));
    let guard = run(1, || lock.try_lock().is_ok());
    assert!(guard);
    let held = lock.lock();
    drop(held);
}

#[test]
fn hosts_and_links_of_one_run_in_another_one() {
    let (host, link) = run(1, || {
        let (a, b) = (sim::host("a", || Ok(())), sim::host("b", || Ok(())));
        let link = sim::link(&a, &b);
        (a, link)
    });
    assert_eq!((host.name(), host.addr().to_string().as_str()), ("a", "10.0.0.1"));
    let _ = format!("{host:?}");
    for text in [
        panic_text(|| host.crash()),
        panic_text(|| host.restart()),
        panic_text(|| host.pause()),
        panic_text(|| host.resume()),
        panic_text(|| host.power_fail()),
        panic_text(|| drop(link.hold())),
        panic_text(|| drop(link.reset())),
    ] {
        assert!(text.contains("outside"), "{text}");
    }
    run(2, move || {
        let own = sim::host("own", || {
            TcpListener::bind("0.0.0.0:80")?.accept()?;
            Ok(())
        });
        sim::settle();
        for text in [
            panic_text(|| host.crash()),
            panic_text(|| host.restart()),
            panic_text(|| host.pause()),
            panic_text(|| host.power_fail()),
        ] {
            assert!(text.contains("outside"), "{text}");
        }
        let partition = panic_text(|| sim::partition(&[&host], &[&own]));
        assert!(!partition.is_empty());
        TcpStream::connect("own:80").unwrap();
    });
}

#[test]
fn a_link_of_another_run_does_not_change_this_one() {
    let (host, link) = run(1, || {
        let (a, b) = (sim::host("a", || Ok(())), sim::host("b", || Ok(())));
        let link = sim::link(&a, &b);
        (a, link)
    });
    drop(host);
    run(2, move || {
        sim::host("a", || {
            TcpListener::bind("0.0.0.0:80")?.accept()?;
            Ok(())
        });
        let (tx, rx) = channel::bounded(1);
        sim::host("b", move || {
            ecru::sleep(SECOND)?;
            tx.send(TcpStream::connect("a:80").map(drop)).unwrap();
            Ok(())
        });
        // The hosts of the other run had the same places.
        let text = panic_text(|| drop(link.reset().hold()));
        assert!(!text.is_empty());
        rx.recv().unwrap().unwrap();
    });
}

thread_local! {
    static KEPT: RefCell<Vec<Box<dyn std::any::Any>>> = const { RefCell::new(Vec::new()) };
}

#[test]
fn values_in_thread_locals_are_dropped_after_the_run() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&dropped);
    run(1, move || {
        let keep = |value: Box<dyn std::any::Any>| KEPT.with(|kept| kept.borrow_mut().push(value));
        keep(Box::new(OnDrop(move || {
            count.fetch_add(1, SeqCst);
            let _ = (sim::is_simulated(), sim::elapsed(), sim::chance(0.5), sim::random_u64());
            sim::point();
            let _ = ecru::time::now();
            let _ = fs::write("/nonexistent/folder/x", "x");
            let _ = UdpSocket::bind("127.0.0.1:0");
            sim::invariant("late", || false);
            let late = std::panic::catch_unwind(|| drop(sim::host("late", || Ok(()))));
            assert!(late.is_err());
            let _ = std::panic::catch_unwind(sim::settle);
        })));
        let (one, other) = connected();
        keep(Box::new(one));
        keep(Box::new(other));
        keep(Box::new(TcpListener::bind("0.0.0.0:80").unwrap()));
        keep(Box::new(File::create("f").unwrap()));
        let timer = Timer::new(SECOND);
        timer.start().unwrap();
        keep(Box::new(timer.clone().on_ready(|_| ())));
        keep(Box::new(timer));
        let (tx, rx) = channel::bounded::<u32>(1);
        keep(Box::new(rx.clone().on_ready(|_| ())));
        keep(Box::new(rx));
        keep(Box::new(tx));
        keep(Box::new(sim::host("host", || Ok(()))));
        keep(Box::new(ecru::spawn(|| 7)));
        let generator = ecru::coroutine::Generator::new(|yielder| yielder.suspend(1));
        let mut generator = generator;
        generator.next();
        keep(Box::new(generator));
        keep(Box::new(ecru::RuntimeHandle::current()));
    });
    assert_eq!(dropped.load(SeqCst), 1);
}

#[test]
fn the_runtime_handle_of_a_run_that_has_ended() {
    let handle = run(1, ecru::RuntimeHandle::current);
    assert!(handle.spawn(|| 7).is_err());
    let _ = handle.dump().to_string();
    run(2, move || {
        assert!(handle.spawn(|| 7).is_err());
        let _ = handle.dump().to_string();
    });
}

#[test]
fn a_future_of_a_run_is_polled_after_it() {
    let (tx, rx) = channel::bounded::<u32>(1);
    let future = run(1, || {
        let mut future = Box::pin(rx.to_future());
        let waker = std::task::Waker::noop();
        let mut context = std::task::Context::from_waker(waker);
        assert!(future.as_mut().poll(&mut context).is_pending());
        future
    });
    tx.send(7).unwrap();
    assert_eq!(ecru::block_on(future).unwrap(), Ok(7));
}

#[test]
fn a_waker_of_block_on_is_woken_after_the_run() {
    let waker = run(1, || {
        let mut kept = None;
        ecru::block_on(std::future::poll_fn(|context| {
            kept = Some(context.waker().clone());
            std::task::Poll::Ready(())
        }))
        .unwrap();
        kept.unwrap()
    });
    waker.wake_by_ref();
    let other = waker.clone();
    thread::spawn(move || other.wake()).join().unwrap();
    run(2, move || waker.wake());
}

#[test]
fn a_generator_of_a_run_in_its_result_is_dropped_there() {
    // A `Generator` is not `Send`, so it goes into a task that never ends it.
    let dropped = AtomicUsize::new(0);
    let dropped = &dropped;
    let failed = report(1, move || {
        ecru::coroutine::generate(
            |yielder| {
                let _count = OnDrop(|| drop(dropped.fetch_add(1, SeqCst)));
                loop {
                    yielder.suspend(ecru::time::now());
                    ecru::sleep(SECOND).unwrap();
                }
            },
            |mut items| {
                items.next();
                items.next();
                Notify::new().wait().unwrap();
            },
        );
    });
    assert!(failed.result.is_err());
    assert_eq!(dropped.load(SeqCst), 1);
}
