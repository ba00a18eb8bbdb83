//! Hooks of cancellations, which run while a machine or the whole run ends.

use super::{SECOND, run};
use ecru::channel;
use ecru::sim::{self, Host};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

#[test]
fn hooks_that_stop_machines_when_the_program_ends() {
    for seed in 0..20 {
        let done = Arc::new(AtomicUsize::new(0));
        let hosts = Arc::new(OnceLock::<Vec<Host>>::new());
        let (note, all) = (Arc::clone(&done), Arc::clone(&hosts));
        run(seed, move || {
            let made = Vec::from_iter((0..3).map(|place| {
                let (note, all) = (Arc::clone(&note), Arc::clone(&all));
                sim::host(&format!("host-{place}"), move || {
                    let hook = || {
                        let all: &Vec<Host> = all.get().unwrap();
                        all[(place + 1) % 3].crash();
                        all[(place + 2) % 3].restart();
                        all[place].pause();
                        all[place].skew(7);
                        sim::heal();
                        sim::point();
                        note.fetch_add(1, SeqCst);
                    };
                    ecru::on_cancel(hook, || ecru::sleep(60 * SECOND))?;
                    Ok(())
                })
            }));
            assert!(all.set(made).is_ok());
            sim::settle();
        });
        assert_eq!(done.load(SeqCst), 3, "seed {seed}");
    }
}

#[test]
fn hooks_below_shields_of_a_machine_that_crashes() {
    for seed in 0..20 {
        let (tx, rx) = channel::unbounded::<usize>();
        let other = Arc::new(OnceLock::<Host>::new());
        let next = Arc::clone(&other);
        run(seed, move || {
            let host = sim::host("host", move || {
                ecru::scope(|s| {
                    for task in 0..8 {
                        let (tx, next) = (tx.clone(), Arc::clone(&next));
                        s.spawn(move || {
                            let wait = |number: usize| {
                                let hook = || {
                                    next.get().unwrap().crash();
                                    tx.try_send(number).unwrap();
                                };
                                ecru::shield(|| ecru::on_cancel(hook, || ecru::sleep(SECOND)))
                            };
                            assert!(wait(task).is_err());
                            // This hook runs before the turn of a task that is cut off.
                            ecru::shield(|| assert!(wait(8 + task).is_err()));
                        });
                    }
                });
                Ok(())
            });
            let made = sim::host("other", || Ok(ecru::sleep(60 * SECOND)?));
            assert!(other.set(made).is_ok());
            sim::settle();
            host.crash();
            sim::settle();
            assert_eq!(sim::elapsed().as_secs(), 0);
        });
        let mut told = Vec::from_iter(rx.try_iter());
        told.sort_unstable();
        assert_eq!(told, Vec::from_iter(0..16), "seed {seed}");
    }
}
