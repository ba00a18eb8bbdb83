//! The contender `rayon`: a parallel iterator, a scope with a task for each item, and `par_chunks`
//! over a file that was read whole.

use rayon::ThreadPoolBuilder;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use rayon::slice::ParallelSlice;

use super::measure::{hit, measure};
use super::shape::Shape;
use super::spin::spin;
use super::words;
use crate::harness::Sample;

/// Measures one shape.
pub(super) fn perform(shape: Shape, workers: usize) -> Sample {
    let pool = ThreadPoolBuilder::new().num_threads(workers).build().expect("rayon starts");
    measure(&[shape], || {
        pool.install(|| match shape {
            Shape::Map { items, steps } => map(items, steps),
            Shape::Short { tasks } => short(tasks),
            Shape::Words => count_words(),
            _ => unreachable!("rayon does not fit it"),
        });
    })
}

fn map(items: u64, steps: u64) {
    let work = |number| {
        let value = spin(number, steps);
        hit(value);
        value
    };
    let results: Vec<u64> = (1..=items).into_par_iter().map(work).collect();
    assert_eq!(results.len() as u64, items);
}

fn short(tasks: u64) {
    rayon::scope(|s| {
        for number in 1..=tasks {
            s.spawn(move |_| hit(number));
        }
    });
}

fn count_words() {
    let text = std::fs::read(words::file()).expect("the file was made");
    text.par_chunks(words::CHUNK).for_each(|chunk| hit(words::count(chunk)));
}
