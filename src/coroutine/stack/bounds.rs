//! The bounds of the thread's own stack, and the number of bytes left on the running stack.

use std::cell::Cell;

use super::registry;

thread_local! {
    /// The lowest usable address of this thread's own stack, and its end. 0 before they are first
    /// needed, `usize::MAX` if they are unknown.
    static OWN: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Returns the number of bytes left on the stack that the caller runs on: a coroutine's, a task's
/// or a plain thread's.
///
/// The result is a lower estimate, because the frames of this call itself are not counted as free.
/// It is 0 on a thread whose limits the system does not tell.
///
/// # Examples
/// ```
/// use ecru::coroutine::{Coroutine, CoroutineState, Stack, remaining_stack};
///
/// assert!(remaining_stack() > 16 * 1024);
/// let stack = Stack::new(16 * 1024)?;
/// let coroutine = Coroutine::with_stack(stack, |_, ()| remaining_stack());
/// let CoroutineState::<(), usize>::Complete(left) = coroutine.resume(()) else { unreachable!() };
/// assert!(left < 16 * 1024);
/// # Ok::<(), std::io::Error>(())
/// ```
#[inline(never)]
#[must_use]
pub fn remaining_stack() -> usize {
    let here = 0_u8;
    let address = std::hint::black_box(&raw const here).addr();
    let limit = match registry::find(address) {
        Some(place) if cfg!(not(any(ecru_baton, miri, loom))) => place.limit,
        _ => own_stack().0,
    };
    address.saturating_sub(limit)
}

/// Returns the lowest usable address of this thread's own stack, and its end. Both are `usize::MAX`
/// if the system does not tell.
pub(crate) fn own_stack() -> (usize, usize) {
    match OWN.get() {
        (0, _) => {
            let own = from_system().unwrap_or((usize::MAX, usize::MAX));
            OWN.set(own);
            own
        }
        own => own,
    }
}

/// Returns the part of this thread's own stack in which frames lie. The C library may keep the
/// thread's static thread-locals at the end of its stack, and they are not part of any frame.
#[cfg(not(any(ecru_baton, miri, loom)))]
pub(crate) fn own_frames() -> (usize, usize) {
    unsafe extern "C" fn note(
        module: *mut libc::dl_phdr_info,
        _: libc::size_t,
        frames: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: the loader describes a module, as long as this call lasts.
        let locals = unsafe { (*module).dlpi_tls_data }.addr();
        // SAFETY: it is the pair below, which nothing else uses during the walk.
        let (low, high) = unsafe { &mut *frames.cast::<(usize, usize)>() };
        if (*low..*high).contains(&locals) {
            *high = locals;
        }
        0
    }
    let mut frames = own_stack();
    // SAFETY: the function has the type that is called, and gets the pair.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut frames).cast()) };
    frames
}

#[cfg(not(miri))]
fn from_system() -> Option<(usize, usize)> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: returns the calling thread's own id.
    let own = unsafe { libc::pthread_self() };
    // SAFETY: the calling thread exists, and the attributes may be written to.
    if unsafe { libc::pthread_getattr_np(own, attributes.as_mut_ptr()) } != 0 {
        return None;
    }
    let (mut start, mut size, mut guard) = (std::ptr::null_mut(), 0, 0);
    // SAFETY: the attributes were initialized above.
    let told =
        unsafe { libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut start, &raw mut size) };
    // SAFETY: the attributes were initialized above.
    unsafe { libc::pthread_attr_getguardsize(attributes.as_ptr(), &raw mut guard) };
    // SAFETY: the attributes were initialized above, and this is their last use.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    // glibc counts the guard as part of the stack. Where that is not so, the result is a lower
    // estimate.
    (told == 0).then(|| (start.addr() + guard, start.addr() + size))
}

#[cfg(miri)]
fn from_system() -> Option<(usize, usize)> {
    None
}
