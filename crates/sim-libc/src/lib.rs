#![doc = include_str!("../README.md")]

#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    target_pointer_width = "64",
    not(target_feature = "crt-static"),
    not(miri)
))]
mod interpose;
#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    target_pointer_width = "64",
    not(target_feature = "crt-static"),
    not(miri)
))]
mod refuse;
