//! The signal handler, and the state that it reads.
#![expect(unsafe_code, reason = "a signal handler")]

use std::io;
use std::mem;
use std::ptr;
// These are not from `base::sync`, because a signal handler uses them.
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use libc::{c_int, c_void, sigaction, siginfo_t};

use crate::base::handler;

/// The number from which on signals are real-time signals, which have no listeners.
const SIGNALS: usize = 32;

/// The handler's state for one signal.
struct SignalSlot {
    /// The action that was installed before, or null if our handler has not been installed.
    previous: AtomicPtr<sigaction>,
    armed: AtomicBool,
    /// The number of listeners that want every delivery. While it is not 0, the signal counts as
    /// armed whatever `armed` says.
    keepers: AtomicU32,
    /// The thread that is calling the previous function, or 0.
    calling: AtomicI32,
}

static SLOTS: [SignalSlot; SIGNALS] = [const {
    SignalSlot {
        previous: AtomicPtr::new(ptr::null_mut()),
        armed: AtomicBool::new(false),
        keepers: AtomicU32::new(0),
        calling: AtomicI32::new(0),
    }
}; SIGNALS];

/// The signals that have arrived since they were last taken, one bit for each.
static PENDING: AtomicU64 = AtomicU64::new(0);
/// The eventfd to which the handler writes, or -1 if no thread reads it.
static EVENTS: AtomicI32 = AtomicI32::new(-1);

/// Makes the handler write to this eventfd, which stays open.
pub(super) fn write_to(fd: c_int) {
    EVENTS.store(fd, Ordering::Release);
}

/// Returns and clears the signals that have arrived, one bit for each.
pub(super) fn take_pending() -> u64 {
    PENDING.swap(0, Ordering::AcqRel)
}

fn slot(signal: c_int) -> Option<&'static SignalSlot> {
    usize::try_from(signal).ok().and_then(|signal| SLOTS.get(signal))
}

/// Arms the signal, so that our handler takes the next delivery. Only one thread at a time installs
/// and restores actions.
///
/// # Errors
/// Returns the errors of sigaction(2).
pub(super) fn arm(signal: c_int) -> io::Result<()> {
    let Some(slot) = slot(signal) else { return Err(io::ErrorKind::InvalidInput.into()) };
    let present = present_action(signal)?;
    if !is_ours(&present) {
        // The action is leaked, because a handler on another thread may still be reading the one
        // before.
        let known = slot.previous.load(Ordering::Acquire);
        // SAFETY: Z2: the action is never freed, and does not change once it has been stored.
        if !unsafe { known.as_ref() }.is_some_and(|known| is_same(known, &present)) {
            slot.previous.store(Box::leak(Box::new(present)), Ordering::Release);
        }
        slot.armed.store(true, Ordering::Release);
        // SAFETY: all zero is a valid action: no flags, an empty mask, no function.
        let mut action: sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = handle as extern "C" fn(_, _, _) as usize;
        // `SA_ONSTACK` because tasks' stacks are small. `SA_RESTART` so that calls which the kernel
        // can restart are not interrupted.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        // SAFETY: Z2: the handler is async-signal-safe, and what it reads is in place.
        if unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    slot.armed.store(true, Ordering::Release);
    Ok(())
}

/// Counts the caller as a listener that wants every delivery, or no longer does so.
pub(super) fn keep(signal: c_int, keep: bool) {
    let Some(slot) = slot(signal) else { return };
    if keep {
        slot.keepers.fetch_add(1, Ordering::AcqRel);
    } else {
        slot.keepers.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Restores the action that was installed before, unless another one has been installed over ours
/// since.
pub(super) fn restore(signal: c_int) {
    let Some(slot) = slot(signal) else { return };
    if present_action(signal).is_ok_and(|present| is_ours(&present)) {
        put_back(signal, slot);
    }
    slot.armed.store(false, Ordering::Release);
}

fn put_back(signal: c_int, slot: &SignalSlot) {
    let previous = slot.previous.load(Ordering::Acquire);
    // SAFETY: Z2: the action is never freed. Setting an action is async-signal-safe.
    unsafe { libc::sigaction(signal, previous, ptr::null_mut()) };
}

fn present_action(signal: c_int) -> io::Result<sigaction> {
    // SAFETY: all zero is a valid action.
    let mut present: sigaction = unsafe { mem::zeroed() };
    // SAFETY: this call only reads the current action.
    match unsafe { libc::sigaction(signal, ptr::null(), &raw mut present) } {
        0 => Ok(present),
        _ => Err(io::Error::last_os_error()),
    }
}

fn is_ours(action: &sigaction) -> bool {
    action.sa_sigaction == handle as extern "C" fn(_, _, _) as usize
}

/// Returns whether two actions are the same. The masks are not compared, so actions with a handler
/// function count as different. Then another copy is kept, which does no harm.
fn is_same(one: &sigaction, other: &sigaction) -> bool {
    one.sa_sigaction == other.sa_sigaction
        && one.sa_flags == other.sa_flags
        && matches!(one.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)
}

extern "C" fn handle(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(slot) = slot(signal) else { return };
    // SAFETY: errno belongs to the calling thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: errno belongs to the calling thread.
    let before = unsafe { *errno };
    // SAFETY: gettid only reads, and is async-signal-safe.
    let thread = unsafe { libc::gettid() };
    if slot.calling.load(Ordering::Relaxed) == thread {
        // The previous function passes on the signal for which it was called. It was installed over
        // this handler, which was then installed again.
        return;
    }
    if slot.armed.swap(false, Ordering::AcqRel) || slot.keepers.load(Ordering::Acquire) != 0 {
        // Release: the thread that takes the bit sees it before it is woken through the eventfd.
        PENDING.fetch_or(1 << signal, Ordering::AcqRel);
        let one = 1_u64.to_ne_bytes();
        // SAFETY: these are eight readable bytes. If the eventfd's counter is full, the reader has
        // been woken already.
        unsafe { libc::write(EVENTS.load(Ordering::Acquire), one.as_ptr().cast(), one.len()) };
        call_previous(slot, thread, signal, info, context);
    } else if !present_action(signal).is_ok_and(|present| is_ours(&present)) {
        // A handler that was installed over ours passes the signal on and decides itself what it
        // does.
        call_previous(slot, thread, signal, info, context);
    } else {
        put_back(signal, slot);
        // The signal is blocked here, so it arrives after the return.
        // SAFETY: raising a signal is async-signal-safe.
        unsafe { libc::raise(signal) };
    }
    // SAFETY: errno belongs to the calling thread.
    unsafe { *errno = before };
}

/// Calls the function that was installed before, if it is one. The kernel's default action is left
/// to the next delivery.
fn call_previous(
    slot: &SignalSlot,
    thread: c_int,
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: Z2: the action is never freed, and does not change once it has been stored.
    let Some(previous) = (unsafe { slot.previous.load(Ordering::Acquire).as_ref() }) else {
        return;
    };
    // If several threads are here at once, only one is recorded. That suffices, because only a
    // signal that goes round on one thread has to be stopped.
    let marked =
        slot.calling.compare_exchange(0, thread, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    match previous.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {}
        // SAFETY: Z3: it was installed before our handler, and the arguments are those of our
        // handler.
        _ => unsafe { handler::call(previous, signal, info, context) },
    }
    if marked {
        slot.calling.store(0, Ordering::Relaxed);
    }
}
