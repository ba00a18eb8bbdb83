//! Limits that pass while the task computes, so that no timer has told it yet.

use std::io::{Read as _, Write as _};
use std::thread;
use std::time::Instant;

use ecru::sync::{Latch, Notify, Semaphore};
use ecru::{Cancelled, Source as _, channel};

use super::pair;
use crate::support::{HOUR, each_run, forever, ms, run_on};

/// How many operations may succeed after the limit.
const BUDGET: u32 = 128;

/// Calls `body` under a limit that has just passed.
fn past_a_limit<T>(body: impl FnOnce() -> T) -> T {
    let (limit, mut value) = (Instant::now() + ms(1), None);
    let _ = ecru::timeout_at(limit, || {
        compute_until(limit);
        value = Some(body());
    });
    value.unwrap()
}

fn compute_until(limit: Instant) {
    while Instant::now() <= limit {
        std::hint::spin_loop();
    }
}

/// - given: a limit that passes while the task computes
/// - when: it calls a wait of any kind that cannot end at once
/// - then: the wait returns `Cancelled`
#[test]
fn cancel_62_waits_see_a_limit_that_has_passed() {
    let check = || {
        assert!(past_a_limit(ecru::is_cancelled));
        assert!(past_a_limit(ecru::checkpoint).is_err());
        assert!(past_a_limit(ecru::yield_now).is_err());
        assert!(past_a_limit(|| ecru::sleep(ms(0))).is_err());
        assert!(past_a_limit(|| ecru::sleep(HOUR)).is_err());
        let (full, empty) = channel::bounded(1);
        full.send(1).unwrap();
        assert!(past_a_limit(|| full.send(2)).is_err());
        assert_eq!(empty.recv(), Ok(1));
        assert!(past_a_limit(|| empty.recv()).is_err());
        assert!(past_a_limit(|| empty.recv_timeout(HOUR)).is_err());
        assert!(past_a_limit(|| empty.wait()).is_err());
        assert!(past_a_limit(|| channel::bounded(0).0.send(1)).is_err());
        past_a_limit(|| {
            ecru::select! {
                recv(empty) -> item => assert!(item.is_err()),
                recv(channel::after(HOUR)) -> time => assert!(time.is_err()),
            }
        });
        assert!(past_a_limit(|| Semaphore::new(0).acquire().map(drop)).is_err());
        assert!(past_a_limit(|| Latch::new(1).wait()).is_err());
        assert!(past_a_limit(|| Notify::new().wait()).is_err());
        let (mut stream, _peer) = pair();
        let error = past_a_limit(|| stream.read(&mut [0])).unwrap_err();
        assert!(Cancelled::find(&error).is_some(), "{error}");
        let error = past_a_limit(|| stream.write_all(&vec![0; 64 << 20])).unwrap_err();
        assert!(Cancelled::find(&error).is_some(), "{error}");
    };
    each_run(|| {
        check();
        ecru::scope(|s| {
            let other = s.spawn(forever);
            assert!(past_a_limit(|| other.join()).is_err());
            other.cancel();
        });
    });
    thread::spawn(check).join().unwrap();
}

/// Counts how many calls of `operation` succeed before one fails.
fn count(mut operation: impl FnMut() -> bool) -> u32 {
    let mut done = 0;
    while operation() {
        done += 1;
        assert!(done < 100_000, "the limit is not seen");
    }
    done
}

/// - given: a limit that passes while the task computes, and operations that need not wait
/// - when: the task repeats one of them until it fails
/// - then: at most 128 succeed
#[test]
fn cancel_63_ready_operations_end_with_the_budget() {
    for trained in [false, true] {
        run_on(1, || {
            let check = |what: &str, mut operation: Box<dyn FnMut() -> bool>| {
                for _ in 0..if trained { 1000 } else { 0 } {
                    assert!(operation(), "{what}");
                }
                let done = past_a_limit(|| count(operation));
                assert!(done <= BUDGET, "{done} of {what}");
            };
            let (sender, receiver) = channel::unbounded();
            (0..200_000).for_each(|n| sender.try_send(n).unwrap());
            let from = receiver.clone();
            check("recv", Box::new(move || from.recv().is_ok()));
            let from = receiver.clone();
            check("wait", Box::new(move || from.wait().is_ok()));
            let from = receiver.clone();
            check("select", Box::new(move || ecru::select! { recv(from) -> item => item.is_ok() }));
            check("send", Box::new(move || sender.send(0).is_ok()));
            let permits = Semaphore::new(1);
            check("acquire", Box::new(move || permits.acquire().is_ok()));
            let open = Latch::new(0);
            check("latch", Box::new(move || open.wait().is_ok()));
            check("ready", Box::new(|| ecru::source::ready(1).wait().is_ok()));
            let (mut here, mut there) = pair();
            there.write_all(&[0; 2000]).unwrap();
            check("read", Box::new(move || here.read_exact(&mut [0]).is_ok()));
            let (mut here, _peer) = pair();
            check("write", Box::new(move || here.write_all(&[0]).is_ok()));
        });
    }
}

/// - given: a task that computes for longer than 500 µs between operations that need not wait
/// - when: a limit passes meanwhile
/// - then: at most nine of them succeed if nothing was known of the task, and one if it was known
#[test]
fn cancel_64_slow_ready_operations_end_early() {
    run_on(1, || {
        let (sender, receiver) = channel::unbounded();
        (0..1000).for_each(|n| sender.try_send(n).unwrap());
        let late = ecru::scope(|s| {
            s.spawn(|| {
                [(); 5].map(|()| {
                    past_a_limit(|| {
                        count(|| {
                            let end = Instant::now() + ms(1);
                            compute_until(end);
                            receiver.recv().is_ok()
                        })
                    })
                })
            })
            .join()
        });
        let late = late.unwrap();
        assert!(late[0] <= 9 && late[1..].iter().all(|count| *count <= 1), "{late:?}");
    });
}
