//! A crawler: each page found is a task of its own, and a few are fetched at a time. Each page is
//! fetched once, with a time limit.

use ecru::sync::Semaphore;
use ecru::{Cancelled, JoinError, JoinSet, sleep, try_timeout};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const AT_A_TIME: usize = 16;
const PATIENCE: Duration = Duration::from_millis(500);

#[derive(Debug)]
enum Trouble {
    TooSlow,
    Cancelled,
}

impl From<ecru::Elapsed> for Trouble {
    fn from(_: ecru::Elapsed) -> Trouble {
        Trouble::TooSlow
    }
}

impl From<Cancelled> for Trouble {
    fn from(_: Cancelled) -> Trouble {
        Trouble::Cancelled
    }
}

/// Returns the links of a page, on a site of 1000 pages that take a few milliseconds each. Page 42
/// never answers.
fn fetch(number: u64) -> Result<Vec<u64>, Trouble> {
    sleep(if number == 42 { Duration::MAX } else { Duration::from_millis(1 + number % 7) })?;
    let links = [2 * number, 2 * number + 1, number / 3, 13];
    Ok(links.into_iter().filter(|link| (1..=1000).contains(link)).collect())
}

fn main() {
    let began = Instant::now();
    let (mut seen, mut links, mut late) = (BTreeSet::from([1]), 0, 0);
    ecru::run(|| {
        ecru::scope(|s| {
            let slots = Semaphore::new(AT_A_TIME);
            let crawl = JoinSet::new(s);
            let visit = |number| {
                let slots = slots.clone();
                crawl.spawn(move || {
                    let _slot = slots.acquire()?;
                    try_timeout(PATIENCE, || fetch(number))
                });
            };
            visit(1);
            // Pages arrive as they are ready. Their links are spawned while other pages are still
            // in progress.
            while let Some(page) = crawl.join_next() {
                match page {
                    Ok(Ok(found)) => {
                        links += found.len();
                        found.into_iter().filter(|link| seen.insert(*link)).for_each(visit);
                    }
                    Ok(Err(Trouble::TooSlow)) => late += 1,
                    // The crawl was cancelled, for example by a time limit around it.
                    Ok(Err(Trouble::Cancelled)) | Err(JoinError::CallerCancelled) => break,
                    Err(error) => eprintln!("a page was lost: {error}"),
                }
            }
        });
    });
    println!("{} pages with {links} links in {:.0?}", seen.len(), began.elapsed());
    println!("{late} of them did not come within {PATIENCE:?}");
    assert_eq!((seen.len(), late), (1000, 1));
}
