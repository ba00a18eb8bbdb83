//! The control run: workers that acknowledge a job before they work on it, and are killed. The
//! proof must refuse it.

use std::io;
use std::path::Path;
use std::time::Duration;

use ecru::Scope;

use crate::conductor::LOOK;
use crate::crew::Crew;
use crate::field::Field;
use crate::journal::Line;
use crate::proof::{End, Evidence, Process};
use crate::shop::{self, Name, WINDOW};

/// How many workers there are.
const WORKERS: usize = 3;

/// How many jobs must be acknowledged by workers that are killed before they have worked.
const ENOUGH: usize = 3;

/// The pause between two kills.
const KILLS: Duration = Duration::from_millis(200);

/// Kills workers until enough jobs are lost, and returns the evidence.
pub(crate) fn run<'s>(
    s: &'s Scope<'s, '_>,
    field: &Field,
    folder: &Path,
) -> io::Result<(Evidence, Vec<String>)> {
    let queue = shop::queue(&shop::connect(s, field.direct_urls())?, Name::Control)?;
    let crew = Crew::new(&folder.join("control"), &field.urls())?;
    crew.start("sender", &["0", Name::Control.text()])?;
    let mut pick = 0;
    while acknowledged_in_vain(&crew.processes()?) < ENOUGH {
        crew.reap()?;
        for _ in crew.running("control").len()..WORKERS {
            crew.start("control", &[])?;
        }
        let busy = crew.busy("control");
        if let Some(victim) = busy.get(pick % busy.len().max(1)) {
            crew.kill(*victim)?;
            pick += 1;
        }
        ecru::sleep(KILLS)?;
    }
    let until_gone = |role| {
        while !crew.running(role).is_empty() {
            crew.terminate(role)?;
            ecru::sleep(LOOK)?;
            crew.reap()?;
        }
        Ok::<(), io::Error>(())
    };
    until_gone("sender")?;
    crew.start("control", &[])?;
    let left = || queue.stats().map(|stats| stats.queued + stats.running);
    while shop::until(left)? > 0 {
        ecru::sleep(LOOK)?;
    }
    until_gone("control")?;
    let (processes, workers, window) = (crew.processes()?, WORKERS, WINDOW);
    let evidence = Evidence { processes, workers, window, ..Evidence::default() };
    Ok((evidence, crew.unexpected()))
}

/// Returns how many jobs were acknowledged by a process that was killed before it had worked.
fn acknowledged_in_vain(processes: &[Process]) -> usize {
    let killed = processes.iter().filter(|process| process.end == End::Killed);
    let open = killed.map(|process| {
        let count = |is_meant: fn(&Line) -> bool| {
            process.lines.iter().filter(|line| is_meant(line)).count()
        };
        let done = count(|line| matches!(line, Line::Done { .. }));
        done - count(|line| matches!(line, Line::Worked { .. }))
    });
    open.sum()
}
