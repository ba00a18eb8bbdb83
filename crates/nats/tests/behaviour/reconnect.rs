//! Lost connections, against real servers.

use std::time::Duration;

use ecru_nats::{Client, Error, ErrorKind, Event, Options};

use crate::server::Server;

/// Waits for an event that `wanted` accepts.
fn wait_for(client: &Client, wanted: impl Fn(&Event) -> bool) -> Event {
    client.events().iter().find(wanted).unwrap()
}

fn is_connected(event: &Event) -> bool {
    matches!(event, Event::Connected { .. })
}

fn quick() -> Options {
    Options::new().reconnect_delay(Duration::from_millis(1), Duration::from_millis(20))
}

/// - given: a subscription, and a request that was sent
/// - when: the server is killed, something is published, and the server starts again
/// - then: the request fails with `Disconnected`, the subscription is renewed, and what was
///   published meanwhile arrives
#[test]
fn nats_20_the_same_server_again_slow() {
    let Some(mut server) = Server::start("") else { return };
    ecru::run(|| {
        ecru::scope(|s| {
            let client = quick().connect(s, &server.url())?;
            let words = client.subscribe("words")?;
            let silent = client.subscribe("silent")?;
            assert!(is_connected(&wait_for(&client, is_connected)));
            let request = client.request("silent", "")?;
            silent.recv().unwrap();
            server.kill();
            let error = request.get().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Disconnected);
            assert!(error.is_outcome_unknown() && error.to_string().contains("silent"), "{error}");
            assert!(!client.is_connected());
            client.publish("words", "kept")?;
            let other = client.clone();
            let flush = s.spawn(move || other.flush());
            server.restart();
            assert_eq!(words.recv().unwrap().payload(), "kept");
            flush.join().unwrap()?;
            assert!(client.is_connected());
            Ok::<(), Error>(())
        })
    })
    .unwrap();
}

/// - given: a message that was published, and that the server has not confirmed
/// - when: the server is killed and starts again, and the client flushes, twice
/// - then: the first `flush` says that the message may be lost, and the second one that nothing is
///   that was published since; another handle is told, too
#[test]
fn nats_24_flush_after_a_loss_slow() {
    let Some(mut server) = Server::start("") else { return };
    ecru::run(|| {
        ecru::scope(|s| {
            let client = quick().connect(s, &server.url())?;
            let other = client.clone();
            let words = client.subscribe("words")?;
            client.flush()?;
            assert!(is_connected(&wait_for(&client, is_connected)));
            client.publish("words", "sent")?;
            // It has been written to this connection.
            assert_eq!(words.recv().unwrap().payload(), "sent");
            server.kill();
            wait_for(&client, |event| matches!(event, Event::Disconnected { .. }));
            server.restart();
            wait_for(&client, is_connected);
            for handle in [&client, &other] {
                let error = handle.flush().unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Disconnected);
                assert!(error.to_string().contains("publish again"), "{error}");
                handle.publish("words", "again")?;
                handle.flush()?;
            }
            Ok::<(), Error>(())
        })
    })
    .unwrap();
}

/// The configuration of one of two servers.
fn member(name: &str, port: u16, other: u16) -> String {
    format!(
        "server_name: {name}\nlame_duck_duration: \"30s\"\nlame_duck_grace_period: \"10s\"\n\
         cluster {{ name: pair, listen: \"127.0.0.1:{port}\", \
         routes: [\"nats://127.0.0.1:{other}\"] }}"
    )
}

fn pair() -> Option<(Server, Server)> {
    // Both are open at once, so that they have different ports.
    let listeners = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let [one, other] = listeners.map(|listener| listener.local_addr().unwrap().port());
    let first = Server::start_without_streams(&member("one", one, other))?;
    Some((first, Server::start_without_streams(&member("other", other, one))?))
}

/// Waits until the client's server has told of the other one.
fn knows_both(client: &Client) {
    while client.server_info().connect_urls.len() < 2 {
        ecru::sleep(Duration::from_millis(1)).unwrap();
    }
}

/// - given: a cluster of two servers, of which the client was told one
/// - when: that one is killed
/// - then: the client moves to the other one, with its subscriptions
#[test]
fn nats_21_another_server_slow() {
    let Some((mut one, other)) = pair() else { return };
    ecru::run(|| {
        ecru::scope(|s| {
            let client = quick().connect(s, &one.url())?;
            let words = client.subscribe("words")?;
            knows_both(&client);
            one.kill();
            let moved = |event: &Event| *event == Event::Connected { server: other.address() };
            wait_for(&client, moved);
            client.publish("words", "moved")?;
            assert_eq!(words.recv().unwrap().payload(), "moved");
            Ok::<(), Error>(())
        })
    })
    .unwrap();
}

/// - given: a cluster of two servers
/// - when: the client's server announces that it will stop (lame duck)
/// - then: the client moves to the other one before that
#[test]
fn nats_22_lame_duck_slow() {
    let Some((one, other)) = pair() else { return };
    ecru::run(|| {
        ecru::scope(|s| {
            let client = quick().connect(s, &one.url())?;
            knows_both(&client);
            one.signal("USR2");
            wait_for(&client, |event| *event == Event::LameDuck { server: one.address() });
            wait_for(&client, |event| *event == Event::Connected { server: other.address() });
            client.flush()
        })
    })
    .unwrap();
}

/// - given: a client that gives up after two rounds
/// - when: its only server is killed
/// - then: it ends: calls answer `Closed`, and subscriptions are disconnected
#[test]
fn nats_23_giving_up_slow() {
    let Some(mut server) = Server::start("") else { return };
    ecru::run(|| {
        ecru::scope(|s| {
            let client = quick().max_reconnects(2).connect(s, &server.url())?;
            let words = client.subscribe("words")?;
            client.flush()?;
            server.kill();
            assert!(words.recv().unwrap_err().is_disconnected());
            assert_eq!(client.publish("words", "").unwrap_err().kind(), ErrorKind::Closed);
            Ok::<(), Error>(())
        })
    })
    .unwrap();
}
