//! The baton.
