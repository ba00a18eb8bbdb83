//! The schedule of a simulated run, as a text.
//!
//! # The text
//! ```text
//! trace = "v1" { " " item }
//! item  = step [ "*" times ] | "(" step { " " step } ")*" times
//!       | "cancel@" place | "fault@" number | "steady"
//!       | kind "@" host ":" number { "," number }
//! step  = task [ "+" passed ] [ "!" ]
//! ```
//! A step is one turn of a task. The task is given by its ordinal: the root is 0, and the n-th task
//! that was spawned in the run is n. `passed` is the number of decision points that the task passed
//! without being asked to stop. `!` marks a turn that the strategy ended, at the next decision
//! point. All other turns end because the task waits, yields or ends.
//!
//! The words of the kinds are those of [`FaultKind::word`]. The numbers are those of the draws by
//! which faults have struck. In a steady run, all latencies are the least of their ranges.

use std::fmt::{self, Write};
use std::str::FromStr;

use crate::driver::{DrawnFault, FaultKind};

/// The most steps that a text may stand for. More would not fit a run, and a short text must not
/// fill the memory.
const MOST: u64 = 1 << 26;

/// The longest group of steps that is written once with the number of its repetitions.
const LONGEST_GROUP: usize = 8;

/// The variable of the environment that asks for whole traces in messages.
pub(super) const WHOLE: &str = "ECRU_SIM_TRACE";

/// Returns whether messages are to have whole traces.
pub(super) fn is_wanted_whole() -> bool {
    std::env::var_os(WHOLE).is_some_and(|value| value == "whole")
}

/// One turn of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The task's ordinal.
    pub(super) task: u64,
    /// How many decision points it has passed.
    pub(super) passed: u32,
    /// Whether the strategy has ended the turn.
    pub(super) cut: bool,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.task)?;
        if self.passed > 0 {
            write!(f, "+{}", self.passed)?;
        }
        if self.cut { f.write_char('!') } else { Ok(()) }
    }
}

/// Steps in little memory: two or three bytes each.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Steps {
    /// For each step the task, and the points with the mark as the lowest bit, in groups of seven
    /// bits.
    bytes: Vec<u8>,
    count: u64,
}

impl Steps {
    pub(super) fn push(&mut self, step: Step) {
        self.count += 1;
        let rest = u64::from(step.passed) << 1 | u64::from(step.cut);
        if step.task | rest < 0x80 {
            self.bytes.extend_from_slice(&[step.task as u8, rest as u8]);
        } else {
            self.put(step.task);
            self.put(rest);
        }
    }

    fn put(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    pub(super) fn len(&self) -> u64 {
        self.count
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Step> {
        let mut bytes = self.bytes.iter();
        let mut number = move || {
            let (mut number, mut shift) = (0, 0);
            loop {
                let byte = *bytes.next()?;
                number |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    return Some(number);
                }
            }
        };
        std::iter::from_fn(move || {
            let (task, rest) = (number()?, number()?);
            Some(Step { task, passed: (rest >> 1) as u32, cut: rest & 1 == 1 })
        })
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} steps", self.count)
    }
}

impl FromIterator<Step> for Steps {
    fn from_iter<I: IntoIterator<Item = Step>>(steps: I) -> Steps {
        let mut all = Steps::default();
        steps.into_iter().for_each(|step| all.push(step));
        all
    }
}

/// The schedule of a simulated run: which task ran when, and for how long.
///
/// A trace is a short text that can be stored in a file or in the code of a test. Together with the
/// seed of its run, it repeats that run: see [`Strategy::Replay`](super::Strategy::Replay).
///
/// # The text
/// The text begins with the version of its form, `v1`. Each word after that is one turn of a task.
/// Tasks are numbered in the order in which they were spawned, and the first task is 0. `3+2` is a
/// turn of task 3 in which it passed two decision points and then waited, yielded or ended. `3+2!`
/// is a turn that the strategy ended at the third decision point. `3*4` stands for four turns, and
/// `(3 4)*2` for `3 4 3 4`. `cancel@n` and `fault@n` are from
/// [`cancel_everywhere`](super::cancel_everywhere) and
/// [`fault_everywhere`](super::fault_everywhere).
///
/// Faults that the simulation has drawn are words with their kind, the number of their host, and
/// the numbers of the operations that they struck. `reset@2:5,9` stands for the fifth and the ninth
/// write of host 2 to another host. A run that repeats the trace has exactly these faults, whatever
/// its [`Faults`](super::Faults) and its [`Link`](super::Link)s say. `steady` means that each
/// latency is the least of its range. Other latencies are drawn by the seed from the ranges that
/// the simulation has.
///
/// | word | fault | counted |
/// |---|---|---|
/// | `loss` | a packet is lost | packets to other hosts |
/// | `late` | a datagram is overtaken | datagrams to other hosts |
/// | `twice` | a datagram arrives twice | datagrams to other hosts |
/// | `reset` | a write breaks its connection | writes to other hosts |
/// | `refused` | a connection is refused | attempts to connect to other hosts |
/// | `slow` | a connection is established late | requests to connect to other hosts |
/// | `short` | a transfer moves a part of what it could | reads and writes of several bytes |
/// | `eio` | a read or a write of a file fails | reads and writes of files |
/// | `sync` | a sync fails | syncs that have ended |
/// | `emfile` | a call finds too many open files | calls that open descriptors |
/// | `crash` | a host crashes | crashes that the host may have |
/// | `power` | a host loses its power | power failures that the host may have |
/// | `cut` | two hosts are parted | partitions that the later host may have |
/// | `chance` | a [`chance`](super::chance) comes true | chances of the host |
///
/// When an outage of a host begins, and how long it lasts, is drawn from the settings, which have to
/// be the same.
///
/// # Examples
/// ```
/// use ecru::sim::Trace;
///
/// let trace: Trace = "v1 0+3! 1*2 (0+1 2)*3".parse()?;
/// assert_eq!(trace.len(), 9);
/// assert_eq!(trace.to_string(), "v1 0+3! 1*2 (0+1 2)*3");
/// # Ok::<(), ecru::sim::ParseTraceError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    pub(super) steps: Steps,
    /// The place at which a task is cancelled: see `strategy`.
    pub(super) cancel: Option<u64>,
    /// The number of the I/O operation that fails, counted from 1.
    pub(super) fault: Option<u64>,
    /// The faults that were drawn, in the order of their kinds, hosts and numbers.
    pub(super) drawn: Vec<DrawnFault>,
    /// Each latency is the least of its range.
    pub(super) is_steady: bool,
}

impl Trace {
    /// Returns the number of turns in the trace.
    #[must_use]
    pub fn len(&self) -> usize {
        self.steps.len() as usize
    }

    /// Returns whether nothing has run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("v1")?;
        if let Some(place) = self.cancel {
            write!(f, " cancel@{place}")?;
        }
        if let Some(number) = self.fault {
            write!(f, " fault@{number}")?;
        }
        if self.is_steady {
            f.write_str(" steady")?;
        }
        for same in
            self.drawn.chunk_by(|one, other| (one.kind, one.host) == (other.kind, other.host))
        {
            let DrawnFault { kind, host, .. } = same[0];
            write!(f, " {}@{host}:", kind.word())?;
            for (place, fault) in same.iter().enumerate() {
                write!(f, "{}{}", if place == 0 { "" } else { "," }, fault.number)?;
            }
        }
        let steps: Vec<Step> = self.steps.iter().collect();
        let mut rest = &steps[..];
        while !rest.is_empty() {
            let (length, times) = group(rest);
            f.write_char(' ')?;
            if length == 1 {
                write!(f, "{}", rest[0])?;
            } else {
                f.write_char('(')?;
                for (place, step) in rest[..length].iter().enumerate() {
                    write!(f, "{}{step}", if place == 0 { "" } else { " " })?;
                }
                f.write_char(')')?;
            }
            if times > 1 {
                write!(f, "*{times}")?;
            }
            rest = &rest[length * times..];
        }
        Ok(())
    }
}

/// Returns the length of the group with which `steps` begins and the number of its repetitions: the
/// ones that leave out the most steps.
fn group(steps: &[Step]) -> (usize, usize) {
    let mut best = (1, 1);
    for length in 1..=LONGEST_GROUP.min(steps.len() / 2) {
        let times = 1 + steps[length..]
            .chunks_exact(length)
            .take_while(|next| *next == &steps[..length])
            .count();
        if (times - 1) * length > (best.1 - 1) * best.0 {
            best = (length, times);
        }
    }
    best
}

/// The text is not a [`Trace`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseTraceError {
    /// The byte at which the text is wrong.
    at: usize,
    what: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Problem {
    Version,
    Expected(&'static str),
    TooLarge,
    TooLong,
}

impl fmt::Display for ParseTraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            Problem::Version => f.write_str(
                "a trace begins with `v1`; a text of another version needs the ecru that wrote it",
            ),
            Problem::Expected(what) => {
                write!(f, "the trace is wrong at byte {}: expected {what}", self.at)
            }
            Problem::TooLarge => {
                write!(f, "the number at byte {} of the trace is too large", self.at)
            }
            Problem::TooLong => {
                write!(f, "the trace stands for more than {MOST} steps at byte {}", self.at)
            }
        }
    }
}

impl std::error::Error for ParseTraceError {}

impl FromStr for Trace {
    type Err = ParseTraceError;

    /// Reads the text that [`Display`](fmt::Display) writes. White space of any kind may be between
    /// the words.
    ///
    /// # Errors
    /// Returns an error that names the place if the text is not a trace.
    fn from_str(text: &str) -> Result<Trace, ParseTraceError> {
        let mut reader = Reader { text, at: 0 };
        reader.skip_space();
        if !reader.take("v1") || !(reader.is_at_end() || reader.is_at_space()) {
            return Err(reader.problem(Problem::Version));
        }
        let mut trace = Trace::default();
        loop {
            let has_space = reader.skip_space();
            if reader.is_at_end() {
                return Ok(trace);
            }
            if !has_space {
                return Err(reader.expected("a space"));
            }
            reader.item(&mut trace)?;
        }
    }
}

/// What is left of a text.
struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn is_at_end(&self) -> bool {
        self.rest().is_empty()
    }

    fn is_at_space(&self) -> bool {
        self.rest().starts_with(char::is_whitespace)
    }

    fn problem(&self, what: Problem) -> ParseTraceError {
        ParseTraceError { at: self.at, what }
    }

    fn expected(&self, what: &'static str) -> ParseTraceError {
        self.problem(Problem::Expected(what))
    }

    fn skip_space(&mut self) -> bool {
        let before = self.at;
        self.at = self.text.len() - self.rest().trim_start().len();
        self.at > before
    }

    fn take(&mut self, word: &str) -> bool {
        let is_there = self.rest().starts_with(word);
        if is_there {
            self.at += word.len();
        }
        is_there
    }

    fn number(&mut self, what: &'static str) -> Result<u64, ParseTraceError> {
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Err(self.expected(what));
        }
        let number = self.rest()[..digits].parse().map_err(|_| self.problem(Problem::TooLarge))?;
        self.at += digits;
        Ok(number)
    }

    fn step(&mut self) -> Result<Step, ParseTraceError> {
        let task = self.number("a step, such as `3`, `3+2` or `3+2!`")?;
        let passed = if self.take("+") {
            let at = self.at;
            let passed = self.number("the number of decision points after `+`")?;
            u32::try_from(passed).map_err(|_| ParseTraceError { at, what: Problem::TooLarge })?
        } else {
            0
        };
        Ok(Step { task, passed, cut: self.take("!") })
    }

    /// Reads `*n` if it is there.
    fn times(&mut self) -> Result<u64, ParseTraceError> {
        if self.take("*") { self.number("the number of repetitions after `*`") } else { Ok(1) }
    }

    /// Reads the host and the numbers of faults of one kind.
    fn drawn(&mut self, kind: FaultKind, trace: &mut Trace) -> Result<(), ParseTraceError> {
        let at = self.at;
        let host = self.number("the number of a host after `@`")?;
        let host =
            u16::try_from(host).map_err(|_| ParseTraceError { at, what: Problem::TooLarge })?;
        if !self.take(":") {
            return Err(self.expected("`:` after the number of a host"));
        }
        loop {
            let number = self.number("the number of a fault")?;
            trace.drawn.push(DrawnFault { kind, host, number });
            if !self.take(",") {
                return Ok(());
            }
        }
    }

    fn item(&mut self, trace: &mut Trace) -> Result<(), ParseTraceError> {
        if self.take("cancel@") {
            trace.cancel = Some(self.number("a number after `cancel@`")?);
            return Ok(());
        }
        if self.take("fault@") {
            trace.fault = Some(self.number("a number after `fault@`")?);
            return Ok(());
        }
        if self.take("steady") {
            trace.is_steady = true;
            return Ok(());
        }
        for kind in FaultKind::ALL {
            let at = self.at;
            if self.take(kind.word()) && self.take("@") {
                return self.drawn(kind, trace);
            }
            self.at = at;
        }
        let mut group = vec![];
        if self.take("(") {
            loop {
                self.skip_space();
                group.push(self.step()?);
                let has_space = self.skip_space();
                if self.take(")") {
                    break;
                }
                if !has_space {
                    return Err(self.expected("a space or `)`"));
                }
            }
        } else {
            group.push(self.step()?);
        }
        let at = self.at;
        let times = self.times()?;
        let steps = times
            .checked_mul(group.len() as u64)
            .and_then(|more| more.checked_add(trace.steps.len()));
        if steps.is_none_or(|steps| steps > MOST) {
            return Err(ParseTraceError { at, what: Problem::TooLong });
        }
        for _ in 0..times {
            group.iter().for_each(|step| trace.steps.push(*step));
        }
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Step, Steps, Trace};
    use crate::base::random::Generator;

    fn step(task: u64, passed: u32, cut: bool) -> Step {
        Step { task, passed, cut }
    }

    #[track_caller]
    fn is_wrong(text: &str, because: &str) {
        let error = text.parse::<Trace>().unwrap_err().to_string();
        assert!(error.contains(because), "{text}: {error}");
    }

    #[test]
    fn steps_of_every_size_are_kept() {
        let all = [
            step(0, 0, false),
            step(0, 0, true),
            step(127, 63, false),
            step(128, 64, true),
            step(u64::MAX, u32::MAX, true),
        ];
        let steps: Steps = all.into_iter().collect();
        assert_eq!(steps.iter().collect::<Vec<_>>(), all);
        assert_eq!(steps.len(), 5);
    }

    #[test]
    fn a_text_is_read_as_it_was_written() {
        for text in [
            "v1",
            "v1 0",
            "v1 cancel@3 fault@9 0+1!",
            "v1 steady loss@0:1,2,18446744073709551615 loss@7:3 sync@65535:1 0",
            "v1 0*3 1+2!*4",
            "v1 (0+1! 1)*2 7",
            "v1 (0 1 2 3 4 5 6 7)*9 0 1",
            "v1 18446744073709551615+4294967295!",
        ] {
            let trace: Trace = text.parse().unwrap();
            assert_eq!(trace.to_string(), text);
            assert_eq!(trace.to_string().parse::<Trace>().unwrap(), trace);
        }
    }

    #[test]
    fn random_steps_are_read_as_they_were_written() {
        let mut random = Generator::new(3, 0);
        for length in 0..200 {
            let steps = (0..length).map(|_| {
                step(random.below(3) as u64, random.below(2) as u32, random.below(2) == 0)
            });
            let trace = Trace { steps: steps.collect(), ..Trace::default() };
            assert_eq!(trace.to_string().parse::<Trace>().unwrap(), trace);
        }
    }

    #[test]
    fn repetitions_are_written_once() {
        let pair = [step(0, 0, true), step(1, 2, false)];
        let trace =
            Trace { steps: pair.into_iter().cycle().take(100).collect(), ..Trace::default() };
        assert_eq!(trace.to_string(), "v1 (0! 1+2)*50");
    }

    #[test]
    fn white_space_may_be_of_any_kind() {
        let trace: Trace = "  v1\n0+1\t( 1  2 )*2\n".parse().unwrap();
        assert_eq!(trace.to_string(), "v1 0+1 (1 2)*2");
    }

    #[test]
    fn a_wrong_text_is_refused_and_the_place_is_named() {
        is_wrong("", "begins with `v1`");
        is_wrong("v2 0", "begins with `v1`");
        is_wrong("v10", "begins with `v1`");
        is_wrong("v1 x", "byte 3: expected a step");
        is_wrong("v1 0+", "byte 5: expected the number of decision points");
        is_wrong("v1 0,1", "byte 4: expected a space");
        is_wrong("v1 (0 1", "a space or `)`");
        is_wrong("v1 (0!1)", "a space or `)`");
        is_wrong("v1 0*x", "repetitions");
        is_wrong("v1 99999999999999999999", "byte 3 of the trace is too large");
        is_wrong("v1 0+4294967296", "byte 5 of the trace is too large");
        is_wrong("v1 cancel@", "after `cancel@`");
        is_wrong("v1 \u{e4}", "byte 3: expected a step");
    }

    #[test]
    fn a_short_text_does_not_fill_the_memory() {
        is_wrong("v1 0*18446744073709551615", "more than");
        is_wrong("v1 0*67108864 1", "more than");
        is_wrong("v1 (0 1 2)*6148914691236517206", "more than");
    }
}
