//! A program whose allocator reads the clock and draws random numbers.
#![cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
#![expect(unsafe_code, reason = "implements an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use ecru::sim::{self, Simulation};
use ecru_sim_libc as _;

struct Allocator;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Calls the replaced functions.
fn look() {
    let (instant, system) = (Instant::now(), SystemTime::now());
    assert!(instant.elapsed() < Duration::from_secs(3600) && system > SystemTime::UNIX_EPOCH);
    let mut bytes = [0_u8; 4];
    // SAFETY: it has room for four bytes.
    let drawn = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), 4, 0) };
    assert_eq!(drawn, 4);
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
}

// SAFETY: it allocates by the system's allocator.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        look();
        // SAFETY: by this function's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        look();
        // SAFETY: by this function's contract.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn program() -> (u64, Vec<u32>, Instant) {
    let hosts = ["one", "two", "three"].map(|name| {
        sim::host(name, || {
            while ecru::sleep(Duration::from_secs(7)).is_ok() {
                ecru::fs::write("file", format!("{:?}", Instant::now()))?;
            }
            Ok(())
        })
    });
    for (rate, host) in hosts.iter().enumerate() {
        // Clocks are set while alarms of theirs are.
        ecru::sleep(Duration::from_secs(10)).unwrap();
        host.skew(1000 * i32::try_from(rate).unwrap() - 1000);
    }
    ecru::sleep(Duration::from_secs(100)).unwrap();
    let order = HashMap::<u32, ()>::from_iter((0..20).map(|key| (key, ()))).into_keys().collect();
    (sim::random_u64(), order, Instant::now())
}

/// - given: a program whose allocator reads the clocks and draws from the system
/// - when: simulations run in it, with hosts whose clocks drift
/// - then: nothing panics, and two runs with one seed have the same hash, numbers and times
#[test]
fn libc_61_in_an_allocator() {
    let run = |seed| {
        let report = Simulation::new(seed).run(|| {
            let value = program();
            assert!(ALLOCATIONS.get() > 100);
            value
        });
        let hash = report.trace_hash;
        let (number, _, time) = report.unwrap();
        (hash, number, time)
    };
    // The first run of a process also allocates what stays.
    run(1);
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).1, run(2).1);
}
