//! The machines of a simulation, as programs name them.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use super::course::Course;
use super::hosts::{self, Outage};
use super::outages;
use crate::driver::{HostId, Incident};
use crate::{base::simulated, sched};

/// A machine of a simulation, with an address, files and tasks of its own. It is made by [`host`],
/// and [`here`] returns the one that the calling code runs on. A clone names the same machine.
#[derive(Clone, PartialEq, Eq)]
pub struct Host {
    id: HostId,
    name: Arc<str>,
}

/// Makes a machine of the simulation, and runs `f` on it, in a task of its own.
///
/// The machine has an [address](Host::addr). Other machines also reach it by its name, as in
/// `TcpStream::connect("name:80")`. The name is known from the virtual time at which the machine was
/// made, and each lookup at that time or later finds it. `localhost` and `127.0.0.1` are the machine
/// itself. Its names of Unix sockets and its files are its own. The closure that [`run`](super::Simulation::run) was
/// called with runs on a machine of its own, too. A packet to another machine takes one
/// millisecond, unless [`link`](super::link()) or [`network`](super::Simulation::network) says
/// otherwise.
///
/// The tasks of all scopes that `f` opens run on the machine. A task of [`spawn`](crate::spawn())
/// does not: it belongs to the run.
///
/// When the closure of `run` has returned, the tasks of all hosts are cancelled and awaited. A host
/// that is made or restarted after that does not run. What `f` has captured is dropped at the end
/// of the run, because `f` may run again until then: a channel whose sender it has captured does
/// not end before.
///
/// If `f` panics, or returns an error that is not a cancellation, the simulation fails with
/// [`Failure::Panicked`](super::Failure::Panicked). If a task of the machine panics that nothing
/// can join, it fails at once.
///
/// # Panics
/// Panics outside of a simulation, and if there is a host with this name.
///
/// # Examples
/// ```
/// use ecru::net::{TcpListener, TcpStream};
/// use ecru::sim::{self, Simulation};
/// use std::io::{Read, Write};
/// use std::time::Duration;
///
/// let report = Simulation::new(1).run(|| {
///     sim::host("server", || {
///         let listener = TcpListener::bind("0.0.0.0:80")?;
///         let (mut stream, _) = listener.accept()?;
///         stream.write_all(b"hello")
///     });
///     ecru::sleep(Duration::from_secs(1))?;
///     let mut text = String::new();
///     TcpStream::connect("server:80")?.read_to_string(&mut text)?;
///     std::io::Result::Ok(text)
/// });
/// assert_eq!(report.elapsed, Duration::from_millis(1_004));
/// assert_eq!(report.unwrap().unwrap(), "hello");
/// ```
#[track_caller]
pub fn host(name: &str, f: impl Fn() -> io::Result<()> + 'static) -> Host {
    let Some(course) = Course::here() else {
        panic!("`sim::host` called outside of a simulation; call it in a task of `Simulation::run`")
    };
    let shared = Arc::from(name);
    let Some(id) = hosts::add(&course, &shared, Rc::new(f)) else {
        panic!("there is a host with the name {name:?} already, or there are too many hosts")
    };
    outages::begin(&course, id);
    Host { id, name: shared }
}

/// Returns the machine on which the calling code runs.
///
/// Code that runs on no [`host`], such as the closure that
/// [`Simulation::run`](super::Simulation::run) was called with, runs on a machine of its own, with
/// the name `root`. So a test that is itself a client can cut its own links. That machine can
/// neither stop nor pause, because the test would stop, too.
///
/// # Panics
/// Panics outside of a simulation.
///
/// # Examples
/// ```
/// use ecru::net::TcpStream;
/// use ecru::sim::{self, Simulation};
/// use std::io::ErrorKind;
///
/// let report = Simulation::new(1).run(|| {
///     let server = sim::host("server", || {
///         ecru::net::TcpListener::bind("0.0.0.0:80")?.serve(10, |_, _| Ok(()))
///     });
///     sim::settle();
///     sim::partition(&[&sim::here()], &[&server]);
///     TcpStream::connect("server:80").map(drop)
/// });
/// assert_eq!(report.unwrap().unwrap_err().kind(), ErrorKind::TimedOut);
/// ```
#[track_caller]
#[must_use]
pub fn here() -> Host {
    let Some(course) = Course::here() else {
        panic!("`sim::here` called outside of a simulation; call it in a task of `Simulation::run`")
    };
    let id = hosts::current();
    let name = course.hosts.name_of(id);
    Host { id, name }
}

impl Host {
    /// Returns the address at which other machines reach this one: `10.0.0.1` for the first host,
    /// and so on. That of the `root` is `10.0.255.254`.
    ///
    /// # Examples
    /// ```
    /// use ecru::sim::{self, Simulation};
    ///
    /// let report = Simulation::new(1).run(|| sim::host("one", || Ok(())).addr().to_string());
    /// assert_eq!(report.unwrap(), "10.0.0.1");
    /// ```
    #[must_use]
    pub fn addr(&self) -> IpAddr {
        self.id.addresses()[0]
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Ends all programs of the machine at once, as `SIGKILL` does. Its system goes on.
    ///
    /// Its disk keeps what was written, synced or not. Its sockets are closed: a peer reads the end
    /// of the stream, or a reset if bytes were left unread, and new connections are refused.
    /// [`power_fail`](Host::power_fail) stops the machine without a word to its peers.
    ///
    /// The tasks of the machine come to their end in no virtual time. Their waits and their I/O
    /// fail with [`Cancelled`](crate::Cancelled), also within a [`shield`](crate::shield()), and
    /// have no effect outside. A call that cannot fail, such as
    /// [`Mutex::lock`](crate::sync::Mutex::lock), ends by a panic if it would still wait when all
    /// other tasks wait. Errors and panics of these tasks are not reported. A task that takes more
    /// than 10,000 steps fails the simulation with
    /// [`Failure::OutlivesCrash`](super::Failure::OutlivesCrash).
    ///
    /// A panic that was thrown before, and that the program has neither joined nor caught, fails
    /// the simulation with [`Failure::Panicked`](super::Failure::Panicked).
    ///
    /// Does nothing if the machine is down.
    ///
    /// # Panics
    /// Panics outside of the simulation in which the host was made, and for the `root`.
    ///
    /// # Examples
    /// ```
    /// use ecru::net::{TcpListener, TcpStream};
    /// use ecru::sim::{self, Simulation};
    /// use std::io::{ErrorKind, Read};
    /// use std::time::Duration;
    ///
    /// let report = Simulation::new(1).run(|| {
    ///     let server = sim::host("server", || {
    ///         let listener = TcpListener::bind("0.0.0.0:80")?;
    ///         loop {
    ///             let (mut stream, _) = listener.accept()?;
    ///             stream.read(&mut [0])?;
    ///         }
    ///     });
    ///     ecru::sleep(Duration::from_secs(1))?;
    ///     let mut stream = TcpStream::connect("server:80")?;
    ///     ecru::sleep(Duration::from_secs(1))?;
    ///     server.crash();
    ///     // The server's system has closed the connection, and refuses new ones.
    ///     assert_eq!(stream.read(&mut [0])?, 0);
    ///     TcpStream::connect("server:80").map(drop)
    /// });
    /// assert_eq!(report.unwrap().unwrap_err().kind(), ErrorKind::ConnectionRefused);
    /// ```
    #[track_caller]
    pub fn crash(&self) {
        hosts::stop(&self.course_of_own(), self.id, Outage::Crash);
    }

    /// Cuts the power of the machine. Its programs end as in a [crash](Host::crash), and its disk
    /// lacks some of the writes that were not synced, or parts of them.
    ///
    /// Its sockets are gone, without a word to their peers: a peer notices when it gets no answer,
    /// or when the machine is back and answers with a reset.
    ///
    /// Does nothing if the machine has no power. If it has crashed, its system stops, too.
    ///
    /// # Panics
    /// Panics outside of the simulation in which the host was made, and for the `root`.
    ///
    /// # Examples
    /// ```
    /// use ecru::fs;
    /// use ecru::sim::{self, Simulation};
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use std::time::Duration;
    ///
    /// let is_lost = |seed| {
    ///     let report = Simulation::new(seed).run(|| {
    ///         let found = Arc::new(AtomicBool::new(false));
    ///         let note = Arc::clone(&found);
    ///         let host = sim::host("host", move || {
    ///             note.store(fs::metadata("file").is_ok(), Ordering::Relaxed);
    ///             // Neither the file nor its directory is synced.
    ///             fs::write("file", "text")
    ///         });
    ///         ecru::sleep(Duration::from_secs(1)).unwrap();
    ///         host.power_fail();
    ///         host.restart();
    ///         sim::settle();
    ///         !found.load(Ordering::Relaxed)
    ///     });
    ///     report.unwrap()
    /// };
    /// assert!((0..100).any(is_lost));
    /// ```
    #[track_caller]
    pub fn power_fail(&self) {
        hosts::stop(&self.course_of_own(), self.id, Outage::PowerFailure);
    }

    /// Stops the tasks of the machine, until [`resume`](Host::resume). To its peers the machine is
    /// slow: its system goes on, so connections stay, and buffers fill. Its timers ring when it
    /// goes on.
    ///
    /// A task of the machine that pauses it goes on until its next wait. A [crash](Host::crash)
    /// ends the pause.
    ///
    /// # Panics
    /// Panics outside of the simulation in which the host was made, and for the `root`.
    ///
    /// # Examples
    /// ```
    /// use ecru::sim::{self, Simulation};
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// use std::time::Duration;
    ///
    /// let report = Simulation::new(1).run(|| {
    ///     let ticks = Arc::new(AtomicU32::new(0));
    ///     let counter = Arc::clone(&ticks);
    ///     let host = sim::host("host", move || {
    ///         loop {
    ///             ecru::sleep(Duration::from_secs(1))?;
    ///             counter.fetch_add(1, Ordering::Relaxed);
    ///         }
    ///     });
    ///     ecru::sleep(Duration::from_millis(2_500)).unwrap();
    ///     host.pause();
    ///     ecru::sleep(Duration::from_secs(60)).unwrap();
    ///     host.resume();
    ///     sim::settle();
    ///     ticks.load(Ordering::Relaxed)
    /// });
    /// assert_eq!(report.unwrap(), 3);
    /// ```
    #[track_caller]
    pub fn pause(&self) {
        let course = self.course_of_own();
        course.world.note(self.id, Incident::Pauses);
        course.hosts.set_paused(self.id, true);
    }

    /// Lets the tasks of the machine go on after a [pause](Host::pause).
    ///
    /// # Panics
    /// Panics outside of the simulation in which the host was made, and for the `root`.
    #[track_caller]
    pub fn resume(&self) {
        let course = self.course_of_own();
        course.world.note(self.id, Incident::Resumes);
        course.hosts.set_paused(self.id, false);
    }

    /// Sets how fast the clock of the machine runs: by how many millionths faster than virtual
    /// time, or slower if the number is negative. `100` is the drift of a cheap clock, and
    /// `-500_000` makes the clock half as fast.
    ///
    /// [`time::now`](crate::time::now) on the machine shows that clock, and so do the times of its
    /// files. The machine's sleeps, timers and time limits run by it: those of a slow clock take
    /// longer, also those that have begun. The clock never runs backwards and does not jump, so
    /// `skew(0)` keeps what it has gained or lost, and so does a [restart](Host::restart).
    /// [`elapsed`](super::elapsed) is virtual time on each machine. An `Instant` of one machine
    /// says nothing on another one.
    ///
    /// # Panics
    /// Panics if the clock would stand still or run backwards, which is at `-1_000_000` and below,
    /// and outside of the simulation in which the host was made.
    ///
    /// # Examples
    /// A lease that its holder believes to be valid for too long:
    /// ```
    /// use ecru::sim::{self, Simulation};
    /// use std::time::Duration;
    ///
    /// const LEASE: Duration = Duration::from_secs(10);
    ///
    /// let report = Simulation::new(1).run(|| {
    ///     let holder = sim::host("holder", || {
    ///         let begun = ecru::time::now();
    ///         while ecru::time::now() - begun < LEASE {
    ///             ecru::sleep(Duration::from_secs(1))?;
    ///         }
    ///         assert_eq!(sim::elapsed(), Duration::from_secs(20));
    ///         Ok(())
    ///     });
    ///     holder.skew(-500_000);
    ///     ecru::sleep(Duration::from_secs(60)).unwrap();
    /// });
    /// report.unwrap();
    /// ```
    #[track_caller]
    pub fn skew(&self, parts_per_million: i32) {
        let course = self.course();
        let rate = i64::from(parts_per_million) + 1_000_000;
        let Some(rate) = u64::try_from(rate).ok().filter(|rate| *rate > 0) else {
            panic!(
                "a skew of {parts_per_million} millionths would stop the clock of '{}', or turn it back; pass a number above \
                 -1000000",
                self.name
            )
        };
        course.world.note(self.id, Incident::Drifts { parts_per_million });
        if let Some((old, new)) = simulated::set_rate(self.id.0, rate) {
            sched::move_timers(self.id.0, |time| new.time_of(old.shown_at(time)));
        }
    }

    /// Moves the wall clock of the machine forward by this many milliseconds, or back if the number
    /// is negative, as a clock does that a time server corrects.
    ///
    /// The wall clock is the one that the times of files come from, and with the crate
    /// `ecru-sim-libc` that of `SystemTime::now`. As on Linux, the clock of
    /// [`time::now`](crate::time::now) does not jump, and neither do sleeps and time limits. The
    /// wall clock stays where it is in a [restart](Host::restart), and never shows a time before
    /// the epoch.
    ///
    /// # Panics
    /// Panics outside of the simulation in which the host was made.
    ///
    /// # Examples
    /// The newer file does not have the later time:
    /// ```
    /// use ecru::fs;
    /// use ecru::sim::{self, Simulation};
    /// use std::time::Duration;
    ///
    /// let report = Simulation::new(1).run(|| {
    ///     fs::write("old", "text")?;
    ///     sim::here().jump(-60_000);
    ///     fs::write("new", "text")?;
    ///     let time = |file| fs::metadata(file)?.modified();
    ///     assert_eq!(time("old")?.duration_since(time("new")?).unwrap(), Duration::from_secs(60));
    ///     std::io::Result::Ok(())
    /// });
    /// report.unwrap().unwrap();
    /// ```
    #[track_caller]
    pub fn jump(&self, milliseconds: i64) {
        hosts::jump(&self.course(), self.id, milliseconds);
    }

    /// Starts the machine again, and its closure from the beginning, on the same disk. It has no
    /// sockets. If the machine is not down, it [crashes](Host::crash) first.
    ///
    /// # Panics
    /// Panics outside of the simulation in which the host was made, and for the `root`.
    ///
    /// # Examples
    /// ```
    /// use ecru::sim::{self, Simulation};
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// use std::time::Duration;
    ///
    /// let report = Simulation::new(1).run(|| {
    ///     let starts = Arc::new(AtomicU32::new(0));
    ///     let counter = Arc::clone(&starts);
    ///     let host = sim::host("host", move || {
    ///         counter.fetch_add(1, Ordering::Relaxed);
    ///         ecru::sleep(Duration::from_secs(3600))?;
    ///         Ok(())
    ///     });
    ///     for _ in 0..3 {
    ///         ecru::sleep(Duration::from_secs(1)).unwrap();
    ///         host.restart();
    ///     }
    ///     sim::settle();
    ///     starts.load(Ordering::Relaxed)
    /// });
    /// assert_eq!(report.unwrap(), 4);
    /// ```
    #[track_caller]
    pub fn restart(&self) {
        self.crash();
        hosts::start(&self.course_of_own(), self.id);
    }

    pub(super) fn id(&self) -> HostId {
        self.id
    }

    /// Returns the course of the run, for calls that the machine of the run itself does not allow.
    #[track_caller]
    fn course_of_own(&self) -> Rc<Course> {
        assert!(
            self.id != HostId::ROOT,
            "the machine 'root' runs the simulation itself, and can neither stop nor pause; start the program that is to \
             stop with `sim::host`"
        );
        self.course()
    }

    /// Returns the course of the simulation in which the host was made, which must be the current
    /// one.
    #[track_caller]
    pub(super) fn course(&self) -> Rc<Course> {
        match Course::here() {
            Some(course) if course.hosts.have(self.id, &self.name) => course,
            _ => panic!("the host '{}' was used outside of its simulation", self.name),
        }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("name", &self.name).field("addr", &self.addr()).finish()
    }
}
