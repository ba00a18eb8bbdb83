//! What a function knows of its run.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Weak;

use crate::held::Held;
use crate::id::JobId;
use crate::progress::Progress;

/// One run of a function's body.
///
/// # Examples
/// ```
/// use ecru_fleet::{Fleet, Progress};
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let sum = Fleet::local(s).function("sum", |numbers: Vec<u64>, run| {
///             let (mut sum, all) = (0, numbers.len() as u64);
///             for (done, number) in (0..).zip(numbers) {
///                 run.progress(&Progress::new(done, all));
///                 sum += number;
///             }
///             println!("attempt {} of {} has ended", run.attempt(), run.id());
///             Ok(sum)
///         });
///         let sum = sum.open()?;
///         let worker = sum.clone();
///         s.spawn_daemon(move || worker.serve(1));
///         assert_eq!(sum.call(vec![20, 22])?, 42);
///         Ok::<(), std::io::Error>(())
///     })
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Run {
    pub(crate) id: JobId,
    pub(crate) attempt: u32,
    pub(crate) fence: (u64, u32),
    pub(crate) held: Weak<Held>,
}

impl Run {
    /// Returns the id of the job that the call is.
    #[must_use]
    pub fn id(&self) -> &JobId {
        &self.id
    }

    /// Returns how often the call was begun, this time included.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Returns a pair that is greater each time that the call is begun: see
    /// [`Job::fence`](crate::Job::fence).
    #[must_use]
    pub fn fence(&self) -> (u64, u32) {
        self.fence
    }

    /// Reports how far the call is: see [`Job::progress`](crate::Job::progress). Has no effect
    /// after the end of the run.
    pub fn progress(&self, progress: &Progress) {
        if let Some(held) = self.held.upgrade() {
            held.report(progress);
        }
    }
}

// No panic leaves the state of a held job half-changed.
impl UnwindSafe for Run {}
impl RefUnwindSafe for Run {}
