//! Jobs of a key in order, while processes are killed.

use std::io;

use ecru::sim;
use ecru_fleet::{Fleet, Queue};

use crate::server::Broker;
use crate::support::{Ledger, RETRY, SECOND, SOON, join, member, until, until_idle};

fn open(fleet: &Fleet<'_>) -> io::Result<Queue<(u32, u32)>> {
    fleet.queue("mill").per_key(1).lease(2 * SECOND).retry(RETRY).open()
}

/// - given: a queue with `per_key(1)`, jobs of three keys, and three processes that work on them,
///   each with a window of four
/// - when: one process is killed at a time that the seed chooses, and started again
/// - then: no job begins before the one before it of the same key is done, and all are done
#[test]
fn fleet_429_order_when_a_process_is_killed_slow() {
    sim::test(|| {
        let (_broker, seen, joined) = (Broker::start(), Ledger::new(), Ledger::new());
        let hosts: Vec<_> = ["one", "two", "three"]
            .into_iter()
            .map(|name| {
                let (seen, joined) = (seen.clone(), joined.clone());
                member(name, move |fleet| {
                    let jobs = open(fleet)?.jobs(4)?;
                    joined.note(name);
                    ecru::scope(|s| {
                        for job in jobs {
                            let seen = seen.clone();
                            s.spawn(move || {
                                let (key, number) = *job;
                                let ran = job.run(|_| {
                                    seen.note((key, number, "begun"));
                                    ecru::sleep(SOON)
                                });
                                if let Ok(Ok(())) = ran {
                                    seen.note((key, number, "done"));
                                    let _ = job.done();
                                }
                            });
                        }
                        Ok(())
                    })
                })
            })
            .collect();
        ecru::scope(|s| {
            let queue = open(&join(s).unwrap()).unwrap();
            for number in 0..5 {
                for key in 0..3 {
                    queue.send_keyed(&key.to_string(), (key, number)).unwrap();
                }
            }
            ecru::sleep(SOON * u32::try_from(sim::random_u64() % 20).unwrap()).unwrap();
            hosts[0].crash();
            ecru::sleep(SECOND).unwrap();
            let before = joined.count(|name| *name == "one");
            hosts[0].restart();
            // A process that is about to join when the servers end would fail.
            until(|| joined.count(|name| *name == "one") > before);
            assert_eq!(until_idle(|| queue.stats()), 0);
        });
        let all = seen.all();
        for key in 0..3 {
            // A job whose process was killed begins again.
            let mut done = 0;
            for (_, number, what) in all.iter().filter(|(other, ..)| *other == key) {
                match *what {
                    "begun" => assert!(*number <= done, "{all:?}"),
                    _ => done = done.max(number + 1),
                }
            }
            assert_eq!(done, 5, "{all:?}");
        }
    });
}
