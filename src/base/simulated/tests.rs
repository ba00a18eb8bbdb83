use super::{
    BEGIN, Simulated, advance_to, aside, entropy, is_simulated, next_alarm, ring_due, shown_number,
    task_number, wall_clock,
};
use crate::base::alarm::{Alarm, Ring};
use crate::base::clock;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

struct Note(u32, Arc<Mutex<Vec<(u32, Instant)>>>);

impl Ring for Note {
    fn ring(&self) {
        self.1.lock().unwrap().push((self.0, clock::now()));
    }
}

#[test]
fn alarms_ring_in_order_when_the_clock_has_been_moved() {
    let start = Instant::now();
    let simulated = Simulated::new(start);
    let year = Duration::from_secs(365 * 24 * 3600);
    let kept = {
        let _entered = simulated.enter();
        assert!(is_simulated() && clock::now() == start);
        let heard = Arc::default();
        let notes: Vec<_> = (0..4).map(|n| Arc::new(Note(n, Arc::clone(&heard)))).collect();
        let set = |n: usize, after| {
            let what: Weak<Note> = Arc::downgrade(&notes[n]);
            Alarm::set(start + after, what)
        };
        let alarms = [set(0, year), set(1, year), set(2, Duration::ZERO), set(3, year / 2)];
        let [kept, _, _, removed] = alarms;
        drop(removed);
        ring_due();
        assert_eq!(*heard.lock().unwrap(), [(2, start)]);
        assert_eq!(next_alarm(), Some(start + year));
        advance_to(start + year);
        advance_to(start);
        ring_due();
        assert_eq!(heard.lock().unwrap()[1..], [(0, start + year), (1, start + year)]);
        assert_eq!(next_alarm(), None);
        kept
    };
    assert!(!is_simulated() && clock::now() < start + year);
    drop(kept);
}

#[test]
fn what_is_put_aside_is_outside() {
    let simulated = Simulated::new(Instant::now());
    let _entered = simulated.enter();
    assert!(!aside(is_simulated) && is_simulated());
    assert!(aside(|| (wall_clock(), entropy(), task_number())) == (None, None, None));
    let thrown = std::panic::catch_unwind(|| aside(|| std::panic::resume_unwind(Box::new(7))));
    assert!(thrown.is_err() && is_simulated());
    aside(|| assert!(!aside(is_simulated)));
    assert!(clock::real_now() >= clock::now());
}

#[test]
fn the_wall_clock_and_the_entropy_depend_on_the_seed_only() {
    let run = |start, seed| {
        let simulated = Simulated::new(start);
        simulated.seed_entropy(seed);
        let _entered = simulated.enter();
        simulated.begin_at(start + Duration::from_secs(1), BEGIN);
        let begun = wall_clock();
        advance_to(clock::now() + Duration::from_secs(7));
        (begun, wall_clock(), [entropy(), entropy()])
    };
    let start = Instant::now();
    let first = run(start, 1);
    assert_eq!((first.0, first.1), (Some(BEGIN), Some(BEGIN + Duration::from_secs(7))));
    assert_eq!(run(start + Duration::from_secs(9), 1), first);
    assert!(run(start, 2).2 != first.2 && first.2[0] != first.2[1]);
    assert!(wall_clock().is_none() && entropy().is_none());
}

#[test]
fn tasks_are_numbered_from_0_and_uniquely() {
    let numbers = || {
        let simulated = Simulated::new(Instant::now());
        let _entered = simulated.enter();
        [task_number().unwrap(), task_number().unwrap()]
    };
    let (one, other) = (numbers(), numbers());
    assert_eq!(one.map(shown_number), [0, 1]);
    assert_eq!(other.map(shown_number), [0, 1]);
    assert!(one != other && task_number().is_none() && shown_number(7) == 7);
}
