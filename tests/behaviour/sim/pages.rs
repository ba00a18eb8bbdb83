//! The pages of the recorder that searches write for failing seeds.

use std::path::Path;

use ecru::channel;
use ecru::sim::{self, Explore, Simulation, Strategy};

use crate::support::{OnDrop, alone_with, panic_text, quiet_panic};

/// Fails with one seed in four.
fn fails_sometimes() {
    let (_sender, receiver) = channel::bounded::<u32>(1);
    ecru::scope(|s| {
        s.builder().name("waits in vain").spawn(|| receiver.recv().is_ok());
        if sim::random_u64().is_multiple_of(4) {
            quiet_panic("a bad number");
        }
        s.cancel();
    });
}

fn seeds() -> Explore {
    Explore::Seeds { seeds: 0..16, strategy: Strategy::Random }
}

/// Runs `body` on a thread with the name of a test.
fn as_test<T: Send>(name: &str, body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|threads| {
        let builder = std::thread::Builder::new().name(String::from(name));
        builder.spawn_scoped(threads, body).unwrap().join().unwrap()
    })
}

#[track_caller]
fn assert_page(path: &Path, text: &str) {
    assert!(text.contains(&format!("\nthe last events are in {}", path.display())), "{text}");
    let page = std::fs::read_to_string(path).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("waits in vain"));
}

/// - given: `ECRU_SIM_PAGES` with a folder that does not exist, and tests and explorations that
///   fail with some seeds
/// - when: they run
/// - then: each failing seed has a page of its own there, with its tasks, which the message names;
///   seeds that pass write nothing, and a file that the program sets has precedence
#[test]
fn sim_430_the_environment_asks_for_pages() {
    const NAME: &str = "sim::pages::sim_430_the_environment_asks_for_pages";
    let folder = std::env::temp_dir().join(format!("ecru-sim-430-{}", std::process::id()));
    let _removed = OnDrop(|| drop(std::fs::remove_dir_all(&folder)));
    let pages = folder.join("of").join("tests");
    let prepare = |command: &mut std::process::Command| {
        command.env("ECRU_SIM_PAGES", &pages);
    };
    alone_with(NAME, prepare, || {
        let folder = std::env::var("ECRU_SIM_PAGES").unwrap();
        let folder = Path::new(&folder);
        let line = line!() + 2;
        let (seed, text) = as_test("mine::explores", || {
            let found = sim::explore(seeds(), fails_sometimes).unwrap_err();
            (found.seed, found.to_string())
        });
        let page = format!("mine.explores.line-{line}.seed-{seed}.html");
        assert_page(&folder.join(page), &text);
        let line = line!() + 1;
        let text = as_test("mine::tests", || panic_text(|| sim::test(fails_sometimes)));
        let page = format!("mine.tests.line-{line}.seed-{seed}.html");
        assert_page(&folder.join(page), &text);
        assert!(text.contains(&format!("ECRU_SIM_SEED={seed}")), "{text}");
        sim::explore(seeds(), || ()).unwrap();
        let own = folder.join("own.html");
        let simulation = Simulation::default().record_on_failure(&own);
        assert_page(&own, &simulation.explore(seeds(), fails_sometimes).unwrap_err().to_string());
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), 3);
    });
}

/// - given: `ECRU_SIM_PAGES` with a path below a file
/// - when: an exploration fails
/// - then: its message says what failed, and why there is no page
#[test]
fn sim_431_a_page_that_cannot_be_written() {
    const NAME: &str = "sim::pages::sim_431_a_page_that_cannot_be_written";
    let exe = std::env::current_exe().unwrap();
    let prepare = |command: &mut std::process::Command| {
        command.env("ECRU_SIM_PAGES", exe.join("below"));
    };
    alone_with(NAME, prepare, || {
        let text = sim::explore(seeds(), fails_sometimes).unwrap_err().to_string();
        assert!(text.contains("a bad number"), "{text}");
        assert!(text.contains("\nthe last events cannot be written to "), "{text}");
        assert!(text.contains("Not a directory"), "{text}");
    });
}
