//! PostgreSQL: `postgres-protocol` writes and parses messages and does the cryptography. The stream
//! between is ecru's.

use std::io::{self, Read, Write};

use bytes::BytesMut;
use ecru::net::{TcpStream, ToSocketAddrs};
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::{md5_hash, sasl};
use postgres_protocol::message::backend::{DataRowBody, ErrorFields, Message};
use postgres_protocol::message::frontend;

/// A row: the server's text for each column, or `None` for NULL.
pub type Row = Vec<Option<String>>;

/// A connection.
#[derive(Debug)]
pub struct Postgres {
    stream: TcpStream,
    received: BytesMut,
}

impl Postgres {
    /// Opens a connection, by SCRAM or MD5 if the server asks for a password.
    ///
    /// # Errors
    /// Returns the stream's errors, and the server's refusal.
    pub fn connect(
        address: impl ToSocketAddrs,
        user: &str,
        password: &str,
    ) -> io::Result<Postgres> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut this = Postgres { stream, received: BytesMut::new() };
        this.send(|out| {
            frontend::startup_message([("user", user), ("database", "postgres")], out)
        })?;
        this.authenticate(user, password)?;
        while !matches!(this.next()?, Message::ReadyForQuery(_)) {}
        Ok(this)
    }

    fn authenticate(&mut self, user: &str, password: &str) -> io::Result<()> {
        let mut scram = None;
        loop {
            match self.next()? {
                Message::AuthenticationOk => return Ok(()),
                Message::AuthenticationMd5Password(body) => {
                    let hash = md5_hash(user.as_bytes(), password.as_bytes(), body.salt());
                    self.send(|out| frontend::password_message(hash.as_bytes(), out))?;
                }
                Message::AuthenticationSasl(_) => {
                    let unsupported = sasl::ChannelBinding::unsupported();
                    let state = sasl::ScramSha256::new(password.as_bytes(), unsupported);
                    self.send(|out| {
                        frontend::sasl_initial_response(sasl::SCRAM_SHA_256, state.message(), out)
                    })?;
                    scram = Some(state);
                }
                Message::AuthenticationSaslContinue(body) => {
                    let state = scram.as_mut().ok_or_else(|| unexpected("a challenge"))?;
                    state.update(body.data())?;
                    let answer = state.message().to_vec();
                    self.send(|out| frontend::sasl_response(&answer, out))?;
                }
                Message::AuthenticationSaslFinal(body) => {
                    scram.as_mut().ok_or_else(|| unexpected("a signature"))?.finish(body.data())?;
                }
                _ => return Err(unexpected("no authentication that is known here")),
            }
        }
    }

    /// Sends a simple query and waits for all its rows.
    ///
    /// # Errors
    /// Returns the stream's errors, and the server's. After an error of the server the connection
    /// can be used for another query.
    pub fn query(&mut self, query: &str) -> io::Result<Vec<Row>> {
        self.send(|out| frontend::query(query, out))?;
        let mut rows = Vec::new();
        let mut failure = None;
        loop {
            match self.next() {
                Ok(Message::DataRow(body)) => rows.push(row(&body)?),
                Ok(Message::ReadyForQuery(_)) => {
                    return match failure {
                        None => Ok(rows),
                        Some(error) => Err(error),
                    };
                }
                Ok(_) => {}
                Err(error) if error.get_ref().is_some_and(|inner| inner.is::<ServerError>()) => {
                    failure = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn send(&mut self, message: impl FnOnce(&mut BytesMut) -> io::Result<()>) -> io::Result<()> {
        let mut out = BytesMut::new();
        message(&mut out)?;
        self.stream.write_all(&out)
    }

    fn next(&mut self) -> io::Result<Message> {
        loop {
            match Message::parse(&mut self.received)? {
                Some(Message::ErrorResponse(body)) => return Err(server_error(body.fields())),
                Some(message) => return Ok(message),
                None => {
                    let mut buffer = [0; 8192];
                    match self.stream.read(&mut buffer)? {
                        0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                        count => self.received.extend_from_slice(&buffer[..count]),
                    }
                }
            }
        }
    }
}

impl Drop for Postgres {
    /// Tells the server that the connection ends. The server would also notice by itself.
    fn drop(&mut self) {
        let _ = self.send(|out| {
            frontend::terminate(out);
            Ok(())
        });
    }
}

/// The server's refusal, in its words.
#[derive(Debug)]
pub struct ServerError(String);

impl std::fmt::Display for ServerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ServerError {}

fn server_error(mut fields: ErrorFields<'_>) -> io::Error {
    let mut text = String::from("an error without words");
    while let Ok(Some(field)) = fields.next() {
        if field.type_() == b'M' {
            text = String::from_utf8_lossy(field.value_bytes()).into_owned();
        }
    }
    io::Error::other(ServerError(text))
}

fn unexpected(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the server sent {what}"))
}

fn row(body: &DataRowBody) -> io::Result<Row> {
    let text =
        |range: std::ops::Range<usize>| String::from_utf8_lossy(&body.buffer()[range]).into_owned();
    body.ranges().map(|range| Ok(range.map(text))).collect()
}
