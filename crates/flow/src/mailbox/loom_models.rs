//! A model of a mailbox that is closed while another thread posts. Each request is read or comes
//! back, and the reader does not miss the end.

use loom::thread;
use std::sync::Arc;

use super::Mailbox;

#[test]
fn each_request_is_read_or_returned() {
    loom::model(|| {
        let mailbox = Arc::new(Mailbox::<u32, Vec<u32>>::new(Vec::new()));
        let (poster, closer) = (Arc::clone(&mailbox), Arc::clone(&mailbox));
        let posting = thread::spawn(move || poster.post(7).is_ok());
        let closing = thread::spawn(move || closer.close());
        let mut state = mailbox.state("Model");
        while let Ok(request) = mailbox.requests.recv() {
            state.push(request);
        }
        drop(state);
        closing.join().unwrap();
        let posted = posting.join().unwrap();
        assert_eq!(*mailbox.state("Model"), if posted { vec![7] } else { vec![] });
    });
}
