//! What runs when the kernel delivers a signal, and what it reads.
#![expect(unsafe_code, reason = "a signal handler")]

use std::io;
use std::mem;
use std::ptr;
// Not `base::sync`: read in a signal handler.
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use libc::{c_int, c_void, sigaction, siginfo_t};

use crate::base::handler;

/// Signals with numbers from here on are the real-time ones, for which nobody listens.
const SIGNALS: usize = 32;

/// What the handler knows of a signal.
struct Slot {
    /// What was installed before; null: ours is not.
    previous: AtomicPtr<sigaction>,
    armed: AtomicBool,
    /// How many want every delivery: while there are any, it is armed whatever `armed` says.
    keepers: AtomicU32,
    /// The thread that is calling the previous function, or 0.
    calling: AtomicI32,
}

static SLOTS: [Slot; SIGNALS] = [const {
    Slot {
        previous: AtomicPtr::new(ptr::null_mut()),
        armed: AtomicBool::new(false),
        keepers: AtomicU32::new(0),
        calling: AtomicI32::new(0),
    }
}; SIGNALS];

/// The signals that have come since the last look, a bit for each.
static PENDING: AtomicU64 = AtomicU64::new(0);
/// Where the handler writes to be heard; -1: nobody reads.
static EVENTS: AtomicI32 = AtomicI32::new(-1);

/// From here on the handler writes to this eventfd, which stays open.
pub(super) fn write_to(fd: c_int) {
    EVENTS.store(fd, Ordering::Release);
}

/// The signals that have come since the last call, a bit for each.
pub(super) fn take_pending() -> u64 {
    PENDING.swap(0, Ordering::AcqRel)
}

fn slot(signal: c_int) -> Option<&'static Slot> {
    usize::try_from(signal).ok().and_then(|signal| SLOTS.get(signal))
}

/// The next delivery is ours. Only one thread at a time installs and restores.
///
/// # Errors
/// Those of sigaction(2).
pub(super) fn arm(signal: c_int) -> io::Result<()> {
    let Some(slot) = slot(signal) else { return Err(io::ErrorKind::InvalidInput.into()) };
    let present = present_action(signal)?;
    if !is_ours(&present) {
        // Leaked: a handler on another thread may still be looking at the one before.
        let known = slot.previous.load(Ordering::Acquire);
        // SAFETY: Z2: never freed, and not changed once it is there.
        if !unsafe { known.as_ref() }.is_some_and(|known| is_same(known, &present)) {
            slot.previous.store(Box::leak(Box::new(present)), Ordering::Release);
        }
        slot.armed.store(true, Ordering::Release);
        // SAFETY: all zero is a valid action: no flags, an empty mask, no function.
        let mut action: sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = handle as extern "C" fn(_, _, _) as usize;
        // Tasks' stacks are small, and calls that the kernel can restart need not know.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        // SAFETY: Z2: the handler is async-signal-safe, and what it reads is in place.
        if unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    slot.armed.store(true, Ordering::Release);
    Ok(())
}

/// Every delivery is ours from now on (true), as far as this caller is concerned; or the caller does not care any more.
pub(super) fn keep(signal: c_int, keep: bool) {
    let Some(slot) = slot(signal) else { return };
    if keep {
        slot.keepers.fetch_add(1, Ordering::AcqRel);
    } else {
        slot.keepers.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Puts back what was installed before, unless somebody else has installed something since.
pub(super) fn restore(signal: c_int) {
    let Some(slot) = slot(signal) else { return };
    if present_action(signal).is_ok_and(|present| is_ours(&present)) {
        put_back(signal, slot);
    }
    slot.armed.store(false, Ordering::Release);
}

fn put_back(signal: c_int, slot: &Slot) {
    let previous = slot.previous.load(Ordering::Acquire);
    // SAFETY: Z2: never freed. Setting an action is async-signal-safe.
    unsafe { libc::sigaction(signal, previous, ptr::null_mut()) };
}

fn present_action(signal: c_int) -> io::Result<sigaction> {
    // SAFETY: all zero is a valid action.
    let mut present: sigaction = unsafe { mem::zeroed() };
    // SAFETY: only asks.
    match unsafe { libc::sigaction(signal, ptr::null(), &raw mut present) } {
        0 => Ok(present),
        _ => Err(io::Error::last_os_error()),
    }
}

fn is_ours(action: &sigaction) -> bool {
    action.sa_sigaction == handle as extern "C" fn(_, _, _) as usize
}

/// As far as it can be told without looking into the mask: then another one is kept, which does no harm.
fn is_same(one: &sigaction, other: &sigaction) -> bool {
    one.sa_sigaction == other.sa_sigaction
        && one.sa_flags == other.sa_flags
        && matches!(one.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)
}

extern "C" fn handle(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(slot) = slot(signal) else { return };
    // SAFETY: the calling thread's own.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    // SAFETY: it only asks, and is async-signal-safe.
    let thread = unsafe { libc::gettid() };
    if slot.calling.load(Ordering::Relaxed) == thread {
        // The previous function passes on what it was called for: it was installed after this one, which was then installed again.
        return;
    }
    if slot.armed.swap(false, Ordering::AcqRel) || slot.keepers.load(Ordering::Acquire) != 0 {
        // Release: whoever takes the bit sees it before it is told.
        PENDING.fetch_or(1 << signal, Ordering::AcqRel);
        let one = 1_u64.to_ne_bytes();
        // SAFETY: eight readable bytes; an eventfd that cannot take them is as good as told.
        unsafe { libc::write(EVENTS.load(Ordering::Acquire), one.as_ptr().cast(), one.len()) };
        call_previous(slot, thread, signal, info, context);
    } else if !present_action(signal).is_ok_and(|present| is_ours(&present)) {
        // Somebody who was installed later passes it on, and does with it what it does.
        call_previous(slot, thread, signal, info, context);
    } else {
        put_back(signal, slot);
        // It is blocked here, and so arrives after the return.
        // SAFETY: raising a signal is async-signal-safe.
        unsafe { libc::raise(signal) };
    }
    // SAFETY: as above.
    unsafe { *errno = before };
}

/// Goes on with a function that was installed before. What the kernel would do by default waits for the next time.
fn call_previous(
    slot: &Slot,
    thread: c_int,
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: Z2: never freed, and not changed once it is there.
    let Some(previous) = (unsafe { slot.previous.load(Ordering::Acquire).as_ref() }) else {
        return;
    };
    // Of several threads at once one is marked; it is the same signal on one thread that must not go round.
    let marked =
        slot.calling.compare_exchange(0, thread, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    match previous.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {}
        // SAFETY: Z3: it was there before ours, and the arguments are ours.
        _ => unsafe { handler::call(previous, signal, info, context) },
    }
    if marked {
        slot.calling.store(0, Ordering::Relaxed);
    }
}
