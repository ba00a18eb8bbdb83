//! Intrusive doubly linked lists. The nodes live where their owners live, such as on parked stacks
//! or in task headers. Inserting a node allocates nothing, and removing a node from the middle
//! costs four stores.
//!
//! The lists do no locking. The owner of a head defines which lock or which thread guards the list
//! and the links of the nodes in it.
#![expect(unsafe_code, reason = "follows raw links")]

use std::cell::Cell;
use std::mem::offset_of;
use std::ptr;

/// The links of one node. It must be the first field of a `#[repr(C)]` struct, so that a pointer to
/// it can be cast to the struct.
#[derive(Debug)]
pub(crate) struct Link {
    next: Cell<*const Link>,
    previous: Cell<*const Link>,
}

impl Link {
    /// For debuggers: the offset of the pointer to the next node.
    pub(crate) const NEXT: usize = offset_of!(Link, next);

    pub(crate) const fn new() -> Link {
        Link { next: Cell::new(ptr::null()), previous: Cell::new(ptr::null()) }
    }

    /// Links a node that is in no list to another one, in a chain without a head.
    #[inline]
    pub(crate) fn chain(&self, next: *const Link) {
        self.next.set(next);
    }

    /// Returns the node after this one, or null. Valid only under the guard of the list.
    #[inline]
    pub(crate) fn next(&self) -> *const Link {
        self.next.get()
    }
}

/// A first-in, first-out list. Nodes can also be removed from the middle.
#[derive(Debug)]
pub(crate) struct List {
    first: Cell<*const Link>,
    last: Cell<*const Link>,
}

impl List {
    pub(crate) const fn new() -> List {
        List { first: Cell::new(ptr::null()), last: Cell::new(ptr::null()) }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.get().is_null()
    }

    /// Returns the oldest node, or null.
    #[inline]
    pub(crate) fn first(&self) -> *const Link {
        self.first.get()
    }

    /// Removes all nodes at once. Returns the oldest, from which [`Link::next`] leads to the
    /// others.
    #[inline]
    pub(crate) fn take(&self) -> *const Link {
        self.last.set(ptr::null());
        self.first.replace(ptr::null())
    }

    /// Appends a node.
    ///
    /// # Safety
    /// L3: the node is in no list, does not move until it has been removed, and its links are
    /// guarded as this list is.
    #[inline]
    pub(crate) unsafe fn push_back(&self, node: *const Link) {
        let last = self.last.get();
        // SAFETY: L3, by this function's contract.
        let links = unsafe { &*node };
        links.next.set(ptr::null());
        links.previous.set(last);
        if last.is_null() {
            self.first.set(node);
        } else {
            // SAFETY: L3: the last node is alive while it is in the list.
            unsafe { &*last }.next.set(node);
        }
        self.last.set(node);
    }

    /// Removes a node.
    ///
    /// # Safety
    /// L3: the node is in this list.
    #[inline]
    pub(crate) unsafe fn remove(&self, node: *const Link) {
        // SAFETY: L3, by this function's contract.
        let links = unsafe { &*node };
        let (next, previous) = (links.next.get(), links.previous.get());
        if previous.is_null() {
            self.first.set(next);
        } else {
            // SAFETY: L3: neighbours are in the list and therefore alive.
            unsafe { &*previous }.next.set(next);
        }
        if next.is_null() {
            self.last.set(previous);
        } else {
            // SAFETY: L3: neighbours are in the list and therefore alive.
            unsafe { &*next }.previous.set(previous);
        }
    }
}

/// A first-in, first-out list whose head is one pointer, where that of [`List`] is two. The first
/// node's `previous` link leads to the last node.
#[derive(Debug)]
pub(crate) struct Line {
    first: Cell<*const Link>,
}

impl Line {
    pub(crate) const fn new() -> Line {
        Line { first: Cell::new(ptr::null()) }
    }

    /// Returns the oldest node, or null. [`Link::next`] leads to the others.
    #[inline]
    pub(crate) fn first(&self) -> *const Link {
        self.first.get()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.get().is_null()
    }

    /// Appends a node.
    ///
    /// # Safety
    /// L3: as for [`List::push_back`].
    #[inline]
    pub(crate) unsafe fn push_back(&self, node: *const Link) {
        // SAFETY: L3, by this function's contract.
        let links = unsafe { &*node };
        links.next.set(ptr::null());
        // SAFETY: L3: the first node is alive while it is in the line.
        match unsafe { self.first.get().as_ref() } {
            None => {
                links.previous.set(node);
                self.first.set(node);
            }
            Some(first) => {
                let last = first.previous.replace(node);
                links.previous.set(last);
                // SAFETY: L3: the last node is also alive while it is in the line.
                unsafe { &*last }.next.set(node);
            }
        }
    }

    /// Removes a node.
    ///
    /// # Safety
    /// L3: the node is in this line.
    #[inline]
    pub(crate) unsafe fn remove(&self, node: *const Link) {
        // SAFETY: L3, by this function's contract.
        let links = unsafe { &*node };
        let (next, previous) = (links.next.get(), links.previous.get());
        // SAFETY: L3: neighbours are in the line and therefore alive.
        let after = unsafe { next.as_ref() };
        if ptr::eq(self.first.get(), node) {
            self.first.set(next);
        } else {
            // SAFETY: L3: the node is not the first, so `previous` is its predecessor, which is in
            // the line.
            unsafe { &*previous }.next.set(next);
        }
        match after {
            Some(after) => after.previous.set(previous),
            // The node was the last. Its predecessor is now the last, which the first node records,
            // if there is one.
            None => {
                // SAFETY: L3: the first node is in the line and therefore alive.
                if let Some(first) = unsafe { self.first.get().as_ref() } {
                    first.previous.set(previous);
                }
            }
        }
    }

    /// Removes and returns the oldest node, or returns null if there is none.
    #[cfg(test)]
    pub(crate) fn pop(&self) -> *const Link {
        let first = self.first.get();
        if !first.is_null() {
            // SAFETY: L3: the node is in this line.
            unsafe { self.remove(first) };
        }
        first
    }
}

/// A list without an order, whose head is one pointer, where that of [`List`] is two.
#[derive(Debug)]
pub(crate) struct Pile {
    first: Cell<*const Link>,
}

impl Pile {
    /// For debuggers: the offset of the pointer to the first node.
    pub(crate) const FIRST: usize = offset_of!(Pile, first);

    pub(crate) const fn new() -> Pile {
        Pile { first: Cell::new(ptr::null()) }
    }

    /// Returns a node, or null. [`Link::next`] leads to the others.
    #[inline]
    pub(crate) fn first(&self) -> *const Link {
        self.first.get()
    }

    /// Inserts a node.
    ///
    /// # Safety
    /// L3: as for [`List::push_back`].
    #[inline]
    pub(crate) unsafe fn push(&self, node: *const Link) {
        let first = self.first.replace(node);
        // SAFETY: L3, by this function's contract.
        let links = unsafe { &*node };
        links.next.set(first);
        links.previous.set(ptr::null());
        // SAFETY: L3: the first node is alive while it is in the pile.
        if let Some(first) = unsafe { first.as_ref() } {
            first.previous.set(node);
        }
    }

    /// Removes a node.
    ///
    /// # Safety
    /// L3: the node is in this pile.
    #[inline]
    pub(crate) unsafe fn remove(&self, node: *const Link) {
        // SAFETY: L3, by this function's contract.
        let links = unsafe { &*node };
        let (next, previous) = (links.next.get(), links.previous.get());
        // SAFETY: L3: neighbours are in the pile and therefore alive.
        match unsafe { previous.as_ref() } {
            None => self.first.set(next),
            Some(previous) => previous.next.set(next),
        }
        // SAFETY: L3: neighbours are in the pile and therefore alive.
        if let Some(next) = unsafe { next.as_ref() } {
            next.previous.set(previous);
        }
    }

    /// Removes and returns a node, or returns null if there is none.
    #[cfg(test)]
    pub(crate) fn pop(&self) -> *const Link {
        let first = self.first.get();
        if !first.is_null() {
            // SAFETY: L3: the node is in this pile.
            unsafe { self.remove(first) };
        }
        first
    }
}

/// A circle of nodes, of which the head is one. Any code that has a node can remove it, without
/// access to the head.
#[derive(Debug)]
pub(crate) struct Ring {
    head: Link,
}

impl Ring {
    pub(crate) const fn new() -> Ring {
        Ring { head: Link::new() }
    }

    /// Makes the ring, whose links are null before, an empty circle.
    ///
    /// # Safety
    /// L3: the ring does not move after this.
    pub(crate) unsafe fn close(&self) {
        self.head.next.set(&raw const self.head);
        self.head.previous.set(&raw const self.head);
    }

    /// Inserts a node.
    ///
    /// # Safety
    /// L3: as for [`List::push_back`]. The ring has been closed.
    #[inline]
    pub(crate) unsafe fn push(&self, node: *const Link) {
        let first = self.head.next.replace(node);
        // SAFETY: L3, by this function's contract.
        let links = unsafe { &*node };
        links.next.set(first);
        links.previous.set(&raw const self.head);
        // SAFETY: L3: the first node is alive while it is in the ring, and so is the head.
        unsafe { &*first }.previous.set(node);
    }

    /// Removes a node from the ring that it is in.
    ///
    /// # Safety
    /// L3: the node is in a ring.
    #[inline]
    pub(crate) unsafe fn remove(node: *const Link) {
        // SAFETY: L3, by this function's contract.
        let links = unsafe { &*node };
        let (next, previous) = (links.next.get(), links.previous.get());
        // SAFETY: L3: neighbours are in the ring and therefore alive.
        unsafe { &*previous }.next.set(next);
        // SAFETY: L3: neighbours are in the ring and therefore alive.
        unsafe { &*next }.previous.set(previous);
    }

    /// Calls `f` with each node. `f` leaves the ring as it is.
    #[cfg(any(test, not(any(ecru_baton, miri, loom))))]
    pub(crate) fn for_each(&self, mut f: impl FnMut(*const Link)) {
        let mut node = self.head.next.get();
        while !node.is_null() && !ptr::eq(node, &raw const self.head) {
            f(node);
            // SAFETY: L3: the node is in the ring and therefore alive.
            node = unsafe { &*node }.next.get();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, Link, List, Pile, Ring};
    use std::ptr;

    #[test]
    fn nodes_leave_in_order_and_from_the_middle() {
        let nodes = [Link::new(), Link::new(), Link::new(), Link::new()];
        let list = List::new();
        for node in &nodes {
            // SAFETY: L3: each node is in no list and outlives this one.
            unsafe { list.push_back(node) };
        }
        // SAFETY: L3: the node was just inserted.
        unsafe { list.remove(&raw const nodes[1]) };
        // SAFETY: L3: the node was just inserted.
        unsafe { list.remove(&raw const nodes[3]) };
        assert!(ptr::eq(list.first(), &raw const nodes[0]));
        assert!(ptr::eq(nodes[0].next(), &raw const nodes[2]));
        assert!(nodes[2].next().is_null());
        for node in [&nodes[0], &nodes[2]] {
            // SAFETY: L3: the node is still in the list.
            unsafe { list.remove(node) };
        }
        assert!(list.is_empty());
    }

    #[test]
    fn a_line_loses_any_node_and_keeps_the_order_of_the_others() {
        let nodes = [Link::new(), Link::new(), Link::new(), Link::new()];
        for removed in 0..nodes.len() {
            let line = Line::new();
            for node in &nodes[..3] {
                // SAFETY: L3: each node is in no line and outlives this one.
                unsafe { line.push_back(node) };
            }
            if removed < 3 {
                // SAFETY: L3: the node was just inserted.
                unsafe { line.remove(&raw const nodes[removed]) };
            }
            // SAFETY: L3: the node is in no line, and outlives this one.
            unsafe { line.push_back(&raw const nodes[3]) };
            let mut left = Vec::new();
            loop {
                let node = line.pop();
                if node.is_null() {
                    break;
                }
                left.push(nodes.iter().position(|other| ptr::eq(other, node)).unwrap());
            }
            assert!(line.is_empty());
            let expected: Vec<_> = (0..4).filter(|node| *node != removed || removed == 3).collect();
            assert_eq!(left, expected);
        }
    }

    #[test]
    fn a_pile_loses_any_node_and_keeps_the_others() {
        let nodes = [Link::new(), Link::new(), Link::new()];
        for removed in 0..nodes.len() {
            let pile = Pile::new();
            for node in &nodes {
                // SAFETY: L3: each node is in no pile and outlives this one.
                unsafe { pile.push(node) };
            }
            // SAFETY: L3: the node was just inserted.
            unsafe { pile.remove(&raw const nodes[removed]) };
            let mut left = Vec::new();
            loop {
                let node = pile.pop();
                if node.is_null() {
                    break;
                }
                left.push(nodes.iter().position(|other| ptr::eq(other, node)).unwrap());
            }
            left.sort_unstable();
            assert_eq!(left, (0..3).filter(|node| *node != removed).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_ring_loses_any_node_and_keeps_the_others() {
        let nodes = [Link::new(), Link::new(), Link::new()];
        for removed in 0..nodes.len() {
            let ring = Ring::new();
            ring.for_each(|_| panic!("it is empty"));
            // SAFETY: L3: the ring stays here.
            unsafe { ring.close() };
            ring.for_each(|_| panic!("it is empty"));
            for node in &nodes {
                // SAFETY: L3: each node is in no ring and outlives this one.
                unsafe { ring.push(node) };
            }
            // SAFETY: L3: the node was just inserted.
            unsafe { Ring::remove(&raw const nodes[removed]) };
            let mut left = Vec::new();
            ring.for_each(|node| {
                left.push(nodes.iter().position(|other| ptr::eq(other, node)).unwrap());
            });
            let expected: Vec<_> = (0..3).rev().filter(|node| *node != removed).collect();
            assert_eq!(left, expected);
        }
    }
}
