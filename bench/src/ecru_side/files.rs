//! Files, on either driver.

use ecru::{DriverKind, Runtime, fs};

use crate::goals::{ECRU, ECRU_POLL};
use crate::harness::{Contender, Sample};
use crate::rows::{Place, Scratch, Times, Way, data, file_family, read_pieces, write_pieces};

/// Returns ecru's contenders for a row about files.
pub(super) fn contenders(family: &str, size: usize) -> Vec<Contender> {
    let Some((_, way, place)) = file_family(family) else { return Vec::new() };
    vec![
        Contender::sampled(ECRU, move || in_run(DriverKind::Uring, || whole(way, place, size))),
        Contender::sampled(ECRU_POLL, move || in_run(DriverKind::Poll, || whole(way, place, size))),
        Contender::sampled("ecru-streaming", move || {
            in_run(DriverKind::Uring, || streaming(way, place, size))
        })
        .note("8 KiB at a time"),
    ]
}

fn in_run(driver: DriverKind, work: impl FnOnce() -> Sample) -> Sample {
    Runtime::builder().workers(1).driver(driver).build().expect("the runtime starts").run(work)
}

fn whole(way: Way, place: Place, size: usize) -> Sample {
    let (file, data) = (Scratch::new(place, size), data(size));
    Times::of(size, || match way {
        Way::Read => assert_eq!(fs::read(file.path()).expect("it is there").len(), size),
        Way::Write => fs::write(file.path(), &data).expect("there is room"),
    })
}

fn streaming(way: Way, place: Place, size: usize) -> Sample {
    let (file, data) = (Scratch::new(place, size), data(size));
    Times::of(size, || match way {
        Way::Read => {
            let file = fs::File::open(file.path()).expect("it is there");
            assert_eq!(read_pieces(file).len(), size);
        }
        Way::Write => {
            write_pieces(fs::File::create(file.path()).expect("it can be written"), &data);
        }
    })
}
