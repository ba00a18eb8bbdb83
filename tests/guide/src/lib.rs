//! The programs of the guide (`doc/guide/`), as doctests, and the functions that they share.
//!
//! Each page is the documentation of a module that exists only in doctests. `tests/pages.rs` checks
//! that no page is missing here, that no program is too long, and that each link leads somewhere.

mod service;

use std::io::{self, BufRead, BufReader, Read, Write};

use ecru::net::{TcpListener, TcpStream};

pub use service::serve;

/// Asks a site for its front page. Returns the status, such as 200. Chapter 1 has this function.
///
/// # Errors
/// Returns the error of the connection, an error for an answer that is not HTTP, or an error with
/// [`Cancelled`](ecru::Cancelled).
pub fn check(address: &str) -> io::Result<u16> {
    let mut stream = TcpStream::connect(address)?;
    let request = format!("GET / HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok());
    status.ok_or_else(|| io::Error::other("the answer is not HTTP"))
}

/// A site for the examples: it answers every request with 200. Chapter 1 has this function.
///
/// # Errors
/// Returns the error of a listener that cannot accept any more, or an error with
/// [`Cancelled`](ecru::Cancelled).
pub fn site(listener: &TcpListener) -> io::Result<()> {
    listener.serve(100, |mut stream, _| {
        let mut head = BufReader::new(&stream).lines();
        while head.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
        stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n")
    })
}

/// Asks a site for a page over HTTP/1.0. Returns the body. Chapter 7 uses it as a client.
///
/// # Errors
/// Returns the error of the connection, or an error with the status if it is not 200.
pub fn get(address: &str, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.contains(" 200 ") => Ok(body.to_owned()),
        _ => Err(io::Error::other(answer)),
    }
}

/// Declares a module for each page.
macro_rules! pages {
    ($($module:ident = $file:literal)*) => {
        $(
            #[cfg(doctest)]
            #[doc = include_str!(concat!("../../../doc/", $file))]
            pub mod $module {}
        )*
    };
}

pages! {
    ten_minutes = "guide/src/01-ten-minutes.md"
    tasks_and_scopes = "guide/src/02-tasks-and-scopes.md"
    waiting_and_cancellation = "guide/src/03-waiting-and-cancellation.md"
    errors_and_panics = "guide/src/04-errors-and-panics.md"
    channels_and_select = "guide/src/05-channels-and-select.md"
    io_and_other_crates = "guide/src/06-io-and-other-crates.md"
    a_web_service = "guide/src/07-a-web-service.md"
    databases = "guide/src/08-databases.md"
    testing_by_simulation = "guide/src/09-testing-by-simulation.md"
    when_it_goes_wrong = "guide/src/10-when-it-goes-wrong.md"
    hangs = "guide/src/10-hangs.md"
    slow = "guide/src/10-slow.md"
    leaks = "guide/src/10-leaks.md"
    performance = "guide/src/11-performance.md"
    beyond_one_machine = "guide/src/12-beyond-one-machine.md"
    moving_to_ecru = "guide/src/13-moving-to-ecru.md"
    objections = "guide/src/14-objections.md"
    questions = "guide/src/15-questions.md"
    llms = "llms.txt"
    skill = "skill.md"
}
