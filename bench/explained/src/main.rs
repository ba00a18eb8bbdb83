//! The same work on ecru, without and with a recorder, and on tokio, without and with the subscriber
//! of its console.
//!
//! ```sh
//! ecru-bench-explained measure ecru yield
//! ecru-bench-explained measure ecru-recorded echo
//! ecru-bench-explained measure tokio spawn-join
//! ecru-bench-explained measure tokio-console spawn-join   # needs the feature `console`
//! ```
//! Each process makes one round of one work on one thread, and prints the wall time and the processor
//! time of one operation in nanoseconds. The processor time is that of the whole process, so it
//! contains what a subscriber does on a thread of its own.

mod on_ecru;
mod on_tokio;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The time of an unmeasured beginning, and of the measured part.
const WARM_UP: Duration = Duration::from_millis(10);
const WINDOW: Duration = Duration::from_millis(80);
/// Operations between two looks at the clock.
const BATCH: u32 = 64;
/// The bytes of an echo.
const ECHO: usize = 64;

/// A loop that both sides have.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// Two tasks yield in turn. An operation is one yield of one task.
    Yield,
    /// An empty task is spawned and joined.
    SpawnJoin,
    /// A value is sent to another task over a channel with room for one, and its answer is received.
    Channel,
    /// 64 bytes go to another task over TCP and back.
    Echo,
}

impl Work {
    fn of(name: &str) -> Option<Work> {
        Some(match name {
            "yield" => Work::Yield,
            "spawn-join" => Work::SpawnJoin,
            "channel" => Work::Channel,
            "echo" => Work::Echo,
            _ => return None,
        })
    }
}

/// Measures the time of one operation. The works call it between batches.
#[derive(Debug)]
struct Meter {
    begun: Instant,
    measured: Option<(Instant, Duration)>,
    operations: u64,
    result: Option<(f64, f64)>,
}

impl Meter {
    fn start() -> Meter {
        Meter { begun: Instant::now(), measured: None, operations: 0, result: None }
    }

    /// A batch is over. Returns whether another one is to be made.
    fn goes_on(&mut self) -> bool {
        match self.measured {
            None if self.begun.elapsed() < WARM_UP => true,
            None => {
                self.measured = Some((Instant::now(), processor_time()));
                true
            }
            Some((since, used)) => {
                self.operations += u64::from(BATCH);
                let passed = since.elapsed();
                if passed < WINDOW {
                    return true;
                }
                let of_each = |time: Duration| time.as_nanos() as f64 / self.operations as f64;
                self.result = Some((of_each(passed), of_each(processor_time() - used)));
                false
            }
        }
    }
}

/// Returns the processor time of this process.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).expect("it is positive")
}

fn measure(side: &str, work: &str) -> Option<Meter> {
    let work = Work::of(work)?;
    Some(match side {
        "ecru" => on_ecru::measure(work, false),
        "ecru-recorded" => on_ecru::measure(work, true),
        "tokio" => on_tokio::measure(work),
        #[cfg(feature = "console")]
        "tokio-console" => on_tokio::with_console(work),
        _ => return None,
    })
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let meter = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["measure", side, work] => measure(side, work),
        _ => None,
    };
    let Some((time, cpu)) = meter.and_then(|meter| meter.result) else {
        eprintln!("usage: ecru-bench-explained measure ecru|ecru-recorded|tokio|tokio-console yield|spawn-join|channel|echo");
        return ExitCode::FAILURE;
    };
    println!("time {time}\ncpu {cpu}");
    ExitCode::SUCCESS
}
