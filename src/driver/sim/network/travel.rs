//! How streams travel: segments, the news of what was read, resets, and peers that do not answer.

use super::host::HostId;
use super::link::Stalled;
use super::stream::Segment;
use super::{ANSWER_LIMIT, Ctx, Event, Id, Incident, Kind, Network};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

impl Network {
    /// Returns the room for writes, as far as the endpoint knows.
    pub(super) fn room(&mut self, ctx: &Ctx<'_>, id: Id) -> usize {
        let Some((own, other)) = self.path(id) else { return 0 };
        let is_deaf = self.is_cut(other, own);
        let Some(end) = self.end_mut(id) else { return 0 };
        if !is_deaf {
            end.hear_of_reads(ctx.now);
        }
        let (unread, peer) = (end.unread, end.peer);
        self.window(id, peer).saturating_sub(unread)
    }

    /// Lets the peer of an endpoint know that this much was read.
    pub(super) fn report_read(
        &mut self,
        ctx: &mut Ctx<'_>,
        (own, other): (HostId, HostId),
        peer: Id,
        count: usize,
    ) {
        let at = ctx.now + self.least_latency(own, other);
        let Some(end) = self.end_mut(peer) else { return };
        if own == other {
            end.unread = end.unread.saturating_sub(count);
            if std::mem::take(&mut end.wants_room) {
                self.wake_writers(ctx, peer);
            }
            return;
        }
        match end.reads.back_mut() {
            Some((last, sum)) if *last >= at => *sum += count,
            _ => end.reads.push_back((at, count)),
        }
        if end.wants_room {
            self.expect_room(ctx, peer);
        }
    }

    /// A write of an endpoint has to wait for room.
    pub(super) fn want_room(&mut self, ctx: &mut Ctx<'_>, id: Id) {
        if let Some(end) = self.end_mut(id) {
            end.wants_room = true;
        }
        self.expect_room(ctx, id);
    }

    /// Sees to it that an endpoint that wants room hears of it.
    fn expect_room(&mut self, ctx: &mut Ctx<'_>, id: Id) {
        let Some((own, other)) = self.path(id) else { return };
        if !self.end_mut(id).is_some_and(|end| end.wants_room) {
            return;
        }
        if self.is_cut(other, own) {
            self.wait_for_answer(ctx, id, (other, own), ANSWER_LIMIT);
            return;
        }
        let Some(end) = self.end_mut(id) else { return };
        if !end.is_room_scheduled
            && let Some(&(at, _)) = end.reads.front()
        {
            end.is_room_scheduled = true;
            ctx.later(at, Event::Room(id));
        }
    }

    pub(super) fn room_arrives(&mut self, ctx: &mut Ctx<'_>, id: Id) {
        let Some((own, other)) = self.path(id) else { return };
        let is_cut = self.is_cut(other, own);
        let Some(end) = self.end_mut(id) else { return };
        end.is_room_scheduled = false;
        if is_cut {
            self.expect_room(ctx, id);
            return;
        }
        end.hear_of_reads(ctx.now);
        end.wants_room = false;
        self.wake_writers(ctx, id);
    }

    /// Sends a segment to the peer of an endpoint. The bytes of the segment are in its buffer.
    pub(super) fn send_segment(&mut self, ctx: &mut Ctx<'_>, from: Id, segment: Segment) {
        let Some(path) = self.path(from) else { return };
        let Some(peer) = self.end_mut(from).and_then(|end| end.peer) else { return };
        self.send_to_end(ctx, path, peer, segment, Duration::ZERO);
    }

    /// Sends a segment to an endpoint, after a delay.
    pub(super) fn send_to_end(
        &mut self,
        ctx: &mut Ctx<'_>,
        path: (HostId, HostId),
        to: Id,
        segment: Segment,
        delay: Duration,
    ) {
        if path.0 == path.1 {
            self.deliver(ctx, to, segment);
            return;
        }
        let size = if let Segment::Bytes(count) = segment { count } else { 0 };
        let at = self.segment_arrival(ctx, path, size) + delay;
        self.queue_segment(ctx, to, segment, at);
    }

    /// Lets a segment arrive at this time, behind those that were sent before it.
    fn queue_segment(&mut self, ctx: &mut Ctx<'_>, to: Id, segment: Segment, at: Instant) {
        let Some(end) = self.end_mut(to) else { return };
        let at = end.segments.back().map_or(at, |(last, _)| at.max(*last));
        match (end.segments.back_mut(), segment) {
            (Some((last, Segment::Bytes(sum))), Segment::Bytes(count)) if *last == at => {
                *sum += count;
            }
            _ => end.segments.push_back((at, segment)),
        }
        if end.is_stalled
            && let Some(peer) = end.peer
        {
            self.grow_impatient(ctx, peer, ANSWER_LIMIT);
        }
        self.schedule_arrival(ctx, to);
    }

    fn schedule_arrival(&mut self, ctx: &mut Ctx<'_>, to: Id) {
        let Some(end) = self.end_mut(to) else { return };
        if let Some(&(at, _)) = end.segments.front()
            && !end.is_scheduled
            && !end.is_stalled
        {
            end.is_scheduled = true;
            ctx.later(at, Event::Arrival(to));
        }
    }

    /// The first segments of an endpoint arrive, unless the link is cut.
    pub(super) fn arrive(&mut self, ctx: &mut Ctx<'_>, id: Id) {
        let Some((own, other)) = self.path(id) else { return };
        let (is_blocked, is_deaf) = (self.is_blocked(other, own), self.is_cut(own, other));
        let is_repeated = self.is_up(other);
        let Some(end) = self.end_mut(id) else { return };
        end.is_scheduled = false;
        let peer = end.peer;
        if is_blocked {
            if !is_repeated {
                return self.forget_segments(id);
            }
            if end.segments.is_empty() || end.is_stalled {
                return;
            }
            end.is_stalled = true;
            ctx.note((own, other), |from| Incident::HeldUp { from });
            // An answer is expected to all but the news that a connection stands.
            let expects_answer = end.segments.iter().any(|(_, what)| *what != Segment::Open);
            self.stall(other, own, Stalled::Arrival(id));
            if let Some(peer) = peer.filter(|_| expects_answer) {
                self.grow_impatient(ctx, peer, ANSWER_LIMIT);
            }
            return;
        }
        while let Some(end) = self.end_mut(id)
            && let Some(&(at, segment)) = end.segments.front()
            && at <= ctx.now
        {
            end.segments.pop_front();
            if segment == Segment::Open && end.segments.is_empty() {
                // Many connections are idle from now on.
                end.segments = VecDeque::new();
            }
            self.deliver(ctx, id, segment);
        }
        if let Some(peer) = peer {
            if is_deaf {
                // The peer does not hear that its data has arrived.
                self.wait_for_answer(ctx, peer, (own, other), ANSWER_LIMIT);
            } else if self.end_mut(peer).is_some_and(|sender| !sender.is_waiting) {
                self.calm_down(ctx, peer);
            }
        }
        self.schedule_arrival(ctx, id);
    }

    /// Lets the segments of an endpoint travel again that wait for the link.
    pub(super) fn resume_arrivals(&mut self, ctx: &mut Ctx<'_>, id: Id) {
        let Some((own, other)) = self.path(id) else { return };
        let at = ctx.now + self.least_latency(other, own);
        let Some(end) = self.end_mut(id) else { return };
        if std::mem::take(&mut end.is_stalled) && !end.segments.is_empty() {
            end.is_scheduled = true;
            ctx.later(at, Event::Arrival(id));
        }
    }

    /// One segment arrives.
    fn deliver(&mut self, ctx: &mut Ctx<'_>, id: Id, segment: Segment) {
        if let Some(path) = self.path(id) {
            match segment {
                Segment::Bytes(bytes) => ctx.note(path, |from| Incident::Receives { from, bytes }),
                Segment::End => ctx.note(path, |from| Incident::StreamEnds { from }),
                Segment::Open | Segment::Reset => {}
            }
        }
        match segment {
            Segment::Open => self.opened(ctx, id),
            Segment::Bytes(_) if self.end_mut(id).is_some_and(|end| end.refuses_data()) => {
                self.refuse_data(ctx, id);
            }
            Segment::Bytes(count) => {
                if let Some(end) = self.end_mut(id) {
                    end.arrived += count;
                }
                self.wake_readers(ctx, id);
            }
            Segment::End => {
                if let Some(end) = self.end_mut(id) {
                    end.has_ended = true;
                }
                self.wake_readers(ctx, id);
            }
            Segment::Reset => {
                let Some(end) = self.end_mut(id) else { return };
                match (end.is_unix, end.has_ended) {
                    // As on Linux, such a socket is only at its end, and a read says why.
                    (true, _) => {
                        (end.has_ended, end.writes_shut, end.peer) = (true, true, None);
                        if let Some(socket) = self.sockets.get_mut(id) {
                            socket.error = Some(Errno::CONNRESET);
                        }
                        self.wake(ctx, id);
                    }
                    _ if end.is_closed() => {}
                    // As on Linux, the error says whether the peer had ended its stream before.
                    (false, true) => self.fail(ctx, id, Errno::PIPE),
                    (false, false) => self.fail(ctx, id, Errno::CONNRESET),
                }
            }
        }
    }

    /// Resets a connection at both ends, because data has arrived for a program that has shut both
    /// directions.
    fn refuse_data(&mut self, ctx: &mut Ctx<'_>, id: Id) {
        let Some(path) = self.path(id) else { return };
        let peer = self.end_mut(id).and_then(|end| end.peer);
        self.fail(ctx, id, Errno::CONNRESET);
        if let Some(peer) = peer {
            self.send_to_end(ctx, path, peer, Segment::Reset, Duration::ZERO);
            if let Some(other) = self.end_mut(peer) {
                other.peer = None;
            }
        }
    }

    /// Forgets what has not arrived at an endpoint. If that is the news that the connection stands,
    /// nothing will ever accept it, so it is removed.
    pub(super) fn forget_segments(&mut self, id: Id) {
        let Some(end) = self.end_mut(id) else { return };
        let is_unopened = end.is_unopened();
        end.forget_segments();
        if is_unopened {
            self.sockets.remove(id);
        }
    }

    /// Ends a connection at this end, with an error.
    pub(super) fn fail(&mut self, ctx: &mut Ctx<'_>, id: Id, error: Errno) {
        let Some(end) = self.end_mut(id) else { return };
        if end.is_over {
            return;
        }
        end.is_over = true;
        end.peer = None;
        if let Some(path) = self.path(id) {
            ctx.note(path, |to| Incident::Broken { to });
        }
        self.calm_down(ctx, id);
        self.forget_segments(id);
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.error = Some(error);
        }
        self.wake(ctx, id);
    }

    /// Breaks a connection, at both ends at once.
    pub(super) fn reset_connection(&mut self, ctx: &mut Ctx<'_>, id: Id) {
        let peer = self.end_mut(id).and_then(|end| end.peer);
        self.fail(ctx, id, Errno::CONNRESET);
        if let Some(peer) = peer {
            self.fail(ctx, peer, Errno::CONNRESET);
        }
    }

    /// Breaks all connections between two hosts.
    pub(crate) fn reset_link(&mut self, ctx: &mut Ctx<'_>, one: HostId, other: HostId) {
        let ids: Vec<Id> = self.sockets.iter().map(|(id, _)| id).collect();
        for id in ids {
            if self.path(id).is_some_and(|path| path == (one, other) || path == (other, one)) {
                self.fail(ctx, id, Errno::CONNRESET);
            }
        }
    }

    /// An endpoint has sent something to a connection that its peer's host does not know. The host
    /// answers with a reset, as soon as it can be reached.
    pub(super) fn expect_reset(&mut self, ctx: &mut Ctx<'_>, id: Id) {
        let Some((own, other)) = self.path(id) else { return };
        if own == other {
            self.deliver(ctx, id, Segment::Reset);
            return;
        }
        for direction in [(own, other), (other, own)] {
            if self.is_cut(direction.0, direction.1) {
                self.wait_for_answer(ctx, id, direction, ANSWER_LIMIT);
                return;
            }
        }
        let there = self.segment_arrival(ctx, (own, other), 0);
        let back = self.segment_arrival(ctx, (other, own), 0);
        let Some(end) = self.end_mut(id) else { return };
        if !std::mem::replace(&mut end.expects_reset, true) {
            let at = there + back.saturating_duration_since(ctx.now);
            self.queue_segment(ctx, id, Segment::Reset, at);
        }
    }

    /// An endpoint waits until a direction is no longer cut, or gives up.
    fn wait_for_answer(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: Id,
        (from, to): (HostId, HostId),
        limit: Duration,
    ) {
        let Some(end) = self.end_mut(id) else { return };
        if !std::mem::replace(&mut end.is_waiting, true) {
            self.stall(from, to, Stalled::Unanswered(id));
        }
        self.grow_impatient(ctx, id, limit);
    }

    fn grow_impatient(&mut self, ctx: &mut Ctx<'_>, id: Id, limit: Duration) {
        let at = ctx.now + limit;
        let Some(end) = self.end_mut(id) else { return };
        if end.patience.is_none_or(|earlier| at < earlier) {
            let earlier = end.patience.replace(at);
            earlier.inspect(|earlier| ctx.withdraw(*earlier, Event::GiveUp(id)));
            ctx.later(at, Event::GiveUp(id));
        }
    }

    /// An endpoint does not wait for an answer any more.
    fn calm_down(&mut self, ctx: &mut Ctx<'_>, id: Id) {
        let Some(end) = self.end_mut(id) else { return };
        if let Some(at) = end.patience.take() {
            ctx.withdraw(at, Event::GiveUp(id));
        }
    }

    /// An endpoint that waits for an answer gives up, if its time has come.
    pub(super) fn give_up(&mut self, ctx: &mut Ctx<'_>, id: Id) {
        let Some(end) = self.end_mut(id) else { return };
        if end.patience.is_none_or(|at| ctx.now < at) {
            return;
        }
        end.patience = None;
        if let Some(peer) = end.peer
            && let Some(other) = self.end_mut(peer)
        {
            // Nothing repeats what is under way to the peer, which does not learn of this.
            other.peer = None;
            self.forget_segments(peer);
        }
        self.fail(ctx, id, Errno::TIMEDOUT);
    }

    /// The direction for which an endpoint has waited is no longer cut.
    pub(super) fn resume_sender(&mut self, ctx: &mut Ctx<'_>, id: Id) {
        let Some(end) = self.end_mut(id) else { return };
        if !std::mem::take(&mut end.is_waiting) || end.is_over {
            return;
        }
        let has_peer = end.peer.is_some();
        self.calm_down(ctx, id);
        if !has_peer {
            self.expect_reset(ctx, id);
        } else {
            self.expect_room(ctx, id);
        }
    }

    /// An endpoint has sent something to a host that has crashed.
    pub(super) fn miss_answer(&mut self, ctx: &mut Ctx<'_>, id: Id) {
        if let Some(path) = self.path(id) {
            self.wait_for_answer(ctx, id, path, ANSWER_LIMIT);
        }
    }

    /// Lets idle endpoints with keep-alive notice that they get no answers.
    pub(super) fn probe(&mut self, ctx: &mut Ctx<'_>) {
        let limits: Vec<(Id, Duration)> = self
            .sockets
            .iter()
            .filter(|(_, socket)| matches!(socket.kind, Kind::Stream(_)))
            .filter_map(|(id, socket)| Some((id, socket.options.keepalive_limit()?)))
            .collect();
        for (id, limit) in limits {
            let Some((own, other)) = self.path(id) else { continue };
            for direction in [(own, other), (other, own)] {
                if self.is_cut(direction.0, direction.1) {
                    self.wait_for_answer(ctx, id, direction, limit);
                }
            }
        }
    }
}
