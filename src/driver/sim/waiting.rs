//! The ops in flight of a simulation's driver.
//!
//! An op lies in a *slot* of a table and has a *number*, which is made of the slot and of how often
//! the slot was used before. So a lookup is an index, and a number that is kept for longer than its
//! op names no other one.

use crate::driver::Token;
use crate::driver::flight::{Flying, InFlight};
use std::ptr;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    slots: Vec<Slot>,
    /// The slots that are empty.
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot {
    number: u64,
    /// The op, and the token by which the worker knows it.
    op: Option<(Flying, Token)>,
}

/// What is added to the number of a slot each time it is used.
const NEXT_USE: u64 = 1 << 32;

impl Waiting {
    /// Adds an op. Returns its number, which is also the token of its flight from now on.
    pub(super) fn add(&mut self, flight: &InFlight<'_>, token: Token) -> u64 {
        let place = self.free.pop().unwrap_or_else(|| {
            let place = self.slots.len() as u32;
            self.slots.push(Slot { number: u64::from(place), op: None });
            place
        });
        let slot = &mut self.slots[place as usize];
        slot.number = slot.number.wrapping_add(NEXT_USE);
        slot.op = Some((flight.keep(Token::new(slot.number)), token));
        slot.number
    }

    /// Returns the op with this number, unless it has ended.
    pub(super) fn get(&self, number: u64) -> Option<Flying> {
        let slot = self.slots.get(place(number)).filter(|slot| slot.number == number)?;
        slot.op.map(|(flying, _)| flying)
    }

    /// Returns the number of an op, unless it has ended.
    pub(super) fn number_of(&self, flight: &InFlight<'_>) -> Option<u64> {
        let number = flight.token().value();
        self.get(number).filter(|flying| ptr::addr_eq(*flying, flight)).map(|_| number)
    }

    /// Removes an op. Returns the token by which the worker knows it.
    pub(super) fn remove(&mut self, number: u64) -> Option<Token> {
        let slot = self.slots.get_mut(place(number)).filter(|slot| slot.number == number)?;
        let (_, token) = slot.op.take()?;
        self.free.push(place(number) as u32);
        Some(token)
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

fn place(number: u64) -> usize {
    (number % NEXT_USE) as usize
}
