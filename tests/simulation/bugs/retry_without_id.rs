//! A retry that is not idempotent: a bank applies a deposit, and its answer is lost. The client
//! cannot tell that from a request that was lost, and sends the deposit again.

use super::{Form, is_found, passes};
use ecru::net::{TcpListener, TcpStream};
use ecru::schedule::Delay;
use ecru::sync::Mutex;
use ecru::{Retry, sim};
use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

#[derive(Default)]
struct Bank {
    balance: u32,
    applied: BTreeSet<u8>,
}

/// A request is the number of a deposit and its amount.
fn serve(form: Form, listener: &TcpListener, bank: &Mutex<Bank>) -> io::Result<()> {
    listener.serve(16, |mut stream, _| {
        let mut request = [0; 2];
        stream.read_exact(&mut request)?;
        let [number, amount] = request;
        let mut bank = bank.lock();
        if form == Form::Buggy || bank.applied.insert(number) {
            bank.balance += u32::from(amount);
        }
        drop(bank);
        // The answer may get lost. Outside of simulations, this is false.
        if sim::chance(0.1) { Ok(()) } else { stream.write_all(&[number]) }
    })
}

fn deposit(bank: SocketAddr, number: u8, amount: u8) -> io::Result<()> {
    let mut stream = TcpStream::connect(bank)?;
    stream.write_all(&[number, amount])?;
    stream.read_exact(&mut [0])
}

fn program(form: Form) {
    let bank = Mutex::new(Bank::default());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let again = Retry::new().delay(Delay::Constant(Duration::from_millis(10)));
    ecru::scope(|s| {
        s.builder().name("bank").spawn_daemon(|| serve(form, &listener, &bank));
        for number in 1..=3 {
            let again = &again;
            let client = s.builder().name(format!("client {number}"));
            client.spawn(move || again.until_ok(|| deposit(address, number, 10)));
        }
    });
    assert_eq!(bank.into_inner().balance, 30, "three deposits of 10 were made");
}

#[test]
fn retry_without_id_is_found() {
    is_found(program, &["three deposits of 10 were made"]);
}

#[test]
fn retry_without_id_is_repaired_slow() {
    passes(program);
}

pub(super) const BUG: super::table::Bug = ("retry that is not idempotent", program);
