//! One download, whose bytes are discarded.

use ecru::net::TcpStream;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;

/// Fetches the file and returns its length, which must be the announced one.
pub(crate) fn download(address: SocketAddr) -> io::Result<u64> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET /hugefile.bin HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    if line.split(' ').nth(1) != Some("200") {
        return Err(io::Error::other(format!("the server says {:?}", line.trim_end())));
    }
    let mut announced = None;
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                announced = Some(value.parse::<u64>().map_err(io::Error::other)?);
            }
            Some(_) => {}
            None => break,
        }
    }
    let (mut buffer, mut length) = (vec![0; 16 << 10], 0);
    loop {
        match reader.read(&mut buffer)? {
            0 if announced.is_none_or(|announced| announced == length) => return Ok(length),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => length += read as u64,
        }
    }
}
