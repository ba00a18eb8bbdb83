//! One request to an inspect socket, whose protocol is described in ecru's `src/diag/inspect/mod.rs`.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::Failure;

/// How long an answer may pause.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a request is repeated if the server dismisses it, because it has too many clients.
const ATTEMPTS: usize = 5;
/// The greatest length of the first line of an answer.
const HEAD_MAX: u64 = 4096;

/// Sends a request and returns the answer.
pub(crate) fn ask(socket: &Path, request: &str) -> Result<String, Failure> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        match attempt(socket, request) {
            Ok(answer) => return answer,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionReset
                        | io::ErrorKind::BrokenPipe
                        | io::ErrorKind::UnexpectedEof
                ) =>
            {
                last = Some(error);
            }
            Err(error) => return Err(failure(socket, &error)),
        }
    }
    Err(failure(socket, &last.expect("there was an attempt")))
}

fn failure(socket: &Path, error: &io::Error) -> Failure {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "; is the program running?",
        io::ErrorKind::ConnectionRefused => "; its program has ended",
        io::ErrorKind::WouldBlock => "; the program has not answered for 30 s",
        io::ErrorKind::PermissionDenied => "; only the program's own user may ask it",
        _ => "",
    };
    Failure::Answer(format!("{}: {error}{hint}", socket.display()))
}

/// Makes one attempt. The inner error is the server's.
fn attempt(socket: &Path, request: &str) -> io::Result<Result<String, Failure>> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    (&stream).write_all(format!("ecru/1 {request}\n").as_bytes())?;
    let mut answer = BufReader::new(stream);
    let mut head = String::new();
    answer.by_ref().take(HEAD_MAX).read_line(&mut head)?;
    if head.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let head = head.trim_end();
    if let Some(error) = head.strip_prefix("ecru/1 error ") {
        return Ok(Err(Failure::Answer(error.to_owned())));
    }
    let Some(length) = head.strip_prefix("ecru/1 ok ").and_then(|length| length.parse().ok())
    else {
        let text = format!("{}: does not answer as ecru does: {head:?}", socket.display());
        return Ok(Err(Failure::Answer(text)));
    };
    let mut text = String::new();
    answer.take(length).read_to_string(&mut text)?;
    if text.len() as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Ok(text))
}
