//! The contender `shuttle` of the rows `sim-lock` and `sim-send`: `shuttle-runs lock 1000 50` makes
//! 1,000 runs whose four threads lock a mutex 50 times each.
//!
//! Prints the seconds for all runs.

use std::time::Instant;

use shuttle::sync::mpsc;
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;

const TASKS: usize = 4;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [what, runs, times] = &words[..] else { panic!("`lock` or `send`, and two numbers") };
    let number = |word: &str| word.parse::<usize>().expect("a number");
    let (runs, times) = (number(runs), number(times));
    let began = Instant::now();
    match &**what {
        "lock" => shuttle::check_random(move || lock(times), runs),
        "send" => shuttle::check_random(move || send(times), runs),
        other => panic!("`lock` or `send`, not `{other}`"),
    }
    println!("{}", began.elapsed().as_secs_f64());
}

fn lock(times: usize) {
    let number = Arc::new(Mutex::new(0));
    let threads: Vec<_> = (0..TASKS)
        .map(|_| {
            let number = Arc::clone(&number);
            thread::spawn(move || (0..times).for_each(|_| *number.lock().unwrap() += 1))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(*number.lock().unwrap(), TASKS * times);
}

fn send(times: usize) {
    let (sender, receiver) = mpsc::channel();
    let threads: Vec<_> = (0..TASKS)
        .map(|_| {
            let sender = sender.clone();
            thread::spawn(move || (0..times).for_each(|number| sender.send(number).unwrap()))
        })
        .collect();
    drop(sender);
    let mut received = 0;
    while receiver.recv().is_ok() {
        received += 1;
    }
    assert_eq!(received, TASKS * times);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
