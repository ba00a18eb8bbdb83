//! How many jobs a queue has.

/// Numbers about a queue. They need not be of one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Jobs that wait to be handed out for the first time.
    pub queued: u64,
    /// Jobs that were handed out and are not settled. Those that wait to be handed out again are
    /// among them.
    pub running: u64,
    /// Those of `running` that were handed out more than once.
    pub redelivered: u64,
    /// Jobs that are done, and that the servers list as stored all the same, which happens after a
    /// disk was full. They run no more, but they keep their keys. `fleet repair` removes them.
    pub ghosts: u64,
    /// Those of `running` whose [progress](crate::Job::progress) is known. At most 256 are counted.
    pub reporting: u64,
    /// How far those are on average, from 0 to 100, or `None` if there are none.
    pub percent: Option<u8>,
    /// Jobs among the dead.
    pub dead: u64,
    /// Those of `queued` by their [priorities](crate::QueueBuilder::priorities), from the most
    /// urgent on. In a queue without priorities, all are in the first place.
    pub queued_by_priority: [u64; 4],
    /// Those of `running` by their priorities.
    pub running_by_priority: [u64; 4],
    /// Runs of a function in this process whose results wait until the servers have room.
    pub waiting_for_room: u64,
}
