//! Whether the running code is inside the panic hook.
//!
//! While the hook runs, `std` aborts the process if the thread panics again. `std` keeps that flag
//! per thread. So a stack must not be switched away from inside the hook: the next panic of another
//! stack on the thread would abort the process. `std` does not tell whether the hook runs, and the
//! program may install its hook at any time. So the frames are examined. The function of `std`
//! that calls the hook has a frame on the stack exactly while the hook runs.
//!
//! That function is private. [`learn`] panics twice, in the two ways in which code panics, and
//! notes what lies between the panicking function and the hook. These functions of `std` do not
//! return, so their frames are on no stack when the hook has returned. If nothing has been learned,
//! a panicking thread is inside the hook if nothing is being unwound.
//!
//! A walk takes some microseconds. It is made only if the thread panics and a stack is about to
//! wait.

use std::panic;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::panics;
use super::switch::cleanup::is_unwound;
use super::unwinder::{Frame, walk};
use crate::base::local;

/// The functions between a panic and its hook, as far as known. Then zeros.
static FUNCTIONS: [AtomicUsize; 32] = [const { AtomicUsize::new(0) }; 32];

/// The address of a variable in the function that panics for [`learn`], or 0.
static LESSON: AtomicUsize = AtomicUsize::new(0);

/// The thread of that function.
static LEARNER: AtomicUsize = AtomicUsize::new(0);

/// How far the frame of the function that has entered a run reaches.
const RUN_FRAME: usize = 4096;

fn is_known(function: usize) -> bool {
    FUNCTIONS
        .iter()
        .map(|known| known.load(Ordering::Relaxed))
        .take_while(|known| *known != 0)
        .any(|known| known == function)
}

fn this_thread() -> usize {
    local::with(|local| ptr::from_ref(local).addr())
}

/// Panics, so that the functions between a panic and its hook become known. The installed hook must
/// call [`is_lesson`] first.
pub(crate) fn learn() {
    LEARNER.store(this_thread(), Ordering::Relaxed);
    drop(panic::catch_unwind(panics_with_text));
    drop(panic::catch_unwind(panics_with_value));
    LEARNER.store(0, Ordering::Relaxed);
}

#[inline(never)]
fn panics_with_text() {
    let here = 0_u8;
    LESSON.store(ptr::from_ref(&here).addr(), Ordering::Relaxed);
    panic!("this panic was caught");
}

#[inline(never)]
fn panics_with_value() {
    let here = 0_u8;
    LESSON.store(ptr::from_ref(&here).addr(), Ordering::Relaxed);
    panic::panic_any(0_u8);
}

/// Returns whether the hook was called only for [`learn`]. If so, nothing has happened.
#[inline(never)]
pub(crate) fn is_lesson() -> bool {
    if LEARNER.load(Ordering::Relaxed) != this_thread() {
        return false;
    }
    let end = LESSON.load(Ordering::Relaxed);
    let here = 0_u8;
    let begin = ptr::from_ref(&here).addr();
    walk(|frame| {
        let (function, at) = (frame.start(), frame.address());
        let goes_on = at < end;
        if goes_on && at > begin && function != 0 && !is_known(function) {
            let free = FUNCTIONS.iter().find(|known| known.load(Ordering::Relaxed) == 0);
            free.inspect(|free| free.store(function, Ordering::Relaxed));
        }
        goes_on
    });
    true
}

/// Notes that `frame`, a variable of the caller, lies in the frame in which a run begins. A hook
/// that is further out belongs to the thread that has called `run`. Returns what was noted before.
pub(crate) fn enter_run(frame: *const ()) -> *const () {
    local::with(|local| local.run_frame.replace(frame))
}

/// Returns whether the running code is inside the panic hook. Called if the thread panics.
#[cold]
pub(crate) fn is_running() -> bool {
    let run = local::with(|local| local.run_frame.get()).addr();
    let is_inside =
        |frame: &Frame| run == 0 || !(1..RUN_FRAME).contains(&frame.address().wrapping_sub(run));
    is_among(&is_inside, true)
}

/// Returns whether the hook runs on the stack of `size` bytes below `top`, which is the running
/// one. Called if the thread panics.
#[cold]
pub(super) fn is_running_on(top: usize, size: usize) -> bool {
    is_among(&|frame| top.wrapping_sub(frame.address()) <= size, false)
}

/// Returns whether the hook runs in the frames up to the first one that is not `inside`. If nothing
/// has been learned, the answer is `guess`, unless something is being unwound.
fn is_among(inside: &dyn Fn(&Frame) -> bool, guess: bool) -> bool {
    let has_learned = FUNCTIONS[0].load(Ordering::Relaxed) != 0;
    let mut runs = !has_learned && guess && !panics::is_unwinding_known();
    walk(|frame| {
        if !inside(frame) {
            return false;
        }
        if has_learned {
            runs = is_known(frame.start());
            return !runs;
        }
        runs = runs && !is_unwound(frame);
        runs
    });
    runs
}
