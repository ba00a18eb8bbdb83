//! Opening connections, for clients and for cancel requests.

use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::ready;
use std::time::Duration;

use ecru::net::{Pollable, SocketAddr, TcpStream, ToSocketAddrs, UnixStream};
use ecru::sync::Pool;
use ecru_tokio::EcruIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio_postgres::config::Host;
use tokio_postgres::tls::TlsConnect;
use tokio_postgres::{AsyncMessage, CancelToken, Config, Connection, NoTls};

use crate::Error;
use crate::client::Client;
use crate::notifications::Notifications;

/// PostgreSQL's port.
const PORT: u16 = 5432;

/// Connects to a server without TLS. The settings are a URL or a list of `key=value`, as
/// [`tokio_postgres::Config`] describes them.
///
/// # Errors
/// Returns an error if the settings are malformed, if no host could be reached, or if the server
/// refused the connection.
///
/// # Panics
/// Panics outside a task of ecru.
///
/// # Cancellation
/// This is a cancellation point. A cancelled attempt is abandoned.
///
/// # Examples
/// See [the crate](crate).
pub fn connect(settings: &str) -> Result<Client, Error> {
    Connector::new(settings.parse()?).connect()
}

/// Settings from which clients are made.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use ecru_postgres::{Connector, Error};
///
/// ecru::run(|| {
///     let mut config: tokio_postgres::Config = "postgres://me@127.0.0.1:1/shop".parse()?;
///     config.connect_timeout(Duration::from_secs(2)).application_name("till");
///     let connector = Connector::new(config);
///     // Nothing listens there. The settings serve for any number of attempts.
///     assert!(matches!(connector.connect(), Err(Error::Io(_))));
///     assert!(matches!(connector.connect(), Err(Error::Io(_))));
///     Ok::<_, Error>(())
/// })?;
/// # Ok::<_, ecru_postgres::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Connector {
    config: Config,
    #[cfg(feature = "tls")]
    tls: Option<Arc<rustls::ClientConfig>>,
}

impl Connector {
    /// Takes the settings. Of the several hosts of a configuration, the first that can be connected
    /// to is used. `target_session_attrs` and `load_balance_hosts` have no effect.
    #[must_use]
    pub fn new(config: Config) -> Connector {
        Connector {
            config,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// Uses TLS with these settings where the configuration's `sslmode` allows it, which is `prefer`
    /// by default. A Unix socket has no TLS.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, settings: Arc<rustls::ClientConfig>) -> Connector {
        self.tls = Some(settings);
        self
    }

    /// Connects to a server.
    ///
    /// # Errors
    /// Returns an error if no host could be reached, or if the server refused the connection.
    ///
    /// # Panics
    /// Panics outside a task of ecru.
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled attempt is abandoned.
    pub fn connect(&self) -> Result<Client, Error> {
        let local = [Host::Tcp(String::from("localhost"))];
        let hosts = self.config.get_hosts();
        let hosts = if hosts.is_empty() { &local } else { hosts };
        let ports = self.config.get_ports();
        let mut last = None;
        for (number, host) in hosts.iter().enumerate() {
            let port = ports.get(number).or(ports.first()).copied().unwrap_or(PORT);
            let attempt = || self.connect_to(host, port);
            let result = match self.config.get_connect_timeout() {
                Some(limit) => ecru::timeout(*limit, attempt).unwrap_or_else(|elapsed| {
                    ecru::checkpoint()?;
                    Err(Error::Io(io::Error::new(io::ErrorKind::TimedOut, elapsed)))
                }),
                None => attempt(),
            };
            match result {
                // Only a host that cannot be reached is passed over.
                Err(Error::Io(error)) => last = Some(error),
                other => return other,
            }
        }
        Err(Error::Io(last.expect("there is a host")))
    }

    /// Makes a pool of at most `limit` clients. Clients that are closed are replaced. A program that
    /// wants other settings makes its own [`Pool`], of this connector's
    /// [`connect`](Connector::connect).
    ///
    /// # Panics
    /// Panics in the same cases as [`Pool::builder`].
    ///
    /// # Examples
    /// ```no_run
    /// use ecru_postgres::Connector;
    ///
    /// ecru::run(|| {
    ///     let pool = Connector::new("postgres://me@localhost/shop".parse()?).pool(8);
    ///     let count = |table: &str| -> std::io::Result<i64> {
    ///         let mut client = pool.get()?;
    ///         let row = client.query_one(&format!("SELECT count(*) FROM {table}"), &[])?;
    ///         Ok(row.get(0))
    ///     };
    ///     let (goods, log) = ecru::join!(count("goods"), count("log"));
    ///     println!("{} goods, {} lines", goods??, log??);
    ///     Ok::<_, Box<dyn std::error::Error>>(())
    /// })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn pool(self, limit: usize) -> Pool<Client, Error> {
        Pool::builder(limit)
            .validate(|client: &mut Client| !client.is_closed())
            .build(move || self.connect())
    }

    fn connect_to(&self, host: &Host, port: u16) -> Result<Client, Error> {
        match host {
            Host::Tcp(name) => {
                let stream = open_tcp((&name[..], port))?;
                let address = Address::Tcp(name.clone(), stream.peer_addr()?);
                self.talk(stream, address)
            }
            Host::Unix(folder) => {
                let path = folder.join(format!(".s.PGSQL.{port}"));
                let stream = UnixStream::connect(&path)?;
                self.talk(stream, Address::Unix(path))
            }
        }
    }

    fn talk<S>(&self, stream: S, address: Address) -> Result<Client, Error>
    where
        S: Pollable + Send + 'static,
        EcruIo<S>: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let io = EcruIo::new(stream)?;
        #[cfg(feature = "tls")]
        if let (Some(tls), Address::Tcp(name, _)) = (&self.tls, &address) {
            let tls = crate::tls::Rustls::new(Arc::clone(tls), name)?;
            return self.begin(io, tls, address);
        }
        self.begin(io, NoTls, address)
    }

    fn begin<S, T>(&self, io: S, tls: T, address: Address) -> Result<Client, Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        T: TlsConnect<S>,
        T::Stream: Send + 'static,
    {
        let (client, connection) = ecru::block_on(self.config.connect_raw(io, tls))??;
        let notifications = Arc::new(Notifications::default());
        let task = ecru::spawn_future(drive(connection, Arc::clone(&notifications)));
        let canceller = Canceller {
            token: client.cancel_token(),
            address,
            #[cfg(feature = "tls")]
            tls: self.tls.clone(),
        };
        Ok(Client::new(client, task, notifications, canceller))
    }
}

fn open_tcp(address: impl ToSocketAddrs) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Runs a connection until its client is dropped. Its errors reach the client's calls.
async fn drive<S, T>(mut connection: Connection<S, T>, notifications: Arc<Notifications>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let _ended = notifications.until_the_end();
    poll_fn(|context| {
        loop {
            match ready!(connection.poll_message(context)) {
                Some(Ok(AsyncMessage::Notification(notification))) => {
                    notifications.deliver(notification);
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return std::task::Poll::Ready(()),
            }
        }
    })
    .await;
}

/// Where a server is.
#[derive(Debug)]
enum Address {
    /// The host's name, and the address that was connected to. Its other addresses may be those of
    /// other servers.
    Tcp(
        #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "TLS needs it"))] String,
        SocketAddr,
    ),
    Unix(PathBuf),
}

/// What is needed to cancel a query.
pub(crate) struct Canceller {
    token: CancelToken,
    address: Address,
    #[cfg(feature = "tls")]
    tls: Option<Arc<rustls::ClientConfig>>,
}

impl Canceller {
    /// Asks the server to cancel the query that it is working on. Returns when the server has passed
    /// the request on, so it does not hit a later query.
    pub(crate) fn request(&self) -> Result<(), Error> {
        match &self.address {
            Address::Tcp(_, address) => self.send(open_tcp(address)?),
            Address::Unix(path) => self.send(UnixStream::connect(path)?),
        }
    }

    fn send<S>(&self, stream: S) -> Result<(), Error>
    where
        S: Pollable,
        EcruIo<S>: AsyncRead + AsyncWrite + Unpin,
    {
        let mut io = EcruIo::new(stream)?;
        #[cfg(feature = "tls")]
        if let (Some(tls), Address::Tcp(name, _)) = (&self.tls, &self.address) {
            let tls = crate::tls::Rustls::new(Arc::clone(tls), name)?;
            ecru::block_on(self.token.cancel_query_raw(&mut io, tls))??;
            return await_end(&mut io);
        }
        ecru::block_on(self.token.cancel_query_raw(&mut io, NoTls))??;
        await_end(&mut io)
    }
}

/// The server closes the connection when it has signalled the process that runs the query.
fn await_end(io: &mut (impl AsyncRead + Unpin)) -> Result<(), Error> {
    let ended = ecru::block_on(async {
        let mut rest = [0; 64];
        while io.read(&mut rest).await? != 0 {}
        io::Result::Ok(())
    })?;
    match ended {
        // The server need not read to the end what TLS has sent.
        Err(error) if error.kind() != io::ErrorKind::ConnectionReset => Err(error.into()),
        _ => Ok(()),
    }
}

/// How long a cancelled call waits for the server.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
