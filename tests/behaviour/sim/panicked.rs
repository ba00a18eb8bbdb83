//! What a failed run says of the tasks that waited when it panicked.

use ecru::channel::{self, Named};
use ecru::sim::{self, Explore, Simulation, Strategy};
use ecru::sync::{Latch, Mutex};

use crate::support::{ms, quiet_panic};

/// One task has a lock and waits for a value, another one waits for the lock, and a third one
/// panics. A panic that is handled comes first.
fn fails() {
    let (ledger, ready) = (Mutex::new(()).named("ledger"), Latch::new(1));
    let (_sender, orders) = channel::bounded::<u32>(1).named("orders");
    ecru::scope(|s| {
        let by = |name: &'static str| s.builder().name(name);
        by("reader").spawn(|| {
            let _held = ledger.lock();
            ready.count_down();
            orders.recv().is_ok()
        });
        let handled = by("handled").spawn(|| quiet_panic("is handled"));
        assert!(handled.join().is_err());
        ready.wait().unwrap();
        by("writer").spawn(|| ledger.lock_cancellable().is_ok());
        let pause = || ecru::sleep(ms(1_000)).unwrap();
        pause();
        by("judge").spawn(|| quiet_panic("a bad order"));
        pause();
        s.cancel();
    });
}

#[track_caller]
fn assert_waiting(text: &str) {
    let (_, waiting) = text
        .split_once("\nwhen it panicked, these tasks waited:\n")
        .unwrap_or_else(|| panic!("{text}"));
    let line = |name: &str| {
        let named = |line: &&str| line.starts_with("  task #") && line.contains(name);
        waiting.lines().find(named).unwrap_or_else(|| panic!("{name}: {text}"))
    };
    let reader = line(" 'reader' (spawned at ");
    assert!(reader.contains("waits for a value from a channel 'orders' of u32"), "{text}");
    assert!(reader.contains(", at ") && reader.contains("panicked.rs:"), "{text}");
    let writer = line(" 'writer' (spawned at ");
    assert!(writer.contains("waits for a lock ('ledger', "), "{text}");
    assert!(writer.contains(", held by task #") && writer.contains(" since "), "{text}");
    assert!(!waiting.contains("task 'handled'"), "{text}");
}

/// - given: a program in which a task panics while others wait
/// - when: it runs in a simulation, in an exploration and in a test with seeds
/// - then: the long text of the failure has what each waited for, where, and who held it, also if a
///   panic was handled before, or the root passes the panic on; the short text does not
#[test]
fn sim_433_a_panic_shows_what_others_waited_for() {
    let report = Simulation::new(1).run(fails);
    assert_waiting(&format!("{report:#}"));
    assert!(!report.to_string().contains("when it panicked"), "{report}");
    let plan = Explore::Seeds { seeds: 0..1, strategy: Strategy::Random };
    let found = sim::explore(plan, fails).unwrap_err();
    assert_waiting(&format!("{found:#}"));
    assert!(!found.to_string().contains("when it panicked"), "{found}");
}

/// - given: a root that panics in a scope with many tasks, and one without any
/// - when: they run
/// - then: some of the tasks are described, and the others counted; or the text says that none
///   waited
#[test]
fn sim_434_a_panic_describes_some_tasks() {
    let run = |count: usize| {
        let report = Simulation::new(1).run(move || {
            let forever = Latch::new(1);
            ecru::scope(|s| {
                for _ in 0..count {
                    s.spawn(|| forever.wait().is_ok());
                }
                ecru::sleep(ms(1_000)).unwrap();
                quiet_panic("in the scope")
            })
        });
        format!("{report:#}")
    };
    let many = run(100);
    assert_eq!(many.matches("waits for a latch to open (").count(), 32, "{many}");
    assert!(many.contains("\n  and 68 more"), "{many}");
    let none = run(0);
    assert!(none.contains("\nwhen it panicked, no other task waited"), "{none}");
}
