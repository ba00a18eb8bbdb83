//! The arguments of the command line.

use std::time::Duration;

/// What the program answers when it is asked for help.
pub(crate) const HELP: &str = "\
Looks after the servers and the queues of a fleet.

  fleet doctor [URLS]   checks whether the servers are fit for a fleet
  fleet top [URLS]      shows the queues and functions, each second anew
  fleet metrics [URLS]  writes the same numbers once, as OpenMetrics
  fleet web [URLS]      serves a page with the same numbers, the jobs that are running and the dead
  fleet dead list QUEUE [URLS]
                        lists the dead jobs of a queue or function, each with its number
  fleet dead show QUEUE NUMBER [URLS]
                        shows one with its whole reason and what it consists of
  fleet dead revive QUEUE NUMBER [URLS]
  fleet dead discard QUEUE NUMBER [URLS]
                        sends one again, or removes it for good; --all instead of a number takes
                        those that are there now
  fleet job QUEUE ID [URLS]
                        shows whether a job is queued, running or dead, and its attempts
  fleet pause QUEUE [URLS]
  fleet resume QUEUE [URLS]
                        lets no process begin with a job, for --for SECONDS or until it is resumed
  fleet repair QUEUE [URLS]
                        removes jobs that are done and that the servers list all the same, as they
                        may after a disk was full, which frees their ids
  fleet drain QUEUE [URLS]
                        pauses a queue, and returns when no job is running

URLS is a comma-separated list such as nats://user:password@host:4222,tls://host. Without it, the
environment variable FLEET_URL is used, so that no password is among a process's arguments.

  --creds FILE          logs in with a credentials file
  --nkey FILE           logs in with the nkey whose seed the file has
  --ca FILE             trusts the certificates in the file instead of the Web's authorities; or
                        SSL_CERT_FILE
  --cert FILE           shows the client's certificate
  --key FILE            has the key of that certificate
  --timeout SECONDS     waits so long for the answer to each question, 5 s if not set
  --json                writes JSON, for programs

of doctor:
  --system URLS         also asks as a user of the system account, which alone may see how servers
                        write to their disks; or FLEET_SYSTEM_URL
  --system-creds FILE   logs in there with a credentials file

of top:
  --once                shows the table once

of web:
  --listen ADDRESS      serves there, at 127.0.0.1:8787 if not set
  --token TOKEN         what a browser must know, or FLEET_WEB_TOKEN; one is made and printed if not
                        set
  --allow-changes       lets the page revive and discard the dead
  --host NAME           answers also if the page is opened by this name, as behind a proxy

The exit code of doctor is 0 if all is well, 1 with warnings, 2 if a check failed. That of the other
commands is 0 or 2. It is 64 if the arguments cannot be understood.";

/// The address that is used without one.
const LOCAL: &str = "nats://127.0.0.1:4222";

/// Where the page is served unless it is said otherwise.
const LISTEN: &str = "127.0.0.1:8787";

/// The fewest characters of a token.
const TOKEN: usize = 16;

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
    Queue(Queue),
    Web(#[cfg_attr(not(feature = "web"), expect(dead_code, reason = "it is refused"))] Web),
}

/// The arguments of `fleet web`.
#[derive(Debug)]
#[cfg_attr(not(feature = "web"), allow(dead_code, reason = "the page is not built"))]
pub(crate) struct Web {
    pub(crate) login: Login,
    pub(crate) limit: Duration,
    pub(crate) listen: String,
    /// What a browser must know, if the operator has chosen it.
    pub(crate) token: Option<String>,
    /// The dead may be revived and discarded.
    pub(crate) changes: bool,
    /// Further names by which the page may be opened.
    pub(crate) hosts: Vec<String>,
}

/// The arguments of the commands about one queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) login: Login,
    pub(crate) limit: Duration,
    pub(crate) json: bool,
    /// The name, with or without the prefix that it has on the servers.
    pub(crate) name: String,
    pub(crate) action: Action,
}

/// What is to be done with a queue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    List,
    Show(u64),
    Revive(Which),
    Discard(Which),
    Job(String),
    Pause(Duration),
    Resume,
    Drain,
    Repair,
}

/// Which of the dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    All,
    One(u64),
}

/// A pause without an end: a hundred years.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// How to connect.
#[derive(Debug, Default)]
pub(crate) struct Login {
    pub(crate) urls: String,
    pub(crate) credentials: Option<String>,
    pub(crate) nkey: Option<String>,
    pub(crate) tls: Tls,
}

/// Files for TLS.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tls {
    pub(crate) authorities: Option<String>,
    pub(crate) certificate: Option<String>,
    pub(crate) key: Option<String>,
}

/// The options about how to connect that all commands have.
#[derive(Default)]
struct Connecting {
    credentials: Option<String>,
    nkey: Option<String>,
    tls: Tls,
}

impl Connecting {
    /// Takes an option with its value. Returns whether it is one of these.
    fn take(
        &mut self,
        word: &str,
        value: &mut dyn FnMut() -> Result<String, String>,
    ) -> Result<bool, String> {
        let place = match word {
            "--creds" => &mut self.credentials,
            "--nkey" => &mut self.nkey,
            "--ca" => &mut self.tls.authorities,
            "--cert" => &mut self.tls.certificate,
            "--key" => &mut self.tls.key,
            _ => return Ok(false),
        };
        *place = Some(value()?);
        Ok(true)
    }

    fn login(
        self,
        urls: Option<String>,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Login, String> {
        let Connecting { credentials, nkey, mut tls } = self;
        if tls.certificate.is_some() != tls.key.is_some() {
            return Err("--cert and --key go together".into());
        }
        tls.authorities = tls.authorities.or_else(|| variable("SSL_CERT_FILE"));
        let urls = urls.or_else(|| variable("FLEET_URL")).unwrap_or_else(|| LOCAL.into());
        Ok(Login { urls, credentials, nkey, tls })
    }
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
    /// Writes OpenMetrics, once.
    pub(crate) metrics: bool,
}

/// Reads the arguments, without the name of the program. No error contains a URL, because it may
/// have a password.
pub(crate) fn parse(
    words: Vec<String>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Command, String> {
    let mut words = words.into_iter();
    let command = words.next().ok_or("which command? doctor, for instance")?;
    match &*command {
        "help" | "--help" | "-h" => return Ok(Command::Help),
        "version" | "--version" | "-V" => return Ok(Command::Version),
        "doctor" | "top" | "metrics" => {}
        "web" => return of_web(words, variable),
        "dead" | "job" | "pause" | "resume" | "drain" | "repair" => {
            return of_a_queue(&command, words, variable);
        }
        other => return Err(format!("there is no command {other:?}")),
    }
    let (mut urls, mut connecting, mut limit, mut json) =
        (None, Connecting::default(), PATIENCE, false);
    let (mut system, mut system_credentials, mut once) = (None, None, false);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        if connecting.take(&word, &mut value)? {
            continue;
        }
        match (&*command, &*word) {
            (_, "--help" | "-h") => return Ok(Command::Help),
            (_, "--timeout") => limit = seconds(&value()?)?,
            ("doctor" | "top", "--json") => json = true,
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
    let login = connecting.login(urls, variable)?;
    if command != "doctor" {
        let metrics = command == "metrics";
        return Ok(Command::Top(Top { login, limit, json, once: once || metrics, metrics }));
    }
    let system = match (system.or_else(|| variable("FLEET_SYSTEM_URL")), system_credentials) {
        (None, None) => None,
        // The same servers, as another user.
        (None, credentials) => {
            let (urls, tls) = (login.urls.clone(), login.tls.clone());
            Some(Login { urls, credentials, nkey: None, tls })
        }
        (Some(urls), credentials) => {
            Some(Login { urls, credentials, nkey: None, tls: login.tls.clone() })
        }
    };
    Ok(Command::Doctor(Doctor { login, system, limit, json }))
}

/// Reads the arguments of `fleet web`.
fn of_web(
    mut words: impl Iterator<Item = String>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Command, String> {
    let (mut urls, mut connecting, mut limit) = (None, Connecting::default(), PATIENCE);
    let (mut listen, mut token, mut changes, mut hosts) = (None, None, false, Vec::new());
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        if connecting.take(&word, &mut value)? {
            continue;
        }
        match &*word {
            "--help" | "-h" => return Ok(Command::Help),
            "--timeout" => limit = seconds(&value()?)?,
            "--listen" => listen = Some(value()?),
            "--token" => token = Some(value()?),
            "--allow-changes" => changes = true,
            "--host" => hosts.push(value()?),
            option if option.starts_with('-') => return Err(format!("web has no option {option}")),
            _ if urls.is_none() => urls = Some(word),
            _ => return Err("more than one list of URLs; separate them by commas".into()),
        }
    }
    let token = token.or_else(|| variable("FLEET_WEB_TOKEN"));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    if token.as_ref().is_some_and(|token| token.len() < TOKEN || !token.chars().all(is_plain)) {
        return Err(format!("a token has at least {TOKEN} letters, digits or any of - . _ ~"));
    }
    let login = connecting.login(urls, variable)?;
    let listen = listen.unwrap_or_else(|| LISTEN.into());
    Ok(Command::Web(Web { login, limit, listen, token, changes, hosts }))
}

/// Reads the arguments of a command about one queue.
fn of_a_queue(
    command: &str,
    mut words: impl Iterator<Item = String>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Command, String> {
    let (mut plain, mut connecting, mut limit, mut json) =
        (Vec::new(), Connecting::default(), PATIENCE, false);
    let (mut all, mut pause) = (false, FOR_EVER);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        if connecting.take(&word, &mut value)? {
            continue;
        }
        match &*word {
            "--help" | "-h" => return Ok(Command::Help),
            "--timeout" => limit = seconds(&value()?)?,
            "--json" => json = true,
            "--all" if command == "dead" => all = true,
            "--for" if command == "pause" => pause = seconds(&value()?)?,
            option if option.starts_with('-') => {
                return Err(format!("{command} has no option {option}"));
            }
            _ => plain.push(word),
        }
    }
    let mut plain = plain.into_iter();
    let verb = match command {
        "dead" => plain.next().ok_or("dead list, show, revive or discard?")?,
        other => other.to_owned(),
    };
    let name = plain.next().ok_or(format!("{verb}: which queue?"))?;
    let mut number = || -> Result<u64, String> {
        let word =
            plain.next().ok_or(format!("{verb}: which number? `fleet dead list` has them"))?;
        // It may be a URL with a password.
        word.parse().map_err(|_| format!("{verb} needs the number of a dead job, or --all"))
    };
    let mut which = || if all { Ok(Which::All) } else { number().map(Which::One) };
    let action = match &*verb {
        "list" => Action::List,
        "show" => Action::Show(number()?),
        "revive" => Action::Revive(which()?),
        "discard" => Action::Discard(which()?),
        "job" => Action::Job(plain.next().ok_or("job: which id?")?),
        "pause" => Action::Pause(pause),
        "resume" => Action::Resume,
        "drain" => Action::Drain,
        "repair" => Action::Repair,
        other => return Err(format!("dead has no command {other:?}")),
    };
    let urls = plain.next();
    if plain.next().is_some() {
        return Err("more than one list of URLs; separate them by commas".into());
    }
    let login = connecting.login(urls, variable)?;
    Ok(Command::Queue(Queue { login, limit, json, name, action }))
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
        assert!(top.once && !top.json && !top.metrics && top.login.urls == LOCAL);
        let Ok(Command::Top(top)) = read("metrics a") else { panic!("it is not understood") };
        assert!(top.once && top.metrics && top.login.urls == "a");
        let Ok(Command::Top(top)) = read("top --ca a --cert c --key k --nkey n") else {
            panic!("it is not understood");
        };
        let Tls { authorities, certificate, key } = top.login.tls;
        let all = [authorities, certificate, key, top.login.nkey].map(Option::unwrap);
        assert_eq!(all, ["a", "c", "k", "n"]);
        let words = vec!["top".to_owned()];
        let Ok(Command::Top(top)) = parse(words, &|name| Some(format!("from {name}"))) else {
            panic!("it is not understood");
        };
        assert_eq!(top.login.urls, "from FLEET_URL");
        assert_eq!(top.login.tls.authorities.unwrap(), "from SSL_CERT_FILE");
    }

    #[test]
    fn commands_about_a_queue_are_read() {
        let queue = |line: &str| match read(line) {
            Ok(Command::Queue(queue)) => queue,
            other => panic!("{line}: {other:?}"),
        };
        let list = queue("dead list mill a,b --json");
        assert_eq!((&*list.name, &*list.login.urls, list.json), ("mill", "a,b", true));
        assert_eq!(list.action, Action::List);
        assert_eq!(queue("dead show mill 7").action, Action::Show(7));
        let revive = queue("dead revive mill --all a");
        assert_eq!((revive.action, &*revive.login.urls), (Action::Revive(Which::All), "a"));
        assert_eq!(queue("dead discard mill 7").action, Action::Discard(Which::One(7)));
        assert_eq!(queue("job mill k").action, Action::Job("k".into()));
        let pause = queue("pause mill --for 1.5").action;
        assert_eq!(pause, Action::Pause(Duration::from_millis(1500)));
        assert_eq!(queue("resume mill").action, Action::Resume);
        assert_eq!(queue("repair mill").action, Action::Repair);
    }

    #[test]
    fn arguments_of_the_page_are_read() {
        let Ok(Command::Web(web)) = read("web a --token 0123456789abcdef --host mill --host b")
        else {
            panic!("it is not understood");
        };
        assert_eq!((&*web.login.urls, &*web.listen, web.changes), ("a", LISTEN, false));
        assert_eq!((web.token.as_deref(), web.hosts.len()), (Some("0123456789abcdef"), 2));
        let Ok(Command::Web(web)) = read("web --allow-changes --listen [::1]:0") else {
            panic!("it is not understood");
        };
        assert!(web.changes && web.listen == "[::1]:0" && web.token.is_none());
        let bad = read("web --token hush").unwrap_err();
        assert!(bad.contains("16") && !bad.contains("hush"), "{bad}");
    }

    #[test]
    fn malformed_arguments_are_refused_without_their_urls() {
        for bad in [
            "",
            "bottom",
            "top --system u:hush@x",
            "top --cert only.pem",
            "doctor --once",
            "metrics --json",
            "doctor u:hush@a u:hush@b",
            "doctor --timeout -1",
            "doctor --timeout",
            "dead",
            "dead list",
            "dead bury mill",
            "dead show mill u:hush@a",
            "dead revive mill u:hush@a",
            "pause mill u:hush@a u:hush@b",
            "resume mill --all",
        ] {
            let problem = read(bad).unwrap_err();
            assert!(!problem.contains("hush"), "{problem}");
        }
    }
}
