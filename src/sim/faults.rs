//! What goes wrong in a simulation by itself.

use super::outages::Outages;
use crate::driver::{DiskFaults, NetworkFaults};
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

/// What goes wrong in a simulation by itself: its own draws, from its seed.
///
/// [`Faults::none`] has no faults at all. [`Faults::default`] has those that a correct program does
/// not notice: delays and short transfers. Errors have to be switched on, because a program has to
/// decide what it does about them. [`calm`](super::calm) ends all faults.
///
/// Probabilities are from 0 to 1, and hold for each operation. Crashes, power failures and
/// partitions are drawn for each host, up to a number: how many there are, when they begin and how
/// long they last. They also happen when the program asks for them: see [`Host`](super::Host).
///
/// All of this holds for all hosts, links and files, but for those that have
/// [faults of their own](Faults::on_host).
///
/// # Examples
/// ```
/// use ecru::sim::Faults;
/// use std::time::Duration;
///
/// let faults = Faults::default()
///     .disk_errors(0.001)
///     .disk_capacity(64 << 20)
///     .sync_latency(Duration::from_millis(1)..=Duration::from_millis(50));
/// assert_ne!(faults, Faults::none());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    pub(super) disk: DiskFaults,
    pub(super) network: NetworkFaults,
    pub(super) outages: Outages,
    /// What goes wrong on some hosts instead.
    hosts: Vec<(String, Faults)>,
    /// What goes wrong between some two hosts instead.
    links: Vec<([String; 2], Faults)>,
}

impl Faults {
    /// Creates a plan in which nothing goes wrong.
    #[must_use]
    pub fn none() -> Faults {
        Faults {
            disk: DiskFaults::NONE,
            network: NetworkFaults::default(),
            outages: Outages::NONE,
            hosts: Vec::new(),
            links: Vec::new(),
        }
    }

    /// Sets how many bytes the files of one host may take, in pages of 4096 bytes. A write beyond
    /// that takes what fits, or fails with [`StorageFull`](std::io::ErrorKind::StorageFull). By
    /// default there is no limit.
    #[must_use]
    pub fn disk_capacity(mut self, bytes: u64) -> Faults {
        self.disk.capacity = Some(bytes);
        self
    }

    /// Sets the probability that a read, a write or a sync of a file fails with `EIO`. A failed
    /// sync loses some of the changes, which a later sync does not write. The default is 0.
    ///
    /// # Panics
    /// Panics if the probability is not from 0 to 1.
    #[must_use]
    pub fn disk_errors(mut self, probability: f64) -> Faults {
        self.disk.errors = checked(probability);
        self
    }

    /// Sets the probability that a read or a write of a file, a stream or a pipe moves fewer bytes
    /// than it could, but at least one. It is 0.05 in [`Faults::default`], and 0 in
    /// [`Faults::none`].
    ///
    /// # Panics
    /// Panics if the probability is not from 0 to 1.
    #[must_use]
    pub fn short_transfers(mut self, probability: f64) -> Faults {
        self.disk.short_transfers = checked(probability);
        self.network.short = probability;
        self
    }

    /// Sets the probability that a datagram between two hosts is lost, beside the loss of its
    /// [link](super::Link). The default is 0.
    ///
    /// # Panics
    /// Panics if the probability is not from 0 to 1.
    #[must_use]
    pub fn datagram_loss(mut self, probability: f64) -> Faults {
        self.network.loss = checked(probability);
        self
    }

    /// Sets the probability that a datagram between two hosts arrives twice. The default is 0.
    ///
    /// # Panics
    /// Panics if the probability is not from 0 to 1.
    #[must_use]
    pub fn datagram_duplication(mut self, probability: f64) -> Faults {
        self.network.duplication = checked(probability);
        self
    }

    /// Sets the probability that a datagram between two hosts is overtaken by later ones. The
    /// default is 0.
    ///
    /// # Panics
    /// Panics if the probability is not from 0 to 1.
    #[must_use]
    pub fn datagram_reordering(mut self, probability: f64) -> Faults {
        self.network.reordering = checked(probability);
        self
    }

    /// Sets the probability that a write breaks its connection to another host. The default is 0.
    ///
    /// # Panics
    /// Panics if the probability is not from 0 to 1.
    #[must_use]
    pub fn resets(mut self, probability: f64) -> Faults {
        self.network.reset = checked(probability);
        self
    }

    /// Sets the probability that another host refuses a connection although it has a listener. The
    /// default is 0.
    ///
    /// # Panics
    /// Panics if the probability is not from 0 to 1.
    #[must_use]
    pub fn refused_connections(mut self, probability: f64) -> Faults {
        self.network.refusal = checked(probability);
        self
    }

    /// Sets the probability that a connection to another host is established late, by up to three
    /// seconds. The default is 0.
    ///
    /// # Panics
    /// Panics if the probability is not from 0 to 1.
    #[must_use]
    pub fn slow_connections(mut self, probability: f64) -> Faults {
        self.network.slow_connect = checked(probability);
        self
    }

    /// Sets how many descriptors one host may have open: files, sockets and ends of pipes. Further
    /// calls that open one fail with `EMFILE`. A call that accepts a connection fails, too, and
    /// leaves the connection in the queue. By default there is no limit.
    #[must_use]
    pub fn open_files(mut self, most: u32) -> Faults {
        self.disk.open_files = Some(most);
        self
    }

    /// Sets the probability that a call fails with `EMFILE` that opens a file or a socket, or
    /// accepts a connection, although there is no limit, or it has not been reached. The default is
    /// 0.
    ///
    /// # Panics
    /// Panics if the probability is not from 0 to 1.
    #[must_use]
    pub fn too_many_open_files(mut self, probability: f64) -> Faults {
        self.disk.exhaustion = checked(probability);
        self
    }

    /// Sets how long `sync_all` and `sync_data` take, in virtual time. It is 0.1 to 10 milliseconds
    /// in [`Faults::default`], and no time in [`Faults::none`]. Longer times than 100 years count
    /// as 100 years.
    ///
    /// # Panics
    /// Panics if the range is empty.
    #[must_use]
    pub fn sync_latency(mut self, range: RangeInclusive<Duration>) -> Faults {
        self.disk.sync_latency = checked_range(range);
        self
    }

    /// Sets whether a power failure may keep some sectors of 512 bytes of a write that was not
    /// synced, and lose the others. The default is `true`.
    #[must_use]
    pub fn torn_writes(mut self, torn: bool) -> Faults {
        self.disk.tears = torn;
        self
    }

    /// Sets whether a power failure may keep a write that was not synced, and lose an earlier one
    /// of the same file. The default is `true`.
    #[must_use]
    pub fn reordered_writes(mut self, reordered: bool) -> Faults {
        self.disk.reorders = reordered;
        self
    }

    /// Sets the probability that a sync of a file succeeds, although the disk lacks a part of what was
    /// written before: some writes, or some of their sectors. That is seen after the next power
    /// failure. Some disks do this that have a cache of their own. The default is 0.
    ///
    /// # Panics
    /// Panics if the probability is not from 0 to 1.
    #[must_use]
    pub fn lying_syncs(mut self, probability: f64) -> Faults {
        self.disk.lies = checked(probability);
        self
    }

    /// Sets the probability that a write to a file goes to another place of it, whole sectors of 512
    /// bytes away and not beyond its end. It is seen at once, as if the page had left the cache. A
    /// file with less than a sector beside the write has no other place. The default is 0.
    ///
    /// # Panics
    /// Panics if the probability is not from 0 to 1.
    #[must_use]
    pub fn misdirected_writes(mut self, probability: f64) -> Faults {
        self.disk.misdirection = checked(probability);
        self
    }

    /// Sets the probability that a read of a file finds one bit that is not as it was written. It
    /// stays so in the file. The default is 0.
    ///
    /// # Panics
    /// Panics if the probability is not from 0 to 1.
    #[must_use]
    pub fn bit_rot(mut self, probability: f64) -> Faults {
        self.disk.rot = checked(probability);
        self
    }

    /// Sets how often the wall clock of each host but the root may [jump](super::Host::jump). It
    /// jumps forward or back, and is right again after the [length](Faults::outage_length) of an
    /// outage. The default is 0.
    #[must_use]
    pub fn clock_jumps(mut self, most: u32) -> Faults {
        self.outages.clock_jumps = most;
        self
    }

    /// Sets by how much a clock [jumps](Faults::clock_jumps). The default is a second to an hour.
    ///
    /// # Panics
    /// Panics if the range is empty.
    #[must_use]
    pub fn clock_jump_size(mut self, range: RangeInclusive<Duration>) -> Faults {
        self.outages.jump_size = checked_range(range);
        self
    }

    /// Sets what goes wrong on the host with this name, in place of all that goes wrong elsewhere.
    /// That is its disk and its outages, and what it does with sockets. The closure of
    /// [`run`](super::Simulation::run) runs on the host `root`. The last call for a host counts.
    ///
    /// # Examples
    /// One disk of three is bad:
    /// ```
    /// use ecru::sim::{self, Faults, Simulation};
    /// use std::time::Duration;
    ///
    /// let faults = Faults::none().on_host("bad", Faults::none().disk_errors(1.0));
    /// let report = Simulation::new(1).faults(faults).run(|| {
    ///     for name in ["good", "bad", "better"] {
    ///         sim::host(name, move || {
    ///             assert_eq!(ecru::fs::write("file", "text").is_err(), name == "bad");
    ///             Ok(())
    ///         });
    ///     }
    ///     ecru::sleep(Duration::from_secs(1)).unwrap();
    /// });
    /// report.unwrap();
    /// ```
    #[must_use]
    pub fn on_host(mut self, name: &str, faults: Faults) -> Faults {
        self.hosts.push((String::from(name), faults));
        self
    }

    /// Sets what goes wrong with connections and datagrams between the two hosts with these names,
    /// and how often they may be parted, in place of all that goes wrong there otherwise. The last
    /// call for two hosts counts.
    #[must_use]
    pub fn on_link(mut self, one: &str, other: &str, faults: Faults) -> Faults {
        self.links.push(([String::from(one), String::from(other)], faults));
        self
    }

    /// Sets what goes wrong with reads, writes and syncs of the files at this path, or below it if it
    /// is a directory, in place of all that goes wrong there otherwise. The path is compared with
    /// the one by which a file was last opened. The last call whose path fits counts.
    ///
    /// # Examples
    /// ```
    /// use ecru::sim::{Faults, Simulation};
    ///
    /// let faults = Faults::none().on_files("log", Faults::none().disk_errors(1.0));
    /// let report = Simulation::new(1).faults(faults).run(|| {
    ///     ecru::fs::create_dir("log").unwrap();
    ///     assert!(ecru::fs::write("log/1", "text").is_err());
    ///     assert!(ecru::fs::write("snapshot", "text").is_ok());
    /// });
    /// report.unwrap();
    /// ```
    #[must_use]
    pub fn on_files(mut self, path: impl AsRef<Path>, faults: Faults) -> Faults {
        self.disk.files.push((path.as_ref().to_path_buf(), faults.disk));
        self
    }

    /// Sets how often each host but the root may [crash](super::Host::crash). The host is started
    /// again after a while. The default is 0.
    ///
    /// A trace names each of these faults, and repeats them in a simulation with the same settings.
    ///
    /// # Examples
    /// A program that loses what it has acknowledged, if its host crashes in between:
    /// ```
    /// use ecru::sim::{self, Explore, Faults, Simulation, Strategy};
    /// use std::time::Duration;
    ///
    /// let plan = Explore::Seeds { seeds: 0..100, strategy: Strategy::Random };
    /// let faults = Faults::none().crashes(3).outages_within(Duration::from_secs(10));
    /// let found = Simulation::default().faults(faults).explore(plan, || {
    ///     let host = sim::host("counter", || {
    ///         let mut count = 0;
    ///         loop {
    ///             ecru::sleep(Duration::from_secs(1))?;
    ///             count += 1;
    ///             sim::note(count.to_string());
    ///         }
    ///     });
    ///     ecru::sleep(Duration::from_secs(10)).unwrap();
    ///     let counts = sim::notes();
    ///     let number = |note: &sim::Note| note.text.parse::<u32>().unwrap();
    ///     assert!(counts.is_sorted_by_key(number), "the count has become less");
    /// });
    /// let text = found.unwrap_err().to_string();
    /// assert_eq!(text.matches("fault: crash ").count(), 2, "once in the list, once in the timeline: {text}");
    /// ```
    #[must_use]
    pub fn crashes(mut self, most: u32) -> Faults {
        self.outages.crashes = most;
        self
    }

    /// Sets how often each host but the root may lose its [power](super::Host::power_fail). The host
    /// is started again after a while. The default is 0.
    #[must_use]
    pub fn power_failures(mut self, most: u32) -> Faults {
        self.outages.power_failures = most;
        self
    }

    /// Sets how often each two hosts may be [parted](super::partition()), also the root and another
    /// one. The default is 0.
    #[must_use]
    pub fn partitions(mut self, most: u32) -> Faults {
        self.outages.partitions = most;
        self
    }

    /// Sets how long after a host was made its crashes, power failures and partitions may begin. The
    /// default is 10 seconds.
    #[must_use]
    pub fn outages_within(mut self, time: Duration) -> Faults {
        self.outages.within = *checked_range(time..=time).end();
        self
    }

    /// Sets how long a host stays down, and how long a partition lasts. The default is 10
    /// milliseconds to 2 seconds.
    ///
    /// # Panics
    /// Panics if the range is empty.
    #[must_use]
    pub fn outage_length(mut self, range: RangeInclusive<Duration>) -> Faults {
        self.outages.length = checked_range(range);
        self
    }

    /// Sets whether names are journaled: each sync of a file or a directory also keeps all files
    /// that have been created, renamed or removed before on this host. File systems such as ext4 do
    /// so, but POSIX does not promise it. The default is `false`: a name is kept for certain only
    /// after a sync of its directory.
    #[must_use]
    pub fn journaled_names(mut self, journaled: bool) -> Faults {
        self.disk.journals_names = journaled;
        self
    }
}

// What a run asks.
impl Faults {
    /// Returns what goes wrong on a host, if that is something of its own.
    pub(super) fn of_host(&self, name: &str) -> Option<&Faults> {
        let found = self.hosts.iter().rev().find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, faults)| faults)
    }

    /// Returns what goes wrong between two hosts, if that is something of its own.
    pub(super) fn of_link(&self, one: &str, other: &str) -> Option<&Faults> {
        let is = |own: &str, name: &str| own.eq_ignore_ascii_case(name);
        let found = self
            .links
            .iter()
            .rev()
            .find(|([a, b], _)| (is(a, one) && is(b, other)) || (is(a, other) && is(b, one)));
        found.map(|(_, faults)| faults)
    }

    /// Returns the outages of a host.
    pub(super) fn outages_of(&self, name: &str) -> &Outages {
        &self.of_host(name).unwrap_or(self).outages
    }

    /// Returns the outages between a host and an earlier one.
    pub(super) fn outages_between(&self, name: &str, earlier: &str) -> &Outages {
        let found = self.of_link(name, earlier).or_else(|| self.of_host(name));
        &found.unwrap_or(self).outages
    }

    /// Returns whether there are outages anywhere.
    pub(super) fn have_outages(&self) -> bool {
        let others = self.hosts.iter().map(|(_, faults)| faults);
        let others = others.chain(self.links.iter().map(|(_, faults)| faults));
        self.outages.has_any() || others.into_iter().any(|faults| faults.outages.has_any())
    }
}

/// The faults that a correct program does not notice.
impl Default for Faults {
    fn default() -> Faults {
        let (least, most) = (Duration::from_micros(100), Duration::from_millis(10));
        Faults::none().short_transfers(0.05).sync_latency(least..=most)
    }
}

/// Returns a range of times that is not empty, without times that no clock could add up.
pub(super) fn checked_range(range: RangeInclusive<Duration>) -> RangeInclusive<Duration> {
    const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    assert!(!range.is_empty(), "the range {range:?} is empty; its start must not exceed its end");
    (*range.start()).min(LONGEST)..=(*range.end()).min(LONGEST)
}

/// Checks a probability.
fn checked(probability: f64) -> f64 {
    assert!(
        (0.0..=1.0).contains(&probability),
        "the probability {probability} is not from 0 to 1; pass a fraction, such as 0.01"
    );
    probability
}
