//! What the system says of a thread of this process: how long it has waited for a processor, and
//! the system call in which it is.
//!
//! A machine that has too much to do does not run a thread that could run. That is no fault of what
//! the thread does, so such time does not count as time that a step of a simulation takes, or for
//! which a worker is blocked.

use std::fs;
use std::mem::offset_of;
use std::time::Duration;

use super::sync::atomic::{AtomicI32, Ordering};

/// A thread of this process, between its [begin](WatchedThread::begin) and its
/// [end](WatchedThread::end).
#[derive(Debug)]
pub(crate) struct WatchedThread {
    /// Its number in the system, or 0.
    number: AtomicI32,
}

/// How long a thread has been on a processor, and in the queue for one. A wait in the queue counts
/// when it is over.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    pub(crate) ran: Duration,
    pub(crate) waited: Duration,
}

/// What a thread does, as far as the system knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// It runs, or waits for a processor.
    Computes,
    /// It waits in a call of this kind.
    Waits(Call),
    Unknown,
}

/// The kind of a system call that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// For a word of memory: the locks, channels and joins of `std`.
    Futex,
    /// For a time.
    Sleep,
    /// For a descriptor. Holds the call's name.
    Descriptor(&'static str),
    /// For the end of a process.
    Child,
    /// Any other one.
    Other,
}

impl WatchedThread {
    /// For debuggers: the offset of the thread's number.
    pub(crate) const NUMBER: usize = offset_of!(WatchedThread, number);

    pub(crate) fn new() -> WatchedThread {
        WatchedThread { number: AtomicI32::new(0) }
    }

    /// Notes that this is the current thread.
    pub(crate) fn begin(&self) {
        self.number.store(rustix::thread::gettid().as_raw_pid(), Ordering::Relaxed);
    }

    /// Notes that there is no thread any more.
    pub(crate) fn end(&self) {
        self.number.store(0, Ordering::Relaxed);
    }

    /// Returns the thread's number in the system, or 0 if it has not begun or has ended.
    pub(crate) fn number(&self) -> i32 {
        self.number.load(Ordering::Relaxed)
    }

    /// Returns what the system has counted since the thread was started. Returns zeros if the thread
    /// has not begun or has ended, or if the system does not count.
    pub(crate) fn times(&self) -> Times {
        let schedule = self.read("schedstat");
        schedule.as_deref().and_then(times).unwrap_or_default()
    }

    /// Returns what the thread does.
    pub(crate) fn activity(&self) -> Activity {
        self.read("syscall").as_deref().map_or(Activity::Unknown, activity)
    }

    /// Reads a file that describes the thread.
    fn read(&self, file: &str) -> Option<String> {
        match self.number() {
            0 => None,
            number => fs::read_to_string(format!("/proc/self/task/{number}/{file}")).ok(),
        }
    }
}

/// Reads the time on a processor, the time in the queue for one, and the number of turns.
fn times(schedule: &str) -> Option<Times> {
    let mut numbers = schedule.split_whitespace().map(|number| number.parse().ok());
    let mut next = || numbers.next()?.map(Duration::from_nanos);
    Some(Times { ran: next()?, waited: next()? })
}

/// Reads `running`, or the number of a system call and its arguments. The number is -1 outside of
/// system calls.
fn activity(text: &str) -> Activity {
    let Some(first) = text.split_whitespace().next() else { return Activity::Unknown };
    if first == "running" {
        return Activity::Computes;
    }
    match first.parse::<libc::c_long>() {
        Ok(-1) => Activity::Computes,
        Ok(number) => Activity::Waits(call(number)),
        Err(_) => Activity::Unknown,
    }
}

fn call(number: libc::c_long) -> Call {
    match number {
        libc::SYS_futex => Call::Futex,
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => Call::Sleep,
        libc::SYS_wait4 | libc::SYS_waitid => Call::Child,
        libc::SYS_read | libc::SYS_readv | libc::SYS_pread64 => Call::Descriptor("read"),
        libc::SYS_write | libc::SYS_writev | libc::SYS_pwrite64 => Call::Descriptor("write"),
        libc::SYS_recvfrom | libc::SYS_recvmsg => Call::Descriptor("recv"),
        libc::SYS_sendto | libc::SYS_sendmsg => Call::Descriptor("send"),
        libc::SYS_accept | libc::SYS_accept4 => Call::Descriptor("accept"),
        libc::SYS_connect => Call::Descriptor("connect"),
        libc::SYS_ppoll | libc::SYS_pselect6 | libc::SYS_epoll_pwait => Call::Descriptor("poll"),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll | libc::SYS_select | libc::SYS_epoll_wait => Call::Descriptor("poll"),
        libc::SYS_fsync | libc::SYS_fdatasync => Call::Descriptor("fsync"),
        libc::SYS_flock => Call::Descriptor("flock"),
        _ => Call::Other,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Activity, Call, WatchedThread, activity};
    use std::time::Duration;
    use std::{sync, thread};

    #[test]
    fn a_thread_that_has_not_begun_is_not_known() {
        let thread = WatchedThread::new();
        assert_eq!(thread.times().waited, Duration::ZERO);
        assert_eq!(thread.activity(), Activity::Unknown);
        thread.begin();
        let first = thread.times();
        // The system counts at its ticks.
        while thread.times().ran == first.ran {
            std::hint::spin_loop();
        }
        assert!(thread.times().waited >= first.waited);
        thread.end();
        assert_eq!(thread.times().ran, Duration::ZERO);
        assert_eq!(activity("running\n"), Activity::Computes);
        assert_eq!(activity("-1 0x7f 0x7f\n"), Activity::Computes);
        assert_eq!(activity(""), Activity::Unknown);
    }

    /// A thread in `recv` of a channel of `std` waits for a futex.
    #[test]
    fn what_a_thread_waits_for_is_known() {
        let other = WatchedThread::new();
        let (begin, begun) = sync::mpsc::channel();
        let (end, ended) = sync::mpsc::channel::<()>();
        let thread = &other;
        thread::scope(|threads| {
            threads.spawn(move || {
                thread.begin();
                begin.send(()).unwrap();
                let _ = ended.recv();
            });
            begun.recv().unwrap();
            // It is about to wait.
            while other.activity() != Activity::Waits(Call::Futex) {
                thread::yield_now();
            }
            drop(end);
        });
    }
}
