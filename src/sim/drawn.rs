//! The faults that a run has drawn, as messages list them.

use std::fmt;

use super::pilot::Record;
use crate::driver::{DrawnFault, FaultKind, Struck};

/// The most faults that a message lists.
const MOST: usize = 12;

/// The faults of a run, each in a line of its own that begins with a line break.
pub(super) struct Faults<'r>(pub(super) &'r Record);

impl fmt::Display for Faults<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Faults(record) = *self;
        for struck in record.drawn.iter().take(MOST) {
            f.write_str("\nfault: ")?;
            self.describe(f, struck)?;
        }
        match record.drawn.len().saturating_sub(MOST) {
            0 => Ok(()),
            1 => f.write_str("\nand 1 more fault, which the trace names"),
            more => write!(f, "\nand {more} more faults, which the trace names"),
        }
    }
}

impl Faults<'_> {
    /// Returns the name of a host.
    fn host(&self, number: u16) -> String {
        match self.0.hosts.get(usize::from(number)) {
            Some(name) if number > 0 => format!("'{name}'"),
            _ => String::from("the root host"),
        }
    }

    /// Says which operation of which host has met with the fault, and when.
    fn describe(&self, f: &mut fmt::Formatter<'_>, struck: &Struck) -> fmt::Result {
        let Struck { fault: DrawnFault { kind, host, number }, at, .. } = *struck;
        write!(f, "{}, at {at:?} ({}@{host}:{number})", self.what(struck), kind.word())
    }

    /// Says which operation of which host has met with the fault.
    pub(super) fn what(&self, struck: &Struck) -> String {
        let Struck { fault: DrawnFault { kind, host, number }, to, .. } = *struck;
        let own = self.host(host);
        let other = to.map(|to| self.host(to.0)).unwrap_or_default();
        match kind {
            FaultKind::Loss => format!("packet {number} from {own}, to {other}, was lost"),
            FaultKind::Late => format!("datagram {number} from {own}, to {other}, was overtaken"),
            FaultKind::Twice => {
                format!("datagram {number} from {own}, to {other}, arrived twice")
            }
            FaultKind::Reset => {
                format!("write {number} of {own}, to {other}, broke its connection")
            }
            FaultKind::Refused => format!("connection {number} of {own}, to {other}, was refused"),
            FaultKind::Slow => format!("connection {number} of {own}, to {other}, was slow"),
            FaultKind::Short => format!("transfer {number} of {own} moved a part of its bytes"),
            FaultKind::Error => {
                format!("read or write {number} of a file of {own} failed with EIO")
            }
            FaultKind::Sync => format!("sync {number} of {own} failed with EIO"),
            FaultKind::Full => format!("new file {number} of {own} failed with EMFILE"),
            FaultKind::Crash => format!("crash {number} of {own} was drawn"),
            FaultKind::Power => format!("power failure {number} of {own} was drawn"),
            FaultKind::Cut => format!("partition {number} of {own}, from {other}, was drawn"),
            FaultKind::Chance => format!("chance {number} of {own} came true"),
            FaultKind::Lie => {
                format!("sync {number} of {own} succeeded, and the disk lacks a part")
            }
            FaultKind::Astray => {
                format!("write {number} to a file of {own} went to another place of it")
            }
            FaultKind::Rot => format!("read {number} of a file of {own} found a changed bit"),
            FaultKind::Jump => format!("clock jump {number} of {own} was drawn"),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Faults;
    use crate::driver::{DrawnFault, FaultKind, HostId, Struck};
    use crate::sim::pilot::Record;
    use std::time::Duration;

    #[test]
    fn each_kind_names_the_operation_the_host_and_the_time() {
        for kind in FaultKind::ALL {
            let fault = DrawnFault { kind, host: 1, number: 7 };
            let struck = Struck { fault, to: Some(HostId(0)), at: Duration::from_millis(1500) };
            let hosts = vec!["root".into(), "one".into()];
            let record = Record { drawn: vec![struck; 14], hosts, ..Record::default() };
            let text = Faults(&record).to_string();
            let first = text.trim_start().lines().next().unwrap();
            let end = format!(", at 1.5s ({}@1:7)", kind.word());
            assert!(first.contains(" 7 ") && first.contains("'one'"), "{first}");
            assert!(
                first.ends_with(&end) && text.ends_with("and 2 more faults, which the trace names"),
                "{text}"
            );
        }
    }
}
