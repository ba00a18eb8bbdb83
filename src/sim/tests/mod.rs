//! Whole programs in simulations that need something which only this crate can arrange.

mod on_each_driver;
