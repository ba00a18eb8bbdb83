//! Redis: the `redis` crate packs commands and parses replies. The stream between is ecru's.

use std::io::{BufReader, Write};

use ecru::net::{TcpStream, ToSocketAddrs};
use redis::{Cmd, FromRedisValue, Parser, Pipeline, RedisResult, Value};

/// A connection.
pub struct Redis {
    stream: BufReader<TcpStream>,
    parser: Parser,
}

impl Redis {
    /// Opens a connection.
    ///
    /// # Errors
    /// Returns the errors of [`TcpStream::connect`].
    pub fn connect(address: impl ToSocketAddrs) -> RedisResult<Redis> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Redis { stream: BufReader::new(stream), parser: Parser::new() })
    }

    /// Sends a command and waits for its reply.
    ///
    /// # Errors
    /// Returns the stream's errors, the server's errors, and an error if the reply does not fit the
    /// requested type.
    pub fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        self.stream.get_mut().write_all(&command.get_packed_command())?;
        let reply = self.reply()?.extract_error()?;
        Ok(T::from_redis_value(reply)?)
    }

    /// Sends many commands at once and waits for all replies.
    ///
    /// # Errors
    /// Returns the stream's errors, and the parser's.
    pub fn pipeline(&mut self, commands: &Pipeline) -> RedisResult<Vec<Value>> {
        self.stream.get_mut().write_all(&commands.get_packed_pipeline())?;
        commands.cmd_iter().map(|_| self.reply()).collect()
    }

    fn reply(&mut self) -> RedisResult<Value> {
        self.parser.parse_value(&mut self.stream)
    }
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redis").field("stream", self.stream.get_ref()).finish_non_exhaustive()
    }
}
