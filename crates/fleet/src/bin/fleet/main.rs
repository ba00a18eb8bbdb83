//! `fleet`: looks after the servers and the queues of a fleet.
//!
//! It knows the servers by the client of NATS alone, and a fleet by the names that the
//! documentation of `ecru-fleet` lists. So it works for fleets of other releases, too.

mod args;
mod asking;
mod doctor;
mod names;
mod queue;
mod servers;
mod text;
mod top;
mod utc;
#[cfg(feature = "web")]
mod web;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use ecru::{Cancelled, Runtime};
use ecru_nats::{Error, Options};

use args::{Command, Login};

/// The exit code for arguments that cannot be understood (`EX_USAGE`).
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let words = std::env::args().skip(1).collect();
    let command = match args::parse(words, &|name| std::env::var(name).ok()) {
        Ok(command) => command,
        Err(problem) => {
            let _ = writeln!(io::stderr(), "fleet: {problem}\n\n{}", args::HELP);
            return ExitCode::from(USAGE);
        }
    };
    let runtime = Runtime::builder().workers(1).cancel_on_ctrl_c(true).cancel_on_terminate(true);
    let ended = runtime.build().and_then(|runtime| runtime.run(|| run(command)));
    match ended {
        Ok(code) => ExitCode::from(code),
        // The reader of the output has seen enough, or the user has.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) if Cancelled::find(&error).is_some() => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "fleet: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(command: Command) -> io::Result<u8> {
    match command {
        Command::Help => {
            writeln!(ecru::io::stdout(), "{}", args::HELP)?;
            Ok(0)
        }
        Command::Version => {
            writeln!(ecru::io::stdout(), "fleet {}", env!("CARGO_PKG_VERSION"))?;
            Ok(0)
        }
        Command::Doctor(settings) => doctor::run(&settings),
        Command::Top(settings) => top::run(&settings),
        Command::Queue(settings) => queue::run(&settings),
        #[cfg(feature = "web")]
        Command::Web(settings) => web::run(settings),
        #[cfg(not(feature = "web"))]
        Command::Web(_) => {
            let text = "this program was built without the feature `web`; \
                        `cargo install ecru-fleet --features web` builds it with the page";
            Err(io::Error::new(io::ErrorKind::Unsupported, text))
        }
    }
}

/// Returns the settings of a connection for a command.
fn options(login: &Login, limit: Duration) -> Result<Options, Error> {
    let mut options = Options::new().name("fleet").connect_timeout(limit).request_timeout(limit);
    let Login { credentials, nkey, tls, .. } = login;
    if let Some(file) = credentials {
        options = options.credentials_file(file)?;
    }
    if let Some(file) = nkey {
        options = options.nkey_file(file)?;
    }
    let authorities = tls.authorities.as_deref().map(Path::new);
    let certificate = tls.certificate.as_deref().map(Path::new);
    let identity = certificate.zip(tls.key.as_deref().map(Path::new));
    if authorities.is_some() || identity.is_some() {
        options = options.tls_files(authorities, identity)?;
    }
    Ok(options)
}
