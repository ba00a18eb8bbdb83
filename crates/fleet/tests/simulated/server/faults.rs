//! What goes wrong by the will of a test.

use std::fmt;
use std::time::Duration;

/// A message whose confirmation is about to be sent.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    /// Where the client has sent it: the subject of a stream, or `$JS.ACK..` to settle a message.
    pub(crate) subject: &'a str,
    /// What the message says.
    pub(crate) payload: &'a [u8],
}

impl Question<'_> {
    /// Returns whether it asks to store a job.
    pub(crate) fn is_job(&self) -> bool {
        self.subject.starts_with("fleet.jobs.")
    }

    /// Returns whether it says that an attempt settles its job.
    pub(crate) fn is_claim(&self) -> bool {
        let settles = b"\"settled\":true";
        self.subject.starts_with("fleet.attempts.")
            && self.payload.windows(settles.len()).any(|part| part == settles)
    }

    /// Returns whether it renews a lease.
    pub(crate) fn is_renewal(&self) -> bool {
        self.payload == b"+WPI"
    }

    /// Returns whether it says that a job is done.
    pub(crate) fn is_done(&self) -> bool {
        self.subject.starts_with("$JS.ACK.fleet-jobs-") && self.payload == b"+ACK"
    }
}

/// What becomes of a confirmation. What it confirms has happened in each case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Sent,
    Late(Duration),
    Lost,
}

/// For how long a request is held back, by its operation.
type Delay = dyn FnMut(&str) -> Option<Duration> + Send;

/// How a server says that it has no room: JetStream's code, and its words.
pub(crate) type NoRoom = (u32, &'static str);

/// The ways in which servers without room refuse messages.
pub(crate) const NO_ROOM: [NoRoom; 5] = [
    (10002, "resource limits exceeded for account"),
    (10023, "insufficient resources"),
    (10028, "JetStream memory resource limits exceeded"),
    (10047, "insufficient storage resources available"),
    (10077, "write /data/msgs/1.blk: no space left on device"),
];

/// Whether a message is refused because there is no room, by its subject.
type Refuses = dyn FnMut(&str) -> Option<NoRoom> + Send;

/// The decisions of a test.
pub(super) struct Faults {
    pub(super) answer: Box<dyn FnMut(&Question<'_>) -> Answer + Send>,
    pub(super) repeat: Box<dyn FnMut(&str) -> bool + Send>,
    pub(super) has_no_room: Box<Refuses>,
    pub(super) delay: Box<Delay>,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults {
            answer: Box::new(|_| Answer::Sent),
            repeat: Box::new(|_| false),
            has_no_room: Box::new(|_| None),
            delay: Box::new(|_| None),
        }
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faults")
    }
}
