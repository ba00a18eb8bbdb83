//! Small programs for the tests of what steers a run. They need no tasks and no stacks.

use std::collections::VecDeque;
use std::ptr;
use std::time::Duration;

use super::pilot::{Pilot, Plan, Record};
use super::program::{self, Program};
use crate::sched::{After, Runnable, Stop};

/// What an act does to its task.
pub(super) enum Then {
    Next,
    /// The act is repeated, without a wait.
    Again,
    /// The act is repeated after the others had a turn.
    Yield,
    /// The act is repeated when the task has been woken.
    Wait,
}

/// What the tasks of a toy share.
#[derive(Default)]
pub(super) struct Shared {
    number: u32,
    seen: [u32; 4],
    queue: VecDeque<u32>,
    waiting: Vec<usize>,
    woken: Vec<usize>,
    got: u32,
}

/// Each act begins with a decision point.
type Act = fn(&mut Shared, usize) -> Then;

/// A program: the acts of each task, and the check at the end.
pub(super) struct Toy {
    tasks: Vec<Vec<Act>>,
    check: fn(&Shared) -> Option<&'static str>,
}

/// What a run of a toy has come to.
pub(super) struct Outcome {
    pub(super) failure: Option<&'static str>,
    pub(super) record: Record,
    pub(super) hash: u64,
    /// The task that was cancelled, and how many steps were over then.
    pub(super) cancelled: Option<u64>,
    pub(super) cancelled_after: usize,
}

impl Program for Toy {
    type Failure = &'static str;

    fn run(&self, seed: u64, plan: &Plan) -> program::Outcome<&'static str> {
        let Outcome { failure, record, hash, .. } = run(self, plan, seed);
        program::Outcome { failure, record, hash, elapsed: Duration::ZERO }
    }

    fn is_same(&self, one: &&'static str, other: &&'static str) -> bool {
        one == other
    }

    fn not_deterministic(&self) -> &'static str {
        "not deterministic"
    }
}

#[derive(Default)]
struct State {
    act: usize,
    /// Whether the decision point before the act has been passed.
    is_past_point: bool,
    is_cancelled: bool,
    has_ended: bool,
}

/// Runs a toy by a plan.
pub(super) fn run(toy: &Toy, plan: &Plan, seed: u64) -> Outcome {
    let mut pilot = Pilot::new(plan, seed);
    let mut shared = Shared::default();
    let mut states: Vec<State> = toy.tasks.iter().map(|_| State::default()).collect();
    let mut ready = Runnable::of(&Vec::from_iter(0..toy.tasks.len() as u64));
    let (mut hash, mut steps, mut cancelled, mut cancelled_after) = (0_u64, 0, None, 0);
    let mut failure = None;
    while !ready.is_empty() {
        let choice = pilot.next(&ready);
        let (_, task) = ready.take(choice.index);
        let state = &mut states[task as usize];
        if choice.cancel {
            state.is_cancelled = true;
            (cancelled, cancelled_after) = (Some(task), steps);
        }
        let (passed, stop) =
            turn(&toy.tasks[task as usize], state, &mut shared, task as usize, choice.budget);
        steps += 1;
        hash = (hash ^ task << 40 ^ u64::from(passed) << 8 ^ stop as u64)
            .wrapping_mul(0x0100_0000_01b3);
        if matches!(stop, Stop::Cut | Stop::Yielded) {
            ready.push(ptr::null(), task);
        }
        shared.woken.drain(..).for_each(|task| ready.push(ptr::null(), task as u64));
        match pilot.ran(task, passed, stop, hash) {
            After::GoOn => {}
            After::Cancel => {
                states[task as usize].is_cancelled = true;
                (cancelled, cancelled_after) = (Some(task), steps);
                if stop == Stop::Waits && ready.find(task).is_none() {
                    shared.waiting.retain(|other| *other != task as usize);
                    ready.push(ptr::null(), task);
                }
            }
            After::End => break,
        }
        if steps > 100_000 {
            failure = Some("too many steps");
            break;
        }
    }
    if ready.is_empty() {
        let all_ended = states.iter().all(|state| state.has_ended);
        failure = if all_ended { (toy.check)(&shared) } else { Some("deadlock") };
    }
    Outcome { failure, record: pilot.finish(), hash, cancelled, cancelled_after }
}

fn turn(
    acts: &[Act],
    state: &mut State,
    shared: &mut Shared,
    me: usize,
    budget: u32,
) -> (u32, Stop) {
    let mut passed = 0;
    loop {
        let Some(act) = acts.get(state.act) else {
            state.has_ended = true;
            return (passed, Stop::Ended);
        };
        if !state.is_past_point {
            state.is_past_point = true;
            if passed == budget {
                return (passed, Stop::Cut);
            }
            passed += 1;
        }
        if state.is_cancelled {
            state.has_ended = true;
            return (passed, Stop::Ended);
        }
        match act(shared, me) {
            Then::Next => {
                state.act += 1;
                state.is_past_point = false;
            }
            Then::Again => state.is_past_point = false,
            Then::Yield => {
                state.is_past_point = false;
                return (passed, Stop::Yielded);
            }
            Then::Wait => return (passed, Stop::Waits),
        }
    }
}

fn nothing(_: &Shared) -> Option<&'static str> {
    None
}

/// Tasks that do nothing together.
pub(super) fn independent(tasks: usize, acts: usize) -> Toy {
    let act: Act = |_, _| Then::Next;
    Toy { tasks: vec![vec![act; acts]; tasks], check: nothing }
}

/// Two tasks that each read a number and then write the next one.
pub(super) fn lost_update() -> Toy {
    let read: Act = |shared, me| {
        shared.seen[me] = shared.number;
        Then::Next
    };
    let write: Act = |shared, me| {
        shared.number = shared.seen[me] + 1;
        Then::Next
    };
    let check = |shared: &Shared| (shared.number != 2).then_some("an update is lost");
    Toy { tasks: vec![vec![read, write], vec![read, write]], check }
}

/// The same, among tasks and acts that have nothing to do with it.
pub(super) fn lost_update_in_noise() -> Toy {
    let mut toy = lost_update();
    let noise: Act = |_, _| Then::Next;
    for acts in &mut toy.tasks {
        for _ in 0..5 {
            acts.insert(0, noise);
            acts.push(noise);
        }
    }
    toy.tasks.insert(1, vec![noise; 10]);
    toy.tasks.push(vec![noise; 10]);
    toy
}

/// Two tasks that wait for the third one: by passing decision points, and by yielding.
pub(super) fn spins() -> Toy {
    let spin: Act = |shared, _| if shared.number == 0 { Then::Again } else { Then::Next };
    let yields: Act = |shared, _| if shared.number == 0 { Then::Yield } else { Then::Next };
    let set: Act = |shared, _| {
        shared.number = 1;
        Then::Next
    };
    let rest: Act = |_, _| Then::Next;
    Toy { tasks: vec![vec![spin], vec![yields], vec![rest, rest, set]], check: nothing }
}

/// A task that waits for two values, and one that sends them.
pub(super) fn hand_over() -> Toy {
    let send: Act = |shared, _| {
        shared.queue.push_back(1);
        let waiting = std::mem::take(&mut shared.waiting);
        shared.woken.extend(waiting);
        Then::Next
    };
    let receive: Act = |shared, me| match shared.queue.pop_front() {
        Some(value) => {
            shared.got += value;
            Then::Next
        }
        None => {
            shared.waiting.push(me);
            Then::Wait
        }
    };
    Toy { tasks: vec![vec![receive, receive], vec![send, send]], check: nothing }
}

/// Two tasks that take two locks in different orders. A lock is a bit of the number.
pub(super) fn lock_order() -> Toy {
    fn lock(shared: &mut Shared, me: usize, bit: u32) -> Then {
        if shared.number & bit == 0 {
            shared.number |= bit;
            Then::Next
        } else {
            shared.waiting.push(me);
            Then::Wait
        }
    }
    let unlock: Act = |shared, _| {
        shared.number = 0;
        let waiting = std::mem::take(&mut shared.waiting);
        shared.woken.extend(waiting);
        Then::Next
    };
    let first: Act = |shared, me| lock(shared, me, 1);
    let second: Act = |shared, me| lock(shared, me, 2);
    Toy { tasks: vec![vec![first, second, unlock], vec![second, first, unlock]], check: nothing }
}
