//! Redis: the `redis` crate packs commands and parses replies. The stream between is ecru's.

use std::io::{BufReader, Write};

use ecru::net::{TcpStream, ToSocketAddrs};
use redis::{Cmd, ConnectionLike, Parser, RedisResult, Value};

/// A connection, which has the crate's typed commands ([`redis::Commands`]) and takes its pipelines.
pub struct Redis {
    stream: BufReader<TcpStream>,
    parser: Parser,
    /// Whether all replies have been read. A cancellation may leave some.
    is_open: bool,
}

impl Redis {
    /// Opens a connection.
    ///
    /// # Errors
    /// Returns the errors of [`TcpStream::connect`].
    pub fn connect(address: impl ToSocketAddrs) -> RedisResult<Redis> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Redis { stream: BufReader::new(stream), parser: Parser::new(), is_open: true })
    }

    /// Sends what is packed and reads all replies, of which the first `skip` are dropped.
    fn converse(&mut self, packed: &[u8], skip: usize, count: usize) -> RedisResult<Vec<Value>> {
        self.is_open = false;
        self.stream.get_mut().write_all(packed)?;
        for _ in 0..skip {
            self.parser.parse_value(&mut self.stream)?;
        }
        let replies = (0..count).map(|_| self.parser.parse_value(&mut self.stream)).collect();
        self.is_open = Result::is_ok(&replies);
        replies
    }
}

impl ConnectionLike for Redis {
    fn req_packed_command(&mut self, packed: &[u8]) -> RedisResult<Value> {
        Ok(self.converse(packed, 0, 1)?.remove(0))
    }

    fn req_packed_commands(
        &mut self,
        packed: &[u8],
        skip: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        self.converse(packed, skip, count)
    }

    fn get_db(&self) -> i64 {
        0
    }

    fn check_connection(&mut self) -> bool {
        Cmd::new().arg("PING").query::<String>(self).is_ok()
    }

    fn is_open(&self) -> bool {
        self.is_open
    }
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redis").field("stream", self.stream.get_ref()).finish_non_exhaustive()
    }
}
