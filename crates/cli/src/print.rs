//! The commands that print one answer: `ecru dump`, `ecru trace`, `ecru metrics`.

use std::io::{self, Write};

use crate::Failure;
use crate::client::ask;
use crate::target::Arguments;

pub(crate) fn dump(arguments: &[String]) -> Result<(), Failure> {
    let arguments = Arguments::parse(arguments, &["--json"])?;
    print(&arguments, if arguments.has("--json") { "dump json" } else { "dump" })
}

pub(crate) fn trace(arguments: &[String]) -> Result<(), Failure> {
    let arguments = Arguments::parse(arguments, &["--json"])?;
    print(&arguments, if arguments.has("--json") { "trace" } else { "page" })
}

pub(crate) fn metrics(arguments: &[String]) -> Result<(), Failure> {
    print(&Arguments::parse(arguments, &[])?, "metrics")
}

fn print(arguments: &Arguments, request: &str) -> Result<(), Failure> {
    let mut answer = ask(&arguments.target, request)?;
    if !answer.ends_with('\n') {
        answer.push('\n');
    }
    Ok(io::stdout().write_all(answer.as_bytes())?)
}
