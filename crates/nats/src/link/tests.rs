//! What is sent and kept of requests when connections are lost.

use std::sync::Arc;
use std::time::Duration;

use super::{Shared, Work};
use crate::error::ErrorKind;
use crate::message::{Message, Text};
use crate::options::Options;
use crate::request::Request;
use crate::server::{Server, ServerInfo};
use ecru::{Source, channel};

#[test]
fn only_the_subject_for_an_own_answer_has_a_token() {
    let shared = Shared::new(Options::new(), channel::unbounded().0);
    let server = &Server::parse_list("a:1").unwrap()[0];
    let generation = shared.connected(server, ServerInfo::default());
    let (token, _answer) = shared.request(&Message::new("a", ""), None, false).unwrap();
    let Some(Work::Batch(batch)) = shared.take_output(generation) else { panic!() };
    let batch = String::from_utf8(batch).unwrap();
    let line = batch.lines().find_map(|line| line.strip_prefix("PUB a ")).unwrap();
    let subject = line.split(' ').next().unwrap();
    assert_eq!(shared.token(subject.as_bytes()), Some(token));
    let (front, last) = subject.split_at(subject.len() - 1);
    let other = format!("{front}{}", if last == "0" { "1" } else { "0" });
    let beside = subject.replacen(&format!(".{token}-"), &format!(".{}-", token + 1), 1);
    let longer = format!("{subject}0");
    let inbox = &*shared.inbox;
    for wrong in [&*other, &beside, &longer, front, "", inbox, &subject.to_uppercase()] {
        assert_eq!(shared.token(wrong.as_bytes()), None, "{wrong}");
    }
}

#[test]
fn a_request_expires_for_those_that_wait_and_those_that_look() {
    let shared = Arc::new(Shared::new(Options::new(), channel::unbounded().0));
    let server = &Server::parse_list("a:1").unwrap()[0];
    shared.connected(server, ServerInfo::default());
    let request = |limit| {
        let queued = shared.request(&Message::new("a", ""), None, false).unwrap();
        Request::new(&shared, Text::fixed("a"), queued).timeout(limit)
    };
    assert!(request(Duration::MAX).try_take().is_none());
    assert!(request(Duration::from_secs(3600)).try_take().is_none());
    let looked = request(Duration::ZERO).try_take().unwrap();
    assert_eq!(looked.unwrap_err().kind(), ErrorKind::TimedOut);
    let waited = request(Duration::from_millis(1)).get();
    assert_eq!(waited.unwrap_err().kind(), ErrorKind::TimedOut);
}

#[test]
fn connections_that_are_lost_at_once_leave_nothing_to_send() {
    let shared = Shared::new(Options::new(), channel::unbounded().0);
    let server = &Server::parse_list("a:1").unwrap()[0];
    for _ in 0..3 {
        shared.connected(server, ServerInfo::default());
        shared.lost("a test");
    }
    assert!(shared.link().out.is_empty());
    let generation = shared.connected(server, ServerInfo::default());
    let Some(Work::Batch(batch)) = shared.take_output(generation) else { panic!() };
    assert_eq!(batch.iter().filter(|byte| **byte == b'\n').count(), 1);
    shared.lost("a test");
}

#[test]
fn a_subscription_that_ends_while_there_is_no_connection_leaves_none() {
    ecru::run(|| {
        let shared = Shared::new(Options::new(), channel::unbounded().0);
        let server = &Server::parse_list("a:1").unwrap()[0];
        let begin = || {
            let generation = shared.connected(server, ServerInfo::default());
            // A writer that sends nothing before the connection is lost.
            move |shared: &Shared| match shared.take_output(generation) {
                Some(Work::Batch(batch)) => String::from_utf8(batch).unwrap(),
                _ => String::new(),
            }
        };
        let _never_written = begin();
        let (sid, _) = shared.subscribe("jobs", Some("workers"), channel::bounded(1).0).unwrap();
        shared.lost("a test");
        shared.unsubscribe(sid);
        let sent = begin()(&shared);
        let place = |verb: &str| sent.rfind(verb);
        let begun = place(&format!("SUB jobs workers {sid}"));
        let ended = place(&format!("UNSUB {sid}"));
        assert!(begun.is_none() || ended > begun, "the server keeps {sid}: {sent}");
    });
}
