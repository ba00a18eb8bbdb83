//! Bodies that are read in direct style.

use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;

use hyper::body::{Body, Bytes};

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// Waits for some bytes. Returns `None` at the end of the body.
pub(crate) fn next<B>(body: &mut B) -> io::Result<Option<Bytes>>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    loop {
        let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx));
        match ecru::block_on(frame)? {
            None => return Ok(None),
            Some(Err(error)) => return Err(to_io(error.into())),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(piece) if !piece.is_empty() => return Ok(Some(piece)),
                Ok(_) | Err(_) => {}
            },
        }
    }
}

/// Waits for all bytes that are left.
pub(crate) fn all<B>(body: &mut B) -> io::Result<Bytes>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let first = next(body)?.unwrap_or_default();
    let Some(second) = next(body)? else { return Ok(first) };
    let mut all = Vec::with_capacity(2 * (first.len() + second.len()));
    all.extend_from_slice(&first);
    all.extend_from_slice(&second);
    while let Some(next) = next(body)? {
        all.extend_from_slice(&next);
    }
    Ok(all.into())
}

/// Moves bytes from the piece to `room`, as [`io::Read`] does.
pub(crate) fn take(piece: &mut Bytes, room: &mut [u8]) -> usize {
    let count = piece.len().min(room.len());
    room[..count].copy_from_slice(&piece.split_to(count));
    count
}

/// Keeps the kind of an I/O error that is the cause.
pub(crate) fn to_io(error: BoxError) -> io::Error {
    match error.downcast::<io::Error>() {
        Ok(error) => *error,
        Err(error) => io::Error::new(kind(&*error).unwrap_or(io::ErrorKind::Other), error),
    }
}

/// Returns the kind of the first I/O error among the causes.
pub(crate) fn kind(error: &(dyn Error + 'static)) -> Option<io::ErrorKind> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error.kind());
        }
        cause = error.source();
    }
    None
}
