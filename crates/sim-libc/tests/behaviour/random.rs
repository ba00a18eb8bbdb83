//! What random numbers are drawn.
#![expect(unsafe_code, reason = "calls functions of libc")]

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::thread;

use ecru::sim;
use rand::Rng;
use uuid::Uuid;

use super::simulated;

/// Returns keys in the order of a `HashMap`.
pub(super) fn order() -> Vec<u64> {
    HashMap::<u64, ()>::from_iter((0..50).map(|key| (key, ()))).into_keys().collect()
}

/// Returns numbers from all ways to the system's randomness that crates have.
pub(super) fn numbers() -> Vec<u64> {
    let mut bytes = [[0; 8]; 4];
    getrandom_0_2::getrandom(&mut bytes[0]).unwrap();
    getrandom_0_3::fill(&mut bytes[1]).unwrap();
    // SAFETY: it has room for eight bytes.
    assert_eq!(unsafe { libc::getentropy(bytes[2].as_mut_ptr().cast(), 8) }, 0);
    // SAFETY: it has room for eight bytes.
    assert_eq!(unsafe { libc::getrandom(bytes[3].as_mut_ptr().cast(), 8, 0) }, 8);
    let mut numbers = Vec::from(bytes.map(u64::from_ne_bytes));
    let (high, low) = Uuid::new_v4().as_u64_pair();
    numbers.extend([rand::rng().next_u64(), rand::rng().next_u64(), high, low]);
    numbers
}

/// - given: a program that goes through `HashMap`s
/// - when: it runs twice with one seed, and with others
/// - then: the order is the same for one seed, and another one for others; two maps have two orders
#[test]
fn libc_20_the_order_of_a_hash_map() {
    let orders = || {
        let inner = ecru::scope(|s| s.spawn(order).join().unwrap());
        [order(), inner, order()]
    };
    let first = simulated(1, orders);
    assert_eq!(simulated(1, orders), first);
    assert_ne!(first[0], first[1]);
    let others: HashSet<_> = (0..10).map(|seed| simulated(seed, orders)).collect();
    assert_eq!(others.len(), 10);
}

/// - given: a program that draws from the system: by `getrandom` 0.2 and 0.3, `rand`, `uuid`,
///   `getrandom` and `getentropy` of libc
/// - when: it runs twice with one seed, and with another one
/// - then: the numbers are the same for one seed, others for the other one, and no two are equal
#[test]
fn libc_21_numbers() {
    let first = simulated(1, || (numbers(), numbers()));
    assert_eq!(simulated(1, || (numbers(), numbers())), first);
    let other = simulated(2, || (numbers(), numbers()));
    let all = [first.0, first.1, other.0, other.1].concat();
    assert_eq!(HashSet::<u64>::from_iter(all.iter().copied()).len(), all.len());
}

/// - given: buffers of any length
/// - when: they are filled in a simulation
/// - then: each byte is written, none beyond, and a buffer that is too long or at null is refused
#[test]
fn libc_22_buffers() {
    let fill = |length: usize| {
        let mut buffer = vec![0_u8; length + 1];
        // SAFETY: it has room for so many bytes.
        let filled = unsafe { libc::getrandom(buffer.as_mut_ptr().cast(), length, 0) };
        assert_eq!((usize::try_from(filled), buffer[length]), (Ok(length), 0));
        buffer
    };
    simulated(1, || {
        for length in 0..40 {
            let buffers: Vec<_> = (0..8).map(|_| fill(length)).collect();
            // One byte in 256 is zero.
            assert!((0..length).all(|at| buffers.iter().any(|buffer| buffer[at] != 0)));
        }
        fill(100_000);
        let mut buffer = [0_u8; 257];
        // SAFETY: it has room for so many bytes.
        assert_eq!(unsafe { libc::getentropy(buffer.as_mut_ptr().cast(), 257) }, -1);
        assert_eq!(buffer, [0; 257]);
        // SAFETY: the kernel refuses it.
        assert_eq!(unsafe { libc::getrandom(std::ptr::null_mut(), 8, 0) }, -1);
    });
}

/// - given: a program that draws from `sim::random_u64`
/// - when: it also draws from the system
/// - then: the numbers of `sim::random_u64` and the hash of the run are the same
#[test]
fn libc_23_the_programs_own_numbers() {
    let run = |draws: bool| {
        sim::Simulation::new(1).run(move || {
            let own = || (0..5).map(|_| sim::random_u64()).collect::<Vec<_>>();
            let first = own();
            if draws {
                numbers();
                order();
            }
            ecru::sleep(super::common::ms(1)).unwrap();
            [first, own()]
        })
    };
    let (with, without) = (run(true), run(false));
    assert_eq!(with.trace_hash, without.trace_hash);
    assert_eq!(with.unwrap(), without.unwrap());
}

/// - given: a program whose tasks come in the order of a `HashMap`
/// - when: `sim::test` runs it
/// - then: it passes, because each run with a seed is the same
#[test]
fn libc_24_a_test_with_a_hash_map() {
    sim::test(|| {
        ecru::scope(|s| {
            for key in order() {
                s.spawn(move || (0..key).for_each(|_| sim::point()));
            }
        });
    });
}

/// - given: a program with this crate
/// - when: code outside of simulations draws: on plain threads, and in tasks of `ecru::run`
/// - then: the numbers differ each time
#[test]
fn libc_25_numbers_outside() {
    let draw = || {
        let mut drawn = numbers();
        drawn.push(RandomState::new().hash_one(0));
        drawn
    };
    let mut all = draw();
    simulated(1, draw);
    all.extend(draw());
    for _ in 0..3 {
        all.extend(thread::spawn(draw).join().unwrap());
        all.extend(ecru::run(draw));
    }
    assert_eq!(HashSet::<u64>::from_iter(all.iter().copied()).len(), all.len());
}
