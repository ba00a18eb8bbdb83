//! The mistake: the error type of the tasks cannot say that a task has panicked.
//! What to do: implement `From<ecru::JoinError>`, or return an error that has it.

use std::num::ParseIntError;

fn main() {
    ecru::run(|| {
        ecru::scope(|s| {
            let numbers = ["7", "x"].map(|text| s.spawn(move || text.parse::<u32>()));
            let _: Result<u32, ParseIntError> = ecru::first_ok(numbers);
        });
    });
}
