//! A model of a writer that overtakes a reader.

use loom::thread;
use std::sync::Arc;
use std::time::Instant;

use super::ticks::Counter;
use super::{Kind, Ring, SLOT};

/// The ring has three slots, and the writer writes four events around the reader's copy. Each event
/// has one number in all of its words. A copy whose words differ would be a mixture.
#[test]
fn what_is_read_is_whole_and_in_order() {
    loom::model(|| {
        let ring = Arc::new(Ring::new(3 * SLOT, Counter::Clock(Instant::now())).unwrap());
        for number in 1..=2 {
            note(&ring, number);
        }
        let writer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || (3..=4).for_each(|number| note(&ring, number)))
        };
        let copies = ring.copy(usize::MAX);
        let numbers: Vec<u64> = copies.iter().map(|copy| copy.number).collect();
        for copy in &copies {
            assert_eq!((copy.kind(), copy.task()), (Some(Kind::Wake), copy.number));
        }
        assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{numbers:?}");
        writer.join().unwrap();
        let last: Vec<u64> = ring.copy(usize::MAX).iter().map(|copy| copy.number).collect();
        assert_eq!(last, [3, 4]);
    });
}

/// Writes an event with the number in two words.
fn note(ring: &Ring, number: u64) {
    ring.running.store(number, super::Ordering::Relaxed);
    ring.wake(number);
}
