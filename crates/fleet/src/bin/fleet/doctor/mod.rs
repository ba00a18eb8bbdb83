//! `fleet doctor`: checks whether servers are fit for a fleet, and says what to do.
//!
//! It changes nothing. What a fleet would do is tried with names that no queue has, in a form that
//! each server refuses.

mod cluster;
mod limits;
mod permissions;
mod report;
mod settings;
mod streams;

use std::io;

use ecru_nats::jetstream::AccountInfo;
use ecru_nats::{Client, Error, ErrorKind, Message};
use serde_json::Value;

use crate::args::{self, Login};
use crate::asking::{Answer, Asking, is_cancelled};
use crate::options;
use crate::text::time;
use report::Report;

/// The codes of JetStream for an account without JetStream, and for servers without it.
const NOT_FOR_ACCOUNT: u64 = 10_039;
const NOT_ENABLED: u64 = 10_076;

/// Runs all checks and writes what they find. Returns the exit code.
pub(crate) fn run(settings: &args::Doctor) -> io::Result<u8> {
    let mut report = Report::default();
    match check(settings, &mut report) {
        Err(error) if is_cancelled(&error) => return Err(error),
        Err(error) => {
            report.fail("reachable", error.to_string(), "the remaining checks were not made");
        }
        Ok(()) => {}
    }
    let mut out = ecru::io::stdout();
    if settings.json {
        report.write_json(&mut out)?
    } else {
        report.write(&mut out)?
    }
    Ok(report.code())
}

fn check(settings: &args::Doctor, report: &mut Report) -> io::Result<()> {
    ecru::scope(|s| {
        let connect = |login: &Login| {
            options(login, settings.limit).and_then(|options| options.connect(s, &login.urls))
        };
        let client = match connect(&settings.login) {
            Ok(client) => client,
            Err(error) => return unreachable(error, "reachable", report),
        };
        let system = match settings.system.as_ref().map(connect).transpose() {
            Ok(system) => system,
            Err(error) => {
                unreachable(error, "system", report)?;
                None
            }
        };
        let system = system.map(|client| Asking::new(client, settings.limit));
        examine(&Asking::new(client, settings.limit), system.as_ref(), report)
    })
}

/// Reports why there is no connection.
fn unreachable(error: Error, check: &'static str, report: &mut Report) -> io::Result<()> {
    let advice = match error.kind() {
        ErrorKind::Cancelled => return Err(error.into()),
        // Their texts say what to do.
        ErrorKind::Authorization | ErrorKind::InvalidInput => "",
        ErrorKind::Tls => "use tls:// if the server has TLS, and a certificate that is trusted",
        ErrorKind::Protocol => "check the address: what answers there is no NATS server",
        _ => "start the server, or check the address and the firewall",
    };
    report.fail(check, error.to_string(), advice);
    Ok(())
}

/// Makes all checks that need a connection.
fn examine(asking: &Asking, system: Option<&Asking>, report: &mut Report) -> io::Result<()> {
    reachable(&asking.client, report)?;
    if let Some(words) = asking.refused("_INBOX")? {
        let advice = "permit the user to subscribe to _INBOX.> in nats.conf; without it no \
                      question has an answer, so nothing else was checked";
        report.fail("permissions", words, advice);
        return Ok(());
    }
    let servers = cluster::check(asking, system, report)?;
    if let Some(account) = jetstream(asking, report)? {
        streams::check(asking, servers, report)?;
        permissions::check(asking, report)?;
        limits::check(&asking.client, account.as_ref(), report);
        limits::results(asking, report)?;
    }
    Ok(())
}

fn reachable(client: &Client, report: &mut Report) -> io::Result<()> {
    let begun = ecru::time::now();
    client.flush()?;
    let round_trip = time(ecru::time::now() - begun);
    report.ok("reachable", format!("{} answers in {round_trip}", client.server()));
    Ok(())
}

/// Checks whether there is JetStream. Returns `None` if not, and otherwise what the account has, if
/// the user may ask for that.
fn jetstream(asking: &Asking, report: &mut Report) -> io::Result<Option<Option<AccountInfo>>> {
    const CHECK: &str = "jetstream";
    const ENABLE: &str = "add `jetstream { store_dir: .. }` to nats.conf, and check that most \
                          servers of the cluster run";
    match asking.ask(&Message::new("$JS.API.INFO", ""))? {
        Answer::NoResponders => {
            report.fail(CHECK, "JetStream does not answer", ENABLE);
            Ok(None)
        }
        Answer::Silence(words) => {
            report.fail(CHECK, words, ENABLE);
            Ok(None)
        }
        Answer::Forbidden(words) => {
            let advice = "permit it, so that the limits of the account can be checked";
            report.warn(CHECK, words, advice);
            Ok(Some(None))
        }
        Answer::Message(answer) => {
            let value: Value = serde_json::from_slice(answer.payload()).unwrap_or_default();
            match value["error"]["err_code"].as_u64() {
                None => {}
                Some(code) => {
                    let found = value["error"]["description"].as_str().unwrap_or("an error");
                    let advice = match code {
                        NOT_FOR_ACCOUNT => "add `jetstream: enabled` to the account in nats.conf",
                        NOT_ENABLED => ENABLE,
                        _ => "see the log of the server",
                    };
                    report.fail(CHECK, found, advice);
                    return Ok(None);
                }
            }
            let account: AccountInfo = serde_json::from_value(value).map_err(io::Error::other)?;
            let (streams, consumers) = (account.total.streams, account.total.consumers);
            report.ok(CHECK, format!("enabled; {streams} streams, {consumers} consumers"));
            Ok(Some(Some(account)))
        }
    }
}
