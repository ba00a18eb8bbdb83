//! The options of sockets. Most are stored and returned, and change nothing.

use super::Outcome;
use crate::driver::request::{OptionKind, OptionValue};
use rustix::io::Errno;
use std::sync::Arc;
use std::time::Duration;

/// Linux's limit for the size of a buffer (`net.core.rmem_max` and `wmem_max`).
const LARGEST_BUFFER: usize = 212_992;
/// The least sizes that Linux sets.
const LEAST_RECEIVE_BUFFER: usize = 2_304;
const LEAST_SEND_BUFFER: usize = 4_608;

/// The options of one socket that have been set. Most sockets have few or none. Those that a
/// listener passes on are shared by all of its connections, until one of them sets its own.
#[derive(Clone, Debug, Default)]
pub(super) struct Options(Option<Arc<Vec<(OptionKind, OptionValue)>>>);

impl Options {
    pub(super) fn chosen(&self, kind: OptionKind) -> Option<OptionValue> {
        let set = self.0.as_deref()?;
        set.iter().find(|(other, _)| *other == kind).map(|(_, value)| *value)
    }

    pub(super) fn get(&self, kind: OptionKind) -> OptionValue {
        self.chosen(kind).unwrap_or_else(|| initial(kind))
    }

    /// # Errors
    /// Fails with `EINVAL` if Linux would not accept the value.
    pub(super) fn set(&mut self, kind: OptionKind, value: OptionValue) -> Outcome<()> {
        let value = accepted(kind, value)?;
        let set = Arc::make_mut(self.0.get_or_insert_default());
        match set.iter_mut().find(|(other, _)| *other == kind) {
            Some((_, place)) => *place = value,
            None => set.push((kind, value)),
        }
        Ok(())
    }

    /// Returns the size of a buffer that was set.
    pub(super) fn chosen_size(&self, kind: OptionKind) -> Option<usize> {
        match self.chosen(kind) {
            Some(OptionValue::Size(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// Returns how many bytes of datagrams wait in the socket at most.
    pub(super) fn receive_buffer(&self) -> usize {
        self.chosen_size(OptionKind::ReceiveBufferSize).unwrap_or(LARGEST_BUFFER)
    }

    /// Returns whether a close discards what was not sent.
    pub(super) fn closes_hard(&self) -> bool {
        self.get(OptionKind::Linger) == OptionValue::Limit(Some(Duration::ZERO))
    }

    /// Returns how long a connection stays without an answer before it fails, if it is probed.
    pub(super) fn keepalive_limit(&self) -> Option<Duration> {
        let OptionValue::Flag(true) = self.get(OptionKind::Keepalive) else { return None };
        let time = |kind| match self.get(kind) {
            OptionValue::Time(time) => time,
            _ => Duration::ZERO,
        };
        let OptionValue::Number(retries) = self.get(OptionKind::KeepaliveRetries) else {
            return None;
        };
        let probes = time(OptionKind::KeepaliveInterval) * retries;
        Some(time(OptionKind::KeepaliveTime) + probes)
    }
}

/// Returns the value of a new socket on Linux.
fn initial(kind: OptionKind) -> OptionValue {
    use OptionValue::{Flag, Limit, Number, Size, Time};
    match kind {
        OptionKind::ReuseAddress
        | OptionKind::Keepalive
        | OptionKind::NoDelay
        | OptionKind::Broadcast => Flag(false),
        OptionKind::QuickAck | OptionKind::MulticastLoopV4 | OptionKind::MulticastLoopV6 => {
            Flag(true)
        }
        OptionKind::ReceiveTimeout | OptionKind::SendTimeout | OptionKind::Linger => Limit(None),
        OptionKind::ReceiveBufferSize | OptionKind::SendBufferSize => Size(LARGEST_BUFFER),
        OptionKind::TimeToLive => Number(64),
        OptionKind::KeepaliveTime => Time(Duration::from_secs(7_200)),
        OptionKind::KeepaliveInterval => Time(Duration::from_secs(75)),
        OptionKind::KeepaliveRetries => Number(9),
        OptionKind::MulticastTtlV4 => Number(1),
    }
}

/// Returns what Linux makes of a value.
fn accepted(kind: OptionKind, value: OptionValue) -> Outcome<OptionValue> {
    use OptionValue::{Limit, Number, Size, Time};
    let is_accepted = match (kind, value) {
        // Linux needs one half of a buffer for its own records, so it doubles the size.
        (OptionKind::ReceiveBufferSize, Size(bytes)) => {
            return Ok(Size((bytes.min(LARGEST_BUFFER) * 2).max(LEAST_RECEIVE_BUFFER)));
        }
        (OptionKind::SendBufferSize, Size(bytes)) => {
            return Ok(Size((bytes.min(LARGEST_BUFFER) * 2).max(LEAST_SEND_BUFFER)));
        }
        (OptionKind::KeepaliveTime | OptionKind::KeepaliveInterval, Time(time)) => {
            let time = Duration::from_secs(whole_seconds(time));
            let is_accepted = (1..=32_767).contains(&time.as_secs());
            return if is_accepted { Ok(Time(time)) } else { Err(Errno::INVAL) };
        }
        (OptionKind::Linger, Limit(Some(time))) => {
            return Ok(Limit(Some(Duration::from_secs(whole_seconds(time)))));
        }
        (OptionKind::TimeToLive, Number(hops)) => (1..=255).contains(&hops),
        (OptionKind::MulticastTtlV4, Number(hops)) => hops <= 255,
        (OptionKind::KeepaliveRetries, Number(retries)) => (1..=127).contains(&retries),
        _ => true,
    };
    if is_accepted { Ok(value) } else { Err(Errno::INVAL) }
}

/// Rounds up to seconds, in which the kernel counts.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}
