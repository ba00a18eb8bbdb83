//! A lost wake-up: a hand-written condition variable releases the mutex before it registers the
//! waiter. A notification in between reaches no waiter.

use super::{Form, is_found, passes};
use ecru::channel::{self, RecvError, Sender};
use ecru::sync::{Mutex, MutexGuard};

/// A condition variable: one channel for each waiter.
#[derive(Default)]
struct Condition {
    waiters: Mutex<Vec<Sender<()>>>,
}

impl Condition {
    fn wait<'m, T>(
        &self,
        form: Form,
        mutex: &'m Mutex<T>,
        guard: MutexGuard<'m, T>,
    ) -> Result<MutexGuard<'m, T>, RecvError> {
        let (sender, receiver) = channel::oneshot();
        match form {
            Form::Buggy => {
                drop(guard);
                self.waiters.lock().push(sender);
            }
            Form::Repaired => {
                self.waiters.lock().push(sender);
                drop(guard);
            }
        }
        receiver.recv()?;
        Ok(mutex.lock())
    }

    fn notify_one(&self) {
        let waiter = self.waiters.lock().pop();
        if let Some(waiter) = waiter {
            let _ = waiter.send(());
        }
    }
}

fn program(form: Form) {
    let queue = Mutex::new(Vec::new());
    let filled = Condition::default();
    ecru::scope(|s| {
        let consumer = s.builder().name("consumer").spawn(|| {
            let mut jobs = queue.lock();
            loop {
                match jobs.pop() {
                    Some(job) => return Ok(job),
                    None => jobs = filled.wait(form, &queue, jobs)?,
                }
            }
        });
        s.builder().name("producer").spawn(|| {
            queue.lock().push(7);
            filled.notify_one();
        });
        let job: Result<u32, RecvError> = consumer.join().expect("the consumer ends");
        assert_eq!(job, Ok(7));
    });
}

#[test]
fn lost_wakeup_is_found() {
    // The consumer waits for a message that no task will send, because the producer was between.
    let parts = ["deadlock", "consumer", "waits for a value from a channel", "lost_wakeup.rs"];
    is_found(program, &parts);
    let turns = ["and how each ended (another task went first at", "#2 'producer'  ended"];
    is_found(program, &turns);
}

#[test]
fn lost_wakeup_is_repaired_slow() {
    passes(program);
}

pub(super) const BUG: super::table::Bug = ("lost wake-up in a condition variable", program);
