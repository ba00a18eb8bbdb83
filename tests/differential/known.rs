//! What Linux does in a few cases that programs meet, step by step.

use crate::datagrams::{Udp, UdpOp, UnixDatagrams, UnixOp};
use crate::pipes::{self, Pipes};
use crate::program::{Model, both};
use crate::streams::{Op, Streams};
use std::net::Shutdown::{Both, Write};

/// Checks the results of both runs.
fn are<M: Model>(model: M, steps: &[(M::Op, &str)]) {
    let program: Vec<M::Op> = steps.iter().map(|(op, _)| *op).collect();
    let expected: Vec<&str> = steps.iter().map(|(_, result)| *result).collect();
    for (run, results) in ["Linux", "simulated"].iter().zip(both(model, &program)) {
        assert_eq!(results, expected, "{model:?}, {run}: {program:?}");
    }
}

const EPIPE: &str = "BrokenPipe (32)";
const ECONNRESET: &str = "ConnectionReset (104)";
const ENOTCONN: &str = "NotConnected (107)";
const ECONNREFUSED: &str = "ConnectionRefused (111)";

#[test]
fn peer_that_has_closed() {
    for tcp in [Streams::Tcp, Streams::TcpBetweenHosts] {
        are(
            tcp,
            &[
                (Op::Close(1), "closes"),
                (Op::Write(0, 3), "3"),
                (Op::Read(0, 8), "[]"),
                (Op::Write(0, 3), EPIPE),
                (Op::Write(0, 3), EPIPE),
                (Op::TakeError(0), "None"),
                (Op::Read(0, 8), "[]"),
                (Op::PeerAddr(0), ENOTCONN),
                (Op::Shut(0, Both), ENOTCONN),
            ],
        );
        // The error waits for a call that asks for it.
        are(
            tcp,
            &[
                (Op::Close(1), "closes"),
                (Op::Write(0, 3), "3"),
                (Op::Read(0, 8), "[]"),
                (Op::TakeError(0), &format!("Some(\"{EPIPE}\")")),
            ],
        );
        // The peer has not read everything.
        are(
            tcp,
            &[
                (Op::Write(0, 3), "3"),
                (Op::Close(1), "closes"),
                (Op::Read(0, 8), ECONNRESET),
                (Op::Read(0, 8), "[]"),
                (Op::Write(0, 3), EPIPE),
            ],
        );
        are(
            tcp,
            &[
                (Op::Write(0, 3), "3"),
                (Op::Close(1), "closes"),
                (Op::Write(0, 3), ECONNRESET),
                (Op::Write(0, 3), EPIPE),
                (Op::Read(0, 8), "[]"),
            ],
        );
    }
    for unix in [Streams::Unix, Streams::UnixPair] {
        are(
            unix,
            &[
                (Op::Close(1), "closes"),
                (Op::Write(0, 3), EPIPE),
                (Op::TakeError(0), "None"),
                (Op::Read(0, 8), "[]"),
                (Op::Shut(0, Both), "()"),
            ],
        );
        are(
            unix,
            &[
                (Op::Write(0, 3), "3"),
                (Op::Close(1), "closes"),
                (Op::Write(0, 3), EPIPE),
                (Op::Read(0, 8), ECONNRESET),
                (Op::Read(0, 8), "[]"),
            ],
        );
    }
}

#[test]
fn peer_that_has_shut_both_directions() {
    for tcp in [Streams::Tcp, Streams::TcpBetweenHosts] {
        are(
            tcp,
            &[
                (Op::Shut(1, Both), "()"),
                (Op::Write(0, 3), "3"),
                (Op::Write(0, 3), EPIPE),
                (Op::Read(0, 8), "[]"),
                (Op::Read(1, 8), ECONNRESET),
                (Op::Read(1, 8), "[]"),
            ],
        );
        are(
            tcp,
            &[
                (Op::Shut(1, Both), "()"),
                (Op::Shut(0, Write), "()"),
                (Op::Shut(0, Write), ENOTCONN),
                (Op::PeerAddr(0), ENOTCONN),
                (Op::PeerAddr(1), ENOTCONN),
                (Op::LocalAddr(1), "\"named\""),
            ],
        );
    }
    are(
        Streams::UnixPair,
        &[
            (Op::Shut(1, Both), "()"),
            (Op::Write(0, 3), EPIPE),
            (Op::Shut(0, Write), "()"),
            (Op::Shut(0, Write), "()"),
            (Op::PeerAddr(0), "\"unnamed\""),
        ],
    );
}

#[test]
fn datagrams() {
    // The first was sent before the socket was connected. Nothing listens at 3.
    are(
        Udp,
        &[
            (UdpOp::SendTo(1, 0), "1"),
            (UdpOp::Connect(0, 2), "()"),
            (UdpOp::Recv(0), "([1], \"1\")"),
            (UdpOp::SendTo(0, 3), "1"),
            (UdpOp::TakeError(0), "None"),
            (UdpOp::Broadcast(0), "PermissionDenied (13)"),
            (UdpOp::Connect(0, 3), "()"),
            (UdpOp::Send(0), "1"),
            (UdpOp::Recv(0), ECONNREFUSED),
        ],
    );
    // 2 is a regular file, and 3 is no file.
    are(
        UnixDatagrams::Bound,
        &[
            (UnixOp::Connect(0, 2), ECONNREFUSED),
            (UnixOp::SendTo(0, 2), ECONNREFUSED),
            (UnixOp::Connect(0, 3), "NotFound (2)"),
            (UnixOp::Shut(0, Both), "()"),
        ],
    );
}

#[test]
fn pages_of_a_pipe() {
    let mut steps: Vec<_> = (0..16).map(|_| (pipes::Op::Write(4_095), "Some(4095)")).collect();
    // The last byte of the last page is free, and so is one page after the first was read.
    steps.extend([
        (pipes::Op::Write(2_000), "None"),
        (pipes::Op::Write(1), "Some(1)"),
        (pipes::Op::Write(1), "None"),
        (pipes::Op::Read(4_095), "Some(4095)"),
        (pipes::Op::Write(10_000), "Some(4096)"),
        (pipes::Op::CloseReader, "closes"),
        (pipes::Op::Write(0), "Some(0)"),
        (pipes::Op::Write(1), EPIPE),
    ]);
    are(Pipes, &steps);
}
