//! The lower bound for io_uring: a loop over the ring, without a runtime. Each answer is one
//! submission: a send, and the next recv linked to it.
#![expect(unsafe_code, reason = "submits buffers to the kernel")]

use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd};

use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode, squeue};

use crate::serving::{Service, Session};

const ACCEPT: u64 = u64::MAX;
const SENT: u64 = 1 << 32;

struct Connection {
    stream: TcpStream,
    session: Session,
}

/// Serves until the process ends. Answers are short, so each takes one send.
pub(crate) fn serve(service: Service, listener: TcpListener) {
    let mut builder = IoUring::builder();
    builder.setup_single_issuer().setup_defer_taskrun().setup_cqsize(8192);
    let mut ring = builder.build(1024).expect("the kernel allows io_uring");
    let accept = opcode::AcceptMulti::new(Fd(listener.as_raw_fd())).build().user_data(ACCEPT);
    push(&mut ring, &accept);
    let mut connections: Vec<Option<Box<Connection>>> = Vec::new();
    let mut completions = Vec::new();
    loop {
        ring.submit_and_wait(1).expect("the ring works");
        completions.extend(
            ring.completion()
                .map(|entry| (entry.user_data(), entry.result(), cqueue::more(entry.flags()))),
        );
        for (name, result, more) in completions.drain(..) {
            if name == ACCEPT {
                assert!(result >= 0 && more, "the listener goes on");
                // SAFETY: this is a new descriptor without another owner.
                let stream = unsafe { TcpStream::from_raw_fd(result) };
                stream.set_nodelay(true).expect("it is TCP");
                let mut connection =
                    Box::new(Connection { stream, session: Session::new(service) });
                let receive = receive(&mut connection, connections.len());
                push(&mut ring, &receive);
                connections.push(Some(connection));
            } else if name & SENT == 0 {
                let index = name as usize;
                let Some(connection) = &mut connections[index] else { continue };
                if result <= 0 {
                    connections[index] = None;
                    continue;
                }
                let fd = Fd(connection.stream.as_raw_fd());
                let answer = connection.session.answer(result as usize);
                let send = (!answer.is_empty()).then(|| {
                    opcode::Send::new(fd, answer.as_ptr(), answer.len() as u32)
                        .flags(libc_waitall())
                        .build()
                        .flags(squeue::Flags::IO_LINK | squeue::Flags::SKIP_SUCCESS)
                        .user_data(SENT | name)
                });
                if let Some(send) = send {
                    push(&mut ring, &send);
                }
                let receive = receive(connection, index);
                push(&mut ring, &receive);
            }
        }
    }
}

/// Returns `MSG_WAITALL`: the send is complete, or the link breaks.
const fn libc_waitall() -> i32 {
    0x100
}

fn receive(connection: &mut Connection, index: usize) -> squeue::Entry {
    let room = connection.session.room();
    let (buffer, length) = (room.as_mut_ptr(), room.len() as u32);
    opcode::Recv::new(Fd(connection.stream.as_raw_fd()), buffer, length)
        .build()
        .user_data(index as u64)
}

fn push(ring: &mut IoUring, entry: &squeue::Entry) {
    loop {
        // SAFETY: the buffers are in the connection's box, which stays until its last completion.
        if unsafe { ring.submission().push(entry) }.is_ok() {
            return;
        }
        ring.submit().expect("the ring works");
    }
}
