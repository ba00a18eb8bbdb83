//! What a call is for its surroundings: its place in a dump, an operation of its task, and a panic
//! that does not abort.

use crate::support::{alone, now, payload_of, quiet_panic, run_on};
use ecru::{RuntimeHandle, par};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Returns the lines of this file at which the other tasks of the run are said to be spawned.
fn lines() -> Vec<u32> {
    let dump = RuntimeHandle::current().dump();
    let line = |task: &ecru::diag::TaskInfo| {
        let at = task.spawned_at();
        assert!(at.file().ends_with("calls.rs"), "{at}");
        at.line()
    };
    dump.tasks().filter(|task| !task.is_root()).map(line).collect()
}

/// - given: each function of `par`, `par_for!`, and `map` and `map_buffered` of both scopes
/// - when: an item makes a dump
/// - then: the tasks of the items are spawned at the place of the call
#[test]
fn par_35_spawned_at_the_call() {
    run_on(1, || {
        let now = now();
        let (here, seen) = (line!(), par::map([1, 2], |_| lines()));
        assert_eq!(seen.concat()[..2], [here; 2]);
        let (here, seen) = (line!(), par::map_buffered(2, [1, 2], |_| lines()));
        assert_eq!(seen.concat()[..2], [here; 2]);
        let later = now + crate::support::HOUR;
        let (here, seen) = (line!(), par::map_until(later, [1], |_| lines()));
        assert_eq!(seen, [Some(vec![here])]);
        let here = line!() + 1;
        par::for_each(2, [1], |_| assert_eq!(lines(), [here]));
        let (here, seen) = (line!(), ecru::par_for!(_n in [1] => lines()));
        assert_eq!(seen, [[here]]);
        ecru::scope(|s| {
            let (here, mut seen) = (line!(), s.map([1], |_| lines()));
            assert_eq!(seen.next().unwrap().unwrap(), [here]);
            let (here, mut seen) = (line!(), s.map_buffered(2, [1], |_| lines()));
            assert_eq!(seen.next().unwrap().unwrap(), [here]);
        });
        let tried = ecru::try_scope(|s| {
            let (here, mut seen) = (line!(), s.map([1], |_| Ok::<_, ()>(lines())));
            assert_eq!(seen.next().unwrap().unwrap(), [here]);
            let (here, mut seen) = (line!(), s.map_buffered(2, [1], |_| Ok(lines())));
            assert_eq!(seen.next().unwrap().unwrap(), [here]);
            Ok(())
        });
        assert_eq!(tried, Ok(()));
    });
}

/// - given: one worker, and a task that repeats calls of `par` without items, or whose deadline has
///   passed
/// - when: it waits in this way for another task
/// - then: the other task runs, because each call counts as an operation
#[test]
fn par_36_calls_without_items_let_others_run() {
    let past = now();
    let calls: [&(dyn Fn() + Sync); 4] = [
        &|| drop(par::map([0; 0], |n| n)),
        &|| drop(par::map_buffered(1, [0; 0], |n| n)),
        &|| drop(par::map_until(past, [1, 2], |n| n)),
        &|| par::for_each(1, [0; 0], |_| ()),
    ];
    for call in calls {
        run_on(1, || {
            let has_run = AtomicBool::new(false);
            ecru::scope(|s| {
                s.spawn(|| has_run.store(true, SeqCst));
                while !has_run.load(SeqCst) {
                    call();
                }
            });
        });
    }
}

/// - given: items that panic with payloads, or return values, whose destructors panic
/// - when: a function of `par` ends
/// - then: the panic of the first item goes on, and nothing aborts
#[test]
#[expect(clippy::mem_forget, reason = "the payload's destructor panics")]
fn par_37_payloads_that_panic_do_not_abort() {
    struct Bomb(u32);
    impl Drop for Bomb {
        fn drop(&mut self) {
            quiet_panic("the bomb's");
        }
    }
    fn explode(n: u32) {
        resume_unwind(Box::new(Bomb(n)));
    }
    fn value(n: u32) -> Bomb {
        if n == 2 { resume_unwind(Box::new(n)) } else { Bomb(n) }
    }
    alone("par::calls::par_37_payloads_that_panic_do_not_abort", || {
        run_on(1, || {
            let later = now() + crate::support::HOUR;
            let calls: [&dyn Fn(); 4] = [
                &|| drop(par::map(0..4, explode)),
                &|| drop(par::map_buffered(2, 0..4, explode)),
                &|| drop(par::map_until(later, 0..4, explode)),
                &|| par::for_each(2, 0..4, explode),
            ];
            for call in calls {
                let payload = payload_of(call);
                assert_eq!(payload.downcast_ref::<Bomb>().map(|bomb| bomb.0), Some(0));
                std::mem::forget(payload);
            }
            let payload = payload_of(|| par::map(0..4, value));
            assert_eq!(payload.downcast_ref(), Some(&2_u32));
        });
    });
}
