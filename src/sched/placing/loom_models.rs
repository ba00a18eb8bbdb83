//! Models of tasks that are stolen or handed over while their first worker joins them. Exactly one
//! of the two starts such a task. Its link is never in an inbox while a started task may use the
//! link for its own wake-up.

use loom::thread;
use std::panic::Location;
use std::ptr;

use super::may_be_handed_over;
use crate::base::sync::Checked;
use crate::base::sync::atomic::Ordering;
use crate::sched::deque::Taken;
use crate::sched::shared::{Chain, WorkerShared};
use crate::task::{Header, VTable};

const VTABLE: VTable = VTable::bare(crate::sched::notify_cancelled);

#[repr(C)]
struct Task {
    header: Header,
    /// How often it was started.
    starts: Checked,
}

impl Task {
    fn new() -> &'static Task {
        let (null, place) = (ptr::null(), Location::caller());
        let header = Header::new(&VTABLE, null, ptr::null(), ptr::null(), true, false, None, place);
        leak(Task { header, starts: Checked::new(0) })
    }

    /// Starts the task if it has not been started, as [`Worker::start_if_first`](super::Worker)
    /// does.
    fn start_if_first(&self) -> bool {
        let is_first = !self.header.started.swap(true, Ordering::AcqRel);
        if is_first {
            self.starts.add_one();
        }
        is_first
    }
}

fn leak<T>(value: T) -> &'static T {
    // `end` frees it. The threads of a model need references that live forever.
    Box::leak(Box::new(value))
}

fn end<T>(value: &'static T) {
    drop(unsafe { Box::from_raw(ptr::from_ref(value).cast_mut()) });
}

struct Shared<T: 'static>(&'static T);
unsafe impl<T> Send for Shared<T> {}

/// Does what a worker does with the oldest task of its queue while it has others and `target` has
/// none.
fn start_or_hand_over(worker: &'static WorkerShared, target: &'static WorkerShared) {
    let oldest = worker.unstarted.pop_oldest();
    let Some(header) = (unsafe { oldest.as_ref() }) else { return };
    if may_be_handed_over(header, worker) {
        let mut chain = Chain::EMPTY;
        unsafe { chain.push(oldest) };
        unsafe { target.send_inbound(chain) };
    } else {
        unsafe { &*oldest.cast::<Task>() }.start_if_first();
    }
}

/// Does what a join on the task's first worker does, after a thief may have taken the task.
fn join(worker: &'static WorkerShared, task: &'static Task) {
    let header = &task.header;
    let here: *mut () = ptr::from_ref(worker).cast_mut().cast();
    let is_elsewhere = header.started.load(Ordering::Relaxed)
        || !ptr::eq(header.worker.load(Ordering::Relaxed), here);
    if is_elsewhere {
        return;
    }
    if ptr::eq(worker.unstarted.newest(), header) {
        let taken = worker.unstarted.pop_newest();
        if taken.is_null() || header.started.load(Ordering::Relaxed) {
            return;
        }
        header.started.store(true, Ordering::Release);
        task.starts.add_one();
    } else if !task.start_if_first() {
        return;
    }
    // The task waits and is woken, which uses its link.
    unsafe { worker.send_woken(header) };
    let mut woken = 0;
    worker.receive_woken(|found| {
        assert!(ptr::eq(found, header));
        woken += 1;
    });
    assert_eq!(woken, 1);
}

#[test]
fn a_stolen_task_is_started_once_while_its_victim_joins_it() {
    loom::model(|| {
        let [victim, thief, third] = [(); 3].map(|()| leak(WorkerShared::new()));
        let (task, other) = (Task::new(), Task::new());
        task.header.worker.store(ptr::from_ref(victim).cast_mut().cast(), Ordering::Relaxed);
        victim.unstarted.push(&raw const task.header);
        // The link of a task that is pushed to this inbox leads to `other`.
        let mut chain = Chain::EMPTY;
        unsafe { chain.push(&raw const other.header) };
        unsafe { third.send_inbound(chain) };
        let stealing = {
            let (victim, thief, third) = (Shared(victim), Shared(thief), Shared(third));
            thread::spawn(move || {
                let (victim, thief, third) = (&victim, &thief, &third);
                if let Taken::Task(stolen) = victim.0.unstarted.steal() {
                    thief.0.unstarted.push(stolen);
                    start_or_hand_over(thief.0, third.0);
                }
            })
        };
        join(victim, task);
        stealing.join().unwrap();
        // The task was handed over if it was neither joined nor started by its thief.
        third.take_inbound(|found| {
            unsafe { &*found.cast::<Task>() }.start_if_first();
        });
        for task in [task, other] {
            assert_eq!(task.starts.get(), 1);
            end(task);
        }
        [victim, thief, third].into_iter().for_each(end);
    });
}

/// The owner hands its own task over, and a thief takes the task from the target's inbox. A join by
/// the owner leaves the task alone.
#[test]
fn a_task_that_was_handed_over_is_not_started_by_a_join() {
    loom::model(|| {
        let [giver, target] = [(); 2].map(|()| leak(WorkerShared::new()));
        let task = Task::new();
        task.header.worker.store(ptr::from_ref(giver).cast_mut().cast(), Ordering::Relaxed);
        giver.unstarted.push(&raw const task.header);
        let taking = {
            let target = Shared(target);
            thread::spawn(move || {
                let target = &target;
                let mut starts = 0;
                target.0.take_inbound(|found| {
                    let found = unsafe { &*found.cast::<Task>() };
                    // A task that starts names its worker, and uses its link.
                    let here: *mut () = ptr::from_ref(target.0).cast_mut().cast();
                    found.header.worker.store(here, Ordering::Relaxed);
                    starts += u32::from(found.start_if_first());
                });
                starts
            })
        };
        start_or_hand_over(giver, target);
        join(giver, task);
        let mut starts = taking.join().unwrap();
        target.take_inbound(|found| {
            starts += u32::from(unsafe { &*found.cast::<Task>() }.start_if_first());
        });
        assert_eq!(starts, 1);
        assert_eq!(task.starts.get(), 1);
        end(task);
        [giver, target].into_iter().for_each(end);
    });
}
