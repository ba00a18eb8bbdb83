//! Signals as sources: `signal`. Signals reach the whole process, so each case uses a signal of its
//! own, or runs in a process of its own.
#![expect(unsafe_code, reason = "sends signals and installs handlers")]

use crate::support::{
    Watchdog, begin, each_run, everywhere, forever, is_child, run_on, start_again,
};
use ecru::Source;
use ecru::signal::{Signal, SignalKind, ctrl_c};
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

fn raise(signal: i32) {
    let own = i32::try_from(std::process::id()).unwrap();
    // SAFETY: this sends a signal to this process, which has a listener for it.
    assert_eq!(unsafe { libc::kill(own, signal) }, 0);
}

/// Sends a signal to the calling thread, and returns after it has been handled. (The previously
/// installed handler is called last.)
fn raise_here(signal: i32) {
    // SAFETY: this sends a signal to the calling thread, and the process has a listener for it.
    assert_eq!(unsafe { libc::raise(signal) }, 0);
}

/// Returns how the named test ends when it is started again.
fn end(test: &str) -> std::process::ExitStatus {
    let _watchdog = Watchdog::new();
    start_again(test).stdout(std::process::Stdio::null()).status().unwrap()
}

/// - given: `ctrl_c()`
/// - when: the process gets `SIGINT`
/// - then: a wait for it ends, in a task and on a plain thread, and the process continues
#[test]
fn signal_01_ctrl_c() {
    const NAME: &str = "signal::signal_01_ctrl_c";
    if is_child(NAME) {
        let wait = || -> std::io::Result<()> {
            let next = ctrl_c()?;
            raise(libc::SIGINT);
            next.wait()?;
            raise(libc::SIGINT);
            next.wait()?;
            Ok(())
        };
        everywhere(|_| wait().unwrap());
        return;
    }
    assert!(end(NAME).success());
}

/// - given: two `Signal`s of one kind
/// - when: the signal comes
/// - then: both receive it
#[test]
fn signal_02_each_hears() {
    each_run(|| {
        let (one, other) =
            (Signal::new(libc::SIGALRM).unwrap(), Signal::new(SignalKind::alarm()).unwrap());
        ecru::scope(|s| {
            let waits = begin(s, || one.wait());
            raise(libc::SIGALRM);
            assert_eq!(waits.join().unwrap(), Ok(()));
        });
        assert_eq!(other.wait(), Ok(()));
        assert_eq!((one.try_take(), other.try_take()), (None, None));
    });
}

/// - given: a `Signal` without a waiter
/// - when: its signal comes five times
/// - then: it has one item
#[test]
fn signal_03_coalesces() {
    everywhere(|_| {
        let window = Signal::new(SignalKind::window_change()).unwrap();
        // Of signals that are noted together, the one with the higher number is delivered last.
        let last = Signal::new(libc::SIGPWR).unwrap();
        for _ in 0..5 {
            raise_here(libc::SIGWINCH);
        }
        raise_here(libc::SIGPWR);
        assert_eq!(last.wait(), Ok(()));
        assert_eq!(window.try_take(), Some(()));
        assert_eq!(window.try_take(), None);
    });
}

/// - given: `select!` over a `Signal` and a receiver
/// - when: the signal comes
/// - then: its arm is taken
#[test]
fn signal_04_selects() {
    everywhere(|side| {
        let user = Signal::new(SignalKind::user_defined2()).unwrap();
        let (_sender, receiver) = ecru::channel::bounded::<()>(1);
        side.both(
            || {
                side.pause();
                raise(libc::SIGUSR2);
            },
            || {
                ecru::select! {
                    wait(&user) -> signal => assert_eq!(signal, Ok(())),
                    recv(receiver) -> _ => panic!("nobody sends"),
                }
            },
        );
    });
}

/// - given: `SIGKILL`, `SIGSTOP`, `SIGSEGV`, 0, 64
/// - when: `Signal::new` is called
/// - then: `InvalidInput`, with a text that says which and why
#[test]
fn signal_05_refused() {
    for (number, text) in [
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGSTOP, "SIGSTOP"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGILL, "SIGILL"),
        (0, "signal 0"),
        (-1, "signal -1"),
        (64, "signal 64"),
    ] {
        let error = Signal::new(number).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().starts_with(text), "{error}");
        assert!(error.to_string().contains("cannot be listened to: "), "{error}");
    }
}

/// - given: the last `Signal` of a kind has been dropped
/// - when: the signal comes
/// - then: it acts as before
#[test]
fn signal_06_restored() {
    const NAME: &str = "signal::signal_06_restored";
    if is_child(NAME) {
        let (one, other) =
            (Signal::new(libc::SIGTERM).unwrap(), Signal::new(libc::SIGTERM).unwrap());
        drop(one);
        raise(libc::SIGTERM);
        other.wait().unwrap();
        drop(other);
        raise(libc::SIGTERM);
        unreachable!("it has ended the process");
    }
    assert_eq!(end(NAME).signal(), Some(libc::SIGTERM));
}

/// - given: a `Signal`
/// - when: its signal comes repeatedly
/// - then: each one is received, and the default action never happens
#[test]
fn signal_07_stays() {
    const NAME: &str = "signal::signal_07_stays";
    if is_child(NAME) {
        run_on(1, || {
            let terminate = Signal::new(SignalKind::terminate()).unwrap();
            for _ in 0..100 {
                // This raises the signal on this thread. A signal still on its way to another
                // thread would end the process when there is no listener any more.
                raise_here(libc::SIGTERM);
                raise_here(libc::SIGTERM);
                terminate.wait().unwrap();
            }
        });
        return;
    }
    assert!(end(NAME).success());
}

static CALLED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn note(_: i32) {
    CALLED.fetch_add(1, SeqCst);
}

/// - given: a handler that was installed before
/// - when: the signal comes
/// - then: it is called as well
#[test]
fn signal_08_chains() {
    const NAME: &str = "signal::signal_08_chains";
    if is_child(NAME) {
        // SAFETY: the function only writes to an atomic.
        unsafe { libc::signal(libc::SIGHUP, note as extern "C" fn(i32) as usize) };
        let hangup = Signal::new(SignalKind::hangup()).unwrap();
        for count in 1..4 {
            raise_here(libc::SIGHUP);
            hangup.wait().unwrap();
            assert_eq!(CALLED.load(SeqCst), count);
        }
        drop(hangup);
        raise_here(libc::SIGHUP);
        assert_eq!(CALLED.load(SeqCst), 4);
        return;
    }
    assert!(end(NAME).success());
}

/// - given: two tasks that wait for one `Signal`
/// - when: the signal comes once
/// - then: one of them continues
#[test]
fn signal_09_one_taker() {
    each_run(|| {
        let io = Signal::new(SignalKind::io()).unwrap();
        let (io, taken) = (&io, &AtomicUsize::new(0));
        ecru::scope(|s| {
            let take = move || io.wait().map(|()| taken.fetch_add(1, SeqCst));
            let both = [begin(s, take), begin(s, take)];
            raise(libc::SIGIO);
            crate::support::until(|| taken.load(SeqCst) == 1);
            crate::support::settle();
            s.cancel();
            let ended = both.map(|one| one.join().unwrap().is_ok());
            assert!(ended == [true, false] || ended == [false, true]);
        });
        assert_eq!(taken.load(SeqCst), 1);
    });
}

/// - given: a wait for a `Signal` that is cancelled
/// - when: the signal comes afterwards
/// - then: the next wait receives it
#[test]
fn signal_10_cancelled_wait_loses_nothing() {
    each_run(|| {
        let urgent = Signal::new(libc::SIGURG).unwrap();
        ecru::scope(|s| {
            let waits = begin(s, || urgent.wait());
            waits.cancel();
            assert!(waits.join().unwrap().is_err());
        });
        raise(libc::SIGURG);
        assert_eq!(urgent.wait(), Ok(()));
    });
}

/// - given: `cancel_on_ctrl_c` and a `ctrl_c()`
/// - when: `SIGINT` comes
/// - then: the run is cancelled, and the `Signal` receives it
#[test]
fn signal_11_beside_cancel_on_ctrl_c() {
    const NAME: &str = "signal::signal_11_beside_cancel_on_ctrl_c";
    if is_child(NAME) {
        let ctrl_c = ctrl_c().unwrap();
        let begun = AtomicBool::new(false);
        let runtime = ecru::Runtime::builder().workers(1).cancel_on_ctrl_c(true).build().unwrap();
        runtime.run(|| {
            begun.store(true, SeqCst);
            raise(libc::SIGINT);
            assert_eq!(forever().reason(), ecru::CancelReason::Shutdown);
        });
        ctrl_c.wait().unwrap();
        assert!(begun.load(SeqCst));
        return;
    }
    assert!(end(NAME).success());
}

/// - given: `on_ready` of a `Signal`, with a callback that drops another one
/// - when: the signal comes
/// - then: the callback is called, and later signals are received
///
/// The callback owns the `Signal` itself, which is dropped on the thread that delivers signals.
/// That thread must not wait for itself.
#[test]
fn signal_12_callback() {
    everywhere(|_| {
        for _ in 0..3 {
            let (tell, told) = std::sync::mpsc::channel();
            let first = Signal::new(libc::SIGXFSZ).unwrap();
            let other = Signal::new(libc::SIGXFSZ).unwrap();
            let subscription = first.on_ready(move |()| {
                drop(other);
                tell.send(()).unwrap();
            });
            raise(libc::SIGXFSZ);
            told.recv().unwrap();
            drop(subscription);
            let next = Signal::new(libc::SIGXFSZ).unwrap();
            raise(libc::SIGXFSZ);
            assert_eq!(next.wait(), Ok(()));
        }
    });
}
