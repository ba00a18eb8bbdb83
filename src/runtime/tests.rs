//! Whole programs that need something which only this crate can arrange.

mod files_by_pool;
