//! The guarantees of coroutines, generators and their stacks.

use std::cell::{Cell, OnceCell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use ecru::coroutine::{
    Coroutine, CoroutineState, CoroutineStatus, Generator, STACK_DEFAULT, STACK_FLOOR, Stack,
    StackPool, Yielder, generate, remaining_stack,
};

use CoroutineState::{Complete, Yielded};

/// Adds to a count when dropped.
struct Counted(Rc<Cell<u32>>);

impl Counted {
    fn of(count: &Rc<Cell<u32>>) -> Counted {
        Counted(Rc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => panic!("a payload without text"),
    }
}

/// - given: a coroutine
/// - when: it is resumed and suspends, three times
/// - then: both sides' steps interleave exactly, and `state()` follows
#[test]
fn coroutine_01_takes_turns() {
    let steps = Rc::new(RefCell::new(Vec::new()));
    let this: Rc<OnceCell<Coroutine<(), (), ()>>> = Rc::new(OnceCell::new());
    let step = |number: u32| {
        let status = this.get().map(Coroutine::state);
        steps.borrow_mut().push((number, status.unwrap()));
    };
    let (weak, noted) = (Rc::downgrade(&this), Rc::clone(&steps));
    let body = move |yielder: &Yielder<(), ()>, ()| {
        let inside = |number: u32| {
            let status = weak.upgrade().unwrap().get().map(Coroutine::state);
            noted.borrow_mut().push((number, status.unwrap()));
        };
        inside(2);
        yielder.suspend(());
        inside(4);
        yielder.suspend(());
        inside(6);
    };
    this.set(Coroutine::new(body)).unwrap();
    let coroutine = this.get().unwrap();
    step(1);
    assert_eq!(coroutine.resume(()), Yielded(()));
    step(3);
    assert_eq!(coroutine.resume(()), Yielded(()));
    step(5);
    assert_eq!(coroutine.resume(()), Complete(()));
    step(7);
    assert!(catch_unwind(AssertUnwindSafe(|| coroutine.resume(()))).is_err());
    step(8);
    use CoroutineStatus as Status;
    let expected = [
        (1, Status::Unstarted),
        (2, Status::Running),
        (3, Status::Suspended),
        (4, Status::Running),
        (5, Status::Suspended),
        (6, Status::Running),
        (7, Status::Complete),
        (8, Status::Complete),
    ];
    assert_eq!(*steps.borrow(), expected);
}

/// - given: a coroutine
/// - when: values are passed by `resume` and `suspend`
/// - then: each side gets the other's value, and the first one is the closure's argument
///
/// The sums are those of the iterator in zigcoro: 1, then +3 gives 4, then +2 gives 6, then the
/// end.
#[test]
fn coroutine_02_values_both_ways() {
    let adder = Coroutine::new(|yielder, start: u32| {
        let mut sum = start;
        while sum < 28 {
            sum += yielder.suspend(sum);
        }
        sum == 28
    });
    assert_eq!(adder.resume(1), Yielded(1));
    assert_eq!(adder.resume(3), Yielded(4));
    assert_eq!(adder.resume(2), Yielded(6));
    assert_eq!(adder.resume(22), Complete(true));
}

/// Values that are large, have destructors, or are zero-sized arrive once and intact.
#[test]
fn values_of_all_kinds_arrive_whole() {
    let large = Coroutine::new(|yielder: &Yielder<[u64; 100], String>, first| {
        let second = yielder.suspend(format!("{}", first[99]));
        second.iter().sum::<u64>()
    });
    assert_eq!(large.resume([3; 100]), Yielded("3".to_owned()));
    assert_eq!(large.resume([2; 100]), Complete(200));

    let dropped = Rc::new(Cell::new(0));
    let counted = Coroutine::new(|yielder: &Yielder<Counted, Counted>, first| {
        let second = yielder.suspend(first);
        drop(second);
    });
    let Yielded(back) = counted.resume(Counted::of(&dropped)) else { panic!("not yielded") };
    assert_eq!(dropped.get(), 0);
    assert!(matches!(counted.resume(back), Complete(())));
    assert_eq!(dropped.get(), 1);
}

/// - given: a coroutine that has completed
/// - when: it is resumed
/// - then: it panics, saying so
///
/// So does a coroutine that would resume itself.
#[test]
fn coroutine_04_resumed_after_its_end() {
    let done = Coroutine::new(|_: &Yielder<(), ()>, ()| ());
    done.resume(());
    let error = catch_unwind(AssertUnwindSafe(|| done.resume(()))).unwrap_err();
    assert!(panic_text(&*error).contains("complete"));

    let this: Rc<OnceCell<Coroutine<(), (), String>>> = Rc::new(OnceCell::new());
    let weak = Rc::downgrade(&this);
    let own = Coroutine::new(move |_: &Yielder<(), ()>, ()| {
        let this = weak.upgrade().unwrap();
        let this = this.get().unwrap();
        panic_text(&*catch_unwind(AssertUnwindSafe(|| this.resume(()))).unwrap_err())
    });
    this.set(own).unwrap();
    let Complete(text) = this.get().unwrap().resume(()) else { panic!("not complete") };
    assert!(text.contains("from inside"), "{text}");
}

/// - given: a coroutine
/// - when: it calls `suspend_with(v, f)`
/// - then: `f` runs after the switch, on the resumer's stack, before `resume` returns
#[test]
fn coroutine_06_suspend_with() {
    let ready = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::new(Cell::new(None));
    let this: Rc<OnceCell<Coroutine<u32, &str, u32>>> = Rc::new(OnceCell::new());
    let (weak, queue, noted) = (Rc::downgrade(&this), Rc::clone(&ready), Rc::clone(&seen));
    let body = move |yielder: &Yielder<u32, &'static str>, _| {
        let inside = remaining_stack();
        yielder.suspend_with("value", || {
            let this = weak.upgrade().unwrap();
            let elsewhere = remaining_stack().abs_diff(inside) > 64 * 1024;
            noted.set(Some((this.get().unwrap().state(), elsewhere)));
            let refused = catch_unwind(AssertUnwindSafe(|| this.get().unwrap().resume(1)));
            assert!(panic_text(&*refused.unwrap_err()).contains("suspend_with"));
            let refused = catch_unwind(AssertUnwindSafe(|| yielder.suspend("from outside")));
            assert!(panic_text(&*refused.unwrap_err()).contains("outside"));
            queue.borrow_mut().push(5);
        })
    };
    let stack = Stack::new(1 << 20).unwrap();
    this.set(Coroutine::with_stack(stack, body)).unwrap();
    let coroutine = this.get().unwrap();
    assert_eq!(coroutine.resume(0), Yielded("value"));
    assert_eq!(seen.get(), Some((CoroutineStatus::Suspended, true)));
    let value = ready.borrow_mut().pop().unwrap();
    assert_eq!(coroutine.resume(value), Complete(5));
}

/// If that function panics, the resumer gets the panic, and the coroutine is unchanged.
#[test]
fn a_panic_of_the_function_reaches_the_resumer() {
    let coroutine = Coroutine::new(|yielder: &Yielder<u8, ()>, _| {
        yielder.suspend_with((), || std::panic::resume_unwind(Box::new("oops")))
    });
    let error = catch_unwind(AssertUnwindSafe(|| coroutine.resume(0))).unwrap_err();
    assert_eq!(panic_text(&*error), "oops");
    assert_eq!(coroutine.state(), CoroutineStatus::Suspended);
    assert_eq!(coroutine.resume(9), Complete(9));
}

/// - given: a coroutine deep in calls
/// - when: it panics
/// - then: `resume` panics with the same payload, and the coroutine has completed
///
/// Its stack can be used again.
#[test]
fn coroutine_07_panic_passes() {
    let dropped = Rc::new(Cell::new(0));
    let counted = Counted::of(&dropped);
    let coroutine = Coroutine::new(move |yielder: &Yielder<(), ()>, ()| {
        let _counted = counted;
        yielder.suspend(());
        std::panic::resume_unwind(Box::new(42_u64));
    });
    coroutine.resume(());
    let error = catch_unwind(AssertUnwindSafe(|| coroutine.resume(()))).unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&42_u64));
    assert_eq!((coroutine.state(), dropped.get()), (CoroutineStatus::Complete, 1));
    let again = Coroutine::with_stack(coroutine.into_stack(), |_: &Yielder<(), ()>, ()| 7);
    assert_eq!(again.resume(()), Complete(7));
}

/// - given: a suspended coroutine with values on its stack
/// - when: it is dropped
/// - then: their destructors run, innermost first
///
/// The coroutine's captures are dropped, too.
#[test]
fn coroutine_09_dropped_suspended() {
    struct Note(Rc<RefCell<Vec<&'static str>>>, &'static str);
    impl Drop for Note {
        fn drop(&mut self) {
            self.0.borrow_mut().push(self.1);
        }
    }
    let notes = Rc::new(RefCell::new(Vec::new()));
    let note = {
        let notes = Rc::clone(&notes);
        move |text| Note(Rc::clone(&notes), text)
    };
    let (captured, unstarted) = (note("captured"), note("unstarted"));
    let coroutine = Coroutine::new(move |yielder: &Yielder<(), ()>, ()| {
        let _captured = captured;
        let _outer = note("outer");
        let inner = || {
            let _inner = note("inner");
            yielder.suspend(());
            drop(note("not reached"));
        };
        inner();
    });
    coroutine.resume(());
    assert!(notes.borrow().is_empty());
    drop(coroutine);
    assert_eq!(*notes.borrow(), ["inner", "outer", "captured"]);

    drop(Coroutine::new(move |_: &Yielder<(), ()>, ()| drop(unstarted)));
    assert_eq!(notes.borrow().last(), Some(&"unstarted"));
    assert_eq!(ecru::coroutine::leaked_stacks(), 0);
}

/// A body that catches the unwinding may end, but may not suspend again. The code that drops it
/// gets a panic.
#[test]
fn a_dropped_coroutine_does_not_suspend_again() {
    let caught = Rc::new(Cell::new(false));
    let noted = Rc::clone(&caught);
    let coroutine = Coroutine::new(move |yielder: &Yielder<(), ()>, ()| {
        noted.set(catch_unwind(AssertUnwindSafe(|| yielder.suspend(()))).is_err());
    });
    coroutine.resume(());
    drop(coroutine);
    assert!(caught.get());

    let stubborn = Coroutine::new(|yielder: &Yielder<(), ()>, ()| {
        let _ = catch_unwind(AssertUnwindSafe(|| yielder.suspend(())));
        yielder.suspend(());
    });
    stubborn.resume(());
    let error = catch_unwind(AssertUnwindSafe(|| drop(stubborn))).unwrap_err();
    assert!(panic_text(&*error).contains("being dropped"));
}

/// A destructor that tries to suspend during that unwinding gets a panic, which it may catch. The
/// other frames are unwound as usual.
#[test]
fn a_destructor_cannot_suspend_while_unwinding() {
    struct Suspends<'y>(&'y Yielder<(), ()>, Rc<RefCell<String>>);
    impl Drop for Suspends<'_> {
        fn drop(&mut self) {
            let error = catch_unwind(AssertUnwindSafe(|| self.0.suspend(()))).unwrap_err();
            self.1.replace(panic_text(&*error));
        }
    }
    let (text, dropped) = (Rc::new(RefCell::new(String::new())), Rc::new(Cell::new(0)));
    let (said, counted) = (Rc::clone(&text), Counted::of(&dropped));
    let coroutine = Coroutine::new(move |yielder: &Yielder<(), ()>, ()| {
        let _counted = counted;
        let _suspends = Suspends(yielder, said);
        yielder.suspend(());
    });
    coroutine.resume(());
    drop(coroutine);
    assert!(text.borrow().contains("being dropped"));
    assert_eq!(dropped.get(), 1);
}

/// A panic of a destructor during that unwinding reaches the code that drops the coroutine, and the
/// stack is reused.
#[test]
fn a_panic_while_unwinding_after_a_catch_reaches_the_dropper() {
    let coroutine = Coroutine::new(|yielder: &Yielder<(), ()>, ()| {
        let _ = catch_unwind(AssertUnwindSafe(|| yielder.suspend(())));
        std::panic::resume_unwind(Box::new("from the body"));
    });
    coroutine.resume(());
    let error = catch_unwind(AssertUnwindSafe(|| drop(coroutine))).unwrap_err();
    assert_eq!(panic_text(&*error), "from the body");
}

/// - given: a coroutine that resumes another
/// - when: the inner one suspends
/// - then: control returns to the coroutine that resumed it
#[test]
fn coroutine_05_nested() {
    fn depth(levels: u32) -> u32 {
        let inner = Coroutine::new(move |yielder: &Yielder<(), u32>, ()| {
            let below = if levels == 0 { 0 } else { depth(levels - 1) };
            yielder.suspend(below);
            below + 1
        });
        let Yielded(first) = inner.resume(()) else { panic!("not yielded") };
        let Complete(last) = inner.resume(()) else { panic!("not complete") };
        assert_eq!(first + 1, last);
        last
    }
    assert_eq!(depth(50), 51);
}

/// The outer coroutine may suspend between two resumptions of the inner one, and not during one.
/// Its yielder is refused there.
#[test]
fn the_outer_suspends_between_turns_of_the_inner() {
    let outer = Coroutine::new(|out: &Yielder<u32, String>, first: u32| {
        let last = Cell::new(first);
        generate(
            |give: &Yielder<(), u32>| {
                for _ in 0..3 {
                    let refused = catch_unwind(AssertUnwindSafe(|| out.suspend(String::new())));
                    assert!(panic_text(&*refused.unwrap_err()).contains("outside"));
                    give.suspend(last.get() * 10);
                }
            },
            |items| {
                items
                    .inspect(|item| last.set(out.suspend(format!("need one after {item}"))))
                    .collect::<Vec<_>>()
            },
        )
    });
    assert_eq!(outer.resume(1), Yielded("need one after 10".into()));
    assert_eq!(outer.resume(2), Yielded("need one after 20".into()));
    assert_eq!(outer.resume(3), Yielded("need one after 30".into()));
    assert_eq!(outer.resume(4), Complete(vec![10, 20, 30]));
}

/// Dropping an outer coroutine unwinds the suspended ones on its stack.
#[test]
fn dropping_the_outer_unwinds_the_inner() {
    let dropped = Rc::new(Cell::new(0));
    let count = Rc::clone(&dropped);
    let outer = Coroutine::new(move |out: &Yielder<(), ()>, ()| {
        let _outer = Counted::of(&count);
        let inner = Counted::of(&count);
        let mut owned = Generator::new(move |give: &Yielder<(), ()>| {
            let _inner = inner;
            give.suspend(());
        });
        owned.next();
        generate(
            |give: &Yielder<(), ()>| {
                let _borrowing = Counted::of(&count);
                give.suspend(());
            },
            |mut items| {
                items.next();
                out.suspend(());
            },
        );
    });
    outer.resume(());
    assert_eq!(dropped.get(), 0);
    drop(outer);
    assert_eq!(dropped.get(), 3);
}

/// - given: a generator
/// - when: it is iterated
/// - then: it yields its values in order, then `None`, and `None` again
#[test]
fn coroutine_11_generator() {
    let mut three = Generator::new(|yielder| (1..=3).for_each(|n| yielder.suspend(n)));
    assert_eq!(three.by_ref().collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!((three.next(), three.next()), (None, None));
}

/// - given: a half-read generator
/// - when: it is dropped
/// - then: the destructors on its stack run
#[test]
fn coroutine_12_generator_half_read() {
    let dropped = Rc::new(Cell::new(0));
    let counted = Counted::of(&dropped);
    let mut endless = Generator::new(move |yielder| {
        let _counted = counted;
        for n in 0_u64.. {
            yielder.suspend(n);
        }
    });
    assert_eq!(endless.by_ref().take(1000).sum::<u64>(), 999 * 500);
    assert_eq!(dropped.get(), 0);
    drop(endless);
    assert_eq!(dropped.get(), 1);
}

/// If a generator's function panics, `next` panics, and the generator is then at its end.
#[test]
fn a_panicking_generator_ends() {
    let mut generator = Generator::new(|yielder: &Yielder<(), u8>| {
        yielder.suspend(1);
        std::panic::resume_unwind(Box::new("no more"));
    });
    assert_eq!(generator.next(), Some(1));
    assert!(catch_unwind(AssertUnwindSafe(|| generator.next())).is_err());
    assert_eq!(generator.next(), None);
}

/// The frames of a forgotten coroutine stay as they are, and nothing runs.
#[test]
fn a_forgotten_coroutine_is_never_run() {
    let dropped = Rc::new(Cell::new(0));
    let counted = Counted::of(&dropped);
    let coroutine = Coroutine::new(move |yielder: &Yielder<(), ()>, ()| {
        let _counted = counted;
        yielder.suspend(());
    });
    coroutine.resume(());
    #[expect(clippy::mem_forget, reason = "this test is about it")]
    std::mem::forget(coroutine);
    assert_eq!(dropped.get(), 0);
}

/// - given: a stack of 1 MiB
/// - when: a coroutine is made with it
/// - then: `remaining_stack` reports its size, and decreases with the depth of calls
///
/// The remaining stack is reported inside and outside a coroutine, and is sufficient on the
/// smallest stack.
#[test]
fn coroutine_14_own_stack() {
    #[inline(never)]
    fn deeper(levels: u32) -> usize {
        let room = [levels; 128];
        let below = if levels == 0 { remaining_stack() } else { deeper(levels - 1) };
        std::hint::black_box(room);
        below
    }
    assert!(remaining_stack() > 2048);
    assert!(deeper(10) + 10 * 512 <= remaining_stack());
    let own = std::thread::Builder::new().stack_size(300 * 1024).spawn(remaining_stack).unwrap();
    let own = own.join().unwrap();
    // The C library may reuse the stack of an ended thread, which may be up to four times as large.
    assert!((100 * 1024..=4 * 320 * 1024).contains(&own), "{own}");
    if cfg!(ecru_baton) {
        return;
    }
    let small = Stack::new(STACK_FLOOR).unwrap();
    let coroutine =
        Coroutine::with_stack(small, |_: &Yielder<(), ()>, ()| (remaining_stack(), deeper(8)));
    let Complete((left, deep)) = coroutine.resume(()) else { panic!("not complete") };
    assert!(left > 2048 && left < STACK_FLOOR, "{left}");
    assert!(deep + 8 * 512 <= left, "{deep} of {left}");
}

/// Ten thousand coroutines are live at once, and each keeps its state.
#[test]
fn ten_thousand_live_at_once() {
    let count = if cfg!(ecru_baton) { 100 } else { 10_000 };
    let pool = StackPool::new(STACK_FLOOR).unwrap();
    let coroutines: Vec<_> = (0..count)
        .map(|start: u64| {
            Coroutine::with_stack(
                pool.take().unwrap(),
                move |yielder: &Yielder<u64, u64>, mut add| {
                    let mut sum = start;
                    while add != 0 {
                        sum += add;
                        add = yielder.suspend(sum);
                    }
                    sum
                },
            )
        })
        .collect();
    for round in 1..=3 {
        for (start, coroutine) in (0..).zip(&coroutines) {
            let expected: u64 = start + (1..=round).sum::<u64>();
            assert_eq!(coroutine.resume(round), Yielded(expected));
        }
    }
    for (start, coroutine) in (0..).zip(&coroutines) {
        assert_eq!(coroutine.resume(0), Complete(start + 6));
    }
    drop(coroutines);
    assert_eq!(pool.statistics().live, 0);
}

/// - given: a pool
/// - when: a coroutine ends and another begins
/// - then: the second has the stack of the first
#[test]
fn coroutine_17_stacks_are_reused() {
    let pool = StackPool::new(STACK_FLOOR).unwrap();
    let (first, second) = (pool.take().unwrap(), pool.take().unwrap());
    let address = |stack: &Stack| format!("{stack:?}");
    let (one, two) = (address(&first), address(&second));
    drop(second);
    drop(first);
    let again = (pool.take().unwrap(), pool.take().unwrap());
    assert_eq!((address(&again.0), address(&again.1)), (one, two));
    assert_eq!((pool.statistics().live, pool.statistics().idle), (2, 0));
}

/// - given: a stack size of 0, or one below the minimum
/// - when: a stack is made
/// - then: an `io::Error` names the minimum
///
/// Other sizes are rounded up to pages.
#[test]
fn coroutine_15_stack_too_small() {
    for size in [0, 1, STACK_FLOOR - 1] {
        let text = Stack::new(size).unwrap_err().to_string();
        assert!(text.contains(&size.to_string()) && text.contains("16384"), "{text}");
        assert_eq!(text, StackPool::new(size).unwrap_err().to_string());
    }
    for size in [usize::MAX, usize::MAX / 2, 1 << 41] {
        let text = Stack::new(size).unwrap_err().to_string();
        assert!(text.contains("at most"), "{text}");
    }
    assert_eq!(Stack::new(STACK_FLOOR + 1).unwrap().size() % 4096, 0);
    assert!(Stack::new(STACK_FLOOR + 1).unwrap().size() > STACK_FLOOR);
    assert_eq!(Stack::new(STACK_DEFAULT).unwrap().size(), STACK_DEFAULT);
}

/// - given: a stack size beyond the address space
/// - when: a stack is made
/// - then: an `io::Error` says so
#[test]
fn coroutine_16_stack_cannot_be_mapped() {
    let mut stacks = Vec::new();
    let error = loop {
        match Stack::new(1 << 40) {
            Ok(stack) => stacks.push(stack),
            Err(error) => break error,
        }
        assert!(stacks.len() < 1 << 16);
    };
    assert_eq!(error.kind(), std::io::ErrorKind::OutOfMemory);
    assert!(error.to_string().contains("cannot be mapped"), "{error}");
}

/// A stack moves to another thread before it is used, and a pool serves many threads.
#[test]
fn stacks_and_pools_cross_threads() {
    let pool = StackPool::new(STACK_FLOOR).unwrap();
    std::thread::scope(|scope| {
        for number in 0..4_u32 {
            let pool = pool.clone();
            scope.spawn(move || {
                for _ in 0..200 {
                    let stack = pool.take().unwrap();
                    let coroutine =
                        Coroutine::with_stack(stack, |_: &Yielder<u32, ()>, value| value + 1);
                    assert_eq!(coroutine.resume(number), Complete(number + 1));
                }
            });
        }
    });
    assert_eq!(pool.statistics().live, 0);
    let stack = pool.take().unwrap();
    std::thread::spawn(move || drop(stack)).join().unwrap();
    assert_eq!(pool.statistics().live, 0);
}
