//! What the public types say in the same words: each is a shell around a socket.

/// The methods of every socket. `$setup` are lines of an example, after which there is one called `socket`.
macro_rules! every_socket {
    ($name:ident, $address:ty, $setup:literal) => {
        impl $name {
            /// Another handle to the same socket, by a duplicate of its fd. Time-outs and
            #[doc = concat!("[`set_nonblocking`](", stringify!($name), "::set_nonblocking)")]
            /// are shared: a change on one shows on the other. The socket is closed when the last handle is dropped.
            ///
            /// A reference is often enough: no method here wants more, and other tasks may use it at the same time.
            ///
            /// # Examples
            /// ```
            #[doc = $setup]
            /// let clone = socket.try_clone()?;
            /// clone.set_nonblocking(true)?;
            /// drop(clone); // does not close the socket
            /// assert!(socket.take_error()?.is_none());
            /// # std::io::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// The process has too many open files.
            ///
            /// # Cancellation
            /// Does not wait.
            pub fn try_clone(&self) -> io::Result<$name> {
                self.0.duplicate().map($name)
            }

            /// The socket's pending error (`SO_ERROR`), which is cleared by this.
            ///
            /// # Examples
            /// ```
            #[doc = $setup]
            /// assert!(socket.take_error()?.is_none());
            /// # std::io::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// Those of getsockopt(2).
            ///
            /// # Cancellation
            /// Does not wait.
            pub fn take_error(&self) -> io::Result<Option<io::Error>> {
                self.0.take_error()
            }

            /// With `true`, calls on this socket and its clones that would wait fail with
            /// [`WouldBlock`](io::ErrorKind::WouldBlock) instead; they are no cancel points then. With `false`, as at first, they
            /// wait. Connections that a listener accepts are not affected.
            ///
            /// The fd itself is in non-blocking mode in either case.
            ///
            /// # Examples
            /// ```
            #[doc = $setup]
            /// socket.set_nonblocking(true)?;
            /// # std::io::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// None at present.
            ///
            /// # Cancellation
            /// Does not wait.
            pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
                self.0.set_nonblocking(nonblocking);
                Ok(())
            }

            /// Sets the size of the kernel's receive buffer for this socket, in bytes (`SO_RCVBUF`).
            ///
            /// Linux doubles the number to have room for its own records, and caps it at `net.core.rmem_max` before that. Connections
            /// that a listener accepts inherit the size.
            ///
            /// # Examples
            /// ```
            #[doc = $setup]
            /// socket.set_recv_buffer_size(64 * 1024)?;
            /// assert!(socket.recv_buffer_size()? >= 64 * 1024);
            /// # std::io::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// Those of setsockopt(2). `InvalidInput` for a number that does not fit in an `i32`.
            ///
            /// # Cancellation
            /// Does not wait.
            pub fn set_recv_buffer_size(&self, bytes: usize) -> io::Result<()> {
                Ok(rustix::net::sockopt::set_socket_recv_buffer_size(&self.0, bytes)?)
            }

            /// Returns the size of the kernel's receive buffer for this socket, in bytes. On Linux that is twice what was set. See
            #[doc = concat!("[`set_recv_buffer_size`](", stringify!($name), "::set_recv_buffer_size).")]
            ///
            /// # Errors
            /// Those of getsockopt(2).
            ///
            /// # Cancellation
            /// Does not wait.
            pub fn recv_buffer_size(&self) -> io::Result<usize> {
                Ok(rustix::net::sockopt::socket_recv_buffer_size(&self.0)?)
            }

            /// Sets the size of the kernel's send buffer for this socket, in bytes (`SO_SNDBUF`).
            ///
            /// Linux doubles the number to have room for its own records, and caps it at `net.core.wmem_max` before that. Connections
            /// that a listener accepts inherit the size.
            ///
            /// # Examples
            /// ```
            #[doc = $setup]
            /// socket.set_send_buffer_size(64 * 1024)?;
            /// assert!(socket.send_buffer_size()? >= 64 * 1024);
            /// # std::io::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// Those of setsockopt(2). `InvalidInput` for a number that does not fit in an `i32`.
            ///
            /// # Cancellation
            /// Does not wait.
            pub fn set_send_buffer_size(&self, bytes: usize) -> io::Result<()> {
                Ok(rustix::net::sockopt::set_socket_send_buffer_size(&self.0, bytes)?)
            }

            /// Returns the size of the kernel's send buffer for this socket, in bytes. On Linux that is twice what was set. See
            #[doc = concat!("[`set_send_buffer_size`](", stringify!($name), "::set_send_buffer_size).")]
            ///
            /// # Errors
            /// Those of getsockopt(2).
            ///
            /// # Cancellation
            /// Does not wait.
            pub fn send_buffer_size(&self) -> io::Result<usize> {
                Ok(rustix::net::sockopt::socket_send_buffer_size(&self.0)?)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.describe::<$address>(stringify!($name), f)
            }
        }

        const _: () = {
            const fn shared_between_threads<T: Send + Sync>() {}
            shared_between_threads::<$name>();
        };
    };
}

/// The methods of sockets that data goes through.
macro_rules! time_limits {
    ($name:ident, $setup:literal) => {
        impl $name {
            /// Limits how long each call that reads or receives may wait; after that it fails with
            /// [`TimedOut`](io::ErrorKind::TimedOut), and nothing is lost. `None` is no limit, as at first.
            ///
            /// # Examples
            /// ```
            #[doc = $setup]
            /// socket.set_read_timeout(Some(std::time::Duration::from_millis(5)))?;
            /// assert_eq!(socket.read_timeout()?, Some(std::time::Duration::from_millis(5)));
            /// # std::io::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// `InvalidInput` for a limit of zero.
            ///
            /// # Cancellation
            /// Does not wait.
            pub fn set_read_timeout(&self, dur: Option<Duration>) -> io::Result<()> {
                self.0.set_timeout(Direction::Read, dur)
            }

            /// Limits how long each call that writes or sends may wait. `None` is no limit, as at first. See
            #[doc = concat!("[`set_read_timeout`](", stringify!($name), "::set_read_timeout).")]
            ///
            /// # Errors
            /// `InvalidInput` for a limit of zero.
            ///
            /// # Cancellation
            /// Does not wait.
            pub fn set_write_timeout(&self, dur: Option<Duration>) -> io::Result<()> {
                self.0.set_timeout(Direction::Write, dur)
            }

            /// The limit set by
            #[doc = concat!("[`set_read_timeout`](", stringify!($name), "::set_read_timeout).")]
            ///
            /// # Errors
            /// None at present.
            ///
            /// # Cancellation
            /// Does not wait.
            pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
                Ok(self.0.timeout(Direction::Read))
            }

            /// The limit set by
            #[doc = concat!("[`set_write_timeout`](", stringify!($name), "::set_write_timeout).")]
            ///
            /// # Errors
            /// None at present.
            ///
            /// # Cancellation
            /// Does not wait.
            pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
                Ok(self.0.timeout(Direction::Write))
            }
        }
    };
}

/// The methods of internet sockets.
macro_rules! hops {
    ($name:ident, $setup:literal) => {
        impl $name {
            /// Sets how many hops a packet may take (`IP_TTL`). Connections that a listener accepts inherit it.
            ///
            /// # Examples
            /// ```
            #[doc = $setup]
            /// socket.set_ttl(100)?;
            /// assert_eq!(socket.ttl()?, 100);
            /// # std::io::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// Those of setsockopt(2), for instance for a number over 255.
            ///
            /// # Cancellation
            /// Does not wait.
            pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
                Ok(rustix::net::sockopt::set_ip_ttl(self.as_fd(), ttl)?)
            }

            /// How many hops a packet may take. See
            #[doc = concat!("[`set_ttl`](", stringify!($name), "::set_ttl).")]
            ///
            /// # Errors
            /// Those of getsockopt(2).
            ///
            /// # Cancellation
            /// Does not wait.
            pub fn ttl(&self) -> io::Result<u32> {
                Ok(rustix::net::sockopt::ip_ttl(self.as_fd())?)
            }
        }
    };
}

/// The methods of TCP sockets that notice a peer that is gone without a word.
macro_rules! keepalive {
    ($name:ident, $setup:literal) => {
        impl $name {
            /// Sets whether an idle connection is probed (`SO_KEEPALIVE`). A read of a connection whose peer answers no probe fails with
            /// [`TimedOut`](io::ErrorKind::TimedOut). Off at first. Connections that a listener accepts inherit this and its intervals.
            ///
            /// # Examples
            /// ```
            #[doc = $setup]
            /// assert!(!socket.keepalive()?);
            /// socket.set_keepalive(true)?;
            /// assert!(socket.keepalive()?);
            /// # std::io::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// Those of setsockopt(2).
            ///
            /// # Cancellation
            /// Does not wait.
            pub fn set_keepalive(&self, keepalive: bool) -> io::Result<()> {
                Ok(rustix::net::sockopt::set_socket_keepalive(&self.0, keepalive)?)
            }

            /// Returns whether an idle connection is probed. See
            #[doc = concat!("[`set_keepalive`](", stringify!($name), "::set_keepalive).")]
            ///
            /// # Errors
            /// Those of getsockopt(2).
            ///
            /// # Cancellation
            /// Does not wait.
            pub fn keepalive(&self) -> io::Result<bool> {
                Ok(rustix::net::sockopt::socket_keepalive(&self.0)?)
            }

            /// Sets how long a connection is idle before its first probe (`TCP_KEEPIDLE`), in whole seconds; a fraction counts as one more.
            ///
            /// # Examples
            /// ```
            #[doc = $setup]
            /// socket.set_keepalive_time(std::time::Duration::from_secs(60))?;
            /// assert_eq!(socket.keepalive_time()?, std::time::Duration::from_secs(60));
            /// # std::io::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// Those of setsockopt(2), for instance for zero, and for more than 32,767 seconds.
            ///
            /// # Cancellation
            /// Does not wait.
            pub fn set_keepalive_time(&self, time: Duration) -> io::Result<()> {
                Ok(rustix::net::sockopt::set_tcp_keepidle(&self.0, time)?)
            }

            /// Returns how long a connection is idle before its first probe. See
            #[doc = concat!("[`set_keepalive_time`](", stringify!($name), "::set_keepalive_time).")]
            ///
            /// # Errors
            /// Those of getsockopt(2).
            ///
            /// # Cancellation
            /// Does not wait.
            pub fn keepalive_time(&self) -> io::Result<Duration> {
                Ok(rustix::net::sockopt::tcp_keepidle(&self.0)?)
            }

            /// Sets the time between two probes (`TCP_KEEPINTVL`), in whole seconds; a fraction counts as one more.
            ///
            /// # Examples
            /// ```
            #[doc = $setup]
            /// socket.set_keepalive_interval(std::time::Duration::from_secs(10))?;
            /// assert_eq!(socket.keepalive_interval()?, std::time::Duration::from_secs(10));
            /// # std::io::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// Those of setsockopt(2), for instance for zero, and for more than 32,767 seconds.
            ///
            /// # Cancellation
            /// Does not wait.
            pub fn set_keepalive_interval(&self, interval: Duration) -> io::Result<()> {
                Ok(rustix::net::sockopt::set_tcp_keepintvl(&self.0, interval)?)
            }

            /// Returns the time between two probes. See
            #[doc = concat!("[`set_keepalive_interval`](", stringify!($name), "::set_keepalive_interval).")]
            ///
            /// # Errors
            /// Those of getsockopt(2).
            ///
            /// # Cancellation
            /// Does not wait.
            pub fn keepalive_interval(&self) -> io::Result<Duration> {
                Ok(rustix::net::sockopt::tcp_keepintvl(&self.0)?)
            }

            /// Sets how many probes go unanswered before the connection fails (`TCP_KEEPCNT`).
            ///
            /// # Examples
            /// ```
            #[doc = $setup]
            /// socket.set_keepalive_retries(3)?;
            /// assert_eq!(socket.keepalive_retries()?, 3);
            /// # std::io::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// Those of setsockopt(2), for instance for zero, and for more than 127.
            ///
            /// # Cancellation
            /// Does not wait.
            pub fn set_keepalive_retries(&self, retries: u32) -> io::Result<()> {
                Ok(rustix::net::sockopt::set_tcp_keepcnt(&self.0, retries)?)
            }

            /// Returns how many probes go unanswered before the connection fails. See
            #[doc = concat!("[`set_keepalive_retries`](", stringify!($name), "::set_keepalive_retries).")]
            ///
            /// # Errors
            /// Those of getsockopt(2).
            ///
            /// # Cancellation
            /// Does not wait.
            pub fn keepalive_retries(&self) -> io::Result<u32> {
                Ok(rustix::net::sockopt::tcp_keepcnt(&self.0)?)
            }
        }
    };
}

/// `Read` and `Write`, on a stream and on a reference to it.
macro_rules! reads_and_writes {
    ($name:ident) => {
        #[doc = concat!("See [`", stringify!($name), "`] for what a cancelled read loses: nothing.")]
        impl Read for &$name {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.0.receive(buf, 0)
            }

            fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                self.0.receive_vectored(bufs)
            }
        }

        #[doc = concat!("See [`", stringify!($name), "`] for what a cancelled read loses: nothing.")]
        impl Read for $name {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                (&*self).read(buf)
            }

            fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                (&*self).read_vectored(bufs)
            }
        }

        #[doc = concat!("See [`", stringify!($name), "`] for what a cancelled write has done.")]
        impl Write for &$name {
            fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                self.0.send(buf)
            }

            fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
                self.0.send_vectored(bufs)
            }

            /// Does nothing: what has been written is on its way.
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        #[doc = concat!("See [`", stringify!($name), "`] for what a cancelled write has done.")]
        impl Write for $name {
            fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                (&*self).write(buf)
            }

            fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
                (&*self).write_vectored(bufs)
            }

            /// Does nothing: what has been written is on its way.
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
    };
}

pub(super) use {every_socket, hops, keepalive, reads_and_writes, time_limits};
