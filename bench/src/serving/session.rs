//! A server's work with the bytes of one connection, the same in every contender.

use super::Service;

/// The page, with its head.
const PAGE: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 13\r\n\r\nHello, world!";
/// The number of requests that may arrive in one read.
const MOST_AT_ONCE: usize = 32;

/// The size of a connection's buffer.
pub(crate) const ROOM: usize = 4096;
/// The buffer size of an idle connection, small so that the runtime's own memory is visible.
pub(crate) const IDLE_ROOM: usize = 64;

/// One connection: a buffer, and the answer to what is in it.
pub(crate) struct Session {
    service: Service,
    input: Box<[u8]>,
    filled: usize,
    pages: Vec<u8>,
}

impl Session {
    pub(crate) fn new(service: Service) -> Session {
        let pages = match service {
            Service::Echo | Service::Idle => Vec::new(),
            Service::Http => PAGE.repeat(MOST_AT_ONCE),
        };
        let room = if service == Service::Idle { IDLE_ROOM } else { ROOM };
        Session { service, input: vec![0; room].into(), filled: 0, pages }
    }

    /// Returns the buffer for the next bytes.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.input[self.filled..]
    }

    /// Returns the answer after `count` more bytes have arrived. It may be empty.
    pub(crate) fn answer(&mut self, count: usize) -> &[u8] {
        match self.service {
            Service::Echo | Service::Idle => &self.input[..count],
            Service::Http => {
                let filled = self.filled + count;
                let mut requests = 0;
                let mut begin = 0;
                while let Some(end) = end_of_head(&self.input[begin..filled]) {
                    requests += 1;
                    begin += end;
                }
                self.input.copy_within(begin..filled, 0);
                self.filled = filled - begin;
                &self.pages[..requests * PAGE.len()]
            }
        }
    }
}

/// Returns the end of the first request's head, parsed as a server must.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let mut headers = [httparse::EMPTY_HEADER; 16];
    match httparse::Request::new(&mut headers).parse(bytes) {
        Ok(httparse::Status::Complete(length)) => Some(length),
        Ok(httparse::Status::Partial) => None,
        Err(error) => panic!("wrk sends requests: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_in_two_parts_and_one_more_are_answered_once_each() {
        let mut session = Session::new(Service::Http);
        let text = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n";
        session.room()[..10].copy_from_slice(&text[..10]);
        assert_eq!(session.answer(10), b"");
        let rest = [&text[10..], text].concat();
        session.room()[..rest.len()].copy_from_slice(&rest);
        assert_eq!(session.answer(rest.len()), PAGE.repeat(2));
        assert_eq!(session.room().len(), ROOM);
    }
}
