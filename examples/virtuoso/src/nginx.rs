//! A real nginx with `limit_rate`, in a folder of its own, which runs while it is needed.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// A running nginx, which is stopped when this value is dropped.
pub(crate) struct Nginx {
    process: Child,
    folder: PathBuf,
    pub(crate) address: SocketAddr,
}

/// Finds the program. Debian installs it in a folder that is not in a normal user's PATH.
pub(crate) fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join("nginx")).find(|file| file.is_file())
}

impl Nginx {
    /// Starts `program` with one file of `size` bytes, sent at `rate` bytes a second.
    pub(crate) fn start(program: &Path, size: u64, rate: u64) -> io::Result<Nginx> {
        let folder = std::env::temp_dir().join(format!("ecru-virtuoso-{}", std::process::id()));
        fs::create_dir_all(folder.join("html"))?;
        fs::File::create(folder.join("html/hugefile.bin"))?.set_len(size)?;
        // If another process takes the port in between, nginx fails, which is detected below.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        // As root, nginx would serve as another user, which cannot read the folder.
        let user = if rustix::process::getuid().is_root() { "user root;" } else { "" };
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {}/{name};", folder.display()))
            .concat();
        let text = format!(
            "daemon off; {user} worker_processes 1; pid {root}/pid; error_log {root}/log;
            events {{ worker_connections 8192; }}
            http {{
                access_log off; {temporary}
                server {{
                    listen {address} backlog=4096;
                    root {root}/html;
                    location / {{ limit_rate {rate}; }}
                }}
            }}",
            root = folder.display()
        );
        fs::write(folder.join("conf"), text)?;
        let mut command = Command::new(program);
        command.arg("-p").arg(&folder).arg("-c").arg(folder.join("conf"));
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let mut nginx = Nginx { process, folder, address };
        for _ in 0..100 {
            if let Some(status) = nginx.process.try_wait()? {
                let log = fs::read_to_string(nginx.folder.join("log")).unwrap_or_default();
                return Err(io::Error::other(format!("nginx ended with {status}: {log}")));
            }
            if TcpStream::connect(address).is_ok() {
                return Ok(nginx);
            }
            thread::sleep(Duration::from_millis(20));
        }
        Err(io::Error::other("nginx does not listen"))
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // This is not a kill, because nginx has to tell its workers.
        if let Some(pid) =
            i32::try_from(self.process.id()).ok().and_then(rustix::process::Pid::from_raw)
        {
            _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        _ = self.process.wait();
        _ = fs::remove_dir_all(&self.folder);
    }
}
