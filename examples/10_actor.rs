//! An actor: a task that owns some state, with an inbox through which other tasks send requests.
//! There is no lock.

use ecru::channel::{self, Receiver, RecvError, Sender};

enum Request {
    Deposit(u64),
    Withdraw(u64, Sender<Result<u64, Overdrawn>>),
    Balance(Sender<u64>),
}

struct Overdrawn {
    missing: u64,
}

/// The body of the actor. It ends when all senders have been dropped.
fn account(inbox: Receiver<Request>) -> u64 {
    let mut balance: u64 = 0;
    for request in inbox {
        // The requester may have gone meanwhile. The account does not care.
        match request {
            Request::Deposit(amount) => balance += amount,
            Request::Withdraw(amount, reply) => {
                let left = balance.checked_sub(amount);
                balance = left.unwrap_or(balance);
                _ = reply.send(left.ok_or_else(|| Overdrawn { missing: amount - balance }));
            }
            Request::Balance(reply) => _ = reply.send(balance),
        }
    }
    balance
}

/// The actor's public interface: methods that wait for its reply.
#[derive(Clone)]
struct Account(Sender<Request>);

impl Account {
    fn ask<T>(&self, request: impl FnOnce(Sender<T>) -> Request) -> Result<T, RecvError> {
        let (reply, answer) = channel::oneshot();
        // If the account has ended, so has its end of the reply channel, and `recv` reports it.
        let _ = self.0.send(request(reply));
        answer.recv()
    }
}

fn main() {
    ecru::run(|| {
        ecru::scope(|s| {
            let (sender, inbox) = channel::bounded(8);
            let actor = s.spawn(move || account(inbox));
            let account = Account(sender);

            let depositors: Vec<_> = (1..=10)
                .map(|amount| {
                    let account = account.clone();
                    s.spawn(move || {
                        (0..10).for_each(|_| _ = account.0.send(Request::Deposit(amount)))
                    })
                })
                .collect();
            ecru::join_all(depositors);

            let balance = account.ask(Request::Balance).expect("the account is there");
            println!("ten depositors, ten deposits each: {balance}");
            assert_eq!(balance, 550);
            for amount in [300, 300] {
                match account.ask(|reply| Request::Withdraw(amount, reply)).expect("it is there") {
                    Ok(left) => println!("{amount} withdrawn, {left} left"),
                    Err(Overdrawn { missing }) => println!("{amount} refused: {missing} missing"),
                }
            }
            drop(account);
            assert_eq!(actor.join().expect("it does not panic"), 250);
            println!("all senders are dropped: the actor ended, with 250");
        });
    });
}
