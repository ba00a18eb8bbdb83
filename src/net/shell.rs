//! The methods that the public types share. Each type is a wrapper around a socket.

/// The methods of every socket. `$setup` holds the first lines of an example; they define `socket`.
macro_rules! every_socket {
    ($name:ident, $address:ty, $setup:literal) => {
        impl $name {
            /// Returns another handle to the same socket, by a duplicate of its fd. The time limits
            /// and
            #[doc = concat!("[`set_nonblocking`](", stringify!($name), "::set_nonblocking)")]
            /// are shared: a change through one handle shows on the other. The socket is closed
            /// when the last handle is dropped.
            ///
            /// A reference is often enough. Every method takes `&self`, and several tasks may use
            /// one socket at the same time.
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
            /// Fails if the process has too many open files.
            ///
            /// # Cancellation
            /// This call does not wait.
            pub fn try_clone(&self) -> io::Result<$name> {
                self.0.duplicate().map($name)
            }

            /// Returns the socket's pending error (`SO_ERROR`) and clears it.
            ///
            /// # Examples
            /// ```
            #[doc = $setup]
            /// assert!(socket.take_error()?.is_none());
            /// # std::io::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// Returns the errors of getsockopt(2).
            ///
            /// # Cancellation
            /// This call does not wait.
            pub fn take_error(&self) -> io::Result<Option<io::Error>> {
                self.0.take_error()
            }

            /// Sets whether calls on this socket and its clones fail with
            /// [`WouldBlock`](io::ErrorKind::WouldBlock) instead of waiting. While this is `true`,
            /// they are no cancellation points. The default is `false`. Connections that a listener
            /// accepts are not affected.
            ///
            /// The fd itself is in non-blocking mode in both cases.
            ///
            /// # Examples
            /// ```
            #[doc = $setup]
            /// socket.set_nonblocking(true)?;
            /// # std::io::Result::Ok(())
            /// ```
            ///
            /// # Errors
            /// This call does not fail at present.
            ///
            /// # Cancellation
            /// This call does not wait.
            pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
                self.0.set_nonblocking(nonblocking);
                Ok(())
            }

            /// Sets the size of the kernel's receive buffer for this socket, in bytes
            /// (`SO_RCVBUF`).
            ///
            /// Linux caps the value at `net.core.rmem_max` and then doubles it, to have space for
            /// its own records. Connections that a listener accepts inherit the size.
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
            /// Returns the errors of setsockopt(2), or `InvalidInput` for a value that does not fit
            /// in an `i32`.
            ///
            /// # Cancellation
            /// This call does not wait.
            pub fn set_recv_buffer_size(&self, bytes: usize) -> io::Result<()> {
                self.0.set_option(crate::driver::request::ReceiveBufferSize, bytes)
            }

            /// Returns the size of the kernel's receive buffer for this socket, in bytes. On Linux
            /// that is twice the value set by
            #[doc = concat!("[`set_recv_buffer_size`](", stringify!($name), "::set_recv_buffer_size).")]
            ///
            /// # Errors
            /// Returns the errors of getsockopt(2).
            ///
            /// # Cancellation
            /// This call does not wait.
            pub fn recv_buffer_size(&self) -> io::Result<usize> {
                self.0.option(crate::driver::request::ReceiveBufferSize)
            }

            /// Sets the size of the kernel's send buffer for this socket, in bytes (`SO_SNDBUF`).
            ///
            /// Linux caps the value at `net.core.wmem_max` and then doubles it, to have space for
            /// its own records. Connections that a listener accepts inherit the size.
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
            /// Returns the errors of setsockopt(2), or `InvalidInput` for a value that does not fit
            /// in an `i32`.
            ///
            /// # Cancellation
            /// This call does not wait.
            pub fn set_send_buffer_size(&self, bytes: usize) -> io::Result<()> {
                self.0.set_option(crate::driver::request::SendBufferSize, bytes)
            }

            /// Returns the size of the kernel's send buffer for this socket, in bytes. On Linux
            /// that is twice the value set by
            #[doc = concat!("[`set_send_buffer_size`](", stringify!($name), "::set_send_buffer_size).")]
            ///
            /// # Errors
            /// Returns the errors of getsockopt(2).
            ///
            /// # Cancellation
            /// This call does not wait.
            pub fn send_buffer_size(&self) -> io::Result<usize> {
                self.0.option(crate::driver::request::SendBufferSize)
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

/// Time limits, for sockets that transfer data.
macro_rules! time_limits {
    ($name:ident, $setup:literal) => {
        impl $name {
            /// Limits how long each call that reads or receives may wait. After that the call fails
            /// with [`TimedOut`](io::ErrorKind::TimedOut), and no data is lost. `None`, the
            /// default, sets no limit.
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
            /// Returns `InvalidInput` for a limit of zero.
            ///
            /// # Cancellation
            /// This call does not wait.
            pub fn set_read_timeout(&self, dur: Option<Duration>) -> io::Result<()> {
                self.0.set_timeout(Direction::Read, dur)
            }

            /// Limits how long each call that writes or sends may wait. `None`, the default, sets
            /// no limit. See
            #[doc = concat!("[`set_read_timeout`](", stringify!($name), "::set_read_timeout) for an example.")]
            ///
            /// # Errors
            /// Returns `InvalidInput` for a limit of zero.
            ///
            /// # Cancellation
            /// This call does not wait.
            pub fn set_write_timeout(&self, dur: Option<Duration>) -> io::Result<()> {
                self.0.set_timeout(Direction::Write, dur)
            }

            /// Returns the limit set by
            #[doc = concat!("[`set_read_timeout`](", stringify!($name), "::set_read_timeout).")]
            ///
            /// # Errors
            /// This call does not fail at present.
            ///
            /// # Cancellation
            /// This call does not wait.
            pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
                Ok(self.0.timeout(Direction::Read))
            }

            /// Returns the limit set by
            #[doc = concat!("[`set_write_timeout`](", stringify!($name), "::set_write_timeout).")]
            ///
            /// # Errors
            /// This call does not fail at present.
            ///
            /// # Cancellation
            /// This call does not wait.
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
            /// Sets how many hops a packet may take (`IP_TTL`). Connections that a listener accepts
            /// inherit the value.
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
            /// Returns the errors of setsockopt(2), for instance for a value above 255.
            ///
            /// # Cancellation
            /// This call does not wait.
            pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
                self.0.set_option(crate::driver::request::TimeToLive, ttl)
            }

            /// Returns how many hops a packet may take. See
            #[doc = concat!("[`set_ttl`](", stringify!($name), "::set_ttl).")]
            ///
            /// # Errors
            /// Returns the errors of getsockopt(2).
            ///
            /// # Cancellation
            /// This call does not wait.
            pub fn ttl(&self) -> io::Result<u32> {
                self.0.option(crate::driver::request::TimeToLive)
            }
        }
    };
}

/// Keep-alive: the methods by which a TCP socket notices that its peer has vanished.
macro_rules! keepalive {
    ($name:ident, $setup:literal) => {
        impl $name {
            /// Sets whether an idle connection is probed (`SO_KEEPALIVE`). If the peer answers no
            /// probe, reads of the connection fail with [`TimedOut`](io::ErrorKind::TimedOut). The
            /// default is `false`. Connections that a listener accepts inherit this setting and its
            /// intervals.
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
            /// Returns the errors of setsockopt(2).
            ///
            /// # Cancellation
            /// This call does not wait.
            pub fn set_keepalive(&self, keepalive: bool) -> io::Result<()> {
                self.0.set_option(crate::driver::request::Keepalive, keepalive)
            }

            /// Returns whether an idle connection is probed. See
            #[doc = concat!("[`set_keepalive`](", stringify!($name), "::set_keepalive).")]
            ///
            /// # Errors
            /// Returns the errors of getsockopt(2).
            ///
            /// # Cancellation
            /// This call does not wait.
            pub fn keepalive(&self) -> io::Result<bool> {
                self.0.option(crate::driver::request::Keepalive)
            }

            /// Sets how long a connection is idle before its first probe (`TCP_KEEPIDLE`). The
            /// kernel counts in whole seconds; a fraction is rounded up.
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
            /// Returns the errors of setsockopt(2), for instance for zero and for more than 32,767
            /// seconds.
            ///
            /// # Cancellation
            /// This call does not wait.
            pub fn set_keepalive_time(&self, time: Duration) -> io::Result<()> {
                self.0.set_option(crate::driver::request::KeepaliveTime, time)
            }

            /// Returns how long a connection is idle before its first probe. See
            #[doc = concat!("[`set_keepalive_time`](", stringify!($name), "::set_keepalive_time).")]
            ///
            /// # Errors
            /// Returns the errors of getsockopt(2).
            ///
            /// # Cancellation
            /// This call does not wait.
            pub fn keepalive_time(&self) -> io::Result<Duration> {
                self.0.option(crate::driver::request::KeepaliveTime)
            }

            /// Sets the time between two probes (`TCP_KEEPINTVL`). The kernel counts in whole
            /// seconds; a fraction is rounded up.
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
            /// Returns the errors of setsockopt(2), for instance for zero and for more than 32,767
            /// seconds.
            ///
            /// # Cancellation
            /// This call does not wait.
            pub fn set_keepalive_interval(&self, interval: Duration) -> io::Result<()> {
                self.0.set_option(crate::driver::request::KeepaliveInterval, interval)
            }

            /// Returns the time between two probes. See
            #[doc = concat!("[`set_keepalive_interval`](", stringify!($name), "::set_keepalive_interval).")]
            ///
            /// # Errors
            /// Returns the errors of getsockopt(2).
            ///
            /// # Cancellation
            /// This call does not wait.
            pub fn keepalive_interval(&self) -> io::Result<Duration> {
                self.0.option(crate::driver::request::KeepaliveInterval)
            }

            /// Sets how many probes may go unanswered before the connection fails (`TCP_KEEPCNT`).
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
            /// Returns the errors of setsockopt(2), for instance for zero and for more than 127.
            ///
            /// # Cancellation
            /// This call does not wait.
            pub fn set_keepalive_retries(&self, retries: u32) -> io::Result<()> {
                self.0.set_option(crate::driver::request::KeepaliveRetries, retries)
            }

            /// Returns how many probes may go unanswered before the connection fails. See
            #[doc = concat!("[`set_keepalive_retries`](", stringify!($name), "::set_keepalive_retries).")]
            ///
            /// # Errors
            /// Returns the errors of getsockopt(2).
            ///
            /// # Cancellation
            /// This call does not wait.
            pub fn keepalive_retries(&self) -> io::Result<u32> {
                self.0.option(crate::driver::request::KeepaliveRetries)
            }
        }
    };
}

/// `Read` and `Write`, on a stream and on a reference to it.
macro_rules! reads_and_writes {
    ($name:ident) => {
        #[doc = concat!("A cancelled read loses nothing; see [`", stringify!($name), "`].")]
        impl Read for &$name {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.0.receive(buf, 0)
            }

            fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                self.0.receive_vectored(bufs)
            }
        }

        #[doc = concat!("A cancelled read loses nothing; see [`", stringify!($name), "`].")]
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

            /// Does nothing, because every write goes to the kernel at once.
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

            /// Does nothing, because every write goes to the kernel at once.
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
    };
}

pub(super) use {every_socket, hops, keepalive, reads_and_writes, time_limits};
