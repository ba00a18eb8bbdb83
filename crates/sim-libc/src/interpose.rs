//! The functions of libc that this crate defines in its place.
//!
//! A program's own definition of a symbol takes precedence over that of a shared library. So std
//! and all other code of the program call these functions. On the thread of a simulation, they ask
//! ecru. On all other threads they call the next definition of the symbol, which is libc's.
//!
//! They are called early when the process starts, in signal handlers and in allocators. So they
//! take no lock, allocate nothing and never panic. ecru promises the same for what is asked here,
//! except when a thread is started. The next definitions are looked up before `main`, because
//! `dlsym` may not be called in a signal handler.
#![expect(unsafe_code, reason = "defines functions of libc")]

use std::ffi::{CStr, c_int, c_long, c_uint, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::{mem, ptr};

use super::refuse;
use ecru::sim::interposer;
use libc::{clockid_t, pthread_attr_t, pthread_t, size_t, ssize_t, time_t, timespec, timeval};

/// The next definition of a function.
pub(crate) struct Next {
    name: &'static CStr,
    /// Null while it has not been looked up.
    address: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static CStr) -> Next {
        Next { name, address: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Takes a name that ends with a zero.
    pub(crate) const fn named(name: &'static str) -> Next {
        match CStr::from_bytes_with_nul(name.as_bytes()) {
            Ok(name) => Next::new(name),
            Err(_) => panic!("the name has one zero, at its end"),
        }
    }

    /// Returns the address of the function, or null if there is none.
    pub(crate) fn address(&self) -> *mut c_void {
        // Relaxed: the address is the same whenever it is looked up, and libc is there before.
        let address = self.address.load(Ordering::Relaxed);
        if address.is_null() { self.look_up() } else { address }
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        // SAFETY: the name is a C string.
        let address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

static CLOCK_GETTIME: Next = Next::new(c"clock_gettime");
static GETTIMEOFDAY: Next = Next::new(c"gettimeofday");
static TIME: Next = Next::new(c"time");
static GETRANDOM: Next = Next::new(c"getrandom");
static GETENTROPY: Next = Next::new(c"getentropy");
static SYSCALL: Next = Next::new(c"syscall");
static PTHREAD_CREATE: Next = Next::new(c"pthread_create");
static ARC4RANDOM: Next = Next::new(c"arc4random");
static ARC4RANDOM_BUF: Next = Next::new(c"arc4random_buf");
static ARC4RANDOM_UNIFORM: Next = Next::new(c"arc4random_uniform");

extern "C" fn look_all_up() {
    for next in
        [&CLOCK_GETTIME, &GETTIMEOFDAY, &TIME, &GETRANDOM, &GETENTROPY, &SYSCALL, &PTHREAD_CREATE]
    {
        next.look_up();
    }
    for next in [&ARC4RANDOM, &ARC4RANDOM_BUF, &ARC4RANDOM_UNIFORM].iter().chain(refuse::ALL) {
        next.look_up();
    }
}

/// The section holds the addresses of functions that are called before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = look_all_up;

/// Sets `errno`, and returns what a failed call returns.
pub(crate) fn failed(errno: c_int) -> c_int {
    // SAFETY: it has no preconditions.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the place belongs to the current thread.
    unsafe { *place = errno };
    -1
}

/// Returns `errno`.
fn errno() -> c_int {
    // SAFETY: it has no preconditions.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the place belongs to the current thread.
    unsafe { *place }
}

/// Returns whether an operation on a futex waits.
fn waits(operation: c_long) -> bool {
    let flags = libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME;
    matches!(operation as c_int & !flags, libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET)
}

/// Writes an answer to where a caller of libc wants it. Returns what the call returns.
///
/// # Safety
/// The place is null, or may be written to.
unsafe fn answer<T>(place: *mut T, value: T) -> c_int {
    if place.is_null() {
        return failed(libc::EFAULT);
    }
    // SAFETY: by this function's contract.
    unsafe { place.write(value) };
    0
}

/// Fills a buffer with random bytes if the current thread is in a simulation. Returns whether it
/// is.
///
/// # Safety
/// The buffer may be written to.
unsafe fn fill(buffer: *mut c_void, length: usize) -> bool {
    let bytes = buffer.cast::<u8>();
    let mut done = 0;
    loop {
        // An empty buffer changes nothing for later ones.
        if done >= length {
            return done > 0 || ecru::sim::is_simulated();
        }
        let Some(number) = interposer::random() else { return false };
        let number = number.to_le_bytes();
        let count = number.len().min(length - done);
        // SAFETY: the place is in the buffer, because fewer bytes are done than it has.
        let place = unsafe { bytes.add(done) };
        // SAFETY: `count` bytes of the buffer are left, and the number has as many.
        unsafe { ptr::copy_nonoverlapping(number.as_ptr(), place, count) };
        done += count;
    }
}

/// Returns what a clock shows in a simulation, or `None` if the clock is not simulated or the
/// thread is in none.
fn shown_by(clock: clockid_t) -> Option<timespec> {
    let shown = match clock {
        libc::CLOCK_REALTIME
        | libc::CLOCK_REALTIME_COARSE
        | libc::CLOCK_REALTIME_ALARM
        | libc::CLOCK_TAI
        | libc::CLOCK_MONOTONIC
        | libc::CLOCK_MONOTONIC_COARSE
        | libc::CLOCK_MONOTONIC_RAW
        | libc::CLOCK_BOOTTIME
        | libc::CLOCK_BOOTTIME_ALARM => interposer::clock()?,
        // Others measure the processor's time, which is not simulated.
        _ => return None,
    };
    let (seconds, nanos) = (shown.as_secs().cast_signed(), shown.subsec_nanos().into());
    Some(timespec { tv_sec: seconds, tv_nsec: nanos })
}

/// # Safety
/// The arguments are as POSIX describes them.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    if let Some(shown) = shown_by(clock) {
        // SAFETY: the caller guarantees the place.
        return unsafe { answer(time, shown) };
    }
    type Function = unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int;
    // SAFETY: null, or a function of this type.
    let next = unsafe { mem::transmute::<*mut c_void, Option<Function>>(CLOCK_GETTIME.address()) };
    let Some(next) = next else { return failed(libc::ENOSYS) };
    // SAFETY: the caller's guarantees are those that it needs.
    unsafe { next(clock, time) }
}

/// # Safety
/// The arguments are as POSIX describes them.
#[unsafe(no_mangle)]
unsafe extern "C" fn gettimeofday(time: *mut timeval, zone: *mut c_void) -> c_int {
    if let Some(shown) = interposer::clock() {
        let (seconds, micros) = (shown.as_secs().cast_signed(), shown.subsec_micros().into());
        // SAFETY: the caller guarantees the place.
        return unsafe { answer(time, timeval { tv_sec: seconds, tv_usec: micros }) };
    }
    type Function = unsafe extern "C" fn(*mut timeval, *mut c_void) -> c_int;
    // SAFETY: null, or a function of this type.
    let next = unsafe { mem::transmute::<*mut c_void, Option<Function>>(GETTIMEOFDAY.address()) };
    let Some(next) = next else { return failed(libc::ENOSYS) };
    // SAFETY: the caller's guarantees are those that it needs.
    unsafe { next(time, zone) }
}

/// # Safety
/// The arguments are as POSIX describes them.
#[unsafe(no_mangle)]
unsafe extern "C" fn time(place: *mut time_t) -> time_t {
    if let Some(shown) = interposer::clock() {
        let seconds = shown.as_secs().cast_signed();
        if !place.is_null() {
            // SAFETY: the caller guarantees the place.
            unsafe { place.write(seconds) };
        }
        return seconds;
    }
    type Function = unsafe extern "C" fn(*mut time_t) -> time_t;
    // SAFETY: null, or a function of this type.
    let next = unsafe { mem::transmute::<*mut c_void, Option<Function>>(TIME.address()) };
    let Some(next) = next else { return failed(libc::ENOSYS).into() };
    // SAFETY: the caller's guarantees are those that it needs.
    unsafe { next(place) }
}

/// # Safety
/// The arguments are as Linux describes them.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut c_void, length: size_t, flags: c_uint) -> ssize_t {
    // SAFETY: the caller guarantees the buffer. The kernel checks one at null.
    if !buffer.is_null() && unsafe { fill(buffer, length) } {
        return length.cast_signed();
    }
    type Function = unsafe extern "C" fn(*mut c_void, size_t, c_uint) -> ssize_t;
    // SAFETY: null, or a function of this type.
    let next = unsafe { mem::transmute::<*mut c_void, Option<Function>>(GETRANDOM.address()) };
    let Some(next) = next else { return failed(libc::ENOSYS) as ssize_t };
    // SAFETY: the caller's guarantees are those that it needs.
    unsafe { next(buffer, length, flags) }
}

/// # Safety
/// The arguments are as POSIX describes them.
#[unsafe(no_mangle)]
unsafe extern "C" fn getentropy(buffer: *mut c_void, length: size_t) -> c_int {
    const LONGEST: usize = 256;
    // SAFETY: the caller guarantees the buffer. libc refuses one that is too long.
    if !buffer.is_null() && length <= LONGEST && unsafe { fill(buffer, length) } {
        return 0;
    }
    type Function = unsafe extern "C" fn(*mut c_void, size_t) -> c_int;
    // SAFETY: null, or a function of this type.
    let next = unsafe { mem::transmute::<*mut c_void, Option<Function>>(GETENTROPY.address()) };
    let Some(next) = next else { return failed(libc::ENOSYS) };
    // SAFETY: the caller's guarantees are those that it needs.
    unsafe { next(buffer, length) }
}

/// # Safety
/// The arguments are as glibc describes them.
#[unsafe(no_mangle)]
unsafe extern "C" fn arc4random() -> u32 {
    if let Some(number) = interposer::random() {
        return number as u32;
    }
    type Function = unsafe extern "C" fn() -> u32;
    // SAFETY: null, or a function of this type.
    let next = unsafe { mem::transmute::<*mut c_void, Option<Function>>(ARC4RANDOM.address()) };
    // A program for a libc without this function does not call it.
    // SAFETY: it has no preconditions.
    next.map_or(0, |next| unsafe { next() })
}

/// # Safety
/// The arguments are as glibc describes them.
#[unsafe(no_mangle)]
unsafe extern "C" fn arc4random_buf(buffer: *mut c_void, length: size_t) {
    // SAFETY: the caller guarantees the buffer.
    if unsafe { fill(buffer, length) } {
        return;
    }
    type Function = unsafe extern "C" fn(*mut c_void, size_t);
    // SAFETY: null, or a function of this type.
    let next = unsafe { mem::transmute::<*mut c_void, Option<Function>>(ARC4RANDOM_BUF.address()) };
    if let Some(next) = next {
        // SAFETY: the caller's guarantees are those that it needs.
        unsafe { next(buffer, length) }
    }
}

/// # Safety
/// The arguments are as glibc describes them.
#[unsafe(no_mangle)]
unsafe extern "C" fn arc4random_uniform(bound: u32) -> u32 {
    if let Some(number) = interposer::random() {
        // The upper half of the product is uniform up to one part in 2^32.
        return (((number >> 32) * u64::from(bound)) >> 32) as u32;
    }
    type Function = unsafe extern "C" fn(u32) -> u32;
    let next = ARC4RANDOM_UNIFORM.address();
    // SAFETY: null, or a function of this type.
    let next = unsafe { mem::transmute::<*mut c_void, Option<Function>>(next) };
    // SAFETY: it has no preconditions.
    next.map_or(0, |next| unsafe { next(bound) })
}

/// libc's function has a variable number of arguments, and always passes on six, whatever there is
/// in place of missing ones. On the two architectures, they are where those of this function are.
///
/// # Safety
/// The arguments are as Linux describes them.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    if number == libc::SYS_getrandom && a != 0 {
        let buffer = ptr::with_exposed_provenance_mut(a.cast_unsigned() as usize);
        // SAFETY: the caller guarantees the buffer.
        if unsafe { fill(buffer, b.cast_unsigned() as usize) } {
            return b;
        }
    }
    if number == libc::SYS_clock_gettime
        && let Some(shown) = shown_by(a as clockid_t)
    {
        let place = ptr::with_exposed_provenance_mut(b.cast_unsigned() as usize);
        // SAFETY: the caller guarantees the place.
        return unsafe { answer(place, shown) }.into();
    }
    type Function =
        unsafe extern "C" fn(c_long, c_long, c_long, c_long, c_long, c_long, c_long) -> c_long;
    // SAFETY: null, or a function whose arguments are where those of this type are.
    let next = unsafe { mem::transmute::<*mut c_void, Option<Function>>(SYSCALL.address()) };
    let Some(next) = next else { return failed(libc::ENOSYS).into() };
    // SAFETY: the caller's guarantees are those that it needs.
    let call = || unsafe { next(number, a, b, c, d, e, f) };
    if number == libc::SYS_futex && waits(b) && ecru::sim::is_simulated() {
        // What is done after the call may change its error.
        let (result, errno) = interposer::blocks(|| (call(), errno()));
        failed(errno);
        return result;
    }
    call()
}

/// # Safety
/// The arguments are as POSIX describes them.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    body: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    if interposer::refuses("`pthread_create`, which `std::thread::spawn` calls") {
        return libc::EPERM;
    }
    type Function = unsafe extern "C" fn(
        *mut pthread_t,
        *const pthread_attr_t,
        extern "C" fn(*mut c_void) -> *mut c_void,
        *mut c_void,
    ) -> c_int;
    // SAFETY: null, or a function of this type.
    let next = unsafe { mem::transmute::<*mut c_void, Option<Function>>(PTHREAD_CREATE.address()) };
    let Some(next) = next else { return libc::EAGAIN };
    // SAFETY: the caller's guarantees are those that it needs.
    unsafe { next(thread, attributes, body, argument) }
}
