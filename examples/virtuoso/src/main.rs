//! Virtuoso's page, snippet by snippet, and its measurement: many slow downloads by `map`, by a
//! window, and all at once.
//!
//! ```text
//! cargo run --release -p virtuoso                 snippets, then the measurement, in under a minute
//! cargo run --release -p virtuoso -- --full       the page's sizes: 12 s a file; 100 one by one: 20 minutes
//! cargo run --release -p virtuoso -- --snippets   the snippets only
//! ```

mod fetch;
mod measure;
mod nginx;
mod own;
mod snippets;

use measure::Scale;
use std::process::ExitCode;

fn main() -> ExitCode {
    let (mut scale, mut measures) = (Some(Scale::QUICK), true);
    let mut arguments = lexopt::Parser::from_env();
    loop {
        use lexopt::prelude::Long;
        match arguments.next() {
            Ok(None) => break,
            Ok(Some(Long("full"))) => scale = Some(Scale::FULL),
            Ok(Some(Long("snippets"))) => measures = false,
            _ => {
                eprintln!("virtuoso [--full | --snippets]");
                return ExitCode::from(2);
            }
        }
    }
    ecru::run(snippets::all);
    let Some(scale) = scale.filter(|_| measures) else { return ExitCode::SUCCESS };
    match measure::all(&scale) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("virtuoso: {error}");
            ExitCode::FAILURE
        }
    }
}
