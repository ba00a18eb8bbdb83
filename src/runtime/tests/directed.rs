//! Simulated runs by a director of its own: the scheduler of simulations without hosts, links, disks
//! and faults, and without anything of the layer `sim`.

use crate::base::random::Generator;
use crate::base::simulated::Simulated;
use crate::base::{clock, random};
use crate::coroutine::STACK_DEFAULT;
use crate::driver::World;
use crate::runtime::run_simulated;
use crate::sched::{After, Director, NextTurn, Runnable, Stop};
use crate::task::Header;
use crate::{channel, park, scope, sync, time};
use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

/// Gives the turn to the task that can run for the longest time, or for the shortest.
struct InOrder {
    is_newest_first: bool,
    turns: Rc<RefCell<Vec<u64>>>,
}

impl Director for InOrder {
    fn next(&mut self, ready: &Runnable) -> NextTurn {
        let index = if self.is_newest_first { ready.len() - 1 } else { 0 };
        NextTurn { index, budget: 8, cancel: false, watch: false }
    }

    fn meet(&mut self, _: &Header, _: u64) {}

    fn ran(&mut self, task: u64, _: u32, _: Stop, _: &dyn Fn() -> (String, String)) -> After {
        self.turns.borrow_mut().push(task);
        After::GoOn
    }

    fn limit(&self) -> Option<Instant> {
        None
    }

    fn stuck(&mut self) {
        panic!("the run is stuck");
    }

    fn out_of_time(&mut self) {
        unreachable!("there is no limit");
    }

    fn foreign(&mut self, call: String) {
        panic!("{call}");
    }
}

/// Returns the order in which three tasks take a lock before they sleep for an hour, and the turns of
/// the run.
fn orders(is_newest_first: bool) -> (Vec<usize>, Vec<u64>) {
    let run = || {
        let simulated = Simulated::new(clock::real_now());
        let _entered = simulated.enter();
        let _marked = park::enter_simulation();
        random::seed_thread(1);
        // The clock moves to the next event of the world, which is empty.
        World::create(Generator::new(1, 0));
        let turns = Rc::new(RefCell::new(Vec::new()));
        let director = Box::new(InOrder { is_newest_first, turns: Rc::clone(&turns) });
        let settings = (STACK_DEFAULT, None);
        let order = run_simulated(
            Location::caller(),
            settings,
            director,
            |_| {},
            || {
                let begun = clock::common_now();
                let order = sync::Mutex::new(Vec::new());
                let (sender, receiver) = channel::bounded(1);
                scope::scope(|s| {
                    for number in 0..3 {
                        let (order, sender) = (&order, sender.clone());
                        s.spawn(move || {
                            order.lock().push(number);
                            time::sleep(Duration::from_secs(3600)).unwrap();
                            sender.send(number).unwrap();
                        });
                    }
                    drop(sender);
                    assert_eq!(receiver.iter().sum::<usize>(), 3);
                });
                assert_eq!(clock::common_now() - begun, Duration::from_secs(3600));
                order.into_inner()
            },
        );
        (order, turns.take())
    };
    thread::scope(|s| s.spawn(run).join().unwrap())
}

#[test]
fn a_director_decides_the_turns_without_a_network_or_disks() {
    let (newest, turns) = orders(true);
    assert_eq!(newest, [2, 1, 0]);
    assert!((0..4).all(|task| turns.contains(&task)), "{turns:?}");
    let (oldest, others) = orders(false);
    assert_eq!(oldest, [0, 1, 2]);
    assert_ne!(turns, others);
    // The same director has the same turns again.
    assert_eq!(orders(true), (newest, turns));
}
