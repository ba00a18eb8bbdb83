//! Crashes, power failures, partitions and jumps of clocks that the seed draws.
//!
//! All that will happen to a host is drawn when the host is made, and so are the partitions from
//! each host that was made before it. A task of the run makes it happen, one for each host. The
//! task is there even if nothing is drawn, so that runs with fewer outages number their tasks in
//! the same way.

use std::ops::RangeInclusive;
use std::rc::Rc;
use std::time::Duration;

use super::course::Course;
use super::hosts::{self, Outage};
use crate::base::clock;
use crate::base::random::Generator;
use crate::driver::{DrawnFault, FaultKind, HostId};
use crate::runtime;
use crate::time::sleep;

/// What is drawn for each host.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outages {
    pub(super) crashes: u32,
    pub(super) power_failures: u32,
    pub(super) clock_jumps: u32,
    /// By how much a clock jumps, forward or back.
    pub(super) jump_size: RangeInclusive<Duration>,
    /// The partitions between two hosts.
    pub(super) partitions: u32,
    /// How long after a host was made its last outage begins.
    pub(super) within: Duration,
    /// How long an outage lasts.
    pub(super) length: RangeInclusive<Duration>,
}

impl Outages {
    pub(super) const NONE: Outages = Outages {
        crashes: 0,
        power_failures: 0,
        clock_jumps: 0,
        jump_size: Duration::from_secs(1)..=Duration::from_secs(3600),
        partitions: 0,
        within: Duration::from_secs(10),
        length: Duration::from_millis(10)..=Duration::from_secs(2),
    };

    pub(super) fn has_any(&self) -> bool {
        self.crashes > 0 || self.power_failures > 0 || self.clock_jumps > 0 || self.partitions > 0
    }
}

/// One outage of a host.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    fault: DrawnFault,
    what: What,
    /// When it begins, as the time after the host was made.
    begins: Duration,
    length: Duration,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Stop(Outage),
    /// Nothing travels between the host and this one.
    Cut(HostId),
    /// Its wall clock is this many milliseconds ahead, or behind if the number is negative.
    Jump(i64),
}

/// Draws what will happen to a new host.
fn draw(course: &Course, id: HostId) -> Vec<Drawn> {
    let own = course.faults.outages_of(&course.hosts.name_of(id));
    let Outages { crashes, power_failures, clock_jumps, .. } = *own;
    let kinds = [
        (FaultKind::Crash, crashes, What::Stop(Outage::Crash), own),
        (FaultKind::Power, power_failures, What::Stop(Outage::PowerFailure), own),
        (FaultKind::Jump, clock_jumps, What::Jump(0), own),
    ];
    let cuts = (0..id.0).map(|other| {
        let other = HostId(other);
        let names = [id, other].map(|host| course.hosts.name_of(host));
        let plan = course.faults.outages_between(&names[0], &names[1]);
        (FaultKind::Cut, plan.partitions, What::Cut(other), plan)
    });
    let mut drawn = Vec::new();
    for (kind, most, what, plan) in kinds.into_iter().chain(cuts) {
        let Outages { within, length, jump_size, .. } = plan;
        for _ in 0..most {
            // The more of them there may be, the rarer it is that there is none.
            let Some((fault, mut random)) = course.world.plan_fault(kind, id, 0.5) else {
                continue;
            };
            let begins = up_to(&mut random, *within);
            let length = *length.start() + up_to(&mut random, *length.end() - *length.start());
            let what = match what {
                What::Jump(_) => What::Jump(jump(&mut random, jump_size)),
                what => what,
            };
            drawn.push(Drawn { fault, what, begins, length });
        }
    }
    drawn.sort_by_key(|drawn| drawn.begins);
    drawn
}

/// Draws a duration. It is not the shortest one in a steady run, because it is part of the fault.
fn up_to(random: &mut Generator, most: Duration) -> Duration {
    let most = usize::try_from(most.as_nanos()).unwrap_or(usize::MAX - 1);
    Duration::from_nanos(random.below(most + 1) as u64)
}

/// Draws by how many milliseconds a clock jumps.
fn jump(random: &mut Generator, size: &RangeInclusive<Duration>) -> i64 {
    let size = *size.start() + up_to(random, *size.end() - *size.start());
    let ahead = i64::try_from(size.as_millis()).unwrap_or(i64::MAX);
    if random.below(2) == 0 { ahead } else { -ahead }
}

/// Draws what will happen to a new host, and starts the task that makes it happen.
#[track_caller]
pub(super) fn begin(course: &Rc<Course>, id: HostId) {
    if !course.faults.have_outages() {
        return;
    }
    let mut due = Vec::new();
    for drawn in draw(course, id) {
        due.push((drawn.begins, drawn, true));
        due.push((drawn.begins + drawn.length, drawn, false));
    }
    due.sort_by_key(|(at, _, _)| *at);
    let made = clock::common_now();
    let handle = runtime::spawn(move || {
        let Some(course) = Course::here() else { return };
        // The outages that have begun, and are to end.
        let mut begun = Vec::new();
        for (at, drawn, begins) in due {
            let passed = clock::common_now().saturating_duration_since(made);
            if sleep(at.saturating_sub(passed)).is_err() {
                return;
            }
            if !begins {
                if begun.contains(&drawn.fault) {
                    drawn.end(&course, id);
                }
            } else if !course.is_calm.get() && drawn.begin(&course, id) {
                begun.push(drawn.fault);
            }
        }
    });
    course.hosts.keep_outages(handle);
}

impl Drawn {
    /// Begins the outage. Returns false if the host is down already.
    fn begin(&self, course: &Course, id: HostId) -> bool {
        match self.what {
            What::Stop(outage) => {
                if !course.hosts.is_started(id) {
                    return false;
                }
                course.world.note_struck(self.fault, None);
                hosts::stop(course, id, outage);
            }
            What::Cut(other) => {
                course.world.note_struck(self.fault, Some(other));
                course.world.network(|network, ctx| network.cut(ctx, id, other));
            }
            What::Jump(milliseconds) => {
                course.world.note_struck(self.fault, None);
                hosts::jump(course, id, milliseconds);
            }
        }
        true
    }

    fn end(&self, course: &Course, id: HostId) {
        match self.what {
            // The program may have started it meanwhile.
            What::Stop(_) if course.hosts.is_started(id) => {}
            What::Stop(_) => hosts::start(course, id),
            What::Cut(other) => course.world.network(|network, ctx| network.mend(ctx, id, other)),
            What::Jump(milliseconds) => hosts::jump(course, id, -milliseconds),
        }
    }
}
