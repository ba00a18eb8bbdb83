//! What clocks show.
#![expect(unsafe_code, reason = "calls functions of libc")]

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use ecru::{fs, sim};

use super::common::{HOUR, ms};
use super::{simulated, with_any_seed};

/// When simulations begin: on 1 January 2000.
const BEGIN: Duration = Duration::from_secs(946_684_800);
/// The 1 January 2020, before which no real clock is.
const LONG_AFTER: Duration = Duration::from_secs(1_577_836_800);

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap()
}

/// Returns what `clock_gettime` says.
fn clock(number: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place may be written to.
    assert_eq!(unsafe { libc::clock_gettime(number, &raw mut time) }, 0);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

/// - given: a program that reads `Instant::now` and sleeps
/// - when: it runs in a simulation
/// - then: `Instant::now` is `ecru::time::now`: it advances by the sleeps exactly, and not otherwise
#[test]
fn libc_01_instants() {
    with_any_seed(|| {
        let begun = Instant::now();
        assert_eq!(begun, ecru::time::now());
        assert_eq!(Instant::now(), begun);
        ecru::sleep(HOUR).unwrap();
        assert_eq!(begun.elapsed(), HOUR);
        ecru::time::sleep_until(Instant::now() + ms(7)).unwrap();
        assert_eq!(sim::elapsed(), HOUR + ms(7));
        assert_eq!(Instant::now(), ecru::time::now());
    });
}

/// - given: the same program
/// - when: it runs twice
/// - then: the instants are equal
#[test]
fn libc_02_the_same_instants() {
    let instants = || {
        let begun = Instant::now();
        ecru::sleep(ms(5)).unwrap();
        (begun, Instant::now(), format!("{begun:?}"))
    };
    let first = simulated(1, instants);
    assert_eq!(simulated(1, instants), first);
    assert_eq!(simulated(2, instants), first);
}

/// - given: a program that reads `SystemTime::now` and writes files
/// - when: it runs in a simulation
/// - then: the time begins on 1 January 2000, advances with the virtual time, and is that of the
///   files
#[test]
fn libc_03_system_time() {
    with_any_seed(|| {
        assert_eq!(since_epoch(), BEGIN);
        ecru::sleep(HOUR).unwrap();
        assert_eq!(since_epoch(), BEGIN + HOUR);
        fs::write("file", "text").unwrap();
        let written = fs::metadata("file").unwrap().modified().unwrap();
        assert_eq!(written, SystemTime::now());
        ecru::sleep(ms(1)).unwrap();
        assert_eq!(written.elapsed().unwrap(), ms(1));
    });
}

/// - given: a host whose clock is fast
/// - when: time passes
/// - then: `Instant::now` and `SystemTime::now` follow that clock on the host, and not elsewhere
#[test]
fn libc_04_a_clock_that_drifts() {
    with_any_seed(|| {
        let host = sim::host("fast", || {
            let begun = Instant::now();
            assert_eq!(begun, ecru::time::now());
            while begun.elapsed() < HOUR {
                ecru::sleep(Duration::from_secs(60))?;
            }
            assert_eq!(Instant::now(), ecru::time::now());
            fs::write("file", "text")?;
            assert_eq!(fs::metadata("file")?.modified()?, SystemTime::now());
            assert!(since_epoch() > BEGIN + sim::elapsed());
            Ok(())
        });
        host.skew(100_000);
        ecru::sleep(2 * HOUR).unwrap();
        assert_eq!(since_epoch(), BEGIN + sim::elapsed());
    });
}

/// - given: a program that calls libc
/// - when: it asks for each clock, by `clock_gettime`, `gettimeofday` or `time`
/// - then: all agree, except that the processor's clocks are real, and bad arguments are refused
#[test]
fn libc_05_all_clocks() {
    with_any_seed(|| {
        ecru::sleep(Duration::new(5, 123_456_789)).unwrap();
        let shown = BEGIN + Duration::new(5, 123_456_789);
        for number in [
            libc::CLOCK_REALTIME,
            libc::CLOCK_REALTIME_COARSE,
            libc::CLOCK_TAI,
            libc::CLOCK_MONOTONIC,
            libc::CLOCK_MONOTONIC_RAW,
            libc::CLOCK_BOOTTIME,
        ] {
            assert_eq!(clock(number), shown);
        }
        assert!(clock(libc::CLOCK_THREAD_CPUTIME_ID) < HOUR);
        let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
        // SAFETY: the place may be written to.
        assert_eq!(unsafe { libc::gettimeofday(&raw mut time, std::ptr::null_mut()) }, 0);
        assert_eq!((time.tv_sec, time.tv_usec), (946_684_805, 123_456));
        let mut seconds = 0;
        // SAFETY: the place may be written to.
        assert_eq!(unsafe { libc::time(&raw mut seconds) }, 946_684_805);
        assert_eq!(seconds, 946_684_805);
        // SAFETY: it may be null.
        assert_eq!(unsafe { libc::time(std::ptr::null_mut()) }, 946_684_805);
        // SAFETY: it is refused.
        let refused = unsafe { libc::clock_gettime(12345, std::ptr::null_mut()) };
        let error = std::io::Error::last_os_error();
        assert_eq!((refused, error.raw_os_error()), (-1, Some(libc::EINVAL)));
    });
}

/// Checks that the clocks are those of the machine.
fn look_at_real_clocks() {
    let (begun, system) = (Instant::now(), SystemTime::now());
    assert!(since_epoch() > LONG_AFTER);
    thread::sleep(ms(2));
    assert!(begun.elapsed() >= ms(2) && begun.elapsed() < HOUR);
    assert!(system.elapsed().unwrap() >= ms(1));
    assert_eq!(clock(libc::CLOCK_REALTIME).as_secs() / 3600, since_epoch().as_secs() / 3600);
}

/// - given: a program with this crate
/// - when: code outside of simulations reads the clocks: on a plain thread, before and after a
///   simulation, in a task of `ecru::run`, in `unblock`
/// - then: they are those of the machine
#[test]
fn libc_06_clocks_outside() {
    look_at_real_clocks();
    simulated(1, || ecru::sleep(HOUR).unwrap());
    look_at_real_clocks();
    ecru::run(|| {
        let begun = ecru::time::now();
        look_at_real_clocks();
        ecru::unblock(look_at_real_clocks);
        assert!(ecru::time::now() >= begun + ms(4));
    });
}

/// - given: a closure in `unblock`
/// - when: it reads the clocks in a simulation
/// - then: they are virtual there, too
#[test]
fn libc_07_unblock() {
    with_any_seed(|| {
        ecru::sleep(HOUR).unwrap();
        let (instant, system) = ecru::unblock(|| (Instant::now(), since_epoch()));
        assert_eq!((instant, system), (ecru::time::now(), BEGIN + HOUR));
    });
}

/// - given: plain threads that read the clocks all the time
/// - when: simulations run beside them
/// - then: each thread sees the clocks of its own world
#[test]
fn libc_08_beside_a_simulation() {
    /// Ends the thread, also when a simulation fails.
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let (done, looks) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|s| {
        s.spawn(|| {
            let begun = Instant::now();
            while !done.load(Ordering::Relaxed) {
                assert!(since_epoch() > LONG_AFTER);
                assert!(begun.elapsed() < HOUR);
                looks.store(true, Ordering::Relaxed);
            }
        });
        let _end = End(&done);
        while !looks.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        for seed in 0..20 {
            simulated(seed, || {
                for hours in 1..20 {
                    ecru::sleep(HOUR / 30).unwrap();
                    assert_eq!(since_epoch(), BEGIN + hours * (HOUR / 30));
                }
            });
        }
    });
}

/// - given: a value that a simulation leaves in a thread-local
/// - when: its destructor reads the clock, after the simulation has ended
/// - then: the clock is that of the machine, and the value's own time was virtual
#[test]
fn libc_09_at_the_end_of_the_thread() {
    struct Left(Duration, mpsc::Sender<[Duration; 2]>);
    impl Drop for Left {
        fn drop(&mut self) {
            self.1.send([self.0, since_epoch()]).unwrap();
        }
    }
    thread_local! {
        static LEFT: RefCell<Option<Left>> = const { RefCell::new(None) };
    }
    let (send, receive) = mpsc::channel();
    simulated(1, move || LEFT.set(Some(Left(since_epoch(), send))));
    let [inside, at_the_end] = receive.recv().unwrap();
    assert!(inside == BEGIN && at_the_end > LONG_AFTER);
}
