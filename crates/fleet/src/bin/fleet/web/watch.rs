//! The task that asks the servers, for all browsers that watch. While none does, nothing is asked.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ecru::channel::{self, Receiver, Sender};
use ecru::select;
use hyper::body::Bytes;
use serde_json::{Value, json};

use super::detail;
use crate::asking::{Asking, is_cancelled};
use crate::names::kind;
use crate::top::collect::{self, Ages, Row};
use crate::top::table;

/// The pause between two looks at the queues.
const PAUSE: Duration = Duration::from_secs(2);

/// The most browsers that watch.
const MOST: usize = 32;

/// How many looks a rate is taken over.
const LOOKS: usize = 6;

/// What a browser wants to see in detail.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Chosen {
    /// The queue, as the servers call it.
    pub(super) queue: String,
    /// The number of the first of the dead.
    pub(super) from: u64,
}

struct Watcher {
    chosen: Option<Chosen>,
    give: Sender<Bytes>,
}

/// The browsers that watch.
pub(super) struct Watchers {
    all: Mutex<Vec<Watcher>>,
    wake: Sender<()>,
    woken: Receiver<()>,
}

impl Watchers {
    pub(super) fn new() -> Watchers {
        let (wake, woken) = channel::dropping(1);
        Watchers { all: Mutex::default(), wake, woken }
    }

    fn all(&self) -> MutexGuard<'_, Vec<Watcher>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a browser, if there is room. It gets the newest event, and misses those before it if it
    /// is slow.
    pub(super) fn add(&self, chosen: Option<Chosen>) -> Option<Receiver<Bytes>> {
        let (give, events) = channel::sliding(1);
        let mut all = self.all();
        all.retain(|watcher| !watcher.give.is_closed());
        if all.len() >= MOST {
            return None;
        }
        all.push(Watcher { chosen, give });
        drop(all);
        self.look();
        Some(events)
    }

    /// Lets the task look now.
    pub(super) fn look(&self) {
        // If it is full, the task has not looked since the last time.
        let _ = self.wake.try_send(());
    }

    /// Returns what is to be seen in detail, or `None` if no browser watches.
    fn chosen(&self) -> Option<Vec<Chosen>> {
        let mut all = self.all();
        all.retain(|watcher| !watcher.give.is_closed());
        let mut chosen: Vec<Chosen> = all.iter().filter_map(|it| it.chosen.clone()).collect();
        chosen.sort();
        chosen.dedup();
        (!all.is_empty()).then_some(chosen)
    }

    fn tell(&self, event: impl Fn(Option<&Chosen>) -> Bytes) {
        for watcher in &*self.all() {
            // A browser that has left is removed with the next look.
            let _ = watcher.give.try_send(event(watcher.chosen.as_ref()));
        }
    }
}

/// Asks the servers until it is cancelled.
pub(super) fn run(watchers: &Arc<Watchers>, asking: &Asking, may_change: bool) -> io::Result<()> {
    let mut rates = Rates::default();
    loop {
        let Some(chosen) = watchers.chosen() else {
            watchers.woken.recv()?;
            continue;
        };
        match look(asking, &chosen, &mut rates, may_change) {
            Ok((common, details)) => watchers.tell(|chosen| {
                let detail = chosen.and_then(|chosen| details.get(chosen)).unwrap_or(&Value::Null);
                event("numbers", &format!("{{\"chosen\":{detail},{}", &common[1..]))
            }),
            Err(error) if is_cancelled(&error) => return Err(error),
            // The client looks for another server meanwhile.
            Err(error) => {
                let problem = json!({ "problem": error.to_string() }).to_string();
                watchers.tell(|_| event("problem", &problem));
            }
        }
        select! {
            recv(watchers.woken) -> woken => woken?,
            default(PAUSE) => {},
        }
    }
}

/// Returns a server-sent event. JSON has no ends of lines.
fn event(name: &str, data: &str) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

/// Returns an object that all browsers get, and the details of the chosen queues.
fn look(
    asking: &Asking,
    chosen: &[Chosen],
    rates: &mut Rates,
    may_change: bool,
) -> io::Result<(String, BTreeMap<Chosen, Value>)> {
    let rows = collect::rows(asking, Ages::Asked)?;
    let now = ecru::time::now();
    let queues: Vec<Value> = rows.iter().map(|row| queue(row, rates.of(row, now))).collect();
    rates.forget(&rows);
    let js = asking.client.jetstream();
    let mut details = BTreeMap::new();
    for one in chosen {
        let row = rows.iter().find(|row| row.queue == one.queue);
        if let Some(row) = row {
            details.insert(one.clone(), detail::of(&js, row, one.from)?);
        }
    }
    let server = asking.client.server_info();
    let common = json!({
        "now": detail::now(),
        "changes": may_change,
        "server": format!("{} {}", crate::servers::shown(server.server_name.clone()), server.version),
        "queues": queues,
    });
    Ok((common.to_string(), details))
}

fn queue(row: &Row, rates: Option<[f64; 2]>) -> Value {
    let (kind, name) = kind(&row.queue);
    let mut value = json!({
        "queue": row.queue, "kind": kind, "name": name,
        "answers": row.numbers.is_some(), "workers": row.workers(),
    });
    if let Some(numbers) = row.numbers {
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        for (name, number) in [
            ("queued", json!(numbers.queued)),
            ("running", json!(numbers.running)),
            ("priorities", json!(table::ranks(&numbers))),
            ("reporting", json!(numbers.reporting)),
            ("percent", json!(numbers.percent)),
            ("redelivered", json!(numbers.redelivered)),
            ("dead", json!(numbers.dead)),
            ("paused", json!(seconds(numbers.paused))),
            ("age", json!(seconds(numbers.age))),
            ("sent", json!(rates.map(|rates| rates[0]))),
            ("settled", json!(rates.map(|rates| rates[1]))),
        ] {
            value[name] = number;
        }
    }
    value
}

/// The counters of each queue at the last looks.
#[derive(Default)]
struct Rates(BTreeMap<String, VecDeque<(Instant, [u64; 2])>>);

impl Rates {
    /// Notes the counters of a queue. Returns how many jobs were sent and settled in a second, if
    /// that is known.
    fn of(&mut self, row: &Row, now: Instant) -> Option<[f64; 2]> {
        let numbers = row.numbers?;
        let new = [numbers.sent, numbers.settled];
        let looks = self.0.entry(row.queue.clone()).or_default();
        // The queue was created anew, or nothing has watched for some time.
        let is_old = |(time, old): &(Instant, [u64; 2])| {
            now.saturating_duration_since(*time) > 5 * PAUSE || old[0] > new[0] || old[1] > new[1]
        };
        if looks.back().is_some_and(is_old) {
            looks.clear();
        }
        looks.push_back((now, new));
        if looks.len() > LOOKS {
            looks.pop_front();
        }
        let (begin, old) = looks.front()?;
        let seconds = now.saturating_duration_since(*begin).as_secs_f64();
        let rate = |index: usize| (new[index] - old[index]) as f64 / seconds;
        (seconds > 0.0).then(|| [rate(0), rate(1)])
    }

    fn forget(&mut self, rows: &[Row]) {
        self.0.retain(|queue, _| rows.iter().any(|row| row.queue == *queue));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::collect::Numbers;

    #[test]
    fn rates_are_differences_of_counters() {
        let row = |sent, settled| Row {
            queue: "q_mill".into(),
            numbers: Some(Numbers { sent, settled, ..Numbers::default() }),
            workers: None,
        };
        let (mut rates, begin) = (Rates::default(), ecru::time::now());
        assert_eq!(rates.of(&row(5, 5), begin), None);
        assert_eq!(rates.of(&row(25, 7), begin + Duration::from_secs(2)), Some([10.0, 1.0]));
        // A queue that was deleted and created begins again.
        assert_eq!(rates.of(&row(1, 0), begin + Duration::from_secs(4)), None);
        assert_eq!(rates.of(&row(3, 0), begin + Duration::from_secs(6)), Some([1.0, 0.0]));
        // Nothing has watched for an hour.
        assert_eq!(rates.of(&row(900, 0), begin + Duration::from_secs(3600)), None);
        rates.forget(&[]);
        assert!(rates.0.is_empty());
    }

    #[test]
    fn browsers_are_limited_and_leave() {
        let watchers = Watchers::new();
        assert_eq!(watchers.chosen(), None);
        let chosen = |from| Some(Chosen { queue: "q_mill".into(), from });
        let mut all: Vec<_> = (0..MOST).map(|_| watchers.add(chosen(1)).unwrap()).collect();
        assert!(watchers.add(None).is_none());
        drop(all.pop());
        all.push(watchers.add(chosen(7)).unwrap());
        assert_eq!(watchers.chosen().unwrap().len(), 2);
        watchers.tell(|chosen| event("numbers", &chosen.unwrap().from.to_string()));
        watchers.tell(|chosen| event("again", &chosen.unwrap().from.to_string()));
        let last = all.last().unwrap();
        assert_eq!(last.try_recv().unwrap(), "event: again\ndata: 7\n\n");
        assert!(last.try_recv().is_err());
        all.clear();
        assert_eq!(watchers.chosen(), None);
    }
}
