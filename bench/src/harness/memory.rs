//! The memory that the process holds.

/// Returns resident bytes, page tables included, because a sparse stack per task costs both.
///
/// # Panics
///
/// Panics if `/proc/self/status` lacks either line.
pub(crate) fn resident_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    kibibytes(&status, "VmRSS:") + kibibytes(&status, "VmPTE:")
}

/// Returns the resident bytes of another process, without its page tables.
///
/// # Panics
///
/// Panics if there is no such process.
pub(crate) fn resident_bytes_of(process: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"));
    kibibytes(&status.expect("the process runs"), "VmRSS:")
}

/// Returns the number of memory mappings of the process. Linux allows 65,530 by default.
///
/// # Panics
///
/// Panics if `/proc/self/maps` cannot be read.
pub(crate) fn mappings() -> f64 {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc is mounted");
    maps.lines().count() as f64
}

/// Returns the value of one line of the status file, in bytes.
fn kibibytes(status: &str, key: &str) -> f64 {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .expect("the kernel reports this line");
    let number = line.split_whitespace().next().expect("a number follows the key");
    number.parse::<f64>().expect("the number is decimal") * 1024.0
}
