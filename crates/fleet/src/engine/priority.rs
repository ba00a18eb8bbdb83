//! Which job comes next, if jobs have priorities.

/// How many priorities there are. 0 is the most urgent.
pub(crate) const PRIORITIES: usize = 4;

/// After how many jobs of more urgent priorities one of a less urgent priority comes.
const PATIENCE: u32 = 8;

/// Returns all priorities, the most urgent first.
pub(crate) fn priorities() -> std::ops::Range<u8> {
    0..4
}

/// Chooses the priority of the next job: the most urgent one, but after [`PATIENCE`] of those a
/// less urgent one.
///
/// So of each [`BOUND`] jobs in a row, one at least is of each priority that has jobs. A priority
/// is passed [`PATIENCE`] times, and then waits for others that were passed as often: one more
/// urgent job at most of each other priority, and two less urgent ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Picker {
    /// How many more urgent jobs have come since the last one of each priority.
    passed: [u32; PRIORITIES],
}

/// See [`Picker`].
#[cfg(test)]
pub(crate) const BOUND: usize = 12;

impl Picker {
    /// Returns the priority of the next job among those that have jobs.
    pub(crate) fn pick(&self, has_jobs: impl Fn(u8) -> bool) -> Option<u8> {
        self.due(&has_jobs).or_else(|| priorities().find(|priority| has_jobs(*priority)))
    }

    /// Returns the priority that was passed so often that it is next.
    pub(crate) fn due(&self, has_jobs: impl Fn(u8) -> bool) -> Option<u8> {
        let is_due = |priority: &u8| self.passed[usize::from(*priority)] >= PATIENCE;
        priorities().find(|priority| is_due(priority) && has_jobs(*priority))
    }

    /// Returns how many jobs of the chosen priority may come in a row before another priority is
    /// due: at least one.
    pub(crate) fn row(&self, chosen: u8, has_jobs: impl Fn(u8) -> bool) -> usize {
        if self.pick(|priority| priority < chosen && has_jobs(priority)).is_some() {
            return 1;
        }
        let left = |priority: u8| PATIENCE.saturating_sub(self.passed[usize::from(priority)]);
        let others = priorities().filter(|other| *other > chosen && has_jobs(*other));
        let row = others.map(left).min();
        row.and_then(|row| usize::try_from(row.max(1)).ok()).unwrap_or(usize::MAX)
    }

    /// Notes that a job comes.
    pub(crate) fn took(&mut self, priority: u8) {
        let (more, less) = self.passed.split_at_mut(usize::from(priority) + 1);
        more[usize::from(priority)] = 0;
        less.iter_mut().for_each(|passed| *passed = passed.saturating_add(1));
    }

    /// Notes that there was no job of a priority that was due.
    pub(crate) fn missed(&mut self, priority: u8) {
        self.passed[usize::from(priority)] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_urgent_comes_first() {
        let mut picker = Picker::default();
        let mut left = [2, 0, 3, 1];
        let mut order = Vec::new();
        while let Some(next) = picker.pick(|priority| left[usize::from(priority)] > 0) {
            left[usize::from(next)] -= 1;
            picker.took(next);
            order.push(next);
        }
        assert_eq!(order, [0, 0, 2, 2, 2, 3]);
    }

    #[test]
    fn less_urgent_ones_have_their_turns() {
        let mut picker = Picker::default();
        let mut take = |has_jobs: fn(u8) -> bool| {
            let next = picker.pick(has_jobs).unwrap();
            let row = picker.row(next, has_jobs);
            picker.took(next);
            (next, row)
        };
        let both = |priority| priority == 0 || priority == 3;
        let order: Vec<(u8, usize)> = (0..10).map(|_| take(both)).collect();
        let row = [(0, 8), (0, 7), (0, 6), (0, 5), (0, 4), (0, 3), (0, 2), (0, 1), (3, 1), (0, 8)];
        assert_eq!(order, row);
        // One that has none costs the others nothing.
        assert!((0..30).all(|_| take(|priority| priority == 0) == (0, usize::MAX)));
        assert_eq!(take(both), (3, 1));
        let order: Vec<u8> = (0..22).map(|_| take(|_| true).0).collect();
        let expected = [1, 2, 0, 0, 0, 0, 0, 0, 3, 0, 0, 1, 2, 0, 0, 0, 0, 3, 0, 0, 0, 0];
        assert_eq!(order, expected);
    }

    #[test]
    fn each_priority_comes_within_the_bound() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..2000 {
            // Those that always have jobs, and the others now and then.
            let always: u8 = random.u8(1..16);
            let (mut picker, mut since) = (Picker::default(), [0; PRIORITIES]);
            for _ in 0..100 {
                let now = always | random.u8(..16);
                let has = |priority: u8| now & 1 << priority != 0;
                let next = picker.pick(has).unwrap();
                picker.took(next);
                for priority in priorities().filter(|other| always & 1 << other != 0) {
                    let since = &mut since[usize::from(priority)];
                    *since = if priority == next { 0 } else { *since + 1 };
                    assert!(*since < BOUND, "{always:04b}: {priority} waits for {since}");
                }
            }
        }
    }
}
