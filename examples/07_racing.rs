//! Asks several servers and takes the first good answer, retries with growing pauses, and waits for
//! a user-defined mailbox.

use std::sync::Mutex;
use std::time::Duration;

use ecru::schedule::Delay;
use ecru::source::{self, WaitList};
use ecru::{JoinError, Retry, Source};

/// A server's answer after a while. The second server is down.
fn ask(server: u64) -> Result<String, String> {
    ecru::sleep(Duration::from_millis(10 * server)).map_err(|cancelled| cancelled.to_string())?;
    if server == 1 { Err(String::from("down")) } else { Ok(format!("answer of server {server}")) }
}

/// A failure with a text. A combinator's own failures are converted to it by `From`.
#[derive(Debug)]
struct Failure(String);

impl From<JoinError> for Failure {
    fn from(error: JoinError) -> Failure {
        Failure(error.to_string())
    }
}

impl From<ecru::Cancelled> for Failure {
    fn from(cancelled: ecru::Cancelled) -> Failure {
        Failure(cancelled.to_string())
    }
}

/// A user-defined type that can be waited for, beside all sources of the library.
#[derive(Default)]
struct Mailbox {
    letter: Mutex<Option<String>>,
    readers: WaitList,
}

impl Mailbox {
    fn post(&self, letter: &str) {
        *self.letter.lock().unwrap() = Some(String::from(letter));
        self.readers.notify_one();
    }
}

impl Source for Mailbox {
    type Item = String;

    fn try_take(&self) -> Option<String> {
        self.letter.lock().unwrap().take()
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.readers);
    }
}

fn main() {
    ecru::run(|| {
        ecru::scope(|s| {
            let asked: Vec<_> =
                (1..=3).map(|server| s.spawn(move || ask(server).map_err(Failure))).collect();
            // The losers are cancelled and awaited.
            match ecru::first_ok(asked) {
                Ok(answer) => println!("{answer}"),
                Err(Failure(text)) => panic!("none of them answers; the last says: {text}"),
            }
        });

        let mut attempts = 0;
        let delay = Delay::Backoff {
            start: Duration::from_millis(1),
            max: Duration::from_millis(50),
            mult: 2,
        };
        let reached: Result<u32, Failure> =
            Retry::new().max_failures(5).delay(delay).until_ok(|| {
                attempts += 1;
                if attempts < 4 { Err(Failure(String::from("not yet"))) } else { Ok(attempts) }
            });
        println!("reached at attempt {}", reached.expect("the fourth succeeds"));

        let mailbox = Mailbox::default();
        ecru::scope(|s| {
            s.spawn(|| mailbox.post("dear reader"));
            let patience = ecru::channel::after(Duration::from_secs(10));
            match source::either(&mailbox, patience).wait() {
                Ok(source::Either::Left(letter)) => println!("a letter: {letter}"),
                other => panic!("no letter: {other:?}"),
            }
        });
    });
}
