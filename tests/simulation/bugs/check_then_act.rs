//! A check-then-act race: a shop looks whether an article is in stock, and takes it in a second
//! call. Each call waits for a connection to the database. Two customers take the last article.

use super::{Form, is_found, passes};
use ecru::sync::Semaphore;
use ecru::{Cancelled, sim};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

struct Shop {
    connections: Semaphore,
    stock: Arc<AtomicI64>,
}

impl Shop {
    fn in_stock(&self) -> Result<i64, Cancelled> {
        let _connection = self.connections.acquire()?;
        Ok(self.stock.load(Relaxed))
    }

    fn take(&self) -> Result<(), Cancelled> {
        let _connection = self.connections.acquire()?;
        self.stock.fetch_sub(1, Relaxed);
        Ok(())
    }

    fn take_if_in_stock(&self) -> Result<bool, Cancelled> {
        let _connection = self.connections.acquire()?;
        let one_less = |stock| (stock > 0).then_some(stock - 1);
        Ok(self.stock.fetch_update(Relaxed, Relaxed, one_less).is_ok())
    }

    /// Returns whether the customer got the article.
    fn buy(&self, form: Form) -> Result<bool, Cancelled> {
        match form {
            Form::Buggy if self.in_stock()? > 0 => self.take().map(|()| true),
            Form::Buggy => Ok(false),
            Form::Repaired => self.take_if_in_stock(),
        }
    }
}

fn program(form: Form) {
    let stock = Arc::new(AtomicI64::new(1));
    let shop = Shop { connections: Semaphore::new(2), stock: Arc::clone(&stock) };
    sim::invariant("the stock is not negative", move || stock.load(Relaxed) >= 0);
    ecru::scope(|s| {
        for name in ["first customer", "second customer"] {
            s.builder().name(name).spawn(|| shop.buy(form));
        }
    });
}

#[test]
fn check_then_act_is_found() {
    is_found(program, &["the stock is not negative"]);
}

#[test]
fn check_then_act_is_repaired_slow() {
    passes(program);
}

pub(super) const BUG: super::table::Bug = ("check-then-act over two waits", program);
