//! A broker that follows a script: enough of NATS for one program, over ecru's sockets. It works in
//! a simulation, too.

use std::io::{self, BufRead, BufReader, Read, Write};

use ecru::net::{TcpListener, TcpStream};

/// The first line of a server.
pub(crate) const INFO: &str = "INFO {\"server_id\":\"S\",\"version\":\"2.12.0\",\"headers\":true,\"max_payload\":1048576}\r\n";

/// One line of the client, with the payload if it is `PUB`.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) words: Vec<String>,
    pub(crate) payload: Vec<u8>,
}

/// The broker's side of a connection.
pub(crate) struct Peer {
    reader: BufReader<TcpStream>,
}

impl Peer {
    /// Accepts a connection and says `INFO`.
    pub(crate) fn accept(listener: &TcpListener) -> io::Result<Peer> {
        let (stream, _) = listener.accept()?;
        let mut peer = Peer { reader: BufReader::new(stream) };
        peer.say(INFO)?;
        Ok(peer)
    }

    pub(crate) fn say(&mut self, text: &str) -> io::Result<()> {
        self.reader.get_mut().write_all(text.as_bytes())
    }

    /// Returns the next line, or `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Said>> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let mut payload = Vec::new();
        if words.first().is_some_and(|verb| verb == "PUB") {
            payload = vec![0; words.last().unwrap().parse::<usize>().unwrap() + 2];
            self.reader.read_exact(&mut payload)?;
            payload.truncate(payload.len() - 2);
        }
        Ok(Some(Said { words, payload }))
    }

    /// Serves the connection: routes messages to the client's own subscriptions, and answers
    /// requests to `echo` with their payload.
    pub(crate) fn serve(mut self) -> io::Result<()> {
        let mut subscriptions: Vec<(String, String)> = Vec::new();
        while let Some(said) = self.next()? {
            let words: Vec<&str> = said.words.iter().map(String::as_str).collect();
            match words[..] {
                ["PING"] => self.say("PONG\r\n")?,
                ["SUB", subject, .., sid] => subscriptions.push((subject.into(), sid.into())),
                ["UNSUB", sid] => subscriptions.retain(|(_, other)| other != sid),
                ["PUB", "echo", reply, _] => {
                    let payload = String::from_utf8_lossy(&said.payload).into_owned();
                    // Answers have the subscription 1.
                    self.say(&format!("MSG {reply} 1 {}\r\n{payload}\r\n", payload.len()))?;
                }
                ["PUB", subject, ..] => {
                    let payload = String::from_utf8_lossy(&said.payload).into_owned();
                    for (_, sid) in subscriptions.iter().filter(|(other, _)| other == subject) {
                        let length = payload.len();
                        self.reader.get_mut().write_all(
                            format!("MSG {subject} {sid} {length}\r\n{payload}\r\n").as_bytes(),
                        )?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}
