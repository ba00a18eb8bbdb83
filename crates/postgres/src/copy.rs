//! `COPY`, from a reader and into a writer.

use std::io::{Read, Write};
use std::pin::pin;

use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt, StreamExt};
use tokio_postgres::ToStatement;

use crate::{Client, Error};

/// The bytes that are sent at a time.
const CHUNK: usize = 64 * 1024;

impl Client {
    /// Runs a `COPY .. FROM STDIN` statement, whose data is read from `data`. Returns the number of
    /// rows.
    ///
    /// # Errors
    /// Returns the server's errors, and those of the reader as [`Error::Io`]. Nothing has been copied
    /// then.
    ///
    /// # Cancellation
    /// This is a cancellation point. A copy that is cancelled has copied nothing.
    ///
    /// # Examples
    /// ```no_run
    /// ecru::run(|| {
    ///     let mut client = ecru_postgres::connect("postgres://me@localhost/shop")?;
    ///     let goods = ecru::fs::File::open("goods.csv")?;
    ///     client.copy_in("COPY goods FROM STDIN (FORMAT csv)", goods)
    /// })?;
    /// # Ok::<_, ecru_postgres::Error>(())
    /// ```
    pub fn copy_in<Q>(&mut self, query: &Q, mut data: impl Read) -> Result<u64, Error>
    where
        Q: ?Sized + ToStatement,
    {
        // If it is dropped without its end, the server discards what it has got.
        let sink = self.call(async |client| client.copy_in::<Q, Bytes>(query).await)?;
        let mut sink = pin!(sink);
        loop {
            let mut chunk = BytesMut::zeroed(CHUNK);
            let count = match data.read(&mut chunk) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if count == 0 {
                break;
            }
            chunk.truncate(count);
            if let Err(error) = ecru::block_on(sink.send(chunk.freeze()))? {
                return Err(error.into());
            }
        }
        self.call(async |_| sink.as_mut().finish().await)
    }

    /// Runs a `COPY .. TO STDOUT` statement, and writes its data to `data`. Returns the number of
    /// bytes.
    ///
    /// # Errors
    /// Returns the server's errors, and those of the writer as [`Error::Io`].
    ///
    /// # Cancellation
    /// This is a cancellation point. What has been written before is left in the writer.
    ///
    /// # Examples
    /// ```no_run
    /// ecru::run(|| {
    ///     let mut client = ecru_postgres::connect("postgres://me@localhost/shop")?;
    ///     client.copy_out("COPY goods TO STDOUT (FORMAT csv)", ecru::io::stdout())
    /// })?;
    /// # Ok::<_, ecru_postgres::Error>(())
    /// ```
    pub fn copy_out<Q>(&mut self, query: &Q, mut data: impl Write) -> Result<u64, Error>
    where
        Q: ?Sized + ToStatement,
    {
        let mut stream = Box::pin(self.call(async |client| client.copy_out(query).await)?);
        let mut written = 0;
        loop {
            let next = ecru::block_on(stream.next()).map_err(Error::from);
            let chunk = match next {
                Ok(Some(Ok(chunk))) => Ok(chunk),
                Ok(Some(Err(error))) => return Err(error.into()),
                Ok(None) => return Ok(written),
                Err(cancelled) => Err(cancelled),
            };
            let result = chunk.and_then(|chunk| {
                written += chunk.len() as u64;
                data.write_all(&chunk).map_err(Error::from)
            });
            if let Err(error) = result {
                // The server would send all the rest.
                self.interrupt(async { while let Some(Ok(_)) = stream.next().await {} });
                return Err(error);
            }
        }
    }
}
