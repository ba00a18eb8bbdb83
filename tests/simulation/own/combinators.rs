//! Combinators over tasks, and parallel maps.

use super::everywhere;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

#[test]
fn a_set_of_tasks_yields_each_result_once() {
    everywhere(|| {
        ecru::scope(|s| {
            let set = ecru::JoinSet::new(s);
            for number in 0..3_u32 {
                set.spawn(move || {
                    let _ = ecru::yield_now();
                    1 << number
                });
            }
            let mut got = 0;
            while let Some(result) = ecru::shield(|| set.join_next()) {
                if let Ok(bit) = result {
                    assert_eq!(got & bit, 0, "a result came twice");
                    got |= bit;
                }
            }
        });
    });
}

#[test]
fn the_losers_have_ended_when_the_first_one_is_there() {
    everywhere(|| {
        let running = AtomicU32::new(0);
        ecru::scope(|s| {
            let tasks: Vec<_> = (0..3)
                .map(|number| {
                    let running = &running;
                    s.spawn(move || {
                        running.fetch_add(1, Relaxed);
                        for _ in 0..number {
                            let _ = ecru::yield_now();
                        }
                        running.fetch_sub(1, Relaxed);
                        if ecru::is_cancelled() { Err(ecru::JoinError::Failed) } else { Ok(number) }
                    })
                })
                .collect();
            if ecru::first_ok(tasks).is_ok() {
                assert_eq!(running.load(Relaxed), 0, "a loser is still running");
            }
        });
    });
}

#[test]
fn a_window_is_never_exceeded_and_each_item_runs() {
    everywhere(|| {
        let (running, ran) = (AtomicU32::new(0), AtomicU32::new(0));
        let results = ecru::par::map_buffered(2, 0..4_u32, |item| {
            assert!(running.fetch_add(1, Relaxed) < 2, "more than the window");
            let _ = ecru::yield_now();
            running.fetch_sub(1, Relaxed);
            ran.fetch_add(1, Relaxed);
            item
        });
        assert_eq!(results, [0, 1, 2, 3]);
        assert_eq!(ran.into_inner(), 4);
    });
}
