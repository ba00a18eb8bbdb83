//! Links: what packets meet with on their way from one host to another.

use std::ops::RangeInclusive;
use std::rc::Rc;
use std::time::Duration;

use super::course::Course;
use super::faults::checked_range;
use super::host::Host;
use crate::driver::{HostId, LinkSettings};

/// The properties of a link between two hosts, in both directions.
///
/// A new link takes one millisecond for each packet, loses none, and has no limit of bandwidth.
/// Packets on one host take no time.
///
/// # Examples
/// ```
/// use ecru::sim::{Link, Simulation};
/// use std::time::Duration;
///
/// let slow = Link::new().latency(Duration::from_millis(20)..=Duration::from_millis(80));
/// Simulation::new(1).network(slow.loss(0.01)).run(|| ()).unwrap();
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Link {
    pub(super) settings: LinkSettings,
}

impl Link {
    /// Creates a link with the properties above.
    #[must_use]
    pub fn new() -> Link {
        Link::default()
    }

    /// Sets how long a packet takes. The time of each is drawn. The bytes of a stream stay in
    /// order, and datagrams may overtake each other. Longer times than 100 years count as 100
    /// years.
    ///
    /// # Panics
    /// Panics if the range is empty.
    #[must_use]
    pub fn latency(mut self, range: RangeInclusive<Duration>) -> Link {
        set_latency(&mut self.settings, range);
        self
    }

    /// Sets the probability that a packet is lost, from 0 to 1. A datagram is gone then. Bytes of a
    /// stream are sent again, and arrive later: at the latest after ten losses in a row, also with
    /// a probability of 1. A [`partition`] stops streams as well.
    ///
    /// # Panics
    /// Panics if the probability is not from 0 to 1.
    #[must_use]
    pub fn loss(mut self, probability: f64) -> Link {
        set_loss(&mut self.settings, probability);
        self
    }

    /// Sets how many bytes travel in each direction in a second.
    ///
    /// # Panics
    /// Panics if the number is zero. A [`partition`] stops everything.
    #[must_use]
    pub fn bandwidth(mut self, bytes_per_second: u64) -> Link {
        set_bandwidth(&mut self.settings, bytes_per_second);
        self
    }
}

fn set_latency(settings: &mut LinkSettings, range: RangeInclusive<Duration>) {
    settings.latency = checked_range(range);
}

fn set_loss(settings: &mut LinkSettings, probability: f64) {
    assert!(
        (0.0..=1.0).contains(&probability),
        "the probability {probability} is not from 0 to 1; pass a fraction, such as 0.01"
    );
    settings.loss = probability;
}

fn set_bandwidth(settings: &mut LinkSettings, bytes_per_second: u64) {
    assert!(
        bytes_per_second > 0,
        "a bandwidth of 0 carries nothing; use `sim::partition` for that"
    );
    settings.bandwidth = Some(bytes_per_second);
}

/// The link between two hosts of a simulation. It is made by [`link`](link()). Each method changes
/// both directions.
///
/// # Examples
/// ```
/// use ecru::sim::{self, Simulation};
/// use std::time::Duration;
///
/// let report = Simulation::new(1).run(|| {
///     let (a, b) = (sim::host("a", || Ok(())), sim::host("b", || Ok(())));
///     let second = Duration::from_secs(1);
///     sim::link(&a, &b).latency(second..=second).loss(0.1).bandwidth(1_000_000);
/// });
/// report.unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct LinkHandle {
    one: Host,
    other: Host,
}

/// Returns the course of the current run.
#[track_caller]
fn course(call: &str) -> Rc<Course> {
    let Some(course) = Course::here() else {
        panic!("`{call}` called outside of a simulation; call it in a task of `Simulation::run`")
    };
    course
}

/// Returns the link between two hosts.
///
/// # Examples
/// ```
/// use ecru::sim::{self, Simulation};
/// use std::time::Duration;
///
/// let report = Simulation::new(1).run(|| {
///     let (shop, bank) = (sim::host("shop", || Ok(())), sim::host("bank", || Ok(())));
///     let slow = Duration::from_millis(80)..=Duration::from_millis(200);
///     sim::link(&shop, &bank).latency(slow).loss(0.1).bandwidth(64_000);
/// });
/// report.unwrap();
/// ```
#[must_use]
pub fn link(a: &Host, b: &Host) -> LinkHandle {
    LinkHandle { one: a.clone(), other: b.clone() }
}

impl LinkHandle {
    #[track_caller]
    fn parts(&self) -> (Rc<Course>, [HostId; 2]) {
        self.other.course();
        (self.one.course(), [self.one.id(), self.other.id()])
    }

    #[track_caller]
    fn change(&self, f: impl Fn(&mut LinkSettings)) -> &LinkHandle {
        let (course, [one, other]) = self.parts();
        course.world.network(|network, _| network.change_link(one, other, f));
        self
    }

    /// Sets how long a packet takes that is sent from now on. See [`Link::latency`].
    ///
    /// # Panics
    /// Panics if the range is empty, and outside of the simulation in which the hosts
    /// were made.
    #[track_caller]
    pub fn latency(&self, range: RangeInclusive<Duration>) -> &LinkHandle {
        self.change(|settings| set_latency(settings, range.clone()))
    }

    /// Sets the probability that a packet is lost. See [`Link::loss`].
    ///
    /// # Panics
    /// Panics if the probability is not from 0 to 1, and outside of the simulation in which the
    /// hosts were made.
    #[track_caller]
    pub fn loss(&self, probability: f64) -> &LinkHandle {
        self.change(|settings| set_loss(settings, probability))
    }

    /// Sets how many bytes travel in each direction in a second.
    ///
    /// # Panics
    /// Panics if the number is zero, and outside of the simulation in which the hosts
    /// were made.
    #[track_caller]
    pub fn bandwidth(&self, bytes_per_second: u64) -> &LinkHandle {
        self.change(|settings| set_bandwidth(settings, bytes_per_second))
    }

    /// Keeps all packets on the link from now on, until [`release`](LinkHandle::release).
    ///
    /// # Panics
    /// Panics outside of the simulation in which the hosts were made.
    #[track_caller]
    pub fn hold(&self) -> &LinkHandle {
        let (course, [one, other]) = self.parts();
        course.world.network(|network, ctx| network.hold(ctx, one, other));
        self
    }

    /// Lets the packets travel again that the link has kept.
    ///
    /// # Panics
    /// Panics outside of the simulation in which the hosts were made.
    #[track_caller]
    pub fn release(&self) -> &LinkHandle {
        let (course, [one, other]) = self.parts();
        course.world.network(|network, ctx| network.release(ctx, one, other));
        self
    }

    /// Breaks all connections over the link. Calls at both ends fail with
    /// [`ConnectionReset`](std::io::ErrorKind::ConnectionReset).
    ///
    /// # Panics
    /// Panics outside of the simulation in which the hosts were made.
    #[track_caller]
    pub fn reset(&self) -> &LinkHandle {
        let (course, [one, other]) = self.parts();
        course.world.network(|network, ctx| network.reset_link(ctx, one, other));
        self
    }
}

/// Stops all packets between the hosts of one side and those of the other, in both directions,
/// until [`heal`] is called. What a stream has sent arrives after that. Datagrams are lost.
///
/// Neither side is told. A connection that waits for an answer to its data fails with
/// [`TimedOut`](std::io::ErrorKind::TimedOut) after 15 minutes, and an attempt to connect after
/// two, as on Linux. A connection that only reads waits for ever.
///
/// # Panics
/// Panics outside of the simulation in which the hosts were made.
///
/// # Examples
/// ```
/// use ecru::sim::{self, Simulation};
///
/// let report = Simulation::new(1).run(|| {
///     let hosts = ["a", "b", "c"].map(|name| sim::host(name, || Ok(())));
///     let [a, b, c] = &hosts;
///     sim::partition(&[a], &[b, c]);
///     sim::heal();
/// });
/// report.unwrap();
/// ```
#[track_caller]
pub fn partition(one: &[&Host], other: &[&Host]) {
    let course = course("sim::partition");
    one.iter().chain(other).for_each(|host| drop(host.course()));
    for (a, b) in one.iter().flat_map(|a| other.iter().map(move |b| (a.id(), b.id()))) {
        course.world.network(|network, ctx| {
            network.partition(ctx, a, b);
            network.partition(ctx, b, a);
        });
    }
}

/// Stops all packets from one host to another, until [`heal`] is called. Those in the other
/// direction arrive.
///
/// # Panics
/// Panics outside of the simulation in which the hosts were made.
///
/// # Examples
/// ```
/// use ecru::sim::{self, Simulation};
/// use std::time::Duration;
///
/// let report = Simulation::new(1).run(|| {
///     let (ann, bob) = (sim::host("ann", || Ok(())), sim::host("bob", || Ok(())));
///     // What ann sends is lost, and what bob sends arrives.
///     sim::partition_one_way(&ann, &bob);
///     ecru::sleep(Duration::from_secs(5))?;
///     sim::heal();
///     Ok::<_, ecru::Cancelled>(())
/// });
/// report.unwrap().unwrap();
/// ```
#[track_caller]
pub fn partition_one_way(from: &Host, to: &Host) {
    to.course();
    let (course, from, to) = (from.course(), from.id(), to.id());
    course.world.network(|network, ctx| network.partition(ctx, from, to));
}

/// Ends all partitions.
///
/// # Panics
/// Panics outside of a simulation.
///
/// # Examples
/// See [`partition`] and [`partition_one_way`].
#[track_caller]
pub fn heal() {
    course("sim::heal").world.network(|network, ctx| network.heal(ctx));
}

/// Ends all faults: partitions and held links, losses, and whatever is drawn, also by
/// [`chance`](super::chance). Latencies and bandwidths stay, and a host that is down stays down.
///
/// A test calls it to check that everything is finished once nothing goes wrong any more.
///
/// # Panics
/// Panics outside of a simulation.
///
/// # Examples
/// ```
/// use ecru::net::{TcpListener, TcpStream};
/// use ecru::sim::{self, Link, Simulation};
/// use std::io::Read;
///
/// let report = Simulation::new(7).network(Link::default().loss(1.0)).run(|| {
///     let server = sim::host("server", || {
///         let listener = TcpListener::bind("0.0.0.0:80")?;
///         listener.accept().map(drop)
///     });
///     // Nothing arrives. After the faults, the client gets through.
///     sim::calm();
///     let mut stream = TcpStream::connect((server.addr(), 80))?;
///     assert_eq!(stream.read(&mut [0])?, 0);
///     Ok::<_, std::io::Error>(())
/// });
/// report.unwrap().unwrap();
/// ```
#[track_caller]
pub fn calm() {
    let course = course("sim::calm");
    course.is_calm.set(true);
    course.world.calm();
}
