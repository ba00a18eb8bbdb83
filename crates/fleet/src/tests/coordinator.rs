//! Coordinators that are killed in the middle of a map.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ecru::sim;

use super::remote::{Link, Server};
use crate::{Fleet, Function, Run};

const STEP: Duration = Duration::from_millis(10);
const ITEMS: u32 = 50;

fn open<'s>(fleet: &Fleet<'s>, runs: &Arc<AtomicU32>) -> Function<'s, u32, u32> {
    let runs = Arc::clone(runs);
    let body = move |number: u32, _: &Run| {
        runs.fetch_add(1, Ordering::Relaxed);
        ecru::sleep(STEP)?;
        Ok(number + 1)
    };
    fleet.function("count", body).open().unwrap()
}

/// - given: a map over fifty items, and a worker
/// - when: the coordinator is killed again and again, and started with the name of the same run
/// - then: it ends with all results in order, and each item was computed once
#[test]
fn fleet_58_a_killed_coordinator() {
    sim::test(|| {
        let (server, runs) = (Server::new(), Arc::new(AtomicU32::new(0)));
        ecru::scope(|s| {
            s.spawn_daemon(|| {
                ecru::scope(|s| {
                    let fleet = server.fleet(s, &Link::default());
                    open(&fleet, &runs).serve(4).unwrap();
                });
            });
            let mut kills = 0;
            let results = loop {
                let link = Link::default();
                let (own, server, runs) = (link.clone(), &server, &runs);
                let coordinator = s.spawn(move || {
                    ecru::scope(|s| {
                        let count = open(&server.fleet(s, &own), runs);
                        count.map("night", 0..ITEMS).unwrap().collect::<Result<Vec<_>, _>>()
                    })
                });
                let patience = STEP * u32::try_from(sim::random_u64() % 4 + 1).unwrap();
                if let Some(results) = coordinator.join_timeout(patience) {
                    break results.unwrap().unwrap();
                }
                kills += 1;
                link.cut();
                coordinator.cancel();
                drop(coordinator.join());
            };
            assert!(kills > 0);
            assert_eq!(results, (1..=ITEMS).collect::<Vec<_>>());
        });
        assert_eq!(runs.load(Ordering::Relaxed), ITEMS);
    });
}
