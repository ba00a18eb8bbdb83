//! The signal handler. It reports an overflow, has a simulation say its last words, and always
//! calls the handler that was installed
//! before.

use std::cell::UnsafeCell;
#[cfg(feature = "sim")]
use std::fmt;
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::Once;
// Not from `base::sync`: this is read in a signal handler.
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, c_void, sigaction, siginfo_t};

use super::report::Report;
use crate::base::handler;
#[cfg(feature = "sim")]
use crate::base::simulated;
use crate::coroutine::stack::registry;

/// The signals that an access to a guard may raise, and that of an abort, which is handled in
/// simulations only.
const SIGNALS: [c_int; 3] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT];

/// The action that was installed before, for each of [`SIGNALS`].
struct Previous {
    action: UnsafeCell<MaybeUninit<sigaction>>,
    known: AtomicBool,
}

// SAFETY: C8: `install` writes it once, before it sets `known` (Release). It is read only after
// `known` was seen set (Acquire).
unsafe impl Sync for Previous {}

static PREVIOUS: [Previous; 3] = [const {
    Previous { action: UnsafeCell::new(MaybeUninit::uninit()), known: AtomicBool::new(false) }
}; 3];

/// Installs the handler, once per process.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (&signal, previous) in SIGNALS.iter().zip(&PREVIOUS).take(2) {
            install_for(signal, previous);
        }
    });
}

/// Makes aborts of the process end with the last words of the thread's simulation.
#[cfg(feature = "sim")]
pub(crate) fn install_for_aborts() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| install_for(SIGNALS[2], &PREVIOUS[2]));
}

fn install_for(signal: c_int, previous: &Previous) {
    // SAFETY: C8: this runs once, and nothing reads before `known` is set.
    let before = unsafe { &mut *previous.action.get() };
    // SAFETY: the call queries the present action and changes nothing.
    if unsafe { libc::sigaction(signal, ptr::null(), before.as_mut_ptr()) } != 0 {
        return;
    }
    previous.known.store(true, Ordering::Release);
    // SAFETY: all zero is a valid action: no flags, an empty mask, no function.
    let mut action: sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handle as extern "C" fn(_, _, _) as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler is async-signal-safe and lives as long as the process. If it cannot be
    // installed, overflows still end the process, only without a message.
    unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
}

extern "C" fn handle(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a valid `info`, which nothing writes to.
    let told = unsafe { &*info };
    let by_fault = told.si_code > 0;
    let mut overflow = false;
    if by_fault {
        // SAFETY: a fault has an address.
        let address = unsafe { told.si_addr() }.addr();
        if let Some(place) = registry::find(address)
            && place.in_guard
        {
            overflow = true;
            let mut report = Report::new(place.limit, place.usable);
            write(report.compose());
        }
    }
    #[cfg(feature = "sim")]
    if overflow || signal == libc::SIGABRT {
        let mut out = Out { text: [0; 512], len: 0 };
        simulated::last_words(&mut out);
        out.flush();
    }
    chain(signal, info, context, by_fault);
    if overflow {
        // Whatever the previous handler did, there is no stack to continue on. The access is made
        // again, and ends the process.
        set_default(signal);
    }
}

/// Calls the previous handler.
fn chain(signal: c_int, info: *mut siginfo_t, context: *mut c_void, by_fault: bool) {
    let index = SIGNALS.iter().position(|&other| other == signal);
    let Some(previous) = index.and_then(|index| PREVIOUS.get(index)) else { return };
    if !previous.known.load(Ordering::Acquire) {
        return set_default(signal);
    }
    // SAFETY: C8: the action was written before `known` was set, and does not change any more.
    let action = unsafe { &*previous.action.get() };
    // SAFETY: C8: the action was written before `known` was set.
    let action = unsafe { action.assume_init_ref() };
    match action.sa_sigaction {
        libc::SIG_IGN if !by_fault => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            set_default(signal);
            if !by_fault {
                // Such a signal would not be raised again by itself. It is blocked here, and so it
                // arrives after the return.
                // SAFETY: raising a signal is async-signal-safe.
                unsafe { libc::raise(signal) };
            }
        }
        // SAFETY: Z3: the action was installed before ours, and the arguments are those of our
        // handler.
        _ => unsafe { handler::call(action, signal, info, context) },
    }
}

fn set_default(signal: c_int) {
    // SAFETY: all zero is `SIG_DFL` with no flags and an empty mask.
    let action: sigaction = unsafe { mem::zeroed() };
    // SAFETY: setting an action is async-signal-safe.
    unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
}

/// Writes a text in parts, without allocating.
#[cfg(feature = "sim")]
struct Out {
    text: [u8; 512],
    len: usize,
}

#[cfg(feature = "sim")]
impl Out {
    fn flush(&mut self) {
        write(&self.text[..self.len]);
        self.len = 0;
    }
}

#[cfg(feature = "sim")]
impl fmt::Write for Out {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            if self.len == self.text.len() {
                self.flush();
            }
            self.text[self.len] = byte;
            self.len += 1;
        }
        Ok(())
    }
}

fn write(mut text: &[u8]) {
    while !text.is_empty() {
        // SAFETY: the text is readable for its length.
        let written = unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
        match usize::try_from(written) {
            Ok(written) if written > 0 => text = &text[written.min(text.len())..],
            _ => return,
        }
    }
}
