//! Pull consumers of a server that follows a script.

use std::io;

use ecru::channel::RecvError;
use ecru::net::TcpListener;
use ecru::sim;
use ecru_nats::jetstream::{Consumer, Deliveries};
use ecru_nats::{Client, Error, ErrorKind};

use crate::peer::{Peer, SECOND, Said, against, ms, quick, with_status};

/// The server's side of one pull consumer.
struct Puller {
    peer: Peer,
    /// The number and the subject of the client's inbox.
    sid: u64,
    inbox: String,
    sequence: u64,
}

impl Puller {
    /// Answers the client's question about the consumer, and waits for its inbox.
    fn begin(listener: &TcpListener) -> io::Result<Puller> {
        let mut peer = Peer::greet(listener)?;
        let said = peer.published()?;
        assert_eq!(said.subject(), "$JS.API.CONSUMER.INFO.S.C");
        peer.answer(&said, "{\"config\":{}}")?;
        loop {
            let said = peer.next()?;
            if said.verb() == "SUB" && said.words()[2] != "1" {
                let (inbox, sid) = (said.subject().to_owned(), said.words()[2].parse().unwrap());
                return Ok(Puller { peer, sid, inbox, sequence: 0 });
            }
        }
    }

    /// Returns the next request for messages, and how many it wants.
    fn pull(&mut self) -> io::Result<(Said, u64)> {
        loop {
            let said = self.peer.published()?;
            if said.subject() == "$JS.API.CONSUMER.MSG.NEXT.S.C" {
                let (_, rest) = said.text().split_once("\"batch\":").unwrap();
                let batch = rest.split([',', '}']).next().unwrap().parse().unwrap();
                return Ok((said, batch));
            }
            if said.subject() == "$JS.API.CONSUMER.INFO.S.C" {
                self.peer.answer(&said, "{\"config\":{}}")?;
            }
        }
    }

    fn hand_out(&mut self, payload: &str) -> io::Result<()> {
        self.sequence += 1;
        let (inbox, sid, n) = (&self.inbox, self.sid, self.sequence);
        self.peer.say(format!(
            "MSG {inbox} {sid} $JS.ACK.S.C.1.{n}.{n}.1.0 {}\r\n{payload}\r\n",
            payload.len()
        ))
    }

    fn status(&mut self, status: &str, headers: &str) -> io::Result<()> {
        self.peer.say(with_status(&self.inbox, self.sid, status, headers))
    }
}

fn consumer(client: &Client) -> Result<Consumer, Error> {
    client.jetstream().consumer("S", "C")
}

/// Waits until the receiver is disconnected, and returns why.
fn end(deliveries: &Deliveries) -> &Error {
    let limit = 60 * SECOND;
    loop {
        match deliveries.recv_timeout(limit) {
            Ok(_) => {}
            Err(error) => {
                assert!(format!("{error:?}").contains("Disconnected"), "{error:?}");
                return deliveries.ended_by().unwrap();
            }
        }
    }
}

/// - given: a consumer that hands out fewer messages for each request than the window has, or for
///   a shorter time
/// - when: messages are received
/// - then: the receiver is disconnected, and the error has the server's words
#[test]
fn nats_110_a_consumer_with_smaller_requests() {
    for words in ["Exceeded MaxRequestBatch of 2", "Exceeded MaxRequestExpires of 1s"] {
        let script = |listener: &TcpListener| {
            let mut puller = Puller::begin(listener)?;
            loop {
                puller.pull()?;
                puller.status(&format!("409 {words}"), "")?;
            }
        };
        against(&quick(), script, |client| {
            let deliveries = consumer(client)?.messages(16)?;
            let error = end(&deliveries);
            assert_eq!(error.kind(), ErrorKind::JetStream, "{error}");
            assert!(error.to_string().contains(words), "{error}");
            Ok(())
        });
    }
}

#[test]
fn statuses_that_end_a_pull() {
    for status in ["400 Bad Request", "409 Consumer Deleted", "409 Consumer is push based"] {
        let script = |listener: &TcpListener| {
            let mut puller = Puller::begin(listener)?;
            puller.pull()?;
            puller.hand_out("one")?;
            puller.status(status, "")?;
            puller.peer.idle()
        };
        against(&quick(), script, |client| {
            let deliveries = consumer(client)?.messages(2)?;
            assert_eq!(deliveries.recv().unwrap().payload(), "one");
            let error = end(&deliveries);
            assert_eq!(error.kind(), ErrorKind::JetStream);
            assert!(error.to_string().contains(&status[4..]), "{error}");
            Ok(())
        });
    }
}

/// - given: a server that ends each request for messages at once
/// - when: a client receives messages
/// - then: it asks again after pauses, and receives what comes in the end
#[test]
fn nats_111_requests_that_end_at_once() {
    for status in [
        "404 No Messages",
        "408 Request Timeout",
        "409 Exceeded MaxWaiting",
        "409 Message Size Exceeds MaxBytes",
        "409 Batch Completed",
        "409 Leadership Change",
        "409 Server Shutdown",
        "409 something new",
        "503 No Responders",
        "500 Oops",
        "423 Nats-Pin-Id Mismatch",
    ] {
        let script = |listener: &TcpListener| {
            let mut puller = Puller::begin(listener)?;
            let begun = sim::elapsed();
            let mut count = 0;
            while sim::elapsed() - begun < 3 * SECOND {
                let (_, batch) = puller.pull()?;
                assert_eq!(batch, 4);
                count += 1;
                assert!(count <= 30, "{status}");
                puller.status(status, "Nats-Pending-Messages: 4\r\n")?;
            }
            assert!(count >= 5, "{status}: {count}");
            puller.pull()?;
            puller.hand_out("at last")?;
            puller.peer.idle()
        };
        against(&quick(), script, |client| {
            let deliveries = consumer(client)?.messages(4)?;
            let delivery = deliveries.recv_timeout(60 * SECOND).unwrap();
            assert_eq!(delivery.payload(), "at last");
            Ok(())
        });
    }
}

#[test]
fn a_lost_heartbeat() {
    let script = |listener: &TcpListener| {
        let mut puller = Puller::begin(listener)?;
        assert_eq!(puller.pull()?.1, 4);
        // Nothing is said about this request.
        let begun = sim::elapsed();
        assert_eq!(puller.pull()?.1, 4);
        let waited = sim::elapsed() - begun;
        assert!(waited <= 11 * SECOND, "{waited:?}");
        puller.hand_out("found")?;
        puller.peer.idle()
    };
    against(&quick(), script, |client| {
        let deliveries = consumer(client)?.messages(4)?;
        assert_eq!(deliveries.recv_timeout(60 * SECOND).unwrap().payload(), "found");
        Ok(())
    });
}

#[test]
fn a_server_that_hands_out_too_much() {
    let script = |listener: &TcpListener| {
        let mut puller = Puller::begin(listener)?;
        puller.pull()?;
        for _ in 0..1000 {
            puller.hand_out("more")?;
        }
        for lie in ["-1", "99999999999999999999", "1000000", "x", ""] {
            puller.status("408 Request Timeout", &format!("Nats-Pending-Messages: {lie}\r\n"))?;
        }
        puller.peer.say("MSG done 3 0\r\n\r\n")?;
        loop {
            let (_, batch) = puller.pull()?;
            assert!((1..=4).contains(&batch), "{batch}");
        }
    };
    against(&quick(), script, |client| {
        let deliveries = consumer(client)?.messages(4)?;
        let done = client.subscribe("done")?;
        client.flush()?;
        let _ = done.recv_timeout(SECOND);
        assert!((4..=8).contains(&deliveries.len()), "{}", deliveries.len());
        let held: Vec<_> = deliveries.try_iter().collect();
        assert!(deliveries.recv_timeout(SECOND).is_err());
        drop(held);
        client.flush()
    });
}

#[test]
fn messages_without_a_place() {
    for reply in ["", "somewhere ", "$JS.ACK ", "$JS.ACK.S.C.1.2.3.4 ", "$JS.ACK.S.C.x.1.1.1.1 "] {
        let script = |listener: &TcpListener| {
            let mut puller = Puller::begin(listener)?;
            puller.pull()?;
            let (inbox, sid) = (puller.inbox.clone(), puller.sid);
            puller.peer.say(format!("MSG {inbox} {sid} {reply}1\r\nx\r\n"))?;
            puller.peer.idle()
        };
        against(&quick(), script, |client| {
            let deliveries = consumer(client)?.messages(4)?;
            assert_eq!(end(&deliveries).kind(), ErrorKind::Protocol);
            Ok(())
        });
    }
}

/// - given: a receiver of messages
/// - when: the scope of its client ends
/// - then: the receiver is disconnected, and the reason is always `Closed`
#[test]
fn nats_112_the_client_of_a_receiver_ends() {
    let script = |listener: &TcpListener| {
        let mut puller = Puller::begin(listener)?;
        puller.pull()?;
        puller.peer.idle()
    };
    crate::peer::simulate(|| {
        let listener = TcpListener::bind(crate::peer::ADDRESS).unwrap();
        ecru::scope(|s| {
            s.spawn_daemon(|| drop(script(&listener)));
            let deliveries = ecru::scope(|s| {
                let client = quick().connect(s, crate::peer::ADDRESS).unwrap();
                let deliveries = consumer(&client).unwrap().messages(4).unwrap();
                ecru::sleep(ms(sim::random_u64() % 3)).unwrap();
                deliveries
            });
            assert!(matches!(deliveries.recv(), Err(RecvError::Disconnected)));
            let kind = deliveries.ended_by().map(Error::kind);
            assert_eq!(kind, Some(ErrorKind::Closed), "{:?}", deliveries.ended_by());
        });
    });
}

/// - given: a window of `usize::MAX`
/// - when: messages are received
/// - then: the client requests as many as a server can count, and receives them
#[test]
fn nats_113_an_endless_window() {
    let script = |listener: &TcpListener| {
        let mut puller = Puller::begin(listener)?;
        let (_, batch) = puller.pull()?;
        assert!((1..=1 << 31).contains(&batch), "{batch}");
        for _ in 0..100 {
            puller.hand_out("one")?;
        }
        puller.peer.idle()
    };
    against(&quick(), script, |client| {
        let deliveries = consumer(client)?.messages(usize::MAX)?;
        assert_eq!(deliveries.iter().take(100).count(), 100);
        Ok(())
    });
}

#[test]
fn a_receiver_that_is_dropped_leaked_or_stopped_at_any_time() {
    let script = |listener: &TcpListener| {
        let mut puller = Puller::begin(listener)?;
        loop {
            let (_, batch) = puller.pull()?;
            for _ in 0..batch {
                puller.hand_out("one")?;
            }
        }
    };
    for act in 0..4 {
        against(&quick(), script, |client| {
            let deliveries = consumer(client)?.messages(8)?;
            let first = deliveries.recv().unwrap();
            match act {
                0 => drop(deliveries),
                1 => std::mem::forget(deliveries),
                2 => {
                    deliveries.stop();
                    let left = deliveries.iter().count();
                    assert!(left <= 16 && deliveries.ended_by().is_none(), "{left}");
                }
                _ => std::mem::forget((deliveries, first)),
            }
            client.flush()
        });
    }
}
