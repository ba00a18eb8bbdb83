//! The service thread: calls of the user's code that block delay no other calls. Each case has a
//! process of its own, because the whole process has one service thread.
//!
//! The calls of each case meet at a barrier. So the case passes only if all of them are made while
//! none of them has returned.
#![expect(unsafe_code, reason = "sends signals")]

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::thread;

use ecru::Source;
use ecru::channel::after;
use ecru::io::EventFd;
use ecru::signal::Signal;
use ecru::time::Timer;

use crate::support::{HOUR, Watchdog, alone, ms, run_on, until};

/// The place at which a number of calls meet, and the test itself.
struct Meeting(Arc<Barrier>);

impl Meeting {
    fn of(calls: usize) -> Meeting {
        Meeting(Arc::new(Barrier::new(calls + 1)))
    }

    /// Returns a callback that blocks until all calls are being made.
    fn callback<T>(&self) -> impl FnOnce(T) + Send + 'static {
        let all = Arc::clone(&self.0);
        move |_| _ = all.wait()
    }
}

fn raise(signal: i32) {
    // SAFETY: this sends a signal to the calling thread, and the process has a listener for it.
    assert_eq!(unsafe { libc::raise(signal) }, 0);
}

/// Blocks a worker in foreign code under a time limit, until a hook ends that. The hook blocks
/// until all calls are being made.
fn overdue_hook(all: &Barrier) {
    let stop = AtomicBool::new(false);
    let hook = || {
        all.wait();
        stop.store(true, SeqCst);
    };
    let foreign = || {
        while !stop.load(SeqCst) {
            thread::yield_now();
        }
    };
    run_on(1, || ecru::timeout(ms(1), || ecru::on_cancel(hook, foreign)).unwrap());
}

/// Each timer has a thread of its own. If the machine is so slow that the timer has rung before the
/// callback waits for it, that thread calls the callback.
fn two_timers(meeting: &Meeting) {
    let (one, other) = (meeting.callback(), meeting.callback());
    thread::spawn(|| after(ms(1)).on_ready(one).detach());
    thread::spawn(|| {
        let timer = Timer::new(ms(2));
        timer.start().unwrap();
        timer.on_ready(other).detach();
    });
}

fn two_fds(meeting: &Meeting) {
    for _ in 0..2 {
        let fd = EventFd::new().unwrap();
        fd.clone().on_ready(meeting.callback()).detach();
        fd.notify().unwrap();
    }
}

fn two_signals(meeting: &Meeting) {
    for number in [libc::SIGUSR1, libc::SIGUSR2] {
        Signal::new(number).unwrap().on_ready(meeting.callback()).detach();
        raise(number);
    }
}

/// - given: a callback of a timer that blocks its thread
/// - when: another timer rings
/// - then: that one's callback is called
#[test]
fn callback_15_a_blocked_one_stops_no_timer() {
    alone("service::callback_15_a_blocked_one_stops_no_timer", || {
        let _watchdog = Watchdog::new();
        let meeting = Meeting::of(2);
        two_timers(&meeting);
        meeting.0.wait();
    });
}

/// - given: a callback of an `EventFd` that blocks its thread
/// - when: another `EventFd` is notified
/// - then: that one's callback is called
#[test]
fn io_29_a_blocked_callback_stops_no_event_fd() {
    alone("service::io_29_a_blocked_callback_stops_no_event_fd", || {
        let _watchdog = Watchdog::new();
        let meeting = Meeting::of(2);
        two_fds(&meeting);
        meeting.0.wait();
    });
}

/// - given: a callback of a `Signal` that blocks its thread
/// - when: another signal comes
/// - then: that one's callback is called
#[test]
fn signal_13_a_blocked_callback_stops_no_signal() {
    alone("service::signal_13_a_blocked_callback_stops_no_signal", || {
        let _watchdog = Watchdog::new();
        let meeting = Meeting::of(2);
        two_signals(&meeting);
        meeting.0.wait();
    });
}

/// - given: an overdue hook that blocks its thread
/// - when: the time limit around another hook passes, whose worker is blocked by foreign code
/// - then: that hook runs as well
#[test]
fn cancel_61_a_blocked_hook_stops_no_hook() {
    alone("service::cancel_61_a_blocked_hook_stops_no_hook", || {
        let _watchdog = Watchdog::new();
        let both = Barrier::new(2);
        thread::scope(|threads| {
            threads.spawn(|| overdue_hook(&both));
            overdue_hook(&both);
        });
    });
}

/// - given: callbacks of timers, `EventFd`s and `Signal`s, and overdue hooks, two of each
/// - when: each of them blocks its thread
/// - then: all of them are called
#[test]
fn callback_16_each_kind_is_called_beside_the_others() {
    alone("service::callback_16_each_kind_is_called_beside_the_others", || {
        let _watchdog = Watchdog::new();
        let meeting = Meeting::of(8);
        thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| overdue_hook(&meeting.0));
            }
            two_signals(&meeting);
            two_fds(&meeting);
            two_timers(&meeting);
            meeting.0.wait();
        });
    });
}

/// Returns the names of the process's threads. A thread that has just been started does not have
/// its name yet.
#[cfg(not(ecru_baton))]
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.map(|name| String::from(name.trim_end())).collect()
}

/// - given: a run of one worker in which tasks wait; then callbacks that wait for a timer, an
///   `EventFd` and a signal, and a hook under a time limit
/// - when: the process's threads are counted
/// - then: the first needs no further thread, and all of the others together need one
#[test]
#[cfg(not(ecru_baton))] // tasks have threads of their own
fn run_73_one_service_thread() {
    alone("service::run_73_one_service_thread", || {
        run_on(1, || {
            let before = threads().len();
            ecru::scope(|s| {
                s.spawn(|| ecru::sleep(ms(1)).unwrap());
                ecru::sleep(ms(2)).unwrap();
            });
            until(|| threads().len() == before);
            let _timer = after(HOUR).on_ready(drop);
            let _fd = EventFd::new().unwrap().on_ready(drop);
            let _signal = Signal::new(libc::SIGUSR1).unwrap().on_ready(drop);
            let is_one = || {
                let now = threads();
                now.len() == before + 1 && now.iter().any(|name| name == "ecru-service")
            };
            ecru::timeout(HOUR, || ecru::on_cancel(|| (), || until(is_one))).unwrap();
        });
    });
}
