//! What a run says that ends with its process, by an abort or a stack overflow.
//!
//! The text is written by a signal handler on the simulation's thread, or by the thread that waits
//! for it. So it is made of what is ready, without memory of its own.

use std::fmt;
use std::sync::Arc;

use super::trace::{self, Steps};
use crate::base::sync::SpinLock;
use crate::base::sync::atomic::{AtomicBool, Ordering};

/// The most turns that are written, unless the environment asks for the whole trace.
const MOST: usize = 400;

/// What is known of a run that has not ended.
#[derive(Debug)]
pub(super) struct LastWords {
    seed: u64,
    /// The command that repeats the run, if it is one of a test.
    command: Option<String>,
    is_whole: bool,
    /// The pilot of the run records them here.
    turns: Arc<SpinLock<Steps>>,
    /// They have been said.
    is_said: AtomicBool,
}

impl LastWords {
    pub(super) fn new(seed: u64, command: Option<String>) -> LastWords {
        LastWords {
            seed,
            command,
            is_whole: trace::is_wanted_whole(),
            turns: Arc::new(SpinLock::new(Steps::default())),
            is_said: AtomicBool::new(false),
        }
    }

    /// Returns the record of the turns.
    pub(super) fn turns(&self) -> Arc<SpinLock<Steps>> {
        Arc::clone(&self.turns)
    }

    /// Writes them, once.
    pub(super) fn say(&self, out: &mut dyn fmt::Write) {
        if !self.is_said.swap(true, Ordering::Relaxed) {
            let _ = self.write(out);
        }
    }

    fn write(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "\nthe process ends in a simulation with seed {}", self.seed)?;
        // The lock is held if the process ends while a turn is recorded.
        if let Some(turns) = self.turns.try_lock() {
            write!(out, "; its turns so far: v1")?;
            let skipped = self.skipped(turns.len() as usize);
            let mut steps = turns.iter().enumerate().peekable();
            while let Some((number, step)) = steps.next() {
                if skipped.contains(&number) {
                    if number == skipped.start {
                        write!(out, " .. {} turns ..", skipped.len())?;
                    }
                    continue;
                }
                let mut times = 1;
                while steps
                    .next_if(|(next, other)| *other == step && !skipped.contains(next))
                    .is_some()
                {
                    times += 1;
                }
                write!(out, " {step}")?;
                if times > 1 {
                    write!(out, "*{times}")?;
                }
            }
        }
        match &self.command {
            Some(command) => writeln!(out, "\n{command}"),
            None => writeln!(out, "\nto repeat it, run the simulation with this seed again"),
        }
    }

    /// Returns the turns in the middle that are left out.
    fn skipped(&self, turns: usize) -> std::ops::Range<usize> {
        let is_short = self.is_whole || turns <= MOST;
        if is_short { turns..turns } else { MOST / 2..turns - MOST / 2 }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{LastWords, MOST};
    use crate::sim::trace::Step;

    fn text(turns: u64) -> String {
        let words = LastWords::new(7, Some(String::from("the command")));
        let note = |step| words.turns().lock().push(step);
        for task in 0..turns {
            note(Step { task, passed: 0, cut: task == 1 });
        }
        note(Step { task: turns, passed: 2, cut: false });
        note(Step { task: turns, passed: 2, cut: false });
        let mut text = String::new();
        words.say(&mut text);
        words.say(&mut text);
        text
    }

    #[test]
    fn they_have_the_seed_the_turns_and_the_command_once() {
        let expected = "\nthe process ends in a simulation with seed 7; its turns so far: v1 0 1! 2+2*2\nthe command\n";
        assert_eq!(text(2), expected);
    }

    #[test]
    fn the_middle_of_a_long_trace_is_left_out() {
        let text = text(MOST as u64 + 8);
        let expected = " 199 .. 10 turns .. 210 ";
        assert!(text.contains(expected), "{text}");
        assert!(text.contains(" 407 408+2*2\n"), "{text}");
    }
}
