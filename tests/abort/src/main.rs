//! Checks what works and what is leaked if panics abort: `cargo run --profile abort -p ecru-abort`.
//!
//! Each check is a function. The last line has the number of checks, as the test runner prints it.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use ecru::coroutine::{Coroutine, CoroutineState, Generator, Yielder, leaked_stacks};

const HOUR: Duration = Duration::from_secs(3600);

fn main() {
    if cfg!(panic = "unwind") {
        panic!("build it with `--profile abort`");
    }
    let checks: [fn(); 5] = [
        suspended_coroutines_are_leaked_and_counted,
        finished_coroutines_give_their_stacks_back,
        scopes_wait_for_tasks_that_borrow,
        cancellation_is_an_error_value,
        a_failure_stops_its_siblings,
    ];
    for check in checks {
        check();
    }
    println!("test result: ok. {} passed; 0 failed; 0 ignored", checks.len());
}

fn suspended_coroutines_are_leaked_and_counted() {
    struct Flag(Rc<Cell<bool>>);
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let dropped = Rc::new(Cell::new(false));
    let flag = Flag(Rc::clone(&dropped));
    let before = leaked_stacks();
    {
        let coroutine = Coroutine::new(move |yielder: &Yielder<(), u8>, ()| {
            let _flag = flag;
            yielder.suspend(1);
        });
        assert_eq!(coroutine.resume(()), CoroutineState::Yielded(1));
    }
    let mut numbers = Generator::new(|yielder| (0..3).for_each(|n| yielder.suspend(n)));
    assert_eq!(numbers.next(), Some(0));
    drop(numbers);
    assert_eq!(leaked_stacks() - before, 2);
    assert!(!dropped.get(), "without unwinding a destructor on a leaked stack does not run");
}

fn finished_coroutines_give_their_stacks_back() {
    let before = leaked_stacks();
    for n in 0..100_u32 {
        let coroutine =
            Coroutine::new(|yielder: &Yielder<u32, u32>, first: u32| yielder.suspend(first) + 1);
        assert_eq!(coroutine.resume(n), CoroutineState::Yielded(n));
        assert_eq!(coroutine.resume(n), CoroutineState::Complete(n + 1));
    }
    assert_eq!(leaked_stacks(), before);
}

fn scopes_wait_for_tasks_that_borrow() {
    let mut squares = [0; 100];
    ecru::run(|| {
        ecru::scope(|s| {
            for (n, square) in squares.iter_mut().enumerate() {
                s.spawn(move || {
                    ecru::yield_now().expect("it is never cancelled");
                    *square = n * n;
                });
            }
        });
    });
    assert!(squares.iter().enumerate().all(|(n, square)| *square == n * n));
}

fn cancellation_is_an_error_value() {
    ecru::run(|| {
        let slow = ecru::timeout(Duration::from_millis(1), || ecru::sleep(HOUR));
        assert!(slow.is_err());
        let cancelled = ecru::cancel_scope(|c| {
            c.cancel();
            ecru::shield(|| ecru::sleep(Duration::from_millis(1))).expect("shielded");
            ecru::sleep(HOUR)
        });
        assert!(cancelled.is_err());
    });
}

fn a_failure_stops_its_siblings() {
    let result: Result<(), String> = ecru::run(|| {
        ecru::try_scope(|s| {
            s.spawn(|| ecru::sleep(HOUR).map_err(|cancelled| cancelled.to_string()));
            s.spawn(|| Err::<(), _>(String::from("the cause")));
            Ok(())
        })
    });
    assert_eq!(result.unwrap_err(), "the cause");
}
