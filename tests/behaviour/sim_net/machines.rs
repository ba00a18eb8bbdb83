//! The machine of the running code.

use super::{SECOND, ask, each_strategy, echo_host, run};
use crate::support::panic_text;
use ecru::net::{TcpListener, TcpStream};
use ecru::sim;
use ecru::{shield, sleep, timeout};
use std::io::Read;

/// - given: the program itself, and hosts
/// - when: they ask for the machine that they run on
/// - then: `here` returns it; the program can cut, hold and delay its own links by it
#[test]
fn sim_145_the_program_runs_on_a_machine() {
    each_strategy(|| {
        let here = sim::here();
        assert_eq!((here.name(), here.addr().to_string().as_str()), ("root", "10.0.255.254"));
        let server = echo_host("server");
        assert!(server != here && super::on_host("other", sim::here).name() == "other");
        let mut stream = TcpStream::connect("server:80").unwrap();
        sim::partition(&[&here], &[&server]);
        let asked = timeout(5 * SECOND, || ask(&mut stream, b"hello"));
        assert!(asked.is_err());
        sim::heal();
        stream.read_exact(&mut [0; 5]).unwrap();
        sim::link(&here, &server).latency(SECOND..=SECOND);
        let begun = sim::elapsed();
        ask(&mut stream, b"hello").unwrap();
        assert_eq!(sim::elapsed() - begun, 2 * SECOND);
        // Other machines reach the program.
        let listener = TcpListener::bind("0.0.0.0:9").unwrap();
        let client = super::on_host("client", || TcpStream::connect("root:9").is_ok());
        assert!(client && listener.accept().is_ok());
    });
}

/// - given: the machine of the program itself
/// - when: it is to crash, restart or pause
/// - then: the call panics, and says why; outside of a simulation `here` panics
#[test]
fn sim_146_the_machine_of_the_program_stays() {
    let texts = run(1, || {
        [
            panic_text(|| sim::here().crash()),
            panic_text(|| sim::here().power_fail()),
            panic_text(|| sim::here().restart()),
            panic_text(|| sim::here().pause()),
        ]
    });
    for text in texts {
        assert!(text.contains("'root'") && text.contains("sim::host"), "{text}");
    }
    assert!(panic_text(|| drop(sim::here())).contains("outside"));
}

/// - given: a task that crashes its own host, under two shields
/// - when: it waits after that
/// - then: its waits fail, and the host can start again
#[test]
fn sim_147_a_host_crashes_itself() {
    each_strategy(|| {
        let (tx, rx) = ecru::channel::bounded(9);
        let host = sim::host("host", move || {
            let lock = ecru::sync::Mutex::new(());
            if tx.send("begins").is_err() {
                // The program has ended.
                return Ok(());
            }
            shield(|| {
                shield(|| {
                    sim::here().crash();
                    drop(lock.lock());
                    assert!(tx.send("from the inner shield").is_err());
                });
                assert!(tx.send("from the outer shield").is_err());
            });
            let _ = tx.send("from the grave");
            panic!("this is not reported");
        });
        for _ in 0..3 {
            assert_eq!(rx.recv(), Ok("begins"));
            sleep(SECOND).unwrap();
            assert!(rx.try_recv().is_err());
            host.restart();
        }
    });
}
