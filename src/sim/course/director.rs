//! What the scheduler of a run asks and tells.

use std::rc::Rc;
use std::time::Instant;

use super::{Course, LAST_STEPS, PLAIN_BUDGET, Phase, YIELDS};
use crate::base::simulated::CutOff;
use crate::base::{clock, simulated};
use crate::sched::{After, Director, NextTurn, Runnable, Stop};
use crate::sim::failure::Failure;
use crate::sim::hosts;
use crate::sim::legend::Known;
use crate::sim::trace::Step;
use crate::task::Header;

/// Decides what a run does next.
pub(in crate::sim) struct Guide {
    pub(in crate::sim) course: Rc<Course>,
}

impl Director for Guide {
    fn next(&mut self, ready: &Runnable) -> NextTurn {
        let plain = |index| NextTurn { index, budget: PLAIN_BUDGET, cancel: false, watch: false };
        match self.course.phase.get() {
            Phase::Runs => {
                let choice = self.course.pilot.borrow_mut().next(ready);
                let is_recorded = self.course.records_turns();
                if is_recorded {
                    simulated::capture_places(true);
                }
                // Only a task that is watched can be described after its turn.
                let watch =
                    choice.watch || is_recorded || !self.course.invariants.borrow().is_empty();
                NextTurn { watch, ..choice }
            }
            // The task that looks has become ready last.
            Phase::Looks => plain(ready.len() - 1),
            // With no budget, the next wait finds out that it is ended by force.
            Phase::Ends if simulated::ends_by_force() => NextTurn { budget: 0, ..plain(0) },
            Phase::Ends => plain(0),
        }
    }

    fn cuts_off(&mut self, task: &Header, ordinal: u64) -> bool {
        let course = &self.course;
        if course.phase.get() != Phase::Runs || !course.hosts.are_down() {
            return false;
        }
        match course.hosts.turn_of(task, ordinal) {
            Ok(cut_off) => {
                simulated::set_cut_off(cut_off);
                cut_off != CutOff::No
            }
            Err(failure) => {
                course.fail(failure);
                false
            }
        }
    }

    fn only_yield(&mut self, tasks: usize) -> bool {
        let course = &self.course;
        let does = course.yields.get() >= YIELDS * tasks as u64;
        if does {
            course.yields.set(0);
        }
        // The tasks of a host that has crashed end in no time.
        does && course.phase.get() == Phase::Runs && !course.hosts.is_any_ending()
    }

    fn is_idle(&mut self) -> bool {
        self.course.phase.get() == Phase::Runs && self.course.end_hosts_by_force()
    }

    fn meet(&mut self, task: &Header, ordinal: u64) {
        if self.course.phase.get() != Phase::Runs {
            return;
        }
        self.course.record.borrow_mut().tasks.note(ordinal, || Known {
            is_root: task.scope.is_null(),
            spawned_at: task.spawned_at(),
            name: task.name().map(String::from),
            host: hosts::host_of(task),
        });
    }

    fn ran(
        &mut self,
        task: u64,
        passed: u32,
        stop: Stop,
        about: &dyn Fn() -> (String, String),
    ) -> After {
        simulated::set_cut_off(CutOff::No);
        let course = &self.course;
        let mut after = After::GoOn;
        course.desk.note_turn();
        if course.phase.get() == Phase::Runs {
            match stop {
                Stop::Yielded => course.yields.set(course.yields.get() + 1),
                // The task has not got to its next wait.
                Stop::Cut => {}
                Stop::Waits | Stop::Ended => course.yields.set(0),
            }
            let is_recorded = course.records_turns();
            let hash = course.note(task, passed);
            if is_recorded {
                let step = Step { task, passed, cut: stop == Stop::Cut };
                course.record_turn(step, about().1);
            }
            after = course.pilot.borrow_mut().ran(task, passed, stop, hash);
            if let Err(failure) = course.check_invariants() {
                let (about, did) = about();
                let last_turn =
                    format!("the last turn before that was the one of {about}; it {did}");
                course.record.borrow_mut().last_turn = Some(last_turn);
                let host = course.record.borrow().tasks.host_of(task);
                course.fail_on(host, clock::common_now(), failure);
                return After::End;
            }
            if after == After::End {
                let divergence = course.pilot.borrow().diverged();
                let divergence = divergence.expect("a pilot ends a run that diverges");
                course.fail(Failure::Diverged(divergence));
                return After::End;
            }
            if course.record.borrow().steps >= course.limits.steps {
                course.look(Failure::OutOfSteps);
            }
        } else {
            if course.fails_in_turn.take() {
                let is_recorded = course.records_turns();
                let hash = course.note(task, passed);
                if is_recorded {
                    let step = Step { task, passed, cut: stop == Stop::Cut };
                    course.record_turn(step, String::from("fails the run"));
                }
                // The run ends in either case.
                let _ = course.pilot.borrow_mut().ran(task, passed, stop, hash);
            }
            course.last_steps.set(course.last_steps.get() + 1);
            match course.last_steps.get() {
                LAST_STEPS => course.end_by_force(),
                steps if steps > 10 * LAST_STEPS => {
                    course.desk.abort(&format!("its tasks do not end: {}", course.desk.text()));
                }
                _ => {}
            }
        }
        if course.desk.was_stuck() {
            course.end();
        }
        if course.phase.get() == Phase::Looks && course.desk.has_failed() {
            course.end();
        }
        if course.phase.get() == Phase::Ends { After::End } else { after }
    }

    fn holds_back(&self) -> bool {
        self.course.phase.get() == Phase::Runs && self.course.hosts.are_paused()
    }

    fn is_held_back(&self, task: &Header) -> bool {
        self.holds_back() && self.course.hosts.is_paused(task)
    }

    fn limit(&self) -> Option<Instant> {
        match self.course.phase.get() {
            Phase::Runs => self.course.start.checked_add(self.course.limits.time),
            Phase::Looks | Phase::Ends => None,
        }
    }

    fn stuck(&mut self) {
        match self.course.phase.get() {
            Phase::Ends => self.course.end_by_force(),
            // It fails when that has arrived.
            Phase::Runs if self.course.waits_for_others() => {}
            Phase::Runs | Phase::Looks => self.course.look(Failure::Deadlock),
        }
    }

    fn out_of_time(&mut self) {
        self.course.look(Failure::OutOfTime);
    }

    fn foreign(&mut self, call: String) {
        if self.course.phase.get() == Phase::Runs {
            self.course.fail(Failure::Foreign { call });
        }
    }
}
