//! The values of options as a simulated world keeps them: many of different types.

use std::time::Duration;

/// The value of an option, for code that keeps the values of many options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionValue {
    Flag(bool),
    Number(u32),
    Size(usize),
    Time(Duration),
    Limit(Option<Duration>),
}

/// The types of options' values.
pub(crate) trait OptionData: Copy {
    fn into_value(self) -> OptionValue;

    /// Returns `None` if the value is of another type.
    fn from_value(value: OptionValue) -> Option<Self>;
}

macro_rules! option_data {
    ($($type:ty => $kind:ident),*) => { $(
        impl OptionData for $type {
            fn into_value(self) -> OptionValue {
                OptionValue::$kind(self)
            }

            fn from_value(value: OptionValue) -> Option<$type> {
                match value {
                    OptionValue::$kind(value) => Some(value),
                    _ => None,
                }
            }
        }
    )* };
}

option_data! {
    bool => Flag,
    u32 => Number,
    usize => Size,
    Duration => Time,
    Option<Duration> => Limit
}
