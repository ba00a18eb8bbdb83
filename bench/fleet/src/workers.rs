//! Processes that work for a coordinator, and how it starts them.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use ecru_fleet::{Fleet, Function, JobError, Queue, Run};

use crate::Result;
use crate::measure::Sample;

/// Serves the function of naps with a number of slots, until it is killed.
pub(crate) const NAPS: &str = "worker-naps";

/// Takes a number of jobs and keeps them, until it is killed.
pub(crate) const HOLD: &str = "worker-hold";

/// The lease of the jobs that are kept.
pub(crate) const LEASE: Duration = Duration::from_secs(1);

/// Opens the function that sleeps for a number of milliseconds.
pub(crate) fn function<'scope>(fleet: &Fleet<'scope>) -> Result<Function<'scope, u64, u64>> {
    let nap = |milliseconds: u64, _run: &Run| {
        ecru::sleep(Duration::from_millis(milliseconds))?;
        Ok::<_, JobError>(milliseconds)
    };
    Ok(fleet.function("nap", nap).open()?)
}

/// Opens the queue whose jobs are kept.
pub(crate) fn queue(fleet: &Fleet<'_>) -> Result<Queue<u64>> {
    Ok(fleet.queue("held").lease(LEASE).open()?)
}

pub(crate) fn naps(url: &str, slots: usize) -> Result<Sample> {
    ecru::run(|| {
        ecru::scope(|s| {
            let nap = function(&Fleet::connect(s, url)?)?;
            println!("ready");
            nap.serve(slots)?;
            Ok(Vec::new())
        })
    })
}

pub(crate) fn hold(url: &str, jobs: usize) -> Result<Sample> {
    ecru::run(|| {
        ecru::scope(|s| {
            let given = queue(&Fleet::connect(s, url)?)?.jobs(jobs)?;
            println!("ready");
            let held: Vec<_> = given.iter().take(jobs).collect();
            println!("begun");
            // Their leases are renewed meanwhile.
            ecru::sleep(Duration::from_hours(1))?;
            drop(held);
            Ok(Vec::new())
        })
    })
}

/// A process that works for this one. It is killed when this is dropped.
pub(crate) struct Worker {
    process: Child,
    words: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    /// Starts a worker, and waits until it is ready.
    pub(crate) fn start(work: &str, url: &str, number: usize) -> Result<Worker> {
        let mut command = Command::new("setpriv");
        // The kernel kills it if this process is killed.
        command.args(["--pdeathsig", "KILL", "--"]).arg(std::env::current_exe()?);
        command.args(["ecru", work, url]).arg(number.to_string()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let words = BufReader::new(process.stdout.take().ok_or("piped")?).lines();
        let mut worker = Worker { process, words };
        worker.wait_for("ready")?;
        Ok(worker)
    }

    /// Waits for the worker's next word. Blocks this thread.
    pub(crate) fn wait_for(&mut self, word: &str) -> Result<()> {
        match self.words.next() {
            Some(Ok(line)) if line == word => Ok(()),
            other => Err(format!("{other:?} instead of {word}").into()),
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends SIGKILL.
    pub(crate) fn kill(&mut self) -> Result<()> {
        Ok(self.process.kill()?)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
