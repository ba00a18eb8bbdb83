//! The answers of a world to requests. There is a file here for each file of requests.

use crate::driver::request::perform::Request;
use std::io;

/// What a world answers to requests of this kind.
pub(in crate::driver) trait Answer<R: Request> {
    /// Answers a request as the kernel would.
    ///
    /// # Errors
    /// Returns the errors of the system call that the request stands for, or `Unsupported` if the
    /// world does not simulate it.
    fn answer(&self, request: R) -> io::Result<R::Answer>;
}

/// Declares the requests that a world does not simulate. A declaration has the type of the request
/// and the name of the call that a program makes.
macro_rules! not_simulated {
    ($($request:ty => $call:literal),* $(,)?) => { $(
        impl $crate::driver::sim::answers::Answer<$request> for $crate::driver::sim::World {
            fn answer(
                &self,
                _: $request,
            ) -> std::io::Result<<$request as $crate::driver::request::perform::Request>::Answer>
            {
                Err($crate::driver::request::perform::unsupported($call))
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
mod pipe;
mod socket;

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::base::random::Generator;
    use crate::base::simulated::Simulated;
    use crate::driver::request::{OpenSocketPair, SocketType};
    use crate::driver::sim::World;
    use crate::driver::{OwnedDescriptor, request};
    use std::io;
    use std::time::Instant;

    fn open() -> io::Result<(OwnedDescriptor, OwnedDescriptor)> {
        request(OpenSocketPair { kind: SocketType::SEQPACKET })
    }

    #[test]
    fn the_world_of_the_thread_answers_instead_of_the_kernel() {
        open().expect("the kernel has such sockets");
        let simulated = Simulated::new(Instant::now());
        let entered = simulated.enter();
        open().expect_err("there is no world yet");
        World::create(Generator::new(0, 0));
        let error = open().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(error.to_string().contains("socketpair(2)"), "{error}");
        drop(entered);
        open().expect("the simulation is over");
    }
}
