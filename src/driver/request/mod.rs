//! Requests: the calls to the kernel that need no op, because they do not wait for another task,
//! process or machine. A call that waits for a device, such as a rename on a disk, is a request,
//! too. The caller decides on which thread it makes such a request.
//!
//! - A [`Request`](perform::Request) is a struct with the arguments of one call, and names the type
//!   of the answer. It is made by [`request`](fn@super::request), and in no other way. It names
//!   open files by their [descriptors](super::OwnedDescriptor), and answers with such.
//! - `socket`, `option`: sockets. `name`: host names.
//! - `descriptor`, `pipe`: descriptors of any kind, pipes and other means of notification.
//! - `file`, `path`, `directory`: open files, the names of files, and lists of names.
//!
//! Some requests carry kernel types as plain data: address families, flags, kinds of files.
//!
//! On a thread of a simulated program, a world (`driver::sim`) answers instead of the kernel.

/// Declares requests. A declaration has the request's name and fields, the type of its answer, and
/// the call.
macro_rules! requests {
    ($(
        $(#[$doc:meta])*
        $name:ident $(<$life:lifetime>)? { $($field:ident: $type:ty),* $(,)? } -> $answer:ty $call:block
    )*) => { $(
        $(#[$doc])*
        pub(crate) struct $name $(<$life>)? {
            $(pub(crate) $field: $type,)*
        }

        impl $(<$life>)? $crate::driver::request::perform::Request for $name $(<$life>)? {
            type Answer = $answer;

            #[inline]
            fn perform(self) -> std::io::Result<$answer> {
                let $name { $($field),* } = self;
                $call
            }

            #[cfg(feature = "sim")]
            fn simulate(self, world: &$crate::driver::sim::World) -> std::io::Result<$answer> {
                $crate::driver::sim::answers::Answer::answer(world, self).map_err($crate::driver::sim::error_on_this_host)
            }
        }
    )* };
}

mod descriptor;
mod directory;
mod file;
mod name;
mod option;
mod path;
pub(super) mod perform;
mod pipe;
mod socket;

pub(crate) use descriptor::*;
pub(crate) use directory::*;
pub(crate) use file::*;
pub(crate) use name::*;
pub(crate) use option::*;
pub(crate) use path::*;
pub(crate) use pipe::*;
pub(crate) use socket::*;

pub(crate) use rustix::fs::{FileType as FileKind, FlockOperation, OFlags};
pub(crate) use rustix::net::{AddressFamily, SocketType};
