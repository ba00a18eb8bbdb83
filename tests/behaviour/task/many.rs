//! A million tasks that wait for their turn, and trees of them.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

use crate::common::resident_bytes;
use crate::support::{is_child, run_on, start_again};

/// - given: a task
/// - when: it spawns a million children before the first runs
/// - then: no stack is mapped for them: memory stays under 300 bytes each
///
/// A task that has not started is a small box.
#[cfg(not(ecru_baton))] // as many threads as tasks
#[test]
fn task_27_million_unstarted_slow() {
    const NAME: &str = "task::many::task_27_million_unstarted_slow";
    const TASKS: usize = 1_000_000;
    if !is_child(NAME) {
        let output = start_again(NAME).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
        assert!(text.contains("bytes each"), "{text}");
        return;
    }
    run_on(1, || {
        let ran = AtomicUsize::new(0);
        ecru::scope(|s| {
            let before = resident_bytes();
            for _ in 0..TASKS {
                s.spawn(|| ran.fetch_add(1, SeqCst));
            }
            assert_eq!(ran.load(SeqCst), 0);
            let each = (resident_bytes() - before) / TASKS;
            assert!(each < 300, "{each} bytes for each");
            eprintln!("{each} bytes each");
        });
        assert_eq!(ran.load(SeqCst), TASKS);
    });
}

/// - given: one worker
/// - when: tasks spawn and join two tasks each, seventeen levels down
/// - then: the stacks that are live at once belong to at most eight branches, plus one for each 16
///   ms
///
/// A joined fan-out goes depth first, so it needs few stacks. Once in a while another branch
/// begins, so that tasks outside the fan-out can begin. Each such branch adds as many stacks as it
/// has levels.
#[cfg(not(ecru_baton))] // as many threads as tasks
#[test]
fn task_28_recursion_goes_deep_first_slow() {
    fn tree(levels: u32, live: &AtomicUsize, most: &AtomicUsize) -> u32 {
        if levels == 0 {
            return 1;
        }
        most.fetch_max(live.fetch_add(1, SeqCst) + 1, SeqCst);
        let leaves = ecru::scope(|s| {
            let left = s.spawn(|| tree(levels - 1, live, most));
            let right = s.spawn(|| tree(levels - 1, live, most));
            left.join().unwrap() + right.join().unwrap()
        });
        live.fetch_sub(1, SeqCst);
        leaves
    }
    let (live, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let begun = Instant::now();
    assert_eq!(run_on(1, || tree(17, &live, &most)), 1 << 17);
    let branches = 8 + usize::try_from(begun.elapsed().as_millis() / 16).unwrap();
    let most = most.load(SeqCst);
    assert!(most <= 17 * branches, "{most} stacks at once, in {branches} branches");
}
