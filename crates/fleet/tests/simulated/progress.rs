//! How far jobs are, while processes are killed.

use std::io;

use ecru::sim;
use ecru_fleet::{Fleet, Progress, Queue};

use crate::server::Broker;
use crate::support::{RETRY, SECOND, SOON, join, member, until, until_idle};

const STEPS: u32 = 20;

fn open(fleet: &Fleet<'_>) -> io::Result<Queue<u32>> {
    fleet.queue("mill").lease(2 * SECOND).retry(RETRY).open()
}

/// - given: two processes that work on jobs, each of which reports how far it is
/// - when: one process is killed at a time that the seed chooses, and started again
/// - then: each job that is worked on reports again, and when all are done there is no progress of
///   any job
#[test]
fn fleet_430_progress_when_a_process_is_killed_slow() {
    sim::test(|| {
        let _broker = Broker::start();
        let hosts = ["one", "two"].map(|name| {
            member(name, |fleet| {
                for job in open(fleet)?.jobs(1)? {
                    let ran = job.run(|_| {
                        for step in 1..=STEPS {
                            job.progress(&Progress::new(step.into(), STEPS.into()));
                            ecru::sleep(SECOND / 4)?;
                        }
                        Ok::<(), ecru::Cancelled>(())
                    });
                    if let Ok(Ok(())) = ran {
                        let _ = job.done();
                    }
                }
                Ok(())
            })
        });
        ecru::scope(|s| {
            let queue = open(&join(s).unwrap()).unwrap();
            queue.send_all(0..4).unwrap();
            until(|| queue.stats().is_ok_and(|stats| stats.reporting == 2));
            ecru::sleep(SOON * u32::try_from(sim::random_u64() % 400).unwrap()).unwrap();
            hosts[0].crash();
            ecru::sleep(SECOND).unwrap();
            hosts[0].restart();
            assert_eq!(until_idle(|| queue.stats()), 0);
            until(|| queue.progress().is_ok_and(|found| found.is_empty()));
        });
    });
}
