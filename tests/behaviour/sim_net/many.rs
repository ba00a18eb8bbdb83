//! Many connections.

use super::{SECOND, ask, echo_host};
use ecru::net::TcpStream;
use ecru::sim::{self, Link, Simulation};
use std::time::Duration;

/// - given: ten hosts with a thousand clients each
/// - when: all are connected to one server at the same time, and send a request
/// - then: all get their answers, the process opens no descriptor for them, and a run with the same
///   seed has the same trace hash
#[test]
fn sim_150_ten_thousand_connections_slow() {
    let run = |clients: usize| {
        let link = Link::new().latency(Duration::from_millis(1)..=Duration::from_millis(9));
        let report = Simulation::new(7).max_steps(10_000_000).network(link).run(move || {
            echo_host("server");
            let (tx, rx) = ecru::channel::bounded(1);
            let before = descriptors();
            for number in 0..10 {
                let tx = tx.clone();
                sim::host(&format!("clients-{number}"), move || {
                    ecru::scope(|s| {
                        for _ in 0..clients {
                            s.spawn(|| {
                                let mut stream = TcpStream::connect("server:80").unwrap();
                                ecru::sleep(10 * SECOND).unwrap();
                                ask(&mut stream, b"hello").unwrap();
                            });
                        }
                    });
                    tx.send(()).unwrap();
                    Ok(())
                });
            }
            ecru::sleep(5 * SECOND).unwrap();
            let opened = descriptors() - before;
            (0..10).for_each(|_| rx.recv().unwrap());
            opened
        });
        let (hash, elapsed) = (report.trace_hash, report.elapsed);
        (report.unwrap(), hash, elapsed)
    };
    // With the other backend, each task is a thread.
    let (opened, ..) = run(if cfg!(ecru_baton) { 50 } else { 1_000 });
    // Other tests of this process open a few at the same time.
    assert!(opened < 1_000, "{opened}");
    let (_, hash, elapsed) = run(20);
    let (_, again, took) = run(20);
    assert_eq!((again, took), (hash, elapsed));
}

/// Returns the number of open descriptors.
fn descriptors() -> isize {
    std::fs::read_dir("/proc/self/fd").unwrap().count().cast_signed()
}
