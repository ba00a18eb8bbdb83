//! A connection from its first byte to its last, and the way to the next one.

use std::io;
use std::time::{Duration, Instant};

use ecru::net::TcpStream;
use ecru::{Cancelled, Source};

use crate::auth;
use crate::client::Event;
use crate::error::{Error, ErrorKind};
use crate::link::{Shared, Work};
use crate::options::Options;
use crate::random;
use crate::server::{Server, ServerInfo};
use crate::transport::{ReadBuffer, Transport};
use crate::wire::{Decoder, Frame};

/// The most servers that a client knows, so that a server cannot name them without end.
const MAX_SERVERS: usize = 64;

/// How long a server that is about to stop may take to answer what it was asked.
const LAME_DUCK_PATIENCE: Duration = Duration::from_secs(5);

/// A connection that has logged in.
pub(crate) struct Session {
    transport: Transport,
    buffer: ReadBuffer,
    decoder: Decoder,
    server: Server,
    info: ServerInfo,
}

/// Why a connection has ended.
enum End {
    Cancelled,
    Lost(String),
    /// The server is about to stop, and there is another one.
    Leaving,
}

/// The servers that a client knows. The one to try next is the first.
pub(crate) struct Servers {
    list: Vec<Server>,
}

impl Servers {
    pub(crate) fn new(mut list: Vec<Server>) -> Servers {
        random::generator().shuffle(&mut list);
        Servers { list }
    }

    /// Adds the servers that a server has named, and forgets those that were named before and are
    /// not any more. A server that names none says nothing about them.
    fn learn(&mut self, from: &Server, info: &ServerInfo) {
        let named: Vec<Server> = info
            .connect_urls
            .iter()
            .take(MAX_SERVERS)
            .filter_map(|place| from.discover(place))
            .collect();
        if named.is_empty() {
            return;
        }
        let is_named = |server: &Server| named.iter().any(|other| other.is_at(server));
        self.list.retain(|known| !known.discovered || known.is_at(from) || is_named(known));
        for server in named {
            let room = self.list.len() < MAX_SERVERS;
            if room && !self.list.iter().any(|known| known.is_at(&server)) {
                self.list.push(server);
            }
        }
    }

    /// Tries each server once. A server that was tried comes last.
    pub(crate) fn connect(&mut self, options: &Options) -> Result<Session, Error> {
        let mut failed = Error::invalid("the list of servers is empty; name one");
        for _ in 0..self.list.len() {
            let server = self.list[0].clone();
            self.list.rotate_left(1);
            match Session::open(options, &server) {
                Ok(session) => {
                    self.learn(&session.server, &session.info);
                    return Ok(session);
                }
                Err(error) if error.cancelled().is_some() => return Err(error),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    fn has_another(&self, server: &Server) -> bool {
        self.list.iter().any(|other| !other.is_at(server))
    }
}

impl Session {
    /// Connects and logs in, within the time limit.
    fn open(options: &Options, server: &Server) -> Result<Session, Error> {
        let limit = options.connect_timeout;
        let opened = ecru::timeout(limit, || Session::open_now(options, server));
        let result = opened.unwrap_or_else(|_| {
            Err(Error::new(
                ErrorKind::Connect,
                format!(
                    "the server did not accept the client within {limit:?}; is it a NATS server?"
                ),
            ))
        });
        result.map_err(|error| error.at(&server.to_string()))
    }

    fn open_now(options: &Options, server: &Server) -> Result<Session, Error> {
        let tcp = TcpStream::connect((server.host.as_str(), server.port))
            .and_then(|tcp| tcp.set_nodelay(true).map(|()| tcp))
            .map_err(|error| {
                Error::io(ErrorKind::Connect, "the server cannot be reached", error)
            })?;
        let mut session = Session {
            transport: Transport::plain(tcp),
            buffer: ReadBuffer::new(),
            decoder: Decoder::new(options.max_message),
            server: server.clone(),
            info: ServerInfo::default(),
        };
        if options.tls_first {
            session = session.encrypt(options)?;
        }
        match session.next()? {
            Frame::Info(info) => session.info = *info,
            _ => return Err(protocol("the server did not begin with INFO")),
        }
        let wanted = server.tls || options.require_tls || session.info.tls_required;
        if wanted && !options.tls_first {
            // Bytes that arrived before the encryption began could come from any sender.
            if session.decoder.has_more() {
                return Err(protocol("the server sent more than INFO before TLS began"));
            }
            session = session.encrypt(options)?;
        }
        let arguments = auth::connect_arguments(options, server, &session.info);
        let greeting = format!("CONNECT {arguments}\r\nPING\r\n");
        session.transport.write_all(greeting.as_bytes(), None).map_err(during_login)?;
        loop {
            match session.next()? {
                Frame::Pong => return Ok(session),
                Frame::Error(words) => {
                    let shown = auth::quote(options, server, &words);
                    return Err(refused(&words, &shown));
                }
                Frame::Info(info) => session.info = *info,
                Frame::Ping => {
                    session.transport.write_all(b"PONG\r\n", None).map_err(during_login)?;
                }
                Frame::Ok => {}
                Frame::Message(..) => return Err(protocol("a message came before the login")),
            }
        }
    }

    /// Notes the new connection. Returns the number of its generation.
    pub(crate) fn announce(&self, shared: &Shared) -> u64 {
        shared.connected(&self.server, self.info.clone())
    }

    fn encrypt(mut self, options: &Options) -> Result<Session, Error> {
        let name = self.server.tls_name();
        self.transport = self.transport.encrypt(options.tls.as_ref(), name)?;
        Ok(self)
    }

    /// Waits for a frame during the login.
    fn next(&mut self) -> Result<Frame, Error> {
        loop {
            if let Some(frame) =
                self.decoder.next().map_err(|error| protocol(&error.to_string()))?
            {
                return Ok(frame);
            }
            let read = self.transport.read(&mut self.buffer, || ()).map_err(during_login)?;
            if read.is_empty() {
                return Err(Error::new(
                    ErrorKind::Connect,
                    "the server closed the connection during the login",
                ));
            }
            self.decoder.push(read);
        }
    }
}

fn protocol(why: &str) -> Error {
    let text = format!("the peer does not speak NATS as expected: {why}");
    Error::new(ErrorKind::Protocol, text)
}

fn during_login(error: io::Error) -> Error {
    Error::io(ErrorKind::Connect, "the connection was lost during the login", error)
}

/// Turns the server's words at the login into an error, which shows `shown` in their place.
fn refused(words: &str, shown: &str) -> Error {
    let lower = words.to_ascii_lowercase();
    let kind = if lower.contains("authori") || lower.contains("authentication") {
        ErrorKind::Authorization
    } else if lower.contains("tls") {
        ErrorKind::Tls
    } else {
        ErrorKind::Connect
    };
    let advice = match kind {
        ErrorKind::Authorization => "; check the user, token, nkey or credentials",
        ErrorKind::Tls => "; use a URL that begins with tls://",
        _ => "",
    };
    Error::new(kind, format!("the server refused the client: {shown}{advice}"))
}

/// Returns the subject to which the server says that the user may not publish.
fn forbidden(words: &str) -> Option<&str> {
    words.strip_prefix("Permissions Violation for Publish to \"")?.strip_suffix('"')
}

/// The task that owns the connection, until it is cancelled or gives up.
pub(crate) fn run(shared: &Shared, servers: Servers, first: Session, generation: u64) {
    let _closing = Closing(shared);
    ecru::cancel_scope(|ending| {
        shared.end_by(ending);
        stay_connected(shared, servers, first, generation);
    });
}

fn stay_connected(shared: &Shared, mut servers: Servers, first: Session, mut generation: u64) {
    let mut session = first;
    let mut pauses = Pauses::new(shared.options.reconnect_delay);
    loop {
        let server = session.server.clone();
        let begun = ecru::time::now();
        match serve(shared, &mut servers, session, generation) {
            End::Cancelled => break,
            End::Lost(why) => shared.lost(&why),
            End::Leaving => shared.lost("the server is about to stop (lame duck)"),
        }
        pauses.after(ecru::time::now().saturating_duration_since(begun));
        // The others come first, in a random order.
        random::generator().shuffle(&mut servers.list);
        servers.list.sort_by_key(|other| other.is_at(&server));
        match reconnect(shared, &mut servers, &mut pauses) {
            Some(next) => {
                generation = next.announce(shared);
                session = next;
            }
            None => break,
        }
    }
}

/// Closes the client when its task ends, even by a panic, so that no caller waits for ever.
struct Closing<'a>(&'a Shared);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The pauses before rounds over all servers.
struct Pauses {
    first: Duration,
    longest: Duration,
    /// Zero before the first round.
    next: Duration,
}

impl Pauses {
    fn new((first, longest): (Duration, Duration)) -> Pauses {
        // Zero would stay zero.
        let first = first.max(Duration::from_millis(1));
        Pauses { first, longest: longest.max(first), next: Duration::ZERO }
    }

    /// Notes how long a connection has lasted. After a short one the pauses go on growing, so that
    /// a server that accepts a client only to drop it is not asked without end.
    fn after(&mut self, lasted: Duration) {
        if lasted >= self.longest {
            self.next = Duration::ZERO;
        }
    }

    /// Waits before a round. Returns `None` if the task is cancelled.
    fn wait(&mut self) -> Option<()> {
        let pause = self.next;
        if pause.is_zero() {
            self.next = self.first;
            return Some(());
        }
        self.next = pause.saturating_mul(2).min(self.longest);
        ecru::sleep(pause - pause / 2000 * random::generator().u32(0..1000)).ok()
    }
}

/// Tries all servers, again and again.
fn reconnect(shared: &Shared, servers: &mut Servers, pauses: &mut Pauses) -> Option<Session> {
    let mut rounds = 0;
    loop {
        pauses.wait()?;
        match servers.connect(&shared.options) {
            Ok(session) => return Some(session),
            Err(error) if error.cancelled().is_some() => return None,
            Err(error) => shared.tell(Event::ReconnectFailed { why: error.to_string() }),
        }
        rounds += 1;
        if shared.options.max_reconnects.is_some_and(|most| rounds >= most) {
            return None;
        }
    }
}

/// Reads and writes until the connection ends.
fn serve(shared: &Shared, servers: &mut Servers, session: Session, generation: u64) -> End {
    let Session { transport, mut buffer, mut decoder, server, info } = session;
    if let Err(error) = transport.set_patience(Some(shared.options.ping_interval)) {
        return End::Lost(error.to_string());
    }
    let lame = info.ldm;
    let end = ecru::scope(|s| {
        let transport = &transport;
        let writer = s.builder().name("nats-writer").spawn(move || {
            if write(shared, transport, generation).is_err() {
                // The reader notices.
                transport.shut_down();
            }
        });
        let mut reader = Reader {
            shared,
            servers,
            server: &server,
            leaving: None,
            silences: 0,
            last_words: None,
        };
        if lame {
            reader.leave();
        }
        let end = reader.read(transport, &mut buffer, &mut decoder);
        if matches!(end, End::Leaving) {
            // What is being sent arrives, and what the server has sent is received. What is queued
            // waits for the next connection.
            shared.stop_writer();
            let _ = ecru::timeout(shared.options.flush_timeout, || {
                if writer.join().is_ok() && transport.end_sending().is_ok() {
                    reader.read_rest(transport, &mut buffer, &mut decoder);
                }
            });
        }
        if !matches!(end, End::Cancelled) {
            transport.shut_down();
            shared.stop_writer();
        }
        end
    });
    if matches!(end, End::Cancelled) {
        // What was published before the end of the scope is sent.
        let limit = shared.options.flush_timeout;
        ecru::shield_for(limit, || {
            while let Some(Work::Batch(batch)) = shared.take_rest(generation) {
                if transport.write_all(&batch, None).is_err() {
                    return;
                }
            }
            if transport.finish(&mut buffer) {
                shared.all_received();
            }
        });
    }
    end
}

/// Writes what is queued, until the connection is lost or the task is cancelled.
fn write(shared: &Shared, transport: &Transport, generation: u64) -> io::Result<()> {
    let work = shared.work(generation);
    while let Ok(Work::Batch(batch)) = work.wait() {
        transport.write_all(&batch, Some(shared.options.flush_timeout))?;
        shared.written(batch);
    }
    Ok(())
}

struct Reader<'a> {
    shared: &'a Shared,
    servers: &'a mut Servers,
    server: &'a Server,
    /// Since when the server is about to stop.
    leaving: Option<Instant>,
    /// How many times in a row nothing came for the length of the ping interval.
    silences: u32,
    /// The error that the server reported last, if it has said nothing since.
    last_words: Option<String>,
}

impl Reader<'_> {
    fn read(
        &mut self,
        transport: &Transport,
        buffer: &mut ReadBuffer,
        decoder: &mut Decoder,
    ) -> End {
        loop {
            loop {
                match decoder.next() {
                    Ok(Some(frame)) => {
                        self.handle(frame);
                    }
                    Ok(None) => break,
                    Err(error) => return End::Lost(error.to_string()),
                }
            }
            if let Some(since) = self.leaving {
                let waited = ecru::time::now().saturating_duration_since(since);
                if !self.shared.awaits_answers() || waited >= LAME_DUCK_PATIENCE {
                    return End::Leaving;
                }
            }
            match transport.read(buffer, || self.shared.owe()) {
                Ok([]) => return self.lost("the server closed the connection"),
                Ok(bytes) => {
                    self.silences = 0;
                    decoder.push(bytes);
                }
                Err(error) if Cancelled::find(&error).is_some() => return End::Cancelled,
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                        self.silences += 1;
                        if self.silences > 2 {
                            return End::Lost("the server is silent".into());
                        }
                        self.shared.ask_for_life();
                    }
                    _ => return self.lost(&error.to_string()),
                },
            }
        }
    }

    /// Handles what the server says until it closes the connection.
    fn read_rest(&mut self, transport: &Transport, buffer: &mut ReadBuffer, decoder: &mut Decoder) {
        loop {
            match transport.read(buffer, || ()) {
                Ok([]) => return self.shared.all_written_received(),
                Ok(bytes) => decoder.push(bytes),
                Err(_) => return,
            }
            while let Ok(Some(frame)) = decoder.next() {
                self.handle(frame);
            }
        }
    }

    /// Returns the loss of the connection, with what the server has said before it.
    fn lost(&self, how: &str) -> End {
        End::Lost(match &self.last_words {
            Some(words) => format!("{how}, after it had said: {words}"),
            None => how.to_owned(),
        })
    }

    fn handle(&mut self, frame: Frame) {
        self.last_words = None;
        match frame {
            Frame::Message(sid, message) => self.shared.deliver(sid, message),
            Frame::Ping => self.shared.pong(),
            Frame::Pong => self.shared.ponged(),
            Frame::Ok => {}
            Frame::Info(info) => {
                self.servers.learn(self.server, &info);
                let lame = info.ldm;
                self.shared.set_info(*info);
                if lame {
                    self.leave();
                }
            }
            Frame::Error(words) => {
                // After an error that ends the connection, the server closes it.
                let shown = auth::quote(&self.shared.options, self.server, &words);
                let server = self.server.to_string();
                self.shared.tell(Event::ServerError { server, words: shown.clone() });
                if let Some(subject) = forbidden(&words) {
                    self.shared.refuse(subject, &self.server.to_string(), &shown);
                }
                self.last_words = Some(shown);
            }
        }
    }

    /// Notes that the server is about to stop. Without another server, the client stays.
    fn leave(&mut self) {
        self.shared.tell(Event::LameDuck { server: self.server.to_string() });
        if self.servers.has_another(self.server) {
            self.leaving.get_or_insert_with(ecru::time::now);
        }
    }
}

/// The task that hosts the client's other tasks.
pub(crate) fn host(jobs: &ecru::channel::Receiver<crate::link::Job>) {
    ecru::scope(|s| {
        for job in jobs {
            s.builder().name("nats-task").spawn_daemon(job);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::{MAX_SERVERS, Servers};
    use crate::server::{Server, ServerInfo};

    fn naming(connect_urls: Vec<String>) -> ServerInfo {
        ServerInfo { connect_urls, ..ServerInfo::default() }
    }

    #[test]
    fn servers_are_learnt_and_forgotten() {
        let list = Server::parse_list("a:1").unwrap();
        let own = list[0].clone();
        let mut servers = Servers { list };
        let shown = |servers: &Servers| {
            servers.list.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        servers.learn(&own, &naming(vec!["b:1".into(), "a:1".into(), "::".into(), "b:1".into()]));
        assert_eq!(shown(&servers), "a:1 b:1");
        servers.learn(&own, &naming(vec!["c:1".into()]));
        assert_eq!(shown(&servers), "a:1 c:1");
        servers.learn(&own, &naming(Vec::new()));
        assert_eq!(shown(&servers), "a:1 c:1");
        servers.learn(&own, &naming((1..1000).map(|n| format!("d{n}:1")).collect()));
        assert_eq!(servers.list.len(), MAX_SERVERS);
    }
}
