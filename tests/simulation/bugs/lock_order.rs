//! A lock-order deadlock: a transfer locks the account that it debits first. Two transfers in
//! opposite directions wait for each other.

use super::{Form, is_found, passes};
use ecru::sync::Mutex;

fn transfer(form: Form, accounts: &[Mutex<i64>], from: usize, to: usize, amount: i64) {
    let (mut debited, mut credited);
    if form == Form::Buggy || from < to {
        debited = accounts[from].lock();
        credited = accounts[to].lock();
    } else {
        credited = accounts[to].lock();
        debited = accounts[from].lock();
    }
    *debited -= amount;
    *credited += amount;
}

fn program(form: Form) {
    let accounts = [Mutex::new(100), Mutex::new(100)];
    ecru::scope(|s| {
        s.builder().name("rent").spawn(|| transfer(form, &accounts, 0, 1, 30));
        s.builder().name("salary").spawn(|| transfer(form, &accounts, 1, 0, 70));
    });
    assert_eq!(accounts.map(Mutex::into_inner), [140, 60]);
}

#[test]
fn lock_order_is_found() {
    // Each task waits for a lock that the other holds.
    let parts = ["deadlock", "rent", "salary", "waits for a lock", "held by task", "lock_order.rs"];
    is_found(program, &parts);
}

#[test]
fn lock_order_is_repaired_slow() {
    passes(program);
}

pub(super) const BUG: super::table::Bug = ("lock order", program);
