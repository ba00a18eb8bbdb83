//! Numbers of a fleet for monitoring.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::fleet::Fleet;
use crate::shared::Shared;
use crate::stats::Stats;

/// The queues and functions that are open in this process.
#[derive(Default)]
pub(crate) struct Opened(Mutex<Vec<Weak<Shared>>>);

impl Opened {
    pub(crate) fn add(&self, queue: &Arc<Shared>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|queue| queue.strong_count() > 0);
        all.push(Arc::downgrade(queue));
    }

    fn all(&self) -> Vec<Arc<Shared>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Fleet<'_> {
    /// Returns the numbers of the queues and functions that are open in this process, in the text
    /// form of OpenMetrics, for an endpoint that a monitoring system reads. The states are those of
    /// [`Stats`](crate::Stats).
    ///
    /// # Errors
    /// Returns `NotConnected` after the end of the fleet, and errors of the server.
    ///
    /// # Cancellation
    /// This is a cancellation point.
    ///
    /// # Examples
    /// ```
    /// use ecru_fleet::Fleet;
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let fleet = Fleet::local(s);
    ///         let mails = fleet.queue::<String>("mails").open()?;
    ///         mails.send("hello".to_owned())?;
    ///         let text = fleet.metrics()?;
    ///         let line = r#"fleet_jobs{kind="queue",name="mails",state="queued"} 1"#;
    ///         assert!(text.contains(line), "{text}");
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn metrics(&self) -> io::Result<String> {
        self.core.check()?;
        // One that is open twice has the numbers of one. Results wait in each.
        let mut rows = Rows::new();
        let mut ranked = BTreeSet::new();
        for queue in self.core.opened.all() {
            let stats = queue.stats()?;
            if queue.has_priorities() {
                ranked.insert((queue.what, queue.name.clone()));
            }
            rows.entry((queue.what, queue.name.clone()))
                .and_modify(|row| row.waiting_for_room += stats.waiting_for_room)
                .or_insert(stats);
        }
        Ok(text(&rows, &ranked))
    }
}

type Rows = BTreeMap<(&'static str, String), Stats>;

/// A name consists of letters, digits, `_` and `-`, so nothing is escaped.
fn text(rows: &Rows, ranked: &BTreeSet<(&'static str, String)>) -> String {
    let mut text = String::from(
        "# TYPE fleet_jobs gauge\n\
         # HELP fleet_jobs Jobs by state. Those that run again are among the running.\n",
    );
    for ((kind, name), stats) in rows {
        for (state, count) in [
            ("queued", stats.queued),
            ("running", stats.running),
            ("redelivered", stats.redelivered),
            ("dead", stats.dead),
            ("ghost", stats.ghosts),
        ] {
            let labels = format!("kind=\"{kind}\",name=\"{name}\",state=\"{state}\"");
            let _ = writeln!(text, "fleet_jobs{{{labels}}} {count}");
        }
    }
    text.push_str(
        "# TYPE fleet_priority_jobs gauge\n\
         # HELP fleet_priority_jobs Jobs by priority, 0 being the most urgent, of queues with priorities.\n",
    );
    for ((kind, name), stats) in rows.iter().filter(|(queue, _)| ranked.contains(queue)) {
        for (state, counts) in
            [("queued", stats.queued_by_priority), ("running", stats.running_by_priority)]
        {
            for (priority, count) in counts.iter().enumerate() {
                let labels = format!(
                    "kind=\"{kind}\",name=\"{name}\",priority=\"{priority}\",state=\"{state}\""
                );
                let _ = writeln!(text, "fleet_priority_jobs{{{labels}}} {count}");
            }
        }
    }
    text.push_str(
        "# TYPE fleet_results_waiting gauge\n\
         # HELP fleet_results_waiting Results in this process that wait for room on the servers.\n",
    );
    for ((kind, name), stats) in rows {
        let labels = format!("kind=\"{kind}\",name=\"{name}\"");
        let _ = writeln!(text, "fleet_results_waiting{{{labels}}} {}", stats.waiting_for_room);
    }
    text.push_str("# EOF\n");
    text
}
