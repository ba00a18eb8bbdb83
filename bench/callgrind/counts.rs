//! The counts of one operation under valgrind: instructions, system calls, allocations.
//!
//! Each is the count of 2N operations minus that of N, divided by N. Counting begins where
//! `ecru-slopes` calls its function `begin`, so the start of the process does not matter.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The number of operations in the shorter of the two runs under callgrind.
const OPERATIONS: u64 = 20_000;

/// The number of operations in the runs whose system calls and allocations are counted. Their trace
/// is long.
const TRACED: u64 = 2_000;

/// The costs of one operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Counts {
    pub(crate) instructions: f64,
    pub(crate) system_calls: f64,
    pub(crate) allocations: f64,
}

/// Returns valgrind's version.
///
/// # Errors
///
/// Returns an error if there is no valgrind.
pub(crate) fn version() -> Result<String, String> {
    let output = Command::new("valgrind").arg("--version").output();
    let output = output.map_err(|error| {
        format!("valgrind does not run, and without it there is no gate: {error}")
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Counts one kind of work.
///
/// # Errors
///
/// Returns an error if the work does not run, or does nothing.
pub(crate) fn count(program: &Path, work: &str) -> Result<Counts, String> {
    let short = instructions(program, work, OPERATIONS)?;
    let long = instructions(program, work, 2 * OPERATIONS)?;
    if long < short + OPERATIONS {
        return Err(format!(
            "{work}: {short} instructions for {OPERATIONS} operations, {long} for twice as many: \
             it did not do the work"
        ));
    }
    let (calls, blocks) = traced(program, work, TRACED)?;
    let (more_calls, more_blocks) = traced(program, work, 2 * TRACED)?;
    let slope =
        |short: u64, long: u64, operations: u64| (long as f64 - short as f64) / operations as f64;
    Ok(Counts {
        instructions: slope(short, long, OPERATIONS),
        system_calls: slope(calls, more_calls, TRACED),
        allocations: slope(blocks, more_blocks, TRACED),
    })
}

/// Counts the instructions of one run, by callgrind.
fn instructions(program: &Path, work: &str, operations: u64) -> Result<u64, String> {
    let file = Scratch::new(&format!("{work}.{operations}.callgrind"));
    let options = [
        "--tool=callgrind",
        "--separate-threads=no",
        "--quiet",
        "--zero-before=ecru_slopes::begin*",
        &format!("--callgrind-out-file={}", file.0.display()),
    ];
    run(&options, program, work, operations)?;
    let written = file.read(work)?;
    let total = written.lines().find_map(|line| line.strip_prefix("totals:")?.trim().parse().ok());
    total.ok_or_else(|| format!("{work}: callgrind's file has no totals"))
}

/// Counts the system calls of one run, and by DHAT its allocated blocks.
fn traced(program: &Path, work: &str, operations: u64) -> Result<(u64, u64), String> {
    let file = Scratch::new(&format!("{work}.{operations}.trace"));
    let options = [
        "--tool=dhat",
        "--dhat-out-file=/dev/null",
        "--trace-syscalls=yes",
        &format!("--log-file={}", file.0.display()),
    ];
    run(&options, program, work, operations)?;
    let written = file.read(work)?;
    let blocks = blocks(&written).ok_or_else(|| format!("{work}: DHAT wrote no total"))?;
    Ok((system_calls(&written), blocks))
}

/// Runs the program under valgrind.
fn run(options: &[&str], program: &Path, work: &str, operations: u64) -> Result<Output, String> {
    let mut command = Command::new("valgrind");
    command.args(options).arg(program).arg(work).arg(operations.to_string());
    let output = command.output().map_err(|error| format!("valgrind: {error}"))?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{work} under valgrind: {}: {}", output.status, said.trim()))
}

/// Counts the system calls in valgrind's trace, from the call of `getppid` on.
fn system_calls(trace: &str) -> u64 {
    let calls = trace.lines().filter(|line| line.starts_with("SYSCALL["));
    let measured = calls.skip_while(|line| !line.contains("getppid")).skip(1);
    // A call that may block has two lines. The second one begins with the dots that end the first.
    // The clock is a system call only under valgrind, which hides the vDSO.
    let counts = |line: &&str| !line.contains(") ... [async]") && !line.contains("clock_gettime");
    measured.filter(counts).count() as u64
}

/// Returns the number of blocks in DHAT's line `Total: 66,211 bytes in 61 blocks`.
fn blocks(log: &str) -> Option<u64> {
    let line = log.lines().find(|line| line.contains(" Total: "))?;
    let (_, blocks) = line.split_once(" in ")?;
    blocks.strip_suffix(" blocks")?.replace(',', "").parse().ok()
}

/// A file that valgrind writes, removed when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        Scratch(std::env::temp_dir().join(format!("ecru-slopes.{}.{name}", std::process::id())))
    }

    fn read(&self, work: &str) -> Result<String, String> {
        let bytes = std::fs::read(&self.0)
            .map_err(|error| format!("{work}: valgrind wrote no counts: {error}"))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _gone_already = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_with_two_lines_counts_once_and_what_comes_before_the_mark_not() {
        let trace = "SYSCALL[7,1](3) sys_close ( 4 )[sync] --> Success(0x0) \n\
                     SYSCALL[7,1](110) sys_getppid ()[sync] --> Success(0x571) \n\
                     SYSCALL[7,1](0) sys_read ( 4, 0x1, 32 ) --> [async] ... \n\
                     SYSCALL[7,1](0) ... [async] --> Success(0x17) \n\
                     --7-- a warning\n\
                     SYSCALL[7,1](228) sys_clock_gettime( 1, 0x1 )[sync] --> Success(0x0) \n\
                     SYSCALL[7,1](426) sys_io_uring_enter ( 0x4, 1 )[sync] --> Success(0x1) \n";
        assert_eq!(system_calls(trace), 2);
    }

    #[test]
    fn blocks_are_read_from_the_total() {
        let log = "==7== \n==7== Total:     1,066,211 bytes in 10,061 blocks\n==7== At t-end: 1";
        assert_eq!(blocks(log), Some(10_061));
        assert_eq!(blocks("==7== nothing"), None);
    }
}
