//! Whole programs that need something which only this crate can arrange.

#[cfg(feature = "sim")]
mod directed;
mod files_by_pool;
