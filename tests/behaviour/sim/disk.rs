//! Files in simulations: unchanged programs of `ecru::fs`.

use ecru::fs::{self, File, OpenOptions, TryLockError};
use ecru::sim::{self, Faults, Host, Simulation};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Runs a program in a simulation without faults.
fn simulate(program: fn() -> io::Result<()>) {
    simulate_with(1, Faults::none(), program);
}

fn simulate_with<T: Send + 'static>(
    seed: u64,
    faults: Faults,
    program: fn() -> io::Result<T>,
) -> T {
    Simulation::new(seed).faults(faults).run(program).unwrap().unwrap()
}

/// - given: a program of `ecru::fs` in a simulation
/// - when: it reads and writes whole files, at the cursor, at offsets, and in vectors
/// - then: the same as on the kernel's files, and nothing is on the machine's disks
#[test]
fn sim_200_files() {
    simulate(|| {
        fs::write("file", "undyed")?;
        assert_eq!(fs::read_to_string("file")?, "undyed");
        let mut file = OpenOptions::new().read(true).write(true).open("file")?;
        file.seek(SeekFrom::End(0))?;
        file.write_all(b" cloth")?;
        assert_eq!(file.stream_position()?, 12);
        let mut word = [0; 5];
        file.read_exact_at(&mut word, 7)?;
        assert_eq!(&word, b"cloth");
        file.write_all_at(b"dyed", 20)?;
        file.seek(SeekFrom::Start(0))?;
        let mut all = Vec::new();
        file.read_to_end(&mut all)?;
        assert_eq!(all, b"undyed cloth\0\0\0\0\0\0\0\0dyed");
        file.set_len(6)?;
        assert_eq!(file.write_vectored(&[io::IoSlice::new(b"a"), io::IoSlice::new(b"b")])?, 2);
        assert_eq!(file.metadata()?.len(), 26);

        let mut log = OpenOptions::new().append(true).create(true).open("log")?;
        for line in ["one\n", "two\n"] {
            log.write_all(line.as_bytes())?;
        }
        assert_eq!(fs::copy("log", "copy")?, 8);
        assert_eq!(fs::read("copy")?, b"one\ntwo\n");
        let sparse = File::create_new("sparse")?;
        sparse.write_all_at(b"x", 5 << 30)?;
        assert_eq!(sparse.metadata()?.len(), (5 << 30) + 1);
        // Longer than one piece.
        let long = vec![7; 3 << 20];
        fs::write("long", &long)?;
        assert!(fs::read("long")? == long);
        Ok(())
    });
    assert!(!Path::new("sparse").exists() && !Path::new("long").exists());
}

/// - given: a program of `ecru::fs` in a simulation
/// - when: it creates, links, renames, lists and removes names
/// - then: the same results and errors as on the kernel's file systems; directories are listed in
///   the order of their names
#[test]
fn sim_201_names() {
    simulate(|| {
        fs::create_dir_all("folder/inner")?;
        fs::write("folder/b", "b")?;
        fs::write("folder/a", "a")?;
        fs::symlink("a", "folder/link")?;
        fs::hard_link("folder/a", "folder/c")?;
        let entries = fs::read_dir("folder")?.collect::<Result<Vec<_>, _>>()?;
        let names = entries.iter().map(|entry| entry.file_name().into_string().unwrap());
        assert_eq!(Vec::from_iter(names), ["a", "b", "c", "inner", "link"]);
        let kinds = entries.iter().map(|entry| entry.file_type().unwrap());
        assert_eq!(kinds.filter(|kind| kind.is_file()).count(), 3);
        assert!(entries[3].metadata()?.is_dir() && entries[4].metadata()?.is_symlink());

        fs::rename("folder/b", "folder/a")?;
        assert_eq!(fs::read_to_string("folder/link")?, "b");
        assert_eq!(fs::read_to_string("folder/c")?, "a");
        let real = fs::canonicalize("folder/inner/../link")?;
        assert_eq!(real, std::env::current_dir()?.join("folder/a"));
        assert_eq!(fs::read_link("folder/link")?, Path::new("a"));

        let kind = |outcome: io::Result<()>| outcome.unwrap_err().kind();
        assert_eq!(kind(fs::remove_dir("folder")), ErrorKind::DirectoryNotEmpty);
        assert_eq!(kind(fs::create_dir("folder")), ErrorKind::AlreadyExists);
        assert_eq!(kind(fs::remove_file("folder")), ErrorKind::IsADirectory);
        assert_eq!(kind(fs::remove_file("folder/a/b")), ErrorKind::NotADirectory);
        assert_eq!(kind(fs::rename("missing", "x")), ErrorKind::NotFound);
        assert_eq!(kind(fs::rename("folder", "folder/inner/x")), ErrorKind::InvalidInput);
        assert_eq!(kind(fs::write("n".repeat(256), "")), ErrorKind::InvalidFilename);
        assert_eq!(kind(File::create_new("folder/a").map(drop)), ErrorKind::AlreadyExists);
        assert!(!fs::exists("folder/missing")?);

        // An open file outlives its name.
        let mut open = File::open("folder/c")?;
        fs::remove_dir_all("folder")?;
        let mut text = String::new();
        open.read_to_string(&mut text)?;
        assert_eq!((text.as_str(), fs::exists("folder")?), ("a", false));
        assert!(fs::exists("/tmp")? && fs::exists(std::env::temp_dir())?);
        Ok(())
    });
}

/// - given: a file in a simulation
/// - when: its metadata are read, and its permissions and times are set
/// - then: kind, length, permissions and times are those of the simulation, in virtual time; a file
///   without the permission for reading cannot be opened
#[test]
fn sim_202_metadata() {
    simulate(|| {
        fs::write("one", "text")?;
        ecru::sleep(Duration::from_secs(3600))?;
        fs::write("other", "longer text")?;
        let (one, other) = (fs::metadata("one")?, fs::metadata("other")?);
        assert!(one.is_file() && (one.len(), other.len()) == (4, 11));
        let apart = other.modified()?.duration_since(one.modified()?).unwrap();
        assert_eq!(apart, Duration::from_secs(3600));
        assert!(fs::metadata("/tmp")?.is_dir());

        let file = File::open("one")?;
        file.set_modified(other.modified()?)?;
        assert_eq!(file.metadata()?.modified()?, other.modified()?);
        assert_eq!(file.metadata()?.accessed()?, one.accessed()?);
        fs::set_permissions("one", fs::Permissions::from_mode(0o200))?;
        assert_eq!(file.metadata()?.permissions().mode() & 0o777, 0o200);
        assert_eq!(File::open("one").unwrap_err().kind(), ErrorKind::PermissionDenied);
        Ok(())
    });
}

/// - given: two tasks in a simulation
/// - when: one holds the lock of a file for a minute, and the other waits for it
/// - then: the lock is acquired after a minute of virtual time
#[test]
fn sim_203_locks() {
    simulate(|| {
        let one = File::create("file")?;
        let other = File::open("file")?;
        one.lock()?;
        assert!(matches!(other.try_lock_shared(), Err(TryLockError::WouldBlock)));
        ecru::scope(|s| {
            s.spawn(|| {
                ecru::sleep(Duration::from_secs(60)).unwrap();
                one.unlock().unwrap();
            });
            other.lock().unwrap();
            let waited = sim::elapsed();
            assert!((Duration::from_secs(60)..Duration::from_secs(61)).contains(&waited));
        });
        drop(other);
        one.try_lock().unwrap();
        Ok(())
    });
}

/// - given: syncs that take five milliseconds
/// - when: a task syncs a file while others work
/// - then: the sync takes five milliseconds of virtual time, in which the others run; a cancelled
///   sync ends at once
#[test]
fn sim_204_slow_syncs() {
    let five = Duration::from_millis(5);
    let faults = Faults::none().sync_latency(five..=five);
    simulate_with(1, faults, || {
        let five = Duration::from_millis(5);
        let mut file = File::create("file")?;
        ecru::scope(|s| {
            let worker = s.spawn(|| {
                ecru::sleep(Duration::from_millis(2)).unwrap();
                sim::elapsed()
            });
            file.write_all(b"text").unwrap();
            file.sync_all().unwrap();
            assert_eq!(sim::elapsed(), five);
            assert_eq!(worker.join().unwrap(), Duration::from_millis(2));
        });
        let cut = ecru::timeout(Duration::from_millis(1), || file.sync_data());
        assert_eq!(sim::elapsed(), five + Duration::from_millis(1));
        assert!(cut.is_err() || cut.unwrap().is_err());
        file.sync_data()?;
        File::open(".")?.sync_all()?;
        assert_eq!(sim::elapsed(), five * 3 + Duration::from_millis(1));
        Ok(())
    });
}

/// - given: a disk of 64 KiB
/// - when: more is written
/// - then: `StorageFull`; the bytes that fitted were reported and are there, and there is room
///   again when a file is removed
#[test]
fn sim_205_full() {
    simulate_with(1, Faults::none().disk_capacity(64 << 10), || {
        fs::write("ballast", vec![1; 16 << 10])?;
        let mut file = File::create("file")?;
        let mut written = 0;
        let error = loop {
            match file.write(&[7; 5000]) {
                Ok(count) => written += count,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert_eq!(written, 48 << 10);
        assert_eq!(fs::read("file")?, vec![7; written]);
        assert_eq!(fs::write("other", "x").unwrap_err().kind(), ErrorKind::StorageFull);
        fs::remove_file("ballast")?;
        fs::write("other", "x")
    });
}

/// - given: reads, writes and syncs of which some fail, and some move fewer bytes
/// - when: a program repeats what failed
/// - then: it succeeds in the end; the errors are the system's `EIO`; runs with one seed have the
///   same faults, and other seeds have others
#[test]
fn sim_206_faults_of_a_seed() {
    fn program() -> io::Result<Vec<String>> {
        let mut log = Vec::new();
        let (file, text) =
            (OpenOptions::new().read(true).write(true).create(true).open("file")?, [7; 100]);
        let mut done = 0;
        while done < text.len() {
            let outcome = file.write_at(&text[done..], done as u64);
            log.push(format!("{outcome:?}"));
            match outcome {
                Ok(count) => done += count,
                Err(error) => assert_eq!(error.raw_os_error(), Some(5), "{error}"),
            }
        }
        for _ in 0..20 {
            log.push(format!("{:?} {:?}", file.sync_all(), file.read_at(&mut [0; 100], 0)));
        }
        Ok(log)
    }
    let faults = || Faults::none().disk_errors(0.3).short_transfers(0.5);
    let run = |seed| Simulation::new(seed).faults(faults()).run(program);
    let (one, again, other) = (run(1), run(1), run(2));
    assert_eq!(one.trace_hash, again.trace_hash);
    let [one, again, other] = [one, again, other].map(|report| report.unwrap().unwrap());
    assert!(one == again && one != other);
    assert!(one.iter().any(|line| line.starts_with("Err")), "{one:?}");
}

/// - given: a host that may have three open files
/// - when: it opens a fourth one
/// - then: the system's `EMFILE`, until one of the three is closed
#[test]
fn sim_207_open_files() {
    simulate_with(1, Faults::none().open_files(3), || {
        let mut files =
            (0..3).map(|number| File::create(number.to_string())).collect::<Result<Vec<_>, _>>()?;
        let error = File::create("another").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(24));
        let clone = files[0].try_clone()?;
        files.remove(0);
        assert!(File::open("1").is_err(), "the clone has kept the file open");
        drop(clone);
        File::open("1").map(drop)
    });
}

/// What a host finds in its file `log` at each of its starts.
type Findings = Arc<Mutex<Vec<Option<String>>>>;

/// Makes a host that appends a record to its log at each start, and does `then` after that.
fn store(then: impl Fn(&File) -> io::Result<()> + 'static) -> (Host, Findings) {
    let findings = Findings::default();
    let notes = Arc::clone(&findings);
    let host = sim::host("store", move || {
        let found = match fs::read_to_string("log") {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            found => Some(found?),
        };
        notes.lock().unwrap().push(found);
        let mut log = OpenOptions::new().append(true).create(true).open("log")?;
        log.write_all(b"record")?;
        then(&log)?;
        ecru::sleep(Duration::from_secs(3600))?;
        Ok(())
    });
    (host, findings)
}

/// - given: a host that acknowledges a record which it has written to a new file
/// - when: the power fails after the acknowledgement, and the host starts again
/// - then: without a sync the record is lost, is torn or has no name with some seeds, and is there
///   with others; with a sync of the file and of its directory it is there with every seed
#[test]
fn sim_208_power_failure() {
    fn found(seed: u64, syncs_file: bool, syncs_folder: bool) -> Option<String> {
        let program = move || {
            let (host, findings) = store(move |log| {
                if syncs_file {
                    log.sync_data()?;
                }
                if syncs_folder {
                    File::open(".")?.sync_all()?;
                }
                Ok(())
            });
            ecru::sleep(Duration::from_secs(1)).unwrap();
            host.power_fail();
            host.restart();
            ecru::sleep(Duration::from_secs(1)).unwrap();
            findings.lock().unwrap()[1].clone()
        };
        Simulation::new(seed).run(program).unwrap()
    }
    let all = |file, folder| BTreeSet::from_iter((0..40).map(|seed| found(seed, file, folder)));
    let texts = |texts: &[Option<&str>]| {
        BTreeSet::from_iter(texts.iter().map(|text| text.map(str::to_owned)))
    };
    let (record, zeros) = (Some("record"), Some("\0\0\0\0\0\0"));
    assert_eq!(all(false, false), texts(&[None, Some(""), zeros, record]));
    assert_eq!(all(false, true), texts(&[Some(""), zeros, record]));
    assert_eq!(all(true, false), texts(&[None, record]));
    assert_eq!(all(true, true), texts(&[record]));
}

/// - given: a host with unsynced files and a lock
/// - when: it crashes, and starts again
/// - then: its files are as it has written them, and the lock is free
#[test]
fn sim_209_crash() {
    let program = || {
        let (host, findings) = store(|log| Ok(log.try_lock()?));
        for _ in 0..2 {
            ecru::sleep(Duration::from_secs(1)).unwrap();
            host.crash();
            host.restart();
        }
        ecru::sleep(Duration::from_secs(1)).unwrap();
        findings.lock().unwrap().clone()
    };
    for seed in 0..10 {
        let found = Simulation::new(seed).run(program).unwrap();
        assert_eq!(found, [None, Some("record".into()), Some("recordrecord".into())]);
    }
}

/// - given: a host whose task has a file open and does not end at once when the host crashes
/// - when: it writes to the file, or to another one, after the crash
/// - then: the writes fail, and have no effect
#[test]
fn sim_210_nothing_after_a_crash() {
    let program = || {
        let outcomes = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&outcomes);
        let (host, findings) = store(move |log| {
            let _ = ecru::sleep(Duration::from_secs(3600));
            let late = ecru::shield(|| {
                [(&*log).write_all(b"late"), fs::write("log", "late"), fs::remove_file("log")]
            });
            notes.lock().unwrap().extend(late.map(|outcome| outcome.is_err()));
            Ok(())
        });
        ecru::sleep(Duration::from_secs(1)).unwrap();
        host.crash();
        ecru::sleep(Duration::from_secs(1)).unwrap();
        host.restart();
        ecru::sleep(Duration::from_secs(1)).unwrap();
        let found = findings.lock().unwrap()[1].clone();
        (found, outcomes.lock().unwrap().clone())
    };
    let (found, failed) = Simulation::new(1).run(program).unwrap();
    assert_eq!((found.as_deref(), failed), (Some("record"), vec![true; 3]));
}

/// - given: two hosts
/// - when: both write a file with the same name
/// - then: each reads its own, and the closure of the simulation sees neither
#[test]
fn sim_211_files_of_hosts() {
    let program = || {
        for name in ["one", "other"] {
            sim::host(name, move || {
                fs::write("name", name)?;
                ecru::sleep(Duration::from_secs(1))?;
                assert_eq!(fs::read_to_string("name")?, name);
                Ok(())
            });
        }
        ecru::sleep(Duration::from_secs(2)).unwrap();
        fs::exists("name").unwrap()
    };
    assert!(!Simulation::new(1).run(program).unwrap());
}

/// - given: a disk that is full, fails and is slow
/// - when: the faults end with `calm`
/// - then: everything succeeds, in no virtual time
#[test]
fn sim_212_calm() {
    let second = Duration::from_secs(1);
    let faults = Faults::none().disk_errors(1.0).disk_capacity(0).sync_latency(second..=second);
    simulate_with(1, faults.open_files(1), || {
        let file = File::create("file")?;
        assert!(fs::write("other", "text").is_err());
        assert_eq!((&file).write(b"text").unwrap_err().raw_os_error(), Some(5));
        sim::calm();
        fs::write("other", "text")?;
        (&file).write_all(b"text")?;
        file.sync_all()?;
        assert_eq!(sim::elapsed(), Duration::ZERO);
        Ok(())
    });
}

/// - given: a program that replaces a file by writing a new one, syncing it, renaming it, and
///   syncing the directory
/// - when: each of its operations fails with `EIO`, one in each run
/// - then: the program gets the error, and the file is the old one or the new one
#[test]
fn sim_213_each_operation_fails() {
    sim::fault_everywhere(|| {
        fn replace(text: &str) -> io::Result<()> {
            let mut file = File::create("file.new")?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename("file.new", "file")?;
            File::open(".")?.sync_all()
        }
        let first = replace("old");
        let second = replace("new");
        let found = fs::read_to_string("file");
        let texts: &[&str] = match (first.is_ok(), second.is_ok()) {
            (_, true) => &["new"],
            // The last sync fails after the rename.
            (true, false) => &["old", "new"],
            (false, false) => panic!("one operation fails in each run"),
        };
        match found {
            Ok(text) => assert!(texts.contains(&text.as_str()), "{text}"),
            Err(error) => assert_eq!(error.raw_os_error(), Some(5), "{error}"),
        }
    });
}

/// - given: a host with a sync under way that cannot be cancelled
/// - when: the host crashes
/// - then: the sync fails at once, in no virtual time
#[test]
fn sim_214_a_crash_ends_syncs() {
    let minute = Duration::from_secs(60);
    let program = || {
        let outcome = Arc::new(Mutex::new(None));
        let note = Arc::clone(&outcome);
        let (host, _) = store(move |log| {
            let synced = ecru::shield(|| log.sync_all().is_ok());
            *note.lock().unwrap() = Some((synced, sim::elapsed()));
            Ok(())
        });
        ecru::sleep(Duration::from_secs(1)).unwrap();
        host.crash();
        sim::settle();
        *outcome.lock().unwrap()
    };
    let faults = Faults::none().sync_latency(minute..=minute);
    let outcome = Simulation::new(1).faults(faults).run(program).unwrap();
    assert_eq!(outcome, Some((false, Duration::from_secs(1))));
}
