//! The bug: `par::map` calls one closure on several workers at once, and a `Cell` is not `Sync`.

use std::cell::Cell;

fn main() {
    let sum = Cell::new(0);
    ecru::run(|| ecru::par::map(0..10, |n| sum.set(sum.get() + n)));
}
