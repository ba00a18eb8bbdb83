//! An intrusive doubly linked list.
