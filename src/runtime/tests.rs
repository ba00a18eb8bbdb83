//! Whole programs that need something which only this crate can arrange.

mod files_by_pool;
#[cfg(not(loom))]
mod on_each_driver;
