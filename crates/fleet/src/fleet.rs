//! Fleets.

use std::fmt;
use std::io;
use std::sync::Arc;

use ecru::channel::Sender;
use ecru_nats::Options;

use crate::codec::Wire;
use crate::core::{self, Core, Started, Task};
use crate::engine;
use crate::errors::JobError;
use crate::function::FunctionBuilder;
use crate::queue::QueueBuilder;
use crate::run::Run;
use ecru::Daemons;

/// A number of processes that work through the same queues. Cloning it is cheap.
///
/// Its tasks are daemons of the scope that it was opened in. When the scope is cancelled or ends,
/// no more jobs are taken, jobs that were not begun are given back, and jobs inside
/// [`Job::run`](crate::Job::run) get their time. Then queues, jobs and functions answer that they
/// are disconnected.
pub struct Fleet<'scope> {
    pub(crate) core: Arc<Core>,
    pub(crate) tasks: Sender<Task<'scope>>,
}

impl<'scope> Fleet<'scope> {
    fn new(started: Started<'scope>) -> Fleet<'scope> {
        let Started { core, tasks } = started;
        Fleet { core, tasks }
    }

    /// Opens a fleet that consists of this process alone. Its queues are in memory and are lost
    /// with it. It is for tests, for simulations, and for one machine.
    ///
    /// # Examples
    /// ```
    /// use ecru_fleet::Fleet;
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let fleet = Fleet::local(s);
    ///         let words = fleet.queue::<String>("words").open()?;
    ///         words.send("one".to_owned())?;
    ///         assert_eq!(words.stats()?.queued, 1);
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn local(s: &'scope impl Daemons<'scope>) -> Fleet<'scope> {
        Fleet::new(core::start(s, engine::local()))
    }

    /// Opens a fleet on any engine.
    #[cfg(test)]
    pub(crate) fn over(
        s: &'scope impl Daemons<'scope>,
        engine: Box<dyn engine::Engine>,
    ) -> Fleet<'scope> {
        Fleet::new(core::start(s, engine))
    }

    /// Connects to NATS servers with JetStream, where other processes find the same queues. `urls`
    /// is a comma-separated list like `nats://user:password@host:4222,tls://host`. The servers
    /// have version 2.12 or later. If the connection is lost, the fleet connects to any server of
    /// the cluster.
    ///
    /// # Errors
    /// Returns `Unsupported` if the server is older than 2.12, `InvalidInput` for a malformed URL,
    /// `ConnectionRefused` if no server can be reached, `PermissionDenied` if the credentials are
    /// refused, and `InvalidData` if there is no trusted TLS or no NATS. No error contains a
    /// password.
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled attempt leaves nothing behind.
    ///
    /// # Examples
    /// ```no_run
    /// use ecru_fleet::Fleet;
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let fleet = Fleet::connect(s, "nats://127.0.0.1:4222")?;
    ///         let words = fleet.queue::<String>("words").replicas(1).open()?;
    ///         words.send("one".to_owned())?;
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn connect(s: &'scope impl Daemons<'scope>, urls: &str) -> io::Result<Fleet<'scope>> {
        Fleet::connect_with(s, urls, Options::new().name("ecru-fleet"))
    }

    /// Connects to NATS servers as [`connect`](Fleet::connect) does, with settings of the client:
    /// credentials files, nkeys, certificates, time limits.
    ///
    /// # Errors
    /// Returns the errors of [`connect`](Fleet::connect).
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled attempt leaves nothing behind.
    ///
    /// # Examples
    /// ```
    /// use std::io::ErrorKind;
    /// use std::time::Duration;
    ///
    /// use ecru_fleet::Fleet;
    /// use ecru_nats::Options;
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let options = Options::new().connect_timeout(Duration::from_secs(2)).token("hush");
    ///         // Nothing listens there.
    ///         let error = Fleet::connect_with(s, "nats://127.0.0.1:1", options).unwrap_err();
    ///         assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    ///     });
    /// });
    /// ```
    pub fn connect_with(
        s: &'scope impl Daemons<'scope>,
        urls: &str,
        options: Options,
    ) -> io::Result<Fleet<'scope>> {
        core::connect(s, urls, options).map(Fleet::new)
    }

    /// Calls `warn` with each warning from now on, instead of writing it to the standard error. A
    /// warning is one line of text without its end. There are few: when settings were changed, when
    /// the servers have no room for results, when a job was sent by another release, when leases
    /// are renewed too late, and when an error of the servers ends what takes jobs.
    ///
    /// `warn` is called in the tasks of the fleet, so it should not wait.
    ///
    /// # Examples
    /// ```
    /// use std::sync::mpsc;
    ///
    /// use ecru_fleet::{Fleet, Update};
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let fleet = Fleet::local(s);
    ///         let (tell, told) = mpsc::channel();
    ///         fleet.on_warning(move |text| drop(tell.send(text.to_owned())));
    ///         fleet.queue::<u32>("mill").limit(5).open()?.update(Update::new().limit(7))?;
    ///         assert!(told.recv().unwrap().contains("the limit was 5 and is 7"));
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_warning(&self, warn: impl Fn(&str) + Send + Sync + 'static) {
        self.core.set_warn(Arc::new(warn));
    }

    /// Begins to open a queue. A name has 1 to 62 letters, digits, `_` and `-` of ASCII. See
    /// [`QueueBuilder`] for the settings.
    pub fn queue<T: Wire>(&self, name: &str) -> QueueBuilder<T> {
        QueueBuilder::new(&self.core, name)
    }

    /// Begins to open a function. `f` is its body, for when it is [served](crate::Function::serve)
    /// here. A name has 1 to 62 letters, digits, `_` and `-` of ASCII. See [`FunctionBuilder`] for
    /// the settings.
    ///
    /// # Examples
    /// ```
    /// use ecru_fleet::{Fleet, JobError, Run};
    ///
    /// fn parse(text: String, run: &Run) -> Result<u32, JobError> {
    ///     println!("attempt {}", run.attempt());
    ///     text.parse().map_err(|error| JobError::Fatal(Box::new(error)))
    /// }
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let parse = Fleet::local(s).function("parse", parse).open()?;
    ///         s.spawn_daemon({
    ///             let parse = parse.clone();
    ///             move || parse.serve(8)
    ///         });
    ///         assert_eq!(parse.call("7".to_owned())?, 7);
    ///         let error = parse.call("seven".to_owned()).unwrap_err();
    ///         assert_eq!(error.to_string(), "invalid digit found in string");
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn function<A: Wire, R: Wire, F>(&self, name: &str, f: F) -> FunctionBuilder<'scope, A, R>
    where
        F: Fn(A, &Run) -> Result<R, JobError> + Send + Sync + 'scope,
    {
        FunctionBuilder::new(self, name, Arc::new(f))
    }
}

impl Clone for Fleet<'_> {
    fn clone(&self) -> Self {
        Fleet { core: Arc::clone(&self.core), tasks: self.tasks.clone() }
    }
}

impl fmt::Debug for Fleet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").finish_non_exhaustive()
    }
}
