//! Links: how long packets travel from one host to another, and what becomes of them.
//!
//! A link has two directions with settings and faults of their own. A direction is *cut* if it is
//! partitioned or held, or if one of its hosts is down. What arrives while a direction is cut waits
//! in its list of *stalled* endpoints, because TCP repeats it until it is answered. A datagram is
//! lost then, or kept if the link is held.

use super::host::HostId;
use super::{Ctx, Event, FaultKind, Id, Incident, Network};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// How long the sender of a lost segment waits before it sends the segment again. The pause doubles
/// with each further loss.
const RETRANSMISSION: Duration = Duration::from_millis(200);
/// Bounds the retransmissions of one segment, so that a link that loses everything delays a stream
/// instead of stopping it.
const MOST_LOSSES: u32 = 10;

/// The properties of one direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LinkSettings {
    /// How long a packet travels. The time of each packet is drawn.
    pub(crate) latency: RangeInclusive<Duration>,
    /// The share of packets that get lost, from 0 to 1. A lost segment of a stream is sent again.
    pub(crate) loss: f64,
    /// Bytes per second.
    pub(crate) bandwidth: Option<u64>,
}

impl Default for LinkSettings {
    fn default() -> LinkSettings {
        let latency = Duration::from_millis(1);
        LinkSettings { latency: latency..=latency, loss: 0.0, bandwidth: None }
    }
}

/// Probabilities of what a network may do to its packets and connections, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct NetworkFaults {
    /// A datagram is lost.
    pub(crate) loss: f64,
    /// A datagram arrives twice.
    pub(crate) duplication: f64,
    /// A datagram arrives later than those that are sent after it.
    pub(crate) reordering: f64,
    /// A write breaks its connection.
    pub(crate) reset: f64,
    /// A connection is refused although its listener exists.
    pub(crate) refusal: f64,
    /// A connection is established late, by up to [`SLOW`].
    pub(crate) slow_connect: f64,
    /// A read or a write transfers only a part of what it could.
    pub(crate) short: f64,
}

impl NetworkFaults {
    /// Nothing goes wrong.
    pub(super) const NONE: NetworkFaults = NetworkFaults {
        loss: 0.0,
        duplication: 0.0,
        reordering: 0.0,
        reset: 0.0,
        refusal: 0.0,
        slow_connect: 0.0,
        short: 0.0,
    };
}

/// The longest delay of a slow connection, and of a datagram that is overtaken.
pub(super) const SLOW: Duration = Duration::from_secs(3);
/// The longest delay of a datagram that is overtaken, in multiples of the link's longest latency.
const OVERTAKEN: u32 = 4;

/// One direction of a link.
#[derive(Debug)]
pub(super) struct Direction {
    settings: LinkSettings,
    is_partitioned: bool,
    /// The partitions that the seed has drawn.
    cuts: u32,
    is_held: bool,
    /// When the line is free for the next packet, if the bandwidth is limited.
    free_at: Option<Instant>,
    stalled: Vec<Stalled>,
    /// Datagrams that a held link keeps.
    held: Vec<u64>,
}

/// What waits until a direction is no longer cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stalled {
    /// Segments that are on their way to this endpoint.
    Arrival(Id),
    /// This endpoint has sent something, and hears no answer.
    Unanswered(Id),
}

#[derive(Debug, Default)]
pub(super) struct Links {
    pub(super) usual: LinkSettings,
    /// The directions by the number of the host from which they lead, and that of the other one.
    directions: Vec<Vec<Option<Box<Direction>>>>,
}

impl Links {
    #[inline]
    pub(super) fn direction(&mut self, from: HostId, to: HostId) -> &mut Direction {
        let (from, to) = (usize::from(from.0), usize::from(to.0));
        if !matches!(self.directions.get(from).and_then(|row| row.get(to)), Some(Some(_))) {
            self.add(from, to);
        }
        self.directions[from][to].as_mut().expect("added above")
    }

    #[cold]
    fn add(&mut self, from: usize, to: usize) {
        if self.directions.len() <= from {
            self.directions.resize_with(from + 1, Vec::new);
        }
        let row = &mut self.directions[from];
        if row.len() <= to {
            row.resize_with(to + 1, || None);
        }
        row[to] = Some(Box::new(Direction {
            settings: self.usual.clone(),
            is_partitioned: false,
            cuts: 0,
            is_held: false,
            free_at: None,
            stalled: Vec::new(),
            held: Vec::new(),
        }));
    }

    /// Returns all directions, in the order of the hosts.
    fn all(&self) -> Vec<(HostId, HostId)> {
        let number = |place| HostId(place as u16);
        let rows = self.directions.iter().enumerate();
        let paths = rows.flat_map(|(from, row)| {
            let known = row.iter().enumerate().filter(|(_, direction)| direction.is_some());
            known.map(move |(to, _)| (number(from), number(to)))
        });
        paths.collect()
    }
}

impl Direction {
    /// Returns when a packet of this many bytes arrives that `from` sends now.
    fn arrival(&mut self, ctx: &mut Ctx<'_>, from: HostId, bytes: usize) -> Instant {
        self.departure(ctx, bytes) + ctx.draws.latency(from, &self.settings.latency)
    }

    /// Returns when a packet of this many bytes has left its host.
    fn departure(&mut self, ctx: &Ctx<'_>, bytes: usize) -> Instant {
        let mut departure = ctx.now;
        if let Some(bandwidth) = self.settings.bandwidth {
            departure = departure.max(self.free_at.unwrap_or(departure));
            let nanoseconds = bytes as u128 * 1_000_000_000 / u128::from(bandwidth.max(1));
            departure += Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
            self.free_at = Some(departure);
        }
        departure
    }
}

impl Network {
    pub(super) fn is_up(&self, host: HostId) -> bool {
        self.hosts.get(usize::from(host.0)).is_some_and(|host| host.is_up)
    }

    /// Returns whether nothing that is sent in this direction now arrives.
    pub(super) fn is_cut(&mut self, from: HostId, to: HostId) -> bool {
        from != to && (!self.is_up(from) || self.is_blocked(from, to))
    }

    /// Returns whether nothing arrives that has been sent in this direction.
    pub(super) fn is_blocked(&mut self, from: HostId, to: HostId) -> bool {
        if from == to {
            return false;
        }
        let is_up = self.is_up(to);
        let direction = self.links.direction(from, to);
        !is_up || direction.is_partitioned || direction.cuts > 0 || direction.is_held
    }

    pub(super) fn is_held(&mut self, from: HostId, to: HostId) -> bool {
        self.links.direction(from, to).is_held
    }

    /// Returns when a segment of a stream arrives that is sent now. If it gets lost, that is when
    /// its repetition arrives.
    pub(super) fn segment_arrival(
        &mut self,
        ctx: &mut Ctx<'_>,
        (from, to): (HostId, HostId),
        bytes: usize,
    ) -> Instant {
        if from == to {
            return ctx.now;
        }
        let is_calm = self.is_calm;
        let direction = self.links.direction(from, to);
        let loss = if is_calm { 0.0 } else { direction.settings.loss };
        let mut arrival = direction.arrival(ctx, from, bytes);
        let Some(mut again) = ctx.strike(FaultKind::Loss, (from, to), loss) else {
            return arrival;
        };
        let mut pause = RETRANSMISSION;
        arrival += pause;
        for _ in 1..MOST_LOSSES {
            if !again.chance(loss) {
                break;
            }
            pause *= 2;
            arrival += pause;
        }
        arrival
    }

    /// Returns the time that the shortest packet needs at least, without a draw.
    pub(super) fn least_latency(&mut self, from: HostId, to: HostId) -> Duration {
        if from == to {
            return Duration::ZERO;
        }
        *self.links.direction(from, to).settings.latency.start()
    }

    /// Returns when the copies of a datagram arrive that is sent now: never, once or twice.
    pub(super) fn datagram_arrivals(
        &mut self,
        ctx: &mut Ctx<'_>,
        path: (HostId, HostId),
        bytes: usize,
    ) -> [Option<Instant>; 2] {
        let faults = *self.faults(path);
        let is_calm = self.is_calm;
        let direction = self.links.direction(path.0, path.1);
        let longest = *direction.settings.latency.end();
        let own_loss = if is_calm { 0.0 } else { direction.settings.loss };
        let loss = 1.0 - (1.0 - own_loss) * (1.0 - faults.loss);
        let mut first = Some(direction.arrival(ctx, path.0, bytes));
        if ctx.strike(FaultKind::Loss, path, loss).is_some() {
            first = None;
        }
        let reordering = if first.is_some() { faults.reordering } else { 0.0 };
        if let Some(mut delay) = ctx.strike(FaultKind::Late, path, reordering) {
            let delay = ctx.draws.within(&mut delay, &(longest..=longest * OVERTAKEN));
            first = first.map(|arrival| arrival + delay);
        }
        let second = ctx.strike(FaultKind::Twice, path, faults.duplication).map(|mut copy| {
            let departure = direction.departure(ctx, bytes);
            departure + ctx.draws.within(&mut copy, &direction.settings.latency)
        });
        [first, second]
    }

    /// Leaves something in a direction's list until the direction is no longer cut.
    pub(super) fn stall(&mut self, from: HostId, to: HostId, what: Stalled) {
        self.links.direction(from, to).stalled.push(what);
    }

    /// Keeps a datagram while the link is held.
    pub(super) fn keep_held(&mut self, from: HostId, to: HostId, datagram: u64) {
        self.links.direction(from, to).held.push(datagram);
    }

    /// Sets the properties of all links that have none of their own.
    pub(crate) fn set_usual_link(&mut self, settings: LinkSettings) {
        self.links.usual = settings;
    }

    /// Changes the properties of both directions of a link.
    pub(crate) fn change_link(
        &mut self,
        one: HostId,
        other: HostId,
        f: impl Fn(&mut LinkSettings),
    ) {
        for (from, to) in [(one, other), (other, one)] {
            f(&mut self.links.direction(from, to).settings);
        }
    }

    /// Stops everything that travels in this direction.
    pub(crate) fn partition(&mut self, ctx: &mut Ctx<'_>, from: HostId, to: HostId) {
        if from != to {
            self.links.direction(from, to).is_partitioned = true;
            ctx.note((to, from), |from| Incident::CutOff { from });
            self.probe(ctx);
        }
    }

    /// Stops everything that travels between two hosts, until this has been [mended](Network::mend).
    pub(crate) fn cut(&mut self, ctx: &mut Ctx<'_>, one: HostId, other: HostId) {
        for (from, to) in [(one, other), (other, one)] {
            self.links.direction(from, to).cuts += 1;
            ctx.note((to, from), |from| Incident::CutOff { from });
        }
        self.probe(ctx);
    }

    /// Ends what [`cut`](Network::cut) has begun.
    pub(crate) fn mend(&mut self, ctx: &mut Ctx<'_>, one: HostId, other: HostId) {
        ctx.note((one, other), |other| Incident::Mended { other });
        for (from, to) in [(one, other), (other, one)] {
            let cuts = &mut self.links.direction(from, to).cuts;
            *cuts = cuts.saturating_sub(1);
            self.go_on(ctx, from, to);
        }
    }

    /// Ends all partitions.
    pub(crate) fn heal(&mut self, ctx: &mut Ctx<'_>) {
        ctx.journal.note(ctx.now, HostId::ROOT, Incident::Healed);
        for (from, to) in self.links.all() {
            let direction = self.links.direction(from, to);
            (direction.is_partitioned, direction.cuts) = (false, 0);
            self.go_on(ctx, from, to);
        }
    }

    /// Keeps everything that travels on a link, in both directions, until it is released.
    pub(crate) fn hold(&mut self, ctx: &mut Ctx<'_>, one: HostId, other: HostId) {
        for (from, to) in [(one, other), (other, one)] {
            self.links.direction(from, to).is_held = true;
        }
        ctx.note((one, other), |other| Incident::Held { other });
        self.probe(ctx);
    }

    pub(crate) fn release(&mut self, ctx: &mut Ctx<'_>, one: HostId, other: HostId) {
        ctx.note((one, other), |other| Incident::Released { other });
        for (from, to) in [(one, other), (other, one)] {
            self.links.direction(from, to).is_held = false;
            self.go_on(ctx, from, to);
        }
    }

    /// Ends all faults: partitions and held links, losses, and what is drawn.
    pub(crate) fn calm(&mut self, ctx: &mut Ctx<'_>) {
        self.is_calm = true;
        ctx.journal.note(ctx.now, HostId::ROOT, Incident::Calm);
        for (from, to) in self.links.all() {
            self.links.direction(from, to).is_held = false;
        }
        self.heal(ctx);
    }

    /// Lets everything travel again from and to a host that is up again.
    pub(super) fn reconnect(&mut self, ctx: &mut Ctx<'_>, host: HostId) {
        for (from, to) in self.links.all() {
            if from == host || to == host {
                self.go_on(ctx, from, to);
            }
        }
    }

    /// Lets what is stalled travel, if the direction is no longer cut.
    fn go_on(&mut self, ctx: &mut Ctx<'_>, from: HostId, to: HostId) {
        if self.is_cut(from, to) {
            return;
        }
        let direction = self.links.direction(from, to);
        let stalled = std::mem::take(&mut direction.stalled);
        for datagram in std::mem::take(&mut direction.held) {
            let at = self.links.direction(from, to).arrival(ctx, from, 0);
            ctx.later(at, Event::Datagram(datagram));
        }
        for one in stalled {
            match one {
                Stalled::Arrival(to) => self.resume_arrivals(ctx, to),
                Stalled::Unanswered(id) => self.resume_sender(ctx, id),
            }
        }
    }
}
