//! POSIX-like files and datagrams. Where gears has a future, ecru has a call that waits, and
//! several tasks for several calls at once.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use ecru::fs::{self, File, OpenOptions};
use ecru::net::UdpSocket;
use encoding_rs::WINDOWS_1252;

use crate::page::Page;

/// A folder that exists while the page is written.
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Folder> {
        // A process may write several pages at once.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("gears-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // This runs on every path out, also a cancelled one. It uses std's function, which a
        // cancellation does not stop.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

pub(crate) fn write(page: &mut Page<'_>) -> io::Result<()> {
    page.heading("Files")?;
    let folder = Folder::new()?;
    let path = &folder.0.join("x.txt");
    let writing = File::options().write(true).create(true).clone();
    let reading = File::options().read(true).clone();

    with_file(path, &writing, |f| f.write_all(b"Hello world!"))?;
    page.line(
        "withFile(.., WRITE)(_.writeString(\"Hello world!\"))",
        fs::metadata(path)?.len(),
        12,
    )?;
    let hello = with_file(path, &reading, |f| {
        let mut text = String::new();
        f.take(5).read_to_string(&mut text)?;
        Ok(text)
    })?;
    page.line("withFile(..)(_.readString(5))", hello.as_str(), "Hello")?;

    // A slice plays the part of a buffer's position. A read at the end of a file returns 0.
    let buffer = b"0123456789";
    let written = with_file(path, &writing, |f| f.write_at(&buffer[8..], 0))?;
    page.line("buffer.position(8); f.write(buffer)", written, 2)?;
    let at_the_end = with_file(path, &reading, |f| f.read_at(&mut [0; 8], 12))?;
    page.line("f.read(buffer), at the end of the file", at_the_end, 0)?;

    let (bytes, _, _) = WINDOWS_1252.encode("écru");
    fs::write(path, &bytes)?;
    page.line("writeString(\"écru\", ISO_8859_1)", bytes.len(), 4)?;
    let bytes = fs::read(path)?;
    let (text, _, _) = WINDOWS_1252.decode(&bytes);
    page.line("readString(4, ISO_8859_1)", text.as_ref(), "écru")?;

    let both = ecru::scope(|s| {
        let size = |name: &str, size: usize| {
            let path = folder.0.join(name);
            s.spawn(move || {
                fs::write(&path, vec![b'x'; size])?;
                Ok::<_, io::Error>(fs::read(&path)?.len())
            })
        };
        ecru::zip((size("small", 4), size("large", 1 << 20)))
    })?;
    page.line("f1.writeString(..).zip(f2.writeString(..))", both, (4, 1 << 20))
}

/// Calls `f` with an open file, which is closed on every path out.
fn with_file<T>(
    path: &Path,
    options: &OpenOptions,
    body: impl FnOnce(&mut File) -> io::Result<T>,
) -> io::Result<T> {
    body(&mut options.open(path)?)
}

/// UDP: the receiver gets the sender's address.
pub(crate) fn datagrams(page: &mut Page<'_>) -> io::Result<()> {
    page.heading("Datagrams")?;
    let server = UdpSocket::bind(("127.0.0.1", 0))?;
    let address = server.local_addr()?;
    let answer = ecru::try_scope(|s| {
        s.spawn(|| {
            let mut buffer = [0; 10 << 10];
            let (count, client) = server.recv_from(&mut buffer)?;
            buffer[..count].reverse();
            server.send_to(&buffer[..count], client).map(drop)
        });
        let client = UdpSocket::bind(("127.0.0.1", 0))?;
        client.send_to(b"stackful", address)?;
        let mut buffer = [0; 10 << 10];
        let (count, sender) = client.recv_from(&mut buffer)?;
        assert_eq!(sender, address);
        Ok::<_, io::Error>(String::from_utf8_lossy(&buffer[..count]).into_owned())
    })?;
    page.line("withSocketUDP()(s => s.send(..); s.receive())", answer.as_str(), "lufkcats")
}
