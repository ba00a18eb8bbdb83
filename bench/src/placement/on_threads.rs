//! The contender `threads`: threads of std with channels of crossbeam. A pool has as many threads
//! as there are workers; each stage of a pipeline and each side of a pair has one.

use std::fs::File;
use std::io::Read;
use std::thread;

use crossbeam_channel::bounded;

use super::measure::{hit, measure};
use super::shape::{Arrival, BURST, CAPACITY, LATE, PAIRS, PAUSE, STAGES, Shape};
use super::spin::spin;
use super::words;
use crate::harness::Sample;

/// Both ends of every channel live long enough.
const ALIVE: &str = "both ends are alive";

/// Measures one shape.
pub(super) fn perform(shape: Shape, workers: usize) -> Sample {
    measure(&[shape], || match shape {
        Shape::Pool { jobs, steps, arrival } => pool(jobs, steps, arrival, workers),
        Shape::Pipeline { items, steps } => pipeline(items, steps),
        Shape::Pairs { messages } => pairs(messages),
        Shape::Words => count_words(workers),
        _ => unreachable!("threads do not fit it"),
    })
}

fn pool(jobs: u64, steps: u64, arrival: Arrival, workers: usize) {
    let (sender, receiver) = bounded::<u64>(CAPACITY);
    thread::scope(|s| {
        for _ in 0..workers {
            let receiver = receiver.clone();
            s.spawn(move || receiver.iter().for_each(|number| hit(spin(number, steps))));
        }
        if arrival == Arrival::Late {
            thread::sleep(LATE);
        }
        for number in 1..=jobs {
            sender.send(number).expect(ALIVE);
            if arrival == Arrival::Trickling && number % BURST == 0 {
                thread::sleep(PAUSE);
            }
        }
        drop(sender);
    });
}

fn pipeline(items: u64, steps: u64) {
    let (first, mut from) = bounded::<u64>(CAPACITY);
    thread::scope(|s| {
        for _ in 1..STAGES {
            let (to, next) = bounded(CAPACITY);
            let stage = std::mem::replace(&mut from, next);
            s.spawn(move || {
                for value in stage {
                    let value = spin(value, steps);
                    hit(0);
                    to.send(value).expect(ALIVE);
                }
            });
        }
        s.spawn(move || from.iter().for_each(|value| hit(spin(value, steps))));
        for number in 1..=items {
            first.send(number).expect(ALIVE);
        }
        drop(first);
    });
}

fn pairs(messages: u64) {
    thread::scope(|s| {
        for pair in 0..PAIRS {
            let (sender, receiver) = bounded::<u64>(0);
            s.spawn(move || {
                for number in 1..=messages {
                    sender.send(pair * messages + number).expect(ALIVE);
                }
            });
            s.spawn(move || receiver.iter().for_each(hit));
        }
    });
}

fn count_words(workers: usize) {
    let mut file = File::open(words::file()).expect("the file was made");
    let (sender, receiver) = bounded::<Vec<u8>>(CAPACITY);
    thread::scope(|s| {
        for _ in 0..workers {
            let receiver = receiver.clone();
            s.spawn(move || receiver.iter().for_each(|chunk| hit(words::count(&chunk))));
        }
        for _ in 0..words::CHUNKS {
            let mut chunk = vec![0; words::CHUNK];
            file.read_exact(&mut chunk).expect("the file is whole");
            sender.send(chunk).expect(ALIVE);
        }
        drop(sender);
    });
}
