//! Coroutines and generators: computations that are suspended in the middle and resumed later, without a runtime.

pub(crate) mod leaked;
pub(crate) mod overflow;
pub(crate) mod stack;
pub(crate) mod switch;

pub use self::leaked::leaked_stacks;
pub use self::stack::{
    STACK_DEFAULT, STACK_FLOOR, Stack, StackPool, StackStatistics, remaining_stack,
};
