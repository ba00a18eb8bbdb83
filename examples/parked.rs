//! The cost of waiting: ten thousand parked tasks beside two busy ones, a lone timeout, and waits
//! that can never end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use ecru::Runtime;
use ecru::channel::{self, Receiver, Sender};
use ecru::sync::Latch;
use rustix::time::{ClockId, clock_gettime};

const TAKERS: usize = 10_000;
const ROUNDS: u32 = 20_000;

fn main() {
    println!("{TAKERS} parked takers");
    // One worker, so that the numbers measure switches between tasks and not between threads.
    Runtime::builder().workers(1).build().expect("one worker will do").run(parked);
    println!("\na lone timeout");
    ecru::run(lone_timeout);
    println!("\ntwo tasks that wait for each other");
    deadlock();
}

/// The time of a round trip between two tasks must not depend on the number of parked tasks.
fn parked() {
    let before = ping_pong();
    println!("  before: {before:.1?} for each round trip");
    let (sender, receiver) = channel::unbounded::<u32>();
    let arrived = Latch::new(TAKERS);
    ecru::scope(|s| {
        let began = Instant::now();
        let takers: Vec<_> = (0..TAKERS)
            .map(|_| {
                let (receiver, arrived) = (receiver.clone(), &arrived);
                s.spawn(move || {
                    arrived.count_down();
                    receiver.recv().expect("there is one for each")
                })
            })
            .collect();
        arrived.wait().expect("this run is never cancelled");
        println!("  spawned and parked in {:.1?}", began.elapsed());
        let beside = ping_pong();
        println!("  beside them: {beside:.1?} for each round trip");
        assert!(beside < 4 * before + Duration::from_micros(1), "the parked ones cost something");

        let began = Instant::now();
        (0..TAKERS as u32).for_each(|value| sender.send(value).expect("they wait for it"));
        let served: Vec<u32> =
            takers.iter().map(|taker| taker.join().expect("it got one")).collect();
        println!("  served and joined in {:.1?}", began.elapsed());
        assert!(served.iter().copied().eq(0..TAKERS as u32), "first come, first served");
    });
}

fn ping_pong() -> Duration {
    let (ping, pinged) = channel::bounded(0);
    let (pong, ponged) = channel::bounded(0);
    let began = Instant::now();
    ecru::scope(|s| {
        s.spawn(move || pinged.into_iter().for_each(|round: u32| _ = pong.send(round)));
        for round in 0..ROUNDS {
            ping.send(round).expect("it is there");
            assert_eq!(ponged.recv(), Ok(round));
        }
        drop(ping);
    });
    began.elapsed() / ROUNDS
}

/// A run that waits only for the clock sleeps. It does not tick or poll.
fn lone_timeout() {
    let (began, cpu_began) = (Instant::now(), cpu_time());
    let waited = ecru::timeout(Duration::from_millis(500), || channel::never::<()>().recv());
    assert!(waited.is_err());
    let (took, cpu) = (began.elapsed(), cpu_time() - cpu_began);
    println!("  waited {took:.0?}, of which {cpu:.1?} were spent computing");
    assert!(cpu < took / 20, "it did not sleep");
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// If nothing else could wake a task, the run reports what each task waits for, and ends.
fn deadlock() {
    let watched = Runtime::builder().detect_deadlock(true).build().expect("it can be built");
    let stuck = catch_unwind(AssertUnwindSafe(|| {
        watched.run(|| {
            let (to_fork, fork): (Sender<()>, Receiver<()>) = channel::bounded(0);
            let (to_knife, knife) = channel::bounded(0);
            ecru::scope(|s| {
                let forks = s.builder().name("fork first");
                forks.spawn(move || fork.recv().map(|()| to_knife.send(())));
                let knives = s.builder().name("knife first");
                knives.spawn(move || knife.recv().map(|()| to_fork.send(())));
            });
        });
    }));
    let text = stuck.expect_err("the run cannot end well");
    let text = text.downcast_ref::<String>().expect("it says why");
    assert!(text.starts_with("deadlock: ") && text.contains("knife first"), "{text}");
    println!("  the run ended by a panic that says so");
}
