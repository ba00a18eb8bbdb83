//! Faults of one host, one link or some files, and disks and clocks that do not tell the truth.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use ecru::fs::{self, File};
use ecru::net::{TcpListener, TcpStream};
use ecru::sim::{self, Explore, Faults, Simulation, Strategy, Trace};

use crate::support::ms;

const SECTOR: u64 = 512;

fn seeds(seeds: u64) -> Explore {
    Explore::Seeds { seeds: 0..seeds, strategy: Strategy::Random }
}

/// Checks that a bug is found, by one fault of this kind, with a trace that repeats it without the
/// probabilities, and that the repaired program passes.
#[track_caller]
fn finds(word: &str, faults: &Faults, bug: fn(), repaired: fn()) {
    let settings = || Simulation::default().faults(faults.clone());
    let found = settings().explore(seeds(100), bug).expect_err("the bug is found");
    let text = found.to_string();
    let mut lines = text.lines().filter(|line| line.starts_with("fault: "));
    assert!(lines.next().is_some_and(|line| line.contains(&format!("({word}@"))), "{text}");
    assert_eq!(lines.next(), None, "{text}");
    assert!(found.timeline().to_string().contains("fault: "), "{text}");
    let trace: Trace = found.trace.to_string().parse().unwrap();
    let again = Simulation::new(found.seed).strategy(Strategy::Replay(trace));
    // The plan of outages is part of the settings.
    let again = if word == "jump" { again.faults(faults.clone()) } else { again };
    assert!(again.run(bug).result.unwrap_err().to_string().starts_with("panicked"), "{text}");
    settings().explore(seeds(100), repaired).expect("the repaired program passes");
}

fn open(path: &str) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

/// - given: plans for one host, for one link and for some files, beside one for all others
/// - when: hosts use their disks and the network
/// - then: each plan holds where it is meant to, in place of the others
#[test]
fn sim_395_faults_of_one_host_one_link_and_some_files() {
    fn asks(name: &str) -> Result<(), ErrorKind> {
        let mut stream = TcpStream::connect((name, 80)).map_err(|error| error.kind())?;
        stream.write_all(b"?").map_err(|error| error.kind())
    }
    let errors = || Faults::none().disk_errors(1.0);
    let faults = errors()
        .on_host("Good", Faults::none().on_files("log", errors()))
        .on_host("client", Faults::none())
        .on_host("root", Faults::none().refused_connections(1.0))
        .on_link("client", "bad", Faults::none().resets(1.0));
    let report = Simulation::new(1).faults(faults).run(|| {
        for name in ["good", "bad"] {
            sim::host(name, move || {
                let is_good = name == "good";
                assert_eq!(fs::write("file", "text").is_ok(), is_good);
                fs::create_dir("log")?;
                assert!(fs::write("log/1", "text").is_err());
                assert_eq!(fs::write("logs", "text").is_ok(), is_good);
                let listener = TcpListener::bind("0.0.0.0:80")?;
                loop {
                    let (mut stream, _) = listener.accept()?;
                    let _ = stream.read(&mut [0]);
                }
            });
        }
        sim::settle();
        sim::host("client", || {
            fs::write("file", "text")?;
            assert_eq!(asks("good"), Ok(()));
            assert_eq!(asks("bad"), Err(ErrorKind::ConnectionReset));
            sim::note("has asked");
            Ok(())
        });
        assert_eq!(asks("good"), Err(ErrorKind::ConnectionRefused));
        fs::write("file", "text").unwrap();
        ecru::sleep(ms(100)).unwrap();
        assert_eq!(sim::notes().len(), 1);
        sim::calm();
        assert_eq!(asks("good"), Ok(()));
    });
    report.unwrap();
}

/// - given: outages that are planned for one host and for one link
/// - when: programs run with many seeds
/// - then: no other host or link has any
#[test]
fn sim_396_outages_of_one_host_and_one_link() {
    let second = Duration::from_secs(1);
    let plan = Faults::none()
        .outages_within(second)
        .on_host("b", Faults::none().crashes(3).outages_within(second))
        .on_link("c", "a", Faults::none().partitions(3).outages_within(second));
    let (mut crashes, mut cuts) = (0, 0);
    for seed in 0..20 {
        let report = Simulation::new(seed).faults(plan.clone()).run(move || {
            for name in ["a", "b", "c"] {
                sim::host(name, || {
                    ecru::sleep(Duration::from_secs(60))?;
                    Ok(())
                });
            }
            ecru::sleep(Duration::from_secs(10)).unwrap();
        });
        for event in report.timeline().events() {
            let (host, text) = (&*event.host, &*event.text);
            crashes += u32::from(text == "crashes");
            assert!(text != "crashes" || host == "b", "{host} {text}");
            if text.starts_with("fault: partition") {
                cuts += 1;
                assert!(text.contains("'c'") && text.contains("'a'"), "{text}");
            }
        }
        report.unwrap();
    }
    assert!(crashes > 5 && cuts > 5, "{crashes} {cuts}");
}

/// - given: a program that acknowledges what one disk has synced, and one that needs two disks, of
///   which one lies
/// - when: syncs may succeed that have written a part
/// - then: the first program is found out, by one such sync
#[test]
fn sim_397_a_disk_that_lies_about_a_sync() {
    fn record(names: &'static [&'static str]) {
        let hosts: Vec<_> = names
            .iter()
            .map(|name| {
                sim::host(name, || {
                    match fs::read("record") {
                        Ok(bytes) if bytes == [7; 2000] => sim::note("has it"),
                        Ok(_) => {}
                        Err(_) => {
                            fs::write("record", [7; 2000])?;
                            File::open("record")?.sync_all()?;
                            File::open(".")?.sync_all()?;
                            sim::note("synced");
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        ecru::sleep(Duration::from_secs(1)).unwrap();
        hosts.iter().for_each(|host| host.power_fail());
        hosts.iter().for_each(|host| host.restart());
        ecru::sleep(Duration::from_secs(1)).unwrap();
        let notes = sim::notes();
        assert!(notes.iter().filter(|note| note.text == "synced").count() == names.len());
        assert!(notes.iter().any(|note| note.text == "has it"), "an acknowledged record is lost");
    }
    let faults = Faults::none().on_host("one", Faults::none().lying_syncs(0.3));
    finds("lie", &faults, || record(&["one"]), || record(&["one", "two"]));
}

/// - given: a file of pages that are taken for what they should be, and one whose pages have numbers
///   and a copy elsewhere
/// - when: writes may go to another place of the file
/// - then: the first program is found out, by one such write
#[test]
fn sim_398_a_write_that_goes_astray() {
    const PAGES: u8 = 4;
    fn pages(is_checked: bool) {
        let (file, copy) = (open("pages"), open("copy"));
        let page = |number: u8| [number + 1; SECTOR as usize];
        for number in 0..PAGES {
            for file in [&file, &copy] {
                file.write_all_at(&page(number), u64::from(number) * SECTOR).unwrap();
            }
        }
        for number in 0..PAGES {
            let mut found = [0; SECTOR as usize];
            let place = u64::from(number) * SECTOR;
            file.read_exact_at(&mut found, place).unwrap();
            if is_checked && found[0] != number + 1 {
                copy.read_exact_at(&mut found, place).unwrap();
            }
            assert_eq!(found, page(number), "page {number} is another one");
        }
    }
    let faults = Faults::none().on_files("pages", Faults::none().misdirected_writes(0.1));
    finds("astray", &faults, || pages(false), || pages(true));
}

/// - given: a value that is read as it is, and one with a checksum and a copy
/// - when: bits of the file may change
/// - then: the first program is found out, by one such bit, and the bit stays as it is
#[test]
fn sim_399_a_bit_that_changes() {
    fn sum(bytes: &[u8]) -> u8 {
        bytes.iter().fold(0, |sum: u8, byte| sum.rotate_left(1) ^ byte)
    }
    fn value(is_checked: bool) {
        let mut record = vec![9; 100];
        record.push(sum(&record));
        fs::write("value", &record).unwrap();
        fs::write("copy", &record).unwrap();
        let mut found = fs::read("value").unwrap();
        if is_checked && sum(&found[..100]) != found[100] {
            found = fs::read("copy").unwrap();
        }
        if found != record {
            let differ = |(one, other): (&u8, &u8)| (one ^ other).count_ones();
            assert_eq!(found.iter().zip(&record).map(differ).sum::<u32>(), 1);
            sim::calm();
            assert_eq!(fs::read("value").unwrap(), found);
            panic!("the value is another one");
        }
    }
    let faults = Faults::none().on_files("value", Faults::none().bit_rot(0.1));
    finds("rot", &faults, || value(false), || value(true));
}

/// - given: a program that takes the file with the latest time for the newest one, and one that
///   numbers its files
/// - when: wall clocks may jump
/// - then: the first program is found out, by one jump; the other clock does not jump
#[test]
fn sim_400_a_wall_clock_that_jumps() {
    fn snapshots(by_time: bool) {
        sim::host("store", move || {
            for number in 0..10 {
                let (begun, time) = (ecru::time::now(), sim::elapsed());
                fs::write(format!("snapshot{number}"), number.to_string())?;
                ecru::sleep(Duration::from_secs(1))?;
                assert_eq!(ecru::time::now() - begun, sim::elapsed() - time);
            }
            let newest = (0..10).max_by_key(|number| {
                let modified = || fs::metadata(format!("snapshot{number}"))?.modified();
                (by_time.then(|| modified().unwrap()), *number)
            });
            assert_eq!(newest, Some(9), "an old snapshot is taken for the newest one");
            Ok(())
        });
        ecru::sleep(Duration::from_secs(60)).unwrap();
    }
    finds("jump", &Faults::none().clock_jumps(2), || snapshots(true), || snapshots(false));
}

/// - given: a machine whose wall clock is moved forward and back
/// - when: it is restarted, and its clock is moved to before the epoch
/// - then: its files have the times of its own clock, which is never before the epoch
#[test]
fn sim_401_a_wall_clock_is_moved() {
    let report = Simulation::new(1).run(|| {
        let time = || {
            fs::write("file", "text").unwrap();
            fs::metadata("file").unwrap().modified().unwrap()
        };
        let first = time();
        sim::here().jump(90_000);
        assert_eq!(time(), first + Duration::from_secs(90));
        sim::here().jump(-30_000);
        ecru::sleep(Duration::from_secs(1)).unwrap();
        assert_eq!(time(), first + Duration::from_secs(61));
        let other = sim::host("other", move || {
            fs::write("file", "text")?;
            let ahead = fs::metadata("file")?.modified()?.duration_since(first).unwrap();
            sim::note(ahead.as_secs().to_string());
            Ok(())
        });
        sim::settle();
        other.jump(5_000);
        other.restart();
        sim::settle();
        let notes: Vec<String> = sim::notes().into_iter().map(|note| note.text).collect();
        assert_eq!(notes, ["1", "6"]);
        sim::here().jump(i64::MIN);
        sim::here().jump(i64::MIN);
        assert_eq!(time(), std::time::SystemTime::UNIX_EPOCH);
    });
    report.unwrap();
}
