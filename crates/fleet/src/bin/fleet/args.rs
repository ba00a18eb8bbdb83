//! The arguments of the command line.

use std::time::Duration;

/// What the program answers when it is asked for help.
pub(crate) const HELP: &str = "\
Looks after the servers and the queues of a fleet.

  fleet doctor [URLS]   checks whether the servers are fit for a fleet
  fleet top [URLS]      shows the queues and functions, each second anew

URLS is a comma-separated list such as nats://user:password@host:4222,tls://host. Without it, the
environment variable FLEET_URL is used, so that no password is among a process's arguments.

  --creds FILE          logs in with a credentials file
  --timeout SECONDS     waits so long for the answer to each question, 5 s if not set
  --json                writes JSON, for programs

of doctor:
  --system URLS         also asks as a user of the system account, which alone may see how servers
                        write to their disks; or FLEET_SYSTEM_URL
  --system-creds FILE   logs in there with a credentials file

of top:
  --once                shows the table once

The exit code of doctor is 0 if all is well, 1 with warnings, 2 if a check failed. That of the other
commands is 0 or 2. It is 64 if the arguments cannot be understood.";

/// The address that is used without one.
const LOCAL: &str = "nats://127.0.0.1:4222";

/// How long to wait for an answer. Servers need 4 seconds to list streams if one of them has no
/// leader.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the program is asked to do.
#[derive(Debug)]
pub(crate) enum Command {
    Help,
    Version,
    Doctor(Doctor),
    Top(Top),
}

/// How to connect.
#[derive(Debug, Default)]
pub(crate) struct Login {
    pub(crate) urls: String,
    pub(crate) credentials: Option<String>,
}

/// The arguments of `fleet doctor`.
#[derive(Debug)]
pub(crate) struct Doctor {
    pub(crate) login: Login,
    pub(crate) system: Option<Login>,
    pub(crate) limit: Duration,
    pub(crate) json: bool,
}

/// The arguments of `fleet top`.
#[derive(Debug)]
pub(crate) struct Top {
    pub(crate) login: Login,
    pub(crate) limit: Duration,
    pub(crate) json: bool,
    pub(crate) once: bool,
}

/// Reads the arguments, without the name of the program. No error contains a URL, because it may
/// have a password.
pub(crate) fn parse(
    words: Vec<String>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Command, String> {
    let mut words = words.into_iter();
    let command = words.next().ok_or("which command? doctor or top")?;
    match &*command {
        "help" | "--help" | "-h" => return Ok(Command::Help),
        "version" | "--version" | "-V" => return Ok(Command::Version),
        "doctor" | "top" => {}
        other => return Err(format!("there is no command {other:?}")),
    }
    let (mut urls, mut credentials, mut limit, mut json) = (None, None, PATIENCE, false);
    let (mut system, mut system_credentials, mut once) = (None, None, false);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match (&*command, &*word) {
            (_, "--help" | "-h") => return Ok(Command::Help),
            (_, "--creds") => credentials = Some(value()?),
            (_, "--timeout") => limit = seconds(&value()?)?,
            (_, "--json") => json = true,
            ("doctor", "--system") => system = Some(value()?),
            ("doctor", "--system-creds") => system_credentials = Some(value()?),
            ("top", "--once") => once = true,
            (_, option) if option.starts_with('-') => {
                return Err(format!("{command} has no option {option}"));
            }
            _ if urls.is_none() => urls = Some(word),
            _ => return Err("more than one list of URLs; separate them by commas".into()),
        }
    }
    let login = Login {
        urls: urls.or_else(|| variable("FLEET_URL")).unwrap_or_else(|| LOCAL.into()),
        credentials,
    };
    if command == "top" {
        return Ok(Command::Top(Top { login, limit, json, once }));
    }
    let system = match (system.or_else(|| variable("FLEET_SYSTEM_URL")), system_credentials) {
        (None, None) => None,
        // The same servers, as another user.
        (None, credentials) => Some(Login { urls: login.urls.clone(), credentials }),
        (Some(urls), credentials) => Some(Login { urls, credentials }),
    };
    Ok(Command::Doctor(Doctor { login, system, limit, json }))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok().filter(|number| *number > 0.0);
    seconds
        .and_then(|number| Duration::try_from_secs_f64(number).ok())
        .ok_or(format!("--timeout {text:?} is no positive number of seconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(str::to_owned).collect(), &|_| None)
    }

    #[test]
    fn arguments_are_read() {
        let Ok(Command::Doctor(doctor)) = read("doctor a,b --system c --timeout 0.5 --json") else {
            panic!("it is not understood");
        };
        assert_eq!((&*doctor.login.urls, doctor.limit.as_millis()), ("a,b", 500));
        assert_eq!(doctor.system.unwrap().urls, "c");
        let Ok(Command::Top(top)) = read("top --once") else { panic!("it is not understood") };
        assert!(top.once && !top.json && top.login.urls == LOCAL);
        let words = vec!["top".to_owned()];
        let Ok(Command::Top(top)) = parse(words, &|name| Some(format!("from {name}"))) else {
            panic!("it is not understood");
        };
        assert_eq!(top.login.urls, "from FLEET_URL");
    }

    #[test]
    fn malformed_arguments_are_refused_without_their_urls() {
        for bad in [
            "",
            "bottom",
            "top --system u:hush@x",
            "doctor --once",
            "doctor u:hush@a u:hush@b",
            "doctor --timeout -1",
            "doctor --timeout",
        ] {
            let problem = read(bad).unwrap_err();
            assert!(!problem.contains("hush"), "{problem}");
        }
    }
}
