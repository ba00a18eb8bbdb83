//! What the numbers of tasks in a message stand for.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;

use super::pilot::Record;
use crate::driver::HostId;

/// The most lines of a legend, and the most tasks that one line names.
const MOST: usize = 12;

/// A task of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Known {
    pub(super) is_root: bool,
    pub(super) spawned_at: &'static Location<'static>,
    pub(super) name: Option<String>,
    pub(super) host: HostId,
}

/// The tasks of a run that had a turn. What tasks have in common is kept once, so a run with many
/// tasks needs four bytes for each.
#[derive(Clone, Debug, Default)]
pub(super) struct Met {
    /// What is known of each task: 0 for nothing, and otherwise the place in `kinds`, plus 1.
    by_ordinal: Vec<u32>,
    kinds: Vec<Known>,
    /// The numbers in `by_ordinal`.
    numbers: BTreeMap<Known, u32>,
}

impl Met {
    /// Notes a task, unless it is known already.
    pub(super) fn note(&mut self, ordinal: u64, task: impl FnOnce() -> Known) {
        let Ok(place) = usize::try_from(ordinal) else { return };
        if self.by_ordinal.len() <= place {
            self.by_ordinal.resize(place + 1, 0);
        }
        if self.by_ordinal[place] == 0 {
            let known = task();
            let next = u32::try_from(self.kinds.len() + 1).unwrap_or(0);
            let number = *self.numbers.entry(known.clone()).or_insert(next);
            if number == next {
                self.kinds.push(known);
            }
            self.by_ordinal[place] = number;
        }
    }

    /// Notes that a task that had a turn belongs to a host.
    pub(super) fn set_host(&mut self, ordinal: u64, host: HostId) {
        let known = self.get(ordinal).cloned();
        if let Some(place) = usize::try_from(ordinal).ok().filter(|_| known.is_some()) {
            self.by_ordinal[place] = 0;
        }
        if let Some(known) = known {
            self.note(ordinal, || Known { host, ..known });
        }
    }

    /// Returns the host of a task.
    pub(super) fn host_of(&self, ordinal: u64) -> HostId {
        self.get(ordinal).map_or(HostId::ROOT, |known| known.host)
    }

    /// Returns the name of a task, if it has one.
    pub(super) fn name_of(&self, ordinal: u64) -> Option<&str> {
        self.get(ordinal)?.name.as_deref()
    }

    fn get(&self, ordinal: u64) -> Option<&Known> {
        let number = *self.by_ordinal.get(usize::try_from(ordinal).ok()?)?;
        self.kinds.get(usize::try_from(number.checked_sub(1)?).ok()?)
    }
}

/// The names and the places of some tasks. Each line begins with a line break, and has the tasks
/// that were spawned at one place with one name.
pub(super) struct Legend<'r, T> {
    record: &'r Record,
    tasks: T,
}

/// Returns the legend for these tasks of a run.
pub(super) fn legend<T>(record: &Record, tasks: T) -> Legend<'_, T>
where
    T: IntoIterator<Item = u64> + Clone,
{
    Legend { record, tasks }
}

impl<T: IntoIterator<Item = u64> + Clone> fmt::Display for Legend<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ordinals: Vec<u64> = self.tasks.clone().into_iter().collect();
        ordinals.sort_unstable();
        ordinals.dedup();
        let mut lines: Vec<(&Known, Vec<u64>)> = Vec::new();
        let mut places = BTreeMap::new();
        for ordinal in ordinals {
            let Some(known) = self.record.tasks.get(ordinal) else { continue };
            let place = *places.entry(known).or_insert(lines.len());
            if place == lines.len() {
                lines.push((known, Vec::new()));
            }
            lines[place].1.push(ordinal);
        }
        for (known, ordinals) in lines.iter().take(MOST) {
            f.write_str(if ordinals.len() == 1 { "\ntask " } else { "\ntasks " })?;
            for (place, ordinal) in ordinals.iter().take(MOST).enumerate() {
                write!(f, "{}#{ordinal}", if place == 0 { "" } else { ", " })?;
            }
            if ordinals.len() > MOST {
                write!(f, " and {} more", ordinals.len() - MOST)?;
            }
            match &known.name {
                Some(name) => write!(f, ": '{}', ", name.escape_debug())?,
                None => f.write_str(": ")?,
            }
            let begun = if known.is_root { "the root, run at" } else { "spawned at" };
            write!(f, "{begun} {}", known.spawned_at)?;
            if known.host != HostId::ROOT {
                write!(f, ", on the host '{}'", self.record.host(known.host))?;
            }
        }
        match lines.len().saturating_sub(MOST) {
            0 => Ok(()),
            more => write!(f, "\nand tasks of {more} more places"),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{HostId, Known, Met, legend};
    use crate::sim::pilot::Record;
    use std::panic::Location;

    #[test]
    fn tasks_of_one_place_and_name_share_a_line() {
        let here = Location::caller();
        let known = |is_root, name: Option<&'static str>| {
            move || Known {
                is_root,
                spawned_at: here,
                name: name.map(String::from),
                host: HostId::ROOT,
            }
        };
        let mut tasks = Met::default();
        tasks.note(0, known(true, None));
        tasks.note(1, known(false, None));
        tasks.note(3, known(false, Some("x")));
        (4..24).for_each(|ordinal| tasks.note(ordinal, known(false, None)));
        tasks.note(3, || unreachable!("it is known"));
        tasks.note(30, known(false, None));
        tasks.set_host(30, HostId(1));
        tasks.set_host(31, HostId(1));
        assert_eq!((tasks.host_of(30), tasks.host_of(31)), (HostId(1), HostId::ROOT));
        let hosts = vec!["root".into(), "one".into()];
        let record = Record { tasks, hosts, ..Record::default() };
        let one = legend(&record, [30]).to_string();
        assert_eq!(one, format!("\ntask #30: spawned at {here}, on the host 'one'"));
        let text = legend(&record, [3, 0, 1, 2, 4, 3, 77]).to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert_eq!(lines[1], format!("task #0: the root, run at {here}"));
        assert_eq!(lines[2], format!("tasks #1, #4: spawned at {here}"));
        assert_eq!(lines[3], format!("task #3: 'x', spawned at {here}"));
        let many = legend(&record, 4..24).to_string();
        assert!(many.contains("#15 and 8 more: spawned at"), "{many}");
    }
}
