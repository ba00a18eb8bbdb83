//! A minimal HTTP/1.1 server: requests without a body, parsed by httparse.

use std::io::{self, Read, Write};

/// Answers requests on one connection until the client closes it. `answer` gets the path.
///
/// # Errors
/// Returns the stream's errors, and `InvalidData` for a malformed request.
pub fn serve(
    mut stream: impl Read + Write,
    mut answer: impl FnMut(&str) -> String,
) -> io::Result<()> {
    let mut received = Vec::new();
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut request = httparse::Request::new(&mut headers);
        let parsed = request
            .parse(&received)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        match parsed {
            httparse::Status::Complete(length) => {
                let body = answer(request.path.unwrap_or_default());
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
                stream.flush()?;
                received.drain(..length);
            }
            httparse::Status::Partial => {
                let mut buffer = [0; 4096];
                match stream.read(&mut buffer)? {
                    0 => return Ok(()),
                    count => received.extend_from_slice(&buffer[..count]),
                }
            }
        }
    }
}
