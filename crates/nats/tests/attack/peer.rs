//! A server that follows a test's script, over ecru's sockets, and programs against it in a
//! simulation.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::time::Duration;

use ecru::net::{TcpListener, TcpStream};
use ecru::sim::Simulation;
use ecru_nats::{Client, Error, Options};

/// The address of every server in a simulation.
pub(crate) const ADDRESS: &str = "127.0.0.1:4222";

/// What most servers begin with.
pub(crate) const INFO: &str = "INFO {\"server_id\":\"S\",\"version\":\"2.12.0\",\"headers\":true,\"jetstream\":true,\"max_payload\":1048576}\r\n";

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// One line of the client, with the headers and the payload if it publishes.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) line: String,
    pub(crate) headers: String,
    pub(crate) payload: Vec<u8>,
}

impl Said {
    pub(crate) fn words(&self) -> Vec<&str> {
        self.line.split(' ').collect()
    }

    pub(crate) fn verb(&self) -> &str {
        self.words()[0]
    }

    /// The subject of a published message.
    pub(crate) fn subject(&self) -> &str {
        self.words()[1]
    }

    /// The subject for answers.
    pub(crate) fn reply(&self) -> &str {
        let words = self.words();
        let lengths = if words[0] == "HPUB" { 2 } else { 1 };
        if words.len() == 3 + lengths { words[2] } else { "" }
    }

    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.payload).unwrap()
    }
}

/// The server's side of a connection.
pub(crate) struct Peer {
    reader: BufReader<TcpStream>,
}

impl Peer {
    /// Accepts a connection, and says nothing.
    pub(crate) fn accept(listener: &TcpListener) -> io::Result<Peer> {
        let (stream, _) = listener.accept()?;
        Ok(Peer { reader: BufReader::new(stream) })
    }

    /// Accepts a connection and a login.
    pub(crate) fn greet(listener: &TcpListener) -> io::Result<Peer> {
        let mut peer = Peer::accept(listener)?;
        peer.say(INFO)?;
        peer.log_in()?;
        Ok(peer)
    }

    /// Reads `CONNECT` and answers the first `PING`. Returns the former.
    pub(crate) fn log_in(&mut self) -> io::Result<Said> {
        let said = self.next()?;
        assert_eq!((said.verb(), self.next()?.verb()), ("CONNECT", "PING"));
        self.say("PONG\r\n")?;
        Ok(said)
    }

    pub(crate) fn say(&mut self, text: impl AsRef<[u8]>) -> io::Result<()> {
        self.reader.get_mut().write_all(text.as_ref())
    }

    /// Returns the next line of the client.
    pub(crate) fn next(&mut self) -> io::Result<Said> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        assert!(line.ends_with("\r\n"), "{line:?}");
        line.truncate(line.len() - 2);
        let mut said = Said { line, headers: String::new(), payload: Vec::new() };
        let number = |word: &str| word.parse::<usize>().unwrap();
        let words = said.words();
        let (headers, total) = match words[..] {
            ["PUB", .., total] => (0, number(total)),
            ["HPUB", .., headers, total] => (number(headers), number(total)),
            _ => return Ok(said),
        };
        let mut body = vec![0; total + 2];
        self.reader.read_exact(&mut body)?;
        assert_eq!(body[total..], *b"\r\n", "{body:?}");
        body.truncate(total);
        said.payload = body.split_off(headers);
        said.headers = String::from_utf8(body).unwrap();
        Ok(said)
    }

    /// Returns the next message that is published, and answers each `PING` before it.
    pub(crate) fn published(&mut self) -> io::Result<Said> {
        loop {
            let said = self.next()?;
            match said.verb() {
                "PING" => self.say("PONG\r\n")?,
                "PUB" | "HPUB" => return Ok(said),
                _ => {}
            }
        }
    }

    /// Answers a request. Answers belong to subscription 1.
    pub(crate) fn answer(&mut self, asked: &Said, payload: &str) -> io::Result<()> {
        self.say(format!("MSG {} 1 {}\r\n{payload}\r\n", asked.reply(), payload.len()))
    }

    /// Answers a request with a status.
    pub(crate) fn answer_status(&mut self, asked: &Said, status: &str) -> io::Result<()> {
        self.say(with_status(asked.reply(), 1, status, ""))
    }

    /// Answers each `PING` until the client closes the connection.
    pub(crate) fn idle(mut self) -> io::Result<()> {
        loop {
            self.published()?;
        }
    }
}

/// Returns a message with a status and headers in place of a payload.
pub(crate) fn with_status(subject: &str, sid: u64, status: &str, headers: &str) -> String {
    let block = format!("NATS/1.0 {status}\r\n{headers}\r\n");
    format!("HMSG {subject} {sid} {0} {0}\r\n{block}\r\n", block.len())
}

/// Runs `body` in simulations with a few seeds.
pub(crate) fn simulate(body: impl Fn() + Sync) {
    for seed in 0..4 {
        Simulation::new(seed).run(&body).unwrap();
    }
}

/// Runs a program with a client of a server that follows `script`, in simulations. The script may
/// end with any error, because the client closes the connection at some time.
pub(crate) fn against(
    options: &Options,
    script: impl Fn(&TcpListener) -> io::Result<()> + Sync,
    program: impl Fn(&Client) -> Result<(), Error> + Sync,
) {
    simulate(|| {
        let listener = TcpListener::bind(ADDRESS).unwrap();
        ecru::scope(|s| {
            s.spawn_daemon(|| drop(script(&listener)));
            let ended = ecru::scope(|s| program(&options.clone().connect(s, ADDRESS)?));
            ended.unwrap();
        });
    });
}

/// Default settings with short pauses between attempts to connect.
pub(crate) fn quick() -> Options {
    Options::new().reconnect_delay(ms(10), ms(100))
}
