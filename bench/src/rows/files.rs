//! Whole files, in memory and on a disk's file system. The cost of a small file is in the calls,
//! and the cost of a large file is in the copying.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::statfs;

use crate::harness::{Contender, Metric, Row, Sample, Unit};
use crate::peers;

/// The direction of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Read,
    Write,
}

/// The location of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// `/dev/shm`, a tmpfs.
    Memory,
    /// Beside this program.
    Disk,
}

impl Place {
    fn folder(self) -> PathBuf {
        match self {
            Place::Memory => "/dev/shm".into(),
            Place::Disk => {
                let this = std::env::current_exe().expect("the running program has a path");
                this.parent().expect("it lies in a folder").to_owned()
            }
        }
    }

    /// Returns the kind of file system, for titles.
    fn kind(self) -> &'static str {
        match statfs(self.folder()).map(|found| found.f_type as u64) {
            Ok(0x0102_1994) => "tmpfs",
            Ok(0xEF53) => "ext4",
            Ok(0x5846_5342) => "xfs",
            Ok(0x9123_683E) => "btrfs",
            _ => "another file system",
        }
    }
}

/// Returns the work of a family and its location, if it is about files.
pub(crate) fn file_family(family: &str) -> Option<(&'static str, Way, Place)> {
    match family {
        "files-read" => Some(("files-read", Way::Read, Place::Memory)),
        "files-write" => Some(("files-write", Way::Write, Place::Memory)),
        "files-read-disk" => Some(("files-read-disk", Way::Read, Place::Disk)),
        "files-write-disk" => Some(("files-write-disk", Way::Write, Place::Disk)),
        _ => None,
    }
}

/// Creates one row: a file of this size, transferred repeatedly.
pub(super) fn build(family: &str, size: Option<usize>) -> Option<Row> {
    let ((family, way, place), size) = (file_family(family)?, size?);
    let verb = if way == Way::Read { "read" } else { "write" };
    let mut contenders = vec![
        Contender::sampled("std", move || whole(way, place, size))
            .note("the whole file in one call"),
        Contender::sampled("std-streaming", move || streaming(way, place, size))
            .note("8 KiB at a time"),
        Contender::sampled("tokio", move || on_tokio(way, place, size)),
        Contender::sampled("monoio", move || on_monoio(way, place, size)).note("on io_uring"),
    ];
    if place == Place::Memory {
        contenders.push(
            Contender::jdk(&[family, &size.to_string()])
                .note("java.nio.file.Files' readString and writeString, after a second's warming"),
        );
    }
    Some(Row {
        family,
        number: Some(size),
        title: format!("{verb} a file of {size} bytes on {}, one worker", place.kind()),
        cores: 1,
        metrics: &[Metric::TIME, Metric { name: "spread", unit: Unit::Nanoseconds }],
        contenders,
        note: "time: the median; spread: the standard deviation of one process's operations; an operation opens, transfers and closes, \
               and writing replaces what is there",
    })
}

/// A file that exists while this value lives.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Creates a file of this size.
    pub(crate) fn new(place: Place, size: usize) -> Scratch {
        let path = place.folder().join(format!("ecru-bench-{}", std::process::id()));
        std::fs::write(&path, data(size)).expect("there is room");
        Scratch(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).expect("it is there");
    }
}

/// Returns the bytes to write.
pub(crate) fn data(size: usize) -> Vec<u8> {
    vec![b'e'; size]
}

/// The buffer size for reading or writing piece by piece, which is that of std.
pub(crate) const PIECE: usize = 8 << 10;

/// The times of single operations.
pub(crate) struct Times {
    all: Vec<f64>,
    warming: usize,
    wanted: usize,
}

impl Times {
    /// Creates the list for files of this size, with enough operations for a tenth of a second or
    /// more.
    pub(crate) fn new(size: usize) -> Times {
        let wanted = if size <= 1 << 20 { 20_000 } else { 20 };
        Times { all: Vec::with_capacity(wanted), warming: wanted / 10, wanted }
    }

    /// Returns whether more operations are to be measured.
    pub(crate) fn want_more(&self) -> bool {
        self.all.len() < self.wanted
    }

    pub(crate) fn add(&mut self, took: Duration) {
        match self.warming.checked_sub(1) {
            Some(left) => self.warming = left,
            None => self.all.push(took.as_secs_f64() * 1e9),
        }
    }

    pub(crate) fn sample(mut self) -> Sample {
        self.all.sort_by(f64::total_cmp);
        let count = self.all.len() as f64;
        let mean = self.all.iter().sum::<f64>() / count;
        let variance = self.all.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / count;
        vec![(Metric::TIME.name, self.all[self.all.len() / 2]), ("spread", variance.sqrt())]
    }

    /// Measures calls of `operation`.
    pub(crate) fn of(size: usize, mut operation: impl FnMut()) -> Sample {
        let mut times = Times::new(size);
        while times.want_more() {
            let began = Instant::now();
            operation();
            times.add(began.elapsed());
        }
        times.sample()
    }
}

fn whole(way: Way, place: Place, size: usize) -> Sample {
    let (file, data) = (Scratch::new(place, size), data(size));
    Times::of(size, || match way {
        Way::Read => assert_eq!(std::fs::read(file.path()).expect("it is there").len(), size),
        Way::Write => std::fs::write(file.path(), &data).expect("there is room"),
    })
}

fn streaming(way: Way, place: Place, size: usize) -> Sample {
    let (file, data) = (Scratch::new(place, size), data(size));
    Times::of(size, || match way {
        Way::Read => {
            let file = File::open(file.path()).expect("it is there");
            assert_eq!(read_pieces(file).len(), size);
        }
        Way::Write => {
            write_pieces(File::create(file.path()).expect("it can be written"), &data);
        }
    })
}

/// Reads to the end, piece by piece.
pub(crate) fn read_pieces(mut file: impl Read) -> Vec<u8> {
    let (mut whole, mut piece) = (Vec::new(), [0; PIECE]);
    loop {
        match file.read(&mut piece).expect("it can be read") {
            0 => return whole,
            count => whole.extend_from_slice(&piece[..count]),
        }
    }
}

/// Writes all of it, piece by piece.
pub(crate) fn write_pieces(mut file: impl Write, data: &[u8]) {
    for piece in data.chunks(PIECE) {
        file.write_all(piece).expect("there is room");
    }
}

fn on_tokio(way: Way, place: Place, size: usize) -> Sample {
    let file = Scratch::new(place, size);
    let path = file.path().to_owned();
    peers::tokio::in_task(&peers::tokio::runtime(1), async move {
        let mut times = Times::new(size);
        while times.want_more() {
            // It writes its own vector without another copy.
            let data = data(if way == Way::Write { size } else { 0 });
            let began = Instant::now();
            match way {
                Way::Read => {
                    assert_eq!(tokio::fs::read(&path).await.expect("it is there").len(), size);
                }
                Way::Write => tokio::fs::write(&path, data).await.expect("there is room"),
            }
            times.add(began.elapsed());
        }
        times.sample()
    })
}

fn on_monoio(way: Way, place: Place, size: usize) -> Sample {
    let file = Scratch::new(place, size);
    let mut runtime =
        monoio::RuntimeBuilder::<monoio::IoUringDriver>::new().build().expect("monoio starts");
    runtime.block_on(async {
        let (mut times, mut data) = (Times::new(size), data(size));
        while times.want_more() {
            let began = Instant::now();
            match way {
                Way::Read => {
                    let read = monoio::fs::read(file.path()).await.expect("it is there");
                    assert_eq!(read.len(), size);
                }
                Way::Write => {
                    let (result, back) = monoio::fs::write(file.path(), data).await;
                    result.expect("there is room");
                    data = back;
                }
            }
            times.add(began.elapsed());
        }
        times.sample()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warming_is_not_measured() {
        let mut times = Times { all: vec![], warming: 1, wanted: 3 };
        for nanoseconds in [1_000, 1, 3, 5] {
            assert!(times.want_more());
            times.add(Duration::from_nanos(nanoseconds));
        }
        assert!(!times.want_more());
        let sample = times.sample();
        assert!((sample[0].1 - 3.0).abs() < 1e-6, "{sample:?}");
        assert!((sample[1].1 - (8.0_f64 / 3.0).sqrt()).abs() < 1e-6, "{sample:?}");
    }
}
