//! Cancellations at every point.

use std::sync::Mutex;
use std::time::Duration;

use ecru::schedule::Delay;

use super::remote::{Link, Server};
use crate::{Queue, SendError};

const SOON: Duration = Duration::from_millis(10);

/// - given: a fleet that sends, works, buries, cancels and asks
/// - when: any task is cancelled before, during or after any wait
/// - then: every call returns, the scope ends, and each job whose `send` succeeded was worked on or
///   is in the queue
#[test]
fn fleet_53_cancelled_everywhere_slow() {
    ecru::sim::cancel_everywhere(|| {
        let server = Server::new();
        let (sent, worked) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
        ecru::scope(|s| {
            let fleet = server.fleet(s, &Link::default());
            let Ok(queue) = fleet.queue::<u32>("n").retry(Delay::Constant(SOON)).open() else {
                return;
            };
            let (own, sent, worked) = (queue.clone(), &sent, &worked);
            s.spawn(move || send(&own, sent));
            s.spawn(move || work(&queue, worked));
        });
        // What is left is worked on here. The one cancellation may come as late as this.
        ecru::shield(|| while !finish(&server, &worked) {});
        let worked = worked.into_inner().unwrap();
        for number in sent.into_inner().unwrap() {
            assert!(worked.contains(&number), "{number} is lost: {worked:?}");
        }
    });
}

/// Works on jobs until there are none. Returns whether there are none.
fn finish(server: &Server, worked: &Mutex<Vec<u32>>) -> bool {
    ecru::scope(|s| {
        let fleet = server.fleet(s, &Link::default());
        let Ok(queue) = fleet.queue::<u32>("n").retry(Delay::Constant(SOON)).open() else {
            return false;
        };
        let Ok(jobs) = queue.jobs(4) else { return false };
        loop {
            let Ok(stats) = queue.stats() else { return false };
            if stats.queued + stats.running == 0 {
                return true;
            }
            let Ok(job) = jobs.recv_timeout(Duration::from_secs(100)) else { return false };
            worked.lock().unwrap().push(*job);
            let _ = job.done();
        }
    })
}

fn send(queue: &Queue<u32>, sent: &Mutex<Vec<u32>>) {
    for number in 0..3 {
        match queue.send(number) {
            Ok(_) => sent.lock().unwrap().push(number),
            Err(SendError::Cancelled { .. } | SendError::Disconnected(_)) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

fn work(queue: &Queue<u32>, worked: &Mutex<Vec<u32>>) {
    let Ok(jobs) = queue.jobs(2) else { return };
    for count in 0..3 {
        let Ok(job) = jobs.recv_timeout(Duration::from_secs(1)) else { return };
        if count == 1 && job.attempt() == 1 {
            continue;
        }
        let Ok(Ok(number)) = job.run(|number| ecru::sleep(SOON).map(|()| *number)) else { return };
        worked.lock().unwrap().push(number);
        let _ = job.done();
    }
}
