//! Who works on jobs that were handed out for the first time.
//!
//! Such a job has no record of its own, as that would cost as much as the job. A process has a
//! *page* with all such jobs that it works on, and the work on a job begins when a page with it is
//! stored. What begins at the same time is on the same page. See decision 35.
//!
//! All pages are in one stream, so they have an order. If a server has handed a job out twice, the
//! holder whose page was stored first works on it: each process reads the pages that were stored
//! since it read last, if there are any, before it begins what is new on its own.
//!
//! A job stays on the page for a few versions after its end, for readers that are slow. The page of
//! a process that was killed stays, too, and says that the work on its jobs has begun. It is
//! removed when none of them is there any more.
//!
//! A page names a job by its sequence number and a part of its hashed id, as the stream of the jobs
//! may have been deleted and created since.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt::Write;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ecru::Source;
use ecru::source::WaitList;
use ecru_nats::jetstream::{JetStream, StoredMessage};
use ecru_nats::{Error, Message};

use super::failure::{OTHER_SEQUENCE, failed, is_full, is_passing, repeated};
use super::names::{EXPECTED, Names};
use super::place::place;
use crate::errors::LeaseLost;
use crate::id::any_number;
use crate::wall::wall;

/// How many jobs a page has, at most, that are worked on. A page is always written as a whole.
const PAGE: usize = 256;

/// For how many versions of a page a job stays there at least.
const KEPT: usize = 4;

/// How many jobs are remembered, at least.
const REMEMBERED: usize = 1 << 16;

/// How often a page is read, at most, that is written while all pages are read.
const MOST_TIMES: u32 = 3;

/// The pause before a page is written again, while the servers elect a leader or the client
/// connects again.
const PAUSE: Duration = Duration::from_millis(100);

/// Names a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Entry {
    sequence: u64,
    hash: u16,
}

impl Entry {
    pub(super) fn new(id: &str, sequence: u64) -> Entry {
        // FNV-1a, folded.
        let hash = id.bytes().fold(0x811c_9dc5, |hash: u32, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        Entry { sequence, hash: (hash >> 16 ^ hash & 0xffff) as u16 }
    }
}

/// A page as it is stored: `SINCE SEQUENCE-HASH-BEGUN-SECONDS ..`. The last part is for operators:
/// the time on the wall at which the work began.
#[derive(Debug, PartialEq, Eq)]
struct Text {
    /// Each job that has begun after the version of the page with this number is there.
    since: u64,
    /// The jobs, each with the number of the first version that has it.
    jobs: Vec<(Entry, u64)>,
}

impl Text {
    fn read(stored: &StoredMessage) -> Text {
        Text::parse(&stored.payload, stored.sequence)
    }

    /// Another program may publish anything here.
    fn parse(payload: &[u8], own: u64) -> Text {
        let mut words = str::from_utf8(payload).unwrap_or_default().split(' ');
        let since = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        let jobs = words.filter_map(|word| {
            let mut parts = word.split('-');
            let sequence = parts.next()?.parse().ok()?;
            let hash = u16::from_str_radix(parts.next()?, 16).ok()?;
            // A new one does not know its number yet.
            let begun = parts.next()?.parse().ok().filter(|number| *number > 0).unwrap_or(own);
            Some((Entry { sequence, hash }, begun))
        });
        Text { since, jobs: jobs.collect() }
    }
}

/// The pages of this process, for one queue.
pub(super) struct Journal {
    js: JetStream,
    names: Names,
    name: String,
    pages: Mutex<Vec<Arc<Page>>>,
    others: ecru::sync::Mutex<Others>,
    all: ecru::sync::Mutex<Option<All>>,
}

/// What all pages said, as they were read for jobs that were handed out again.
struct All {
    read_at: Instant,
    jobs: HashSet<Entry>,
}

/// What is known of the jobs that were begun anywhere.
struct Others {
    /// What was stored up to this number of the stream has been read.
    read: u64,
    /// The jobs that were begun, with the numbers of the pages that say so first: the last ones,
    /// and older ones.
    begun: [HashMap<Entry, u64>; 2],
    /// What was begun since is known.
    known_since: Instant,
    /// When the older ones begin.
    older_since: Instant,
}

impl Others {
    fn note(&mut self, entry: Entry, number: u64) {
        if self.begun[0].len() >= REMEMBERED {
            self.begun.swap(0, 1);
            self.begun[0].clear();
            self.known_since = std::mem::replace(&mut self.older_since, ecru::time::now());
        }
        self.begun[0].entry(entry).or_insert(number);
    }

    fn begun(&self, entry: Entry) -> Option<u64> {
        self.begun.iter().find_map(|begun| begun.get(&entry).copied())
    }
}

struct Page {
    subject: String,
    state: Mutex<State>,
    list: WaitList,
}

#[derive(Default)]
struct State {
    jobs: BTreeMap<Entry, Begun>,
    /// How many of the jobs are worked on.
    running: usize,
    /// The versions that were stored last, as their numbers in the stream.
    versions: VecDeque<u64>,
    /// A task is writing the page.
    is_writing: bool,
    /// The number of the page, or 0 if there is none, if it is known.
    last: Option<u64>,
}

#[derive(Clone, Copy, Default)]
struct Begun {
    /// The number of the first version with the job, or 0 if that is not known.
    number: u64,
    /// The first version is stored, and this is what others have begun before.
    outcome: Option<Outcome>,
    has_ended: bool,
    /// In seconds since 1970.
    at: u64,
}

/// What is known of a job whose page is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It begins here.
    First,
    /// Pages were missed that may have had it.
    Unsure,
    /// It has begun before.
    Late,
}

/// Ready when a job is stored, or no task is writing its page.
struct Written<'a> {
    page: &'a Page,
    entry: Entry,
}

impl Source for Written<'_> {
    type Item = ();

    fn try_take(&self) -> Option<()> {
        let state = self.page.state();
        (state.outcome(self.entry).is_some() || !state.is_writing).then_some(())
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.page.list);
    }
}

/// The right to write a page.
struct Writing<'a>(&'a Page);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.state().is_writing = false;
        self.0.list.notify_all();
    }
}

impl State {
    fn outcome(&self, entry: Entry) -> Option<Outcome> {
        self.jobs.get(&entry).and_then(|begun| begun.outcome)
    }

    /// Returns since which version each job is there.
    fn since(&self) -> u64 {
        if self.versions.len() < KEPT { 0 } else { self.versions[0] }
    }

    /// Returns what the page says now, and the jobs that are new on it.
    fn text(&mut self) -> (String, Vec<Entry>) {
        let since = self.since();
        self.jobs.retain(|_, begun| !begun.has_ended || begun.number > since);
        let mut text = String::with_capacity(33 * self.jobs.len() + 20);
        let _ = write!(text, "{since}");
        let mut new = Vec::new();
        for (entry, Begun { number, outcome, at, .. }) in &self.jobs {
            let Entry { sequence, hash } = entry;
            let _ = write!(text, " {sequence}-{hash:04x}-{number}-{at:x}");
            if outcome.is_none() {
                new.push(*entry);
            }
        }
        (text, new)
    }

    /// Notes that a version is stored.
    fn stored(&mut self, number: u64) {
        self.last = Some(number);
        self.versions.push_back(number);
        if self.versions.len() > KEPT {
            self.versions.pop_front();
        }
    }

    fn decide(&mut self, entry: Entry, number: u64, outcome: Outcome) {
        if let Some(begun) = self.jobs.get_mut(&entry) {
            (begun.number, begun.outcome) = (number, Some(outcome));
        }
    }
}

impl Page {
    fn new(subject: String) -> Page {
        // No other process has a page of this name.
        let state = State { last: Some(0), ..State::default() };
        Page { subject, state: Mutex::new(state), list: WaitList::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job, if there is room.
    fn add(&self, entry: Entry) -> bool {
        let mut state = self.state();
        let has_room = state.running < PAGE;
        if has_room {
            state.running += 1;
            state.jobs.insert(entry, Begun { at: wall().as_secs(), ..Begun::default() });
        }
        has_room
    }
}

/// A job on a page. It stays there until [`leave`](Noted::leave) is called, because a process that
/// ends must not forget it.
pub(super) struct Noted {
    page: Arc<Page>,
    entry: Entry,
}

impl Noted {
    /// Says that the job is settled, or has a record of its own.
    pub(super) fn leave(self) {
        let mut state = self.page.state();
        state.running -= 1;
        match state.jobs.get_mut(&self.entry) {
            // It may have been stored without an answer.
            Some(Begun { outcome: None, .. }) => drop(state.jobs.remove(&self.entry)),
            Some(begun) => begun.has_ended = true,
            None => {}
        }
    }
}

impl Journal {
    pub(super) fn new(js: &JetStream, names: &Names) -> Journal {
        let now = ecru::time::now();
        Journal {
            js: js.clone(),
            names: names.clone(),
            name: format!("{}-{:016x}", place(), any_number()),
            pages: Mutex::default(),
            others: ecru::sync::Mutex::new(Others {
                read: 0,
                begun: Default::default(),
                known_since: now,
                older_since: now,
            }),
            all: ecru::sync::Mutex::new(None),
        }
    }

    /// Returns what this process is called in records: its host, its number and a random part.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Records that the work begins on a job that was received at this time. Returns when that is
    /// stored, and whether the job may have been begun elsewhere all the same: then it is still to
    /// be looked whether it is there.
    pub(super) fn begin(&self, entry: Entry, received: Instant) -> io::Result<(Noted, bool)> {
        let noted = self.add(entry)?;
        match self.store(&noted) {
            Ok(Outcome::Late) => {
                noted.leave();
                Err(LeaseLost::Expired.into())
            }
            Ok(outcome) => {
                let is_unsure = outcome == Outcome::Unsure;
                Ok((noted, is_unsure || received < self.others.lock().known_since))
            }
            Err(error) => {
                noted.leave();
                Err(error)
            }
        }
    }

    /// Puts a job on a page. Fails if it was handed out to this process before, and begun.
    fn add(&self, entry: Entry) -> io::Result<Noted> {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if pages.iter().any(|page| page.state().jobs.contains_key(&entry)) {
            return Err(LeaseLost::Expired.into());
        }
        let found = pages.iter().find(|page| page.add(entry)).cloned();
        let page = found.unwrap_or_else(|| {
            let name = format!("{}-{}", self.name, pages.len());
            let page = Arc::new(Page::new(self.names.page(&name)));
            page.add(entry);
            pages.push(Arc::clone(&page));
            page
        });
        Ok(Noted { page, entry })
    }

    /// Waits until a job is stored. One of those that wait writes for all.
    fn store(&self, noted: &Noted) -> io::Result<Outcome> {
        let Noted { page, entry } = noted;
        loop {
            let mut state = page.state();
            if let Some(outcome) = state.outcome(*entry) {
                return Ok(outcome);
            }
            if std::mem::replace(&mut state.is_writing, true) {
                drop(state);
                Written { page, entry: *entry }.wait()?;
                continue;
            }
            drop(state);
            let _writing = Writing(page);
            // What is about to begin is written, too.
            ecru::yield_now()?;
            self.write(page)?;
        }
    }

    /// Writes a page as it is now.
    fn write(&self, page: &Page) -> io::Result<()> {
        let last = page.state().last;
        let last = match last {
            Some(last) => last,
            None => {
                let found = repeated(|| self.js.last_message(&self.names.attempts, &page.subject))?;
                found.map_or(0, |found| found.sequence)
            }
        };
        let mut state = page.state();
        let (text, new) = state.text();
        // Not known until it is stored.
        state.last = None;
        drop(state);
        match self.publish(&page.subject, text, last) {
            Ok(stored) => {
                page.state().stored(stored);
                let outcomes = self.read_others(stored, &new)?;
                let mut state = page.state();
                for (entry, outcome) in new.into_iter().zip(outcomes) {
                    state.decide(entry, stored, outcome);
                }
                Ok(())
            }
            // Nothing is recorded while the servers have no room: jobs that are worked on make it.
            Err(error) if is_full(&error) => {
                let mut state = page.state();
                state.last = Some(last);
                new.into_iter().for_each(|entry| state.decide(entry, 0, Outcome::First));
                Ok(())
            }
            // An earlier version was stored, or the page was removed.
            Err(error) if error.code().is_some_and(|code| OTHER_SEQUENCE.contains(&code)) => Ok(()),
            Err(error) if is_passing(&error) => Ok(ecru::sleep(PAUSE)?),
            Err(error) => Err(failed(error)),
        }
    }

    /// Stores a page if the last version has this number, because an earlier one may still be on
    /// its way over a connection that was lost.
    fn publish(&self, subject: &str, text: String, last: u64) -> Result<u64, Error> {
        let message = Message::new(subject, text).with_header(EXPECTED, &last.to_string())?;
        Ok(self.js.publish_message(&message)?.sequence)
    }

    /// Reads what other processes have stored before a version of an own page, and returns what
    /// becomes of its new jobs.
    fn read_others(&self, stored: u64, new: &[Entry]) -> io::Result<Vec<Outcome>> {
        let mut others = self.others.lock();
        let (before, mut has_missed) = (others.read, false);
        // The numbers of a stream have no gaps: without one, nothing else was stored.
        if stored > before + 1 {
            let own = self.names.page(&self.name);
            let last = self.each(before + 1, |page| {
                if page.subject.starts_with(&own) {
                    return;
                }
                let Text { since, jobs } = Text::read(page);
                has_missed |= since > before;
                for (entry, number) in jobs.into_iter().filter(|(_, number)| *number > before) {
                    others.note(entry, number);
                }
            })?;
            others.read = last.unwrap_or(stored);
        }
        others.read = others.read.max(stored);
        let outcomes = new.iter().map(|entry| {
            if others.begun(*entry).is_some_and(|number| number < stored) {
                return Outcome::Late;
            }
            others.note(*entry, stored);
            if has_missed { Outcome::Unsure } else { Outcome::First }
        });
        Ok(outcomes.collect())
    }

    /// Returns whether a page of any process has a job that was received at this time.
    pub(super) fn has(&self, entry: Entry, received: Instant) -> io::Result<bool> {
        let mut all = self.all.lock();
        // Many jobs are handed out again at once. What was read after the job came is enough.
        if let Some(all) = all.as_ref().filter(|all| all.read_at > received) {
            return Ok(all.jobs.contains(&entry));
        }
        let read_at = ecru::time::now();
        let mut jobs = HashSet::new();
        self.each(1, |page| {
            jobs.extend(Text::read(page).jobs.into_iter().map(|(entry, _)| entry));
        })?;
        let has = jobs.contains(&entry);
        *all = Some(All { read_at, jobs });
        Ok(has)
    }

    /// Begins to remove the pages of other processes whose jobs are all gone. `first` is the lowest
    /// sequence number of a job that is there.
    pub(super) fn sweep(&self, first: u64) -> io::Result<()> {
        let mut old = Vec::new();
        self.each(1, |page| {
            if Text::read(page).jobs.iter().all(|(entry, _)| entry.sequence < first) {
                old.push((page.subject.clone(), page.sequence));
            }
        })?;
        let own = self.names.page(&self.name);
        for (subject, sequence) in old.iter().filter(|(subject, _)| !subject.starts_with(&own)) {
            self.js.begin_purge(&self.names.attempts, subject, *sequence).map_err(failed)?;
        }
        Ok(())
    }

    /// Reads the pages from a number of the stream on. Returns the number of the last one, if all
    /// were read.
    fn each(&self, mut from: u64, mut f: impl FnMut(&StoredMessage)) -> io::Result<Option<u64>> {
        let (stream, pattern) = (&self.names.attempts, self.names.page("*"));
        let (mut last, mut times) = (0, BTreeMap::<String, u32>::new());
        while let Some(page) = repeated(|| self.js.next_message(stream, from, &pattern))? {
            f(&page);
            (last, from) = (page.sequence, page.sequence + 1);
            // A page that is written meanwhile comes again. Those that are written more rarely come
            // before it.
            let times = times.entry(page.subject).or_default();
            *times += 1;
            if *times >= MOST_TIMES {
                return Ok(None);
            }
        }
        Ok(Some(last))
    }
}

#[cfg(test)]
mod tests {
    use super::{Begun, Entry, Outcome, State, Text};

    #[test]
    fn pages_are_reversible() {
        let entries = [Entry::new("a", 1), Entry::new("b", u64::MAX)];
        assert_ne!(entries[0].hash, entries[1].hash);
        let mut state = State::default();
        for entry in entries {
            state.jobs.insert(entry, Begun::default());
        }
        state.decide(entries[0], 5, Outcome::First);
        let (text, new) = state.text();
        assert_eq!(new, [entries[1]]);
        let jobs = vec![(entries[0], 5), (entries[1], 7)];
        assert_eq!(Text::parse(text.as_bytes(), 7), Text { since: 0, jobs });
        for bad in ["", "x", "1 2", "1 2-", "1 -1-1", "1 x-1-1", "1 1-x-1", "\u{7f}"] {
            assert!(Text::parse(bad.as_bytes(), 7).jobs.is_empty(), "{bad}");
        }
        assert!(Text::parse(b"\xff", 7).jobs.is_empty());
    }

    #[test]
    fn what_has_ended_stays_for_some_versions() {
        let (mut state, entry) = (State::default(), Entry::new("a", 1));
        state.jobs.insert(entry, Begun::default());
        for version in 10..20 {
            let (text, _) = state.text();
            let page = Text::parse(text.as_bytes(), version);
            let has = page.jobs.iter().any(|(other, _)| *other == entry);
            // A reader that has read up to a version misses nothing that the page has begun since.
            assert_eq!(has, page.since < 10, "{version}");
            state.stored(version);
            state.decide(entry, 10, Outcome::First);
            if let Some(begun) = state.jobs.get_mut(&entry) {
                begun.has_ended = true;
            }
        }
    }
}
