//! A log whose new segments are synced, but not the directory that names them: a power failure
//! removes a whole segment of acknowledged records.

use super::{Form, is_found, passes};
use ecru::fs::{self, File};
use ecru::{sim, sleep};
use std::io::{self, Write};
use std::time::Duration;

const SEGMENTS: u32 = 4;

fn append(form: Form, number: u32) -> io::Result<()> {
    let mut segment = File::create(format!("/segment-{number}"))?;
    segment.write_all(&number.to_le_bytes())?;
    segment.sync_all()?;
    if form == Form::Repaired {
        File::open("/")?.sync_all()?;
    }
    sim::note(format!("acknowledged {number}"));
    Ok(())
}

/// Appends segments in its first life, and lists them in the next one.
fn log(form: Form) -> io::Result<()> {
    if sim::notes().iter().any(|note| note.text == "power") {
        for number in (0..SEGMENTS).filter(|number| {
            let acknowledged = format!("acknowledged {number}");
            sim::notes().iter().any(|note| note.text == acknowledged)
        }) {
            let is_there = fs::exists(format!("/segment-{number}"))?;
            assert!(is_there, "segment {number} is acknowledged and missing");
        }
        return Ok(());
    }
    for number in 0..SEGMENTS {
        append(form, number)?;
        sleep(Duration::from_millis(10))?;
    }
    Ok(())
}

fn program(form: Form) {
    let host = sim::host("log", move || log(form));
    sleep(Duration::from_millis(sim::random_u64() % 50)).unwrap();
    host.power_fail();
    sim::note("power");
    host.restart();
    sleep(Duration::from_secs(1)).unwrap();
}

#[test]
fn log_without_directory_sync_is_found() {
    let loses = "(the directory '/' was not synced)";
    is_found(
        program,
        &["is acknowledged and missing", "has synced '/segment-", "loses its power", loses],
    );
}

#[test]
fn log_without_directory_sync_is_repaired_slow() {
    passes(program);
}

pub(super) const BUG: super::table::Bug = ("log without a sync of its directory", program);
