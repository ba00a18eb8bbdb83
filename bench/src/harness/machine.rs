//! Where and from what a result was made.

use std::process::Command;

/// The machine, the compiler and the commit of a run.
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory: String,
    pub(crate) kernel: String,
    pub(crate) rustc: String,
    pub(crate) go: String,
    pub(crate) commit: String,
    pub(crate) date: String,
}

impl Machine {
    /// Reads all of it; what cannot be read is `unknown`.
    pub(crate) fn here() -> Self {
        Self {
            processor: line_of("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory: line_of("/proc/meminfo", "MemTotal"),
            kernel: output("uname", &["-sr"]),
            rustc: env!("ECRU_BENCH_RUSTC").to_owned(),
            go: output("go", &["version"]),
            commit: output("git", &["describe", "--always", "--dirty"]),
            date: output("date", &["-u", "+%Y-%m-%d"]),
        }
    }

    /// Names and values, in the order of printing.
    pub(crate) fn fields(&self) -> [(&'static str, String); 8] {
        [
            ("processor", self.processor.clone()),
            ("cores", self.cores.to_string()),
            ("memory", self.memory.clone()),
            ("kernel", self.kernel.clone()),
            ("rustc", self.rustc.clone()),
            ("go", self.go.clone()),
            ("commit", self.commit.clone()),
            ("date", self.date.clone()),
        ]
    }
}

/// The value of the first `key : value` line of a file.
fn line_of(path: &str, key: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let value =
        text.lines().find(|line| line.starts_with(key)).and_then(|line| line.split_once(':'));
    value.map_or_else(|| "unknown".into(), |(_, value)| value.trim().to_owned())
}

/// The first line a program prints.
fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let line = output
        .ok()
        .and_then(|out| String::from_utf8_lossy(&out.stdout).lines().next().map(str::to_owned));
    line.unwrap_or_else(|| "unknown".into())
}
