//! The official tool `nats`.

use std::io;
use std::process::Command;

use ecru_fleet::Fleet;
use ecru_nats::jetstream::{Ack, StreamConfig};
use ecru_nats::{Client, Message};
use serde_json::Value;

use crate::server::{Server, tool};

/// Runs a body with a function that runs the tool on a server of its own, and ecru's client.
fn with_tool(body: impl FnOnce(&dyn Fn(&[&str]) -> String, &str, &Client) -> io::Result<()>) {
    let (Some(program), Some(server)) = (tool("nats"), Server::start("")) else { return };
    let run = |arguments: &[&str]| {
        // It keeps settings of the user's there.
        let home = std::env::temp_dir().join(format!("ecru-nats-cli-{}", std::process::id()));
        let mut command = Command::new(&program);
        command.env("HOME", &home).env("XDG_CONFIG_HOME", &home).env("NO_COLOR", "1");
        let ran = command.args(["--server", &server.url(), "--timeout", "60s"]).args(arguments);
        let ran = ran.output().unwrap();
        let text = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(
            ran.status.success(),
            "{arguments:?}: {text}{}",
            String::from_utf8_lossy(&ran.stderr)
        );
        text
    };
    ecru::run(|| ecru::scope(|s| body(&run, &server.url(), &Client::connect(s, &server.url())?)))
        .unwrap();
}

/// - given: a stream that ecru-nats has created
/// - when: the official tool publishes, creates a consumer and reads messages
/// - then: ecru-nats receives what the tool has published, with headers, by the consumer that the
///   tool has created, and the tool reads what ecru-nats has published
#[test]
fn nats_220_the_official_tool_slow() {
    with_tool(|nats, _, ours| {
        let js = ours.jetstream();
        js.create_stream(&StreamConfig {
            subjects: vec!["flour.>".into()],
            ..StreamConfig::new("FLOUR")
        })?;
        nats(&["pub", "flour.rye", "one", "-J", "-H", "Trace: 5a", "-H", "Nats-Msg-Id: a"]);
        let message = Message::new("flour.oat", "two").with_header("Trace", "5b")?;
        assert_eq!(js.publish_message(&message)?.sequence, 2);
        let stored: Value = serde_json::from_str(&nats(&["stream", "get", "FLOUR", "2", "-j"]))?;
        assert_eq!((&stored["subject"], &stored["seq"]), (&"flour.oat".into(), &2.into()));
        nats(&["consumer", "add", "FLOUR", "mill", "--pull", "--defaults"]);
        let deliveries = js.consumer("FLOUR", "mill")?.messages(2)?;
        let one = deliveries.recv()?;
        assert_eq!((one.subject(), one.headers().get("Trace")), ("flour.rye", Some("5a")));
        assert_eq!(&one.payload()[..], b"one");
        one.confirm(&Ack::Done)?;
        deliveries.recv()?.confirm(&Ack::Done)?;
        let info: Value =
            serde_json::from_str(&nats(&["consumer", "info", "FLOUR", "mill", "-j"]))?;
        assert_eq!(info["ack_floor"]["stream_seq"], 2, "{info}");
        Ok(())
    });
}

/// - given: a queue of a fleet
/// - when: the official tool reads the stored job, and sends one in the documented form
/// - then: both sides read what the other one has written
#[test]
fn fleet_381_the_official_tool_slow() {
    with_tool(|nats, url, _| {
        ecru::scope(|s| {
            let queue = Fleet::connect(s, url)?.queue::<u32>("mill").open()?;
            queue.send_keyed("grain", 7)?;
            let text = nats(&["stream", "get", "fleet-jobs-q_mill", "1", "-j"]);
            let stored: Value = serde_json::from_str(&text)?;
            assert_eq!(stored["subject"], "fleet.jobs.q_mill.grain");
            nats(&["pub", "fleet.jobs.q_mill.bran", "{\"v\":1,\"data\":8}", "-J"]);
            let jobs = queue.jobs(2)?;
            for (id, number) in [("grain", 7), ("bran", 8)] {
                let job = jobs.recv()?;
                assert_eq!((job.id().as_str(), *job), (id, number));
                job.done()?;
            }
            Ok(())
        })
    });
}
