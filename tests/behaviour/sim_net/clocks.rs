//! Clocks of hosts that drift.

use super::{MS, SECOND, each_strategy, run};
use crate::support::panic_text;
use ecru::Source;
use ecru::sim::{self, Simulation};
use ecru::time::{Timer, interval, now, sleep_until};
use ecru::{sleep, timeout};
use std::io::ErrorKind;
use std::time::Duration;

/// - given: a host whose clock is fast or slow
/// - when: it sleeps, and waits for timers, intervals and time limits
/// - then: its clock shows at least these times, which take less or more virtual time
#[test]
fn sim_175_waits_by_a_clock_that_drifts() {
    /// Returns how much virtual time some waits of three seconds take.
    fn waits() -> Vec<Duration> {
        let three = 3 * SECOND;
        let timer = || {
            let timer = Timer::new(three);
            timer.start().unwrap();
            timer
        };
        let waits: [&dyn Fn(); 8] = [
            &|| sleep(three).unwrap(),
            &|| sleep_until(now() + three).unwrap(),
            &|| assert!(timeout(three, || ecru::sync::Notify::new().wait()).is_err()),
            &|| assert!(timer().wait().unwrap()),
            &|| assert!(ecru::block_on(timer().to_future()).unwrap()),
            &|| {
                let ticks = interval(SECOND);
                (0..4).for_each(|_| _ = ticks.tick().unwrap());
            },
            &|| _ = ecru::channel::after(three).recv().unwrap(),
            &|| {
                let socket = ecru::net::UdpSocket::bind("0.0.0.0:0").unwrap();
                socket.set_read_timeout(Some(three)).unwrap();
                assert_eq!(socket.recv(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
            },
        ];
        let waits = waits.iter().map(|wait| {
            let (begun, shown) = (sim::elapsed(), now());
            wait();
            assert!((three..three + MS).contains(&(now() - shown)));
            sim::elapsed() - begun
        });
        waits.collect()
    }
    each_strategy(|| {
        for (name, drift, expected) in [
            ("exact", 0, 3 * SECOND),
            ("fast", 500_000, 2 * SECOND),
            ("slow", -500_000, 6 * SECOND),
        ] {
            let took = super::on_host(name, move || {
                sim::here().skew(drift);
                waits()
            });
            assert_eq!(took, vec![expected; 8], "{name}");
        }
        // The other machines are exact.
        let (begun, shown) = (sim::elapsed(), now());
        sleep(SECOND).unwrap();
        assert_eq!((now() - shown, sim::elapsed() - begun), (SECOND, SECOND));
    });
}

/// - given: a host that waits in several ways
/// - when: its clock is made faster or slower meanwhile
/// - then: the rest of the waits takes less or more virtual time
#[test]
fn sim_176_a_skew_changes_waits_that_have_begun() {
    each_strategy(|| {
        for (name, drift, expected) in [("fast", 1_000_000, 75), ("slow", -750_000, 250)] {
            let (tx, rx) = ecru::channel::bounded(9);
            let host = sim::host(name, move || {
                let begun = sim::elapsed();
                let ten = 10 * SECOND;
                let done = || tx.send(sim::elapsed() - begun).unwrap();
                ecru::scope(|s| {
                    s.spawn(|| (sleep(ten).unwrap(), done()));
                    s.spawn(|| (timeout(ten, || sleep(60 * SECOND)).unwrap_err(), done()));
                    s.spawn(|| {
                        let timer = Timer::new(ten);
                        timer.start().unwrap();
                        assert!(ecru::block_on(timer.to_future()).unwrap());
                        done();
                    });
                });
                Ok(())
            });
            sleep(5 * SECOND).unwrap();
            host.skew(drift);
            for _ in 0..3 {
                assert_eq!(rx.recv().unwrap(), expected * 100 * MS, "{name}");
            }
        }
    });
}

/// - given: a host whose clock is made faster and slower again and again, and is restarted
/// - when: its tasks read the clock
/// - then: it never runs backwards; what it has gained stays when it is exact again
#[test]
fn sim_177_a_clock_never_runs_backwards() {
    each_strategy(|| {
        let (tx, rx) = ecru::channel::bounded(9);
        let host = sim::host("host", move || {
            let mut last = now();
            tx.send(last).unwrap();
            loop {
                sleep(sim::random_u64() as u32 % 10_000 * MS)?;
                assert!(now() >= last);
                last = now();
                if sim::elapsed() > 300 * SECOND {
                    tx.send(last).unwrap();
                    return Ok(());
                }
            }
        });
        let first = rx.recv().unwrap();
        for _ in 0..20 {
            let drift = (sim::random_u64() % 1_900_000) as i32 - 950_000;
            host.skew(drift);
            sleep(sim::random_u64() as u32 % 10_000 * MS).unwrap();
            if sim::random_u64().is_multiple_of(4) {
                host.restart();
                assert!(rx.recv().unwrap() >= first);
            }
        }
        assert!(rx.recv().unwrap() > first);
        let gained = super::on_host("gains", || {
            let (begun, shown) = (sim::elapsed(), now());
            sim::here().skew(1_000_000);
            sleep(200 * SECOND).unwrap();
            sim::here().skew(0);
            sleep(100 * SECOND).unwrap();
            (now() - shown, sim::elapsed() - begun)
        });
        assert_eq!(gained, (300 * SECOND, 200 * SECOND));
    });
}

/// - given: two hosts of which one has a slow clock
/// - when: both write files
/// - then: the times of the files are those of the hosts' clocks
#[test]
fn sim_178_files_have_the_times_of_their_hosts() {
    let report = Simulation::new(1).run(|| {
        let written = |name: &str, drift| {
            super::on_host(name, move || {
                sim::here().skew(drift);
                ecru::fs::write("first", "").unwrap();
                let begun = sim::elapsed();
                while sim::elapsed() - begun < 100 * SECOND {
                    sleep(SECOND / 2).unwrap();
                }
                ecru::fs::write("second", "").unwrap();
                let time = |name| ecru::fs::metadata(name).unwrap().modified().unwrap();
                time("second").duration_since(time("first")).unwrap()
            })
        };
        (written("exact", 0), written("slow", -500_000))
    });
    assert_eq!(report.unwrap(), (100 * SECOND, 50 * SECOND));
}

/// - given: a host
/// - when: its clock is to stand still or to run backwards
/// - then: the call panics, and says which numbers are possible
#[test]
fn sim_179_a_clock_that_would_stand_still() {
    let texts = run(1, || {
        let host = sim::host("host", || Ok(()));
        host.skew(-999_999);
        host.skew(i32::MAX);
        [-1_000_000, i32::MIN].map(|drift| panic_text(|| host.skew(drift)))
    });
    for text in texts {
        assert!(text.contains("'host'") && text.contains("above -1000000"), "{text}");
    }
}
