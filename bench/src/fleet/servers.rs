//! Real servers on loopback, each with its data in a temporary folder, which run while a value
//! lives.
//!
//! A server runs on the second core, and its contender on the first. If this process ends without
//! dropping the value, the kernel kills the server (`setpriv --pdeathsig`).

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getuid, kill_process};

/// The time that a server may take to start or to stop.
const PATIENCE: Duration = Duration::from_secs(60);

/// The pause between two looks at a server that starts or stops.
const LOOK: Duration = Duration::from_millis(5);

/// The name of the user and of the database in PostgreSQL.
const NAME: &str = "bench";

/// A kind of server, with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// NATS with JetStream. What is acknowledged is in the page cache.
    Nats,
    /// Redis with its default settings: what is acknowledged is in its memory, and a snapshot is
    /// written now and then.
    Redis,
    /// Redis with a log: what is acknowledged is in the page cache.
    RedisLog,
    /// PostgreSQL with its default settings: what is acknowledged is on the disk.
    Postgres,
    /// PostgreSQL without `synchronous_commit`: what is acknowledged is in its memory, and is
    /// written soon.
    PostgresLate,
}

impl Kind {
    /// Returns the paths of the programs that it consists of, the server last.
    ///
    /// # Errors
    ///
    /// Returns the name of a program that is not installed.
    fn programs(self) -> Result<Vec<PathBuf>, String> {
        let names: &[&str] = match self {
            Kind::Nats => &["nats-server"],
            Kind::Redis | Kind::RedisLog => &["redis-server"],
            Kind::Postgres | Kind::PostgresLate => &["initdb", "postgres"],
        };
        let folders = folders();
        let path = |name: &&str| {
            let mut paths = folders.iter().map(|folder| folder.join(name));
            let found = paths.find(|program| program.is_file());
            found.ok_or_else(|| format!("{name} not found: skipped"))
        };
        names.iter().map(path).collect()
    }

    /// Returns why it cannot be started here.
    pub(super) fn missing(self) -> Option<String> {
        self.programs().err()
    }

    /// Starts a server.
    ///
    /// # Errors
    ///
    /// Returns what the server has logged, if it does not come up, and otherwise the reason.
    pub(super) fn start(self) -> io::Result<Server> {
        // Another process may be faster to take the port.
        self.start_once().or_else(|_| self.start_once())
    }

    fn start_once(self) -> io::Result<Server> {
        let programs = self.programs().map_err(io::Error::other)?;
        let Some(program) = programs.last() else { return Err(io::Error::other("no programs")) };
        let folder = Folder::create()?;
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let port = address.port().to_string();
        let mut command = folder.command(program)?;
        match self {
            Kind::Nats => {
                command.args(["-a", "127.0.0.1", "-p", &port, "-js", "-sd"]).arg(&folder.0);
            }
            Kind::Redis | Kind::RedisLog => {
                let log = if self == Kind::RedisLog { "yes" } else { "no" };
                command.args(["--bind", "127.0.0.1", "--port", &port, "--appendonly", log]);
            }
            Kind::Postgres | Kind::PostgresLate => {
                let data = folder.0.join("data");
                folder.run(&programs[0], &["--no-sync", "-A", "trust", "-U", NAME], &data)?;
                let commit = if self == Kind::PostgresLate { "off" } else { "on" };
                let commit = format!("synchronous_commit={commit}");
                command.args(["-h", "127.0.0.1", "-p", &port, "-c", &commit, "-k"]).arg(&folder.0);
                command.arg("-D").arg(&data);
            }
        }
        let log = fs::File::create(folder.0.join("log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let process = command.spawn()?;
        let mut server = Server { kind: self, process, folder, address };
        let begun = Instant::now();
        while !server.is_up() {
            if server.process.try_wait()?.is_some() || begun.elapsed() > PATIENCE {
                let log = fs::read_to_string(server.folder.0.join("log")).unwrap_or_default();
                return Err(io::Error::other(format!("{self:?} did not come up:\n{log}")));
            }
            thread::sleep(LOOK);
        }
        Ok(server)
    }
}

/// Returns the versions of the servers that are installed.
pub(crate) fn versions() -> Vec<(String, String)> {
    let version = |kind: Kind| {
        let program = kind.programs().ok()?.pop()?;
        let output = Command::new(&program).arg("--version").output().ok()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let words = said.split_whitespace().map(|word| word.trim_start_matches("v="));
        let number =
            |word: &str| word.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit());
        let version = words.into_iter().find(|word| number(word) && word.contains('.'))?;
        let name = program.file_name()?.to_string_lossy().into_owned();
        Some((name, version.to_owned()))
    };
    [Kind::Nats, Kind::Redis, Kind::Postgres].into_iter().filter_map(version).collect()
}

/// A running server. Dropping it stops the server and deletes its data.
#[derive(Debug)]
pub(super) struct Server {
    kind: Kind,
    process: Child,
    folder: Folder,
    address: SocketAddr,
}

impl Server {
    /// Returns where its clients find it.
    pub(super) fn url(&self) -> String {
        let address = self.address;
        match self.kind {
            Kind::Nats => format!("nats://{address}"),
            Kind::Redis | Kind::RedisLog => address.to_string(),
            Kind::Postgres | Kind::PostgresLate => format!("postgres://{NAME}@{address}/postgres"),
        }
    }

    /// Returns the id of its process.
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns whether it answers.
    fn is_up(&self) -> bool {
        let (request, answer): (&[u8], &[u8]) = match self.kind {
            Kind::Nats => (b"", b"INFO "),
            Kind::Redis | Kind::RedisLog => (b"PING\r\n", b"+PONG"),
            // The length and the number of the question whether it encrypts.
            Kind::Postgres | Kind::PostgresLate => (&[0, 0, 0, 8, 4, 210, 22, 47], b"N"),
        };
        let Ok(mut stream) = TcpStream::connect(self.address) else { return false };
        let _ = stream.set_read_timeout(Some(PATIENCE));
        let mut said = vec![0; answer.len()];
        let asked = stream.write_all(request).and_then(|()| stream.read_exact(&mut said));
        asked.is_ok() && said == answer && self.accepts_clients()
    }

    /// Returns whether it has said that it accepts clients. PostgreSQL and JetStream listen earlier.
    fn accepts_clients(&self) -> bool {
        let words = match self.kind {
            Kind::Nats => "Server is ready",
            Kind::Redis | Kind::RedisLog => return true,
            Kind::Postgres | Kind::PostgresLate => "ready to accept connections",
        };
        fs::read_to_string(self.folder.0.join("log")).is_ok_and(|log| log.contains(words))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // PostgreSQL must wait for its own processes: their CPU time then counts as that of this
        // process's children, and not as a disturbance.
        let signal = match self.kind {
            Kind::Postgres | Kind::PostgresLate => Signal::INT,
            Kind::Nats | Kind::Redis | Kind::RedisLog => Signal::KILL,
        };
        let _ = kill_process(Pid::from_child(&self.process), signal);
        let begun = Instant::now();
        while matches!(self.process.try_wait(), Ok(None)) {
            if begun.elapsed() > PATIENCE {
                let _ = self.process.kill();
                let _ = self.process.wait();
            }
            thread::sleep(LOOK);
        }
    }
}

/// A new folder, which is deleted when this is dropped.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn create() -> io::Result<Folder> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("ecru-bench-fleet-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder)?;
        let folder = Folder(folder);
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o700))?;
        Ok(folder)
    }

    /// Returns a command that runs a program in this folder, as a user other than root, because
    /// PostgreSQL refuses root.
    fn command(&self, program: &Path) -> io::Result<Command> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).current_dir(&self.0);
        if getuid().is_root() {
            let found = ["postgres", "redis", "nobody"].into_iter().find_map(ids_of);
            let (user, group) = found.ok_or_else(|| io::Error::other("there is only root"))?;
            command.arg(format!("--reuid={user}")).arg(format!("--regid={group}"));
            command.arg("--clear-groups");
            chown(&self.0, Some(user), Some(group))?;
        }
        command.arg("--").arg(program);
        Ok(command)
    }

    /// Runs a program that creates a database in a folder.
    fn run(&self, program: &Path, arguments: &[&str], data: &Path) -> io::Result<()> {
        let mut command = self.command(program)?;
        let output = command.args(arguments).arg("-D").arg(data).stdin(Stdio::null()).output()?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!("{}: {said}", program.display())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the folders in which servers are looked for: that of `.ci/prepare`, those of Debian's
/// PostgreSQL, and those of the search path.
fn folders() -> Vec<PathBuf> {
    let own = std::env::current_exe().unwrap_or_default();
    let tools = own.ancestors().map(|folder| folder.join("tools/bin"));
    let mut folders: Vec<PathBuf> = tools.filter(|folder| folder.is_dir()).collect();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    folders.extend(versions.map(|version| version.path().join("bin")));
    let path = std::env::var_os("PATH").unwrap_or_default();
    folders.extend(std::env::split_paths(&path));
    folders
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a server that is not installed fails the test.
    fn is_required() -> bool {
        let set = |name| std::env::var(name).is_ok_and(|set| set == "true" || set == "1");
        set("CI") || set("ECRU_REQUIRE_SERVERS")
    }

    #[test]
    fn each_server_answers_until_it_is_dropped_and_leaves_no_data() {
        for kind in [Kind::Nats, Kind::Redis, Kind::RedisLog, Kind::Postgres, Kind::PostgresLate] {
            if let Some(missing) = kind.missing() {
                assert!(!is_required(), "{missing}");
                println!("SKIPPED: {missing}");
                continue;
            }
            let server = kind.start().unwrap();
            assert!(server.is_up(), "{kind:?}");
            let (process, folder) = (server.id(), server.folder.0.clone());
            assert!(folder.is_dir() && server.url().contains("127.0.0.1:"), "{kind:?}");
            drop(server);
            assert!(!folder.exists(), "{kind:?}");
            assert!(!Path::new(&format!("/proc/{process}")).exists(), "{kind:?}");
        }
    }

    #[test]
    fn a_program_that_fails_shows_its_words() {
        let folder = Folder::create().unwrap();
        let output = folder.run(Path::new("ls"), &["no-such-file"], &folder.0);
        assert!(output.unwrap_err().to_string().contains("no-such-file"));
    }

    #[test]
    fn each_server_that_is_installed_has_a_version() {
        let servers = [Kind::Nats, Kind::Redis, Kind::Postgres];
        let installed = servers.into_iter().filter(|kind| kind.missing().is_none()).count();
        assert_eq!(versions().len(), installed, "{:?}", versions());
    }

    #[test]
    fn a_user_has_a_number_and_a_group() {
        assert_eq!(ids_of("root"), Some((0, 0)));
        assert_eq!(ids_of("no such user"), None);
    }
}
