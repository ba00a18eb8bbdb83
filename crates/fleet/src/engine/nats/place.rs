//! What a process is called, for operators.

use std::fs;
use std::process;

/// The most characters of a host's name.
const LONGEST: usize = 40;

/// Returns the name of the host and the number of this process, as `mill-3-4711`. It is part of a
/// subject, so other characters than letters, digits and `-` become `-`.
pub(super) fn place() -> String {
    // The same in each run.
    #[cfg(feature = "sim")]
    if ecru::sim::is_simulated() {
        return "simulated-0".to_owned();
    }
    // The kernel answers at once.
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}-{}", plain(&host), process::id())
}

fn plain(host: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    match host.trim() {
        "" => "host".to_owned(),
        host => host.chars().take(LONGEST).map(plain).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, plain};

    #[test]
    fn hosts_are_parts_of_subjects() {
        assert_eq!(plain("mill-3.example\n"), "mill-3-example");
        assert_eq!(plain(" *.> \n"), "---");
        assert_eq!(plain(""), "host");
        assert_eq!(plain(&"\u{e4}".repeat(100)).len(), LONGEST);
    }
}
