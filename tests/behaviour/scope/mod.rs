//! `scope`, `try_scope`, children and joining.

mod cancelling;
mod children;
mod daemons;
mod failures;
mod joining;
mod start;
mod try_scope;
mod when;
