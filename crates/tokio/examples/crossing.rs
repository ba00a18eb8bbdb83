//! The cost of a crossing: `ecru_tokio::wait` in a task, beside `Handle::block_on` on a thread. Both
//! wait for a task of tokio's that answers at once. The rounds alternate, and the medians are shown.
//!
//! `cargo run --release -p ecru-tokio --example crossing`

use std::time::{Duration, Instant};

/// The crossings of a round.
const CROSSINGS: u32 = 5_000;
const ROUNDS: usize = 15;

/// One crossing's future: it waits for another thread.
async fn cross() {
    tokio::spawn(async {}).await.expect("the task does not panic");
}

/// A crossing's wall-clock time and processor time, of all threads, on average over a round.
fn measure(mut crossing: impl FnMut()) -> [Duration; 2] {
    let (begun, used) = (Instant::now(), processor_time());
    for _ in 0..CROSSINGS {
        crossing();
    }
    [begun.elapsed() / CROSSINGS, (processor_time() - used) / CROSSINGS]
}

/// The processor time of all threads of this process.
fn processor_time() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").expect("this is Linux");
    let of = |task: std::io::Result<std::fs::DirEntry>| -> Option<u64> {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    Duration::from_nanos(tasks.filter_map(of).sum())
}

fn median(mut rounds: Vec<Duration>) -> f64 {
    rounds.sort();
    rounds[rounds.len() / 2].as_nanos() as f64 / 1000.0
}

fn main() {
    let handle = ecru_tokio::handle();
    let runtime = ecru::Runtime::builder().workers(1).build().expect("one worker is allowed");
    let (mut threads, mut tasks) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        threads.push(measure(|| handle.block_on(cross())));
        tasks.push(runtime.run(|| {
            ecru::scope(|s| {
                let round =
                    s.spawn(|| measure(|| ecru_tokio::wait(cross()).expect("nothing cancels it")));
                round.join().expect("the round does not panic")
            })
        }));
    }
    for (what, which) in [("wall clock", 0), ("processor", 1)] {
        let of =
            |rounds: &[[Duration; 2]]| median(rounds.iter().map(|round| round[which]).collect());
        let (thread, task) = (of(&threads), of(&tasks));
        println!(
            "{what}: Handle::block_on {thread:.2} us, ecru_tokio::wait {task:.2} us, {:.2} x",
            task / thread
        );
    }
}
