//! Hosts that lose their power: what was synced is there, whatever was cancelled or has failed.

use super::everywhere_with_faults;
use ecru::fs::{self, File, OpenOptions};
use ecru::{shield, sim};
use std::io::{self, Write};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Repeats a call that may be the one that fails. No second one does.
#[track_caller]
fn insist<T>(call: impl Fn() -> io::Result<T>) -> T {
    shield(|| call().or_else(|_| call())).expect("only one operation fails")
}

/// Writes a file beside the old one, syncs it, and gives it the old one's name.
fn replace(content: &str) -> io::Result<()> {
    let mut new = File::create("file.new")?;
    new.write_all(content.as_bytes())?;
    new.sync_all()?;
    fs::rename("file.new", "file")?;
    File::open(".")?.sync_all()
}

#[test]
fn a_replaced_file_survives_slow() {
    everywhere_with_faults(|| {
        let (found, is_replaced) = (Arc::new(Mutex::new(None)), Arc::new(AtomicU32::new(0)));
        let (note, replaced) = (Arc::clone(&found), Arc::clone(&is_replaced));
        let host = sim::host("host", move || {
            if fs::exists("file").is_ok_and(|exists| exists) {
                *note.lock().unwrap() = Some(insist(|| fs::read_to_string("file")));
                return Ok(());
            }
            if replace("old content").is_ok() {
                replaced.store(1, Relaxed);
                if replace("new content").is_ok() {
                    replaced.store(2, Relaxed);
                }
            }
            Ok(())
        });
        shield(|| {
            ecru::sleep(SECOND).unwrap();
            let replaced = is_replaced.load(Relaxed);
            host.power_fail();
            host.restart();
            ecru::sleep(SECOND).unwrap();
            // The second incarnation may be the one that was cancelled, or the first.
            match (&*found.lock().unwrap(), replaced) {
                (Some(found), 2) => assert_eq!(found, "new content"),
                (Some(found), _) => {
                    assert!(found == "old content" || found == "new content", "{found:?}");
                }
                (None, _) => {}
            }
        });
    });
}

/// Each record that was synced is in the log after a power failure.
#[test]
fn a_synced_record_survives_slow() {
    everywhere_with_faults(|| {
        let (acknowledged, found) =
            (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(None::<Vec<u8>>)));
        let (counter, note) = (Arc::clone(&acknowledged), Arc::clone(&found));
        let host = sim::host("host", move || {
            if fs::exists("log").is_ok_and(|exists| exists) {
                *note.lock().unwrap() = Some(insist(|| fs::read("log")));
                return Ok(());
            }
            let append = || -> io::Result<()> {
                let mut log = OpenOptions::new().append(true).create(true).open("log")?;
                File::open(".")?.sync_all()?;
                for record in 0..3 {
                    log.write_all(&[record; 600])?;
                    log.sync_data()?;
                    counter.fetch_add(1, Relaxed);
                }
                Ok(())
            };
            let _ = append();
            Ok(())
        });
        shield(|| {
            ecru::sleep(SECOND).unwrap();
            host.power_fail();
            host.restart();
            ecru::sleep(SECOND).unwrap();
            let whole = 600 * acknowledged.load(Relaxed) as usize;
            if let Some(found) = &*found.lock().unwrap() {
                assert!(found.len() >= whole, "{} bytes", found.len());
                let expected = |place: usize| (place / 600) as u8;
                assert!((0..whole).all(|place| found[place] == expected(place)));
            }
        });
    });
}
