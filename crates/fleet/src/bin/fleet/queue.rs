//! The commands about one queue: its dead, one of its jobs, pauses. They know nothing of what a job
//! consists of.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::Duration;

use ecru_nats::jetstream::{Consumer, ConsumerInfo, JetStream, StoredMessage};
use ecru_nats::{Error, Message};
use serde_json::{Value, json};

use crate::args::{self, Action, Which};
use crate::names::{self, PRIORITIES};
use crate::options;
use crate::text::plain;

/// JetStream's codes: no such stream; a limit of a stream is reached.
const NO_STREAM: u32 = 10_059;
const LIMIT_REACHED: u32 = 10_077;

/// JetStream's codes if a job cannot be stored because there is one with its id.
const IS_THERE: [u32; 3] = [LIMIT_REACHED, 10_071, 10_164];

/// The pause between two looks at what is running.
const PAUSE: Duration = Duration::from_millis(200);

/// The most characters of a reason in a list.
const SHORT: usize = 80;

/// Does what was asked for. Returns the exit code.
pub(crate) fn run(settings: &args::Queue) -> io::Result<u8> {
    ecru::scope(|s| {
        let client = options(&settings.login, settings.limit)?.connect(s, &settings.login.urls)?;
        let js = client.jetstream();
        let queue = Queue::open(js, &settings.name, settings.json)?;
        queue.act(&settings.action)?;
        Ok(0)
    })
}

/// Returns what a queue is called on the servers, and how many priorities its jobs have.
fn find(js: &JetStream, name: &str) -> io::Result<(String, usize)> {
    for found in [format!("q_{name}"), format!("f_{name}"), name.to_owned()] {
        match js.stream_info(&names::jobs(&found)) {
            Ok(info) => return Ok((found, names::priorities(&info.config))),
            Err(error) if error.code() == Some(NO_STREAM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let text = format!("there is no queue and no function {name:?}; `fleet top --once` lists them");
    Err(io::Error::new(io::ErrorKind::NotFound, text))
}

pub(crate) struct Queue {
    js: JetStream,
    /// With the prefix.
    name: String,
    /// How many priorities its jobs have.
    priorities: usize,
    json: bool,
}

/// A dead job.
pub(crate) struct Dead {
    pub(crate) number: u64,
    pub(crate) id: String,
    pub(crate) attempts: u64,
    pub(crate) priority: usize,
    pub(crate) reason: String,
    pub(crate) stored: StoredMessage,
}

impl Dead {
    fn new(stored: StoredMessage) -> Dead {
        let token = stored.subject.rsplit('.').nth(1).unwrap_or_default();
        let header = |name| stored.headers.get(name).unwrap_or_default();
        Dead {
            number: stored.sequence,
            id: names::id(token),
            attempts: header("Fleet-Attempts").parse().unwrap_or(0),
            priority: header("Fleet-Priority").parse().unwrap_or(0).min(PRIORITIES - 1),
            reason: serde_json::from_str(header("Fleet-Reason")).unwrap_or_default(),
            stored,
        }
    }

    fn token(&self) -> &str {
        self.stored.subject.rsplit('.').nth(1).unwrap_or_default()
    }

    fn json(&self) -> Value {
        let payload = String::from_utf8_lossy(&self.stored.payload).into_owned();
        json!({
            "number": self.number,
            "id": self.id,
            "attempts": self.attempts,
            "priority": self.priority,
            "reason": self.reason,
            "buried": self.stored.time,
            "payload": serde_json::from_str(&payload).unwrap_or(Value::String(payload)),
        })
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = ecru::io::stdout();
    writeln!(out, "{text}")?;
    out.flush()
}

impl Queue {
    /// Finds a queue or a function by its name, with or without the prefix.
    pub(crate) fn open(js: JetStream, name: &str, json: bool) -> io::Result<Queue> {
        let (name, priorities) = find(&js, name)?;
        Ok(Queue { js, name, priorities, json })
    }

    fn act(&self, action: &Action) -> io::Result<()> {
        match action {
            Action::List => self.list(),
            Action::Show(number) => self.show(*number),
            Action::Revive(which) => self.each(*which, "revived", |dead| self.revive(dead)),
            Action::Discard(which) => self.each(*which, "discarded", |dead| self.discard(dead)),
            Action::Job(id) => self.job(id),
            Action::Pause(pause) => {
                self.workers().iter().try_for_each(|workers| workers.pause(*pause))?;
                self.say("paused")
            }
            Action::Resume => {
                self.workers().iter().try_for_each(Consumer::resume)?;
                self.say("resumed")
            }
            Action::Drain => self.drain(),
            Action::Repair => self.repair(),
        }
    }

    fn say(&self, what: &str) -> io::Result<()> {
        match self.json {
            true => write(&json!({ "queue": self.name, "state": what }).to_string()),
            false => write(&format!("{} is {what}", plain(&self.name))),
        }
    }

    /// Returns the consumer of each priority.
    fn workers(&self) -> Vec<Consumer> {
        let consumer =
            |priority| self.js.consumer(&names::jobs(&self.name), &names::workers(priority));
        // The names are well formed.
        (0..self.priorities).filter_map(|priority| consumer(priority).ok()).collect()
    }

    fn infos(&self) -> Result<Vec<ConsumerInfo>, Error> {
        self.workers().iter().map(Consumer::info).collect()
    }

    /// Returns the first of the dead from a number on.
    pub(crate) fn next(&self, from: u64) -> io::Result<Option<Dead>> {
        let subject = format!("fleet.dead.{}.*.*", self.name);
        Ok(self.js.next_message(&names::dead(&self.name), from, &subject)?.map(Dead::new))
    }

    pub(crate) fn one(&self, number: u64) -> io::Result<Dead> {
        self.next(number)?.filter(|dead| dead.number == number).ok_or_else(|| {
            let text = format!("there is no dead job with the number {number}");
            io::Error::new(io::ErrorKind::NotFound, text)
        })
    }

    fn list(&self) -> io::Result<()> {
        let mut from = 1;
        while let Some(dead) = self.next(from)? {
            from = dead.number + 1;
            if self.json {
                write(&dead.json().to_string())?;
                continue;
            }
            let (id, reason) = (plain(&dead.id), plain(&dead.reason));
            let reason: String = reason.chars().take(SHORT).collect();
            write(&format!("{:>8}  {id}  {} attempts  {reason}", dead.number, dead.attempts))?;
        }
        Ok(())
    }

    fn show(&self, number: u64) -> io::Result<()> {
        let dead = self.one(number)?.json();
        match self.json {
            true => write(&dead.to_string()),
            // JSON has no control characters, which could rule a terminal.
            false => write(&format!("{dead:#}")),
        }
    }

    /// Calls `f` with each of the dead that are meant and are there now.
    fn each(
        &self,
        which: Which,
        done: &str,
        f: impl Fn(&Dead) -> io::Result<()>,
    ) -> io::Result<()> {
        if let Which::One(number) = which {
            let dead = self.one(number)?;
            f(&dead)?;
            return self.tell(&dead, done);
        }
        let last = self.js.stream_info(&names::dead(&self.name))?.state.last_seq;
        let mut from = 1;
        while let Some(dead) = self.next(from)?.filter(|dead| dead.number <= last) {
            from = dead.number + 1;
            f(&dead)?;
            self.tell(&dead, done)?;
        }
        Ok(())
    }

    fn tell(&self, dead: &Dead, done: &str) -> io::Result<()> {
        match self.json {
            true => {
                write(&json!({ "number": dead.number, "id": dead.id, "state": done }).to_string())
            }
            false => write(&format!("{:>8}  {}  {done}", dead.number, plain(&dead.id))),
        }
    }

    pub(crate) fn revive(&self, dead: &Dead) -> io::Result<()> {
        let priority = dead.priority.min(self.priorities - 1);
        let subject = names::job(&self.name, dead.token(), priority);
        let mut job = Message::new(&subject, dead.stored.payload.clone());
        if self.priorities > 1 {
            let any = names::job_of_any_priority(&self.name, dead.token());
            job = job
                .with_header("Nats-Expected-Last-Subject-Sequence", "0")?
                .with_header("Nats-Expected-Last-Subject-Sequence-Subject", &any)?;
        }
        match self.js.publish_message(&job) {
            Ok(_) => self.discard(dead),
            Err(error) if error.code().is_some_and(|code| IS_THERE.contains(&code)) => {
                let text = format!(
                    "the job {} stays among the dead, because a job with its id is queued or \
                     running, or the queue is full: {error}",
                    plain(&dead.id)
                );
                Err(io::Error::new(io::ErrorKind::AlreadyExists, text))
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn discard(&self, dead: &Dead) -> io::Result<()> {
        Ok(self.js.delete_message(&names::dead(&self.name), dead.number)?)
    }

    fn job(&self, id: &str) -> io::Result<()> {
        for token in names::tokens(id) {
            if let Some(found) = self.find(id, &token)? {
                return match self.json {
                    true => write(&found.to_string()),
                    false => write(&format!("{found:#}")),
                };
            }
        }
        let text = format!("no job {id:?} is queued, running or dead; it may be done");
        Err(io::Error::new(io::ErrorKind::NotFound, text))
    }

    /// Returns what is known of a job that the servers call `token`.
    fn find(&self, id: &str, token: &str) -> io::Result<Option<Value>> {
        let jobs = names::jobs(&self.name);
        let mut stored = (0..self.priorities).filter_map(|priority| {
            let subject = names::job(&self.name, token, priority);
            self.js.last_message(&jobs, &subject).transpose()
        });
        let stored = stored.next().transpose()?;
        let dead = format!("fleet.dead.{}.{token}.*", self.name);
        let dead = self.js.next_message(&names::dead(&self.name), 1, &dead)?.map(Dead::new);
        Ok(match (stored, dead) {
            (Some(job), _) => {
                let subject = format!("fleet.attempts.{}.{token}.{}", self.name, job.sequence);
                let last = self.js.last_message(&names::attempts(&self.name), &subject)?;
                let last: Value = last
                    .and_then(|it| serde_json::from_slice(&it.payload).ok())
                    .unwrap_or_default();
                let begun = match last["begun"].as_u64() {
                    Some(begun) => begun,
                    None => u64::from(self.is_on_a_page(job.sequence)?),
                };
                let priority = names::priority(&job.subject);
                // The consumer hands out in order, but for what is handed out again.
                let handed_out = self.infos()?[priority].delivered.stream >= job.sequence;
                let state = if handed_out { "running, or in a pause" } else { "queued" };
                let progress = names::progress(&self.name, token);
                let progress = self.js.last_message(&names::attempts(&self.name), &progress)?;
                let progress: Value = progress
                    .and_then(|it| serde_json::from_slice(&it.payload).ok())
                    .unwrap_or_default();
                let payload = String::from_utf8_lossy(&job.payload).into_owned();
                Some(json!({
                    "id": id,
                    "state": state,
                    "attempts": begun,
                    "priority": priority,
                    "progress": progress,
                    "sent": job.time,
                    "payload": serde_json::from_str(&payload).unwrap_or(Value::String(payload)),
                }))
            }
            (None, Some(dead)) => {
                let mut found = dead.json();
                found["state"] = json!("dead");
                Some(found)
            }
            (None, None) => None,
        })
    }

    /// Returns whether a process works on a job that was handed out for the first time, or has died
    /// as it did.
    fn is_on_a_page(&self, sequence: u64) -> io::Result<bool> {
        let (stream, pages) =
            (names::attempts(&self.name), format!("fleet.attempts.{}.=pages.*", self.name));
        let (mut from, mut seen) = (1, BTreeSet::new());
        while let Some(page) = self.js.next_message(&stream, from, &pages)? {
            from = page.sequence + 1;
            let text = String::from_utf8_lossy(&page.payload).into_owned();
            let number = sequence.to_string();
            if text.split(' ').any(|word| word.split('-').next() == Some(&*number)) {
                return Ok(true);
            }
            // It is written again and again.
            if !seen.insert(page.subject) {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Removes the jobs that are settled and that the servers list all the same. They are those
    /// below the consumer's floor: it never hands out a message there again.
    fn repair(&self) -> io::Result<()> {
        let stream = names::jobs(&self.name);
        for (priority, info) in self.infos()?.iter().enumerate() {
            let all = names::all_jobs(&self.name, priority);
            let mut from = 1;
            while let Some(job) = self.js.next_message(&stream, from, &all)? {
                if job.sequence > info.ack_floor.stream {
                    break;
                }
                from = job.sequence + 1;
                self.js.delete_message(&stream, job.sequence)?;
                let id = names::id(&names::token_of_job(&job.subject));
                match self.json {
                    true => write(&json!({ "id": id, "state": "removed" }).to_string())?,
                    false => write(&format!("{}  removed", plain(&id)))?,
                }
            }
        }
        Ok(())
    }

    fn drain(&self) -> io::Result<()> {
        self.workers().iter().try_for_each(|workers| workers.pause(args::FOR_EVER))?;
        while self.infos()?.iter().any(|info| info.num_ack_pending > 0) {
            ecru::sleep(PAUSE)?;
        }
        self.say("drained, and paused until it is resumed")
    }
}
