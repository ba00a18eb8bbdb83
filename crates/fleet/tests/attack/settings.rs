//! Processes that open one queue with different settings at the same moment, and processes that
//! end while they change settings.

use std::io;
use std::time::Duration;

use ecru_fleet::{Fleet, QueueBuilder};
use ecru_nats::Client;
use ecru_nats::jetstream::{ConsumerConfig, StreamConfig};

use crate::server::Server;
use crate::support::{LONG, SECOND, real};

const ROUNDS: u32 = 20;
const LEASE: Duration = Duration::from_secs(7);

/// Opens the queue from so many connections at once.
fn open_at_once(
    server: &Server,
    count: usize,
    name: &str,
    settings: impl Fn(usize, QueueBuilder<u32>) -> QueueBuilder<u32> + Sync,
) -> Vec<io::Result<()>> {
    let gate = ecru::sync::Barrier::new(count);
    ecru::par::map(0..count, |number| {
        ecru::scope(|s| {
            let fleet = Fleet::connect(s, &server.url())?;
            fleet.on_warning(|_| {});
            // If one of them cannot connect, the others do not wait for it for ever.
            ecru::timeout(LONG, || gate.wait())??;
            settings(number, fleet.queue::<u32>(name)).open().map(drop)
        })
    })
}

/// What the server has.
struct Stored {
    jobs: StreamConfig,
    workers: ConsumerConfig,
    rate: String,
    permits: u64,
}

impl Stored {
    fn read(server: &Server, name: &str) -> Stored {
        ecru::scope(|s| {
            let js = Client::connect(s, &server.url()).unwrap().jetstream();
            let (jobs, attempts) =
                (format!("fleet-jobs-q_{name}"), format!("fleet-attempts-q_{name}"));
            let rate = format!("fleet.attempts.q_{name}.=rate.starts");
            let rate = js.last_message(&attempts, &rate).unwrap();
            let permits = js.consumer(&attempts, "permits").and_then(|permits| permits.info());
            Stored {
                jobs: js.stream_info(&jobs).unwrap().config,
                workers: js.consumer(&jobs, "workers").unwrap().info().unwrap().config,
                rate: rate
                    .map(|rate| String::from_utf8_lossy(&rate.payload).into_owned())
                    .unwrap_or_default(),
                permits: permits.map_or(0, |info| info.num_pending + info.num_ack_pending),
            }
        })
    }

    fn has_priorities(&self) -> bool {
        self.jobs.subjects.iter().any(|subject| subject.starts_with("fleet.jobs-3."))
    }

    fn is_per_key(&self) -> bool {
        self.jobs.subjects.iter().any(|subject| subject.ends_with(".*.*"))
    }

    fn limit(&self) -> Option<i64> {
        self.workers.max_ack_pending.filter(|most| *most > 0)
    }
}

#[test]
fn no_setting_is_lost_slow() {
    real(|server| {
        for round in 0..ROUNDS {
            let name = format!("n{round}");
            if round % 2 == 1 {
                // It exists with other settings.
                open_at_once(server, 1, &name, |_, queue| queue.limit(9).lease(2 * LEASE))
                    .into_iter()
                    .collect::<io::Result<()>>()?;
            }
            let opened = open_at_once(server, 6, &name, |number, queue| match number {
                0 => queue.priorities(),
                1 => queue.limit(4),
                2 => queue.lease(LEASE),
                3 => queue.capacity(100),
                4 => queue.rate(50, SECOND),
                _ => queue,
            });
            opened.into_iter().collect::<io::Result<()>>()?;
            let stored = Stored::read(server, &name);
            let found = (stored.has_priorities(), stored.limit(), stored.workers.ack_wait);
            assert_eq!(found, (true, Some(4), Some(LEASE)), "round {round}");
            assert_eq!(stored.jobs.max_messages, Some(100), "round {round}");
            assert!(stored.rate.contains("50"), "round {round}: {}", stored.rate);
            let filter = stored.workers.filter_subject.as_deref();
            assert_eq!(filter, Some(&*format!("fleet.jobs.q_{name}.*")), "round {round}");
            assert_eq!(stored.permits, 4, "round {round}");
        }
        Ok(())
    });
}

#[test]
fn of_settings_that_exclude_each_other_one_is_refused_slow() {
    real(|server| {
        for round in 0..ROUNDS {
            let name = format!("n{round}");
            if round % 2 == 1 {
                open_at_once(server, 1, &name, |_, queue| queue)
                    .into_iter()
                    .collect::<io::Result<()>>()?;
            }
            let opened = open_at_once(server, 6, &name, |number, queue| match number % 3 {
                0 => queue.priorities(),
                1 => queue.per_key(1),
                _ => queue.limit(4),
            });
            for error in opened.iter().filter_map(|opened| opened.as_ref().err()) {
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
                assert!(error.to_string().contains("per_key"), "{error}");
            }
            // What was accepted is in force, and nothing else.
            let accepted =
                |kind: usize| (0..6).any(|number| number % 3 == kind && opened[number].is_ok());
            let stored = Stored::read(server, &name);
            let found = [stored.has_priorities(), stored.is_per_key(), stored.limit().is_some()];
            assert_eq!(found, [accepted(0), accepted(1), accepted(2)], "round {round}");
            assert_ne!(found[1], found[0] || found[2], "round {round}");
        }
        Ok(())
    });
}
