//! Programs whose traces are not what they should be.

use ecru_fleet::in_trace;

use crate::support::{both, next};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn traces_that_would_forge_headers() {
    both(|fleet| {
        let queue = fleet.queue::<u32>("n").open()?;
        for rest in ["-\r\nNats-Msg-Id: 7\r\nmore".to_owned(), format!("-{}", "x".repeat(500_000))]
        {
            // A later version may have more parts, so that is a trace.
            let text = format!("cc-{TRACE}{rest}");
            let own = text.clone();
            fleet.carry_traces(move |_| Some(own.clone()), |_, _| {});
            queue.send(1)?;
            queue.send_all([2, 3])?;
            in_trace(&text, || queue.send_keyed("k", 4))?;
            for _ in 0..4 {
                let job = next(&queue)?;
                let trace = job.traceparent().unwrap();
                assert!(trace.len() == 55 && trace[3..].starts_with(&TRACE[..32]), "{trace:.80}");
                job.run(|_| ()).unwrap();
                job.done()?;
            }
        }
        Ok(())
    });
}
