//! Real servers on loopback, each in a temporary folder, which run while a value lives.
//!
//! A server is stopped when its value is dropped, also by a panic. If the thread that started it
//! ends without dropping the value, the kernel kills the server (`setpriv --pdeathsig`).

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// The time that a server may take to start or to stop.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server.
#[derive(Debug)]
pub struct Server {
    child: Child,
    folder: PathBuf,
    address: SocketAddr,
    stop: Signal,
}

impl Server {
    /// Returns the address on which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the folder of its data.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn start(
        mut command: Command,
        folder: PathBuf,
        address: SocketAddr,
        stop: Signal,
        is_up: impl Fn(SocketAddr) -> bool,
    ) -> io::Result<Server> {
        let log = fs::File::create(folder.join("log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut server = Server { child: command.spawn()?, folder, address, stop };
        let begun = Instant::now();
        while !is_up(address) {
            let over = server.child.try_wait()?.is_some();
            if over || begun.elapsed() > PATIENCE {
                let log = fs::read_to_string(server.folder.join("log")).unwrap_or_default();
                return Err(io::Error::other(format!("{command:?} did not come up:\n{log}")));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let begun = Instant::now();
        let asked = Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(asked, self.stop);
        while matches!(self.child.try_wait(), Ok(None)) {
            if begun.elapsed() > PATIENCE {
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
            thread::sleep(Duration::from_millis(2));
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Starts a Redis. If it is not installed, prints a line and returns `None`.
///
/// # Panics
/// Panics if it is not installed although it is required (`CI=true` or `ECRU_REQUIRE_SERVERS=1`),
/// or if it does not start.
#[must_use]
pub fn redis() -> Option<Server> {
    let program = installed("redis-server", &[])?;
    Some(up("redis-server", || {
        let (folder, address) = (new_folder("redis")?, free_address()?);
        let mut command = unprivileged(&folder, &program)?;
        command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        command.arg("--port").arg(address.port().to_string()).arg("--dir").arg(&folder);
        Server::start(command, folder, address, Signal::TERM, |address| {
            let Ok(mut stream) = TcpStream::connect(address) else { return false };
            let asked = io::Write::write_all(&mut stream, b"PING\r\n");
            let mut reply = [0; 7];
            asked.and_then(|()| io::Read::read_exact(&mut stream, &mut reply)).is_ok()
                && &reply == b"+PONG\r\n"
        })
    }))
}

/// The user of the PostgreSQL.
pub const USER: &str = "ecru";
/// The password, which is checked by SCRAM.
pub const PASSWORD: &str = "undyed cloth";

/// Starts a PostgreSQL. If it is not installed, prints a line and returns `None`.
///
/// # Panics
/// Panics if it is not installed although it is required (`CI=true` or `ECRU_REQUIRE_SERVERS=1`),
/// or if it does not start.
#[must_use]
pub fn postgres() -> Option<Server> {
    postgres_with(&[])
}

/// Starts a PostgreSQL with TLS, as [`postgres`]. The certificate and its key are text (PEM).
///
/// # Panics
/// Panics in the same cases as [`postgres`].
#[must_use]
pub fn postgres_with_tls(certificate: &str, key: &str) -> Option<Server> {
    postgres_with(&[("server.crt", certificate), ("server.key", key)])
}

/// Starts a PostgreSQL with these files in its folder, which are those of TLS.
fn postgres_with(files: &[(&str, &str)]) -> Option<Server> {
    let mut folders: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|version| Some(version.ok()?.path().join("bin")))
        .collect();
    folders.sort();
    let (initdb, postgres) = (installed("initdb", &folders)?, installed("postgres", &folders)?);
    Some(up("postgres", || {
        let (folder, address) = (new_folder("postgres")?, free_address()?);
        let (data, password) = (folder.join("data"), folder.join("password"));
        fs::write(&password, PASSWORD)?;
        let mut create = unprivileged(&folder, &initdb)?;
        create.args(["--no-sync", "--locale=C", "--encoding=UTF8", "-A", "scram-sha-256"]);
        create.args(["-U", USER, "--pwfile"]).arg(&password).arg("-D").arg(&data);
        let created = create.stdin(Stdio::null()).output()?;
        if !created.status.success() {
            let said = String::from_utf8_lossy(&created.stderr);
            let _ = fs::remove_dir_all(&folder);
            return Err(io::Error::other(format!("initdb: {said}")));
        }
        let mut command = unprivileged(&folder, &postgres)?;
        command.arg("-D").arg(&data).arg("-k").arg(&folder).args(["-F", "-h", "127.0.0.1"]);
        command.arg("-p").arg(address.port().to_string());
        for (name, text) in files {
            let file = folder.join(name);
            fs::write(&file, text)?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
            give_away(&file)?;
        }
        if !files.is_empty() {
            command.args(["-c", "ssl=on"]);
            for (setting, (name, _)) in ["ssl_cert_file", "ssl_key_file"].iter().zip(files) {
                command.arg("-c").arg(format!("{setting}={}", folder.join(name).display()));
            }
        }
        // SIGQUIT stops it at once, because its data is not needed.
        Server::start(command, folder, address, Signal::QUIT, asks_for_a_password)
    }))
}

/// Returns whether a PostgreSQL accepts connections. One that is starting answers with an error.
fn asks_for_a_password(address: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    let parameters = format!("user\0{USER}\0database\0postgres\0\0");
    let length = u32::try_from(8 + parameters.len()).expect("it is short");
    let message = [&length.to_be_bytes()[..], &[0, 3, 0, 0], parameters.as_bytes()].concat();
    let mut kind = [0];
    let asked = io::Write::write_all(&mut stream, &message);
    asked.and_then(|()| io::Read::read_exact(&mut stream, &mut kind)).is_ok() && &kind == b"R"
}

/// Retries with another port if another process was faster to take it.
fn up(name: &str, start: impl Fn() -> io::Result<Server>) -> Server {
    let first = start();
    first.or_else(|_| start()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the path of a program, from the named folders or the search path.
fn installed(name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = folders
        .iter()
        .cloned()
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join(name))
        .find(|program| program.is_file());
    if found.is_none() {
        let set = |name, value| std::env::var(name).is_ok_and(|found| found == value);
        assert!(
            !set("CI", "true") && !set("ECRU_REQUIRE_SERVERS", "1"),
            "{name} is not installed: apt-get install redis-server postgresql"
        );
        println!("SKIPPED: {name} is not installed (apt-get install redis-server postgresql)");
    }
    found
}

/// Returns a command that runs the program as a user other than root, which may write to the
/// folder. The program ends when the thread that starts it ends.
fn unprivileged(folder: &Path, program: &Path) -> io::Result<Command> {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).current_dir(folder);
    if let Some((user, group)) = give_away(folder)? {
        command.arg(format!("--reuid={user}")).arg(format!("--regid={group}"));
        command.arg("--clear-groups");
    }
    command.arg("--").arg(program);
    Ok(command)
}

/// Gives a file to the user that runs the servers, if the caller is root. Returns that user's number
/// and group.
fn give_away(file: &Path) -> io::Result<Option<(u32, u32)>> {
    if !rustix::process::getuid().is_root() {
        return Ok(None);
    }
    let nobody = ["postgres", "redis", "nobody"].into_iter().find_map(ids_of);
    let (user, group) = nobody.ok_or_else(|| io::Error::other("there is no user but root"))?;
    chown(file, Some(user), Some(group))?;
    Ok(Some((user, group)))
}

/// Returns a user's number and group, from /etc/passwd.
fn ids_of(name: &str) -> Option<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let mut fields = users
        .lines()
        .map(|line| line.split(':'))
        .find_map(|mut fields| (fields.next() == Some(name)).then(|| fields.skip(1)))?;
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn new_folder(name: &str) -> io::Result<PathBuf> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("ecru-{name}-{}-{number}", std::process::id()));
    fs::create_dir(&folder)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
    Ok(folder)
}

/// Returns an address that is free at this moment.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
