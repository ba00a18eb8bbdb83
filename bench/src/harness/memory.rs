//! What the process holds in memory.

/// Resident bytes, page tables included: a sparse stack per task pays for both.
///
/// # Panics
///
/// Where `/proc/self/status` lacks either line.
pub(crate) fn resident_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    kibibytes(&status, "VmRSS:") + kibibytes(&status, "VmPTE:")
}

/// The value of one line of the status file, in bytes.
fn kibibytes(status: &str, key: &str) -> f64 {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .expect("the kernel reports this line");
    let number = line.split_whitespace().next().expect("a number follows the key");
    number.parse::<f64>().expect("the number is decimal") * 1024.0
}
