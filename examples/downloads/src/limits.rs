//! The limit on open files: it is raised to its maximum, and the window is fitted to it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that the program itself may need: rings, wake descriptors, epoll, name look-ups, a
/// folder or two.
const MARGIN: u64 = 32;

/// Raises the soft limit to the hard limit. Returns a line to print if there is anything to report.
pub(crate) fn raise() -> Option<String> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let before = current?;
    if maximum.is_some_and(|maximum| maximum <= before) {
        return None;
    }
    let after = maximum.map_or_else(|| "no limit".to_string(), |maximum| maximum.to_string());
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => Some(format!("open files: raised the limit from {before} to {after}")),
        Err(error) => Some(format!(
            "open files: the limit stays at {before}, raising it to {after} failed: {error}"
        )),
    }
}

/// Returns the window that the limit on open files allows if a download takes `each` of them, and a
/// line that says so if that is less than `wanted`.
pub(crate) fn fit(wanted: usize, each: u64) -> (usize, Option<String>) {
    let Some(limit) = getrlimit(Resource::Nofile).current else { return (wanted, None) };
    fit_into(limit, open_now(), wanted, each)
}

fn fit_into(limit: u64, open: u64, wanted: usize, each: u64) -> (usize, Option<String>) {
    let room = limit.saturating_sub(open + MARGIN) / each;
    let allowed = usize::try_from(room).unwrap_or(usize::MAX).max(1);
    if allowed >= wanted {
        return (wanted, None);
    }
    let enough = wanted as u64 * each + open + MARGIN;
    let line = format!(
        "open files: the limit of {limit} allows {allowed} downloads at a time instead of {wanted}; `ulimit -n {enough}` would allow them all"
    );
    (allowed, Some(line))
}

fn open_now() -> u64 {
    // The listing includes its own descriptor.
    std::fs::read_dir("/proc/self/fd").map_or(16, |listing| listing.count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window that fits is unchanged. One that does not fit is lowered, with a line that says
    /// what would help.
    #[test]
    fn windows() {
        assert_eq!(fit_into(20_000, 10, 512, 3), (512, None));
        let (window, line) = fit_into(256, 10, 512, 2);
        assert_eq!(window, 107);
        assert!(line.unwrap().contains("ulimit -n 1066"));
        assert_eq!(fit_into(16, 10, 512, 2).0, 1);
    }
}
