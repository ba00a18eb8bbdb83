//! What a dump says of an object beside its kind: its name, and what holds it.
//!
//! A tag takes two words in its object. The rest is allocated when the object is named, or when a
//! holder is noted for the first time.

use std::panic::Location;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The greatest number of holders that a tag keeps. Further ones are not noted.
const HOLDS_MAX: usize = 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct Tag {
    known: OnceLock<Box<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    name: OnceLock<Box<str>>,
    holds: Mutex<Holds>,
}

#[derive(Debug, Default)]
struct Holds {
    all: Vec<Hold>,
    /// The number that was given out last.
    last: u32,
}

/// One holder of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    /// The identity of the task or thread, as a higher layer defines it.
    pub(crate) identity: u64,
    /// The place where the object was acquired, if it is known.
    pub(crate) at: Option<&'static Location<'static>>,
    /// The number that [`Tag::hold`] has returned.
    number: u32,
}

impl Hold {
    /// Returns a holder that is not noted in a tag.
    pub(crate) fn of(identity: u64, at: Option<&'static Location<'static>>) -> Hold {
        Hold { identity, at, number: 0 }
    }

    /// Returns whether the holder is noted in a tag.
    pub(crate) fn is_noted(&self) -> bool {
        self.number != 0
    }
}

impl Tag {
    pub(crate) const fn new() -> Tag {
        Tag { known: OnceLock::new() }
    }

    #[cold]
    fn known(&self) -> &Known {
        self.known.get_or_init(Box::default)
    }

    /// Names the object, unless it has a name already.
    pub(crate) fn set_name(&self, name: &str) {
        self.known().name.get_or_init(|| Box::from(name));
    }

    pub(crate) fn name(&self) -> Option<&str> {
        Some(self.known.get()?.name.get()?)
    }

    /// Notes a holder. Returns its number, which is not 0, or 0 if there are too many holders.
    #[cold]
    pub(crate) fn hold(&self, identity: u64, at: &'static Location<'static>) -> u32 {
        let mut holds = self.known().holds();
        if holds.all.len() == HOLDS_MAX {
            return 0;
        }
        holds.last = holds.last.checked_add(1).unwrap_or(1);
        let number = holds.last;
        holds.all.push(Hold { identity, at: Some(at), number });
        number
    }

    /// Forgets the holder with this number.
    #[cold]
    pub(crate) fn release(&self, number: u32) {
        self.forget(|hold| hold.number == number);
    }

    /// Forgets the latest of the holders with this identity.
    #[cold]
    pub(crate) fn release_one_of(&self, identity: u64) {
        self.forget(|hold| hold.identity == identity);
    }

    fn forget(&self, which: impl Fn(&Hold) -> bool) {
        let Some(known) = self.known.get() else { return };
        let mut holds = known.holds();
        if let Some(place) = holds.all.iter().rposition(which) {
            holds.all.remove(place);
        }
    }

    /// Forgets all holders.
    #[cold]
    pub(crate) fn release_all(&self) {
        if let Some(known) = self.known.get() {
            known.holds().all.clear();
        }
    }

    /// Returns the holders, the earliest first.
    pub(crate) fn holds(&self) -> Vec<Hold> {
        self.known.get().map(|known| known.holds().all.clone()).unwrap_or_default()
    }
}

impl Known {
    /// The lock is held for a few moves only, and no code of the user runs under it.
    fn holds(&self) -> MutexGuard<'_, Holds> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{HOLDS_MAX, Tag};
    use std::panic::Location;

    #[test]
    fn a_tag_keeps_the_first_name_and_the_present_holders() {
        let (tag, here) = (Tag::new(), Location::caller());
        assert!(tag.name().is_none() && tag.holds().is_empty());
        tag.release_all();
        tag.set_name("first");
        tag.set_name("second");
        assert_eq!(tag.name(), Some("first"));
        let numbers: Vec<u32> = (0..4).map(|identity| tag.hold(identity / 2, here)).collect();
        tag.release(numbers[0]);
        tag.release_one_of(1);
        tag.release_one_of(7);
        let left: Vec<u64> = tag.holds().iter().map(|hold| hold.identity).collect();
        assert_eq!(left, [0, 1]);
        tag.release_all();
        assert!((0..HOLDS_MAX).all(|_| tag.hold(1, here) != 0));
        assert_eq!((tag.hold(1, here), tag.holds().len()), (0, HOLDS_MAX));
    }
}
