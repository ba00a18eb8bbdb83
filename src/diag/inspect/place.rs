//! Where inspect sockets are, and how one is opened, replaced and removed.
//!
//! The default place is `$XDG_RUNTIME_DIR/ecru/PID.sock`, or `/tmp/ecru-UID/PID.sock` if that
//! variable is not set. Further runtimes of one process use `PID-2.sock` and so on. The folder
//! belongs to the user and has the mode 0700.
//!
//! A socket is *stale* if no process listens to it, because its process has ended without removing
//! it. A stale socket is replaced. Any other file is left alone.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::geteuid;

/// The greatest number of runtimes of one process with sockets at the default place.
const RUNTIMES_MAX: u32 = 16;
/// How many clients may wait to be accepted.
const BACKLOG: i32 = 64;

/// The file of a socket. It is removed when this is dropped, if it is still that of the socket.
#[derive(Debug)]
pub(super) struct Bound {
    path: PathBuf,
    /// The device and the number of the file.
    file: (u64, u64),
}

impl Bound {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if file_at(&self.path).is_ok_and(|file| file == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn file_at(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

/// Opens a socket at the default place.
pub(super) fn bind_by_default() -> io::Result<(OwnedFd, Bound)> {
    let folder = folder(std::env::var_os("XDG_RUNTIME_DIR"));
    own_folder(&folder)?;
    let id = std::process::id();
    let name = |number| match number {
        1 => format!("{id}.sock"),
        number => format!("{id}-{number}.sock"),
    };
    let mut last = None;
    for number in 1..=RUNTIMES_MAX {
        match bind(&folder.join(name(number))) {
            // Another runtime of this process has it.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = Some(error),
            outcome => return outcome,
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::AddrInUse.into()))
}

fn folder(runtime: Option<OsString>) -> PathBuf {
    match runtime.filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder).join("ecru"),
        None => PathBuf::from(format!("/tmp/ecru-{}", geteuid().as_raw())),
    }
}

/// Makes the folder. It must belong to this user alone: another user could have made it before.
fn own_folder(folder: &Path) -> io::Result<()> {
    let made = DirBuilder::new().mode(0o700).create(folder);
    if let Err(error) = made
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(about(folder, &error));
    }
    let found = fs::symlink_metadata(folder).map_err(|error| about(folder, &error))?;
    if !found.is_dir() || found.uid() != geteuid().as_raw() || found.mode() & 0o077 != 0 {
        let text = format!(
            "{}: is not a folder of this user with the mode 0700; remove it, or choose another place by ECRU_INSPECT=/PATH",
            folder.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(())
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("the inspect socket {}: {error}", path.display()))
}

/// Opens a socket at this path, and replaces a stale one.
pub(super) fn bind(path: &Path) -> io::Result<(OwnedFd, Bound)> {
    // The program may change its folder before the file is removed.
    let path = &std::path::absolute(path)?;
    let listener = open(path).map_err(|error| about(path, &error))?;
    let file = file_at(path).map_err(|error| about(path, &error))?;
    Ok((listener, Bound { path: path.to_owned(), file }))
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path).map_err(|error| match error {
        Errno::NAMETOOLONG => {
            io::Error::new(io::ErrorKind::InvalidInput, "the path is longer than 107 bytes")
        }
        error => error.into(),
    })?;
    let socket = socket()?;
    // The file of the socket gets this mode when it is bound. After that it would be too late.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    match rustix::net::bind(&socket, &address) {
        Err(Errno::ADDRINUSE) => {
            remove_if_stale(path, &address)?;
            rustix::net::bind(&socket, &address)?;
        }
        bound => bound?,
    }
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

fn remove_if_stale(path: &Path, address: &SocketAddrUnix) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        let text = "the file exists and is not a socket; remove it, or choose another path";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    match rustix::net::connect(&socket()?, address) {
        Err(Errno::CONNREFUSED) => Ok(fs::remove_file(path)?),
        Err(Errno::NOENT) => Ok(()),
        // It has more clients than it can take.
        Ok(()) | Err(Errno::AGAIN) => {
            let text = "a running program serves it; choose another path";
            Err(io::Error::new(io::ErrorKind::AddrInUse, text))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::folder;
    use std::path::Path;

    #[test]
    fn the_default_folder_is_that_of_the_user() {
        assert_eq!(folder(Some("/run/user/7".into())), Path::new("/run/user/7/ecru"));
        for missing in [None, Some("".into())] {
            assert!(folder(missing).to_string_lossy().starts_with("/tmp/ecru-"));
        }
    }
}
