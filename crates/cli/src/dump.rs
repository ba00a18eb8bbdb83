//! `ecru dump`.

use std::io::{self, Write};

use crate::Failure;
use crate::client::ask;
use crate::target::Arguments;

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let arguments = Arguments::parse(arguments, &["--json"])?;
    let request = if arguments.has("--json") { "dump json" } else { "dump" };
    let mut answer = ask(&arguments.target, request)?;
    if !answer.ends_with('\n') {
        answer.push('\n');
    }
    Ok(io::stdout().write_all(answer.as_bytes())?)
}
